//! Alerts and dashboard use the metrics that exist, every alert has a section of the runbook, and both copies of the rules
//! are the same.

use std::collections::BTreeSet;

use regex::Regex;

use crate::File;
use crate::metrics::METRICS_DOC;

const RULES: &str = "deploy/monitoring/rules.yaml";
const DASHBOARD: &str = "deploy/monitoring/dashboard.json";
const OPERATOR_RULES: &str = "k8s/components/monitoring/rules.yaml";
const RUNBOOK: &str = "docs/RUNBOOK.md";

/// What does not fit together.
pub fn violations(files: &[File]) -> Vec<String> {
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.map(|file| file.text.as_str()).unwrap_or_default()
    };
    let mut complaints = Vec::new();
    let known = documented(text(METRICS_DOC));
    for path in [RULES, DASHBOARD] {
        let used = used_metrics(text(path));
        if used.is_empty() {
            complaints.push(format!("{path} uses no metric"));
        }
        let unknown = used.difference(&known);
        complaints.extend(unknown.map(|name| format!("{path} uses {name}, which does not exist")));
    }
    let alerts = captured(text(RULES), r"(?m)^ *- alert: (\w+)$");
    let sections = captured(text(RUNBOOK), r"(?m)^## (\w+)$");
    let without = alerts.difference(&sections);
    complaints.extend(without.map(|alert| format!("{RUNBOOK} has no section on {alert}")));
    let orphans = sections.difference(&alerts);
    complaints
        .extend(orphans.map(|alert| format!("{RUNBOOK} explains {alert}, which is not an alert")));
    if groups(text(RULES), "") != groups(text(OPERATOR_RULES), "  ") {
        complaints.push(format!("{RULES} and {OPERATOR_RULES} differ"));
    }
    complaints
}

// Names with the suffixes of histograms.
fn documented(table: &str) -> BTreeSet<String> {
    let mut names = captured(table, r"(?m)^\| `(\w+)` \| (?:counter|gauge) ");
    for name in captured(table, r"(?m)^\| `(\w+)` \| histogram ") {
        names.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")));
    }
    names
}

// Names in expressions: words of Prometheus' form that are not part of a longer word or a path.
fn used_metrics(text: &str) -> BTreeSet<String> {
    captured(text, r"(?:^|[^\w/-])((?:stemma|process)_\w+)")
}

fn captured(text: &str, pattern: &str) -> BTreeSet<String> {
    let Ok(pattern) = Regex::new(pattern) else {
        return BTreeSet::new();
    };
    let found = pattern.captures_iter(text);
    found.map(|captures| captures[1].to_string()).collect()
}

// The lines from `groups:` on, without the indentation of the manifest.
fn groups<'a>(text: &'a str, indentation: &str) -> Vec<&'a str> {
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(indentation).unwrap_or(line));
    lines.skip_while(|line| *line != "groups:").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn rules_dashboard_and_runbook_fit_the_metrics() {
        let files = files(&root()).unwrap();
        assert_eq!(violations(&files), [""; 0]);
    }

    #[test]
    fn unknown_metrics_and_unexplained_alerts_are_violations() {
        let rules = "groups:\n  - alert: A\n    expr: stemma_x_total > 0\n";
        let files = [
            file(METRICS_DOC, "| `stemma_y_total` | counter | | y |"),
            file(RULES, rules),
            file(DASHBOARD, "\"stemma_y_total\""),
            file(OPERATOR_RULES, "spec:\n  groups:\n"),
            file(RUNBOOK, "## B\n"),
        ];
        assert_eq!(violations(&files).len(), 4, "{:?}", violations(&files));
    }
}
