//! EDGAR submissions to [`Source`]: the primary document and its exhibits, one after the other.
//!
//! The envelope is taken apart by `stemma_edgar`. Parts that nobody reads are left out and counted in a defect. What the
//! header states becomes metadata: `company`, `cik`, `accession`, `form`, `period` and `filed` (ISO dates), `sic`,
//! `former_names`, `fiscal_year_end`, `file_number`.
//!
//! A submission of text has lines, numbered as in the file, and a level-1 heading for each document. One with HTML has pages,
//! and lists its documents as its outline.

mod lines;
mod pages;
pub(crate) mod tags;

use stemma_document::Source;
use stemma_edgar::{FullSubmission, PartKind};

use crate::decode::check_size;
use crate::{ExtractError, Limits};

/// Extracts a submission.
///
/// # Errors
///
/// `limits.bytes` and `limits.lines`; `edgar.no_documents` if no part is a document.
pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Result<Source, ExtractError> {
    check_size(bytes.len(), limits)?;
    let submission = FullSubmission::parse(bytes);
    if submission.documents().next().is_none() {
        return Err(no_documents(&submission));
    }
    let has_html = submission
        .documents()
        .any(|part| part.kind != PartKind::Text);
    match has_html {
        true => pages::read(bytes, &submission, limits),
        false => lines::read(bytes, &submission, limits),
    }
}

fn no_documents(submission: &FullSubmission) -> ExtractError {
    let reasons: Vec<String> = submission
        .skipped()
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.label()))
        .collect();
    let parts = match reasons.as_slice() {
        [] => "it has no parts".to_owned(),
        reasons => format!("it has only {}", reasons.join(", ")),
    };
    ExtractError::new(
        "edgar.no_documents",
        format!("the submission has no document to read: {parts}"),
        "fetch the whole submission, or leave this file out",
    )
}

#[cfg(test)]
mod tests;
