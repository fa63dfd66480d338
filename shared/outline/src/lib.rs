//! Pure rules that find the sections of a document, enrich them and match the Items of a form.
//!
//! - [`structure`]: finds the sections of a `Source` and nests them.
//! - [`enrich`]: adds tokens, summaries, facts, a description and references.
//! - [`items`]: matches the Items of a form to sections.
//!
//! Nothing here is asynchronous, reads a file or calls a model: the same source gives the same tree.

pub mod enrich;
pub mod items;
pub mod structure;
