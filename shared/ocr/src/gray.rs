//! Gray images, and how they are turned.

use std::io::{self, Write};
use std::ops::Range;

use stemma_document::Turn;

const WHITE: u8 = 255;

/// Lightness, row by row from the top left; 0 is black.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gray {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pixels: Vec<u8>,
}

/// A part of an image, in pixels from its top left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) x0: f32,
    pub(crate) x1: f32,
    pub(crate) y0: f32,
    pub(crate) y1: f32,
}

impl Gray {
    /// `None` if there are not `width` × `height` pixels, or none.
    pub(crate) fn new(width: usize, height: usize, pixels: Vec<u8>) -> Option<Self> {
        let fits = width.checked_mul(height) == Some(pixels.len()) && !pixels.is_empty();
        fits.then_some(Self {
            width,
            height,
            pixels,
        })
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.pixels.chunks_exact(self.width)
    }

    /// Some of its rows; `None` if there are none.
    pub(crate) fn rows_between(&self, rows: Range<usize>) -> Option<Self> {
        let end = rows.end.min(self.height);
        let start = rows.start.min(end);
        let pixels = self.pixels[start * self.width..end * self.width].to_vec();
        Self::new(self.width, end - start, pixels)
    }

    /// An image of the same size with the pixels that `pixel` returns for each column and row.
    pub(crate) fn map(&self, pixel: impl Fn(usize, usize) -> u8) -> Self {
        let rows = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (x, y)));
        let pixels = rows.map(|(x, y)| pixel(x, y)).collect();
        Self { pixels, ..*self }
    }

    /// Gives a rectangle one shade. What is outside of the image is left out.
    pub(crate) fn fill(&mut self, [columns, rows]: [Range<usize>; 2], shade: u8) {
        let end = columns.end.min(self.width);
        let start = columns.start.min(end);
        let all = self.pixels.chunks_exact_mut(self.width);
        for row in all.take(rows.end).skip(rows.start) {
            row[start..end].fill(shade);
        }
    }

    /// Whether a pixel is not 0, which it is then.
    pub(crate) fn take(&mut self, x: usize, y: usize) -> bool {
        std::mem::take(&mut self.pixels[y * self.width + x]) > 0
    }

    /// The shade that a share of the pixels reach, from the darkest. On most pages, half of them are paper.
    pub(crate) fn quantile(&self, share: f32) -> u8 {
        let mut shades = [0_usize; 256];
        for pixel in &self.pixels {
            shades[usize::from(*pixel)] += 1;
        }
        let rank = (share * self.pixels.len() as f32) as usize;
        let mut seen = 0;
        let reached = shades.iter().position(|count| {
            seen += count;
            seen > rank
        });
        reached.map_or(WHITE, |shade| u8::try_from(shade).unwrap_or(WHITE))
    }

    // White outside of the image.
    fn at(&self, x: i64, y: i64) -> u8 {
        let inside = |at: i64, length: usize| usize::try_from(at).ok().filter(|at| *at < length);
        let column = inside(x, self.width);
        let row = inside(y, self.height);
        let index = column.zip(row).map(|(x, y)| y * self.width + x);
        let pixel = index.and_then(|index| self.pixels.get(index));
        pixel.copied().unwrap_or(WHITE)
    }

    /// The image turned clockwise.
    pub(crate) fn turned(self, turn: Turn) -> Self {
        let width = self.width;
        let height = self.height;
        let pick = |index: fn(usize, usize, usize, usize) -> usize| {
            let pixels = &self.pixels;
            let columns = 0..height;
            let rows = 0..width;
            rows.flat_map(move |y| {
                let row = columns.clone();
                row.map(move |x| pixels[index(x, y, width, height)])
            })
            .collect()
        };
        match turn {
            Turn::None => self,
            Turn::Half => {
                let mut pixels = self.pixels;
                pixels.reverse();
                Self { pixels, ..self }
            }
            Turn::Quarter => Self {
                pixels: pick(|x, y, width, height| (height - 1 - x) * width + y),
                width: height,
                height: width,
            },
            Turn::ThreeQuarters => Self {
                pixels: pick(|x, y, width, _| x * width + (width - 1 - y)),
                width: height,
                height: width,
            },
        }
    }

    /// Straightens an image whose lines fall by `degrees` to the right: turns it about its middle the other way.
    pub(crate) fn straightened(&self, degrees: f32) -> Self {
        let (sin, cos) = degrees.to_radians().sin_cos();
        let middle_x = (self.width as f32 - 1.0) / 2.0;
        let middle_y = (self.height as f32 - 1.0) / 2.0;
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for y in 0..self.height {
            let dy = y as f32 - middle_y;
            for x in 0..self.width {
                let dx = x as f32 - middle_x;
                let from_x = middle_x + dx * cos - dy * sin;
                let from_y = middle_y + dx * sin + dy * cos;
                pixels.push(self.between(from_x, from_y));
            }
        }
        Self { pixels, ..*self }
    }

    /// A part of the image, made `height` pixels high; white outside of the image. `None` if it is empty, or too large.
    pub(crate) fn scaled(&self, window: Window, height: usize) -> Option<Self> {
        let step = (window.y1 - window.y0) / height as f32;
        let columns = ((window.x1 - window.x0) / step).round();
        if !(step > 0.0 && (1.0..=f32::from(u16::MAX)).contains(&columns)) {
            return None;
        }
        let width = columns as usize;
        // Points within a pixel of the result, in each direction.
        let points = step.ceil().clamp(1.0, 8.0) as usize;
        let offsets = || (0..points).map(move |at| (at as f32 + 0.5) / points as f32);
        let mut pixels = Vec::with_capacity(width * height);
        for row in 0..height {
            for column in 0..width {
                let shades = offsets().flat_map(|dy| {
                    let y = window.y0 + (row as f32 + dy) * step - 0.5;
                    offsets().map(move |dx| {
                        let x = window.x0 + (column as f32 + dx) * step - 0.5;
                        u32::from(self.between(x, y))
                    })
                });
                let mean = shades.sum::<u32>() / (points * points) as u32;
                pixels.push(u8::try_from(mean).unwrap_or(WHITE));
            }
        }
        Self::new(width, height, pixels)
    }

    // The mean of the four pixels around a point, weighted by distance.
    fn between(&self, x: f32, y: f32) -> u8 {
        let right = x - x.floor();
        let below = y - y.floor();
        let left = x.floor() as i64;
        let top = y.floor() as i64;
        let pixel = |x, y| f32::from(self.at(x, y));
        let upper = pixel(left, top) * (1.0 - right) + pixel(left + 1, top) * right;
        let lower = pixel(left, top + 1) * (1.0 - right) + pixel(left + 1, top + 1) * right;
        (upper * (1.0 - below) + lower * below).round() as u8
    }

    /// The image with one pixel for `factor` × `factor`: their mean.
    pub(crate) fn shrunk(&self, factor: usize) -> Self {
        let factor = factor.clamp(1, self.width.min(self.height));
        let width = self.width / factor;
        let height = self.height / factor;
        let area = factor * factor;
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let rows = (y * factor..(y + 1) * factor).map(|row| row * self.width + x * factor);
                let parts = rows.flat_map(|start| &self.pixels[start..start + factor]);
                let sum: usize = parts.map(|pixel| usize::from(*pixel)).sum();
                pixels.push(u8::try_from(sum / area).unwrap_or(WHITE));
            }
        }
        Self {
            width,
            height,
            pixels,
        }
    }

    /// Writes the image as PGM, which every reader of images knows.
    pub(crate) fn write_pgm(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "P5\n{} {}\n255\n", self.width, self.height)?;
        out.write_all(&self.pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_moves_the_corners_clockwise() {
        // 1 2 3
        // 4 5 6
        let image = Gray::new(3, 2, vec![1, 2, 3, 4, 5, 6]).unwrap();
        let quarter = image.clone().turned(Turn::Quarter);
        assert_eq!((quarter.width, quarter.height), (2, 3));
        assert_eq!(quarter.pixels, [4, 1, 5, 2, 6, 3]);
        let half = image.clone().turned(Turn::Half);
        assert_eq!(half.pixels, [6, 5, 4, 3, 2, 1]);
        let back = quarter.turned(Turn::ThreeQuarters);
        assert_eq!(back, image);
    }

    #[test]
    fn shades_are_counted_from_the_darkest() {
        let image = Gray::new(4, 1, vec![200, 10, 200, 250]).unwrap();
        let shades = [0.0, 0.3, 0.5, 1.0].map(|share| image.quantile(share));
        assert_eq!(shades, [10, 200, 200, 255]);
    }

    #[test]
    fn rectangles_end_at_the_edges_of_the_image() {
        let mut image = Gray::new(3, 2, vec![0; 6]).unwrap();
        image.fill([1..9, 1..9], 7);
        image.fill([5..9, 0..1], 7);
        assert_eq!(image.pixels, [0, 0, 0, 0, 7, 7]);
    }

    #[test]
    fn parts_are_scaled_to_a_height() {
        // A black column between white ones.
        let image = Gray::new(3, 2, vec![255, 0, 255, 255, 0, 255]).unwrap();
        let part = |x0, x1, y1| Window {
            x0,
            x1,
            y0: 0.0,
            y1,
        };
        let same = image.scaled(part(0.0, 3.0, 2.0), 2).unwrap();
        assert_eq!(same, image);
        let column = image.scaled(part(1.0, 2.0, 2.0), 4).unwrap();
        assert_eq!((column.width, column.height), (2, 4));
        assert!(column.pixels.iter().all(|pixel| *pixel < 128));
        let beyond = image.scaled(part(4.0, 8.0, 2.0), 2).unwrap();
        assert_eq!(beyond.pixels, [255; 8]);
        let shrunk = image.scaled(part(0.0, 2.0, 2.0), 1).unwrap();
        assert_eq!(shrunk.width, 1);
        assert!((100..156).contains(&shrunk.pixels[0]), "{shrunk:?}");
        for empty in [
            part(0.0, 0.0, 2.0),
            part(0.0, 3.0, 0.0),
            part(0.0, f32::MAX, 1.0),
        ] {
            assert_eq!(image.scaled(empty, 2), None);
        }
    }

    #[test]
    fn images_without_pixels_are_refused() {
        assert_eq!(Gray::new(0, 0, Vec::new()), None);
        assert_eq!(Gray::new(2, 2, vec![0; 3]), None);
        assert_eq!(Gray::new(usize::MAX, 2, vec![0; 3]), None);
    }
}
