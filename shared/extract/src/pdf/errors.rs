//! Why a file cannot be read.

use stemma_document::Defect;

use super::content_stream::TextLoss;
use super::decode_limits;
use super::reader::ExtractedPage;
use crate::{ExtractError, Limits};

pub(super) fn password_error(has_password: bool) -> ExtractError {
    let message = if has_password {
        "the file is password protected and the password given does not open it"
    } else {
        "the file is password protected"
    };
    ExtractError::new(
        "pdf.encrypted_password",
        message,
        "give the user password with `--password`",
    )
}

// A file without any page object has no pages; otherwise it is damaged.
pub(super) fn invalid_file_error(bytes: &[u8]) -> ExtractError {
    let mut position = 0;
    while let Some(offset) =
        decode_limits::find_bytes(bytes.get(position..).unwrap_or_default(), b"/Type")
    {
        position += offset + 5;
        let value = bytes.get(position..).unwrap_or_default().trim_ascii_start();
        if value.starts_with(b"/Page") && !value.starts_with(b"/Pages") {
            return damaged_error();
        }
    }
    // Compressed object streams may hide page objects.
    if decode_limits::find_bytes(bytes, b"/ObjStm").is_some() {
        damaged_error()
    } else {
        no_pages_error()
    }
}

pub(super) fn damaged_error() -> ExtractError {
    ExtractError::new(
        "pdf.damaged",
        "the file is damaged: its pages cannot be found",
        "get the file again, or repair it with another program",
    )
}

pub(super) fn no_pages_error() -> ExtractError {
    ExtractError::new(
        "pdf.no_pages",
        "the document has no pages",
        "check that the file is complete",
    )
}

pub(super) fn no_text_error(
    pages: &[ExtractedPage],
    defects: &[Defect],
    is_truncated: bool,
    any_picture: bool,
) -> ExtractError {
    if is_truncated {
        return ExtractError::new(
            "pdf.truncated",
            "the file is cut off: the text of its pages is lost",
            "get the whole file",
        );
    }
    if pages
        .iter()
        .all(|read| matches!(read.loss, Some(TextLoss::Unreadable | TextLoss::TooLarge)))
    {
        let why = defects
            .first()
            .map(|defect| defect.detail.as_str())
            .unwrap_or_default();
        return ExtractError::new(
            "pdf.damaged",
            format!("no page can be read: {why}"),
            damaged_error().next,
        );
    }
    ExtractError::new(
        "pdf.no_text",
        format!(
            "the document has no text layer: none of its {} pages has text",
            pages.len()
        ),
        if any_picture {
            "ingest it with `--ocr auto`, which reads pages that are pictures (OCR)"
        } else {
            "look at its pages: they show no pictures that text recognition (OCR) could read"
        },
    )
}

pub(super) fn too_many_pages_error(count: usize, limits: &Limits) -> ExtractError {
    ExtractError::new(
        "limits.pages",
        format!(
            "the document has {count} pages, more than the limit of {}",
            limits.max_pages
        ),
        "raise the limit or split the document",
    )
}

pub(super) fn out_of_time_error(limits: &Limits) -> ExtractError {
    ExtractError::new(
        "limits.time",
        format!(
            "reading the document took more than {} s of CPU time",
            limits.max_seconds
        ),
        "split the document, or raise limits.max_seconds",
    )
}
