//! Tables of a stored catalog.
//!
//! Documents have dense numbers, so that a set of documents is a bitmap. A number is given once and stays with the document.

use std::sync::atomic::{AtomicU64, Ordering};

use redb::{ReadOnlyTable, TableDefinition};
use stemma_store::PortError;

use crate::property::Property;

// Changed with any change of tables, terms or stored documents.
const REVISION: u32 = 6;

/// A store of another format is built anew.
pub(super) fn format() -> u32 {
    REVISION ^ Property::revision()
}

/// Operation of errors that only a new store mends.
pub(crate) const DAMAGED: &str = "catalog.damaged";

pub(super) const STATE: &str = "state";
pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
/// Id of a document, listed or removed: its number.
pub(super) const NUMBERS: TableDefinition<'_, u128, u32> = TableDefinition::new("numbers");
/// Number of a listed document: id, version of its tree (0 without one) and path.
pub(super) const LISTED: TableDefinition<'_, u32, ListedRow> = TableDefinition::new("listed");
/// Number: the latest change, and the packed document.
pub(super) const RECORDS: TableDefinition<'_, u32, RecordRow> = TableDefinition::new("records");
/// Path and id of a listed document: its number.
pub(super) const PATHS: TableDefinition<'_, PathKey, u32> = TableDefinition::new("paths");
/// Numbers by 256: the paths of these documents in lower case (`path_block.rs`).
pub(super) const PATH_BLOCKS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("path-blocks");
/// Kind of name, name and id of a listed document: its number.
pub(super) const NAMES: TableDefinition<'_, NameKey, u32> = TableDefinition::new("names");
/// Field, normalized value, spelling and part (`posting.rs`): a set of numbers.
pub(super) const POSTINGS: TableDefinition<'_, PostingKey, &[u8]> =
    TableDefinition::new("postings");
/// The latest change of each document, by number of the change.
pub(super) const CHANGED: TableDefinition<'_, u64, u128> = TableDefinition::new("changed");
/// Time of the claim and id of a document whose run has not begun as far as known: the claimed version.
pub(super) const QUEUED: TableDefinition<'_, (u64, u128), u64> = TableDefinition::new("queued");
/// Change records that are applied, from the floor on.
pub(super) const SEEN: TableDefinition<'_, &str, ()> = TableDefinition::new("seen");

pub(super) type ListedRow = (u128, u64, &'static str);
pub(super) type RecordRow = (u64, &'static [u8]);
pub(super) type PathKey = (&'static str, u128);
pub(super) type NameKey = (u8, &'static str, u128);
pub(super) type PostingKey = (u8, &'static str, &'static str, u16);

pub(super) type Postings = ReadOnlyTable<PostingKey, &'static [u8]>;

static DAMAGE_REPORTS: AtomicU64 = AtomicU64::new(0);

/// How often a store was found to be damaged in this process.
pub(crate) fn damage_reports() -> u64 {
    DAMAGE_REPORTS.load(Ordering::Relaxed)
}

/// What a failed call of the store says. A damaged store is built anew; anything else may pass.
pub(super) fn port_error(error: impl Into<redb::Error>) -> PortError {
    match error.into() {
        redb::Error::Corrupted(message) => damaged(message),
        error => PortError::transient("catalog.store", error.to_string()),
    }
}

pub(crate) fn damaged(error: impl std::fmt::Display) -> PortError {
    DAMAGE_REPORTS.fetch_add(1, Ordering::Relaxed);
    PortError::permanent(DAMAGED, error.to_string())
}
