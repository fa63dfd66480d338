//! The size of an image.

use stemma_extract::{ImageRequest, ImageScale};

// The memory of an image for people and models: four bytes for a pixel, and as much again while it is drawn.
const MAX_PIXELS: f64 = 8e6;
// Text recognition reads 300 dots per inch, which are 17 million pixels of a tabloid page.
const MAX_SCAN_PIXELS: f64 = 20e6;
// The renderer counts pixels in 16 bits.
const MAX_SIDE: f64 = 32_000.0;
const POINTS_PER_INCH: f64 = 72.0;

/// Where a page lies on an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placement {
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Pixels per point.
    pub(crate) scale: f64,
    /// The top left of the image on the page, in points.
    pub(crate) origin: (f64, f64),
}

impl Placement {
    /// Places a page of `width` × `height` points. An image that would have too many pixels gets smaller. `None` if the page
    /// has no size.
    pub(crate) fn new(width: f32, height: f32, request: &ImageRequest) -> Option<Self> {
        let (left, top) = request.region.origin();
        let (part_x, part_y) = request.region.size();
        let width = f64::from(width);
        let height = f64::from(height);
        let shown_x = width * f64::from(part_x);
        let shown_y = height * f64::from(part_y);
        if !(shown_x.is_finite() && shown_y.is_finite() && shown_x > 0.0 && shown_y > 0.0) {
            return None;
        }
        let (wanted, max_pixels) = match request.scale {
            ImageScale::Width(pixels) => (f64::from(pixels) / shown_x, MAX_PIXELS),
            ImageScale::LongSide(pixels) => (f64::from(pixels) / shown_x.max(shown_y), MAX_PIXELS),
            ImageScale::Dpi(dots) => (f64::from(dots) / POINTS_PER_INCH, MAX_SCAN_PIXELS),
        };
        let scale = wanted
            .min((max_pixels / (shown_x * shown_y)).sqrt())
            .min(MAX_SIDE / shown_x)
            .min(MAX_SIDE / shown_y);
        Some(Self {
            width: pixels(shown_x * scale),
            height: pixels(shown_y * scale),
            scale,
            origin: (width * f64::from(left), height * f64::from(top)),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range of the type"
)]
fn pixels(length: f64) -> u16 {
    length.round().clamp(1.0, MAX_SIDE) as u16
}

#[cfg(test)]
mod tests {
    use stemma_document::PageNo;
    use stemma_extract::PageRegion;

    use super::*;

    fn size(width: f32, height: f32, scale: ImageScale) -> Option<(u16, u16)> {
        let request = ImageRequest {
            scale,
            ..ImageRequest::for_page(PageNo::FIRST, 1_000)
        };
        Placement::new(width, height, &request).map(|at| (at.width, at.height))
    }

    #[test]
    fn images_have_the_width_that_is_asked_for_unless_they_would_be_too_large() {
        for (width, height, pixels, expected) in [
            (612.0, 792.0, 1_000, (1_000, 1_294)),
            (20_000.0, 20_000.0, 1_000, (1_000, 1_000)),
            (792.0, 612.0, 50, (50, 39)),
            (612.0, 6_120.0, 2_000, (894, 8_944)),
            (10.0, 20_000.0, 2_000, (16, 32_000)),
            (20_000.0, 1.0, 2_000, (2_000, 1)),
        ] {
            let found = size(width, height, ImageScale::Width(pixels));
            assert_eq!(found, Some(expected), "{width} {height}");
        }
        assert_eq!(
            size(612.0, 792.0, ImageScale::Dpi(300)),
            Some((2_550, 3_300))
        );
        let longer = ImageScale::LongSide(1_568);
        assert_eq!(size(612.0, 792.0, longer), Some((1_212, 1_568)));
        assert_eq!(size(20_000.0, 10.0, longer), Some((1_568, 1)));
        assert_eq!(size(0.0, 792.0, ImageScale::Width(1_000)), None);
        assert_eq!(size(f32::NAN, 792.0, ImageScale::Width(1_000)), None);
    }

    #[test]
    fn a_region_fills_the_image() {
        let request = ImageRequest {
            region: PageRegion::new(0.5, 0.25, 0.25, 0.5).unwrap(),
            ..ImageRequest::for_page(PageNo::FIRST, 500)
        };
        let at = Placement::new(400.0, 800.0, &request).unwrap();
        assert_eq!((at.width, at.height), (500, 2_000));
        assert_eq!((at.scale, at.origin), (5.0, (200.0, 200.0)));
    }
}
