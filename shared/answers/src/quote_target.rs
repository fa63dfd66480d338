//! A page, or a part of a text without pages, as quotes are looked for on it.

use stemma_document::{Line, Page};

use super::citation::CitedRect;

/// A gap between words that is wider than so many heights of the line parts columns.
const COLUMN_GAP: f32 = 0.8;

/// A page, or lines of a text.
#[derive(Debug, Clone, Copy)]
pub struct QuoteTarget<'a> {
    /// Physical page, or the number of the first line in a text; both from 1.
    pub number: u32,
    /// What it holds.
    pub lines: TargetLines<'a>,
}

/// What a sheet holds.
#[derive(Debug, Clone, Copy)]
pub enum TargetLines<'a> {
    /// A page with places.
    Page(&'a Page),
    /// Lines without.
    Text(&'a [String]),
}

impl<'a> QuoteTarget<'a> {
    /// A page.
    pub fn page(number: u32, page: &'a Page) -> Self {
        Self {
            number,
            lines: TargetLines::Page(page),
        }
    }

    /// Lines of a text, the first of which has this number.
    pub fn text(first: u32, lines: &'a [String]) -> Self {
        Self {
            number: first,
            lines: TargetLines::Text(lines),
        }
    }

    /// Its lines with their index; without running heads where `body` is all that counts.
    pub(super) fn lines(&self, body: bool) -> Box<dyn Iterator<Item = (usize, &'a str)> + 'a> {
        match self.lines {
            TargetLines::Page(page) => {
                let lines = page
                    .lines
                    .iter()
                    .enumerate()
                    .filter(move |(_, line)| !(body && line.is_furniture()));
                Box::new(lines.map(|(at, line)| (at, line.text.as_str())))
            }
            TargetLines::Text(lines) => Box::new(
                lines
                    .iter()
                    .enumerate()
                    .map(|(at, line)| (at, line.as_str())),
            ),
        }
    }

    /// The text of a line.
    pub(super) fn line(&self, at: usize) -> &'a str {
        match self.lines {
            TargetLines::Page(page) => page.lines.get(at).map_or("", |line| line.text.as_str()),
            TargetLines::Text(lines) => lines.get(at).map_or("", String::as_str),
        }
    }

    /// Its whole text.
    pub(super) fn full_text(&self) -> String {
        self.lines(false)
            .map(|(_, line)| line)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Where bytes `start..end` of a line stand: one rectangle, or one for each column; none in a text.
    pub(super) fn rects(&self, at: usize, start: usize, end: usize) -> Vec<CitedRect> {
        let TargetLines::Page(page) = self.lines else {
            return Vec::new();
        };
        let Some(line) = page.lines.get(at) else {
            return Vec::new();
        };
        let width = page.width.points().max(1.0);
        let height = page.height.points().max(1.0);
        word_spans(line, start, end)
            .into_iter()
            .map(|(left, right): (f32, f32)| {
                let share = |value: f32, of: f32| f64::from((value / of).clamp(0.0, 1.0));
                CitedRect {
                    page: self.number,
                    x: round_coordinate(share(left, width)),
                    y: round_coordinate(share(line.rect.y0.points(), height)),
                    w: round_coordinate(share(right - left, width)),
                    h: round_coordinate(share(line.rect.height(), height)),
                }
            })
            .collect()
    }
}

/// Left and right edges of the words that have some of bytes `start..end`, put together where they stand side by side; the whole
/// line where its words have no places.
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
                (*from, *to) = (from.min(left), to.max(right));
            }
            _ => stretches.push((left, right)),
        }
    }
    if line.words.is_empty() {
        stretches.push((line.rect.x0.points(), line.rect.x1.points()));
    }
    stretches
}

fn round_coordinate(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}
