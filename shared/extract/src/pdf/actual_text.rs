//! `/ActualText`: what a marked stretch of glyphs says, where the glyphs themselves do not (ISO 32000-2, 14.9.4).

use super::content_stream::{Glyph, UNMAPPED};
use super::font::push_character;

/// Marked stretches inside each other; deeper ones are passed over.
const MAX_DEPTH: usize = 256;

/// The marked stretches that are open.
#[derive(Default)]
pub(super) struct ActualTextSpans {
    open: Vec<Option<(String, usize)>>,
    skipped: usize,
}

impl ActualTextSpans {
    /// A stretch begins at glyph `start`.
    pub(super) fn begin(&mut self, actual: Option<String>, start: usize) {
        if self.open.len() >= MAX_DEPTH {
            self.skipped += 1;
        } else {
            self.open.push(actual.map(|text| (text, start)));
        }
    }

    /// The innermost stretch ends: its glyphs get the text it stands for.
    pub(super) fn end(&mut self, glyphs: &mut Vec<Glyph>) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if let Some(Some((text, start))) = self.open.pop() {
            replace(glyphs, start, &text);
        }
    }
}

/// Only a stretch on one baseline is replaced: a longer one would lose the places of its words, and says the same.
fn replace(glyphs: &mut Vec<Glyph>, start: usize, text: &str) {
    let (Some(first), Some(last)) = (glyphs.get(start).copied(), glyphs.last().copied()) else {
        return;
    };
    let stretch = glyphs.get(start..).unwrap_or_default();
    let mut characters = Vec::new();
    text.chars()
        .for_each(|character| push_character(character, &mut characters));
    let length = characters.len();
    if stretch
        .iter()
        .map(|glyph| glyph.text)
        .eq(characters.iter().copied())
        || (length > 24
            && stretch
                .iter()
                .any(|glyph: &Glyph| glyph.text != UNMAPPED && glyph.text != ' '))
    {
        return;
    }
    if !stretch.iter().all(|glyph: &Glyph| {
        glyph.direction == first.direction
            && (glyph.y - first.y).abs().min((glyph.x - first.x).abs()) < 0.5 * first.size
    }) || length == 0
    {
        return;
    }
    let dx = last.x - first.x;
    let dy = last.y - first.y;
    let span = dx.hypot(dy) + last.advance;
    let along = (dx.hypot(dy) / span.max(1e-6)).min(1.0);
    glyphs.truncate(start);
    for (index, character) in characters.into_iter().enumerate() {
        let share = index as f32 / length as f32;
        let (ux, uy) = match first.direction {
            _ if along > 0.0 => (dx / along, dy / along),
            super::content_stream::Direction::Right => (span, 0.0),
            super::content_stream::Direction::Left => (-span, 0.0),
            super::content_stream::Direction::Down => (0.0, span),
            super::content_stream::Direction::Up => (0.0, -span),
        };
        glyphs.push(Glyph {
            text: character,
            x: first.x + ux * share,
            y: first.y + uy * share,
            advance: span / length as f32,
            ..first
        });
    }
}
