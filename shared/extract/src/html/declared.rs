//! What an element declares about its look: defaults of HTML, old attributes, rules of style sheets and its own style.

use stemma_document::HiddenReason;

use super::color::{MIN_ALPHA, Paint};
use super::css::{Property, Rule};
use super::elements::Name;
use super::hidden::Hidden;
use super::length::{INITIAL_SIZE, Length, MAX_LENGTH, sum_points};
use super::placed::Frame;
use super::style::{Align, CONTENT_WIDTH, Style};
use super::tokens::StartTag;
use super::transform::Transform;

const HEADING_SIZES: [f32; 6] = [2.0, 1.5, 1.17, 1.0, 0.83, 0.67];
// Indentation of lists and of the descriptions in them, in points.
const LIST_INDENT: f32 = 30.0;
// Bounds of sizes in points: a hostile file may ask for anything.
const SIZES: std::ops::RangeInclusive<f32> = 1.0..=100.0;
// Percent that cuts all of a box from each side.
const HALF: f32 = 50.0;

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

    fn read_properties(&mut self, properties: &[Property]) {
        for property in properties {
            self.read_property(&property.name, &property.value);
        }
    }

    // The declarations of an element, either those with `!important` or the others.
    fn read_style(&mut self, style: &[u8], has_marks: bool, important: bool) {
        for declaration in style.split(|byte| *byte == b';') {
            let Some(colon) = memchr::memchr(b':', declaration) else {
                continue;
            };
            let key = declaration[..colon].trim_ascii();
            let value = &declaration[colon + 1..];
            let mark = has_marks.then(|| memchr::memchr(b'!', value)).flatten();
            if mark.is_some() != important {
                continue;
            }
            let value = value[..mark.unwrap_or(value.len())].trim_ascii();
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
            b"font-size" => self.size = Length::parse(value).or(self.size),
            b"font-weight" => self.bold = weight(value).or(self.bold),
            b"font-style" => self.italic = Some(is(b"italic") || is(b"oblique")),
            b"font" => self.read_font(value),
            b"color" if is(b"inherit") || is(b"currentcolor") => self.color = None,
            b"color" => self.color = Paint::parse(value).or(self.color),
            b"text-decoration" | b"text-decoration-line" => {
                let mut words = value.split(u8::is_ascii_whitespace);
                self.underlined = words.any(|word| word.eq_ignore_ascii_case(b"underline"));
            }
            b"text-align" => self.align = align(value).or(self.align),
            b"text-indent" => self.first = Length::parse(value),
            b"margin-left" | b"margin-inline-start" => self.left[MARGIN] = Length::parse(value),
            b"padding-left" => self.left[PADDING] = Length::parse(value),
            b"margin-right" => self.right[MARGIN] = Length::parse(value),
            b"padding-right" => self.right[PADDING] = Length::parse(value),
            b"margin-top" => self.above[MARGIN] = Length::parse(value),
            b"padding-top" => self.above[PADDING] = Length::parse(value),
            b"margin-bottom" => self.below[MARGIN] = Length::parse(value),
            b"padding-bottom" => self.below[PADDING] = Length::parse(value),
            b"margin" => self.read_sides(value, MARGIN),
            b"padding" => self.read_sides(value, PADDING),
            b"height" | b"min-height" => self.height = Length::parse(value),
            b"width" => self.width = Length::parse(value),
            b"display" => self.display = display(value).or(self.display),
            b"visibility" => self.visible = Some(!(is(b"hidden") || is(b"collapse"))),
            b"white-space" => self.pre = Some(is(b"pre")),
            b"vertical-align" => {
                self.is_script = is(b"super") || is(b"sub");
                self.is_raised = is(b"super");
                self.is_low = is(b"bottom");
            }
            b"background-color" => {
                let ground = Paint::parse(value);
                self.ground = ground.filter(|paint| *paint != Paint::Transparent);
            }
            b"text-transform" => self.upper = Some(is(b"uppercase")),
            b"page-break-before" | b"break-before" => self.break_before = is_break(value),
            b"page-break-after" | b"break-after" => self.break_after = is_break(value),
            _ => self.read_rare_property(key, value),
        }
    }

    // Properties of boxes that are painted, moved or cut.
    fn read_rare_property(&mut self, key: &[u8], value: &[u8]) {
        let is = |word: &[u8]| value.eq_ignore_ascii_case(word);
        match key {
            b"background" => {
                let ground = Some(Paint::parse_background(value));
                self.ground = ground.filter(|paint| *paint != Paint::Transparent);
            }
            b"background-image" if !is(b"none") => self.ground = Some(Paint::Unknown),
            b"position" => {
                self.position = match () {
                    () if is(b"absolute") || is(b"fixed") => Position::Absolute,
                    () if is(b"relative") || is(b"sticky") => Position::Relative,
                    () => Position::Static,
                }
            }
            b"left" => self.offsets.left = Length::parse(value),
            b"right" => self.offsets.right = Length::parse(value),
            b"top" => self.offsets.top = Length::parse(value),
            b"bottom" => self.offsets.bottom = Length::parse(value),
            b"transform" | b"-webkit-transform" | b"-ms-transform" => {
                self.transform = Transform::parse(value);
            }
            b"opacity" => {
                let opacity = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.trim_end_matches('%').parse::<f32>().ok());
                self.covers.opacity = opacity.is_some_and(|opacity| opacity < MIN_ALPHA);
            }
            b"overflow" | b"overflow-x" | b"overflow-y" => {
                self.covers.overflow = is(b"hidden") || is(b"clip");
            }
            b"max-height" => self.covers.no_height = is_nothing(value),
            b"max-width" => self.covers.no_width = is_nothing(value),
            b"clip" => self.covers.clip = is_empty_rect(value),
            b"clip-path" | b"-webkit-clip-path" => self.covers.clip_path = is_empty_shape(value),
            b"content-visibility" => self.covers.content = is(b"hidden"),
            _ => return,
        }
        self.is_rare = true;
    }

    // `italic bold 10pt/1.2 Times`.
    fn read_font(&mut self, value: &[u8]) {
        for word in value.split(u8::is_ascii_whitespace) {
            if word.eq_ignore_ascii_case(b"italic") {
                self.italic = Some(true);
            } else if let Some(bold) = weight(word) {
                self.bold = Some(bold);
            } else if let Some(size) =
                Length::parse(word.split(|byte| *byte == b'/').next().unwrap_or(word))
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
            .map(Length::parse);
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

fn align(value: &[u8]) -> Option<Align> {
    match value.to_ascii_lowercase().as_slice() {
        b"left" | b"justify" | b"start" => Some(Align::Left),
        b"center" | b"middle" => Some(Align::Center),
        b"right" | b"end" => Some(Align::Right),
        _ => None,
    }
}

fn display(value: &[u8]) -> Option<Display> {
    match value.to_ascii_lowercase().as_slice() {
        b"none" => Some(Display::None),
        b"block" | b"flex" | b"list-item" => Some(Display::Block),
        b"inline" => Some(Display::Inline),
        value if value.starts_with(b"inline") => Some(Display::InlineBlock),
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

fn is_break(value: &[u8]) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(
        value.as_slice(),
        b"always" | b"page" | b"left" | b"right" | b"recto" | b"verso"
    )
}

fn is_nothing(value: &[u8]) -> bool {
    Length::parse(value).is_some_and(Length::is_nothing)
}

// The lengths between brackets.
fn lengths_inside<'v>(
    value: &'v [u8],
    function: &[u8],
) -> Option<impl Iterator<Item = Option<Length>> + 'v> {
    let start = value.get(..function.len())?;
    let inside = value.get(function.len()..)?.strip_suffix(b")")?;
    start.eq_ignore_ascii_case(function).then(|| {
        inside
            .split(|byte| byte.is_ascii_whitespace() || *byte == b',')
            .filter(|word| !word.is_empty())
            .map(Length::parse)
    })
}

// `rect(0, 0, 0, 0)`: from top, right, bottom and left, each from the top or left edge.
fn is_empty_rect(value: &[u8]) -> bool {
    let sides: Option<Vec<f32>> = lengths_inside(value, b"rect(").and_then(|sides| {
        sides
            .map(|length| length.map(|length| length.points(INITIAL_SIZE, CONTENT_WIDTH)))
            .collect()
    });
    match sides.as_deref() {
        Some(&[top, right, bottom, left]) => (bottom - top).min(right - left) <= 1.0,
        _ => false,
    }
}

// `inset(50%)` and `circle(0)` leave nothing.
fn is_empty_shape(value: &[u8]) -> bool {
    let radius = lengths_inside(value, b"circle(").and_then(|mut sides| sides.next().flatten());
    let insets: Option<Vec<_>> = lengths_inside(value, b"inset(").map(Iterator::collect);
    let is_cut = insets.is_some_and(|sides| {
        !sides.is_empty()
            && sides
                .iter()
                .all(|length| matches!(length, Some(Length::Percent(percent)) if *percent >= HALF))
    });
    is_cut || radius.is_some_and(Length::is_nothing)
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
