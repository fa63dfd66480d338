//! The containers and folders of EDGAR: full submissions, their headers, index files, and mirrored folders.
//!
//! A [`FullSubmission`] is one file with all documents of a filing: the `.txt` files of the archive and the `.nc` files of the
//! feed. Only its envelope is read here; what the parts say is up to the readers of their formats.
//!
//! ```
//! use stemma_edgar::FullSubmission;
//! let file = b"<SEC-DOCUMENT>x\n<DOCUMENT>\n<TYPE>8-K\n<TEXT>\nWe report.\n</TEXT>\n</DOCUMENT>\n";
//! let submission = FullSubmission::parse(file);
//! let part = &submission.parts[0];
//! assert_eq!(part.entry.document_type, "8-K");
//! assert_eq!(&file[part.text.clone()], b"\nWe report.\n");
//! ```
//!
//! Nothing here fails: what is missing or cut off is a defect, because an archive has files of thirty years. All functions
//! are linear in the bytes, and keep positions instead of copies.

mod folder;
mod header;
mod html_blocks;
mod index_file;
mod part;
mod selection;
mod submission;
mod tag_lines;
#[cfg(test)]
mod tests;

pub use folder::{FilingFolder, FolderDocument, FolderPlan, IndexFile, is_label_linkbase};
pub use header::{Party, SubmissionHeader};
pub use index_file::{FilingIndex, IndexKind};
pub use part::{PartEntry, PartKind, SkipReason, SubmissionPart};
pub use selection::{FilingSelection, FilingSummary, FilterMismatch};
pub use submission::{FullSubmission, is_submission};
