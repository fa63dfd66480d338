//! Which documents a collection holds, and how they are named, filtered and listed.
//!
//! - [`catalog`]: what a collection holds now, built from change records and their snapshots; [`watcher`] keeps it current.
//! - [`locator`]: names of documents, sections, Items and pages; what is printed can be pasted back.
//! - [`facets`]: facets as virtual folders (`/@company/3M/@form/10-K`), and the real folders; [`path`] resolves paths.
//! - [`filter`]: typed conditions on documents.
//! - [`items`]: which sections are the Items of a filing.
//! - [`document_store`]: the port through which trees and texts are read.
//!
//! ```
//! use stemma_catalog::locator::{Fragment, Locator};
//! let locator = Locator::parse("3M_2022_10K#item-1A");
//! assert_eq!(locator.fragment, Some(Fragment::Item { part: None, number: "1A".into() }));
//! ```
//!
//! This crate never guesses between two documents that fit a name. It writes nothing but snapshots, which hold nothing
//! that the change records do not.

pub mod catalog;
mod change_log;
mod display_names;
pub mod document_store;
mod facet_buckets;
pub mod facets;
pub mod filter;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
pub mod items;
pub mod locator;
pub mod path;
mod pending;
mod snapshot;
pub mod watcher;

pub use pending::newest_claim;
