//! The pages on which a document says what it is.

use std::ops::Range;

use stemma_document::text::normalize_key;
use stemma_document::{Fact, Line, PageNo, Source, SourceBody};

// An annual report to shareholders may precede the form, so the cover is not always on page one.
const FRONT_PAGES: usize = 15;
// Lines read per page; a text without pages has one front page of this length.
const FRONT_LINES: usize = 250;
const LINE_BYTES: usize = 400;

/// A front page: its non-blank lines, shortened.
#[derive(Debug)]
pub(super) struct FrontPage<'a> {
    pub(super) page: Option<PageNo>,
    pub(super) lines: Vec<&'a str>,
    /// The lines, normalized.
    pub(super) keys: Vec<String>,
    /// The same lines with layout; empty in a text.
    pub(super) layout: Vec<&'a Line>,
}

impl<'a> FrontPage<'a> {
    pub(super) fn new(page: Option<PageNo>, lines: Vec<&'a str>, layout: Vec<&'a Line>) -> Self {
        Self {
            page,
            keys: lines.iter().map(|line| normalize_key(line)).collect(),
            lines,
            layout,
        }
    }

    pub(super) fn fact(&self, value: impl Into<String>) -> Fact {
        Fact::from_text(value, self.page)
    }

    pub(super) fn words(&self) -> Vec<&'a str> {
        self.lines
            .iter()
            .flat_map(|line| line.split_whitespace())
            .collect()
    }
}

fn shorten(text: &str) -> &str {
    text[..text.floor_char_boundary(LINE_BYTES)].trim()
}

/// The pages on which a document says what it is.
pub(super) fn front_pages(source: &Source) -> Vec<FrontPage<'_>> {
    match &source.body {
        SourceBody::Lines(text) => {
            // Blank lines do not count: the header of a submission is left as thousands of them.
            let lines = text.lines.iter().map(|line| shorten(line));
            let lines = lines.filter(|line| !line.is_empty());
            vec![FrontPage::new(
                None,
                lines.take(FRONT_LINES).collect(),
                vec![],
            )]
        }
        SourceBody::Pages(pages) => {
            let mut front = Vec::new();
            for (index, page) in pages.iter().take(FRONT_PAGES).enumerate() {
                let layout: Vec<&Line> = page
                    .lines
                    .iter()
                    .take(FRONT_LINES)
                    .filter(|line| !line.text.trim().is_empty())
                    .collect();
                let lines = layout.iter().map(|line| shorten(&line.text)).collect();
                front.push(FrontPage::new(
                    Some(PageNo::from_index(index)),
                    lines,
                    layout,
                ));
            }
            front
        }
    }
}

/// Where the words of `caption` first occur, ignoring case and punctuation.
pub(super) fn find_caption(words: &[&str], caption: &str) -> Option<Range<usize>> {
    let caption: Vec<&str> = caption.split(' ').collect();
    let at = words.windows(caption.len()).position(|window| {
        window.iter().zip(&caption).all(|(word, caption)| {
            word.trim_matches(|c: char| !c.is_alphanumeric())
                .eq_ignore_ascii_case(caption)
        })
    })?;
    Some(at..at + caption.len())
}
