//! The computed look of elements.

use stemma_document::{Emphasis, HiddenReason, Pt, StyleRun};

use super::color::Paint;
use super::hidden::Hidden;
use super::length::{INITIAL_SIZE, Length};

/// Width between the margins, to which percentages refer.
pub(super) const CONTENT_WIDTH: f32 = 540.0;
// Points. Smaller text is dust on a page.
const MIN_SEEN_SIZE: f32 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Align {
    #[default]
    Left,
    Center,
    Right,
}

/// The computed style of an element: what its text inherits.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Style {
    pub(super) size: f32,
    /// By how much transformations scale what is inside.
    pub(super) zoom: f32,
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) underlined: bool,
    pub(super) color: Paint,
    /// The color has a hue.
    pub(super) colored: bool,
    /// What is behind the text.
    pub(super) ground: Paint,
    /// Links are underlined and colored by custom, which says nothing about their text.
    pub(super) linked: bool,
    /// Smaller, above or below the line.
    pub(super) is_script: bool,
    /// Above the line.
    pub(super) is_raised: bool,
    pub(super) upper: bool,
    /// Why nothing inside is displayed.
    pub(super) hidden: Option<Hidden>,
    /// By `visibility`, which elements inside may undo.
    pub(super) invisible: bool,
    /// Line ends and spaces count.
    pub(super) pre: bool,
    /// All characters have the same width.
    pub(super) fixed_pitch: bool,
    /// Is at the bottom of its page.
    pub(super) at_bottom: bool,
    pub(super) align: Align,
    /// Indentation of the block, in points.
    pub(super) left: f32,
    pub(super) right: f32,
    /// Indentation of the first line.
    pub(super) first: f32,
}

impl Style {
    /// The style outside of all elements, on a ground.
    pub(super) fn initial(ground: Paint) -> Self {
        Self {
            size: INITIAL_SIZE,
            zoom: 1.0,
            color: Paint::BLACK,
            ground,
            ..Self::default()
        }
    }

    /// The look of text, which ends nowhere yet.
    pub(super) fn run(&self) -> StyleRun {
        StyleRun {
            end: 0,
            size: Pt::new(self.size),
            bold: self.bold,
            emphasis: self.emphasis(),
        }
    }

    pub(super) fn emphasis(&self) -> Emphasis {
        let is_decorated = (self.underlined || self.colored) && !self.bold && !self.linked;
        match self.italic {
            true => Emphasis::Italic,
            false if is_decorated => Emphasis::Decoration,
            false => Emphasis::None,
        }
    }

    /// Why text in this style is not seen.
    pub(super) fn hides_text(&self) -> Option<Hidden> {
        match self.hidden {
            Some(hidden) => Some(hidden),
            None if self.invisible => Some(Hidden::Text(HiddenReason::NotDisplayed)),
            None if self.size < MIN_SEEN_SIZE => Some(Hidden::Text(HiddenReason::Tiny)),
            None if Length::Points(self.first).is_away() => {
                Some(Hidden::Text(HiddenReason::OffPage))
            }
            None if self.color.is_unseen_on(self.ground) => {
                Some(Hidden::Text(HiddenReason::SameColor))
            }
            None => None,
        }
    }
}
