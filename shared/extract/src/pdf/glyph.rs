//! Positioned characters, the output of the content stream interpreter.

use stemma_document::{HiddenReason, Turn};

/// A code without a known character. It keeps its position in a word.
pub(super) const UNMAPPED: char = '\u{fffd}';

// In ems: glyphs that are farther apart are of different words.
const MAX_GAP: f32 = 0.25;

/// The direction of a line on the displayed page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Writing {
    pub(super) direction: Direction,
    /// Clockwise turn from `direction` in whole degrees, at most 45.
    pub(super) tilt: i8,
}

impl Writing {
    /// The direction of the vector `(x, y)`.
    pub(super) fn along(x: f64, y: f64) -> Self {
        let (direction, forward, clockwise) = match (x.abs() >= y.abs(), x >= 0.0, y >= 0.0) {
            (true, true, _) => (Direction::Right, x, y),
            (true, false, _) => (Direction::Left, -x, -y),
            (false, _, true) => (Direction::Down, y, -x),
            (false, _, false) => (Direction::Up, -y, x),
        };
        // Nearly all text is straight, and this runs for each string.
        let tilt = if clockwise == 0.0 {
            0
        } else {
            clockwise.atan2(forward).to_degrees().round() as i8
        };
        Self { direction, tilt }
    }

    /// Clockwise from [`Direction::Right`], in degrees.
    pub(super) fn angle(self) -> f32 {
        let base = match self.direction {
            Direction::Right => 0.0,
            Direction::Down => 90.0,
            Direction::Left => 180.0,
            Direction::Up => 270.0,
        };
        base + f32::from(self.tilt)
    }

    /// Returns the point along and across the direction.
    pub(super) fn to_line(self, x: f32, y: f32) -> (f32, f32) {
        let (u, v) = match self.direction {
            Direction::Right => (x, y),
            Direction::Down => (y, -x),
            Direction::Left => (-x, -y),
            Direction::Up => (-y, x),
        };
        turn(u, v, -f32::from(self.tilt))
    }

    /// Inverts [`Writing::to_line`].
    pub(super) fn to_page(self, u: f32, v: f32) -> (f32, f32) {
        let (u, v) = turn(u, v, f32::from(self.tilt));
        match self.direction {
            Direction::Right => (u, v),
            Direction::Down => (-v, u),
            Direction::Left => (-u, -v),
            Direction::Up => (v, -u),
        }
    }
}

fn turn(u: f32, v: f32, degrees: f32) -> (f32, f32) {
    if degrees == 0.0 {
        return (u, v);
    }
    let (sin, cos) = degrees.to_radians().sin_cos();
    (u * cos - v * sin, u * sin + v * cos)
}

/// The nearest axis of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Right,
    Down,
    Left,
    Up,
}

impl Direction {
    /// Clockwise.
    pub(super) const ALL: [Self; 4] = [Self::Right, Self::Down, Self::Left, Self::Up];

    /// How a page whose text runs this way is turned.
    pub(super) fn turn(self) -> Turn {
        match self {
            Self::Right => Turn::None,
            Self::Down => Turn::Quarter,
            Self::Left => Turn::Half,
            Self::Up => Turn::ThreeQuarters,
        }
    }

    // This direction on a page that is turned until `base` runs to the right.
    fn relative_to(self, base: Self) -> Self {
        Self::ALL[(self as usize + 4 - base as usize) % 4]
    }
}

/// A positioned character. Coordinates are points on the page, y downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Glyph {
    pub(super) text: char,
    /// Origin of the glyph on its baseline.
    pub(super) x: f32,
    pub(super) y: f32,
    /// Non-negative length along the direction.
    pub(super) advance: f32,
    pub(super) size: f32,
    pub(super) writing: Writing,
    pub(super) bold: bool,
    pub(super) italic: bool,
    /// Cannot be seen, and may be what text recognition read on a picture.
    pub(super) invisible: bool,
    /// Why it cannot be seen.
    pub(super) hidden: Option<HiddenReason>,
    /// The number of its look on the canvas.
    pub(super) appearance: u32,
}

impl Glyph {
    /// Whether `next` is in the same word, if it comes next in the file.
    pub(super) fn is_followed_by(&self, next: &Self) -> bool {
        let (u, v) = self.writing.to_line(self.x, self.y);
        let (next_u, next_v) = self.writing.to_line(next.x, next.y);
        let slack = MAX_GAP * self.size;
        (next_u - u - self.advance).abs() <= slack && (next_v - v).abs() <= slack
    }

    /// This glyph of a displayed page of `width` and `height`, on the page turned until `base` runs to the right.
    pub(super) fn seen_along(&self, base: Direction, width: f32, height: f32) -> Self {
        let (x, y) = match base {
            Direction::Right => (self.x, self.y),
            Direction::Down => (self.y, width - self.x),
            Direction::Left => (width - self.x, height - self.y),
            Direction::Up => (height - self.y, self.x),
        };
        let writing = Writing {
            direction: self.writing.direction.relative_to(base),
            ..self.writing
        };
        Self {
            x,
            y,
            writing,
            ..*self
        }
    }
}
