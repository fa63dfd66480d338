//! Turns positions in a string into points on the displayed page.

use super::canvas::GlyphFrame;
use super::font::TextFont;
use super::glyph::{Glyph, Writing};
use super::graphics_state::GraphicsState;
use super::matrix::Matrix;

// In ems: half the height of capitals.
const HALF_BODY: f64 = 0.325;

/// Common values of all glyphs of one string.
pub(super) struct Pen {
    map: Matrix,
    pub(super) glyph: Glyph,
    pub(super) frame: GlyphFrame,
    pub(super) length: f64,
    rise: f64,
    stretch: f64,
    horizontal: bool,
}

impl Pen {
    /// `None` if the matrix is degenerate or the size is zero.
    pub(super) fn new(map: Matrix, state: &GraphicsState<'_>, font: &TextFont<'_>) -> Option<Self> {
        // Each is a square root, and this runs for each string.
        let x_scale = map.x_scale();
        let y_scale = map.y_scale();
        let size = state.text.size.abs() * y_scale * f64::from(font.em);
        if !map.is_finite() || size <= 0.0 || !size.is_finite() {
            return None;
        }
        let [a, b, c, d, ..] = map.0;
        let sign = if state.text.size * state.stretch < 0.0 {
            -1.0
        } else {
            1.0
        };
        let (x, y) = if font.horizontal {
            (a * sign, b * sign)
        } else {
            (-c, -d)
        };
        let writing = Writing::along(x, y);
        // A shear in the matrix is a synthetic italic.
        let slanted =
            x_scale > 0.0 && ((a * c + b * d) / (x_scale * y_scale.max(1e-9))).abs() > 0.12;
        let length = if font.horizontal {
            x_scale * state.stretch.abs()
        } else {
            y_scale
        };
        let glyph = Glyph {
            text: ' ',
            x: 0.0,
            y: 0.0,
            advance: 0.0,
            size: size as f32,
            writing,
            bold: font.bold || state.text.mode == 2,
            italic: font.italic || slanted,
            invisible: false,
            hidden: None,
            appearance: 0,
        };
        let norm = x.hypot(y);
        let half = state.text.size * f64::from(font.em) * HALF_BODY;
        // In vertical writing the pen is at the middle of the glyph.
        let (across_x, across_y, edges) = if font.horizontal {
            (c * half, d * half, [0, 2])
        } else {
            (a * half, b * half, [-1, 1])
        };
        let frame = GlyphFrame {
            along: ((x / norm) as f32, (y / norm) as f32),
            edges: edges
                .map(f64::from)
                .map(|by| ((by * across_x) as f32, (by * across_y) as f32)),
        };
        Some(Self {
            map,
            glyph,
            frame,
            length,
            rise: state.text.rise,
            stretch: state.stretch,
            horizontal: font.horizontal,
        })
    }

    /// Returns the point on the page `along` the string and `inside` a glyph.
    pub(super) fn at(&self, along: f64, inside: f64) -> (f64, f64) {
        if self.horizontal {
            self.map.apply(along + inside * self.stretch, self.rise)
        } else {
            self.map.apply(0.0, along + inside)
        }
    }
}
