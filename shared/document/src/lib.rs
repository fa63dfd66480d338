//! The values every part of Stemma speaks in, and nothing else: no IO, no clock, no async.
//!
//! A document comes in as bytes and becomes a [`Source`] (pages with positioned lines, or numbered text lines). Structure
//! work turns it through [`DraftEntry`] → [`LocatedEntry`] + [`EntryVerdict`] → [`VerifiedOutline`] into a [`SectionTree`];
//! only a [`VerifiedOutline`] can become a tree, so an unverified tree does not compile. What readers list and filter by
//! is the [`CatalogEntry`].
//!
//! ```
//! use stemma_document::{Collection, DocId, PageSpan};
//! let collection: Collection = "default".parse().unwrap();
//! let doc = DocId::of(&collection, "file:///archive/3M_2022_10K.pdf");
//! assert_eq!(doc.to_string().len(), 32);
//! assert_eq!(PageSpan::new(3, 5).unwrap().len(), 3);
//! ```
//!
//! What it refuses to do: guess. A page number is 1-based and physical ([`PageNo`]); what is printed on the page is a
//! [`PageLabel`] and never used as an index.

mod assemble;
pub mod blob_keys;
mod build;
mod catalog;
pub mod english_words;
mod facts;
pub mod furniture;
mod geometry;
mod ids;
mod items;
mod outline;
mod page;
pub mod pageindex;
mod source;
pub mod text;
pub mod time_format;
mod tree;

pub use catalog::{
    CatalogEntry, Change, ChangeKind, DocumentVersion, Origin, PublishedTree, TreeObject,
};
pub use facts::{Fact, FactSource, FilingFacts, Ticker};
pub use geometry::{Pt, Rect};
pub use ids::{Collection, Digest, DocId, ParseIdError, SectionId};
pub use items::{
    Boundary, BoundaryEvidence, EmptyReason, FilingItem, ItemLink, ItemStatus, ItemTarget,
};
pub use outline::{
    DraftEntry, EntryVerdict, EvidenceSource, LocatedEntry, OutlineError, SectionStart,
    VerifiedEntry, VerifiedOutline,
};
pub use page::{PageLabel, PageNo, PageSpan, Position};
pub use source::{
    Defect, Destination, Extent, Heading, Line, LineRole, Link, OutlineItem, Page, Source,
    SourceBody, SourceFormat, StyleRun, TextLines, Word,
};
pub use tree::{
    Gap, Method, ModelAnswers, Provenance, Reference, ReferenceTarget, Section, SectionKind,
    SectionSpan, SectionTree, Summary,
};
