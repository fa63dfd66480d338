//! Colors of text and of the ground behind it.

use cssparser::color::{parse_hash_color, parse_named_color};

// Between the strongest and the weakest channel of a color with a hue. `#1d1c1d` is printed as black.
const MIN_SPREAD: u8 = 64;
// Channels of two colors that nobody can tell apart differ by less.
const MIN_CONTRAST: u8 = 13;
// Alpha of what cannot be seen.
const MIN_ALPHA: f32 = 0.05;

/// What text or a ground is painted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Solid([u8; 3]),
    Transparent,
    /// A picture, or a color that is not computed here.
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
        if let Some((function, inside)) = text.split_once('(') {
            return Some(Self::from_function(function, inside.trim_end_matches(')')));
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
        if ["url(", "gradient(", "image", "var("]
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
            alpha if alpha < 1.0 => Self::Unknown,
            _ => Self::Solid(color),
        }
    }

    // `rgb(0, 51, 102)`, `rgb(0 51 102 / 50%)`, `hsl(210deg 100% 20%)`.
    fn from_function(function: &str, inside: &str) -> Self {
        let mut numbers = [0.0_f32, 0.0, 0.0, 1.0];
        let parts = inside
            .split([',', ' ', '/'])
            .filter(|part| !part.is_empty());
        let mut count = 0;
        for part in parts {
            let number = part.strip_suffix('%').unwrap_or(part);
            let number = number.strip_suffix("deg").unwrap_or(number);
            let (Some(slot), Ok(number)) = (numbers.get_mut(count), number.parse::<f32>()) else {
                return Self::Unknown;
            };
            let is_percent = part.ends_with('%');
            *slot = match (is_percent, function.len()) {
                (true, 3 | 4) if count < 3 && function.starts_with(['r', 'R']) => number * 2.55,
                (true, _) => number / 100.0,
                (false, _) => number,
            };
            count += 1;
        }
        let [first, second, third, alpha] = numbers;
        let is = |name: &str| {
            count >= 3 && function.len() >= 3 && function[..3].eq_ignore_ascii_case(name)
        };
        // Conversions saturate: browsers clamp channels, too.
        match () {
            () if is("rgb") => {
                Self::with_alpha([first, second, third].map(|c| c.round() as u8), alpha)
            }
            () if is("hsl") => Self::with_alpha(hsl(first, second, third), alpha),
            () => Self::Unknown,
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

// Degrees and shares (CSS Color 4, HSL to RGB).
fn hsl(hue: f32, saturation: f32, lightness: f32) -> [u8; 3] {
    [0.0, 8.0, 4.0].map(|n| {
        let k = (n + hue / 30.0).rem_euclid(12.0);
        let spread = saturation * lightness.min(1.0 - lightness);
        let share = lightness - spread * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (share * 255.0).round() as u8
    })
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
