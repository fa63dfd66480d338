//! The table of metrics (`docs/OBSERVING.md`) matches the source: names, kinds and labels.

use std::collections::BTreeMap;

use crate::File;

pub const METRICS_DOC: &str = "docs/OBSERVING.md";

// Labels whose number of values grows with the amount of work.
const UNBOUNDED: [&str; 6] = ["doc", "document", "run", "job", "task", "key"];

// Kind and labels.
type MetricSignature = (String, Vec<String>);

/// Differences between table and source.
pub fn violations(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    let emitted = emitted(files, &mut complaints);
    let table = files
        .iter()
        .find(|file| file.path == METRICS_DOC)
        .map(|file| rows(&file.text))
        .unwrap_or_default();
    for (name, shape) in &emitted {
        match table.get(name) {
            None => complaints.push(format!("{name} is emitted and not in {METRICS_DOC}")),
            Some(row) if row != shape => {
                complaints.push(format!("{name} is {shape:?}, and {row:?} in {METRICS_DOC}"));
            }
            Some(_) => {}
        }
        let unbounded = shape
            .1
            .iter()
            .filter(|label| UNBOUNDED.contains(&label.as_str()));
        complaints.extend(
            unbounded.map(|label| format!("{name} has the label {label}, which is not bounded")),
        );
    }
    let unknown = table.keys().filter(|name| !emitted.contains_key(*name));
    complaints
        .extend(unknown.map(|name| format!("{name} is in {METRICS_DOC} and emitted nowhere")));
    complaints
}

// Metrics that the services emit.
fn emitted(files: &[File], complaints: &mut Vec<String>) -> BTreeMap<String, MetricSignature> {
    let mut emitted: BTreeMap<String, MetricSignature> = BTreeMap::new();
    for file in files
        .iter()
        .filter(|file: &&File| file.path.ends_with(".rs") && !file.path.starts_with("tests/"))
    {
        for kind in ["counter", "gauge", "histogram"] {
            for call in file.text.split(&format!("{kind}!(")).skip(1) {
                let call = call.split(';').next().unwrap_or_default().trim_start();
                let Some(name) = call
                    .strip_prefix('"')
                    .and_then(|call| call.split('"').next())
                else {
                    complaints.push(format!(
                        "{}: the name of a metric is to be written where it is emitted",
                        file.path
                    ));
                    continue;
                };
                let shape = (kind.to_string(), labels(call));
                match emitted.insert(name.to_string(), shape.clone()) {
                    Some(before) if before != shape => {
                        complaints.push(format!("{name} is {before:?} and {shape:?}"));
                    }
                    _ => {}
                }
            }
        }
    }
    emitted
}

// The words before `=>`, sorted.
fn labels(call: &str) -> Vec<String> {
    let words = call.split("=>").map(|part| {
        part.trim_end()
            .trim_end_matches('"')
            .rsplit('"')
            .next()
            .unwrap_or_default()
    });
    let mut labels: Vec<String> = words.map(ToString::to_string).collect();
    labels.pop(); // what follows the last arrow
    labels.sort();
    labels
}

// The rows of the table that begin with the name of a metric.
fn rows(text: &str) -> BTreeMap<String, MetricSignature> {
    text.lines()
        .filter_map(|line: &str| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, name, kind, labels, ..] = cells.as_slice() else {
                return None;
            };
            let name = name.strip_prefix('`')?.strip_suffix('`')?;
            // What Prometheus' own clients report has no prefix of ours.
            if !name.starts_with("stemma_") && !name.starts_with("process_") {
                return None;
            }
            let mut labels: Vec<String> = labels
                .split(',')
                .map(|label| label.trim().to_string())
                .collect();
            labels.retain(|label| !label.is_empty());
            labels.sort();
            Some((name.to_string(), ((*kind).to_string(), labels)))
        })
        .collect()
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
    fn documented_metrics_match_the_source() {
        let files = files(&root()).unwrap();
        assert!(
            emitted(&files, &mut Vec::new()).len() > 10,
            "nothing was looked at"
        );
        assert_eq!(violations(&files), [""; 0]);
    }

    #[test]
    fn metric_differences_are_violations() {
        let source =
            "fn f() { counter!(\"stemma_a_total\", \"stage\" => s, \"run\" => r).increment(1); }";
        let table = "| `stemma_a_total` | gauge | stage, run | x |\n| `stemma_b` | gauge | | x |";
        let reported = violations(&[file("shared/x.rs", source), file(METRICS_DOC, table)]);
        assert_eq!(reported.len(), 3, "{reported:?}");
        let table = "| `stemma_a_total` | counter | run, stage | x |";
        assert_eq!(
            violations(&[file("shared/x.rs", source), file(METRICS_DOC, table)]).len(),
            1
        );
        assert_eq!(
            violations(&[file("shared/x.rs", "gauge!(NAME).set(1.0);")]).len(),
            1
        );
    }
}
