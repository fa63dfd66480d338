//! The read side: everything that is answered from published trees, as a library for the command line and for servers.
//!
//! A [`Archive`] opens a collection; its methods answer with plain structs that serialize to the documented JSON
//! (snake_case, both page numbers where they differ, ids, locators that can be pasted back). It reads blobs and nothing
//! else: no queue, no ledger, and never the ingestion path.
//!
//! What it refuses to do: guess. A name that fits two documents, an Item that is there twice, a page past the end: each
//! is a [`ApiError`] that says what to ask for instead.

mod answer_service;
mod archive;
mod collection_cache;
mod compare;
mod documents;
mod error;
pub mod eval;
mod export;
mod files;
mod grep;
mod items;
mod list;
pub mod mcp;
mod read;
mod search;
mod searcher;
pub mod server;
mod status;
#[cfg(test)]
mod tests;
mod tree;
mod tree_search;

pub use answer_service::{AnswerService, AnswerSettings};
pub use archive::Archive;
pub use collection_cache::CollectionCache;
pub use compare::{
    ChangedSentence, CompareRequest, ComparedSide, Comparison, ItemTextChurn, MAX_SENTENCES,
    OutcomeCounts, PairedSection, RewordedSentence, SectionPair, TextChurn,
};
pub use documents::{DocumentInfo, FailureInfo, PageContent, SectionInfo};
pub use error::{ApiError, is_store_error};
pub use export::{ExportFormat, ExportedFile};
pub use files::{FileEntry, FileEntryKind, FileListing, FilesOptions};
pub use grep::{GrepHit, GrepOptions, GrepResponse, GrepSection, GrepSectionsResponse, MAX_HITS};
pub use items::{FilingItems, ItemContent, ItemInfo};
pub use list::{FacetEntry, FolderEntry, FolderListing};
pub use read::{SectionDetails, StatResponse, TextResponse, TextScope};
pub use search::{
    BrowseHit, BrowseResponse, HitCount, SearchHit, SearchHitPage, SearchRequest, SearchResponse,
    SearchSnippet,
};
pub use status::{FailureReport, FailureRow, ReasonRow, StateExplanation};
pub use stemma_catalog::filter::Filter;
pub use tree::{TreeResponse, TreeRow};
pub use tree_search::{TreeSearchOptions, TreeSearchReport, TreeSearchStep, VisitedSection};

/// The document part of a locator: `3M_2022_10K` of `3M_2022_10K#item-1A`.
pub fn document_part(locator: &str) -> String {
    stemma_catalog::locator::Locator::parse(locator).document
}
