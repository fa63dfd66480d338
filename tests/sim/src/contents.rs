//! Tables of contents: which pages are one, and what stands in their rows.

use std::sync::LazyLock;

use regex::Regex;

use crate::titles::{ALIKE, Title, squash};
use crate::truth::Known;

/// Pages at the front that may be a table of contents, where the truth does not say.
const FRONT: u32 = 20;
/// Lines that one row may be broken over.
const LINES: usize = 4;
/// Rows that make a table of contents, where there are as many sections.
const ROWS: usize = 6;
/// Share of the sections that a table of contents must list to list them all: a heading of its own may be missing.
const ALL: f64 = 0.985;

#[expect(
    clippy::unwrap_used,
    reason = "a pattern that does not change; a test uses it"
)]
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    let label = "(?:[A-Z]{1,2}-?)?[0-9]{1,4}|[ivxlc]{1,7}";
    Regex::new(&format!(
        "^(.*?)(?:^|[\\s.…·_]+)({label})(?:\\s*[-–]\\s*(?:{label}))?\\s*$"
    ))
    .unwrap()
});

/// A row: what is listed, and the page number printed beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) title: String,
    /// Empty where there is none.
    pub(crate) label: String,
    /// The section it is in truth.
    pub(crate) node: Option<usize>,
}

/// Pages of a document that are its table of contents, and whether they list every section.
pub(crate) fn of(known: &Known, pages: &[String]) -> (Vec<u32>, bool) {
    let nodes = known.truth.nodes.len();
    let stated = known.truth.toc_pages.as_slice();
    let lists = |page: u32, text: &str| {
        let rows = rows(text, Some(known));
        let listed: Vec<_> = rows
            .iter()
            .filter(|row: &&Row| {
                row.node
                    .is_some_and(|node| known.truth.nodes[node].page != page)
            })
            .collect();
        let labeled = listed.iter().filter(|row| !row.label.is_empty()).count();
        listed.len() >= ROWS.min(nodes / 2).max(3)
            && (2 * labeled >= listed.len() || 2 * listed.len() >= text.lines().count())
    };
    let found: Vec<(u32, &String)> = (1..)
        .zip(pages)
        .filter(|(page, text): &(u32, &String)| {
            if stated.is_empty() {
                *page <= FRONT && lists(*page, text)
            } else {
                stated.contains(page)
            }
        })
        .collect();
    let text = found
        .iter()
        .map(|(_, text)| text.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    let listed = rows(&text, Some(known))
        .iter()
        .filter(|row| row.node.is_some())
        .count();
    (
        found.into_iter().map(|(page, _)| page).collect(),
        nodes > 0 && listed as f64 >= ALL * nodes as f64,
    )
}

/// The rows of contents pages: those that are sections in truth, and what else looks like a row.
pub(crate) fn rows(text: &str, known: Option<&Known>) -> Vec<Row> {
    let lines: Vec<(String, String)> = text
        .lines()
        .map(split)
        .filter(|(title, label)| !(title.is_empty() && label.is_empty()))
        .collect();
    let mut rows = Vec::new();
    let mut at = 0;
    for (begin, length, node) in known
        .map(|known| sections(&lines, known))
        .unwrap_or_default()
    {
        rows.extend(by_shape(&lines[at..begin]));
        let (title, label) = joined(&lines[begin..begin + length]);
        rows.push(Row {
            title,
            label,
            node: Some(node),
        });
        at = begin + length;
    }
    rows.extend(by_shape(&lines[at..]));
    rows
}

/// Which lines (begin and number) are which sections: most of them, in the order of both.
fn sections(lines: &[(String, String)], known: &Known) -> Vec<(usize, usize, usize)> {
    let nodes = &known.titles;
    let spans: Vec<Vec<Title>> = (0..lines.len()).map(|at| titles_at(lines, at)).collect();
    let at = |i: usize, j: usize| i * (nodes.len() + 1) + j;
    let mut best = vec![0.0_f64; (lines.len() + 1) * (nodes.len() + 1)];
    let mut choice: Vec<Option<usize>> = vec![None; best.len()];
    for i in (0..lines.len()).rev() {
        for j in (0..nodes.len()).rev() {
            best[at(i, j)] = best[at(i + 1, j)].max(best[at(i, j + 1)]);
            for (length, title) in (1..).zip(&spans[i]) {
                let likeness = title.likeness(&nodes[j]);
                let sum = likeness + best[at(i + length, j + 1)];
                // A label on a line of its own belongs to the row.
                let label = lines[i + length - 1].0.is_empty() && sum >= best[at(i, j)];
                if likeness >= ALIKE && (sum > best[at(i, j)] || label) {
                    (best[at(i, j)], choice[at(i, j)]) = (sum, Some(length));
                }
            }
        }
    }
    let mut found = Vec::new();
    let mut i = 0;
    let mut j = 0;
    while i < lines.len() && j < nodes.len() {
        if let Some(length) = choice[at(i, j)] {
            found.push((i, length, j));
            (i, j) = (i + length, j + 1);
        } else if best[at(i, j)] == best[at(i + 1, j)] {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

/// The titles that begin at a line: of it alone, of it and the next …, up to the first line with a label.
fn titles_at(lines: &[(String, String)], at: usize) -> Vec<Title> {
    let mut titles = Vec::new();
    for length in 1..=LINES.min(lines.len() - at) {
        titles.push(Title::of(&joined(&lines[at..at + length]).0));
        if !lines[at + length - 1].1.is_empty() {
            break;
        }
    }
    titles
}

fn joined(lines: &[(String, String)]) -> (String, String) {
    let titles = lines
        .iter()
        .map(|(title, _)| title.as_str())
        .filter(|title| !title.is_empty());
    (
        titles.collect::<Vec<_>>().join(" "),
        lines
            .last()
            .map(|(_, label)| label.clone())
            .unwrap_or_default(),
    )
}

/// What looks like a row: words and a label, with a bare number on the line before.
fn by_shape(lines: &[(String, String)]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, (title, label)) in lines.iter().enumerate() {
        let before = at
            .checked_sub(1)
            .map(|at| &lines[at])
            .filter(|(title, label)| label.is_empty() && is_bare(title));
        let title = before.map_or_else(|| title.clone(), |(number, _)| format!("{number} {title}"));
        if !label.is_empty() && squash(&title).chars().filter(|c| c.is_alphabetic()).count() > 2 {
            rows.push(Row {
                title,
                label: label.clone(),
                node: None,
            });
        }
    }
    rows
}

/// A number and nothing else: `Item 1A.`
fn is_bare(title: &str) -> bool {
    let prepared = Title::of(&format!("{title} x"));
    !prepared.number.is_empty() && squash(title).chars().count() <= 8
}

/// A line without its label and what leads to it.
fn split(line: &str) -> (String, String) {
    let line = line.trim();
    let Some(found) = LABEL.captures(line) else {
        return (line.into(), String::new());
    };
    let title = found.get(1).map_or("", |title| title.as_str());
    (
        title
            .trim_end_matches(|c: char| c.is_whitespace() || ".…·_".contains(c))
            .into(),
        found[2].into(),
    )
}

/// Whether a page of nobody knows which document is a table of contents, and whether it has page numbers.
pub(crate) fn looks(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let rows = rows(text, None).len();
    rows >= ROWS - 1 && 2 * rows >= lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_stands_at_the_end_of_a_row() {
        let split = |line: &str| {
            let (title, label) = split(line);
            format!("{title}|{label}")
        };
        assert_eq!(split("Item 1. Business 3"), "Item 1. Business|3");
        assert_eq!(split("Risk Factors . . . . . . F-12"), "Risk Factors|F-12");
        assert_eq!(split("Preface.........iv"), "Preface|iv");
        assert_eq!(split("Exhibits 94-97"), "Exhibits|94");
        assert_eq!(split("17"), "|17");
        assert_eq!(split("PART I."), "PART I.|");
        assert_eq!(split("Signatures"), "Signatures|");
    }

    #[test]
    fn rows_are_joined_over_lines_and_known_as_what_they_are() {
        use crate::truth::{Node, Truth};
        let titles = [
            "PART I",
            "Item 1. Business",
            "Item 1A. Risk Factors",
            "Item 2. Properties and everything else",
        ];
        let nodes = titles
            .iter()
            .enumerate()
            .map(|(at, title): (usize, &&str)| Node {
                title: (*title).into(),
                level: 1,
                page: 3 + at as u32,
            })
            .collect();
        let text = "Page\nPART I\nItem 1.\nBusiness\n3\nMore about it 4\nItem 1A. Risk Factors ... 5\nItem 2. Properties and\n\
                    everything else 9\nSee page 4 of it.";
        let texts = crate::truth::Texts {
            doc: "a".into(),
            pages: vec![text.into()],
        };
        let truth = Truth {
            doc: "a".into(),
            pages: 20,
            nodes,
            toc_pages: vec![],
        };
        let library = crate::truth::Library::new(vec![truth], vec![texts]);
        let known = &library.documents[0];
        assert_eq!(
            (known.contents.as_slice(), known.complete),
            (&[1][..], true)
        );
        let rows = rows(text, Some(known));
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.title.as_str(), row.label.as_str(), row.node))
            .collect();
        let wanted = [
            ("PART I", "", Some(0)),
            ("Item 1. Business", "3", Some(1)),
            ("More about it", "4", None),
            ("Item 1A. Risk Factors", "5", Some(2)),
            ("Item 2. Properties and everything else", "9", Some(3)),
        ];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn contents_of_unknown_documents_are_known_by_their_shape() {
        let contents = "CONTENTS\nItem 1.\nBusiness 3\nRisk Factors ... 9\nProperties 11\nLegal Proceedings 12\nSignatures 40";
        assert!(looks(contents));
        assert_eq!(
            rows(contents, None)[0],
            Row {
                title: "Item 1. Business".into(),
                label: "3".into(),
                node: None
            }
        );
        assert!(!looks(
            "Net sales were\n5,321\nand rose by 5 %\nin all of\n2023\nand more"
        ));
    }
}
