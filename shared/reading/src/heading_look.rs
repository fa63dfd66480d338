//! What sets a heading apart from text: its look, compared with the look of the body text, and its words.
//!
//! Trees, doubts and search ask here. Rules about the place of a line, such as the space above it, come on top
//! (`line_rules.rs` of `stemma-outline` for trees).

use std::collections::BTreeMap;

use stemma_document::{Emphasis, Line};

use crate::letters::{is_caseless, is_small, opens_title};
use crate::sentences::is_pause;
use crate::terms;
use crate::vocabulary::SMALL_TITLE_WORDS;

/// Text larger than the body by more points is large.
pub const LARGER: f32 = 0.8;
/// Text smaller than the body by as many points is small print.
pub const SMALLER: f32 = 1.3;
/// Sizes that differ by less are the same.
pub const SAME_SIZE: f32 = 0.6;
/// A longer line is not a title.
pub const LINE_WORDS: usize = 24;
/// As many bytes, where words have no spaces between them.
const LINE_BYTES: usize = 300;
/// A line that only its look makes a heading has at most as many words.
pub const PLAIN_WORDS: usize = 14;
/// A line of as many words is text, and not a cell or a label.
const TEXT_WORDS: usize = 7;
/// At least one of as many letters is of such lines where they show the look of the body.
const TEXT_SHARE: usize = 4;

/// How text is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextLook {
    /// In points.
    pub size: f32,
    pub bold: bool,
    pub emphasis: Emphasis,
}

impl From<&Line> for TextLook {
    fn from(line: &Line) -> Self {
        let style = line.style();
        Self {
            size: style.size.points(),
            bold: style.bold,
            emphasis: style.emphasis,
        }
    }
}

impl TextLook {
    pub fn is_alike(self, other: Self) -> bool {
        (self.size - other.size).abs() < SAME_SIZE
            && self.bold == other.bold
            && self.emphasis == other.emphasis
    }

    /// To count looks: size in half points, weight, emphasis.
    pub fn key(self) -> (i32, bool, Emphasis) {
        ((self.size * 2.0).round() as i32, self.bold, self.emphasis)
    }
}

/// The look of most of a text.
#[derive(Debug, Clone, Copy)]
pub struct BodyLook(TextLook);

impl BodyLook {
    /// From the look of each line, its letters, and whether it is text. Only text counts if there is any: in filings with
    /// many tables the small print of cells would win otherwise, and all text would look like headings.
    pub fn new(lines: impl IntoIterator<Item = (TextLook, usize, bool)>) -> Self {
        let mut looks: BTreeMap<(bool, (i32, bool, Emphasis)), usize> = BTreeMap::new();
        for (look, letters, is_text) in lines {
            *looks.entry((is_text, look.key())).or_default() += letters;
        }
        let most = looks
            .into_iter()
            .max_by_key(|((is_text, key), letters)| (*is_text, *letters, *key));
        let ((_, (half_points, bold, emphasis)), _) =
            most.unwrap_or(((false, (20, false, Emphasis::None)), 0));
        Self(TextLook {
            size: half_points as f32 / 2.0,
            bold,
            emphasis,
        })
    }

    /// From lines with their texts. Where few letters are text, as on slides, all lines count.
    pub fn from_lines<'l>(lines: impl IntoIterator<Item = (&'l str, &'l Line)>) -> Self {
        let lines: Vec<(TextLook, usize, bool)> = lines
            .into_iter()
            .map(|(text, line)| {
                let is_text = terms::count(text) >= TEXT_WORDS;
                (TextLook::from(line), text.len(), is_text)
            })
            .collect();
        let all: usize = lines.iter().map(|(_, letters, _)| letters).sum();
        let text: usize = lines
            .iter()
            .filter(|(.., is_text)| *is_text)
            .map(|(_, letters, _)| letters)
            .sum();
        let has_text = text * TEXT_SHARE >= all;
        Self::new(
            lines
                .into_iter()
                .map(|(look, letters, is_text)| (look, letters, is_text && has_text)),
        )
    }

    /// In points.
    pub fn size(&self) -> f32 {
        self.0.size
    }

    pub fn is_alike(&self, look: TextLook) -> bool {
        self.0.is_alike(look)
    }

    pub fn is_large(&self, size: f32) -> bool {
        size > self.0.size + LARGER
    }

    /// Whether text of this size is small print.
    pub fn is_small(&self, size: f32) -> bool {
        size <= self.0.size - SMALLER
    }

    /// Whether text is bold, and the body is not.
    pub fn is_bold(&self, bold: bool) -> bool {
        bold && !self.0.bold
    }

    /// Whether text is emphasized, and the body is not in the same way.
    pub fn is_emphasized(&self, emphasis: Emphasis) -> bool {
        emphasis.is_some() && emphasis != self.0.emphasis
    }

    /// Whether size or weight sets text apart from the body.
    pub fn is_heavy(&self, look: TextLook) -> bool {
        self.is_large(look.size) || self.is_bold(look.bold)
    }

    /// Whether size, weight or emphasis sets text apart from the body.
    pub fn sets_apart(&self, look: TextLook) -> bool {
        self.is_heavy(look) || self.is_emphasized(look.emphasis)
    }
}

/// The words of a line, which may be those of a title.
#[derive(Debug, Clone, Copy)]
pub struct TitleText<'t> {
    text: &'t str,
    chars: usize,
    pub letters: usize,
    upper: usize,
    lower: usize,
}

impl<'t> TitleText<'t> {
    pub fn new(text: &'t str) -> Self {
        let text = text.trim();
        let mut title = Self {
            text,
            chars: 0,
            letters: 0,
            upper: 0,
            lower: 0,
        };
        for c in text.chars() {
            title.chars += 1;
            title.letters += usize::from(c.is_alphabetic());
            title.upper += usize::from(c.is_uppercase());
            title.lower += usize::from(is_small(c));
        }
        title
    }

    pub fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }

    /// Whether it is as short as a line of a title.
    pub fn is_short(&self) -> bool {
        self.text.len() <= LINE_BYTES && self.words() <= LINE_WORDS
    }

    /// Whether it is set in capitals: `McDONALD'S CORPORATION`, but not `COVID-19`, which is written so in any style.
    pub fn is_capitals(&self) -> bool {
        let is_acronym =
            !self.text.contains(' ') && self.text.contains(|c: char| c.is_ascii_digit());
        self.upper >= 4 && (self.letters - self.upper) * 8 <= self.upper && !is_acronym
    }

    /// Whether no letter is small: also of `A-3` and `II`, which are too short to show a style.
    pub fn has_no_small_letters(&self) -> bool {
        self.lower == 0 && !self.text.contains(is_caseless)
    }

    /// Whether at least 60 % of the words of four and more letters, prepositions apart, start with a capital or a letter of a
    /// script without them.
    pub fn is_title_case(&self) -> bool {
        let mut all = 0;
        let mut capital = 0;
        for word in self.text.split_whitespace().take(LINE_WORDS + 6) {
            let letters = word.chars().filter(|c| c.is_alphabetic()).count();
            if letters >= 4 && !SMALL_TITLE_WORDS.contains(word) {
                all += 1;
                let first = word.chars().find(|c| c.is_alphanumeric());
                capital += usize::from(first.is_some_and(opens_title));
            }
        }
        capital * 10 >= all * 6
    }

    /// Whether most of it is letters, and not the figures of a table.
    pub fn is_lettered(&self) -> bool {
        self.letters * 2 > self.chars
    }

    /// Whether it starts with a capital or a letter of a script without them.
    pub fn starts_capital(&self) -> bool {
        self.text.starts_with(opens_title)
    }

    /// Whether the sentence goes on behind it.
    pub fn is_cut_off(&self) -> bool {
        self.text.ends_with(is_pause)
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{Pt, StyleRun};

    use super::*;

    fn look(size: f32, bold: bool) -> TextLook {
        TextLook {
            size,
            bold,
            emphasis: Emphasis::None,
        }
    }

    #[test]
    fn paragraphs_show_the_look_of_the_body_even_if_cells_are_more() {
        let body = BodyLook::new([
            (look(10.0, false), 500, true),
            (look(7.0, true), 900, false),
        ]);
        assert_eq!(body.size(), 10.0);
        assert!(body.sets_apart(look(11.0, false)) && body.sets_apart(look(10.0, true)));
        assert!(!body.sets_apart(look(10.5, false)) && body.is_small(8.0));
        let cells = BodyLook::new([(look(7.0, true), 900, false)]);
        assert!(!cells.is_heavy(look(7.0, true)));
    }

    #[test]
    fn capitals_may_hold_a_small_letter_but_are_no_acronym() {
        assert!(TitleText::new("McDONALD'S CORPORATION").is_capitals());
        for text in ["COVID-19", "USA", "Mixed CASE"] {
            assert!(!TitleText::new(text).is_capitals(), "{text}");
        }
    }

    #[test]
    fn title_case_ignores_short_words_and_prepositions() {
        assert!(TitleText::new("Results of Operations with a View").is_title_case());
        assert!(TitleText::new("“Risk Factors” and other matters of Note").is_title_case());
        assert!(!TitleText::new("Before installation check the following").is_title_case());
        // Hebrew has no capitals.
        assert!(TitleText::new("תנאי התשלום והאספקה בין הצדדים המתקשרים").is_title_case());
    }

    fn line(size: f32) -> Line {
        let run = StyleRun {
            end: 1,
            size: Pt::new(size),
            ..StyleRun::default()
        };
        Line {
            runs: vec![run],
            ..Line::default()
        }
    }

    #[test]
    fn the_body_is_what_most_lines_show_where_few_are_text() {
        let size = |lines: &[(&str, f32)]| {
            let lines: Vec<(&str, Line)> = lines
                .iter()
                .map(|(text, size)| (*text, line(*size)))
                .collect();
            BodyLook::from_lines(lines.iter().map(|(text, line)| (*text, line))).size()
        };
        let slide = [
            ("A title of seven words over bullets", 24.0),
            ("Sales rose in all regions", 12.0),
            ("Costs were lower than before", 12.0),
            ("Two plants were closed in May", 12.0),
            ("Cash flow was used for debt", 12.0),
            ("Prices of wood are stable", 12.0),
        ];
        assert_eq!(size(&slide), 12.0);
        let table = "2023 1,749 1,603 1,502 1,400 1,300 1,200 1,100";
        let chinese = [
            ("公司营业收入增长百分之十二，净利润为三亿元。", 10.5),
            ("研发投入增加，现金流量净额减少。", 10.5),
            (table, 9.0),
            (table, 9.0),
        ];
        assert_eq!(size(&chinese), 10.5);
    }
}
