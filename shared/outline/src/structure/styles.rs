//! What headings of one kind have in common.

use super::lines::{Row, Sheet};
use super::numbering::{self, Class};

/// What headings of one kind have in common, ordered from the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Style {
    /// Half points below the largest possible size, so that larger sorts first.
    size: i32,
    plain: bool,
    small: bool,
    left: bool,
    italic: bool,
    /// A whole sentence, as the headings of risk factors are: below a title of the same look.
    pub(super) sentence: bool,
    tier: Tier,
    numbered: Option<Class>,
}

/// What a number says about the rank of a heading beside others of its look: `Note 3` stands above a bold line inside the
/// note, `(a)` below the bold line it divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Tier {
    Counted,
    Plain,
    Listed,
}

impl Tier {
    fn of(class: Option<Class>) -> Self {
        match class {
            None => Tier::Plain,
            Some(
                Class::LowerAlpha
                | Class::LowerRoman
                | Class::ParenAlpha
                | Class::ParenDigit
                | Class::ParenRoman
                | Class::CjkParen,
            ) => Tier::Listed,
            Some(_) => Tier::Counted,
        }
    }
}

impl Style {
    pub(super) fn is_numbered(&self) -> bool {
        self.numbered.is_some()
    }

    /// The look without the number.
    pub(super) fn unnumbered(self) -> Style {
        Style {
            tier: Tier::Plain,
            numbered: None,
            ..self
        }
    }

    /// The look of the same title without capitals, for one set in capitals.
    pub(super) fn uncapped(self) -> Option<Style> {
        (!self.small).then_some(Style {
            small: true,
            ..self
        })
    }

    /// Whether two styles are of one size, weight and case; where the lines stand does not count.
    pub(super) fn is_like(&self, other: &Style) -> bool {
        (self.size, self.plain, self.small) == (other.size, other.plain, other.small)
    }
}

/// The look of a row as a style.
pub(super) fn style(sheet: &Sheet<'_>, row: &Row<'_>) -> Style {
    let numbered = numbering::readings(row.text)
        .first()
        .filter(|number: &&numbering::Number<'_>| !number.bare || sheet.counts(number.value))
        .map(|number| number.class);
    Style {
        size: 2_000 - (row.size.clamp(0.0, 900.0) * 2.0).round() as i32,
        plain: !row.bold,
        small: !row.caps,
        left: !row.centered,
        italic: row.italic,
        sentence: false,
        tier: Tier::of(numbered),
        numbered,
    }
}
