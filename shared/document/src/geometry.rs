//! Lengths and boxes on a page, as exact integers.
//!
//! Extraction computes in floating point. Rounding to 0.01 pt before storing makes equal input give equal bytes on
//! every machine.

use serde::{Deserialize, Serialize};

/// A length in hundredths of a PDF point (1 pt = 1/72 inch). Saturates instead of overflowing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Pt(pub i32);

impl Pt {
    /// Rounds to 0.01 pt; NaN becomes 0.
    pub fn new(points: f32) -> Self {
        // `as` saturates and maps NaN to 0, which is the intended result for hostile pages.
        Self((points * 100.0).round() as i32)
    }

    pub fn points(self) -> f32 {
        self.0 as f32 / 100.0
    }
}

/// A clockwise turn from a page as it is read to the page as it is displayed (after `/Rotate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    #[default]
    None,
    Quarter,
    Half,
    ThreeQuarters,
}

impl Turn {
    /// Whether width and height change places.
    pub fn is_sideways(self) -> bool {
        matches!(self, Self::Quarter | Self::ThreeQuarters)
    }

    pub fn inverse(self) -> Self {
        match self {
            Self::Quarter => Self::ThreeQuarters,
            Self::ThreeQuarters => Self::Quarter,
            other => other,
        }
    }
}

/// A box on a page. The origin is the top left corner of the page as it is read (see [`Turn`]); y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "[i32; 4]", into = "[i32; 4]")]
pub struct Rect {
    pub x0: Pt,
    pub y0: Pt,
    /// `>= x0`
    pub x1: Pt,
    /// `>= y0`
    pub y1: Pt,
}

impl Rect {
    /// The box between two corners in points, in any order.
    pub fn new(x0: f32, y0: f32, x1: f32, y1: f32) -> Self {
        Self {
            x0: Pt::new(x0.min(x1)),
            y0: Pt::new(y0.min(y1)),
            x1: Pt::new(x0.max(x1)),
            y1: Pt::new(y0.max(y1)),
        }
    }

    /// Width in points.
    pub fn width(&self) -> f32 {
        self.x1.points() - self.x0.points()
    }

    /// Height in points.
    pub fn height(&self) -> f32 {
        self.y1.points() - self.y0.points()
    }

    /// The box after a sheet of `width` and `height` is turned.
    pub fn turned(self, turn: Turn, width: Pt, height: Pt) -> Self {
        let from = |edge: Pt, length: Pt| Pt(edge.0.saturating_sub(length.0));
        let Self { x0, y0, x1, y1 } = self;
        let corners = match turn {
            Turn::None => [x0, y0, x1, y1],
            Turn::Quarter => [from(height, y1), x0, from(height, y0), x1],
            Turn::Half => [
                from(width, x1),
                from(height, y1),
                from(width, x0),
                from(height, y0),
            ],
            Turn::ThreeQuarters => [y0, from(width, x1), y1, from(width, x0)],
        };
        Self::from(corners.map(|corner| corner.0))
    }

    pub fn union(self, other: Self) -> Self {
        Self {
            x0: self.x0.min(other.x0),
            y0: self.y0.min(other.y0),
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
        }
    }
}

// Untrusted input may have swapped corners.
impl From<[i32; 4]> for Rect {
    fn from([x0, y0, x1, y1]: [i32; 4]) -> Self {
        Self {
            x0: Pt(x0.min(x1)),
            y0: Pt(y0.min(y1)),
            x1: Pt(x0.max(x1)),
            y1: Pt(y0.max(y1)),
        }
    }
}

impl From<Rect> for [i32; 4] {
    fn from(r: Rect) -> Self {
        [r.x0.0, r.y0.0, r.x1.0, r.y1.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_numbers_saturate() {
        assert_eq!(Pt::new(f32::NAN), Pt(0));
        assert_eq!(Pt::new(f32::INFINITY), Pt(i32::MAX));
        assert_eq!(Pt::new(-1e30), Pt(i32::MIN));
        assert_eq!(Pt::new(12.345).0, 1235);
    }

    #[test]
    fn corners_may_come_in_any_order() {
        assert_eq!(
            Rect::new(10.0, 20.0, 1.0, 2.0),
            Rect::new(1.0, 2.0, 10.0, 20.0)
        );
        assert_eq!(Rect::from([5, 5, 1, 1]), Rect::from([1, 1, 5, 5]));
    }

    #[test]
    fn turning_a_box_there_and_back_returns_it() {
        // A mark near the top left corner of a sheet of 100 by 200 points.
        let mark = Rect::new(10.0, 20.0, 40.0, 25.0);
        let sheet = [Pt::new(100.0), Pt::new(200.0)];
        for (turn, turned) in [
            (Turn::None, mark),
            (Turn::Quarter, Rect::new(175.0, 10.0, 180.0, 40.0)),
            (Turn::Half, Rect::new(60.0, 175.0, 90.0, 180.0)),
            (Turn::ThreeQuarters, Rect::new(20.0, 60.0, 25.0, 90.0)),
        ] {
            assert_eq!(mark.turned(turn, sheet[0], sheet[1]), turned);
            let [width, height] = if turn.is_sideways() {
                [sheet[1], sheet[0]]
            } else {
                sheet
            };
            assert_eq!(turned.turned(turn.inverse(), width, height), mark);
        }
    }
}
