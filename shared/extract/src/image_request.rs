//! Which image of a page is wanted.

use serde::{Deserialize, Serialize};
use stemma_document::PageNo;

/// An image of a page, or of a region of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ImageRequest {
    pub page: PageNo,
    pub scale: ImageScale,
    pub region: PageRegion,
    pub color: ImageColor,
}

/// The size of an image. Its height follows from the shape of the region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum ImageScale {
    Width(u32),
    /// The longer side in pixels.
    LongSide(u32),
    /// Pixels per inch, which is 72 points.
    Dpi(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageColor {
    Color,
    /// Lightness only, as text recognition reads it.
    Gray,
}

/// A part of a page, in fractions of its displayed width and height (0–1), origin at the top left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PageRegion {
    x: f32,
    y: f32,
    width: f32,
    height: f32,
}

impl ImageRequest {
    /// The narrowest and the widest image for people and models, in pixels.
    pub const WIDTHS: std::ops::RangeInclusive<u32> = 50..=2_000;

    /// A whole page in color, `width` pixels wide.
    pub fn for_page(page: PageNo, width: u32) -> Self {
        Self {
            page,
            scale: ImageScale::Width(width),
            region: PageRegion::WHOLE,
            color: ImageColor::Color,
        }
    }
}

impl PageRegion {
    pub const WHOLE: Self = Self {
        x: 0.0,
        y: 0.0,
        width: 1.0,
        height: 1.0,
    };
    // Of the page. Smaller regions show less than a letter.
    const SMALLEST: f32 = 0.01;

    /// Left and upper edge, width and height with commas between: `0,0.5,1,0.5`. `None` as for [`Self::new`].
    pub fn from_text(text: &str) -> Option<Self> {
        let numbers: Vec<f32> = text
            .split(',')
            .map_while(|number| number.trim().parse().ok())
            .collect();
        match numbers[..] {
            [x, y, width, height] => Self::new(x, y, width, height),
            _ => None,
        }
    }

    /// A region that is cut at the edges of the page; `None` if less than a hundredth of the page's width or height is
    /// left, or an argument is not a number.
    pub fn new(x: f32, y: f32, width: f32, height: f32) -> Option<Self> {
        if ![x, y, width, height].iter().all(|value| value.is_finite()) {
            return None;
        }
        let left = x.clamp(0.0, 1.0);
        let top = y.clamp(0.0, 1.0);
        let region = Self {
            x: left,
            y: top,
            width: (x + width).clamp(0.0, 1.0) - left,
            height: (y + height).clamp(0.0, 1.0) - top,
        };
        (region.width >= Self::SMALLEST && region.height >= Self::SMALLEST).then_some(region)
    }

    /// The fraction of the page's width left of the region, and of its height above it.
    pub fn origin(self) -> (f32, f32) {
        (self.x, self.y)
    }

    /// Width and height of the region.
    pub fn size(self) -> (f32, f32) {
        (self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_cut_at_the_edges_of_the_page() {
        assert_eq!(
            PageRegion::new(-1.0, 0.5, 9.0, 9.0),
            PageRegion::new(0.0, 0.5, 1.0, 0.5)
        );
        assert_eq!(PageRegion::new(0.0, 0.0, 1.0, 1.0), Some(PageRegion::WHOLE));
        for (x, y, width, height) in [
            (1.0, 0.0, 1.0, 1.0),
            (0.0, 0.0, 0.001, 1.0),
            (0.5, 0.5, -0.3, 0.2),
            (f32::NAN, 0.0, 1.0, 1.0),
            (0.0, 0.0, f32::INFINITY, 1.0),
        ] {
            assert_eq!(
                PageRegion::new(x, y, width, height),
                None,
                "{x} {y} {width} {height}"
            );
        }
    }
}
