//! Passages: pages, sections of documents without pages, and parts of either with very much text.

use stemma_document::text;
use stemma_reading::document_reading::LineReadings;
use stemma_reading::page_features::PageLine;

// A page has 3,000 to 8,000 bytes. Sections of documents without pages can be much longer, and are several passages.
const MAX_PASSAGE_BYTES: usize = 48 << 10;

// A line of a passage, the index of its section in pre-order, and its number (1-based) on the page or in the text.
#[derive(Clone, Copy)]
pub(super) struct SectionLine<'a> {
    pub(super) section: usize,
    pub(super) number: u32,
    pub(super) line: PageLine<'a>,
}

impl<'a> SectionLine<'a> {
    pub(super) fn new(section: usize, line: &text::BodyLine<'a>, readings: &LineReadings) -> Self {
        Self {
            section,
            number: line.number,
            line: PageLine {
                text: line.text,
                reading: readings.line(line.page, line.number),
            },
        }
    }
}

// A page, or a section of a document without pages, or a part of one with very much text.
pub(super) struct Passage<'a> {
    // 1-based; `None` for a section.
    pub(super) page: Option<u32>,
    // Printed page number, if it differs from the physical one.
    pub(super) label: Option<String>,
    pub(super) lines: Vec<PageLine<'a>>,
    // Indexes of its sections in pre-order, with the line (0-based) on which each starts.
    pub(super) sections: Vec<(usize, usize)>,
    // The figure entries of each section.
    pub(super) figures: Vec<Vec<String>>,
    // Indexes of the sections that start here.
    pub(super) starting: Vec<usize>,
}

// Cuts lines into parts of at most `MAX_PASSAGE_BYTES`, so that an entry takes little memory and a snippet can show any
// of the text. There is at least one part.
pub(super) fn split_lines<'a>(lines: &[SectionLine<'a>]) -> Vec<Vec<SectionLine<'a>>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for SectionLine {
        section,
        number,
        line,
    } in lines
    {
        for text in pieces(line.text) {
            if bytes + text.len() > MAX_PASSAGE_BYTES && bytes > 0 {
                parts.push(std::mem::take(&mut part));
                bytes = 0;
            }
            bytes += text.len() + 1;
            let line = PageLine { text, ..*line };
            part.push(SectionLine {
                section: *section,
                number: *number,
                line,
            });
        }
    }
    parts.push(part);
    parts
}

// A line in pieces that fit into one passage, cut at spaces.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = text.floor_char_boundary(MAX_PASSAGE_BYTES);
        if end < text.len() {
            end = text[..end].rfind(' ').filter(|at| *at > 0).unwrap_or(end);
        }
        let (piece, next) = text.split_at(end);
        rest = Some(next).filter(|next| !next.is_empty());
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use stemma_reading::lines::LineReading;

    use super::*;

    #[test]
    fn long_texts_are_several_passages_and_lose_nothing() {
        let long = "word ".repeat(30_000);
        let line = |text| SectionLine {
            section: 3,
            number: 1,
            line: PageLine {
                text,
                reading: LineReading::default(),
            },
        };
        let parts = split_lines(&[line("title"), line(""), line(&long), line("end")]);
        assert_eq!(parts.len(), 5);
        let bytes = |part: &Vec<SectionLine<'_>>| -> usize {
            part.iter().map(|line| line.line.text.len()).sum()
        };
        assert!(parts.iter().all(|part| bytes(part) <= MAX_PASSAGE_BYTES));
        let text: String = parts.iter().flatten().map(|line| line.line.text).collect();
        assert_eq!(text, format!("title{long}end"));
        assert_eq!(split_lines(&[]).len(), 1);
        let unbroken = "é".repeat(MAX_PASSAGE_BYTES);
        assert_eq!(
            pieces(&unbroken).map(str::len).sum::<usize>(),
            unbroken.len()
        );
    }
}
