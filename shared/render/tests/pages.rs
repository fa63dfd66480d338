//! Draws small PDFs and looks at their pixels.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests and their fixtures"
)]

use stemma_document::PageNo;
use stemma_extract::{ExtractJob, ImageColor, ImageRequest, ImageScale, Limits, PageRegion};
use stemma_render::{Bitmap, Pixels, draw, draw_png};

// A document of one page. Readers find the objects without a table of them.
fn pdf(entries: &str, content: &str) -> Vec<u8> {
    pdf_with("", "", entries, content)
}

// The same with further resources and objects, which count from 6.
fn pdf_with(resources: &str, objects: &str, entries: &str, content: &str) -> Vec<u8> {
    format!(
        "%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n\
         2 0 obj\n<</Type/Pages/Count 1/Kids[3 0 R]>>\nendobj\n\
         3 0 obj\n<</Type/Page/Parent 2 0 R/Contents 4 0 R\
         /Resources<</Font<</F1 5 0 R>>{resources}>>{entries}>>\nendobj\n\
         4 0 obj\n<</Length {}>>stream\n{content}\nendstream\nendobj\n\
         5 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj\n{objects}\
         trailer\n<</Root 1 0 R/Size 6>>\n%%EOF\n",
        content.len()
    )
    .into_bytes()
}

const LETTER: &str = "/MediaBox[0 0 612 792]";
// 100 × 50 points, 10 points from the left and 42 from the top of a page of Letter size.
const BAR: &str = "10 700 100 50 re f";

fn drawn(file: &[u8], request: &ImageRequest) -> Bitmap {
    draw(file, None, &Limits::default(), request).unwrap()
}

fn page(width: u32) -> ImageRequest {
    ImageRequest::for_page(PageNo::FIRST, width)
}

// The box of dark pixels: left, top, right and bottom, exclusive.
fn dark_box(bitmap: &Bitmap) -> Option<[usize; 4]> {
    let Pixels::Gray(pixels) = &bitmap.pixels else {
        panic!("the image has colors");
    };
    let width = usize::from(bitmap.width);
    let dark = pixels.iter().enumerate().filter(|(_, value)| **value < 128);
    dark.fold(None, |found, (at, _)| {
        let x = at % width;
        let y = at / width;
        let [left, top, right, bottom] = found.unwrap_or([x, y, x, y]);
        Some([left.min(x), top.min(y), right.max(x + 1), bottom.max(y + 1)])
    })
}

#[test]
fn shapes_are_drawn_where_the_page_has_them() {
    let bitmap = drawn(&pdf(LETTER, BAR), &page(612));
    assert_eq!((bitmap.width, bitmap.height), (612, 792));
    assert_eq!(dark_box(&bitmap), Some([10, 42, 110, 92]));
}

#[test]
fn text_without_an_embedded_font_is_drawn() {
    let bitmap = drawn(
        &pdf(LETTER, "BT /F1 100 Tf 100 400 Td (HH) Tj ET"),
        &page(612),
    );
    let [left, top, right, bottom] = dark_box(&bitmap).unwrap();
    assert!(
        (100..120).contains(&left) && (230..250).contains(&right),
        "{left} {right}"
    );
    assert!(
        (310..330).contains(&top) && (388..396).contains(&bottom),
        "{top} {bottom}"
    );
}

#[test]
fn turned_pages_are_drawn_upright() {
    let bitmap = drawn(&pdf(&format!("{LETTER}/Rotate 90"), BAR), &page(792));
    assert_eq!((bitmap.width, bitmap.height), (792, 612));
    assert_eq!(dark_box(&bitmap), Some([700, 10, 750, 110]));
}

#[test]
fn only_the_crop_box_is_drawn() {
    let bitmap = drawn(
        &pdf(&format!("{LETTER}/CropBox[0 600 200 792]"), BAR),
        &page(200),
    );
    assert_eq!((bitmap.width, bitmap.height), (200, 192));
    assert_eq!(dark_box(&bitmap), Some([10, 42, 110, 92]));
}

#[test]
fn a_region_is_drawn_alone_and_larger() {
    let request = ImageRequest {
        region: PageRegion::new(0.0, 0.0, 0.5, 0.25).unwrap(),
        ..page(612)
    };
    let bitmap = drawn(&pdf(LETTER, BAR), &request);
    assert_eq!((bitmap.width, bitmap.height), (612, 396));
    assert_eq!(dark_box(&bitmap), Some([20, 84, 220, 184]));
}

#[test]
fn odd_sizes_of_pages_are_bounded() {
    for (entries, expected) in [
        ("/MediaBox[0 0 20000 20000]", (1_000, 1_000)),
        // As tall as can be counted, and as narrow.
        ("/MediaBox[0 0 1 20000]", (2, 32_000)),
        // Pages without a size are A4.
        ("/MediaBox[0 0 0 0]", (1_000, 1_414)),
        ("", (1_000, 1_414)),
    ] {
        let bitmap = drawn(&pdf(entries, BAR), &page(1_000));
        assert_eq!((bitmap.width, bitmap.height), expected, "{entries}");
    }
}

#[test]
fn scans_are_read_in_gray_at_a_resolution() {
    let request = ImageRequest {
        scale: ImageScale::Dpi(144),
        color: ImageColor::Gray,
        ..page(50)
    };
    let bitmap = drawn(&pdf(LETTER, &format!("1 0 0 rg {BAR}")), &request);
    assert_eq!((bitmap.width, bitmap.height), (1_224, 1_584));
    assert_eq!(dark_box(&bitmap), Some([20, 84, 220, 184]));
}

#[test]
fn pages_that_cannot_be_drawn_have_an_error() {
    let file = pdf(LETTER, BAR);
    for (bytes, number, code) in [
        (file.as_slice(), 2, "image.no_page"),
        (&b"<html>"[..], 1, "pdf.not_a_pdf"),
        (&b""[..], 1, "input.empty"),
        (&b"%PDF-1.7\n"[..], 1, "pdf.no_pages"),
    ] {
        let request = ImageRequest::for_page(PageNo::new(number).unwrap(), 100);
        let error = draw(bytes, None, &Limits::default(), &request).unwrap_err();
        assert_eq!(error.code, code);
    }
}

#[test]
fn damaged_pages_are_drawn_as_far_as_they_go() {
    let bitmap = drawn(
        &pdf(LETTER, &format!("{BAR} /X Do ) > 1 0 0 cm (")),
        &page(612),
    );
    assert_eq!(dark_box(&bitmap), Some([10, 42, 110, 92]));
}

#[test]
fn a_job_has_a_png_as_its_result() {
    let job = ExtractJob::new("a.pdf".into(), pdf(LETTER, BAR), None, Limits::default());
    let png = draw_png(&job, &page(100)).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    // Width and height of the header (PNG 1.2, 11.2.2).
    assert_eq!(png[16..24], [0, 0, 0, 100, 0, 0, 0, 129]);
}

#[test]
fn images_that_take_much_memory_are_not_decoded() {
    let image = |number: u8, size: &str, entries: &str| {
        format!(
            "{number} 0 obj\n<</Type/XObject/Subtype/Image/BitsPerComponent 8/Filter/RunLengthDecode{size}{entries}/Length 4>>stream\n\u{1}ab\u{7f}\nendstream\nendobj\n"
        )
    };
    let [gray, rgb] = ["/ColorSpace/DeviceGray", "/ColorSpace/DeviceRGB"];
    let small = "/Width 2/Height 1";
    let large = "/Width 20000/Height 20000";
    let form = "7 0 obj\n<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</I 6 0 R>>>>/Length 5>>stream\n/I Do\nendstream\nendobj\n";
    for (objects, name, is_drawn) in [
        (image(6, small, gray), "I", true),
        (image(6, large, gray), "I", false),
        // A sheet of A4 at 600 dpi, and of A3 at 1,200.
        (image(6, "/Width 4961/Height 7016", rgb), "I", true),
        (image(6, "/Width 14043/Height 19866", rgb), "I", false),
        (image(6, large, gray) + form, "F", false),
        (
            image(6, small, "/ColorSpace/DeviceGray/SMask 7 0 R") + &image(7, large, gray),
            "I",
            false,
        ),
        // It is there, but the page does not show it.
        (image(6, large, gray), "J", true),
    ] {
        let resources = "/XObject<</I 6 0 R/F 7 0 R>>";
        let content = format!("100 0 0 100 0 0 cm /{name} Do");
        let file = pdf_with(resources, &objects, LETTER, &content);
        let drawn = draw(&file, None, &Limits::default(), &page(100));
        let code = drawn.err().map(|error| error.code);
        assert_eq!(code, (!is_drawn).then_some("limits.memory"), "{objects}");
    }
}
