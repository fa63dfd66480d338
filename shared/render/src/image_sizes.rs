//! The memory that the images of a page take, found without decoding them.

use hayro::hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps,
    InterpreterCache, InterpreterSettings, SoftMask, font::GlyphRun, interpret_page,
};
use hayro::hayro_syntax::object::{Array, Dict, Name, Object, Stream};
use hayro::hayro_syntax::page::Page;
use hayro::kurbo::{Affine, BezPath, Rect};

/// The bytes of the largest image that a page draws itself or through forms, or of its mask, when it is decoded. Images of
/// patterns, of masks of groups and of glyphs are not seen; the limits of the process bound those.
pub(crate) fn largest_image_bytes(page: &Page<'_>, transform: Affine, target: Rect) -> u64 {
    let cache = InterpreterCache::new();
    let settings = InterpreterSettings::default();
    let mut context = Context::new(transform, target, &cache, page.xref(), settings);
    let mut largest = LargestImage { bytes: 0 };
    interpret_page(page, &mut context, &mut largest);
    largest.bytes
}

struct LargestImage {
    bytes: u64,
}

impl<'a> Device<'a> for LargestImage {
    fn draw_image(&mut self, image: Image<'a, '_>, _: ImageDrawProps<'a>) {
        let stream = match &image {
            Image::Raster(image) => image.stream(),
            Image::Stencil(image) => image.stream(),
        };
        let masks = ["SMask", "Mask"].map(|name| stream.dict().get::<Stream<'_>>(name));
        let masks = masks.iter().flatten().map(|mask| pixels(mask.dict()));
        let own = pixels(stream.dict()).saturating_mul(bytes_per_pixel(stream.dict()));
        self.bytes = masks.fold(self.bytes.max(own), u64::max);
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_glyph_run(&mut self, _: &GlyphRun<'_, 'a>, _: DrawProps<'a>, _: &DrawMode) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

fn pixels(image: &Dict<'_>) -> u64 {
    // Images inside of a content stream have short names.
    let side = |long: &str, short: &str| {
        let side = image.get::<u32>(long).or_else(|| image.get::<u32>(short));
        u64::from(side.unwrap_or_default())
    };
    side("Width", "W") * side("Height", "H")
}

// Gray and RGB are drawn as they are decoded. What has other colors is turned into RGB, in addition to up to four bytes of its own.
fn bytes_per_pixel(image: &Dict<'_>) -> u64 {
    let is_mask = image
        .get::<bool>("ImageMask")
        .or_else(|| image.get::<bool>("IM"));
    let colors = image
        .get::<Object<'_>>("ColorSpace")
        .or_else(|| image.get::<Object<'_>>("CS"));
    let components = match colors {
        Some(Object::Name(name)) => named_components(&name),
        Some(Object::Array(space)) => profile_components(&space),
        _ if is_mask == Some(true) => Some(1),
        _ => None,
    };
    components
        .filter(|count| matches!(count, 1 | 3))
        .unwrap_or(7)
}

fn named_components(name: &Name<'_>) -> Option<u64> {
    match name.as_ref() {
        b"DeviceGray" | b"G" | b"CalGray" => Some(1),
        b"DeviceRGB" | b"RGB" | b"CalRGB" => Some(3),
        _ => None,
    }
}

// `[/ICCBased stream]`, whose stream says how many, or `[/CalGray dict]`.
fn profile_components(space: &Array<'_>) -> Option<u64> {
    let mut parts = space.iter::<Object<'_>>();
    let Some(Object::Name(kind)) = parts.next() else {
        return None;
    };
    match (kind.as_ref(), parts.next()) {
        (b"ICCBased", Some(Object::Stream(profile))) => {
            profile.dict().get::<u32>("N").map(u64::from)
        }
        _ => named_components(&kind),
    }
}
