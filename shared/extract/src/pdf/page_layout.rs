//! Builds a [`Page`] from glyphs.

use stemma_document::{Line, LineRole, Page, Pt, Rect};

use super::columns::reading_order;
use super::glyph::{Direction, Glyph};
use super::rows::{LineGlyph, TextSegment, build_rows};
use super::words::build_line_text;

// Typical ascent and descent of text faces, in ems.
const ASCENT: f32 = 0.8;
const DESCENT: f32 = 0.22;
const DIRECTIONS: [Direction; 4] = [
    Direction::Right,
    Direction::Down,
    Direction::Left,
    Direction::Up,
];

/// Lays out a page, starting with the most frequent writing direction.
pub(super) fn lay_out(width: f32, height: f32, glyphs: &[Glyph]) -> Page {
    let mut groups = DIRECTIONS.map(|direction| (direction, Vec::new()));
    for glyph in visible_glyphs(glyphs) {
        if let Some((_, marks)) = groups
            .iter_mut()
            .find(|(direction, _)| *direction == glyph.direction)
        {
            marks.push(LineGlyph::from_glyph(glyph));
        }
    }
    // Stable: equal groups keep the order of `DIRECTIONS`.
    groups.sort_by_key(|(_, marks)| std::cmp::Reverse(marks.len()));
    let mut lines = Vec::new();
    for (direction, marks) in groups.iter().filter(|(_, marks)| !marks.is_empty()) {
        let ordered = reading_order(build_rows(marks));
        lines.extend(
            ordered
                .iter()
                .filter_map(|segments| build_line(segments, *direction)),
        );
    }
    Page {
        width: Pt::new(width),
        height: Pt::new(height),
        label: None,
        lines,
    }
}

// Invisible text is the OCR layer of a scan. Next to visible text it is noise or an injection.
fn visible_glyphs(glyphs: &[Glyph]) -> impl Iterator<Item = &Glyph> {
    let any = glyphs
        .iter()
        .any(|glyph| !glyph.invisible && glyph.text != ' ');
    glyphs.iter().filter(move |glyph| !any || !glyph.invisible)
}

fn build_line(segments: &[TextSegment], direction: Direction) -> Option<Line> {
    let mut text = build_line_text(segments);
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
    let rect = match direction {
        Direction::Right => Rect::new(u0, top, u1, bottom),
        Direction::Down => Rect::new(-bottom, u0, -top, u1),
        Direction::Left => Rect::new(-u1, -bottom, -u0, -top),
        Direction::Up => Rect::new(top, -u1, bottom, -u0),
    };
    if direction != Direction::Right {
        // Words are measured along x. In a rotated line each word gets the box of the line.
        for word in &mut text.words {
            word.x0 = rect.x0;
            word.x1 = rect.x1;
        }
    }
    Some(Line {
        text: text.text,
        rect,
        runs: text.runs,
        words: text.words,
        tokens: 0,
        role: LineRole::Body,
    })
}
