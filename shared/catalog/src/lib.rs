//! The catalog of a collection: which documents it holds, and how they are named, filtered and listed.
//!
//! - [`catalog`]: the current documents, built from change records and snapshots; [`watcher`] keeps a catalog current.
//! - [`locator`]: names of documents, sections, Items and pages. Every printed locator parses back.
//! - [`property`]: the properties of documents, which facets, filters and orders follow from.
//! - [`facets`]: virtual folders (`/@company/3M/@form/10-K`) next to the ingested ones; [`path`] resolves paths.
//! - [`filter`]: typed conditions on documents.
//! - [`items`]: maps Items of a filing to sections.
//! - [`document_store`]: the port that reads trees and texts.
//!
//! ```
//! use stemma_catalog::locator::{Fragment, Locator};
//! let locator = Locator::parse("3M_2022_10K#item-1A");
//! assert_eq!(locator.fragment, Some(Fragment::Item { part: None, number: "1A".into() }));
//! ```
//!
//! A name that fits two documents is an error, never a guess. The crate writes nothing but snapshots and stored catalogs,
//! which can be deleted at any time: they are rebuilt from the change records.

pub mod catalog;
mod change_log;
pub mod compaction;
mod display_names;
mod document;
mod document_changes;
mod document_names;
pub mod document_order;
mod document_set;
pub mod document_store;
mod document_words;
mod facet_buckets;
mod facet_sets;
pub mod facets;
pub mod filter;
mod filter_sets;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
pub mod items;
mod labels;
mod listing_words;
pub mod locator;
#[cfg(test)]
mod model_tests;
pub mod path;
pub mod property;
pub mod short_path;
mod similar_labels;
mod snapshot;
mod started_runs;
mod state_walk;
mod store;
pub mod watcher;

pub use state_walk::newest_claim;
