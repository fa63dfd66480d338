//! Text that runs to the left, in the order in which it is read.
//!
//! Glyphs have places, not an order: some programs draw a Hebrew line from left to right, some from right to left. The order of
//! reading is therefore found from places alone, by the rules of the Unicode Bidirectional Algorithm (UAX 9) turned around:
//! words to the left, and numbers and Latin words among them to the right.

use stemma_document::runs_left;
use unicode_bidi::{BidiClass, BidiInfo, bidi_class};
use unicode_normalization::char::is_combining_mark;

use super::rows::{LineGlyph, TextSegment};

/// Letters of a text by the direction of their script.
#[derive(Debug, Clone, Copy, Default)]
struct Letters {
    left: usize,
    right: usize,
}

impl Letters {
    fn count<'g>(glyphs: impl Iterator<Item = &'g LineGlyph>) -> Self {
        glyphs.fold(Self::default(), |mut letters, glyph| {
            if runs_left(glyph.text) {
                letters.left += 1;
            } else if glyph.text.is_alphabetic() && !is_combining_mark(glyph.text) {
                letters.right += 1;
            }
            letters
        })
    }
}

/// Which way the lines of a page are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageDirection {
    has_left: bool,
    is_left: bool,
}

impl PageDirection {
    pub(super) fn new(glyphs: &[LineGlyph]) -> Self {
        let letters = Letters::count(glyphs.iter());
        Self {
            has_left: letters.left > 0,
            is_left: letters.left > letters.right,
        }
    }

    /// Whether columns and cells follow each other to the left.
    pub(super) fn is_left(self) -> bool {
        self.is_left
    }

    /// The direction of a line; `None` if it has nothing to put in order.
    pub(super) fn of_line(self, segments: &[TextSegment]) -> Option<LineDirection> {
        if !self.has_left {
            return None;
        }
        let letters = Letters::count(segments.iter().flat_map(|segment| &segment.glyphs));
        match (letters.left, letters.right) {
            // Figures follow the page.
            (0, 0) => self.is_left.then_some(LineDirection::Left),
            (0, _) => None,
            (left, right) if self.is_left || left > right => Some(LineDirection::Left),
            _ => Some(LineDirection::Right),
        }
    }
}

/// The direction of a line with letters of scripts that run to the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineDirection {
    Left,
    /// Some of its words run to the left.
    Right,
}

/// A glyph of a line, or the space between two words.
pub(super) type Item = Option<LineGlyph>;

/// Puts the glyphs of a segment, from left to right, into the order of reading.
pub(super) fn order_as_read(items: Vec<Item>, direction: LineDirection) -> Vec<Item> {
    let clusters = clusters(items);
    let classes = classes(&clusters);
    let levels = levels(&classes, direction);
    let mut order: Vec<usize> = (0..clusters.len()).collect();
    for level in (1..=2).rev() {
        reverse_runs(&mut order, |at| levels[at] >= level);
    }
    let mut read: Vec<(Item, bool)> = Vec::new();
    for at in order {
        let is_left = levels[at] == 1;
        read.extend(clusters[at].iter().map(|item| (*item, is_left)));
    }
    mirror_brackets(&mut read);
    read.into_iter().map(|(item, _)| item).collect()
}

// Letters with their marks. A mark belongs to the letter that it covers, and else to the one at its right, where the pen was
// before.
fn clusters(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut clusters: Vec<Vec<Item>> = Vec::with_capacity(items.len());
    let mut waiting: Vec<Item> = Vec::new();
    for item in items {
        let mark = item.filter(|glyph| is_combining_mark(glyph.text));
        let Some(mark) = mark else {
            clusters.push(std::iter::once(item).chain(waiting.drain(..)).collect());
            continue;
        };
        let covered = clusters.last_mut().filter(|letter| {
            let letter = letter.first().copied().flatten();
            letter.is_some_and(|letter| {
                mark.u + mark.advance / 2.0 < letter.end() - COVERED * letter.advance
            })
        });
        match covered {
            Some(letter) => letter.push(item),
            None => waiting.push(item),
        }
    }
    match clusters.last_mut() {
        Some(last) => last.append(&mut waiting),
        None => clusters.push(waiting),
    }
    clusters
}

// A mark at the very edge of a letter does not cover it.
const COVERED: f32 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Left,
    Right,
    Number,
    Neutral,
}

fn classes(clusters: &[Vec<Item>]) -> Vec<Class> {
    let characters: Vec<char> = clusters
        .iter()
        .map(|cluster| {
            cluster
                .first()
                .copied()
                .flatten()
                .map_or(' ', |glyph| glyph.text)
        })
        .collect();
    let bidi: Vec<BidiClass> = characters.iter().map(|c| bidi_class(*c)).collect();
    let is_arabic = bidi.contains(&BidiClass::AL);
    let is_digit = |at: Option<usize>| {
        at.and_then(|at| bidi.get(at))
            .is_some_and(|class| matches!(class, BidiClass::EN | BidiClass::AN))
    };
    (0..bidi.len())
        .map(|at| {
            let before = at.checked_sub(1);
            let is_between = is_digit(before) && is_digit(Some(at + 1));
            let is_free = before.is_none_or(|before| characters[before] == ' ');
            match bidi[at] {
                BidiClass::R | BidiClass::AL => Class::Left,
                BidiClass::L => Class::Right,
                BidiClass::EN | BidiClass::AN => Class::Number,
                BidiClass::CS if is_between => Class::Number,
                // Behind Arabic letters, `10-20` is two numbers, and `%` is at the left of its number.
                BidiClass::ES if is_between && !is_arabic => Class::Number,
                // The minus of `-5`.
                BidiClass::ES if is_free && is_digit(Some(at + 1)) => Class::Number,
                BidiClass::ET if !is_arabic && (is_digit(before) || is_digit(Some(at + 1))) => {
                    Class::Number
                }
                _ => Class::Neutral,
            }
        })
        .collect()
}

// Levels as in UAX 9: odd ones run to the left.
fn levels(classes: &[Class], direction: LineDirection) -> Vec<u8> {
    let strong: Vec<usize> = (0..classes.len())
        .filter(|at| classes[*at] != Class::Neutral)
        .collect();
    let base = u8::from(direction == LineDirection::Left);
    let mut levels: Vec<u8> = classes
        .iter()
        .map(|class| match class {
            Class::Left => 1,
            Class::Right | Class::Number => 2 * base,
            Class::Neutral => base,
        })
        .collect();
    if direction == LineDirection::Right {
        raise_inner_numbers(classes, &strong, &mut levels);
    }
    // What is between two words of one direction runs that way, too.
    for pair in strong.windows(2) {
        let [from, to] = [pair[0], pair[1]];
        let joins = match (direction, classes[from], classes[to]) {
            (LineDirection::Left, Class::Number, Class::Number) => false,
            (LineDirection::Left, a, b) => a != Class::Left && b != Class::Left,
            (LineDirection::Right, ..) => levels[from] > 0 && levels[to] > 0,
        };
        if joins {
            levels[from + 1..to].fill(if base == 1 { 2 } else { 1 });
        }
    }
    levels
}

// Numbers between two words that run to the left belong to their sentence.
fn raise_inner_numbers(classes: &[Class], strong: &[usize], levels: &mut [u8]) {
    for run in strong.chunk_by(|a, b| classes[*a] != Class::Right && classes[*b] != Class::Right) {
        let first = run.iter().position(|at| classes[*at] == Class::Left);
        let last = run.iter().rposition(|at| classes[*at] == Class::Left);
        if let Some((first, last)) = first.zip(last) {
            run[first..last]
                .iter()
                .filter(|at| classes[**at] == Class::Number)
                .for_each(|at| levels[*at] = 2);
        }
    }
}

fn reverse_runs(order: &mut [usize], is_member: impl Fn(usize) -> bool) {
    order
        .chunk_by_mut(|a, b| is_member(*a) == is_member(*b))
        .filter(|run| is_member(run[0]))
        .for_each(<[usize]>::reverse);
}

// Brackets in text that runs to the left are drawn mirrored. Fonts map the glyph to what it looks like or to what it means:
// brackets that open before they close are right.
fn mirror_brackets(items: &mut [(Item, bool)]) {
    let mut depth = 0_i32;
    let mut wrong = 0_i32;
    let brackets = items
        .iter_mut()
        .filter(|(_, is_left)| *is_left)
        .filter_map(|(item, _)| item.as_mut())
        .filter(|glyph| mirrored(glyph.text).is_some());
    let mut brackets: Vec<&mut LineGlyph> = brackets.collect();
    for glyph in &brackets {
        let is_open = matches!(glyph.text, '(' | '[' | '{' | '«' | '‹' | '<');
        depth += if is_open { 1 } else { -1 };
        wrong = wrong.min(depth);
    }
    // A line may end within brackets.
    if wrong < 0 || depth > 0 {
        for glyph in &mut brackets {
            glyph.text = mirrored(glyph.text).unwrap_or(glyph.text);
        }
    }
}

fn mirrored(c: char) -> Option<char> {
    Some(match c {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        '}' => '{',
        '<' => '>',
        '>' => '<',
        '«' => '»',
        '»' => '«',
        '‹' => '›',
        '›' => '‹',
        _ => return None,
    })
}

/// Puts characters in the order of reading from left to right, as they are displayed. Glyphs of one code, and text that has no
/// places of its own, are placed so. Returns whether some run to the left.
pub(super) fn order_as_displayed(characters: &mut [char]) -> bool {
    if !characters.iter().any(|c| runs_left(*c)) {
        return false;
    }
    let text: String = characters.iter().collect();
    let info = BidiInfo::new(&text, None);
    let mut displayed = info.paragraphs.iter().flat_map(|paragraph| {
        let line = info.reorder_line(paragraph, paragraph.range.clone());
        line.chars().collect::<Vec<char>>()
    });
    for place in characters {
        *place = displayed.next().unwrap_or(*place);
    }
    true
}
