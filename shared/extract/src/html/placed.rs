//! Pages whose text is placed, as converters of PDF write them: boxes with positions in a box of the size of a page.
//!
//! Words get their places from the positions of their boxes and average widths, and are laid out as those of a PDF page:
//! rows across the cells of tables, columns one after another.

use stemma_document::{ByteSpan, Emphasis, Line, Page, Pt, WordReading};

use super::declared::Offsets;
use super::length::Length;
use super::line::LINE_HEIGHT;
use crate::pdf::{PlacedWord, lay_out_words};

// Points. Smaller boxes are figures.
const MIN_PAGE: f32 = 300.0;
/// Typical descent of text faces, in ems.
pub(super) const DESCENT: f32 = 0.22;
// More words than a page has. They are read in the order of the file, to bound the work.
const MAX_WORDS: usize = 20_000;
// In ems: lines whose baselines differ by less are in one row, and so much stays free before the next text of it.
const SLACK: f32 = 0.3;

/// A box in points from the top left corner of its page.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Frame {
    pub(super) x: f32,
    /// Its top; of a box with a bottom only, its bottom.
    pub(super) y: f32,
    pub(super) width: f32,
    pub(super) height: f32,
    /// It has a width of its own, in which text is aligned and wrapped.
    pub(super) has_width: bool,
    /// `y` is its bottom.
    from_bottom: bool,
    /// Text in it is where the box is. Text in a page, or in a box that covers one, flows.
    pub(super) is_placed: bool,
    /// Its text runs in another direction.
    pub(super) is_turned: bool,
}

impl Frame {
    /// The box of a page, if it is as large as one.
    pub(super) fn page(width: Option<Length>, height: Option<Length>) -> Option<Self> {
        let side = |length: Option<Length>| match length {
            Some(Length::Points(points)) if points >= MIN_PAGE => Some(points),
            _ => None,
        };
        Some(Self::page_of_size(side(width)?, side(height)?))
    }

    pub(super) fn page_of_size(width: f32, height: f32) -> Self {
        Self {
            width,
            height,
            has_width: true,
            ..Self::default()
        }
    }

    /// A positioned box inside of this one; `None` if it says nothing about its place.
    pub(super) fn inside(
        &self,
        offsets: &Offsets,
        (width, height): (Option<Length>, Option<Length>),
        size: f32,
        zoom: f32,
        is_turned: bool,
    ) -> Option<Self> {
        let points = |length: Length, whole: f32| match length {
            Length::Points(points) => points * zoom,
            other => other.points(size, whole),
        };
        let across = |length: Option<Length>| length.map(|length| points(length, self.width));
        let down = |length: Option<Length>| length.map(|length| points(length, self.height));
        let own_width = across(width);
        let own_height = down(height);
        let outer_y = if self.from_bottom {
            self.y - self.height
        } else {
            self.y
        };
        let x = match (across(offsets.left), across(offsets.right)) {
            (Some(left), _) => self.x + left,
            (None, Some(right)) => self.x + self.width - right - own_width?,
            (None, None) => self.x,
        };
        let (y, from_bottom) = match (down(offsets.top), down(offsets.bottom)) {
            (Some(top), _) => (outer_y + top, false),
            (None, Some(bottom)) => (outer_y + self.height - bottom, true),
            (None, None) => return None,
        };
        let full = Some(Length::Percent(100.0));
        Some(Self {
            x,
            y,
            width: own_width.unwrap_or(self.width),
            height: own_height.unwrap_or(self.height),
            has_width: own_width.is_some(),
            from_bottom,
            is_placed: width != full || height != full,
            is_turned,
        })
    }

    /// The top of the box.
    pub(super) fn top(&self) -> f32 {
        if self.from_bottom {
            self.y - self.height
        } else {
            self.y
        }
    }

    /// The baseline of text of a size.
    pub(super) fn baseline(&self, size: f32) -> f32 {
        if self.from_bottom {
            self.y - DESCENT * size
        } else {
            self.y + (LINE_HEIGHT - DESCENT) * size
        }
    }
}

/// A line with its baseline and its font size.
pub(super) struct PlacedLine {
    pub(super) line: Line,
    pub(super) baseline: f32,
    pub(super) size: f32,
    /// It is wrapped or turned, so it shares no row.
    pub(super) is_alone: bool,
}

/// The lines of a page in reading order.
pub(super) fn lay_out(width: f32, height: f32, mut placed: Vec<PlacedLine>) -> Vec<Line> {
    let words: usize = placed.iter().map(|placed| placed.line.words.len()).sum();
    if words > MAX_WORDS {
        return placed.into_iter().map(|placed| placed.line).collect();
    }
    let alone: Vec<PlacedLine> = placed.extract_if(.., |placed| placed.is_alone).collect();
    placed.sort_by(|a, b| {
        let by_row = a.baseline.total_cmp(&b.baseline);
        by_row.then(a.line.rect.x0.cmp(&b.line.rect.x0))
    });
    make_room(&mut placed);
    let words: Vec<PlacedWord> = placed.iter().flat_map(placed_words).collect();
    let Page { mut lines, .. } = lay_out_words(width, height, 0, &[words]);
    for line in &mut lines {
        restore(line, &placed);
    }
    for placed in alone {
        let at = lines
            .iter()
            .position(|line| line.rect.y0 > placed.line.rect.y0)
            .unwrap_or(lines.len());
        lines.insert(at, placed.line);
    }
    lines
}

// Widths are averages. What is too wide to end before the next text of its row is made narrower.
fn make_room(placed: &mut [PlacedLine]) {
    for at in 0..placed.len() {
        let (before, behind) = placed.split_at_mut(at + 1);
        let Some(PlacedLine {
            line,
            baseline,
            size,
            ..
        }) = before.last_mut()
        else {
            continue;
        };
        let start = line.rect.x0.points();
        let next = behind
            .iter()
            .take_while(|next| next.baseline - *baseline < SLACK * *size)
            .map(|next| next.line.rect.x0.points())
            .filter(|x| *x > start)
            .fold(f32::INFINITY, f32::min);
        let end = line.rect.x1.points();
        let room = next - SLACK * *size - start;
        if end - start > room && room.is_sign_positive() {
            let scale = room / (end - start);
            let moved = |x: Pt| Pt::new(start + (x.points() - start) * scale);
            for word in &mut line.words {
                (word.x0, word.x1) = (moved(word.x0), moved(word.x1));
            }
            line.rect.x1 = moved(line.rect.x1);
        }
    }
}

fn placed_words(placed: &PlacedLine) -> impl Iterator<Item = PlacedWord> {
    placed.line.words.iter().filter_map(|word| {
        let text = placed
            .line
            .text
            .get(word.start as usize..word.end as usize)?;
        let run = placed.line.runs.iter().find(|run| run.end > word.start)?;
        Some(PlacedWord {
            text: text.to_owned(),
            x0: word.x0.points(),
            x1: word.x1.points(),
            baseline: placed.baseline,
            size: run.size.points(),
            bold: run.bold,
            italic: run.emphasis == Emphasis::Italic,
            reading: WordReading::stated(),
        })
    })
}

// The bytes of a line are those of the lines that it consists of.
fn restore(line: &mut Line, placed: &[PlacedLine]) {
    let top = line.rect.y0.points();
    let bottom = line.rect.y1.points();
    let first = placed.partition_point(|placed| placed.baseline < top);
    let parts = placed[first..]
        .iter()
        .take_while(|placed| placed.baseline <= bottom)
        .filter(|placed| {
            let middle = Pt::new(f32::midpoint(
                placed.line.rect.x0.points(),
                placed.line.rect.x1.points(),
            ));
            (line.rect.x0..=line.rect.x1).contains(&middle)
        });
    line.bytes = parts
        .filter_map(|placed| placed.line.bytes)
        .reduce(ByteSpan::union);
}
