//! Builds a [`Page`] from glyphs.

use std::cmp::Reverse;

use stemma_document::{Line, LineRole, Page, PageOrigin, Pt, Rect};

use super::columns::reading_order;
use super::glyph::{Direction, Glyph, Writing};
use super::right_to_left::PageDirection;
use super::rows::{LineGlyph, TextSegment, build_rows};
use super::words::{LineText, build_line_text};

// Typical ascent and descent of text faces, in ems.
const ASCENT: f32 = 0.8;
const DESCENT: f32 = 0.22;

// Degrees. The lines of a skewed scan differ by a few, a watermark by 30 to 60.
const MAX_TILT: u8 = 20;

/// Lays out a page as it is read: most of its text runs to the right, whatever way the displayed page is turned.
pub(super) fn lay_out(width: f32, height: f32, glyphs: &[Glyph]) -> Page {
    let direction = main_direction(glyphs);
    // Few: there are 360 directions.
    let mut groups: Vec<(Writing, Vec<LineGlyph>)> = Vec::new();
    for glyph in glyphs {
        let glyph = glyph.seen_along(direction, width, height);
        let mark = LineGlyph::from_glyph(&glyph);
        match groups
            .iter_mut()
            .find(|(writing, _)| *writing == glyph.writing)
        {
            Some((_, marks)) => marks.push(mark),
            None => groups.push((glyph.writing, vec![mark])),
        }
    }
    groups.sort_by_key(|(writing, marks)| (Reverse(marks.len()), *writing));
    let tilt = groups
        .iter()
        .find(|(writing, _)| writing.direction == Direction::Right)
        .map_or(0, |(writing, _)| writing.tilt);
    let mut lines = Vec::new();
    for (writing, marks) in &groups {
        let is_across =
            writing.direction != Direction::Right || writing.tilt.abs_diff(tilt) > MAX_TILT;
        let role = if is_across {
            LineRole::Across
        } else {
            LineRole::Body
        };
        let page = PageDirection::new(marks);
        let ordered = reading_order(build_rows(marks), page.is_left());
        lines.extend(ordered.iter().filter_map(|segments| {
            let text = build_line_text(segments, page.of_line(segments));
            build_line(segments, text, *writing, role)
        }));
    }
    let turn = direction.turn();
    let (width, height) = if turn.is_sideways() {
        (height, width)
    } else {
        (width, height)
    };
    Page {
        width: Pt::new(width),
        height: Pt::new(height),
        turn,
        label: None,
        lines,
        origin: PageOrigin::File,
    }
}

fn main_direction(glyphs: &[Glyph]) -> Direction {
    let mut counts = Direction::ALL.map(|direction| (0_usize, Reverse(direction)));
    for glyph in glyphs.iter().filter(|glyph| glyph.text != ' ') {
        counts[glyph.writing.direction as usize].0 += 1;
    }
    let most = counts.into_iter().max();
    most.map_or(Direction::Right, |(_, Reverse(direction))| direction)
}

/// Whether a page has text, and none of it can be seen.
pub(super) fn is_invisible(glyphs: &[Glyph]) -> bool {
    let mut letters = glyphs.iter().filter(|glyph| glyph.text != ' ').peekable();
    letters.peek().is_some() && letters.all(|glyph| glyph.invisible)
}

fn build_line(
    segments: &[TextSegment],
    mut text: LineText,
    writing: Writing,
    role: LineRole,
) -> Option<Line> {
    if text.text.is_empty() {
        return None;
    }
    let u0 = text.words.first()?.x0;
    let u1 = text.words.iter().map(|word| word.x1).max()?;
    let top = segments
        .iter()
        .map(|s| s.v - ASCENT * s.size)
        .fold(f32::INFINITY, f32::min);
    let bottom = segments
        .iter()
        .map(|s| s.v + DESCENT * s.size)
        .fold(f32::NEG_INFINITY, f32::max);
    let u0 = text
        .words
        .iter()
        .map(|word| word.x0)
        .min()
        .unwrap_or(u0)
        .points();
    let u1 = u1.points();
    let rect = page_rect(writing, (u0, u1), (top, bottom));
    if writing.direction != Direction::Right {
        // Words are measured along x. In a rotated line each word gets the box of the line.
        for word in &mut text.words {
            word.x0 = rect.x0;
            word.x1 = rect.x1;
        }
    } else if writing.tilt != 0 {
        for word in &mut text.words {
            let box_of_word =
                page_rect(writing, (word.x0.points(), word.x1.points()), (top, bottom));
            word.x0 = box_of_word.x0;
            word.x1 = box_of_word.x1;
        }
    }
    Some(Line {
        text: text.text,
        rect,
        runs: text.runs,
        words: text.words,
        tokens: 0,
        role,
        bytes: None,
        grid: None,
    })
}

// The box on the page around an area along and across a direction.
fn page_rect(writing: Writing, (u0, u1): (f32, f32), (v0, v1): (f32, f32)) -> Rect {
    let corners = [(u0, v0), (u1, v0), (u0, v1), (u1, v1)].map(|(u, v)| writing.to_page(u, v));
    let (x0, x1) = bounds(corners.map(|corner| corner.0));
    let (y0, y1) = bounds(corners.map(|corner| corner.1));
    Rect::new(x0, y0, x1, y1)
}

fn bounds(values: [f32; 4]) -> (f32, f32) {
    let low = values.into_iter().fold(f32::INFINITY, f32::min);
    (low, values.into_iter().fold(f32::NEG_INFINITY, f32::max))
}
