//! Measures what is drawn on a page other than text: an image or outlines may be text that cannot be read.

use super::matrix::Matrix;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ink {
    /// Sum of the areas of all images as a share of the page.
    pub(super) images: f64,
    /// Curves of paths.
    pub(super) curves: u32,
}

impl Ink {
    /// Adds an image, which fills the unit square of `map`.
    pub(super) fn add_image(&mut self, map: Matrix, page: (f32, f32)) {
        let corners =
            [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)].map(|(x, y)| map.apply(x, y));
        let width = f64::from(page.0);
        let height = f64::from(page.1);
        let covered = extent(corners.map(|corner| corner.0), width)
            * extent(corners.map(|corner| corner.1), height);
        if covered.is_finite() && covered > 0.0 {
            self.images += covered / (width * height);
        }
    }
}

// The length between the lowest and the highest of `values` within `0..=most`.
fn extent(values: [f64; 4], most: f64) -> f64 {
    let low = values.into_iter().fold(f64::INFINITY, f64::min);
    let high = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
    (high.min(most) - low.max(0.0)).max(0.0)
}
