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

/// A box on a page. The origin is the top left corner of the displayed page (after `/Rotate`); y grows downwards.
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
}
