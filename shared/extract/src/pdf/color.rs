//! Colors of text and fills, as far as they can be compared: gray, RGB, CMYK, and spaces that are like one of them.

use hayro_syntax::object::{Array, Name, Number, Object, Stream};
use hayro_syntax::page::Resources;

// Nobody sees a smaller difference of a channel.
const MAX_DIFFERENCE: u8 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rgb([u8; 3]);

impl Rgb {
    pub(super) const WHITE: Self = Self([u8::MAX; 3]);
    pub(super) const BLACK: Self = Self([0; 3]);

    /// Whether the eye cannot tell them apart.
    pub(super) fn is_near(self, other: Self) -> bool {
        self.0
            .iter()
            .zip(other.0)
            .all(|(one, other)| one.abs_diff(other) <= MAX_DIFFERENCE)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColorSpace {
    Gray,
    Rgb,
    Cmyk,
    /// Inks whose color is known only where there is none.
    Inks,
    /// An ink that is black.
    Black,
    /// Not one color, and not everywhere.
    Pattern,
    /// An index of a table, or a space that is not read.
    Unknown,
}

impl ColorSpace {
    /// Reads the space that a content stream selects by name.
    pub(super) fn read(name: &Name<'_>, resources: &Resources<'_>) -> Self {
        Self::device(name).unwrap_or_else(|| match resources.get_color_space(name) {
            Some(Object::Name(name)) => Self::device(&name).unwrap_or(Self::Unknown),
            Some(Object::Array(array)) => Self::from_array(&array).unwrap_or(Self::Unknown),
            _ => Self::Unknown,
        })
    }

    fn device(name: &Name<'_>) -> Option<Self> {
        match name.as_ref() {
            b"DeviceGray" | b"CalGray" => Some(Self::Gray),
            b"DeviceRGB" | b"CalRGB" => Some(Self::Rgb),
            b"DeviceCMYK" => Some(Self::Cmyk),
            b"Pattern" => Some(Self::Pattern),
            _ => None,
        }
    }

    fn from_array(array: &Array<'_>) -> Option<Self> {
        let mut items = array.flex_iter();
        let family = items.next::<Name<'_>>()?;
        match family.as_ref() {
            b"ICCBased" => {
                let profile = items.next::<Stream<'_>>()?;
                // The values of a profile for Lab are not those of RGB.
                let alternate = profile.dict().get::<Array<'_>>("Alternate");
                let family = alternate.and_then(|space| space.flex_iter().next::<Name<'_>>());
                if family.is_some_and(|family| family.as_ref() == b"Lab") {
                    return None;
                }
                match profile.dict().get::<u8>("N")? {
                    1 => Some(Self::Gray),
                    3 => Some(Self::Rgb),
                    4 => Some(Self::Cmyk),
                    _ => None,
                }
            }
            b"Separation" => match items.next::<Name<'_>>()?.as_ref() {
                b"Black" => Some(Self::Black),
                // `/All` marks all plates, `/None` nothing.
                b"All" | b"None" => None,
                _ => Some(Self::Inks),
            },
            b"DeviceN" => Some(Self::Inks),
            _ => Self::device(&family),
        }
    }

    /// The color of `values`; `None` if it is not known.
    pub(super) fn color(self, values: &[Number]) -> Option<Rgb> {
        // `as` saturates.
        let channel = |value: &Number| (value.as_f32() * f32::from(u8::MAX)).round() as u8;
        match (self, values) {
            (Self::Gray, [gray]) => Some(Rgb([channel(gray); 3])),
            (Self::Rgb, [red, green, blue]) => {
                Some(Rgb([channel(red), channel(green), channel(blue)]))
            }
            (Self::Cmyk, [cyan, magenta, yellow, black]) => {
                let black = channel(black);
                let light = |ink| u8::MAX.saturating_sub(channel(ink).saturating_add(black));
                Some(Rgb([light(cyan), light(magenta), light(yellow)]))
            }
            (Self::Black, [tint]) => Some(Rgb([u8::MAX - channel(tint); 3])),
            (Self::Inks, [_, ..]) if values.iter().all(|tint| channel(tint) == 0) => {
                Some(Rgb::WHITE)
            }
            _ => None,
        }
    }

    /// The color after the space is selected (ISO 32000-2, 8.6.3).
    pub(super) fn initial_color(self) -> Option<Rgb> {
        match self {
            Self::Gray | Self::Rgb | Self::Cmyk | Self::Black => Some(Rgb::BLACK),
            Self::Inks | Self::Pattern | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn color(space: ColorSpace, values: &[f32]) -> Option<Rgb> {
        let values: Vec<Number> = values
            .iter()
            .map(|value| Number::from_f32(*value))
            .collect();
        space.color(&values)
    }

    #[test]
    fn colors_of_simple_spaces_can_be_compared() {
        assert_eq!(color(ColorSpace::Gray, &[1.0]), Some(Rgb::WHITE));
        assert_eq!(color(ColorSpace::Rgb, &[0.0, 0.0, 0.0]), Some(Rgb::BLACK));
        assert_eq!(
            color(ColorSpace::Cmyk, &[0.0, 0.0, 0.0, 0.0]),
            Some(Rgb::WHITE)
        );
        assert_eq!(
            color(ColorSpace::Cmyk, &[0.0, 0.0, 0.0, 1.0]),
            Some(Rgb::BLACK)
        );
        assert_eq!(color(ColorSpace::Black, &[1.0]), Some(Rgb::BLACK));
        let nearly_white = color(ColorSpace::Rgb, &[1.0, 0.98, 0.98]).unwrap();
        assert!(nearly_white.is_near(Rgb::WHITE));
        assert!(!color(ColorSpace::Gray, &[0.9]).unwrap().is_near(Rgb::WHITE));
    }

    #[test]
    fn other_colors_are_not_known() {
        assert_eq!(color(ColorSpace::Inks, &[0.0, 0.0]), Some(Rgb::WHITE));
        assert_eq!(color(ColorSpace::Inks, &[0.0, 0.3]), None);
        assert_eq!(color(ColorSpace::Unknown, &[1.0]), None);
        assert_eq!(color(ColorSpace::Rgb, &[1.0]), None);
        assert_eq!(ColorSpace::Inks.initial_color(), None);
    }
}
