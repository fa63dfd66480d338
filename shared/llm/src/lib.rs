//! What stands between Stemma and language models.
//!
//! Counting tokens: everything that cuts, packs or budgets text needs the same count on every machine, without a
//! network and without a model, so the count is always in the o200k vocabulary, whichever model answers. For models
//! with another vocabulary it is an estimate; what a provider charged is in its reply.
//!
//! ```
//! assert_eq!(stemma_llm::tokens::count("Item 7. Management's Discussion"), 7);
//! ```
//!
//! What it refuses to do: know what a document is, read environment variables (I-7), or fetch a vocabulary at run time.

pub mod tokens;
