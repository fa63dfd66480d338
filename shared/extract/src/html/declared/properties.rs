//! Reads the properties of style sheets and style attributes.

use super::{Declared, Display, MARGIN, PADDING, Position};
use crate::html::color::{MIN_ALPHA, Paint};
use crate::html::css::Property;
use crate::html::length::{INITIAL_SIZE, Length};
use crate::html::style::{Align, CONTENT_WIDTH};
use crate::html::transform::Transform;

// Percent that cuts all of a box from each side.
const HALF: f32 = 50.0;

impl Declared {
    pub(super) fn read_properties(&mut self, properties: &[Property]) {
        for property in properties {
            self.read_property(&property.name, &property.value);
        }
    }

    // The declarations of an element, either those with `!important` or the others.
    pub(super) fn read_style(&mut self, style: &[u8], has_marks: bool, important: bool) {
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
}

pub(super) fn align(value: &[u8]) -> Option<Align> {
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
