//! A page, or lines of a document without pages, in which quotes are searched.

use serde::{Deserialize, Serialize};
use stemma_document::{Line, Page, Rect, WordReading};

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
    pub fn lines(&self, body: bool) -> Box<dyn Iterator<Item = (usize, &'a str)> + 'a> {
        match self.lines {
            SourceLines::Page(page) => {
                let lines = page
                    .lines
                    .iter()
                    .enumerate()
                    .filter(move |(_, line)| !(body && line.is_furniture()));
                Box::new(lines.map(|(at, line)| (at, line.text.as_str())))
            }
            SourceLines::Text(lines) => Box::new(
                lines
                    .iter()
                    .enumerate()
                    .map(|(at, line)| (at, line.as_str())),
            ),
        }
    }

    /// A line by its index; empty if there is none.
    pub fn line(&self, at: usize) -> &'a str {
        match self.lines {
            SourceLines::Page(page) => page.lines.get(at).map_or("", |line| line.text.as_str()),
            SourceLines::Text(lines) => lines.get(at).map_or("", String::as_str),
        }
    }

    /// Its lines, joined.
    pub fn full_text(&self) -> String {
        self.lines(false)
            .map(|(_, line)| line)
            .collect::<Vec<_>>()
            .join("\n")
    }

    // The words at bytes `start..end` of a line with their readings, if text recognition read them.
    pub(super) fn readings(
        &self,
        at: usize,
        start: usize,
        end: usize,
    ) -> Vec<(&'a str, WordReading)> {
        let SourceLines::Page(page) = self.lines else {
            return Vec::new();
        };
        let (Some(read), Some(line)) = (page.recognition(), page.lines.get(at)) else {
            return Vec::new();
        };
        let before = page.lines[..at].iter().map(|line| line.words.len());
        let words = line.words.iter().zip(read.words().skip(before.sum()));
        let quoted =
            words.filter(|(word, _)| (word.start as usize) < end && start < word.end as usize);
        quoted
            .map(|(word, reading)| {
                let text = line.text.get(word.start as usize..word.end as usize);
                (text.unwrap_or_default(), reading)
            })
            .collect()
    }

    // Bytes `start..end` of a line: one rectangle per column; none without coordinates.
    pub(super) fn rects(&self, at: usize, start: usize, end: usize) -> Vec<CitedRect> {
        let SourceLines::Page(page) = self.lines else {
            return Vec::new();
        };
        let Some(line) = page.lines.get(at) else {
            return Vec::new();
        };
        let (width, height) = page.displayed_size();
        let width = width.points().max(1.0);
        let height = height.points().max(1.0);
        word_spans(line, start, end)
            .into_iter()
            .map(|(left, right): (f32, f32)| {
                let top = line.rect.y0.points();
                let bottom = line.rect.y1.points();
                let rect = page.displayed(Rect::new(left, top, right, bottom));
                CitedRect {
                    page: self.number,
                    x: relative_coordinate(rect.x0.points(), width),
                    y: relative_coordinate(rect.y0.points(), height),
                    w: relative_coordinate(rect.width(), width),
                    h: relative_coordinate(rect.height(), height),
                }
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

// Left and right edges of the words that overlap bytes `start..end`, merged within a column. A line whose words have no
// coordinates counts whole.
fn word_spans(line: &Line, start: usize, end: usize) -> Vec<(f32, f32)> {
    let inside = line
        .words
        .iter()
        .filter(|word| (word.start as usize) < end && start < word.end as usize);
    let gap = line.rect.height().max(1.0) * COLUMN_GAP;
    let mut stretches: Vec<(f32, f32)> = Vec::new();
    for word in inside {
        let left = word.x0.points();
        let right = word.x1.points();
        match stretches.last_mut() {
            Some((from, to)) if left - *to <= gap && right >= *from => {
                *from = from.min(left);
                *to = to.max(right);
            }
            _ => stretches.push((left, right)),
        }
    }
    if line.words.is_empty() {
        stretches.push((line.rect.x0.points(), line.rect.x1.points()));
    }
    stretches
}

fn relative_coordinate(value: f32, size: f32) -> f64 {
    let share = f64::from((value / size).clamp(0.0, 1.0));
    (share * 10_000.0).round() / 10_000.0
}
