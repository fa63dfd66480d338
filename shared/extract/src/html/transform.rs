//! The `transform` of a box.

use super::length::Length;

// For a box that is not empty.
const MIN_DETERMINANT: f32 = 1e-6;

/// What a transformation does to text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Transform {
    /// Of the height of its characters.
    pub(super) scale: f32,
    /// It runs in another direction.
    pub(super) is_turned: bool,
    /// Nothing is left of it.
    pub(super) is_flat: bool,
    /// It is left or above of every page.
    pub(super) is_away: bool,
}

impl Default for Transform {
    fn default() -> Self {
        Self {
            scale: 1.0,
            is_turned: false,
            is_flat: false,
            is_away: false,
        }
    }
}

impl Transform {
    /// Reads a list of functions; those that only turn or move text change nothing.
    pub(super) fn parse(value: &[u8]) -> Self {
        let mut transform = Self::default();
        let Ok(text) = std::str::from_utf8(value) else {
            return transform;
        };
        for part in text.to_ascii_lowercase().split(')') {
            if let Some((function, inside)) = part.split_once('(') {
                transform.add(function.trim().as_bytes(), inside);
            }
        }
        transform
    }

    fn add(&mut self, function: &[u8], inside: &str) {
        let words = || inside.split([',', ' ']).filter(|word| !word.is_empty());
        let numbers: Vec<f32> = words().filter_map(|word| word.parse().ok()).collect();
        let determinant: Option<f32> = match (function, numbers.as_slice()) {
            (b"matrix", &[a, b, c, d, ..]) => {
                self.scale *= c.hypot(d);
                self.is_turned |= b.abs() > a.abs();
                Some(a * d - b * c)
            }
            (b"scale" | b"scale3d", &[x, y, ..]) => {
                self.scale *= y.abs();
                Some(x * y)
            }
            (b"scale" | b"scaley", &[scale, ..]) => {
                self.scale *= scale.abs();
                Some(scale)
            }
            (b"scalex", &[scale, ..]) => Some(scale),
            (b"translate" | b"translatex" | b"translatey" | b"translate3d", _) => {
                let mut lengths = words().filter_map(|word| Length::parse(word.as_bytes()));
                self.is_away |= lengths.any(Length::is_away);
                None
            }
            (b"rotate", _) => {
                let turn = words()
                    .next()
                    .and_then(|angle| angle.strip_suffix("deg")?.parse().ok());
                self.is_turned |= turn.is_some_and(|turn: f32| (turn as i32).rem_euclid(180) >= 45);
                None
            }
            _ => None,
        };
        self.is_flat |= determinant.is_some_and(|determinant| determinant.abs() < MIN_DETERMINANT);
        if self.is_flat {
            self.scale = Self::default().scale;
        }
    }
}
