//! Lengths of CSS and of old attributes, in points.

// Points. The initial font of HTML is 16 px.
pub(super) const INITIAL_SIZE: f32 = 12.0;
const POINTS_PER_PIXEL: f32 = 0.75;
// `<font size=1>` to `7`: the sizes of browsers in points.
const FONT_SIZES: [f32; 7] = [7.5, 10.0, 12.0, 13.5, 18.0, 24.0, 36.0];
/// Bound of lengths in points: a hostile file may ask for anything.
pub(super) const MAX_LENGTH: f32 = 2_000.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Length {
    Points(f32),
    Em(f32),
    Percent(f32),
}

impl Length {
    /// In points, where the font has a size and percentages refer to a whole.
    pub(super) fn points(self, size: f32, whole: f32) -> f32 {
        let points = match self {
            Self::Points(points) => points,
            Self::Em(em) => em * size,
            Self::Percent(percent) => percent / 100.0 * whole,
        };
        points.clamp(-MAX_LENGTH, MAX_LENGTH)
    }

    pub(super) fn is_negative(self) -> bool {
        let (Self::Points(length) | Self::Em(length) | Self::Percent(length)) = self;
        length < 0.0
    }

    /// In points where there is nothing that percentages refer to.
    pub(super) fn own_points(self, size: f32) -> f32 {
        self.points(size, 0.0)
    }

    /// Whether it is at most a pixel, whatever the font.
    pub(super) fn is_nothing(self) -> bool {
        match self {
            Self::Points(points) => points <= POINTS_PER_PIXEL,
            Self::Em(share) | Self::Percent(share) => share <= 0.0,
        }
    }

    /// Whether a box that is moved by it is left or above of every page: by 999 pixels or more.
    pub(super) fn is_away(self) -> bool {
        self.points(INITIAL_SIZE, INITIAL_SIZE) <= -999.0 * POINTS_PER_PIXEL
    }

    /// A length of CSS.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let digits = value
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+'))
            .count();
        let (number, unit) = value.split_at(digits);
        if number.is_empty() {
            return None;
        }
        let number: f32 = std::str::from_utf8(number).ok()?.parse().ok()?;
        let points = match unit.trim_ascii() {
            b"pt" => 1.0,
            b"px" => POINTS_PER_PIXEL,
            b"in" => 72.0,
            b"cm" => 28.35,
            b"mm" => 2.835,
            b"pc" => 12.0,
            b"" if number == 0.0 => 1.0,
            b"em" => return Some(Self::Em(number)),
            b"rem" => return Some(Self::Points(number * INITIAL_SIZE)),
            b"ex" => return Some(Self::Em(number * 0.5)),
            b"%" => return Some(Self::Percent(number)),
            unit if unit.iter().any(u8::is_ascii_uppercase) => {
                return Self::parse(&value.to_ascii_lowercase());
            }
            _ => return None,
        };
        Some(Self::Points(number * points))
    }

    /// `WIDTH=40%` or a number of pixels.
    pub(super) fn parse_attribute(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?.trim();
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().map(Self::Percent),
            None => text
                .parse()
                .ok()
                .map(|pixels: f32| Self::Points(pixels * POINTS_PER_PIXEL)),
        }
    }

    /// The size of `<font>`.
    pub(super) fn parse_font_size(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?.trim();
        let number: i32 = text.trim_start_matches('+').parse().ok()?;
        // `+1` and `-1` count from 3, the size of the text around.
        let size = if text.starts_with(['+', '-']) {
            number.saturating_add(3)
        } else {
            number
        };
        let index = usize::try_from(size.clamp(1, 7) - 1).ok()?;
        FONT_SIZES.get(index).map(|size| Self::Points(*size))
    }
}

/// The sum of a margin and a padding, in points.
pub(super) fn sum_points(lengths: [Option<Length>; 2], size: f32, whole: f32) -> f32 {
    lengths
        .into_iter()
        .flatten()
        .map(|length| length.points(size, whole))
        .sum()
}
