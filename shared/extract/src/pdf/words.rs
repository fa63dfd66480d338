//! Builds the text, words and styles of a line from its glyphs.

use std::borrow::Cow;

use stemma_document::note_marks::raised;
use stemma_document::{Emphasis, Pt, StyleRun, Word};
use unicode_normalization::char::is_combining_mark;

use super::font::SOFT_HYPHEN;
use super::glyph::UNMAPPED;
use super::right_to_left::{Item, LineDirection, order_as_read};
use super::rows::{LineGlyph, SCRIPT_SIZE, TextSegment, WORD_GAP, is_same_place};

// How far a raised mark is above the baseline at least, in ems of its line.
const MARK_RISE: f32 = 0.15;

/// The text of a line. Coordinates are along the line.
#[derive(Default)]
pub(super) struct LineText {
    pub(super) text: String,
    pub(super) words: Vec<Word>,
    pub(super) runs: Vec<StyleRun>,
}

/// `direction` is given for a line with text that runs to the left.
pub(super) fn build_line_text(
    segments: &[TextSegment],
    direction: Option<LineDirection>,
) -> LineText {
    let mut out = LineText::default();
    let Some(direction) = direction else {
        segments
            .iter()
            .for_each(|segment| out.push_segment(segment));
        return out;
    };
    let push = |segment: &TextSegment| out.push_ordered(segment, direction);
    match direction {
        LineDirection::Left => segments.iter().rev().for_each(push),
        LineDirection::Right => segments.iter().for_each(push),
    }
    out
}

impl LineText {
    fn push_segment(&mut self, segment: &TextSegment) {
        let marks = drop_double_strikes(&segment.glyphs);
        let gap = measure_word_gap(&marks);
        for word in split_words(&marks, gap) {
            self.push(&with_note_marks(word, segment));
        }
    }

    fn push_ordered(&mut self, segment: &TextSegment, direction: LineDirection) {
        let mut marks = drop_double_strikes(&segment.glyphs);
        marks.retain(|mark| mark.text != SOFT_HYPHEN);
        // Runs drawn to the left come in the order of drawing.
        marks.sort_by(|a, b| a.u.total_cmp(&b.u));
        let gap = measure_word_gap(&marks);
        let mut items: Vec<Item> = Vec::with_capacity(marks.len());
        for word in split_words(&marks, gap) {
            if !items.is_empty() {
                items.push(None);
            }
            let word = with_note_marks(word, segment);
            let letters = word.iter().filter(|mark| !mark.is_space());
            items.extend(letters.map(|mark| Some(*mark)));
        }
        let items = order_as_read(items, direction);
        for word in items.split(Option::is_none) {
            let word: Vec<LineGlyph> = word.iter().copied().flatten().collect();
            self.push(&word);
        }
    }

    fn push(&mut self, marks: &[LineGlyph]) {
        let mut letters = marks
            .iter()
            .filter(|mark| !matches!(mark.text, ' ' | SOFT_HYPHEN))
            .peekable();
        let Some(first) = letters.peek() else {
            return;
        };
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        let start = length(&self.text);
        let mut u0 = first.u;
        let mut u1 = first.end();
        let mut before: Option<&LineGlyph> = None;
        for mark in letters {
            if !before.is_some_and(|before| before.has_style_of(mark)) {
                self.style(mark);
            }
            before = Some(mark);
            self.text.push(mark.text);
            u0 = u0.min(mark.u);
            u1 = u1.max(mark.end());
        }
        let end = length(&self.text);
        if let Some(run) = self.runs.last_mut() {
            run.end = end;
        }
        self.words.push(Word {
            start,
            end,
            x0: Pt::new(u0),
            x1: Pt::new(u1),
        });
    }

    // Starts a new run if the style changes. A space belongs to the run before it.
    fn style(&mut self, mark: &LineGlyph) {
        let style = StyleRun {
            end: length(&self.text),
            size: Pt::new(mark.size),
            bold: mark.bold,
            emphasis: Emphasis::for_font(mark.italic),
        };
        match self.runs.last_mut() {
            Some(run)
                if (run.size, run.bold, run.emphasis)
                    == (style.size, style.bold, style.emphasis) => {}
            Some(run) => {
                run.end = style.end;
                self.runs.push(style);
            }
            None => self.runs.push(style),
        }
    }
}

fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

// The glyphs of a word, with raised marks of notes as superscripts.
fn with_note_marks<'w>(word: &'w [LineGlyph], segment: &TextSegment) -> Cow<'w, [LineGlyph]> {
    let is_raised = |glyph: &LineGlyph| {
        glyph.size <= SCRIPT_SIZE * segment.size
            && segment.v - glyph.v >= MARK_RISE * segment.size
            && !glyph.is_space()
    };
    if !word.iter().any(is_raised) {
        return Cow::Borrowed(word);
    }
    let parts = word.chunk_by(|one, next| is_raised(one) == is_raised(next));
    let marked = parts.flat_map(|part| {
        let text: String = part.iter().map(|glyph| glyph.text).collect();
        let mark = Some(text).filter(|_| part.first().is_some_and(is_raised));
        let mark: Vec<char> = mark
            .and_then(|text| raised(&text))
            .map(|mark| mark.chars().collect())
            .unwrap_or_default();
        part.iter().enumerate().map(move |(at, glyph)| LineGlyph {
            text: mark.get(at).copied().unwrap_or(glyph.text),
            ..*glyph
        })
    });
    Cow::Owned(marked.collect())
}

// Drops characters drawn a second time at the same place. Those that cannot be read may differ.
fn drop_double_strikes(marks: &[LineGlyph]) -> Vec<LineGlyph> {
    let mut unique: Vec<LineGlyph> = Vec::with_capacity(marks.len());
    for mark in marks {
        let doubled = unique.iter().rev().take(3).any(|other| {
            other.text == mark.text
                && is_same_place(mark, other)
                && !matches!(mark.text, ' ' | UNMAPPED)
        });
        if !doubled {
            unique.push(*mark);
        }
    }
    unique
}

// Determines the gap between words. Letter-spaced text has wide gaps everywhere, so there a word ends at a gap clearly
// wider than the median.
fn measure_word_gap(marks: &[LineGlyph]) -> WordGap {
    let mut gaps = gaps(marks);
    let letters = gaps.len() + 1;
    let middle = gaps.len() / 2;
    let wide = gaps.iter().filter(|gap| (0.1..1.0).contains(*gap)).count() + 1;
    if letters < 4 {
        return WordGap {
            gap: WORD_GAP,
            spaces_count: true,
        };
    }
    let median = *gaps.select_nth_unstable_by(middle, f32::total_cmp).1;
    if median > 0.1 && wide * 10 >= letters * 7 && is_alphabetic(marks) {
        // Every letter is separate: a letter-spaced heading, spaced by gaps or by space characters.
        return WordGap {
            gap: median * 1.6 + 0.05,
            spaces_count: false,
        };
    }
    if letters >= 6 && median > 0.06 {
        return WordGap {
            gap: median + WORD_GAP,
            spaces_count: true,
        };
    }
    WordGap {
        gap: WORD_GAP,
        spaces_count: true,
    }
}

#[derive(Clone, Copy)]
struct WordGap {
    // In ems.
    gap: f32,
    // Whether a space character separates words.
    spaces_count: bool,
}

// Gaps between neighboring glyphs in ems, ignoring spaces.
fn gaps(marks: &[LineGlyph]) -> Vec<f32> {
    let mut before: Option<&LineGlyph> = None;
    let mut gaps = Vec::with_capacity(marks.len());
    for mark in marks.iter().filter(|mark| !mark.is_space()) {
        if let Some(letter) = before.filter(|_| is_combining_mark(mark.text)) {
            before = Some(further(letter, mark));
            continue;
        }
        if let Some(before) = before {
            gaps.push((mark.u - before.end()) / before.size.max(mark.size).max(0.01));
        }
        before = Some(mark);
    }
    gaps
}

// Which one ends further right: a letter, or the mark over it or vowel behind it.
fn further<'m>(letter: &'m LineGlyph, mark: &'m LineGlyph) -> &'m LineGlyph {
    if mark.end() > letter.end() {
        mark
    } else {
        letter
    }
}

fn is_alphabetic(marks: &[LineGlyph]) -> bool {
    let alphabetic = marks
        .iter()
        .filter(|mark| mark.text.is_alphabetic())
        .count();
    let ink = marks.iter().filter(|mark| !mark.is_space()).count();
    alphabetic * 10 >= ink * 8
}

fn split_words(marks: &[LineGlyph], limit: WordGap) -> Vec<&[LineGlyph]> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut before: Option<&LineGlyph> = None;
    let mut spaced = false;
    for (index, mark) in marks.iter().enumerate() {
        if mark.is_space() {
            spaced = true;
            continue;
        }
        let apart = before.is_some_and(|before| {
            let size = before.size.max(mark.size).max(0.01);
            mark.u - before.end() > limit.gap * size
        });
        let joins = !apart && !spaced && is_combining_mark(mark.text);
        if let Some(letter) = before.filter(|_| joins) {
            before = Some(further(letter, mark));
            continue;
        }
        if before.is_some()
            && (apart || spaced && limit.spaces_count || is_leader_boundary(marks, index))
        {
            words.extend(marks.get(start..index));
            start = index;
        }
        spaced = false;
        before = Some(mark);
    }
    words.extend(marks.get(start..));
    words
}

// Leader dots form a word of their own, so that titles and page numbers of contents entries are clean.
fn is_leader_boundary(marks: &[LineGlyph], index: usize) -> bool {
    let (before, after) = marks.split_at(index);
    let dots_before = before
        .iter()
        .rev()
        .take(4)
        .take_while(|mark| mark.text == '.')
        .count();
    let dots_after = after
        .iter()
        .take(4)
        .take_while(|mark| mark.text == '.')
        .count();
    (dots_before == 0 && dots_after == 4) || (dots_before == 4 && dots_after == 0)
}
