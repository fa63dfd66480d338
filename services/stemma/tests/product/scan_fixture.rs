//! Pages that are pictures: PDFs made of them, and what text recognition reads there.

use std::io::Write;
use std::path::{Path, PathBuf};

use stemma_document::{Page, PageNo, SourceBody};
use stemma_extract::{
    EncodedSource, ExtractJob, ImageColor, ImageRequest, ImageScale, Limits, ModelFile, PageRegion,
    RecognizeRequest,
};
use stemma_filings::{Filing, FilingKind, Spec, generate};
use stemma_render::Pixels;

// Pages of text of the filing; its cover and contents are more.
const PAGES: u32 = 4;
// The upper part of a page is enough for most tests: reading a whole one takes seconds.
const PART: (f32, f32, f32, f32) = (0.0, 0.0, 1.0, 0.5);
const DPI: u32 = 150;
const COARSE_DPI: u32 = 60;
/// Width and height of [`Sheet::Picture`] in pixels.
pub const PICTURE: (u16, u16) = (850, 1_100);
const PICTURE_DPI: u32 = 100;

/// A page of a scan. All that show a page but `Whole` show its upper part.
pub enum Sheet {
    Whole(u32),
    Straight(u32),
    /// With so few pixels that text recognition is unsure of many words.
    Coarse(u32),
    UpsideDown(u32),
    /// Turned by a quarter clockwise.
    Right(u32),
    /// Turned by a quarter the other way.
    Left(u32),
    Blank,
    /// 20,000 × 20,000 pixels in a file of few bytes.
    Huge,
    /// Lines of text, without a picture.
    Printed(Vec<String>),
    /// Gray pixels, row by row.
    Picture(Vec<u8>),
}

impl Sheet {
    fn dpi(&self) -> u32 {
        match self {
            Self::Coarse(_) => COARSE_DPI,
            Self::Picture(_) => PICTURE_DPI,
            _ => DPI,
        }
    }
}

pub fn filing() -> Filing {
    generate(&Spec {
        pages: PAGES,
        ..Spec::new(FilingKind::TenQ, 7)
    })
}

/// A PDF whose pages are images of pages of another, pictures, and printed text.
pub fn scan(pdf: &[u8], sheets: &[Sheet]) -> Vec<u8> {
    let mut objects = vec![b"<</Type/Catalog/Pages 2 0 R>>".to_vec(), Vec::new()];
    let mut kids = String::new();
    for sheet in sheets {
        let page = match sheet {
            Sheet::Printed(lines) => printed_page(lines, &mut objects),
            _ => picture_page(pdf, sheet, &mut objects),
        };
        objects.push(page.into_bytes());
        kids += &format!("{} 0 R ", objects.len());
    }
    objects[1] = format!("<</Type/Pages/Count {}/Kids[{kids}]>>", sheets.len()).into_bytes();
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut table = String::from("0000000000 65535 f \n");
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", out.len());
        write!(out, "{} 0 obj", index + 1).unwrap();
        out.extend(object);
        out.extend(b" endobj\n");
    }
    let start = out.len();
    let size = objects.len() + 1;
    write!(
        out,
        "xref\n0 {size}\n{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n"
    )
    .unwrap();
    out
}

/// A page of printed lines; its content becomes an object.
fn printed_page(lines: &[String], objects: &mut Vec<Vec<u8>>) -> String {
    let shown: String = lines
        .iter()
        .map(|line| format!("({line}) Tj T* "))
        .collect();
    let content = format!("BT /F1 10 Tf 14 TL 72 720 Td {shown}ET");
    let length = content.len();
    objects.push(format!("<</Length {length}>>stream\n{content}\nendstream").into_bytes());
    let font = "/Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>";
    format!(
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<<{font}>>/Contents {} 0 R>>",
        objects.len()
    )
}

/// A page that is an image; the image and the content become objects.
fn picture_page(pdf: &[u8], sheet: &Sheet, objects: &mut Vec<Vec<u8>>) -> String {
    let (width, height, pixels) = match sheet {
        Sheet::Whole(page) => draw(pdf, *page, sheet.dpi(), PageRegion::WHOLE),
        Sheet::Straight(page)
        | Sheet::Coarse(page)
        | Sheet::UpsideDown(page)
        | Sheet::Right(page)
        | Sheet::Left(page) => {
            let (x, y, width, height) = PART;
            let part = PageRegion::new(x, y, width, height).unwrap();
            draw(pdf, *page, sheet.dpi(), part)
        }
        Sheet::Blank => (100, 130, vec![250; 13_000]),
        // 128 gray pixels each.
        Sheet::Huge => (20_000, 20_000, [129, 128].repeat(20_000 * 20_000 / 128)),
        Sheet::Picture(pixels) => (PICTURE.0, PICTURE.1, pixels.clone()),
        Sheet::Printed(_) => panic!("it has no picture"),
    };
    let [w, h] = [width, height].map(|side| f64::from(side) * 72.0 / f64::from(sheet.dpi()));
    let placed = match sheet {
        Sheet::UpsideDown(_) => format!("q -{w} 0 0 -{h} {w} {h} cm /I Do Q"),
        Sheet::Right(_) => format!("q 0 -{w} {h} 0 0 {w} cm /I Do Q"),
        Sheet::Left(_) => format!("q 0 {w} -{h} 0 {h} 0 cm /I Do Q"),
        _ => format!("q {w} 0 0 {h} 0 0 cm /I Do Q"),
    };
    let filter = match sheet {
        Sheet::Huge => "/Filter/RunLengthDecode",
        _ => "",
    };
    let mut image = format!(
        "<</Type/XObject/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceGray/BitsPerComponent 8{filter}/Length {}>>stream\n",
        pixels.len()
    )
    .into_bytes();
    image.extend(pixels);
    image.extend(b"\nendstream");
    objects.push(image);
    let length = placed.len();
    objects.push(format!("<</Length {length}>>stream\n{placed}\nendstream").into_bytes());
    let content = objects.len();
    let image = content - 1;
    let (wide, high) = match sheet {
        Sheet::Right(_) | Sheet::Left(_) => (h, w),
        _ => (w, h),
    };
    format!(
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 {wide} {high}]/Resources<</XObject<</I {image} 0 R>>>>/Contents {content} 0 R>>"
    )
}

fn draw(pdf: &[u8], page: u32, dpi: u32, region: PageRegion) -> (u16, u16, Vec<u8>) {
    let request = ImageRequest {
        page: PageNo::new(page).unwrap(),
        scale: ImageScale::Dpi(dpi),
        region,
        color: ImageColor::Gray,
    };
    let drawn = stemma_render::draw(pdf, None, &Limits::default(), &request).unwrap();
    let (Pixels::Gray(pixels) | Pixels::Rgb(pixels)) = drawn.pixels;
    (drawn.width, drawn.height, pixels)
}

pub fn read(pdf: &[u8], page: u32, program: &Path) -> Page {
    read_twice(pdf, page, program, None)
}

pub fn read_twice(pdf: &[u8], page: u32, program: &Path, second_reader: Option<ModelFile>) -> Page {
    let job = ExtractJob::new("scan.pdf".into(), pdf.to_vec(), None, Limits::default());
    let request = RecognizeRequest {
        page: PageNo::new(page).unwrap(),
        program: program.into(),
        languages: vec!["eng".into()],
        second_reader,
    };
    let reply = stemma_ocr::read_page(&job, &request).unwrap();
    let source = EncodedSource::open(reply).unwrap().decode().unwrap();
    match source.body {
        SourceBody::Pages(mut pages) => pages.pop().unwrap(),
        SourceBody::Lines(_) => panic!("no pages"),
    }
}

pub fn tesseract() -> Option<PathBuf> {
    let found = stemma_ocr::find_program(std::env::var_os("PATH").as_deref());
    if found.is_none() {
        println!("skipped: tesseract is not installed");
    }
    found
}

pub fn has_tesseract() -> bool {
    tesseract().is_some()
}
