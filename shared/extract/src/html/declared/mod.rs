//! What an element declares about its look: defaults of HTML, old attributes, rules of style sheets and its own style.

mod properties;

use stemma_document::HiddenReason;

use self::properties::align;
use crate::html::color::Paint;
use crate::html::css::Rule;
use crate::html::elements::Name;
use crate::html::hidden::Hidden;
use crate::html::length::{INITIAL_SIZE, Length, MAX_LENGTH, sum_points};
use crate::html::placed::Frame;
use crate::html::style::{Align, CONTENT_WIDTH, Style};
use crate::html::tokens::StartTag;
use crate::html::transform::Transform;

const HEADING_SIZES: [f32; 6] = [2.0, 1.5, 1.17, 1.0, 0.83, 0.67];
// Indentation of lists and of the descriptions in them, in points.
const LIST_INDENT: f32 = 30.0;
// Bounds of sizes in points: a hostile file may ask for anything.
const SIZES: std::ops::RangeInclusive<f32> = 1.0..=100.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Display {
    Block,
    Inline,
    InlineBlock,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Position {
    #[default]
    Static,
    Relative,
    Absolute,
}

/// Sides of a box that is positioned.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Offsets {
    pub(super) left: Option<Length>,
    pub(super) right: Option<Length>,
    pub(super) top: Option<Length>,
    pub(super) bottom: Option<Length>,
}

// What hides the content of a box, each by a property of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Covers {
    aria: bool,
    opacity: bool,
    clip: bool,
    clip_path: bool,
    content: bool,
    // What does not fit into the box is not displayed.
    overflow: bool,
    // The box has at most one pixel.
    no_height: bool,
    no_width: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Declared {
    size: Option<Length>,
    bold: Option<bool>,
    italic: Option<bool>,
    underlined: bool,
    color: Option<Paint>,
    pub(super) ground: Option<Paint>,
    linked: bool,
    // Smaller, above or below the line.
    is_script: bool,
    is_raised: bool,
    upper: Option<bool>,
    visible: Option<bool>,
    pre: Option<bool>,
    fixed_pitch: bool,
    position: Position,
    offsets: Offsets,
    align: Option<Align>,
    left: [Option<Length>; 2],
    right: [Option<Length>; 2],
    first: Option<Length>,
    above: [Option<Length>; 2],
    below: [Option<Length>; 2],
    height: Option<Length>,
    width: Option<Length>,
    transform: Transform,
    covers: Covers,
    // Whether a property of the box is declared that few boxes have.
    is_rare: bool,
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
    /// What a tag declares: the defaults of its element, then old attributes, then the rules that match it, the last of
    /// them strongest, then its style.
    pub(super) fn from_tag(tag: &StartTag<'_>, rules: &[&Rule]) -> Self {
        let mut declared = Self::for_element(tag.name);
        let mut style: &[u8] = b"";
        for (key, value) in tag.attributes() {
            // Nearly all attributes are styles; the names of the others are compared in order of frequency.
            if key.eq_ignore_ascii_case(b"style") {
                style = value;
            } else {
                declared.read_attribute(tag.name, key, value);
            }
        }
        for rule in rules {
            declared.read_properties(&rule.normal);
        }
        // Nearly no style has any, so their marks are only looked for where they are.
        let has_important = memchr::memchr(b'!', style).is_some();
        declared.read_style(style, has_important, false);
        for rule in rules {
            declared.read_properties(&rule.important);
        }
        if has_important {
            declared.read_style(style, true, true);
        }
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
            Name::Sup | Name::Sub => {
                declared.is_script = true;
                declared.is_raised = name == Name::Sup;
            }
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
                let margin = Some(Length::Em(0.8));
                declared.above[MARGIN] = margin;
                declared.below[MARGIN] = margin;
            }
            Name::P => {
                let margin = Some(Length::Em(1.0));
                declared.above[MARGIN] = margin;
                declared.below[MARGIN] = margin;
            }
            Name::Pre => {
                declared.pre = Some(true);
                declared.fixed_pitch = true;
            }
            Name::List | Name::Dd => declared.left[MARGIN] = Some(Length::Points(LIST_INDENT)),
            _ => {}
        }
        declared
    }

    fn read_attribute(&mut self, name: Name, key: &[u8], value: &[u8]) {
        let is = |attribute: &[u8]| key.eq_ignore_ascii_case(attribute);
        if is(b"align") {
            self.align = align(value).or(self.align);
        } else if is(b"valign") {
            self.is_low = value.eq_ignore_ascii_case(b"bottom");
        } else if is(b"hidden") {
            self.display = Some(Display::None);
        } else if is(b"width") {
            self.width = Length::parse_attribute(value);
        } else if name == Name::Img && is(b"height") {
            self.height = Length::parse_attribute(value);
        } else if is(b"bgcolor") {
            self.ground = Paint::parse(value).or(Some(Paint::Unknown));
        } else if is(b"background") {
            self.ground = Some(Paint::Unknown);
        } else if name == Name::Font && is(b"size") {
            self.size = Length::parse_font_size(value).or(self.size);
        } else if name == Name::Font && is(b"color") || name == Name::Body && is(b"text") {
            self.color = Paint::parse(value).or(self.color);
        } else if name == Name::A && is(b"href") {
            self.linked = true;
            self.color = self.color.or(Some(Paint::LINK));
        } else if is(b"aria-hidden") {
            self.covers.aria = value.eq_ignore_ascii_case(b"true");
            self.is_rare = true;
        }
    }

    /// The style of an element inside of one with the style `outer`.
    pub(super) fn apply(&self, name: Name, outer: &Style) -> Style {
        let mut style = *outer;
        if self.is_rare {
            style.zoom =
                (outer.zoom * self.transform.scale).clamp(SIZES.end().recip(), *SIZES.end());
            style.size *= self.transform.scale;
        }
        style.size = match self.size {
            Some(Length::Points(points)) => points * style.zoom,
            Some(size) => size.points(style.size, style.size),
            None if self.is_script => style.size * 0.7,
            None => style.size,
        };
        style.size = style.size.clamp(*SIZES.start(), *SIZES.end());
        style.is_script |= self.is_script;
        let is_moved_up = self.position == Position::Relative
            && self.offsets.top.is_some_and(Length::is_negative);
        style.is_raised |= self.is_raised || is_moved_up && style.size < outer.size;
        style.bold = self.bold.unwrap_or(outer.bold);
        style.italic = self.italic.unwrap_or(outer.italic);
        // As in browsers, an element inside cannot remove the underline.
        style.underlined |= self.underlined;
        if let Some(color) = self.color {
            style.color = color;
            style.colored = color.has_hue();
        }
        style.ground = self.ground.unwrap_or(outer.ground);
        style.linked |= self.linked;
        style.upper = self.upper.unwrap_or(outer.upper);
        style.pre = self.pre.unwrap_or(outer.pre);
        style.fixed_pitch |= self.fixed_pitch;
        style.align = self.align.unwrap_or(outer.align);
        style.at_bottom |= self.is_absolute() && self.offsets.bottom.is_some();
        if name.is_cell() {
            (style.left, style.right, style.first) = Default::default();
        }
        if self.is_block(name) || name.is_cell() {
            let sides = |lengths| sum_points(lengths, style.size, CONTENT_WIDTH);
            style.left = (style.left + sides(self.left)).clamp(-MAX_LENGTH, MAX_LENGTH);
            style.right = (style.right + sides(self.right)).clamp(-MAX_LENGTH, MAX_LENGTH);
        }
        if let Some(first) = self.first {
            style.first = first.points(style.size, CONTENT_WIDTH);
        }
        style.invisible = self.visible.map_or(outer.invisible, |visible| !visible);
        style.hidden = outer.hidden.or_else(|| self.hides(name));
        style
    }

    // Why nothing inside is displayed.
    fn hides(&self, name: Name) -> Option<Hidden> {
        let covers = &self.covers;
        match () {
            () if name.is_data() => Some(Hidden::Data),
            // Scripts display a page that hides all of itself.
            () if matches!(name, Name::Html | Name::Body) => None,
            () if self.display == Some(Display::None) => {
                Some(Hidden::Text(HiddenReason::NotDisplayed))
            }
            () if name == Name::Spare => Some(Hidden::Text(HiddenReason::NotDisplayed)),
            () if self.left[MARGIN].is_some_and(Length::is_away) => {
                Some(Hidden::Text(HiddenReason::OffPage))
            }
            () if !self.is_rare => None,
            () if covers.aria => Some(Hidden::Text(HiddenReason::Decorative)),
            () if covers.opacity => Some(Hidden::Text(HiddenReason::Transparent)),
            () if covers.clip_path || covers.clip && self.is_absolute() => {
                Some(Hidden::Text(HiddenReason::Clipped))
            }
            () if self.transform.is_flat && (self.is_box(name) || name.is_cell()) => {
                Some(Hidden::Text(HiddenReason::Clipped))
            }
            () if self.is_away() => Some(Hidden::Text(HiddenReason::OffPage)),
            () if covers.overflow && self.has_no_area(name) => {
                Some(Hidden::Text(HiddenReason::Clipped))
            }
            () if covers.content => Some(Hidden::Text(HiddenReason::NotDisplayed)),
            () => None,
        }
    }

    fn is_away(&self) -> bool {
        let sides = [self.offsets.left, self.offsets.top];
        let mut is_away = sides.into_iter().flatten().any(Length::is_away);
        is_away &= self.position != Position::Static;
        is_away || self.transform.is_away
    }

    // Has sides, which text within a line has not.
    fn is_box(&self, name: Name) -> bool {
        self.is_block(name) || self.is_absolute() || self.display == Some(Display::InlineBlock)
    }

    fn has_no_area(&self, name: Name) -> bool {
        let sides = [self.height, self.width].into_iter().flatten();
        let mut is_flat = self.covers.no_height || self.covers.no_width;
        is_flat |= sides.into_iter().any(Length::is_nothing);
        is_flat && self.is_box(name)
    }

    /// Space before and after an element within a line, in points.
    pub(super) fn inline_space(&self, style: &Style) -> (f32, f32) {
        (
            sum_points(self.left, style.size, CONTENT_WIDTH),
            sum_points(self.right, style.size, CONTENT_WIDTH),
        )
    }

    /// Whether an element with this name starts and ends a line.
    pub(super) fn is_block(&self, name: Name) -> bool {
        match self.display {
            Some(Display::Block) => true,
            Some(Display::Inline | Display::InlineBlock) => false,
            _ => name.is_block(),
        }
    }

    pub(super) fn is_absolute(&self) -> bool {
        self.position == Position::Absolute
    }

    /// The sides of a picture in points, as far as they are stated.
    pub(super) fn picture_size(&self, style: &Style) -> (Option<f32>, Option<f32>) {
        let side = |length| match length {
            Some(Length::Percent(_)) | None => None,
            Some(length) => Some(length.own_points(style.size)),
        };
        (side(self.width), side(self.height))
    }

    /// The width of a box within a line, in points.
    pub(super) fn inline_width(&self, style: &Style) -> Option<f32> {
        match (self.display, self.width) {
            (Some(Display::InlineBlock), Some(Length::Points(points))) => {
                Some((points * style.zoom).abs().min(MAX_LENGTH))
            }
            _ => None,
        }
    }

    /// The box of a page, if the element is as large as one and holds what is placed in it.
    pub(super) fn page_frame(&self) -> Option<Frame> {
        match self.position {
            Position::Static => None,
            _ => Frame::page(self.width, self.height),
        }
    }

    /// The box of an element that is placed in another one.
    pub(super) fn frame_in(&self, outer: &Frame, style: &Style, zoom: f32) -> Option<Frame> {
        let sides = (self.width, self.height);
        let is_turned = self.transform.is_turned;
        self.is_absolute()
            .then(|| outer.inside(&self.offsets, sides, style.size, zoom, is_turned))
            .flatten()
    }

    /// Space above and below a block, in points. A block without text may have a height instead.
    pub(super) fn space(&self, style: &Style) -> (f32, f32) {
        let points = |lengths: [Option<Length>; 2]| -> f32 {
            let lengths = lengths.into_iter().flatten();
            lengths
                .map(|length| length.own_points(style.size).max(0.0))
                .sum()
        };
        (points(self.above), points(self.below))
    }

    /// The least height of a block, in points.
    pub(super) fn height(&self, style: &Style) -> f32 {
        self.height
            .map(|height| height.own_points(style.size).max(0.0))
            .unwrap_or_default()
    }

    /// Width as a share of the surrounding box, or `None` if it is not stated.
    pub(super) fn width_share(&self) -> Option<f32> {
        match self.width? {
            Length::Percent(percent) => Some((percent / 100.0).clamp(0.0, 1.0)),
            length => Some((length.own_points(INITIAL_SIZE) / CONTENT_WIDTH).clamp(0.0, 1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::Emphasis;

    use super::super::tokens::{Token, Tokenizer};
    use super::*;

    fn style(html: &str) -> Style {
        let Some(Token::Start(tag)) = Tokenizer::new(html.as_bytes()).next() else {
            panic!("no tag")
        };
        Declared::from_tag(&tag, &[]).apply(tag.name, &Style::initial(Paint::WHITE))
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
            Declared::from_tag(&tag, &[]).space(&Style::initial(Paint::WHITE))
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
        assert!(style("<span style='display:none'>").hidden.is_some());
        assert!(style("<div hidden>").hidden.is_some() && style("<ix:header>").hidden.is_some());
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
