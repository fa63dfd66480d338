//! What headings of one kind have in common.

use super::line_features::{LineFeatures, LineTable};
use super::numbering::{self, NumberClass};

/// What headings of one kind have in common, ordered from the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HeadingStyle {
    /// Half points below the largest possible size, so that larger sorts first.
    size: i32,
    plain: bool,
    small: bool,
    left: bool,
    italic: bool,
    /// A whole sentence, as the headings of risk factors are: below a title of the same look.
    pub(super) sentence: bool,
    tier: NumberTier,
    numbered: Option<NumberClass>,
}

/// What a number says about the rank of a heading beside others of its look: `Note 3` stands above a bold line inside the
/// note, `(a)` below the bold line it divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum NumberTier {
    Counted,
    Plain,
    Listed,
}

impl NumberTier {
    fn from_class(class: Option<NumberClass>) -> Self {
        match class {
            None => NumberTier::Plain,
            Some(
                NumberClass::LowerAlpha
                | NumberClass::LowerRoman
                | NumberClass::ParenAlpha
                | NumberClass::ParenDigit
                | NumberClass::ParenRoman
                | NumberClass::CjkParen,
            ) => NumberTier::Listed,
            Some(_) => NumberTier::Counted,
        }
    }
}

impl HeadingStyle {
    pub(super) fn is_numbered(&self) -> bool {
        self.numbered.is_some()
    }

    /// The look without the number.
    pub(super) fn unnumbered(self) -> HeadingStyle {
        HeadingStyle {
            tier: NumberTier::Plain,
            numbered: None,
            ..self
        }
    }

    /// The look of the same title without capitals, for one set in capitals.
    pub(super) fn uncapped(self) -> Option<HeadingStyle> {
        (!self.small).then_some(HeadingStyle {
            small: true,
            ..self
        })
    }

    /// Whether two styles are of one size, weight and case; where the lines stand does not count.
    pub(super) fn is_like(&self, other: &HeadingStyle) -> bool {
        (self.size, self.plain, self.small) == (other.size, other.plain, other.small)
    }
}

/// The look of a row as a style.
pub(super) fn style_of(sheet: &LineTable<'_>, row: &LineFeatures<'_>) -> HeadingStyle {
    let numbered = numbering::parse_numbers(row.text)
        .first()
        .filter(|number: &&numbering::TitleNumber<'_>| {
            !number.bare || sheet.has_neighbor_number(number.value)
        })
        .map(|number| number.class);
    HeadingStyle {
        size: 2_000 - (row.size.clamp(0.0, 900.0) * 2.0).round() as i32,
        plain: !row.bold,
        small: !row.caps,
        left: !row.centered,
        italic: row.italic,
        sentence: false,
        tier: NumberTier::from_class(numbered),
        numbered,
    }
}

/// A heading seen on the page.
#[derive(Debug, Clone)]
pub(super) struct LayoutHeading {
    /// First and last row.
    pub(super) rows: (usize, usize),
    pub(super) title: String,
    pub(super) style: HeadingStyle,
    /// Its style is on more pages than sections usually are.
    pub(super) dense: bool,
    /// Nearly all headings of its style stand over paragraphs.
    pub(super) over_text: bool,
    /// The title of a financial statement: kept whatever the budget.
    pub(super) statement: bool,
}
