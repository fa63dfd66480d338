//! What a page paints other than text, in order, and how its text is painted: enough to tell what the eye sees.

use hayro_syntax::content::ops::TypedInstruction;
use hayro_syntax::object::{Dict, Number};
use stemma_document::HiddenReason;

use super::color::{ColorSpace, Rgb};
use super::graphics_state::{Paint, PaintState};
use super::matrix::Matrix;
use super::optional_content::LayerStack;
use super::page_box::PageBox;
use super::path::{Path, Point, Shape};

// Per page: some ten times the largest drawings. What is painted after that is not judged.
pub(super) const MAX_AREAS: usize = 100_000;
// Entries of images through which what is below may be seen.
const SEE_THROUGH: [&[u8]; 5] = [b"SMask", b"Mask", b"SMaskInData", b"ImageMask", b"IM"];

/// The painted areas of a page and the looks of its text.
pub(super) struct Canvas {
    pub(super) page: PageBox,
    /// In the order of painting.
    pub(super) areas: Vec<Area>,
    pub(super) appearances: Vec<Appearance>,
    pub(super) layers: LayerStack,
    path: Path,
    is_clip_pending: bool,
    // By the number of the text that clips: whether something is painted through it.
    text_clips: Vec<bool>,
}

/// A part of the page that is painted at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) bounds: PageBox,
    /// `None` if it is not known, or not one.
    pub(super) color: Option<Rgb>,
    /// Whether nothing within the bounds can be seen through it.
    pub(super) is_solid: bool,
    /// Whether it may show text: an image, a curve.
    pub(super) is_picture: bool,
}

/// How a stretch of text is painted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Appearance {
    /// `None` if it is not known, or not one.
    pub(super) color: Option<Rgb>,
    /// Number of the areas painted before.
    pub(super) areas_before: usize,
    pub(super) clip: PageBox,
    pub(super) frame: GlyphFrame,
    pub(super) mode: TextMode,
    /// Whether the size of its glyphs is known.
    pub(super) has_size: bool,
    /// Why none of it is seen, wherever it is.
    pub(super) hidden: Option<HiddenReason>,
}

/// What the rendering mode of text does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextMode {
    Painted,
    Invisible,
    /// It only clips what is painted later.
    Clips(u32),
}

/// Vectors of a glyph on the page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GlyphFrame {
    /// Of length 1.
    pub(super) along: Point,
    /// From the origin to the edges of its body, across the direction of writing.
    pub(super) edges: [Point; 2],
}

impl Canvas {
    pub(super) fn new(page: PageBox) -> Self {
        Self {
            page,
            areas: Vec::new(),
            appearances: Vec::new(),
            layers: LayerStack::default(),
            path: Path::default(),
            is_clip_pending: false,
            text_clips: Vec::new(),
        }
    }

    /// Runs the operators of paths and simple colors.
    pub(super) fn apply(
        &mut self,
        instruction: &TypedInstruction<'_, '_>,
        matrix: Matrix,
        state: &mut PaintState,
    ) {
        let at = |x: &Number, y: &Number| point(matrix, x.as_f64(), y.as_f64());
        match instruction {
            TypedInstruction::MoveTo(to) => self.path.move_to(at(&to.0, &to.1)),
            TypedInstruction::LineTo(to) => self.path.line_to(at(&to.0, &to.1)),
            TypedInstruction::CubicTo(c) => {
                self.path
                    .curve_to(&[at(&c.0, &c.1), at(&c.2, &c.3), at(&c.4, &c.5)]);
            }
            TypedInstruction::CubicStartTo(c) => {
                self.path.curve_to(&[at(&c.0, &c.1), at(&c.2, &c.3)]);
            }
            TypedInstruction::CubicEndTo(c) => {
                self.path.curve_to(&[at(&c.0, &c.1), at(&c.2, &c.3)]);
            }
            TypedInstruction::ClosePath(_) => self.path.close(),
            TypedInstruction::RectPath(rect) => {
                let [x, y, width, height] =
                    [&rect.0, &rect.1, &rect.2, &rect.3].map(|value| value.as_f64());
                self.path
                    .add_polygon(corners([x, y, x + width, y + height], matrix));
            }
            TypedInstruction::ClipNonZero(_) | TypedInstruction::ClipEvenOdd(_) => {
                self.is_clip_pending = true;
            }
            TypedInstruction::StrokePath(_) | TypedInstruction::CloseAndStrokePath(_) => {
                if matches!(instruction, TypedInstruction::CloseAndStrokePath(_)) {
                    self.path.close();
                }
                self.stroke(matrix, state);
                self.end_path(state);
            }
            TypedInstruction::FillPathNonZero(_)
            | TypedInstruction::FillPathNonZeroCompatibility(_)
            | TypedInstruction::FillPathEvenOdd(_) => {
                self.fill(state);
                self.end_path(state);
            }
            TypedInstruction::FillAndStrokeNonZero(_)
            | TypedInstruction::FillAndStrokeEvenOdd(_)
            | TypedInstruction::CloseFillAndStrokeNonZero(_)
            | TypedInstruction::CloseFillAndStrokeEvenOdd(_) => {
                self.fill(state);
                self.stroke(matrix, state);
                self.end_path(state);
            }
            TypedInstruction::EndPath(_) => self.end_path(state),
            TypedInstruction::Shading(_) => {
                self.add(Shape::unknown(state.clip.bounds), &state.fill, None, state);
            }
            other => apply_color(other, state),
        }
    }

    /// Adds an image, which fills the unit square of `matrix`.
    pub(super) fn add_image(&mut self, dict: &Dict<'_>, matrix: Matrix, state: &PaintState) {
        let mut frame = Path::default();
        frame.add_polygon(corners([0, 0, 1, 1].map(f64::from), matrix));
        let is_see_through = SEE_THROUGH.iter().any(|key| dict.contains_key(key));
        let shape = Shape {
            bounds: frame.bounds(),
            is_full: frame.is_rectangle() && !is_see_through,
            is_drawing: true,
        };
        self.add(shape, &state.fill, None, state);
    }

    /// Clips with a box of user space.
    pub(super) fn clip_to_box(edges: [f64; 4], matrix: Matrix, state: &mut PaintState) {
        let mut clip = Path::default();
        clip.add_polygon(corners(edges, matrix));
        state.clip_to(clip.bounds(), clip.is_rectangle());
    }

    /// Returns the number of the look of text.
    pub(super) fn appearance(&mut self, appearance: Appearance) -> u32 {
        if self.appearances.last() != Some(&appearance) {
            self.appearances.push(appearance);
        }
        u32::try_from(self.appearances.len() - 1).unwrap_or(u32::MAX)
    }

    /// Describes text in the rendering mode `mode` (ISO 32000-2, table 104).
    pub(super) fn text(
        &mut self,
        mode: i64,
        frame: GlyphFrame,
        state: &mut PaintState,
    ) -> Appearance {
        if mode > 3 && state.text_clip.is_none() {
            state.text_clip = u32::try_from(self.text_clips.len()).ok();
            self.text_clips.push(false);
        }
        let (text_mode, color, is_transparent) = match (mode, state.text_clip) {
            (3, _) => (TextMode::Invisible, None, false),
            (7, Some(clip)) => (TextMode::Clips(clip), None, false),
            (1 | 5, _) => {
                let is_transparent = state.is_transparent(&state.stroke);
                (TextMode::Painted, state.stroke.color, is_transparent)
            }
            (2 | 6, _) => {
                let is_transparent =
                    state.is_transparent(&state.stroke) && state.is_transparent(&state.fill);
                let color = (state.fill.color)
                    .filter(|fill| state.stroke.color.is_some_and(|other| fill.is_near(other)));
                (TextMode::Painted, color, is_transparent)
            }
            _ => {
                let is_transparent = state.is_transparent(&state.fill);
                (TextMode::Painted, state.fill.color, is_transparent)
            }
        };
        let hidden = if self.layers.is_off() {
            Some(HiddenReason::LayerOff)
        } else {
            is_transparent.then_some(HiddenReason::Transparent)
        };
        Appearance {
            color: color.filter(|_| state.has_own_color()),
            areas_before: self.areas.len(),
            clip: state.clip.bounds,
            frame,
            mode: text_mode,
            has_size: true,
            hidden,
        }
    }

    /// Whether something is painted through the text that clips.
    pub(super) fn is_painted_through(&self, text_clip: u32) -> bool {
        self.text_clips.get(text_clip as usize) == Some(&true)
    }

    fn fill(&mut self, state: &PaintState) {
        let shapes: Vec<Shape> = self.path.fills().collect();
        for shape in shapes {
            self.add(shape, &state.fill, state.fill.color, state);
        }
    }

    fn stroke(&mut self, matrix: Matrix, state: &PaintState) {
        let width = (matrix.x_scale() * matrix.y_scale()).sqrt() as f32 * state.line_width;
        let room = MAX_AREAS.saturating_sub(self.areas.len());
        let shapes: Vec<Shape> = self.path.strokes(width).take(room).collect();
        for shape in shapes {
            let shape = Shape {
                is_full: shape.is_full && !state.is_dashed,
                ..shape
            };
            self.add(shape, &state.stroke, state.stroke.color, state);
        }
    }

    fn add(&mut self, shape: Shape, paint: &Paint, color: Option<Rgb>, state: &PaintState) {
        if self.layers.is_off() || state.is_transparent(paint) {
            return;
        }
        let bounds = shape.bounds.intersection(state.clip.bounds);
        if bounds.is_empty() {
            return;
        }
        if let Some(clip) = state.text_clip
            && let Some(is_painted) = self.text_clips.get_mut(clip as usize)
        {
            *is_painted = true;
        }
        if self.areas.len() >= MAX_AREAS {
            return;
        }
        let covers = state.covers(paint);
        self.areas.push(Area {
            bounds,
            color: color.filter(|_| covers),
            is_solid: covers && shape.is_full && state.clip.is_full && state.text_clip.is_none(),
            is_picture: shape.is_drawing,
        });
    }

    fn end_path(&mut self, state: &mut PaintState) {
        if std::mem::take(&mut self.is_clip_pending) {
            if self.path.is_empty() {
                state.clip.is_full = false;
            } else {
                state.clip_to(self.path.bounds(), self.path.is_rectangle());
            }
        }
        self.path.clear();
    }
}

impl Shape {
    // Anything that may be painted within the bounds.
    fn unknown(bounds: PageBox) -> Self {
        Self {
            bounds,
            is_full: false,
            is_drawing: true,
        }
    }
}

fn apply_color(instruction: &TypedInstruction<'_, '_>, state: &mut PaintState) {
    let fill = &mut state.fill;
    let stroke = &mut state.stroke;
    match instruction {
        TypedInstruction::NonStrokeColorDeviceGray(c) => fill.set(ColorSpace::Gray, &[c.0]),
        TypedInstruction::StrokeColorDeviceGray(c) => stroke.set(ColorSpace::Gray, &[c.0]),
        TypedInstruction::NonStrokeColorDeviceRgb(c) => fill.set(ColorSpace::Rgb, &[c.0, c.1, c.2]),
        TypedInstruction::StrokeColorDeviceRgb(c) => stroke.set(ColorSpace::Rgb, &[c.0, c.1, c.2]),
        TypedInstruction::NonStrokeColorCmyk(c) => {
            fill.set(ColorSpace::Cmyk, &[c.0, c.1, c.2, c.3]);
        }
        TypedInstruction::StrokeColorCmyk(c) => {
            stroke.set(ColorSpace::Cmyk, &[c.0, c.1, c.2, c.3]);
        }
        TypedInstruction::NonStrokeColor(c) => fill.set(fill.space, &c.0),
        TypedInstruction::StrokeColor(c) => stroke.set(stroke.space, &c.0),
        TypedInstruction::NonStrokeColorNamed(c) => fill.set(fill.space, &c.0),
        TypedInstruction::StrokeColorNamed(c) => stroke.set(stroke.space, &c.0),
        TypedInstruction::LineWidth(width) => state.line_width = width.0.as_f32(),
        TypedInstruction::DashPattern(dash) => {
            state.is_dashed = dash.0.raw_iter().next().is_some();
        }
        _ => {}
    }
}

fn corners([x0, y0, x1, y1]: [f64; 4], matrix: Matrix) -> [Point; 4] {
    [(x0, y0), (x1, y0), (x1, y1), (x0, y1)].map(|(x, y)| point(matrix, x, y))
}

fn point(matrix: Matrix, x: f64, y: f64) -> Point {
    let (x, y) = matrix.apply(x, y);
    (x as f32, y as f32)
}
