//! Data types shared by all parts of Stemma: documents, outlines, section trees, facts, ids. No I/O, no clock, no
//! async.
//!
//! Bytes become a [`Source`] (pages with positioned lines, or numbered text lines). The structure stages turn it
//! through [`DraftEntry`], [`LocatedEntry`] and [`EntryVerdict`] into a [`VerifiedOutline`], the only type that a
//! [`SectionTree`] can be built from. An unverified tree therefore does not compile. Listings and filters use the
//! [`CatalogEntry`].
//!
//! ```
//! use stemma_document::{Collection, DocId, PageSpan};
//! let collection: Collection = "default".parse().unwrap();
//! let doc = DocId::new(&collection, "file:///archive/3M_2022_10K.pdf");
//! assert_eq!(doc.to_string().len(), 32);
//! assert_eq!(PageSpan::new(3, 5).unwrap().len(), 3);
//! ```
//!
//! Page numbers are physical and 1-based ([`PageNo`]). The number printed on a page is a [`PageLabel`], which is never
//! used as an index.

mod assemble;
pub mod blob_keys;
mod build;
mod catalog;
mod doubt;
pub mod english_words;
mod fact;
mod facts;
pub mod figures;
pub mod furniture;
mod geometry;
mod grid;
mod hidden;
mod ids;
mod items;
pub mod note_marks;
mod outline;
pub mod packed;
mod page;
mod page_origin;
pub mod pageindex;
mod right_to_left;
pub mod roman_numerals;
pub mod rounding;
mod source;
mod subsequence;
pub mod text;
pub mod time_format;
mod tree;

pub use assemble::MAX_LEVELS;
pub use catalog::{
    CatalogEntry, Change, ChangeKind, CompanionFile, CorrectionRef, DocumentVersion, Origin,
    PublishedTree, TreeObject,
};
pub use doubt::{Doubt, DoubtCode, DoubtReason};
pub use fact::{Fact, FactFields, FactSource};
pub use facts::{CoRegistrant, FactDefinition, FactTag, FilingFacts, Ticker};
pub use geometry::{Pt, Rect, Turn};
pub use grid::{GridCell, GridLine};
pub use hidden::{HiddenReason, HiddenText};
pub use ids::{Collection, Digest, DocId, ParseIdError, SectionId};
pub use items::{Boundary, BoundaryEvidence, FilingItem, ItemLink, ItemStatus, ItemTarget};
pub use outline::{
    DraftEntry, EntryVerdict, EvidenceSource, LocatedEntry, OutlineError, SectionStart,
    VerifiedEntry, VerifiedOutline,
};
pub use page::{PageLabel, PageNo, PageSpan, Position};
pub use page_origin::{DisputedWord, PageOrigin, Recognition, WordReading};
pub use right_to_left::runs_left;
pub use source::{
    ByteSpan, Defect, Destination, Emphasis, Extent, Heading, Line, LineRole, Link, OutlineItem,
    Page, Source, SourceBody, SourceFormat, StyleRun, TextLines, Word, name_extensions,
};
pub use subsequence::common_subsequence_len;
pub use tree::{
    Gap, Method, ModelAnswers, Provenance, RecognizedPage, Reference, ReferenceTarget, Section,
    SectionKind, SectionSpan, SectionTree, Summary,
};
