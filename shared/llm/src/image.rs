//! Images of pages in prompts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
const PNG_TYPE: &str = "image/png";

/// The image of a page, as PNG.
#[derive(Clone, PartialEq, Eq)]
pub struct PageImage {
    bytes: Bytes,
    width: u32,
    height: u32,
}

/// Why bytes are not an image for a prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("the image of the page is not a PNG")]
    NotPng,
    #[error(
        "the image of the page has {width} × {height} pixels, more than {} on a side",
        PageImage::MAX_SIDE
    )]
    TooManyPixels { width: u32, height: u32 },
    #[error("the image of the page has {0} bytes, more than {max}", max = PageImage::MAX_BYTES)]
    TooManyBytes(usize),
}

impl PageImage {
    /// Most pixels of the longer side. Anthropic makes larger images smaller, OpenAI already those with more than 768 pixels
    /// on the shorter side, so more pixels cost time and show nothing.
    pub const MAX_SIDE: u32 = 1_568;
    /// Anthropic takes 5 MB in base64.
    pub const MAX_BYTES: usize = 3_750_000;

    /// Takes a PNG, whose header says how large it is.
    ///
    /// # Errors
    /// [`ImageError`] for other bytes, and for an image that is too large.
    pub fn from_png(bytes: Bytes) -> Result<Self, ImageError> {
        let (width, height) = png_size(&bytes).ok_or(ImageError::NotPng)?;
        if width > Self::MAX_SIDE || height > Self::MAX_SIDE {
            return Err(ImageError::TooManyPixels { width, height });
        }
        if bytes.len() > Self::MAX_BYTES {
            return Err(ImageError::TooManyBytes(bytes.len()));
        }
        Ok(Self {
            bytes,
            width,
            height,
        })
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Digest of the bytes: 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        blake3::hash(&self.bytes).to_hex().to_string()
    }

    /// The tokens of the image: the highest count of the known rules, see [`image_tokens`].
    pub fn tokens(&self) -> u32 {
        image_tokens(self.width, self.height)
    }

    // A part of a message of OpenAI. Figures of a page cannot be read on the small image that other details give.
    pub(crate) fn openai_part(&self) -> Value {
        let url = format!("data:{PNG_TYPE};base64,{}", STANDARD.encode(&self.bytes));
        json!({ "type": "image_url", "image_url": { "url": url, "detail": "high" } })
    }

    // A block of a message of Anthropic.
    pub(crate) fn anthropic_block(&self) -> Value {
        let data = STANDARD.encode(&self.bytes);
        json!({ "type": "image", "source": { "type": "base64", "media_type": PNG_TYPE, "data": data } })
    }
}

// Tokens of an image, by the rule of a provider.
const PIXELS_PER_TOKEN: u64 = 750;
const TILE: u64 = 512;
const TILE_TOKENS: u64 = 170;
const BASE_TOKENS: u64 = 85;

/// Tokens of an image with at most [`PageImage::MAX_SIDE`] pixels on a side: the higher of `width × height / 750` (Anthropic)
/// and 85 + 170 for each tile of 512 × 512 pixels (OpenAI, before it makes the image smaller). Both are upper bounds of what
/// large models bill, also where they count patches of 28 or 32 pixels. Small ones may bill more for an image; their replies
/// say how much, and later estimates follow them.
pub fn image_tokens(width: u32, height: u32) -> u32 {
    let width = u64::from(width);
    let height = u64::from(height);
    let by_area = (width * height).div_ceil(PIXELS_PER_TOKEN);
    let tiles = width.div_ceil(TILE) * height.div_ceil(TILE);
    let by_tiles = BASE_TOKENS + TILE_TOKENS * tiles;
    u32::try_from(by_area.max(by_tiles)).unwrap_or(u32::MAX)
}

// A message is a plain text where it has no images, so that requests without images stay as they are.
pub(crate) fn message_content(
    images: &[PageImage],
    text: &str,
    part: fn(&PageImage) -> Value,
) -> Value {
    if images.is_empty() {
        return text.into();
    }
    // The images come first: providers say that models then answer better.
    let text = json!({ "type": "text", "text": text });
    images.iter().map(part).chain([text]).collect()
}

fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(PNG_SIGNATURE)?;
    let number = |at: usize| {
        let bytes = header.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    if header.get(4..8)? != b"IHDR" {
        return None;
    }
    let size = (number(8)?, number(12)?);
    (size.0 > 0 && size.1 > 0).then_some(size)
}

// Pixels are never printed: requests reach logs of tests and errors.
impl std::fmt::Debug for PageImage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { width, height, .. } = self;
        write!(formatter, "PageImage({width} × {height})")
    }
}

// What the answer depends on, for digests of requests.
impl Serialize for PageImage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut image = serializer.serialize_struct("PageImage", 2)?;
        image.serialize_field("type", PNG_TYPE)?;
        image.serialize_field("digest", &self.digest())?;
        image.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Bytes {
        let mut bytes = PNG_SIGNATURE.to_vec();
        bytes.extend(b"\0\0\0\x0dIHDR");
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.into()
    }

    #[test]
    fn images_are_bounded() {
        let image = PageImage::from_png(png(1_212, 1_568)).unwrap();
        assert_eq!(image.size(), (1_212, 1_568));
        let size = |width, height| PageImage::from_png(png(width, height)).unwrap_err();
        let width = 1_569;
        let height = 3;
        assert_eq!(
            size(width, height),
            ImageError::TooManyPixels { width, height }
        );
        assert_eq!(size(0, 3), ImageError::NotPng);
        for bytes in [&b"\xff\xd8\xff\xe0"[..], b"", &png(9, 9)[..20]] {
            let bytes = Bytes::copy_from_slice(bytes);
            assert_eq!(PageImage::from_png(bytes), Err(ImageError::NotPng));
        }
        let mut large = png(9, 9).to_vec();
        large.resize(PageImage::MAX_BYTES + 1, 0);
        let error = PageImage::from_png(large.into()).unwrap_err();
        assert_eq!(error, ImageError::TooManyBytes(PageImage::MAX_BYTES + 1));
    }

    #[test]
    fn tokens_are_the_higher_count_of_two_rules() {
        for (width, height, tokens) in [
            (1, 1, 85 + 170),
            (512, 512, 350),
            (513, 512, 85 + 2 * 170),
            (1_212, 1_568, 2_534),
            (1_568, 1_568, 3_279),
            (1_568, 100, 85 + 4 * 170),
        ] {
            assert_eq!(image_tokens(width, height), tokens, "{width} × {height}");
        }
    }

    #[test]
    fn the_form_for_logs_has_no_pixels() {
        let image = PageImage::from_png(png(3, 4)).unwrap();
        assert_eq!(format!("{image:?}"), "PageImage(3 × 4)");
        let json = serde_json::to_value(&image).unwrap();
        assert_eq!(json["digest"].as_str().unwrap().len(), 64);
        assert_eq!(json.as_object().unwrap().len(), 2);
    }
}
