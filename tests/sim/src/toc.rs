//! Tables of contents: which pages are one, and their rows.

use std::sync::LazyLock;

use regex::Regex;

use crate::titles::{ALIKE, NormalizedTitle, squash};
use crate::truth::KnownDocument;

// Pages at the front that may be a table of contents, if the truth does not say.
const MAX_FRONT_PAGES: u32 = 20;
// Most lines of a wrapped row.
const MAX_ROW_LINES: usize = 4;
// Fewest rows of a table of contents, if there are as many sections.
const MIN_ROWS: usize = 6;
// A table lists all sections if it lists this share, since its own heading may be missing.
const COMPLETE_SHARE: f64 = 0.985;

#[expect(clippy::unwrap_used, reason = "constant pattern, covered by a test")]
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    let label = "(?:[A-Z]{1,2}-?)?[0-9]{1,4}|[ivxlc]{1,7}";
    Regex::new(&format!(
        "^(.*?)(?:^|[\\s.…·_]+)({label})(?:\\s*[-–]\\s*(?:{label}))?\\s*$"
    ))
    .unwrap()
});

/// A row: the title, and the page number printed beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrintedRow {
    pub(crate) title: String,
    /// Empty if there is none.
    pub(crate) label: String,
    /// The known section of the row.
    pub(crate) node: Option<usize>,
}

/// The pages of the table of contents, and whether they list every section.
pub(crate) fn find_toc(document: &KnownDocument, pages: &[String]) -> (Vec<u32>, bool) {
    let nodes = document.truth.nodes.len();
    let stated = document.truth.toc_pages.as_slice();
    let lists = |page: u32, text: &str| {
        let rows = rows(text, Some(document));
        let listed: Vec<_> = rows
            .iter()
            .filter(|row: &&PrintedRow| {
                row.node
                    .is_some_and(|node| document.truth.nodes[node].page != page)
            })
            .collect();
        let labeled = listed.iter().filter(|row| !row.label.is_empty()).count();
        listed.len() >= MIN_ROWS.min(nodes / 2).max(3)
            && (2 * labeled >= listed.len() || 2 * listed.len() >= text.lines().count())
    };
    let toc_pages: Vec<(u32, &String)> = (1..)
        .zip(pages)
        .filter(|(page, text): &(u32, &String)| {
            if stated.is_empty() {
                *page <= MAX_FRONT_PAGES && lists(*page, text)
            } else {
                stated.contains(page)
            }
        })
        .collect();
    let text = toc_pages
        .iter()
        .map(|(_, text)| text.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    let listed = rows(&text, Some(document))
        .iter()
        .filter(|row| row.node.is_some())
        .count();
    (
        toc_pages.into_iter().map(|(page, _)| page).collect(),
        nodes > 0 && listed as f64 >= COMPLETE_SHARE * nodes as f64,
    )
}

/// The rows of contents pages: known sections, and other lines that look like rows.
pub(crate) fn rows(text: &str, document: Option<&KnownDocument>) -> Vec<PrintedRow> {
    let lines: Vec<(String, String)> = text
        .lines()
        .map(split)
        .filter(|(title, label)| !(title.is_empty() && label.is_empty()))
        .collect();
    let mut rows = Vec::new();
    let mut at = 0;
    for (begin, length, node) in document
        .map(|document| sections(&lines, document))
        .unwrap_or_default()
    {
        rows.extend(by_shape(&lines[at..begin]));
        let (title, label) = joined(&lines[begin..begin + length]);
        rows.push(PrintedRow {
            title,
            label,
            node: Some(node),
        });
        at = begin + length;
    }
    rows.extend(by_shape(&lines[at..]));
    rows
}

// Matches lines (start and number) to sections: as many as possible, in the order of both.
fn sections(lines: &[(String, String)], document: &KnownDocument) -> Vec<(usize, usize, usize)> {
    let nodes = &document.titles;
    let spans: Vec<Vec<NormalizedTitle>> =
        (0..lines.len()).map(|at| titles_at(lines, at)).collect();
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
    let mut assigned = Vec::new();
    let mut i = 0;
    let mut j = 0;
    while i < lines.len() && j < nodes.len() {
        if let Some(length) = choice[at(i, j)] {
            assigned.push((i, length, j));
            (i, j) = (i + length, j + 1);
        } else if best[at(i, j)] == best[at(i + 1, j)] {
            i += 1;
        } else {
            j += 1;
        }
    }
    assigned
}

// Possible titles from a line on: the line alone, with the next one, and so on up to the first line with a
// label.
fn titles_at(lines: &[(String, String)], at: usize) -> Vec<NormalizedTitle> {
    let mut titles = Vec::new();
    for length in 1..=MAX_ROW_LINES.min(lines.len() - at) {
        titles.push(NormalizedTitle::parse(&joined(&lines[at..at + length]).0));
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

// Looks like a row: words and a label, or a bare number on the line before.
fn by_shape(lines: &[(String, String)]) -> Vec<PrintedRow> {
    let mut rows: Vec<PrintedRow> = Vec::new();
    for (at, (title, label)) in lines.iter().enumerate() {
        let before = at
            .checked_sub(1)
            .map(|at| &lines[at])
            .filter(|(title, label)| label.is_empty() && is_bare(title));
        let title = before.map_or_else(|| title.clone(), |(number, _)| format!("{number} {title}"));
        if !label.is_empty() && squash(&title).chars().filter(|c| c.is_alphabetic()).count() > 2 {
            rows.push(PrintedRow {
                title,
                label: label.clone(),
                node: None,
            });
        }
    }
    rows
}

// A number and nothing else: `Item 1A.`
fn is_bare(title: &str) -> bool {
    let prepared = NormalizedTitle::parse(&format!("{title} x"));
    !prepared.number.is_empty() && squash(title).chars().count() <= 8
}

// A line without its label and leader.
fn split(line: &str) -> (String, String) {
    let line = line.trim();
    let Some(captures) = LABEL.captures(line) else {
        return (line.into(), String::new());
    };
    let title = captures.get(1).map_or("", |title| title.as_str());
    (
        title
            .trim_end_matches(|c: char| c.is_whitespace() || ".…·_".contains(c))
            .into(),
        captures[2].into(),
    )
}

/// Whether a page of an unknown document is a table of contents, and whether it has page numbers.
pub(crate) fn looks_like_toc(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let rows = rows(text, None).len();
    rows >= MIN_ROWS - 1 && 2 * rows >= lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_labels_are_split_from_row_ends() {
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
    fn wrapped_rows_are_joined_and_matched_to_sections() {
        use crate::truth::{KnownOutline, KnownSection};
        let titles = [
            "PART I",
            "Item 1. Business",
            "Item 1A. Risk Factors",
            "Item 2. Properties and everything else",
        ];
        let nodes = titles
            .iter()
            .enumerate()
            .map(|(at, title): (usize, &&str)| KnownSection {
                title: (*title).into(),
                level: 1,
                page: 3 + at as u32,
            })
            .collect();
        let text = "Page\nPART I\nItem 1.\nBusiness\n3\nMore about it 4\nItem 1A. Risk Factors ... 5\nItem 2. Properties and\n\
                    everything else 9\nSee page 4 of it.";
        let texts = crate::truth::PageTexts {
            doc: "a".into(),
            pages: vec![text.into()],
        };
        let truth = KnownOutline {
            doc: "a".into(),
            pages: 20,
            nodes,
            toc_pages: vec![],
        };
        let library = crate::truth::Library::new(vec![truth], vec![texts]);
        let document = &library.documents[0];
        assert_eq!(
            (document.contents.as_slice(), document.complete),
            (&[1][..], true)
        );
        let rows = rows(text, Some(document));
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.title.as_str(), row.label.as_str(), row.node))
            .collect();
        let expected = [
            ("PART I", "", Some(0)),
            ("Item 1. Business", "3", Some(1)),
            ("More about it", "4", None),
            ("Item 1A. Risk Factors", "5", Some(2)),
            ("Item 2. Properties and everything else", "9", Some(3)),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn toc_of_unknown_documents_is_detected_by_shape() {
        let contents = "CONTENTS\nItem 1.\nBusiness 3\nRisk Factors ... 9\nProperties 11\nLegal Proceedings 12\nSignatures 40";
        assert!(looks_like_toc(contents));
        assert_eq!(
            rows(contents, None)[0],
            PrintedRow {
                title: "Item 1. Business".into(),
                label: "3".into(),
                node: None
            }
        );
        assert!(!looks_like_toc(
            "Net sales were\n5,321\nand rose by 5 %\nin all of\n2023\nand more"
        ));
    }
}
