//! Splits a file into the documents bound into it: a filing, its exhibits, and the agreements inside them.
//!
//! Numbering restarts in each document (two agreements in one file have the same ARTICLEs), so each is outlined by itself,
//! with its own table of contents.

use super::agreements;
use super::forms::SecForm;
use super::line_features::LineTable;
use super::numbering::{self, NumberClass};
use super::titles;
use super::weights::SAME_TITLE;

/// A span of rows that is one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoundDocument {
    pub(super) rows: std::ops::Range<usize>,
    /// Row of the exhibit heading, if the document begins with one.
    pub(super) heading: Option<usize>,
    /// First and last row of the title, if the document is an agreement.
    pub(super) title: Option<(usize, usize)>,
    /// Whether it belongs to the exhibit before it.
    pub(super) nested: bool,
}

impl BoundDocument {
    fn new(rows: std::ops::Range<usize>, heading: Option<usize>) -> Self {
        Self {
            rows,
            heading,
            title: None,
            nested: false,
        }
    }

    /// Whether it is the filing itself, or the only document.
    pub(super) fn is_main(&self) -> bool {
        self.heading.is_none() && self.title.is_none()
    }
}

// Exhibit headings are among the first lines of a page.
const TOP_LINES: usize = 5;

/// Splits at the headings of exhibits: `EXHIBIT 10.1` alone at the top of a page. A file that opens with one is that
/// exhibit.
pub(super) fn split_exhibits(lines: &LineTable<'_>) -> Vec<BoundDocument> {
    let mut documents = vec![BoundDocument::new(0..lines.rows.len(), None)];
    let mut current = String::new();
    for page in 0..lines.pages() {
        let mut top = lines.rows_on(page).take(TOP_LINES);
        let Some((at, number)) = top.find_map(|at| Some((at, exhibit_number(lines, at)?))) else {
            continue;
        };
        // Exhibits repeat their number on every page.
        if number == current {
            continue;
        }
        current = number.to_string();
        let start = lines.rows_on(page).start;
        if page == 0 {
            documents[0].heading = Some(at);
            continue;
        }
        if let Some(last) = documents.last_mut() {
            last.rows.end = start;
        }
        documents.push(BoundDocument::new(start..lines.rows.len(), Some(at)));
    }
    documents
}

/// Splits documents further where agreements begin: an exhibit may hold several, and a file may hold them without exhibits.
pub(super) fn split_agreements(
    lines: &LineTable<'_>,
    documents: Vec<BoundDocument>,
    form: Option<SecForm>,
) -> Vec<BoundDocument> {
    let mut cut = Vec::with_capacity(documents.len());
    for mut document in documents {
        let reads = !document.is_main() || matches!(form, None | Some(SecForm::Current));
        let titles = if reads {
            agreements::agreement_titles(lines, document.rows.clone())
        } else {
            Vec::new()
        };
        // The exhibit number above a release or a letter that fills the whole file is not a section of it.
        document.heading = document
            .heading
            .filter(|_| document.rows.start > 0 || !titles.is_empty());
        let end = document.rows.end;
        let exhibit = document.heading.is_some();
        for (n, &title) in titles.iter().enumerate() {
            let rows = agreements::title_rows(lines, title);
            if n == 0 && exhibit {
                document.title =
                    Some(rows).filter(|rows| !repeats_title(lines, document.heading, *rows));
                continue;
            }
            let start = lines.rows_on(lines.rows[title].page as usize).start;
            document.rows.end = start.max(document.rows.start);
            cut.push(document);
            document = BoundDocument {
                title: Some(rows),
                nested: exhibit,
                ..BoundDocument::new(start..end, None)
            };
        }
        cut.push(document);
    }
    cut.retain(|document| !document.rows.is_empty());
    cut
}

/// Whether the exhibit heading already contains the title of the agreement.
fn repeats_title(lines: &LineTable<'_>, heading: Option<usize>, title: (usize, usize)) -> bool {
    heading.is_some_and(|at| {
        titles::similarity(lines.rows[at].text, lines.rows[title.1].text) > SAME_TITLE
    })
}

/// The number in an exhibit heading. It must start with a digit, so that an agreement's own `EXHIBIT A` stays inside it.
fn exhibit_number<'a>(lines: &LineTable<'a>, at: usize) -> Option<&'a str> {
    let row = &lines.rows[at];
    let text = row.text;
    if text.len() > 120 {
        return None;
    }
    let text = text.trim();
    let bare = text.strip_prefix("EX-").map(|number| (number, ""));
    let read = numbering::first_number(text)
        .filter(|n| n.class == NumberClass::Exhibit)
        .map(|n| (n.text, n.rest));
    let (number, rest) = bare.or(read)?;
    let digits = number.starts_with(|c: char| c.is_ascii_digit()) && number.len() <= 8;
    // `EXHIBIT 10.1 CREDIT AGREEMENT` also occurs in lists of exhibits. With a title next to the number, the line must look
    // like a heading and open its page.
    let titled = (row.bold || row.caps)
        && !row.table
        && row.words <= 12
        && !text.ends_with('.')
        && lines.starts_page(at);
    let alone = rest.is_empty() || rest.eq_ignore_ascii_case("(continued)") || titled;
    (digits && alone && !number.contains(' ')).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    #[test]
    fn repeated_exhibit_head_starts_one_exhibit() {
        let mut doc = Doc::new(9);
        for page in 0..9 {
            if page >= 3 {
                doc.add(
                    page,
                    line(if page < 6 {
                        "Exhibit 10.1"
                    } else {
                        "EXHIBIT 99.1"
                    })
                    .at(480.0, 20.0),
                );
            }
            doc.prose(page, 10.0, 10);
        }
        doc.add(1, line("Exhibit 10.1 is filed herewith"));
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let starts: Vec<_> = split_exhibits(&lines)
            .iter()
            .map(|block| lines.rows[block.rows.start].page)
            .collect();
        assert_eq!(starts, [0, 3, 6]);
    }

    #[test]
    fn document_can_start_with_an_exhibit() {
        let mut doc = Doc::new(4);
        for page in 0..4 {
            doc.add(page, line("Exhibit 10.1").at(480.0, 20.0));
            doc.prose(page, 10.0, 10);
        }
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let blocks = split_exhibits(&lines);
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].heading, Some(0));
        assert!(!blocks[0].is_main());
    }
}
