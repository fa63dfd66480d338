//! Heading styles: size, weight, case, alignment and numbering of a heading.

use stemma_document::Emphasis;

use super::line_features::{LineFeatures, LineTable, RunIn};
use super::numbering::{self, NumberClass};

/// The style of a heading; smaller values rank higher.
// The derived order is the rank of styles without any other evidence. Fields are therefore in order of weight: size
// first, then bold, capitals, centering, emphasis. `false` sorts before `true`, so each flag names the weaker property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HeadingStyle {
    /// Half points below 1000 points, so that larger sizes sort first.
    size: i32,
    plain: bool,
    small: bool,
    left: bool,
    emphasis: Emphasis,
    /// A whole sentence, as in headings of risk factors. Ranks below a title of the same style.
    pub(super) sentence: bool,
    /// A phrase at the start of a paragraph. Ranks below a title on its own line.
    pub(super) run_in: bool,
    tier: NumberTier,
    numbered: Option<NumberClass>,
}

// Among headings of one look, the number decides: `Note 3` contains a bold line inside the note, `(a)` divides the bold
// line above it.
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

    pub(super) fn is_bold_line(&self) -> bool {
        !self.plain && !self.run_in
    }

    /// The style without the number.
    pub(super) fn unnumbered(self) -> HeadingStyle {
        HeadingStyle {
            tier: NumberTier::Plain,
            numbered: None,
            ..self
        }
    }

    /// The style without the number and the place on the line.
    pub(super) fn unplaced(self) -> HeadingStyle {
        HeadingStyle {
            left: true,
            ..self.unnumbered()
        }
    }

    /// The style of the same title in title case, for a title in capitals.
    pub(super) fn uncapped(self) -> Option<HeadingStyle> {
        (!self.small).then_some(HeadingStyle {
            small: true,
            ..self
        })
    }

    /// Whether two styles differ at most in emphasis, place or half a point.
    pub(super) fn is_level_of(&self, other: &HeadingStyle) -> bool {
        let look = |style: &HeadingStyle| {
            (
                style.plain,
                style.small,
                style.sentence,
                style.run_in,
                style.numbered,
            )
        };
        look(self) == look(other) && (self.size - other.size).abs() <= 1
    }

    /// Whether two styles have the same size, weight and case, wherever the lines are.
    pub(super) fn is_like(&self, other: &HeadingStyle) -> bool {
        (self.size, self.plain, self.small) == (other.size, other.plain, other.small)
    }
}

pub(super) fn style_of(lines: &LineTable<'_>, row: &LineFeatures<'_>) -> HeadingStyle {
    let numbered = numbering::first_number(row.text)
        // `17 Fields of Use` is not section 17 unless the document also has a 16 or an 18.
        .filter(|number| !number.bare || lines.has_neighbor_number(number.value))
        .map(|number| number.class);
    HeadingStyle {
        size: 2_000 - (row.size.clamp(0.0, 900.0) * 2.0).round() as i32,
        plain: !row.bold,
        small: !row.caps,
        left: !row.centered,
        emphasis: row.emphasis,
        sentence: false,
        run_in: false,
        tier: NumberTier::from_class(numbered),
        numbered,
    }
}

pub(super) fn style_of_run_in(
    lines: &LineTable<'_>,
    row: &LineFeatures<'_>,
    phrase: &RunIn<'_>,
) -> HeadingStyle {
    HeadingStyle {
        plain: !phrase.bold,
        emphasis: phrase.emphasis,
        left: true,
        run_in: true,
        ..style_of(lines, row)
    }
}
