//! Text recognition of pages that are pictures.
//!
//! [`read_page`] draws a page, turns and straightens it, lets tesseract read it, and lays out the words as extraction lays out
//! those of text pages. Each word keeps the confidence of its reading. Tesseract is a program that the user installs. It runs as
//! a child of the process that calls, inherits its confinement, and gets no file, no network and no search path.
//!
//! With the feature `second-reader`, a model that the user brings reads the numbers again, in the process that calls.
//!
//! ```
//! use stemma_extract::{ExtractJob, Limits, RecognizeRequest};
//! let job = ExtractJob::new("a.pdf".into(), b"<html></html>".to_vec(), None, Limits::default());
//! let request = RecognizeRequest {
//!     page: stemma_document::PageNo::FIRST,
//!     program: "/usr/bin/tesseract".into(),
//!     languages: vec!["eng".into()],
//!     second_reader: None,
//! };
//! assert_eq!(stemma_ocr::read_page(&job, &request).unwrap_err().code, "pdf.not_a_pdf");
//! ```

mod blur;
mod cpu_budget;
mod gray;
mod hocr;
mod model;
mod orientation;
#[cfg(feature = "second-reader")]
mod pp_ocr;
mod program_processes;
mod reading;
mod rows;
mod second_reader;
mod skew;
mod speckles;
mod tesseract;
mod type_style;
mod unread;
mod words;

use stemma_document::{Source, SourceBody, SourceFormat};
use stemma_extract::{
    CodecError, ExtractError, ExtractJob, ImageColor, ImageRequest, ImageScale, PageRegion,
    RecognizeRequest, encode_source, pdf,
};
use stemma_render::{Bitmap, Pixels};

use cpu_budget::CpuBudget;
use gray::Gray;

pub use model::model_file;
pub use tesseract::{find_program, installed};

/// Whether this program can run the model of a second reader.
pub const HAS_SECOND_READER: bool = cfg!(feature = "second-reader");

/// In the metadata of a page on which no words were found although it is not blank: it may be handwriting.
pub const UNREAD: &str = "ocr.unread";

// What tesseract's models were trained on. At 200 a bench of degraded filings loses words; more costs time.
const DPI: u32 = 300;

/// Recognizes the text of a page, as an encoded source of one page. Call it as [`stemma_render::draw`].
///
/// # Errors
///
/// Those of [`stemma_render::draw`]; `ocr.no_engine`, `ocr.language_missing`, `ocr.timeout` and `ocr.failed`; `ocr.no_model` and
/// `ocr.model_invalid` for the model of a second reader.
pub fn read_page(job: &ExtractJob, request: &RecognizeRequest) -> Result<Vec<u8>, ExtractError> {
    let budget = CpuBudget::start();
    let second = request.second_reader.as_ref().map(model::reader);
    let second = second.transpose()?;
    let image = ImageRequest {
        page: request.page,
        scale: ImageScale::Dpi(DPI),
        region: PageRegion::WHOLE,
        color: ImageColor::Gray,
    };
    let password = job.password.as_deref();
    let smooth = stemma_render::draw_smooth(&job.bytes, password, &job.limits, &image)?;
    let mut gray = to_gray(smooth)?;
    if speckles::are_many(&gray) {
        // Smoothing spreads speckles over more pixels than the filter takes away.
        let sharp = stemma_render::draw(&job.bytes, password, &job.limits, &image)?;
        gray = speckles::removed(&to_gray(sharp)?);
    }
    let width = page_width(job, request)?;
    let scale = gray.width as f32 / width;
    let page = reading::read(&gray, scale, request, second.as_deref(), &budget)?;
    let is_unread = page.lines.is_empty() && !skew::is_blank(&gray);
    let mark = is_unread.then(|| (UNREAD.to_owned(), String::new()));
    let source = Source {
        format: SourceFormat::Pdf,
        body: SourceBody::Pages(vec![page]),
        outline: Vec::new(),
        links: Vec::new(),
        metadata: mark.into_iter().collect(),
        defects: Vec::new(),
        hidden: Vec::new(),
        encrypted: false,
    };
    encode_source(&source).map_err(|error: CodecError| tesseract::failed(error.to_string()))
}

fn to_gray(drawn: Bitmap) -> Result<Gray, ExtractError> {
    let pixels = match drawn.pixels {
        Pixels::Gray(pixels) | Pixels::Rgb(pixels) => pixels,
    };
    Gray::new(drawn.width.into(), drawn.height.into(), pixels)
        .ok_or_else(|| tesseract::failed("the image of the page has the wrong size"))
}

// In points. A page that was drawn has one.
fn page_width(job: &ExtractJob, request: &RecognizeRequest) -> Result<f32, ExtractError> {
    let file = pdf::open(&job.bytes, job.password.as_deref(), &job.limits)?;
    let page = file.pages().get(request.page.index());
    let width = page.map(|page| page.render_dimensions().0);
    width.ok_or_else(|| tesseract::failed("the page is not there any more"))
}
