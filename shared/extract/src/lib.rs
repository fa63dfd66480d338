//! Bytes to [`Source`](stemma_document::Source): PDF, Markdown and plain text.
//!
//! All formats meet at one shape (I-8): pages with positioned lines, or numbered lines. Bad input is data: what can be
//! read is read, what cannot is a recorded defect, and a document that cannot be read at all is one [`ExtractError`]
//! that says why and what to do.
//!
//! ```
//! use stemma_extract::{Limits, pdf};
//! let error = pdf::read(b"<html></html>", None, &Limits::default(), 1).unwrap_err();
//! assert_eq!(error.code, "pdf.not_a_pdf");
//! ```
//!
//! What it refuses to do: follow links out of a document, run scripts, unpack attachments, rasterize. Everything is
//! bounded by [`Limits`]; what one process cannot hold (a stack overflow inside a parser) is held by a [`Pool`] of child
//! processes, each of which does nothing but [`serve`]. Reading is a pure function of the bytes (I-12), and what was read
//! is stored and sent as a [`EncodedSource`] source.

mod decode;
mod detect;
mod error;
mod front_matter;
mod ipc;
mod limits;
pub mod markdown;
pub mod pdf;
mod pool;
mod sandbox;
mod source_codec;
pub mod text;
pub mod title;

pub use detect::{detect_format, extract};
pub use error::ExtractError;
pub use ipc::ExtractJob;
pub use limits::Limits;
pub use pool::{Extractor, InProcess, Pool, PoolSettings, extract_and_encode};
pub use sandbox::{Confinement, serve};
pub use source_codec::{CodecError, EncodedSource, PAGES_PER_CHUNK, SourceHeader, encode_source};
