//! Which documents a collection holds, and how they are named, filtered and listed.
//!
//! - [`catalogue`]: what a collection holds now, built from change records and their snapshots; [`follow`] keeps it current.
//! - [`locator`]: names of documents, sections, Items and pages; what is printed can be pasted back.
//! - [`axes`]: facets as virtual folders (`/@company/3M/@form/10-K`), and the real folders; [`place`] resolves paths.
//! - [`filter`]: typed conditions on documents.
//! - [`items`]: which sections are the Items of a filing.
//! - [`shelf`]: the port through which trees and texts are read.
//!
//! ```
//! use stemma_catalog::locator::{Fragment, Locator};
//! let locator = Locator::parse("3M_2022_10K#item-1A");
//! assert_eq!(locator.fragment, Some(Fragment::Item { part: None, number: "1A".into() }));
//! ```
//!
//! This crate never guesses between two documents that fit a name. It writes nothing but snapshots, which hold nothing
//! that the change records do not.

pub mod axes;
mod buckets;
pub mod catalogue;
mod changes;
pub mod filter;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
pub mod follow;
pub mod items;
mod labels;
pub mod locator;
mod open;
pub mod place;
pub mod shelf;
mod snapshot;

pub use open::newest_claim;
