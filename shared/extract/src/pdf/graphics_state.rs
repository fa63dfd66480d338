//! The graphics state, and what content streams take into it from their resources.

use std::rc::Rc;

use hayro_syntax::object::{Array, Dict, Name, Number, Object};
use hayro_syntax::page::Resources;

use super::color::{ColorSpace, Rgb};
use super::decode_limits::DecodeBudget;
use super::font::{FontBook, TextFont};
use super::matrix::Matrix;
use super::page_box::PageBox;

// Of each kind, for one content stream.
const MAX_NAMED: usize = 32;
// Less than this share of a color is not seen, and more than the rest of it covers.
const HARDLY_ANY: f32 = 0.02;
const OPAQUE: f32 = 1_f32;

#[derive(Clone)]
pub(super) struct GraphicsState<'a> {
    pub(super) matrix: Matrix,
    pub(super) font: Option<Rc<TextFont<'a>>>,
    pub(super) text: TextState,
    pub(super) stretch: f64,
    pub(super) paint: PaintState,
}

/// Parameters of text that are zero at first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextState {
    pub(super) size: f64,
    pub(super) char_spacing: f64,
    pub(super) word_spacing: f64,
    pub(super) leading: f64,
    pub(super) rise: f64,
    pub(super) mode: i64,
}

impl GraphicsState<'_> {
    pub(super) fn new(matrix: Matrix, page: PageBox) -> Self {
        Self {
            matrix,
            font: None,
            text: TextState::default(),
            stretch: 1.0,
            paint: PaintState::new(page),
        }
    }
}

/// How fills, strokes and images are painted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PaintState {
    pub(super) fill: Paint,
    pub(super) stroke: Paint,
    pub(super) line_width: f32,
    pub(super) is_dashed: bool,
    pub(super) clip: Clip,
    /// The text that clips, by its number on the page.
    pub(super) text_clip: Option<u32>,
    // With what is below, other than by covering it.
    blends: bool,
    is_masked: bool,
    overprints: bool,
    // Of the transparency groups around.
    group_alpha: f32,
    group_blends: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Paint {
    pub(super) space: ColorSpace,
    /// `None` if it is not known.
    pub(super) color: Option<Rgb>,
    alpha: f32,
}

/// What is not in `bounds` is not painted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Clip {
    pub(super) bounds: PageBox,
    /// Whether all of the bounds is painted.
    pub(super) is_full: bool,
}

impl PaintState {
    fn new(page: PageBox) -> Self {
        let black = Paint {
            space: ColorSpace::Gray,
            color: Some(Rgb::BLACK),
            alpha: OPAQUE,
        };
        Self {
            fill: black,
            stroke: black,
            line_width: 1_f32,
            is_dashed: false,
            clip: Clip {
                bounds: page,
                is_full: true,
            },
            text_clip: None,
            blends: false,
            is_masked: false,
            overprints: false,
            group_alpha: OPAQUE,
            group_blends: false,
        }
    }

    /// Whether nothing of the paint is seen.
    pub(super) fn is_transparent(&self, paint: &Paint) -> bool {
        paint.alpha * self.group_alpha < HARDLY_ANY
    }

    /// Whether the paint hides what is below.
    pub(super) fn covers(&self, paint: &Paint) -> bool {
        let is_whole = paint.alpha * self.group_alpha > OPAQUE - HARDLY_ANY;
        let is_even = paint.space != ColorSpace::Pattern && !self.is_masked;
        is_whole && is_even && !self.overprints && self.has_own_color()
    }

    /// Whether what is painted has the color of its paint, whatever is below.
    pub(super) fn has_own_color(&self) -> bool {
        !self.blends && !self.group_blends
    }

    /// Begins a transparency group, which is painted as a whole.
    pub(super) fn begin_group(&mut self) {
        self.group_alpha *= self.fill.alpha;
        self.group_blends |= self.blends || self.is_masked;
        self.blends = false;
        self.is_masked = false;
        self.fill.alpha = OPAQUE;
        self.stroke.alpha = OPAQUE;
    }

    pub(super) fn clip_to(&mut self, bounds: PageBox, is_full: bool) {
        self.clip.bounds = self.clip.bounds.intersection(bounds);
        self.clip.is_full &= is_full;
    }

    fn apply(&mut self, parameters: StateParameters) {
        let set = |to: &mut bool, value: Option<bool>| *to = value.unwrap_or(*to);
        set(&mut self.blends, parameters.blends);
        set(&mut self.is_masked, parameters.is_masked);
        set(&mut self.overprints, parameters.overprints);
        set(&mut self.is_dashed, parameters.is_dashed);
        self.fill.alpha = parameters.fill_alpha.unwrap_or(self.fill.alpha);
        self.stroke.alpha = parameters.stroke_alpha.unwrap_or(self.stroke.alpha);
        self.line_width = parameters.line_width.unwrap_or(self.line_width);
    }
}

impl Paint {
    pub(super) fn select(&mut self, space: ColorSpace) {
        self.space = space;
        self.color = space.initial_color();
    }

    pub(super) fn set(&mut self, space: ColorSpace, values: &[Number]) {
        self.space = space;
        self.color = space.color(values);
    }
}

// Entries of a graphics state dictionary (ISO 32000-2, table 57).
#[derive(Debug, Clone, Copy)]
struct StateParameters {
    fill_alpha: Option<f32>,
    stroke_alpha: Option<f32>,
    line_width: Option<f32>,
    blends: Option<bool>,
    is_masked: Option<bool>,
    overprints: Option<bool>,
    is_dashed: Option<bool>,
    has_font: bool,
}

impl StateParameters {
    fn read(dict: &Dict<'_>) -> Self {
        let is_other = |name: &Name<'_>, usual: &[&[u8]]| !usual.contains(&name.as_ref());
        let mode = dict.get::<Array<'_>>("BM");
        let mode = match mode {
            Some(modes) => modes.iter::<Name<'_>>().next(),
            None => dict.get::<Name<'_>>("BM"),
        };
        let dash = dict.get::<Array<'_>>("D");
        let dash = dash.map(|dash| dash.flex_iter().next::<Array<'_>>().unwrap_or_default());
        Self {
            fill_alpha: dict.get::<f32>("ca"),
            stroke_alpha: dict.get::<f32>("CA"),
            line_width: dict.get::<f32>("LW"),
            blends: mode.map(|mode| is_other(&mode, &[b"Normal", b"Compatible"])),
            is_masked: dict.contains_key("SMask").then(|| {
                let name = dict.get::<Name<'_>>("SMask");
                name.is_none_or(|name| is_other(&name, &[b"None"]))
            }),
            overprints: dict.get::<bool>("op").or_else(|| dict.get::<bool>("OP")),
            is_dashed: dash.map(|dash| dash.raw_iter().next().is_some()),
            has_font: dict.contains_key("Font"),
        }
    }
}

/// What a content stream named so far. Looking it up in the file costs more than showing its text.
#[derive(Default)]
pub(super) struct NamedResources<'a> {
    fonts: Vec<(Vec<u8>, Option<Rc<TextFont<'a>>>)>,
    spaces: Vec<(Vec<u8>, ColorSpace)>,
    states: Vec<(Vec<u8>, StateParameters)>,
}

impl<'a> NamedResources<'a> {
    pub(super) fn font(
        &mut self,
        name: &Name<'_>,
        resources: &Resources<'a>,
        fonts: &mut FontBook<'a>,
        budget: &DecodeBudget,
    ) -> Option<Rc<TextFont<'a>>> {
        remembered(&mut self.fonts, name, || {
            let dict = resources.get_font(name)?;
            fonts.font(&dict, budget)
        })
    }

    pub(super) fn space(&mut self, name: &Name<'_>, resources: &Resources<'a>) -> ColorSpace {
        remembered(&mut self.spaces, name, || ColorSpace::read(name, resources))
    }

    /// Takes the entries of a graphics state dictionary into `state`.
    pub(super) fn apply_state(
        &mut self,
        name: &Name<'_>,
        resources: &Resources<'a>,
        state: &mut GraphicsState<'a>,
        fonts: &mut FontBook<'a>,
        budget: &DecodeBudget,
    ) {
        let dict = || resources.get_ext_g_state(name).unwrap_or_default();
        let parameters = remembered(&mut self.states, name, || StateParameters::read(&dict()));
        state.paint.apply(parameters);
        if !parameters.has_font {
            return;
        }
        let font = dict().get::<Array<'a>>("Font").unwrap_or_default();
        let mut items = font.iter::<Object<'a>>();
        if let (Some(Object::Dict(dict)), Some(Object::Number(size))) = (items.next(), items.next())
        {
            state.text.size = size.as_f64();
            state.font = fonts.font(&dict, budget);
        }
    }
}

fn remembered<T: Clone>(
    known: &mut Vec<(Vec<u8>, T)>,
    name: &Name<'_>,
    read: impl FnOnce() -> T,
) -> T {
    let found = known.iter().find(|(known, _)| known == name.as_ref());
    if let Some((_, value)) = found {
        return value.clone();
    }
    let value = read();
    if known.len() < MAX_NAMED {
        known.push((name.as_ref().to_vec(), value.clone()));
    }
    value
}
