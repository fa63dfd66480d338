//! A page, or lines of a document without pages, in which quotes are searched.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use stemma_document::{Line, Page, Rect, Word, WordReading};

// A gap between words wider than this many line heights separates columns.
const COLUMN_GAP: f32 = 0.8;

/// Lines in which quotes are searched.
#[derive(Debug, Clone, Copy)]
pub enum SourceLines<'a> {
    /// A page with coordinates.
    Page(&'a Page),
    /// Lines without.
    Text(&'a [String]),
}

#[derive(Debug, Clone, Copy)]
pub struct QuoteTarget<'a> {
    /// Physical page, or the first line in a document without pages; both 1-based.
    pub number: u32,
    pub lines: SourceLines<'a>,
}

impl<'a> QuoteTarget<'a> {
    pub fn page(number: u32, page: &'a Page) -> Self {
        Self {
            number,
            lines: SourceLines::Page(page),
        }
    }

    /// Lines of a document without pages; `first` is the number of the first (1-based).
    pub fn text(first: u32, lines: &'a [String]) -> Self {
        Self {
            number: first,
            lines: SourceLines::Text(lines),
        }
    }

    /// Lines with their index; `body` leaves out running heads and feet.
    pub(crate) fn lines(self, body: bool) -> impl Iterator<Item = (usize, &'a str)> {
        let count = match self.lines {
            SourceLines::Page(page) => page.lines.len(),
            SourceLines::Text(lines) => lines.len(),
        };
        (0..count)
            .filter(move |at| !(body && self.layout(*at).is_some_and(Line::is_furniture)))
            .map(move |at| (at, self.line(at)))
    }

    /// A line by its index; empty if there is none.
    pub(crate) fn line(&self, at: usize) -> &'a str {
        match self.lines {
            SourceLines::Page(page) => page.lines.get(at).map_or("", |line| line.text.as_str()),
            SourceLines::Text(lines) => lines.get(at).map_or("", String::as_str),
        }
    }

    /// Its lines, joined.
    pub(crate) fn full_text(&self) -> String {
        let lines = self.lines(false).map(|(_, line)| line);
        lines.collect::<Vec<_>>().join("\n")
    }

    // A line with coordinates.
    fn layout(&self, at: usize) -> Option<&'a Line> {
        match self.lines {
            SourceLines::Page(page) => page.lines.get(at),
            SourceLines::Text(_) => None,
        }
    }

    // The words at bytes of a line with their readings, if text recognition read them.
    pub(super) fn readings(&self, at: usize, bytes: &Range<usize>) -> Vec<(&'a str, WordReading)> {
        let SourceLines::Page(page) = self.lines else {
            return Vec::new();
        };
        let (Some(read), Some(line)) = (page.recognition(), page.lines.get(at)) else {
            return Vec::new();
        };
        let before = page.lines[..at].iter().map(|line| line.words.len());
        let words = line.words.iter().zip(read.words().skip(before.sum()));
        words
            .filter(|(word, _)| line.words_at(bytes).any(|quoted| quoted == *word))
            .map(|(word, reading)| {
                let text = line.text.get(word.start as usize..word.end as usize);
                (text.unwrap_or_default(), reading)
            })
            .collect()
    }

    // One rectangle per column at bytes of a line; none without coordinates.
    pub(super) fn rects(&self, at: usize, bytes: &Range<usize>) -> Vec<CitedRect> {
        let (SourceLines::Page(page), Some(line)) = (self.lines, self.layout(at)) else {
            return Vec::new();
        };
        let gap = line.rect.height().max(1.0) * COLUMN_GAP;
        // A line whose words have no coordinates counts whole.
        let whole = Some(line.rect).filter(|_| line.words.is_empty());
        let mut columns: Vec<Rect> = whole.into_iter().collect();
        for Word { x0, x1, .. } in line.words_at(bytes) {
            match columns.last_mut() {
                Some(column) if x0.points() - column.x1.points() <= gap && *x1 >= column.x0 => {
                    column.x0 = column.x0.min(*x0);
                    column.x1 = column.x1.max(*x1);
                }
                _ => columns.push(Rect {
                    x0: *x0,
                    x1: *x1,
                    ..line.rect
                }),
            }
        }
        let shares = columns.into_iter().map(|column| page.shares(column));
        shares
            .map(|[x, y, w, h]| CitedRect {
                page: self.number,
                x,
                y,
                w,
                h,
            })
            .collect()
    }
}

/// A rectangle on a page in shares (0–1) of its width and height, origin at the top left, rounded to 0.0001.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CitedRect {
    /// Physical page (1-based).
    pub page: u32,
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}
