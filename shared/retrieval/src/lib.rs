//! Full-text and semantic search over published section trees.
//!
//! - [`find`]: the search port: a `Query` goes to a `Finder`, a `Found` comes back.
//! - [`question`]: parses a query with the help of [`words`], [`vocabulary`], [`landmarks`] and [`aliases`].
//! - [`index`]: the full-text index (tantivy) and its ranking.
//! - [`meaning`]: sections as vectors, where an endpoint for embeddings is configured.
//! - [`excerpt`]: snippets and highlight rectangles.
//!
//! No module here calls a language model. A search with the same query over the same trees returns the same hits.

pub mod aliases;
pub mod cache;
pub mod excerpt;
pub mod features;
pub mod find;
pub mod index;
pub mod landmarks;
pub mod meaning;
pub mod paid;
pub mod question;
pub mod vocabulary;
pub mod words;

pub use find::{Chip, FindError, Finder, Found, Hit, Query, Strategy, Within};
