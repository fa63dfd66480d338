//! Catalogue and search over published trees.
//!
//! - [`align`]: which section of one document is which of another, and what became of it.
//! - [`answer`]: questions answered with citations that are checked against page text.
//! - [`cache`]: what was answered or read lately, bounded in bytes and time.
//! - [`catalogue`]: what a collection holds now, from its change records and their snapshots.
//! - [`find`]: the one way to search: a `Query` to a `Finder`, a `Found` back; [`filter`]: typed conditions on documents.
//! - [`follow`]: the same, kept up to date for as long as a server runs.
//! - [`locator`]: the one way a document, section, Item or page is named; what is printed can be pasted back.
//! - [`axes`]: the virtual folders (`/@company/3M/@form/10-K`) and the real ones; [`place`]: the one resolver of paths.
//! - [`index`]: all sections in a full-text index that is kept up to date.
//! - [`meaning`]: the same sections as vectors, where an endpoint for embeddings is configured.
//! - [`items`]: which sections are the Items of a filing.
//! - [`reason`]: what asks a model: strategies that walk trees, under a budget.
//! - [`question`], [`words`], [`vocabulary`], [`landmarks`]: what a question says, and what pages are looked at for.
//!
//! ```
//! use stemma_search::locator::{Fragment, Locator};
//! let locator = Locator::parse("3M_2022_10K#item-1A");
//! assert_eq!(locator.fragment, Some(Fragment::Item { part: None, number: "1A".into() }));
//! ```
//!
//! What it refuses to do: guess between two documents that fit a name, and write anything but snapshots, which say
//! nothing that the change records do not.

pub mod aliases;
pub mod align;
pub mod answer;
pub mod axes;
mod buckets;
pub mod cache;
pub mod catalogue;
mod changes;
pub mod excerpt;
pub mod features;
pub mod filter;
pub mod find;
pub mod follow;
pub mod index;
pub mod items;
mod labels;
pub mod landmarks;
pub mod locator;
pub mod meaning;
mod open;
pub mod place;
pub mod question;
pub mod reason;
pub mod shelf;
mod snapshot;
pub mod vocabulary;
pub mod words;

pub use find::{Chip, FindError, Finder, Found, Hit, Query, Strategy, Within};
pub use open::newest_claim;
