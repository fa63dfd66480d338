//! Positioned characters, the output of the content stream interpreter.

/// A code without a known character. It keeps its position in a word.
pub(super) const UNMAPPED: char = '\u{fffd}';

/// Writing direction on the displayed page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Right,
    Down,
    Left,
    Up,
}

/// A positioned character. Coordinates are points on the displayed page, y downwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glyph {
    pub(super) text: char,
    /// Origin of the glyph on its baseline.
    pub(super) x: f32,
    pub(super) y: f32,
    /// Non-negative length along the direction.
    pub(super) advance: f32,
    pub(super) size: f32,
    pub(super) direction: Direction,
    pub(super) bold: bool,
    pub(super) italic: bool,
    /// Text render mode 3.
    pub(super) invisible: bool,
}
