//! The look of elements: inline styles, old attributes and the defaults of HTML.

use stemma_document::Emphasis;

use super::elements::Name;
use super::tokens::StartTag;

// Points. The initial font of HTML is 16 px.
const INITIAL_SIZE: f32 = 12.0;
// `<font size=1>` to `7`: the sizes of browsers in points.
const FONT_SIZES: [f32; 7] = [7.5, 10.0, 12.0, 13.5, 18.0, 24.0, 36.0];
// The basic color names of CSS.
const COLOR_NAMES: [&str; 13] = [
    "blue", "red", "green", "navy", "maroon", "purple", "teal", "olive", "lime", "aqua", "fuchsia",
    "yellow", "orange",
];
// `windowtext` is the black of Word.
const GRAY_NAMES: [&str; 6] = ["black", "white", "gray", "grey", "silver", "windowtext"];
const HEADING_SIZES: [f32; 6] = [2.0, 1.5, 1.17, 1.0, 0.83, 0.67];
// Indentation of lists and of the descriptions in them, in points.
const LIST_INDENT: f32 = 30.0;
const POINTS_PER_PIXEL: f32 = 0.75;
// Bounds of sizes and lengths in points: a hostile file may ask for anything.
const SIZES: std::ops::RangeInclusive<f32> = 1.0..=100.0;
const MAX_LENGTH: f32 = 2_000.0;
/// Width between the margins, to which percentages refer.
pub(super) const CONTENT_WIDTH: f32 = 540.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Align {
    #[default]
    Left,
    Center,
    Right,
}

/// The computed style of an element: what its text inherits.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Style {
    pub(super) size: f32,
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) underlined: bool,
    /// Neither black, white nor gray.
    pub(super) colored: bool,
    /// Links are underlined and colored by custom, which says nothing about their text.
    pub(super) linked: bool,
    pub(super) raised: bool,
    pub(super) upper: bool,
    pub(super) hidden: bool,
    /// Line ends and spaces count.
    pub(super) pre: bool,
    /// Is at the bottom of its page.
    pub(super) at_bottom: bool,
    pub(super) align: Align,
    /// Indentation of the block, in points.
    pub(super) left: f32,
    pub(super) right: f32,
    /// Indentation of the first line.
    pub(super) first: f32,
}

impl Style {
    /// The style outside of all elements.
    pub(super) fn initial() -> Self {
        Self {
            size: INITIAL_SIZE,
            ..Self::default()
        }
    }

    pub(super) fn emphasis(&self) -> Emphasis {
        let is_decorated = (self.underlined || self.colored) && !self.bold && !self.linked;
        match self.italic {
            true => Emphasis::Italic,
            false if is_decorated => Emphasis::Decoration,
            false => Emphasis::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Length {
    Points(f32),
    Em(f32),
    Percent(f32),
}

impl Length {
    fn points(self, size: f32, whole: f32) -> f32 {
        let points = match self {
            Self::Points(points) => points,
            Self::Em(em) => em * size,
            Self::Percent(percent) => percent / 100.0 * whole,
        };
        points.clamp(-MAX_LENGTH, MAX_LENGTH)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Display {
    Block,
    Inline,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Declared {
    size: Option<Length>,
    bold: Option<bool>,
    italic: Option<bool>,
    underlined: bool,
    colored: Option<bool>,
    linked: bool,
    raised: bool,
    upper: Option<bool>,
    invisible: bool,
    pre: Option<bool>,
    at_bottom: bool,
    is_absolute: bool,
    align: Option<Align>,
    left: [Option<Length>; 2],
    right: [Option<Length>; 2],
    first: Option<Length>,
    above: [Option<Length>; 2],
    below: [Option<Length>; 2],
    height: Option<Length>,
    width: Option<Length>,
    pub(super) display: Option<Display>,
    pub(super) break_before: bool,
    pub(super) break_after: bool,
    /// Text of a cell is at its bottom.
    pub(super) is_low: bool,
}

// Indices of the sides.
const MARGIN: usize = 0;
const PADDING: usize = 1;

impl Declared {
    /// What a tag declares: the defaults of its element, then old attributes, then its style.
    pub(super) fn from_tag(tag: &StartTag<'_>) -> Self {
        let mut declared = Self::for_element(tag.name);
        let mut style: &[u8] = b"";
        for (key, value) in tag.attributes() {
            // Nearly all attributes are styles; the names of the others are compared in order of frequency.
            if key.eq_ignore_ascii_case(b"style") {
                style = value;
            } else if key.eq_ignore_ascii_case(b"align") {
                declared.align = align(value).or(declared.align);
            } else if key.eq_ignore_ascii_case(b"valign") {
                declared.is_low = value.eq_ignore_ascii_case(b"bottom");
            } else if key.eq_ignore_ascii_case(b"hidden") {
                declared.display = Some(Display::None);
            } else if key.eq_ignore_ascii_case(b"width") {
                declared.width = attribute_length(value);
            } else if tag.name == Name::Font && key.eq_ignore_ascii_case(b"size") {
                declared.size = font_size(value).or(declared.size);
            } else if tag.name == Name::Font && key.eq_ignore_ascii_case(b"color") {
                declared.colored = is_colored(value).or(declared.colored);
            } else if tag.name == Name::A && key.eq_ignore_ascii_case(b"href") {
                declared.linked = true;
            }
        }
        declared.read_style(style);
        if tag.name.is_cell() {
            // Rows of tables have their own distance.
            (declared.above[PADDING], declared.below[PADDING]) = (None, None);
        }
        declared
    }

    fn for_element(name: Name) -> Self {
        let mut declared = Self::default();
        match name {
            Name::B | Name::Strong => declared.bold = Some(true),
            Name::I | Name::Em => declared.italic = Some(true),
            Name::U => declared.underlined = true,
            Name::Big => declared.size = Some(Length::Em(1.2)),
            Name::Small => declared.size = Some(Length::Em(0.83)),
            Name::Sup | Name::Sub => declared.raised = true,
            Name::Center => declared.align = Some(Align::Center),
            Name::Th => {
                declared.bold = Some(true);
                declared.align = Some(Align::Center);
            }
            // A cell begins at its own left edge.
            Name::Td => declared.align = Some(Align::Left),
            Name::Heading(level) => {
                declared.bold = Some(true);
                let size = HEADING_SIZES.get(usize::from(level).wrapping_sub(1));
                declared.size = size.map(|size| Length::Em(*size));
                declared.above[MARGIN] = Some(Length::Em(0.8));
                declared.below[MARGIN] = Some(Length::Em(0.8));
            }
            Name::P => {
                declared.above[MARGIN] = Some(Length::Em(1.0));
                declared.below[MARGIN] = Some(Length::Em(1.0));
            }
            Name::Pre => declared.pre = Some(true),
            Name::List | Name::Dd => declared.left[MARGIN] = Some(Length::Points(LIST_INDENT)),
            _ => {}
        }
        declared
    }

    fn read_style(&mut self, style: &[u8]) {
        for declaration in style.split(|byte| *byte == b';') {
            let Some(colon) = memchr::memchr(b':', declaration) else {
                continue;
            };
            let key = declaration[..colon].trim_ascii();
            let value = declaration[colon + 1..].trim_ascii();
            if key.iter().any(u8::is_ascii_uppercase) {
                self.read_property(&key.to_ascii_lowercase(), value);
            } else {
                self.read_property(key, value);
            }
        }
    }

    fn read_property(&mut self, key: &[u8], value: &[u8]) {
        let is = |word: &[u8]| value.eq_ignore_ascii_case(word);
        match key {
            b"font-size" => self.size = length(value).or(self.size),
            b"font-weight" => self.bold = weight(value).or(self.bold),
            b"font-style" => self.italic = Some(is(b"italic") || is(b"oblique")),
            b"font" => self.read_font(value),
            b"color" => self.colored = is_colored(value).or(self.colored),
            b"text-decoration" | b"text-decoration-line" => {
                let mut words = value.split(u8::is_ascii_whitespace);
                self.underlined |= words.any(|word| {
                    let word = word.split(|byte| *byte == b'!').next().unwrap_or(word);
                    word.eq_ignore_ascii_case(b"underline")
                });
            }
            b"text-align" => self.align = align(value).or(self.align),
            b"text-indent" => self.first = length(value),
            b"margin-left" | b"margin-inline-start" => self.left[MARGIN] = length(value),
            b"padding-left" => self.left[PADDING] = length(value),
            b"margin-right" => self.right[MARGIN] = length(value),
            b"padding-right" => self.right[PADDING] = length(value),
            b"margin-top" => self.above[MARGIN] = length(value),
            b"padding-top" => self.above[PADDING] = length(value),
            b"margin-bottom" => self.below[MARGIN] = length(value),
            b"padding-bottom" => self.below[PADDING] = length(value),
            b"margin" => self.read_sides(value, MARGIN),
            b"padding" => self.read_sides(value, PADDING),
            b"height" | b"min-height" => self.height = length(value),
            b"width" => self.width = length(value),
            b"display" => {
                self.display = match () {
                    () if is(b"none") => Some(Display::None),
                    () if is(b"block") || is(b"flex") || is(b"list-item") => Some(Display::Block),
                    () if value.len() >= 6 && value[..6].eq_ignore_ascii_case(b"inline") => {
                        Some(Display::Inline)
                    }
                    () => self.display,
                }
            }
            b"visibility" => self.invisible = is(b"hidden"),
            b"white-space" => self.pre = Some(is(b"pre")),
            b"vertical-align" => {
                self.raised = is(b"super") || is(b"sub");
                self.is_low = is(b"bottom");
            }
            b"text-transform" => self.upper = Some(is(b"uppercase")),
            b"position" => self.is_absolute = is(b"absolute") || is(b"fixed"),
            b"bottom" => self.at_bottom = true,
            b"page-break-before" | b"break-before" => self.break_before = is_break(value),
            b"page-break-after" | b"break-after" => self.break_after = is_break(value),
            _ => {}
        }
    }

    // `italic bold 10pt/1.2 Times`.
    fn read_font(&mut self, value: &[u8]) {
        for word in value.split(u8::is_ascii_whitespace) {
            if word.eq_ignore_ascii_case(b"italic") {
                self.italic = Some(true);
            } else if let Some(bold) = weight(word) {
                self.bold = Some(bold);
            } else if let Some(size) =
                length(word.split(|byte| *byte == b'/').next().unwrap_or(word))
            {
                self.size = Some(size);
                return;
            }
        }
    }

    // One to four lengths: top, right, bottom, left.
    fn read_sides(&mut self, value: &[u8], kind: usize) {
        let mut words = value
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .map(length);
        let Some(top) = words.next() else { return };
        let right = words.next().unwrap_or(top);
        let bottom = words.next().unwrap_or(top);
        let left = words.next().unwrap_or(right);
        self.left[kind] = left;
        self.right[kind] = right;
        self.above[kind] = top;
        self.below[kind] = bottom;
    }

    /// The style of an element inside of one with the style `outer`.
    pub(super) fn apply(&self, name: Name, outer: &Style) -> Style {
        let mut style = *outer;
        if let Some(size) = self.size {
            let size = size.points(outer.size, outer.size);
            style.size = size.clamp(*SIZES.start(), *SIZES.end());
        }
        if self.raised && self.size.is_none() {
            style.size = (outer.size * 0.7).max(*SIZES.start());
        }
        style.raised |= self.raised;
        style.bold = self.bold.unwrap_or(outer.bold);
        style.italic = self.italic.unwrap_or(outer.italic);
        // As in browsers, an element inside cannot remove the underline.
        style.underlined |= self.underlined;
        style.colored = self.colored.unwrap_or(outer.colored);
        style.linked |= self.linked;
        style.upper = self.upper.unwrap_or(outer.upper);
        style.pre = self.pre.unwrap_or(outer.pre);
        style.align = self.align.unwrap_or(outer.align);
        style.hidden |= self.display == Some(Display::None) || self.invisible || name.is_hidden();
        style.at_bottom |= self.at_bottom && self.is_absolute;
        if name.is_cell() {
            style.left = 0.0;
            style.right = 0.0;
            style.first = 0.0;
        }
        if self.is_block(name) || name.is_cell() {
            style.left =
                (style.left + sum_points(self.left, style.size)).clamp(-MAX_LENGTH, MAX_LENGTH);
            style.right =
                (style.right + sum_points(self.right, style.size)).clamp(-MAX_LENGTH, MAX_LENGTH);
        }
        if let Some(first) = self.first {
            style.first = first.points(style.size, CONTENT_WIDTH);
        }
        style
    }

    /// Space before and after an element within a line, in points.
    pub(super) fn inline_space(&self, style: &Style) -> (f32, f32) {
        (
            sum_points(self.left, style.size),
            sum_points(self.right, style.size),
        )
    }

    /// Whether an element with this name starts and ends a line.
    pub(super) fn is_block(&self, name: Name) -> bool {
        match self.display {
            Some(Display::Block) => true,
            Some(Display::Inline) => false,
            _ => name.is_block(),
        }
    }

    /// Space above and below a block, in points. A block without text may have a height instead.
    pub(super) fn space(&self, style: &Style) -> (f32, f32) {
        let points = |lengths: [Option<Length>; 2]| -> f32 {
            let lengths = lengths.into_iter().flatten();
            lengths
                .map(|length| length.points(style.size, 0.0).max(0.0))
                .sum()
        };
        (points(self.above), points(self.below))
    }

    /// The least height of a block, in points.
    pub(super) fn height(&self, style: &Style) -> f32 {
        self.height
            .map_or(0.0, |height| height.points(style.size, 0.0).max(0.0))
    }

    /// Width as a share of the surrounding box, or `None` if it is not stated.
    pub(super) fn width_share(&self) -> Option<f32> {
        match self.width? {
            Length::Percent(percent) => Some((percent / 100.0).clamp(0.0, 1.0)),
            length => Some((length.points(INITIAL_SIZE, 0.0) / CONTENT_WIDTH).clamp(0.0, 1.0)),
        }
    }
}

// A margin and a padding, in points.
fn sum_points(lengths: [Option<Length>; 2], size: f32) -> f32 {
    let lengths = lengths.into_iter().flatten();
    lengths
        .map(|length| length.points(size, CONTENT_WIDTH))
        .sum()
}

fn align(value: &[u8]) -> Option<Align> {
    match value.to_ascii_lowercase().as_slice() {
        b"left" | b"justify" | b"start" => Some(Align::Left),
        b"center" | b"middle" => Some(Align::Center),
        b"right" | b"end" => Some(Align::Right),
        _ => None,
    }
}

// Weights of at least 600 are bold, as in `StyleRun`.
fn weight(value: &[u8]) -> Option<bool> {
    match value {
        b"400" | b"normal" => Some(false),
        b"700" | b"bold" => Some(true),
        _ => match value.to_ascii_lowercase().as_slice() {
            b"bold" | b"bolder" | b"600" | b"700" | b"800" | b"900" => Some(true),
            b"normal" | b"lighter" | b"100" | b"200" | b"300" | b"400" | b"500" => Some(false),
            _ => None,
        },
    }
}

// Whether a CSS color has a hue and is not a shade of gray; `None` if it cannot be parsed.
fn is_colored(value: &[u8]) -> Option<bool> {
    // Between the strongest and the weakest channel. `#1d1c1d` is printed as black.
    const MIN_SPREAD: u8 = 64;
    let text = std::str::from_utf8(value).ok()?.trim();
    let text = text.trim_end_matches("!important").trim_end();
    let hex = match text.strip_prefix('#') {
        Some(hex) => hex,
        // `<font color="0000ff">`
        None if text.len() == 6 && text.bytes().all(|b| b.is_ascii_hexdigit()) => text,
        None => "",
    };
    let digit = |at: usize| u8::from_str_radix(hex.get(at..=at)?, 16).ok();
    let rgb = match (hex.len(), text.get(..4)) {
        (3 | 4, _) => [digit(0)? * 17, digit(1)? * 17, digit(2)? * 17],
        (6 | 8, _) => {
            let byte = |at: usize| Some(digit(at)? << 4 | digit(at + 1)?);
            [byte(0)?, byte(2)?, byte(4)?]
        }
        (_, Some(start)) if start.eq_ignore_ascii_case("rgb(") => {
            let numbers = text[4..].trim_end_matches(')');
            let mut parts = numbers.split([',', ' ']).filter(|part| !part.is_empty());
            let mut part = || parts.next()?.parse().ok();
            [part()?, part()?, part()?]
        }
        _ => {
            let is = |name: &&str| text.eq_ignore_ascii_case(name);
            let is_gray = GRAY_NAMES.iter().any(is);
            let is_color = COLOR_NAMES.iter().any(is);
            return (is_gray || is_color).then_some(is_color);
        }
    };
    let [red, green, blue] = rgb;
    let spread = red.max(green).max(blue) - red.min(green).min(blue);
    Some(spread >= MIN_SPREAD)
}

fn is_break(value: &[u8]) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(
        value.as_slice(),
        b"always" | b"page" | b"left" | b"right" | b"recto" | b"verso"
    )
}

fn font_size(value: &[u8]) -> Option<Length> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let number: i32 = text.trim_start_matches('+').parse().ok()?;
    // `+1` and `-1` count from 3, the size of the text around.
    let size = if text.starts_with(['+', '-']) {
        number.saturating_add(3)
    } else {
        number
    };
    let index = usize::try_from(size.clamp(1, 7) - 1).ok()?;
    FONT_SIZES.get(index).map(|size| Length::Points(*size))
}

// `WIDTH=40%` or a number of pixels.
fn attribute_length(value: &[u8]) -> Option<Length> {
    let text = std::str::from_utf8(value).ok()?.trim();
    match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(Length::Percent),
        None => text
            .parse()
            .ok()
            .map(|pixels: f32| Length::Points(pixels * POINTS_PER_PIXEL)),
    }
}

fn length(value: &[u8]) -> Option<Length> {
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+'))
        .count();
    let (number, unit) = value.split_at(digits);
    if number.is_empty() {
        return None;
    }
    let number: f32 = std::str::from_utf8(number).ok()?.parse().ok()?;
    // `10pt!important`
    let unit = unit.split(|byte| *byte == b'!').next().unwrap_or(unit);
    let points = match unit.trim_ascii() {
        b"pt" => 1.0,
        b"px" => POINTS_PER_PIXEL,
        b"in" => 72.0,
        b"cm" => 28.35,
        b"mm" => 2.835,
        b"pc" => 12.0,
        b"" if number == 0.0 => 1.0,
        b"em" => return Some(Length::Em(number)),
        b"rem" => return Some(Length::Points(number * INITIAL_SIZE)),
        b"ex" => return Some(Length::Em(number * 0.5)),
        b"%" => return Some(Length::Percent(number)),
        unit if unit.iter().any(u8::is_ascii_uppercase) => {
            return length(&value.to_ascii_lowercase());
        }
        _ => return None,
    };
    Some(Length::Points(number * points))
}

#[cfg(test)]
mod tests {
    use super::super::tokens::{Token, Tokenizer};
    use super::*;

    fn style(html: &str) -> Style {
        let Some(Token::Start(tag)) = Tokenizer::new(html.as_bytes()).next() else {
            panic!("no tag")
        };
        Declared::from_tag(&tag).apply(tag.name, &Style::initial())
    }

    #[test]
    fn underlines_and_colors_decorate_regular_text_that_is_no_link() {
        for tag in [
            "<u>",
            "<span style='text-decoration: underline dotted'>",
            "<span style='color:#fc671a'>",
            "<span style='color:#00F'>",
            "<span style='color: rgb(0, 51, 102)'>",
            "<span style='color:rgb(0 51 102)'>",
            "<span style='text-decoration:underline!important'>",
            "<font color=Navy>",
            "<font color=\"0000ff\">",
        ] {
            assert_eq!(style(tag).emphasis(), Emphasis::Decoration, "{tag}");
        }
        for tag in [
            "<span style='text-decoration:none'>",
            "<span style='color:#1d1c1d'>",
            "<span style='color:white'>",
            "<span style='color:windowtext'>",
            "<span style='color:inherit'>",
            "<span style='color:#é0'>",
            "<span style='color:rgb(999,0,0)'>",
            "<b style='text-decoration:underline'>",
            "<a href='#x' style='color:blue;text-decoration:underline'>",
        ] {
            assert_eq!(style(tag).emphasis(), Emphasis::None, "{tag}");
        }
    }

    #[test]
    fn margins_and_paddings_add_up_to_the_space_around_a_block() {
        let space = |html: &str| {
            let Some(Token::Start(tag)) = Tokenizer::new(html.as_bytes()).next() else {
                panic!("no tag")
            };
            Declared::from_tag(&tag).space(&Style::initial())
        };
        let paragraph = "<p style='margin-top:6pt;padding-top:12px;padding-bottom:3pt'>";
        assert_eq!(space(paragraph), (15.0, 15.0));
        assert_eq!(
            space("<div style='padding:4pt 1pt;margin:2pt'>"),
            (6.0, 6.0)
        );
        assert_eq!(space("<td style='padding:4pt'>"), (0.0, 0.0));
    }

    #[test]
    fn styles_attributes_and_elements_set_the_look() {
        let modern = style(
            "<div style=\"font: italic bold 10pt/1.2 'Times'; TEXT-ALIGN:Center; margin:0 0 0 1in;padding-left:2em\">",
        );
        assert!(modern.bold && modern.italic);
        assert_eq!((modern.size, modern.align), (10.0, Align::Center));
        assert_eq!(modern.left, 72.0 + 20.0);
        assert_eq!(style("<font size=2>").size, 10.0);
        assert_eq!(style("<font size=+1>").size, 13.5);
        assert_eq!(style("<h2>").size, 18.0);
        assert_eq!(style("<p align=center>").align, Align::Center);
        assert!(style("<center>").align == Align::Center && style("<b>").bold);
        assert!(!style("<b style='font-weight:normal'>").bold);
        assert!(style("<span style='display:none'>").hidden);
        assert!(style("<div hidden>").hidden && style("<ix:header>").hidden);
        assert!(style("<div style='position:absolute;bottom:0'>").at_bottom);
    }

    #[test]
    fn hostile_lengths_are_bounded() {
        let wild = style(
            "<div style='font-size:1e9pt;margin-left:-99999999999999999999999999999999999999999999pt;text-indent:NaN'>",
        );
        assert!(wild.size <= 100.0 && wild.left >= -2_000.0 && wild.first == 0.0);
    }
}
