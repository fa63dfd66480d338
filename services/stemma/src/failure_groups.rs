//! Failures for people: those with the same code and next step are one line with a count.

use crate::output::clean;
use crate::table::counted;

// Documents named of a group.
const EXAMPLES: usize = 3;

/// A failed document.
#[derive(Debug, Clone, Copy)]
pub struct FailureLine<'a> {
    /// What a person calls the document.
    pub name: &'a str,
    pub code: &'a str,
    pub message: &'a str,
    pub next: Option<&'a str>,
}

/// Failures with the same code and next step.
#[derive(Debug)]
pub struct FailureGroup<'a> {
    first: FailureLine<'a>,
    // Names of the first documents.
    names: Vec<&'a str>,
    documents: usize,
    // Whether all say the same.
    is_same_message: bool,
}

/// Groups failures, the most frequent first, and equally frequent ones in the given order.
pub fn group<'a>(failures: impl Iterator<Item = FailureLine<'a>>) -> Vec<FailureGroup<'a>> {
    let mut groups: Vec<FailureGroup<'a>> = Vec::new();
    for failure in failures {
        match groups
            .iter_mut()
            .find(|group| (group.first.code, group.first.next) == (failure.code, failure.next))
        {
            Some(group) => {
                group.documents += 1;
                group.is_same_message &= group.first.message == failure.message;
                if group.names.len() < EXAMPLES {
                    group.names.push(failure.name);
                }
            }
            None => groups.push(FailureGroup {
                first: failure,
                names: vec![failure.name],
                documents: 1,
                is_same_message: true,
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.documents));
    groups
}

impl FailureGroup<'_> {
    /// What failed and why, then which documents if there are several, then the next step.
    pub fn lines(&self) -> Vec<String> {
        let first = self.first;
        let code = clean(first.code);
        let message = clean(first.message);
        let mut lines = Vec::new();
        if self.documents == 1 {
            lines.push(format!("{}  {code}: {message}", clean(first.name)));
        } else {
            let documents = counted(self.documents, "document");
            let example = if self.is_same_message { "" } else { "e.g. " };
            lines.push(format!("{documents}  {code}: {example}{message}"));
            lines.push(format!("  {}", self.examples()));
        }
        lines.extend(first.next.map(|next| format!("  next: {}", clean(next))));
        lines
    }

    /// Whether documents are only counted.
    pub fn leaves_names_out(&self) -> bool {
        self.documents > self.names.len()
    }

    pub fn documents(&self) -> usize {
        self.documents
    }

    fn examples(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| clean(name)).collect();
        match (self.documents - names.len(), names.join(", ")) {
            (0, names) => names,
            (more, names) => format!("{names} and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_failures_are_one_line_with_a_count() {
        let names: Vec<String> = (1..=19).map(|n| format!("scan-{n:02}.pdf")).collect();
        let scans = names.iter().map(|name| FailureLine {
            name,
            code: "ocr.no_engine",
            message: "no engine",
            next: Some("install it"),
        });
        let other = FailureLine {
            name: "x.pdf",
            code: "pdf.encrypted",
            message: "it is encrypted",
            next: None,
        };
        let groups = group(std::iter::once(other).chain(scans));
        let lines: Vec<String> = groups.iter().flat_map(FailureGroup::lines).collect();
        assert_eq!(
            lines,
            [
                "19 documents  ocr.no_engine: no engine",
                "  scan-01.pdf, scan-02.pdf, scan-03.pdf and 16 more",
                "  next: install it",
                "x.pdf  pdf.encrypted: it is encrypted",
            ]
        );
    }

    #[test]
    fn failures_with_another_next_step_stay_apart() {
        let line = |name, message, next| FailureLine {
            name,
            code: "input.unreadable",
            message,
            next: Some(next),
        };
        let groups = group(
            [
                line("a", "a is a pipe", "name a file"),
                line("b", "b is a pipe", "name a file"),
                line("c", "no right", "ask for it"),
            ]
            .into_iter(),
        );
        let lines: Vec<String> = groups.iter().flat_map(FailureGroup::lines).collect();
        assert_eq!(
            lines,
            [
                "2 documents  input.unreadable: e.g. a is a pipe",
                "  a, b",
                "  next: name a file",
                "c  input.unreadable: no right",
                "  next: ask for it",
            ]
        );
    }
}
