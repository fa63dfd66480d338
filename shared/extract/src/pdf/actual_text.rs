//! `/ActualText`: replacement text for marked content (ISO 32000-2, 14.9.4).

use hayro_syntax::object::{Dict, Object, String as PdfString};
use hayro_syntax::page::Resources;

use super::font::push_character;
use super::glyph::{Direction, Glyph, UNMAPPED};
use super::matrix::Matrix;
use super::page_box::PageBox;
use super::right_to_left::order_as_displayed;
use super::strings::decode_text_string;
use super::structure_elements::StructureElements;
use super::tagged_headings::MarkedBox;

// Deeper nested marked content is ignored.
const MAX_DEPTH: usize = 256;

/// The open marked content sequences.
#[derive(Default)]
pub(super) struct ActualTextSpans {
    open: Vec<Span>,
    skipped: usize,
    // Of closed sequences with identifiers and glyphs.
    marked: Vec<MarkedBox>,
}

struct Span {
    text: Option<String>,
    mcid: Option<u32>,
    // The first glyph.
    start: usize,
    // Where the first image was drawn.
    image: Option<Matrix>,
}

impl ActualTextSpans {
    /// Opens a sequence at glyph `start`, with its identifier if it is the page's own.
    pub(super) fn begin(&mut self, text: Option<String>, mcid: Option<u32>, start: usize) {
        if self.open.len() >= MAX_DEPTH {
            self.skipped += 1;
        } else {
            self.open.push(Span {
                text,
                mcid,
                start,
                image: None,
            });
        }
    }

    pub(super) fn add_image(&mut self, map: Matrix) {
        let mut spans = self.open.iter_mut().rev();
        if let Some(span) = spans.find(|span| span.text.is_some() || span.mcid.is_some()) {
            span.image.get_or_insert(map);
        }
    }

    /// Where the closed sequences with identifiers lie.
    pub(super) fn into_marked(self) -> Vec<MarkedBox> {
        self.marked
    }

    /// Closes the innermost sequence and replaces its glyphs. Returns the text of an image in a sequence without glyphs.
    pub(super) fn end(
        &mut self,
        glyphs: &mut Vec<Glyph>,
        elements: &StructureElements<'_>,
    ) -> Option<(String, Matrix)> {
        if self.skipped > 0 {
            self.skipped -= 1;
            return None;
        }
        let span = self.open.pop()?;
        let own = glyphs.get(span.start..).unwrap_or_default();
        if let Some(mcid) = span
            .mcid
            .filter(|_| elements.are_declared() && !own.is_empty())
        {
            let bounds = PageBox::around(own.iter().map(|glyph| (glyph.x, glyph.y)));
            self.marked.push(MarkedBox { mcid, bounds });
        }
        match span.image {
            Some(image) if glyphs.len() == span.start => {
                let text = span.text.or_else(|| elements.actual_text(span.mcid?))?;
                Some((text, image))
            }
            _ => {
                replace(glyphs, span.start, &span.text?);
                None
            }
        }
    }
}

/// Returns the identifier of marked content.
pub(super) fn marked_content_id(properties: &Object<'_>) -> Option<u32> {
    match properties {
        Object::Dict(dict) => dict.get::<u32>("MCID"),
        _ => None,
    }
}

/// Decodes replacement text. The white space at its end separates it from what follows.
pub(super) fn decode_replacement(bytes: &[u8]) -> String {
    let mut text = decode_text_string(bytes);
    if bytes.ends_with(b" ") {
        text.push(' ');
    }
    text
}

/// Returns the `/ActualText` of marked content.
// Properties are given inline or by name in the resources.
pub(super) fn replacement_text(
    properties: &Object<'_>,
    resources: &Resources<'_>,
) -> Option<String> {
    let text = match properties {
        Object::Dict(dict) => dict.get::<PdfString<'_>>("ActualText")?.as_bytes().to_vec(),
        Object::Name(name) => resources
            .properties
            .get::<Dict<'_>>(name)?
            .get::<PdfString<'_>>("ActualText")?
            .as_bytes()
            .to_vec(),
        _ => return None,
    };
    Some(decode_replacement(&text))
}

// Replaces only sequences on one baseline. Longer ones would lose the positions of their words.
fn replace(glyphs: &mut Vec<Glyph>, start: usize, text: &str) {
    let (Some(first), Some(last)) = (glyphs.get(start).copied(), glyphs.last().copied()) else {
        return;
    };
    let spanned = glyphs.get(start..).unwrap_or_default();
    let mut characters = Vec::new();
    text.chars()
        .for_each(|character| push_character(character, &mut characters));
    let is_ordered = order_as_displayed(&mut characters);
    let length = characters.len();
    // Glyphs that already say the same keep their exact positions; so does longer text that is at least partly mapped.
    if spanned
        .iter()
        .map(|glyph| glyph.text)
        .eq(characters.iter().copied())
        || (length > 24
            && spanned
                .iter()
                .any(|glyph: &Glyph| glyph.text != UNMAPPED && glyph.text != ' '))
    {
        return;
    }
    if !spanned.iter().all(|glyph: &Glyph| {
        glyph.writing == first.writing
            && (glyph.y - first.y).abs().min((glyph.x - first.x).abs()) < 0.5 * first.size
    }) || length == 0
    {
        return;
    }
    // Whichever way they were drawn.
    let is_turned = is_ordered && last.x < first.x;
    let (first, last) = if is_turned {
        (last, first)
    } else {
        (first, last)
    };
    let dx = last.x - first.x;
    let dy = last.y - first.y;
    let span = dx.hypot(dy) + last.advance;
    let along = (dx.hypot(dy) / span.max(1e-6)).min(1.0);
    glyphs.truncate(start);
    for (index, character) in characters.into_iter().enumerate() {
        let share = index as f32 / length as f32;
        let (ux, uy) = match first.writing.direction {
            _ if along > 0.0 => (dx / along, dy / along),
            Direction::Right => (span, 0.0),
            Direction::Left => (-span, 0.0),
            Direction::Down => (0.0, span),
            Direction::Up => (0.0, -span),
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
