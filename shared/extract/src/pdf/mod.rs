//! PDF to [`Source`].
//!
//! The bytes are checked (`decode_limits`) and opened by hayro-syntax. Each page's operators are run for text only
//! (`content_stream`, `font`), and `rows`, `columns` and `words` build lines from the glyphs. `canvas` keeps what else is
//! painted, from which `visibility` and `hidden_text` tell the text that nobody sees; `form_fields` and `remarks` add
//! what forms and annotations show. Document structures (`outline`, `tagged_headings`, `destinations`, `links`, `labels`,
//! `info`, `unread`) come from the same open file. lopdf is used only for files that the first parser cannot read (`fallback`).
//!
//! Pages are independent of each other. A `font::FontBook` belongs to one thread.

mod actual_text;
mod annotations;
mod canvas;
mod color;
mod columns;
mod content_stream;
mod curved_text;
mod decode_limits;
mod destinations;
mod errors;
mod fallback;
mod field_box;
mod font;
mod form_fields;
mod glyph;
mod glyph_mapping;
mod graphics_state;
mod hidden_text;
mod info;
mod ink;
mod labels;
mod links;
mod matrix;
mod numbered_names;
mod optional_content;
mod outline;
mod page_box;
mod page_layout;
mod path;
mod pen;
mod placed_words;
mod quality;
mod reader;
mod remarks;
mod right_to_left;
mod rows;
mod strings;
mod structure_elements;
mod tagged_headings;
mod type3;
mod unread;
mod visibility;
mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::thread;

use stemma_document::Source;

pub use placed_words::{PlacedWord, lay_out_words};

use crate::{ExtractError, Limits};

// Parsers recurse with the nesting of the file; this is enough for their depth limits.
const STACK_BYTES: usize = 64 << 20;

/// Extracts a PDF on up to `threads` threads, whose number does not affect the result. A file with an empty user
/// password opens without one.
///
/// # Errors
///
/// `input.empty`, `pdf.not_a_pdf`, `pdf.encrypted_password`, `pdf.encryption_unsupported`, `pdf.damaged`,
/// `pdf.no_pages`, `pdf.no_text`, and `limits.bytes`, `limits.decompressed_bytes`, `limits.pages`, `limits.time`.
pub fn read(
    bytes: &[u8],
    password: Option<&str>,
    limits: &Limits,
    threads: usize,
) -> Result<Source, ExtractError> {
    read_with(bytes, password, limits, threads, Pictures::Refused)
}

/// Whether a file whose pages are all pictures can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pictures {
    Refused,
    /// Text recognition may read them.
    Accepted,
}

/// As [`read`].
pub(crate) fn read_with(
    bytes: &[u8],
    password: Option<&str>,
    limits: &Limits,
    threads: usize,
    pictures: Pictures,
) -> Result<Source, ExtractError> {
    thread::scope(|scope| {
        let reader = thread::Builder::new()
            .name("pdf".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || {
                reader::read(bytes, password, limits, threads, pictures)
            });
        // A panic in the parser fails only this file.
        reader.map_or_else(
            |_| Err(no_thread()),
            |reader| {
                reader
                    .join()
                    .unwrap_or_else(|_| Err(errors::damaged_error()))
            },
        )
    })
}

/// Opens a PDF as [`read`] does, so that a program that draws its pages sees the same pages. Parsers recurse: call it on a
/// thread with a large stack, as [`crate::serve`] does.
///
/// # Errors
///
/// As [`read`], for files that do not open.
pub fn open(
    bytes: &[u8],
    password: Option<&str>,
    limits: &Limits,
) -> Result<hayro_syntax::Pdf, ExtractError> {
    let bytes = decode_limits::check_file(bytes, limits)?;
    reader::open_checked(bytes, password, limits)
}

fn no_thread() -> ExtractError {
    ExtractError::new(
        "system.no_thread",
        "no thread could be started to read the file",
        "free memory and try again",
    )
}
