//! Text of a page that the eye does not see.

use serde::{Deserialize, Serialize};

use crate::PageNo;

/// Text of a page that the eye does not see. It is not part of the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenText {
    pub page: PageNo,
    /// Its beginning.
    pub text: String,
    pub reason: HiddenReason,
}

/// Why text is not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenReason {
    /// It has the color of what is below it.
    SameColor,
    /// Smaller than 2 points on a page of usual size.
    Tiny,
    OffPage,
    /// Outside of the area that is painted.
    Clipped,
    /// A fill or an image covers it.
    Covered,
    /// Its layer is off unless a reader turns it on.
    LayerOff,
    /// It is drawn in an invisible mode.
    Unpainted,
    Transparent,
    /// The markup says not to display it.
    NotDisplayed,
    /// The markup says that it is decoration.
    Decorative,
}

impl HiddenReason {
    /// Says how words are hidden.
    pub fn description(self) -> &'static str {
        match self {
            Self::SameColor => "in the color of what is below",
            Self::Tiny => "too small to read",
            Self::OffPage => "off the page",
            Self::Clipped => "outside of a clip",
            Self::Covered => "covered",
            Self::LayerOff => "in a layer that is off",
            Self::Unpainted => "drawn invisibly",
            Self::Transparent => "transparent",
            Self::NotDisplayed => "not displayed",
            Self::Decorative => "marked as decoration",
        }
    }

    /// Says how many words are hidden in each way.
    pub fn describe(words: &[(Self, usize)]) -> String {
        let count: usize = words.iter().map(|(_, words)| words).sum();
        let ways: Vec<String> = words
            .iter()
            .map(|(reason, words)| format!("{words} {}", reason.description()))
            .collect();
        let noun = if count == 1 { "word is" } else { "words are" };
        format!("{count} {noun} hidden and not read: {}", ways.join(", "))
    }
}
