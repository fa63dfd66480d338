//! Where things lie: blob keys of everything that belongs to a document (architecture §5). Nothing mutable exists.
//!
//! Numbers in keys are padded, so that byte order is numeric order and "the last key" is "the newest".

use crate::{Collection, Digest, DocId, ParseIdError};

/// Prefix of a collection: `c/{collection}/`.
pub fn collection_prefix(collection: &Collection) -> String {
    format!("c/{collection}/")
}

/// Prefix of a collection's documents; its children are their ids.
pub fn documents_prefix(collection: &Collection) -> String {
    format!("c/{collection}/d/")
}

/// Prefix of a collection's catalogue snapshots: what its change records come to, so that few need to be read.
pub fn catalog_prefix(collection: &Collection) -> String {
    format!("c/{collection}/catalogue/")
}

/// Prefix of a collection's index snapshots: copies of what can be made again from its trees.
pub fn index_prefix(collection: &Collection) -> String {
    format!("c/{collection}/index/")
}

/// Where a collection keeps the answers that were given, by their ids.
pub fn answers_prefix(collection: &Collection) -> String {
    format!("c/{collection}/answers/")
}

/// Scope of a document: `c/{collection}/d/{doc}`; its artifacts lie under `{scope}/a/`.
pub fn document_scope(collection: &Collection, doc: DocId) -> String {
    format!("c/{collection}/d/{doc}")
}

/// The collection in a key or scope below `c/{collection}/`.
///
/// # Errors
/// [`ParseIdError`] when there is none.
pub fn parse_collection(key: &str) -> Result<Collection, ParseIdError> {
    key.strip_prefix("c/")
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default()
        .parse()
}

/// Prefix of the originals that submissions put into the store.
pub fn originals_prefix(collection: &Collection) -> String {
    format!("c/{collection}/originals/")
}

/// The original with this digest.
pub fn original_key(collection: &Collection, digest: Digest) -> String {
    format!("{}{digest}", originals_prefix(collection))
}

/// Prefix of a document's claimed versions.
pub fn versions_prefix(collection: &Collection, doc: DocId) -> String {
    format!("{}/versions/", document_scope(collection, doc))
}

/// The claim of version `seq` (from 1).
pub fn version_key(collection: &Collection, doc: DocId, seq: u64) -> String {
    format!("{}{seq:012}.json", versions_prefix(collection, doc))
}

/// Prefix of a document's trees.
pub fn trees_prefix(collection: &Collection, doc: DocId) -> String {
    format!("{}/trees/", document_scope(collection, doc))
}

/// The tree (or tombstone) of version `seq`.
pub fn tree_key(collection: &Collection, doc: DocId, seq: u64) -> String {
    format!("{}{seq:012}.json", trees_prefix(collection, doc))
}

/// The version number in a key made by [`version_key`] or [`tree_key`].
pub fn parse_seq(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
}

/// Prefix of a collection's change records.
pub fn changes_prefix(collection: &Collection) -> String {
    format!("c/{collection}/changes/")
}

/// A change record: by minute, then by time and a random number. Two assemblers' clocks may differ by seconds, so a
/// reader that tails changes goes back a little.
pub fn change_key(collection: &Collection, at_ms: u64, random: u64) -> String {
    format!(
        "{}{:010}/{at_ms:013}-{random:016x}.json",
        changes_prefix(collection),
        at_ms / 60_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_version() {
        let collection = Collection::default();
        let doc = DocId::new(&Collection::default(), "file:///a");
        assert!(version_key(&collection, doc, 9) < version_key(&collection, doc, 10));
        assert_eq!(parse_seq(&tree_key(&collection, doc, 42)), Some(42));
        assert_eq!(parse_seq("c/x/d/y/trees/"), None);
        assert_eq!(
            parse_collection(&document_scope(&collection, doc)).unwrap(),
            collection
        );
        assert!(parse_collection("jobs/x").is_err());
        assert!(change_key(&collection, 59_999, u64::MAX) < change_key(&collection, 60_000, 0));
    }
}
