//! The `transform` of a box.

use super::length::Length;

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
                transform.add(function.trim(), inside);
            }
        }
        transform
    }

    fn add(&mut self, function: &str, inside: &str) {
        let words = || inside.split([',', ' ']).filter(|word| !word.is_empty());
        let numbers: Vec<f32> = words().filter_map(|word| word.parse().ok()).collect();
        let determinant = match (function, numbers.as_slice()) {
            ("matrix", &[a, b, c, d, ..]) => {
                self.scale *= c.hypot(d);
                self.is_turned |= b.abs() > a.abs();
                a * d - b * c
            }
            ("scale" | "scale3d", &[x, y, ..]) => {
                self.scale *= y.abs();
                x * y
            }
            ("scale" | "scaley", &[scale, ..]) => {
                self.scale *= scale.abs();
                scale
            }
            ("scalex", &[scale, ..]) => scale,
            ("translate" | "translatex" | "translatey" | "translate3d", _) => {
                let mut lengths = words().filter_map(|word| Length::parse(word.as_bytes()));
                self.is_away |= lengths.any(Length::is_away);
                1.0
            }
            ("rotate", _) => {
                let turn = words()
                    .next()
                    .and_then(|angle| angle.strip_suffix("deg")?.parse().ok());
                self.is_turned |= turn.is_some_and(|turn: f32| turn.rem_euclid(180.0) >= 45.0);
                1.0
            }
            _ => 1.0,
        };
        self.is_flat |= determinant.abs() < 1e-6;
        if self.is_flat {
            self.scale = 1.0;
        }
    }
}
