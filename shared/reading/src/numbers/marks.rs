//! The marks between the digits of numbers: which one is before the decimals, and which ones part groups. They are settled from the
//! numbers that only one reading fits, such as `1.234,5`.

use serde::{Deserialize, Serialize};

use crate::language::detect_language;
use crate::lines::LineReading;
use crate::vocabulary::POINT_LANGUAGES;

use super::lexing::{GROUP, number_end, plain_char};

// A text is East Asian with one such letter to this many others: its tables may have Latin names.
const EAST_ASIAN_SHARE: usize = 10;
// How many times as many numbers have to fit one mark as the other.
const MAJORITY: u32 = 10;
// What a number tells whose decimal mark is certain, against one such as `41,7`.
const CERTAIN: u32 = 4;
// Digits of the groups of lakh and crore: `12,34,56,789`.
const SMALL_GROUP: usize = 2;
// Numbers with decimals that are needed before a table or page differs from its document.
const MIN_DECIMALS: u32 = 3;

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NumberMarks {
    pub decimal: DecimalMark,
    /// Spaces part groups of digits: `1 234 567`.
    pub has_spaces: bool,
    /// A triangle is a minus sign, as in Japanese: `△1,234`.
    pub has_triangles: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecimalMark {
    /// `1,234.5`
    #[default]
    Point,
    /// `1.234,5`
    Comma,
    /// Neither is certain: `1.234` has no value.
    Undecided,
}

impl NumberMarks {
    /// Those of English.
    pub const ENGLISH: Self = Self {
        decimal: DecimalMark::Point,
        has_spaces: false,
        has_triangles: false,
    };

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(crate) fn are_english(&self) -> bool {
        *self == Self::ENGLISH
    }

    /// Digits and a decimal point; `None` where the marks leave open which number it is.
    pub(super) fn plain_digits(self, token: &[char]) -> Option<String> {
        let written = Written::new(token)?;
        let has_decimals = match written.shape {
            Shape::Plain => false,
            Shape::Decimal(_) => true,
            // `3.302.250` may be a section where points are before decimals.
            Shape::Grouped(Some(DecimalMark::Comma)) if self.decimal == DecimalMark::Point => {
                return None;
            }
            Shape::Grouped(_) => false,
            Shape::One { mark, places } => match self.decimal {
                DecimalMark::Undecided => return None,
                decimal if decimal == mark => true,
                _ if places == GROUP && written.may_begin_group() => false,
                _ => return None,
            },
        };
        let (whole, places) = written
            .groups
            .split_at(written.groups.len() - usize::from(has_decimals));
        let whole = whole.concat();
        Some(match (places, whole.is_empty()) {
            ([], _) => whole,
            (places, true) => format!("0.{}", places.concat()),
            (places, false) => format!("{whole}.{}", places.concat()),
        })
    }
}

impl DecimalMark {
    fn from_char(mark: char) -> Option<Self> {
        match mark {
            '.' => Some(Self::Point),
            ',' => Some(Self::Comma),
            _ => None,
        }
    }

    // What the decimal mark is where this one parts groups.
    fn other(self) -> Self {
        match self {
            Self::Comma => Self::Point,
            Self::Point | Self::Undecided => Self::Comma,
        }
    }
}

// A number in parts.
struct Written {
    groups: Vec<String>,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// No mark, or only such as part groups.
    Plain,
    /// Groups, which tell the mark of decimals: `1,234,567`; or leave it open: `1'234`.
    Grouped(Option<DecimalMark>),
    /// Decimals behind groups, whatever the marks of the document are: `1.234,5`.
    Decimal(DecimalMark),
    /// One point or comma: `1,234`, `3,45`.
    One { mark: DecimalMark, places: usize },
}

impl Written {
    /// `None` if no way of writing numbers fits.
    fn new(token: &[char]) -> Option<Self> {
        let groups: Vec<String> = token
            .split(|c| !c.is_ascii_digit())
            .map(|group| group.iter().collect())
            .collect();
        let marks: Vec<char> = token
            .iter()
            .copied()
            .filter(|c| !c.is_ascii_digit())
            .collect();
        let mut written = Self {
            groups,
            shape: Shape::Plain,
        };
        written.shape = written.shape_of(&marks)?;
        Some(written)
    }

    fn shape_of(&self, marks: &[char]) -> Option<Shape> {
        let Some((last, before)) = marks.split_last() else {
            return Some(Shape::Plain);
        };
        let decimal = DecimalMark::from_char(*last);
        let parts = self.groups.len();
        match (before.first(), decimal) {
            (None, Some(mark)) => {
                let places = self.groups[1].len();
                Some(Shape::One { mark, places })
            }
            (first, _) if first.is_none_or(|first| first == last) => {
                let is_one_mark = before.iter().all(|mark| mark == last);
                let are_groups = self.are_groups(parts, *last);
                (is_one_mark && are_groups)
                    .then_some(Shape::Grouped(decimal.map(DecimalMark::other)))
            }
            (Some(group), Some(mark)) => {
                let is_one_mark = before.iter().all(|mark| mark == group);
                (is_one_mark && self.are_groups(parts - 1, *group)).then_some(Shape::Decimal(mark))
            }
            _ => None,
        }
    }

    // Whether the first parts are groups of thousands, or of lakh and crore: `12,34,56,789`.
    fn are_groups(&self, parts: usize, mark: char) -> bool {
        let [first, middle @ .., last] = &self.groups[..parts] else {
            return false;
        };
        let of = |digits: usize| middle.iter().all(|group| group.len() == digits);
        let are_small = mark == ','
            && (1..=SMALL_GROUP).contains(&first.len())
            && !middle.is_empty()
            && of(SMALL_GROUP);
        last.len() == GROUP && self.may_begin_group() && (of(GROUP) || are_small)
    }

    fn may_begin_group(&self) -> bool {
        (1..=GROUP).contains(&self.groups[0].len()) && !self.groups[0].starts_with('0')
    }
}

/// Counts the numbers of a table, a page or a document that tell how its numbers are written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MarkCounts {
    by_point: DecimalCounts,
    by_comma: DecimalCounts,
}

// The numbers that fit one decimal mark.
#[derive(Debug, Clone, Copy, Default)]
struct DecimalCounts {
    /// Which no other reading fits: `1.234,5`.
    certain: u32,
    /// `41,7`, which may be two numbers.
    likely: u32,
    /// Whose groups have the other mark: `1.234`, which may have three decimals.
    grouped: u32,
}

impl DecimalCounts {
    fn merge(&mut self, other: Self) {
        self.certain += other.certain;
        self.likely += other.likely;
        self.grouped += other.grouped;
    }

    // What has decimals.
    fn decimals(self) -> u32 {
        CERTAIN * self.certain + self.likely
    }

    fn all(self) -> u32 {
        self.decimals() + self.grouped
    }

    // Whether enough tells for this mark, and hardly anything against it.
    fn are_clear(self, other: Self, least: u32) -> bool {
        self.decimals() >= least && self.all() >= MAJORITY * other.all()
    }

    fn are_groups(self, other: Self) -> bool {
        self.grouped > 0 && self.all() >= MAJORITY * other.all()
    }
}

impl MarkCounts {
    /// Counts the numbers of a cell, in which spaces may part groups.
    pub(crate) fn add_cell(&mut self, text: &str) {
        self.add(text, true, true);
    }

    // Where numbers are `figures`, each decimal counts; in prose, `3.1` may be a section.
    fn add(&mut self, text: &str, figures: bool, spaces: bool) {
        if !has_mark_at_digit(text) {
            return;
        }
        let chars: Vec<char> = text.chars().map(plain_char).collect();
        let mut at = 0;
        while at < chars.len() {
            if !chars[at].is_ascii_digit() {
                at += 1;
                continue;
            }
            let end = number_end(&chars, at, spaces);
            let is_part = at
                .checked_sub(1)
                .is_some_and(|before| chars[before].is_alphanumeric())
                || chars.get(end).is_some_and(|c| c.is_alphanumeric());
            let is_percent = chars[end..].iter().find(|c| **c != ' ') == Some(&'%');
            if !is_part {
                self.add_number(&chars[at..end], figures || is_percent);
            }
            at = end;
        }
    }

    fn add_number(&mut self, token: &[char], is_figure: bool) {
        let Some(written) = Written::new(token) else {
            return;
        };
        match written.shape {
            Shape::Decimal(decimal) | Shape::Grouped(Some(decimal)) => {
                self.counts_mut(decimal).certain += 1;
            }
            Shape::One { mark, places } if places == GROUP && written.may_begin_group() => {
                self.counts_mut(mark.other()).grouped += 1;
            }
            // Also `0.987`.
            Shape::One { mark, places } if is_figure && places <= GROUP => {
                self.counts_mut(mark).likely += 1;
            }
            _ => {}
        }
    }

    fn counts_mut(&mut self, decimal: DecimalMark) -> &mut DecimalCounts {
        match decimal {
            DecimalMark::Comma => &mut self.by_comma,
            DecimalMark::Point | DecimalMark::Undecided => &mut self.by_point,
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.by_point.merge(other.by_point);
        self.by_comma.merge(other.by_comma);
    }

    /// The decimal mark of what was counted; `outer` is the mark of its page or document. A part of a document has another one only
    /// where several of its numbers say so.
    pub(crate) fn settle(self, outer: Option<DecimalMark>) -> DecimalMark {
        let least = if outer.is_some() { MIN_DECIMALS } else { 1 };
        let is_open = self.by_point.certain > 0 && self.by_comma.certain > 0;
        match outer {
            _ if self.by_point.are_clear(self.by_comma, least) => DecimalMark::Point,
            _ if self.by_comma.are_clear(self.by_point, least) => DecimalMark::Comma,
            Some(outer) if !is_open => outer,
            None if !self.has_numbers() => DecimalMark::Point,
            _ => DecimalMark::Undecided,
        }
    }

    fn has_numbers(self) -> bool {
        self.by_point.all() + self.by_comma.all() > 0
    }

    // The decimal mark of a document that has hardly any decimals, by what its language makes likely.
    fn settle_by_groups(self, language: Option<&str>) -> DecimalMark {
        let has_points = language.map(|language| POINT_LANGUAGES.contains(language));
        match has_points {
            Some(true) if !self.by_comma.are_groups(self.by_point) => DecimalMark::Point,
            None if self.by_point.are_groups(self.by_comma) => DecimalMark::Point,
            Some(false) if self.by_comma.are_groups(self.by_point) => DecimalMark::Comma,
            _ => DecimalMark::Undecided,
        }
    }
}

/// How the numbers of each page are written: as those that tell on the page, or in the document.
pub(crate) fn settle_marks<'t, P>(pages: impl Iterator<Item = P> + Clone) -> Vec<NumberMarks>
where
    P: Iterator<Item = (&'t str, LineReading)>,
{
    let mut all = MarkCounts::default();
    let mut script = ScriptLetters::default();
    let mut counts: Vec<MarkCounts> = Vec::new();
    for page in pages.clone() {
        let mut own = MarkCounts::default();
        for (text, line) in page {
            script.add(text);
            match line.label(text) {
                Some(label) => own.add(&text[label.len()..], true, false),
                None => own.add(text, false, false),
            }
        }
        all.merge(own);
        counts.push(own);
    }
    let document = match all.settle(None) {
        DecimalMark::Undecided if all.by_point.certain + all.by_comma.certain == 0 => {
            all.settle_by_groups(detect_language(pages.flatten().map(|(text, _)| text)))
        }
        settled => settled,
    };
    let marks = counts.into_iter().map(|counts| NumberMarks {
        decimal: counts.settle(Some(document)),
        has_spaces: false,
        has_triangles: script.is_east_asian(),
    });
    marks.collect()
}

#[derive(Default)]
struct ScriptLetters {
    east_asian: usize,
    others: usize,
}

impl ScriptLetters {
    fn add(&mut self, text: &str) {
        if text.is_ascii() {
            self.others += text.bytes().filter(u8::is_ascii_alphabetic).count();
            return;
        }
        for c in text.chars().filter(|c| c.is_alphabetic()) {
            match c {
                '\u{3040}'..='\u{30FF}' | '\u{4E00}'..='\u{9FFF}' => self.east_asian += 1,
                _ => self.others += 1,
            }
        }
    }

    fn is_east_asian(&self) -> bool {
        EAST_ASIAN_SHARE * self.east_asian > self.others
    }
}

// Whether there may be a number with a mark. Most lines have none.
fn has_mark_at_digit(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr3_iter(b'.', b',', b'\'', bytes).any(|at| {
        let next = bytes.get(at + 1);
        next.is_some_and(|next| next.is_ascii_digit() || !next.is_ascii())
    })
}

/// How many spaces within one cell are certain to part groups of digits, and not two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellBorders {
    /// The file tells where cells end: one.
    Declared,
    /// Wide gaps are between cells: two, one before decimals, or one before a zero.
    Gaps,
    /// All characters have one width, so a gap may be a space: those before a decimal comma or a zero.
    Monospaced,
}

/// Whether spaces part the groups of the numbers in cells: `1 234 567`.
pub(crate) fn have_spaces<'t>(cells: impl Iterator<Item = &'t str>, borders: CellBorders) -> bool {
    let mut is_certain = false;
    for cell in cells {
        let chars: Vec<char> = cell.chars().map(plain_char).collect();
        let Some(start) = chars.iter().position(char::is_ascii_digit) else {
            continue;
        };
        let token = &chars[start..number_end(&chars, start, true)];
        let spaces = token.iter().filter(|c| **c == ' ').count();
        let Some(shape) = Written::new(token).map(|written| written.shape) else {
            continue;
        };
        // `1 034`
        let has_leading_zero = token.windows(2).any(|pair| pair == [' ', '0']);
        is_certain |= match (shape, borders) {
            (_, _) if spaces == 0 => false,
            (_, _) if has_leading_zero => true,
            (Shape::Decimal(DecimalMark::Comma), _) | (_, CellBorders::Declared) => true,
            (Shape::Decimal(_), borders) => borders == CellBorders::Gaps,
            (_, borders) => borders == CellBorders::Gaps && spaces > 1,
        };
        let has_other_groups = match shape {
            Shape::Decimal(_) | Shape::Grouped(_) => spaces == 0,
            Shape::One { places, .. } => places == GROUP,
            Shape::Plain => false,
        };
        if has_other_groups {
            return false;
        }
    }
    is_certain
}
