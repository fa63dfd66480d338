//! Full-text and semantic search over published section trees.
//!
//! - [`search`]: the search port: `SearchService::search` takes a `Query` and returns `SearchResults`.
//! - [`query_syntax`]: splits a query into plain text and operators: phrases, `OR`, `-word`, `field:value`.
//! - [`parsed_query`]: parses a query with the help of [`lexicon`] and [`aliases`], and of `stemma_reading`, which reads text.
//! - [`index`]: the full-text index (tantivy) and its ranking.
//! - [`embedding`]: embeddings of sections, used to route queries to documents. Off without an embedding endpoint.
//! - [`query_terms`]: what a text has of a query.
//! - [`snippet`]: snippets and highlight rectangles.
//! - [`spend_account`]: what paid calls may cost; [`usage`]: what they did cost.
//!
//! No module here calls a chat model. A search with the same query over the same trees returns the same hits.

pub mod alias_file;
pub mod aliases;
pub mod embedding;
pub mod index;
pub mod instructions;
pub mod lexicon;
pub mod parsed_query;
pub mod query_syntax;
pub mod query_terms;
pub mod query_words;
pub mod references;
pub mod search;
pub mod snippet;
pub mod spend_account;
mod stated_names;
pub mod usage;

pub use search::{
    AppliedFilter, DocumentScope, Query, SearchError, SearchHit, SearchHitPage, SearchNote,
    SearchResults, SearchService,
};
