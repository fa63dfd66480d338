//! Pixels, and their encoding as PNG.

/// The pixels of an image, row by row from the top left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitmap {
    pub width: u16,
    pub height: u16,
    pub pixels: Pixels,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pixels {
    /// One byte for a pixel: 0 is black.
    Gray(Vec<u8>),
    /// Red, green and blue.
    Rgb(Vec<u8>),
}

impl Bitmap {
    /// An image of opaque pixels of red, green, blue and alpha. One without colors becomes gray, which takes a third of the
    /// bytes; `only_gray` leaves the lightness of the others.
    pub(crate) fn from_rgba(width: u16, height: u16, rgba: &[u8], only_gray: bool) -> Self {
        let colors = rgba.chunks_exact(4);
        let pixels = if only_gray
            || colors
                .clone()
                .all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2])
        {
            Pixels::Gray(colors.map(lightness).collect())
        } else {
            let mut rgb = Vec::with_capacity(rgba.len() / 4 * 3);
            colors.for_each(|pixel| rgb.extend_from_slice(&pixel[..3]));
            Pixels::Rgb(rgb)
        };
        Self {
            width,
            height,
            pixels,
        }
    }

    pub(crate) fn to_png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let (color, bytes) = match &self.pixels {
            Pixels::Gray(bytes) => (png::ColorType::Grayscale, bytes),
            Pixels::Rgb(bytes) => (png::ColorType::Rgb, bytes),
        };
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width.into(), self.height.into());
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(bytes)?;
        writer.finish()?;
        Ok(out)
    }
}

// The weights of ITU-R BT.601, in 256ths.
fn lightness(pixel: &[u8]) -> u8 {
    let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
    u8::try_from((77 * red + 150 * green + 29 * blue) >> 8).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_colors_are_gray() {
        let gray = Bitmap::from_rgba(2, 1, &[0, 0, 0, 255, 200, 200, 200, 255], false);
        assert_eq!(gray.pixels, Pixels::Gray(vec![0, 200]));
        let red = [255, 0, 0, 255, 255, 255, 255, 255];
        let color = Bitmap::from_rgba(2, 1, &red, false);
        assert_eq!(color.pixels, Pixels::Rgb(vec![255, 0, 0, 255, 255, 255]));
        let lightness = Bitmap::from_rgba(2, 1, &red, true);
        assert_eq!(lightness.pixels, Pixels::Gray(vec![76, 255]));
    }

    #[test]
    fn encoded_images_decode_to_the_same_pixels() {
        let bitmap = Bitmap::from_rgba(1, 2, &[9, 8, 7, 255, 1, 2, 3, 255], false);
        let png = bitmap.to_png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(png))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (1, 2));
        assert_eq!(Pixels::Rgb(pixels), bitmap.pixels);
    }
}
