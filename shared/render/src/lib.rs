//! Images of the pages of PDFs.
//!
//! [`draw`] makes a [`Bitmap`] of a page or a region of it; [`draw_png`] encodes it. Files are opened as extraction opens
//! them ([`stemma_extract::pdf::open`]), so page numbers and sizes are the same as in the extracted text.
//!
//! Decoders of images and fonts are what hostile files aim at, and they are not bounded in memory or time. So a server calls
//! this only in a child process of [`stemma_extract::Pool`].
//!
//! ```
//! use stemma_extract::{ImageRequest, Limits};
//! # let page = stemma_document::PageNo::FIRST;
//! let request = ImageRequest::for_page(page, 1_000);
//! let error = stemma_render::draw(b"<html></html>", None, &Limits::default(), &request).unwrap_err();
//! assert_eq!(error.code, "pdf.not_a_pdf");
//! ```

mod bitmap;
mod draw;
mod image_sizes;
mod size;

pub use bitmap::{Bitmap, Pixels};
pub use draw::{draw, draw_smooth};

use stemma_extract::{ExtractError, ExtractJob, ImageRequest};

/// Raised when the same page gets other pixels, so that cached images are not used any more.
pub const REVISION: u32 = 1;

/// Draws a page of a document and encodes it as PNG. Runs in the extraction process.
///
/// # Errors
///
/// As [`draw`].
pub fn draw_png(job: &ExtractJob, request: &ImageRequest) -> Result<Vec<u8>, ExtractError> {
    let bitmap = draw(&job.bytes, job.password.as_deref(), &job.limits, request)?;
    bitmap.to_png().map_err(|error| {
        let message = format!("the image of the page cannot be encoded: {error}");
        ExtractError::new("image.not_drawable", message, "ask for a smaller image")
    })
}
