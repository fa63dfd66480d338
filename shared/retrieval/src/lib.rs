//! Full-text and semantic search over published section trees.
//!
//! - [`search`]: the search port: `SearchService::search` takes a `Query` and returns `SearchResults`.
//! - [`query_syntax`]: splits a query into plain text and operators: phrases, `OR`, `-word`, `field:value`.
//! - [`parsed_query`]: parses a query with the help of [`tokenizer`], [`dates`], [`lexicon`], [`statement_pages`] and [`aliases`].
//! - [`figures`]: figures that filings declare, as passages display them and as queries ask for them.
//! - [`index`]: the full-text index (tantivy) and its ranking.
//! - [`embedding`]: embeddings of sections, used to route queries to documents. Off without an embedding endpoint.
//! - [`text_blocks`]: tables and paragraphs; [`query_terms`]: what a text has of a query.
//! - [`snippet`]: snippets and highlight rectangles.
//!
//! No module here calls a chat model. A search with the same query over the same trees returns the same hits.

pub mod alias_file;
pub mod aliases;
pub mod cache;
pub mod dates;
pub mod embedding;
pub mod figures;
pub mod index;
pub mod instructions;
pub mod lexicon;
pub mod page_features;
pub mod parsed_query;
pub mod query_syntax;
pub mod query_terms;
pub mod query_words;
mod question_words;
pub mod references;
pub mod search;
pub mod snippet;
mod stated_names;
pub mod statement_pages;
pub mod text_blocks;
pub mod tokenizer;
pub mod usage;

pub use search::{
    AppliedFilter, DocumentScope, Query, RankingStrategy, SearchError, SearchHit, SearchHitPage,
    SearchNote, SearchResults, SearchService,
};
