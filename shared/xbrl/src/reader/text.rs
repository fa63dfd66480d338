//! The text of elements while they are open.

use std::ops::Range;

// A text fact keeps its beginning: a text block repeats pages of the document, which the offsets lead to.
pub(super) const MAX_TEXT_BYTES: usize = 2_000;
// Most bytes of all texts of a file.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// The text inside of open elements, once for all of them.
pub(super) struct TextBuffer {
    text: String,
    // Parts that enclosing elements leave out, by their ends.
    excluded: Vec<Range<usize>>,
    budget: usize,
}

impl Default for TextBuffer {
    fn default() -> Self {
        Self {
            text: String::new(),
            excluded: Vec::new(),
            budget: MAX_TOTAL_BYTES,
        }
    }
}

/// A text with collapsed white space, and whether it was cut.
pub(super) struct Collapsed {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

impl TextBuffer {
    pub(super) fn position(&self) -> usize {
        self.text.len()
    }

    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn exclude_from(&mut self, start: usize) {
        self.excluded.push(start..self.text.len());
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.excluded.clear();
    }

    /// The text since `start` without what is excluded.
    pub(super) fn since(&mut self, start: usize) -> Collapsed {
        let mut collapsed = Collapsed {
            text: String::new(),
            is_cut: false,
        };
        // Excluded parts inside of another one are listed before it.
        let mut excluded: Vec<Range<usize>> = self
            .excluded
            .iter()
            .rev()
            .take_while(|range| range.end > start)
            .filter(|range| range.start >= start)
            .cloned()
            .collect();
        excluded.sort_by_key(|range| range.start);
        let limit = MAX_TEXT_BYTES.min(self.budget);
        let mut at = start;
        for range in excluded {
            if range.start >= at {
                push_collapsed(&mut collapsed, &self.text[at..range.start], limit);
            }
            at = at.max(range.end);
        }
        push_collapsed(&mut collapsed, &self.text[at..], limit);
        let trimmed = collapsed.text.trim_end().len();
        collapsed.text.truncate(trimmed);
        self.budget -= collapsed.text.len();
        collapsed
    }
}

/// Appends text, runs of white space as one space, up to `limit` bytes.
pub(super) fn push_collapsed(into: &mut Collapsed, text: &str, limit: usize) {
    if into.is_cut {
        return;
    }
    for character in text.chars() {
        // Zero-width characters only suggest line breaks.
        if matches!(
            character,
            '\u{200B}' | '\u{200C}' | '\u{200D}' | '\u{2060}' | '\u{FEFF}' | '\u{AD}'
        ) {
            continue;
        }
        let is_space = character.is_whitespace();
        if is_space && (into.text.is_empty() || into.text.ends_with(' ')) {
            continue;
        }
        let character = if is_space { ' ' } else { character };
        if into.text.len() + character.len_utf8() > limit {
            into.is_cut = !is_space;
            if into.is_cut {
                return;
            }
            continue;
        }
        into.text.push(character);
    }
}
