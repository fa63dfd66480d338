//! The read side: everything that is answered from published trees, as a library for the command line and for servers.
//!
//! A [`Reader`] opens a collection; its methods answer with plain structs that serialize to the documented JSON
//! (snake_case, both page numbers where they differ, ids, locators that can be pasted back). It reads blobs and nothing
//! else: no queue, no ledger, and never the ingestion path.
//!
//! What it refuses to do: guess. A name that fits two documents, an Item that is there twice, a page past the end: each
//! is a [`Refusal`] that says what to ask for instead.

mod answering;
mod compare;
mod documents;
pub mod eval;
mod export;
mod files;
mod find;
mod found;
mod grep;
mod index;
mod items;
mod list;
pub mod mcp;
mod read;
mod reader;
mod reasoned;
mod refusal;
pub mod server;
mod status;
#[cfg(test)]
mod tests;
mod tree;

pub use answering::{AnswerSettings, Librarians};
pub use compare::{
    ChurnView, ComparedView, ComparisonView, CountsView, ItemChurnView, MAX_SENTENCES, PairView,
    RewordedView, SentenceView, SideView, Sides,
};
pub use documents::{DocumentView, FailureView, PageView, SectionView};
pub use export::{ExportFormat, Exported};
pub use files::{EntryKind, EntryView, FilesOptions, FilesView};
pub use found::{
    BrowseHit, BrowseView, ExcerptView, FoundHit, FoundPage, FoundView, Question, TotalView,
};
pub use grep::{GrepHit, GrepOptions, GrepSection, GrepSectionsView, GrepView, MAX_HITS};
pub use index::Kept;
pub use items::{ContentView, ItemView, ItemsView};
pub use list::{AxisView, FolderView, ListView};
pub use read::{Part, SectionStat, StatView, TextView};
pub use reader::Reader;
pub use reasoned::{LookedAtView, Reasoned, ReasoningView, StepView};
pub use refusal::{Refusal, is_of_store};
pub use status::{FailureRow, FailuresView, ReasonRow, WhyView};
pub use stemma_catalog::filter::Filter;
pub use tree::{TreeRow, TreeView};

/// The document part of a locator: `3M_2022_10K` of `3M_2022_10K#item-1A`.
pub fn document_part(locator: &str) -> String {
    stemma_catalog::locator::Locator::parse(locator).document
}
