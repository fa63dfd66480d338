//! Text extraction: PDF, HTML, XML, Markdown and plain text to [`Source`](stemma_document::Source).
//!
//! All formats become pages with positioned lines, or numbered lines. Problems in a document become recorded defects; a
//! document that cannot be read at all is an [`ExtractError`] with a reason and a next step.
//!
//! ```
//! use stemma_extract::{Limits, pdf};
//! let error = pdf::read(b"<html></html>", None, &Limits::default(), 1).unwrap_err();
//! assert_eq!(error.code, "pdf.not_a_pdf");
//! ```
//!
//! Extraction never follows links, runs scripts, unpacks attachments or decodes images. It is bounded by [`Limits`].
//! A child can also draw a page ([`Task::Image`]); the code that draws is in `stemma-render`, and the code
//! that recognizes text ([`Task::Recognize`]) in `stemma-ocr`.
//! Crashes that a process cannot contain, such as a stack overflow in a parser, are isolated by a [`Pool`] of child
//! processes that run [`serve`]. The result depends on the bytes only, and is stored and sent as an [`EncodedSource`].

mod cpu_time;
mod decode;
mod detect;
mod edgar;
mod error;
mod front_matter;
pub mod html;
mod image_request;
mod ipc;
mod limits;
pub mod markdown;
mod packages;
pub mod pdf;
mod pool;
mod recognize_request;
mod sandbox;
mod source_codec;
pub mod text;
mod text_pages;
mod xml;

pub use cpu_time::{CpuTime, resident_bytes};
pub use detect::{detect_format, extract};
pub use error::ExtractError;
pub use image_request::{ImageColor, ImageRequest, ImageScale, PageRegion};
pub use ipc::{ExtractJob, Task};
pub use limits::Limits;
pub use packages::{PackageManager, tesseract_advice};
pub use pool::{Extractor, InProcess, Pool, PoolSettings, extract_and_encode, is_transient_code};
pub use recognize_request::{ModelFile, RecognizeRequest};
pub use sandbox::{Confinement, serve};
pub use source_codec::{CodecError, EncodedSource, PAGES_PER_CHUNK, SourceHeader, encode_source};
