//! The read facade: one request, response and error type per operation, for all surfaces.
//!
//! An [`Archive`] is a collection opened for reading at one state of its catalog. Requests such as [`SearchRequest`] are the JSON
//! of the HTTP routes. The archive resolves the names in them (scopes, filters, strategies, cursors), and nothing else
//! does. Responses serialize to the documented JSON. [`AnswerService`] answers questions with a model.
//! [`collections::Collections`] keeps archives current while a server runs.
//!
//! This crate reads blobs and nothing else: no queue, no ledger. It never guesses: a name that fits two documents, an Item
//! that occurs twice or a page past the end is an [`ApiError`] that says what to ask for instead.

mod agent_tools;
mod alias_names;
pub mod answer_service;
pub mod archive;
mod ask;
mod browse;
mod collection_cache;
pub mod collections;
mod compare;
mod conversations;
pub mod cursor;
mod document_store;
pub mod documents;
mod error;
mod explain;
mod export;
mod facet_counts;
mod facts;
mod files;
pub mod grep;
mod index_disk;
mod index_state;
pub mod items;
mod line_pattern;
mod list;
mod page_images;
mod page_reading;
mod page_words;
pub mod pageindex_fields;
mod read;
mod read_request;
mod rectangles;
mod request;
mod search;
mod status;
mod tables;
#[cfg(test)]
mod tests;
pub mod tree;
mod tree_search;
mod vision;

pub use agent_tools::AgentTools;
pub use answer_service::{AnswerService, AnswerSettings, AnswererFactory};
pub use archive::Archive;
pub use ask::AnswerRequest;
pub use browse::{BrowseHit, BrowseRequest, BrowseResponse};
pub use collection_cache::CollectionCache;
pub use compare::{
    ChangedSentence, CompareRequest, ComparedSide, Comparison, DocumentTrees, ItemTextChurn,
    MAX_SENTENCES, OutcomeCounts, PairedSection, RewordedSentence, SectionChange, SectionPair,
    TextChurn, TreeChangeCounts, TreeComparison, TreePlace, TreeVersion,
};
pub use conversations::{
    AnswerReply, AnsweredTurn, ConversationDetails, ConversationList, ConversationSummary,
    Conversations, NEW_CONVERSATION, TurnState,
};
pub use documents::{
    DisputedFigure, DocumentInfo, FailureInfo, PageContent, PageRecognition, SectionInfo,
    SectionRecognition,
};
pub use error::{ApiError, is_store_error, shell_quoted};
pub use explain::PageHeadings;
pub use export::{ExportFormat, ExportedFile};
pub use facet_counts::{Facet, FacetList, FacetValue, SearchFacets};
pub use facts::{
    CellPosition, EntitySeries, FactDimension, FactInfo, FactList, FactsRequest, ReportedValue,
    SeriesPoint, SeriesRequest, SeriesResponse,
};
pub use files::{FileEntry, FileEntryKind, FileListing, FilesOptions};
pub use grep::{GrepHit, GrepOptions, GrepResponse, GrepSection, GrepSectionsResponse, MAX_HITS};
pub use index_state::IndexState;
pub use items::{FilingItems, ItemContent, ItemInfo};
pub use list::{DocumentList, FacetEntry, FolderContents, FolderEntry, FolderListing, ListRequest};
pub use page_images::{PageImages, SourceFiles};
pub use page_reading::{LineMention, PageReading, PlacedCell, PlacedSpan, ReadLine};
pub use page_words::{PageWord, PageWords, StoredPage, WordLine};
pub use read::{HiddenTextResponse, SectionDetails, StatResponse, TextResponse, TextScope};
pub use read_request::{ReadRequest, RequestedPages};
pub use request::MAX_LIMIT;
pub use search::{SearchRequest, SearchResponse};
pub use status::{FailureReport, FailureRow, ReasonRow, StateExplanation};
pub use stemma_answers::tree_search::{TreeSearchReport, TreeSearchStep, VisitedSection};
pub use stemma_extract::{ImageRequest, PageRegion};
pub use stemma_outline::structure::{
    HeadingDecision, HeadingFeatures, HeadingReport, StructureSettings,
};
pub use stemma_retrieval::index::local_index::IndexSettings;
pub use stemma_retrieval::{SearchHit, SearchHitPage, SearchNote};
pub use tables::{DocumentTables, TableContent, TableInfo};
pub use tree::{TreeRequest, TreeResponse, TreeRow};
pub use vision::{DescribedPage, Vision};

/// The document part of a locator: `3M_2022_10K` of `3M_2022_10K#item-1A`.
pub fn document_part(locator: &str) -> String {
    stemma_catalog::locator::Locator::parse(locator).document
}
