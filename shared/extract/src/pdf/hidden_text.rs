//! Keeps text that the eye does not see out of a page, and says what it is.

use stemma_document::HiddenReason;

use super::canvas::Canvas;
use super::glyph::Glyph;
use super::visibility::{Repeats, judge};

// Of the text of a page that is hidden in one way.
const MAX_CHARACTERS: usize = 1_000;

/// The text of a page that is hidden in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HiddenPart {
    pub(super) reason: HiddenReason,
    /// Its beginning, in the order of the file.
    pub(super) text: String,
    pub(super) words: usize,
}

/// Removes the hidden glyphs, and returns their text.
// Invisible text over a picture is what text recognition leaves. Next to visible text it is noise or an injection.
pub(super) fn remove_hidden(glyphs: &mut Vec<Glyph>, canvas: &Canvas) -> Vec<HiddenPart> {
    if !judge(glyphs, canvas) {
        return Vec::new();
    }
    let mut letters = glyphs.iter().filter(|glyph| glyph.text != ' ');
    if letters.all(|glyph| glyph.hidden.is_some()) {
        for glyph in glyphs.iter_mut().filter(|glyph| glyph.invisible) {
            glyph.hidden = None;
        }
    }
    let parts = collect(glyphs);
    glyphs.retain(|glyph| glyph.hidden.is_none());
    parts
}

/// The detail of the defect of a page.
pub(super) fn describe(parts: &[HiddenPart]) -> String {
    let words: Vec<_> = parts.iter().map(|part| (part.reason, part.words)).collect();
    HiddenReason::describe(&words)
}

// Texts without letters or digits, such as leaders, are not words.
fn collect(glyphs: &[Glyph]) -> Vec<HiddenPart> {
    let repeats = Repeats::new(glyphs);
    let mut parts: Vec<HiddenPart> = Vec::new();
    let mut before: Option<Glyph> = None;
    let mut in_word = false;
    for glyph in glyphs {
        let Some(reason) = glyph.hidden.filter(|_| !repeats.contains(glyph)) else {
            before = None;
            continue;
        };
        let index = parts.iter().position(|part| part.reason == reason);
        let part = match index.and_then(|index| parts.get_mut(index)) {
            Some(part) => part,
            None => {
                parts.push(HiddenPart {
                    reason,
                    text: String::new(),
                    words: 0,
                });
                let Some(part) = parts.last_mut() else { break };
                part
            }
        };
        let is_next = before
            .is_some_and(|before| before.hidden == glyph.hidden && before.is_followed_by(glyph));
        if !is_next || glyph.text == ' ' {
            in_word = false;
            if !part.text.ends_with(' ') && !part.text.is_empty() {
                part.text.push(' ');
            }
        }
        if glyph.text.is_alphanumeric() && !in_word {
            in_word = true;
            part.words += 1;
        }
        if glyph.text != ' ' && part.text.len() < MAX_CHARACTERS {
            part.text.push(glyph.text);
        }
        before = Some(*glyph);
    }
    parts.retain(|part| part.words > 0);
    for part in &mut parts {
        part.text.truncate(part.text.trim_end().len());
    }
    parts
}
