//! Colors of text and of the ground behind it.

use cssparser::Parser;
use cssparser::color::{OPAQUE, parse_hash_color, parse_named_color};
use cssparser_color::{Color, hsl_to_rgb};

// Between the strongest and the weakest channel of a color with a hue. `#1d1c1d` is printed as black.
const MIN_SPREAD: u8 = 64;
// Channels of two colors that nobody can tell apart differ by less.
const MIN_CONTRAST: u8 = 13;
// Degrees.
const FULL_TURN: f32 = 360.0;
/// Opacity of what cannot be seen.
pub(super) const MIN_ALPHA: f32 = 0.05;

/// What text or a ground is painted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Paint {
    Solid([u8; 3]),
    Transparent,
    /// A picture, or a color that is not computed here.
    #[default]
    Unknown,
}

impl Paint {
    pub(super) const BLACK: Self = Self::Solid([0; 3]);
    pub(super) const WHITE: Self = Self::Solid([255; 3]);
    /// Of links that nothing else colors.
    pub(super) const LINK: Self = Self::Solid([0, 0, 238]);

    /// Reads a color; `None` if it is none, or the word for the color around.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?.trim();
        if let Some(hex) = text.strip_prefix('#') {
            return Self::from_hex(hex);
        }
        if text.contains('(') {
            return Some(Self::from_function(text));
        }
        if let Ok((red, green, blue)) = parse_named_color(text) {
            return Some(Self::Solid([red, green, blue]));
        }
        match text.len() {
            // `<font color="0000ff">`
            6 if text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Self::from_hex(text),
            11 if text.eq_ignore_ascii_case("transparent") => Some(Self::Transparent),
            // The black of Word.
            10 if text.eq_ignore_ascii_case("windowtext") => Some(Self::BLACK),
            _ => None,
        }
    }

    /// Reads the value of `background`, whose color may come with other words; `Transparent` if it has none.
    pub(super) fn parse_background(value: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(value) else {
            return Self::Unknown;
        };
        let lower = text.to_ascii_lowercase();
        if ["url(", "gradient(", "image(", "image-set(", "var("]
            .iter()
            .any(|picture| lower.contains(picture))
        {
            return Self::Unknown;
        }
        if lower.contains('(') {
            let start = lower.find("rgb").or_else(|| lower.find("hsl"));
            let color = start.and_then(|start| lower[start..].split_inclusive(')').next());
            return color.map_or(Self::Unknown, |color| {
                Self::parse(color.as_bytes()).unwrap_or(Self::Unknown)
            });
        }
        lower
            .split_ascii_whitespace()
            .find_map(|word| Self::parse(word.as_bytes()))
            .unwrap_or(Self::Transparent)
    }

    fn from_hex(hex: &str) -> Option<Self> {
        let (red, green, blue, alpha) = parse_hash_color(hex.as_bytes()).ok()?;
        Some(Self::with_alpha([red, green, blue], alpha))
    }

    fn with_alpha(color: [u8; 3], alpha: f32) -> Self {
        match alpha {
            alpha if alpha < MIN_ALPHA => Self::Transparent,
            alpha if alpha < OPAQUE => Self::Unknown,
            _ => Self::Solid(color),
        }
    }

    // `rgb(0, 51, 102)`, `hsl(210deg 100% 20% / 50%)`. Colors of wider gamuts are not computed.
    fn from_function(text: &str) -> Self {
        match Color::parse(&mut Parser::new(text)) {
            Ok(Color::Rgba(rgba)) => {
                Self::with_alpha([rgba.red, rgba.green, rgba.blue], rgba.alpha)
            }
            Ok(Color::Hsl(hsl)) => {
                let share =
                    |part: Option<f32>| part.filter(|part| part.is_finite()).unwrap_or_default();
                let hue = share(hsl.hue).rem_euclid(FULL_TURN) / FULL_TURN;
                let (red, green, blue) =
                    hsl_to_rgb(hue, share(hsl.saturation), share(hsl.lightness));
                let color =
                    [red, green, blue].map(|part| (part * f32::from(u8::MAX)).round() as u8);
                Self::with_alpha(color, hsl.alpha.unwrap_or(OPAQUE))
            }
            _ => Self::Unknown,
        }
    }

    /// Whether it has a hue and is not a shade of gray.
    pub(super) fn has_hue(self) -> bool {
        let Self::Solid([red, green, blue]) = self else {
            return false;
        };
        red.max(green).max(blue) - red.min(green).min(blue) >= MIN_SPREAD
    }

    /// Whether text of this color is not seen on a ground. On an unknown ground all text is seen.
    pub(super) fn is_unseen_on(self, ground: Self) -> bool {
        match (self, ground) {
            (Self::Solid(text), Self::Solid(ground)) => text
                .iter()
                .zip(ground)
                .all(|(text, ground)| text.abs_diff(ground) < MIN_CONTRAST),
            (Self::Transparent, Self::Solid(_)) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_read_in_all_notations() {
        let blue = Some(Paint::Solid([0, 0, 255]));
        for value in [
            "blue",
            "Blue",
            "#00f",
            "#0000FF",
            "0000ff",
            "rgb(0,0,255)",
            "rgb(0 0 255)",
            "rgb(0%, 0%, 100%)",
            "rgba(0, 0, 999, 1)",
            "hsl(240, 100%, 50%)",
            "hsl(240deg 100% 50%)",
            "hsl(-480 100% 50%)",
        ] {
            assert_eq!(Paint::parse(value.as_bytes()), blue, "{value}");
        }
        for (value, paint) in [
            ("transparent", Some(Paint::Transparent)),
            ("rgba(0,0,0,0)", Some(Paint::Transparent)),
            ("#0000", Some(Paint::Transparent)),
            ("rgb(0 0 0 / 50%)", Some(Paint::Unknown)),
            ("oklch(40% 0.268 34.568deg)", Some(Paint::Unknown)),
            ("var(--text)", Some(Paint::Unknown)),
            ("rgb(0,0)", Some(Paint::Unknown)),
            ("hsl(1e999deg 100% 50%)", Some(Paint::Solid([255, 0, 0]))),
            ("inherit", None),
            ("#é0", None),
        ] {
            assert_eq!(Paint::parse(value.as_bytes()), paint, "{value}");
        }
    }

    #[test]
    fn a_background_is_its_color_and_a_picture_is_unknown() {
        for (value, paint) in [
            ("#003366", Paint::Solid([0, 51, 102])),
            ("navy none repeat scroll 0 0", Paint::Solid([0, 0, 128])),
            ("no-repeat rgb(0, 0, 128)", Paint::Solid([0, 0, 128])),
            ("none", Paint::Transparent),
            ("white url(a.png)", Paint::Unknown),
            ("linear-gradient(white, white)", Paint::Unknown),
        ] {
            assert_eq!(Paint::parse_background(value.as_bytes()), paint, "{value}");
        }
    }
}
