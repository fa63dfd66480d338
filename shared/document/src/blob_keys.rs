//! Blob keys of everything that belongs to a document. All blobs are write-once, except the file of aliases.
//!
//! Numbers are zero-padded, so that byte order is numeric order and the last key is the newest.

use crate::{Collection, Digest, DocId, ParseIdError};

pub fn collection_prefix(collection: &Collection) -> String {
    format!("c/{collection}/")
}

pub fn documents_prefix(collection: &Collection) -> String {
    format!("c/{collection}/d/")
}

/// Prefix of catalog snapshots, which combine change records so that readers fetch fewer blobs.
pub fn catalog_prefix(collection: &Collection) -> String {
    format!("c/{collection}/catalogue/")
}

/// Prefix of index snapshots, which can be rebuilt from the trees.
pub fn index_prefix(collection: &Collection) -> String {
    format!("c/{collection}/index/")
}

pub fn answers_prefix(collection: &Collection) -> String {
    format!("c/{collection}/answers/")
}

pub fn conversations_prefix(collection: &Collection) -> String {
    format!("c/{collection}/conversations/")
}

/// Key of the file of further names of issuers, which the owner of the collection writes.
pub fn aliases_key(collection: &Collection) -> String {
    format!("{}aliases.toml", collection_prefix(collection))
}

/// Prefix of a document without a trailing slash. Its artifacts have keys below `{scope}/a/`.
pub fn document_scope(collection: &Collection, doc: DocId) -> String {
    format!("c/{collection}/d/{doc}")
}

/// Parses the collection from a key or scope.
///
/// # Errors
/// [`ParseIdError`] if the key has none.
pub fn parse_collection(key: &str) -> Result<Collection, ParseIdError> {
    key.strip_prefix("c/")
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default()
        .parse()
}

pub fn originals_prefix(collection: &Collection) -> String {
    format!("c/{collection}/originals/")
}

/// Keys under which the bytes with a digest may be stored. The second one is used while garbage collection is about to
/// remove the object under the first.
pub fn original_keys(collection: &Collection, digest: Digest) -> [String; 2] {
    let prefix = originals_prefix(collection);
    [format!("{prefix}{digest}"), format!("{prefix}{digest}.2")]
}

/// Parses digest and place (0 or 1) from a key made by [`original_keys`].
pub fn parse_original(key: &str) -> Option<(Digest, usize)> {
    let name = key.rsplit('/').next()?;
    match name.strip_suffix(".2") {
        Some(digest) => Some((digest.parse().ok()?, 1)),
        None => Some((name.parse().ok()?, 0)),
    }
}

/// Prefix of marks that no version and no job used an original at some time.
pub fn unused_originals_prefix(collection: &Collection) -> String {
    format!("c/{collection}/originals-unused/")
}

/// Key of the mark that the object `original` was not in use at `at_ms`.
pub fn unused_original_key(collection: &Collection, original: &str, at_ms: u64) -> String {
    let name = original.rsplit('/').next().unwrap_or(original);
    format!("{}{name}~{at_ms:013}", unused_originals_prefix(collection))
}

/// Parses digest, place and time from a key made by [`unused_original_key`].
pub fn parse_unused_original(key: &str) -> Option<(Digest, usize, u64)> {
    let (name, at_ms) = key.rsplit_once('~')?;
    let (digest, place) = parse_original(name)?;
    Some((digest, place, at_ms.parse().ok()?))
}

pub fn versions_prefix(collection: &Collection, doc: DocId) -> String {
    format!("{}/versions/", document_scope(collection, doc))
}

/// Prefix of the structures that persons gave a document, below its [`document_scope`].
pub fn corrections_prefix(scope: &str) -> String {
    format!("{scope}/corrections/")
}

pub fn correction_key(scope: &str, headings: Digest) -> String {
    format!("{}{headings}.json", corrections_prefix(scope))
}

/// Key of the claim of version `seq` (1-based).
pub fn version_key(collection: &Collection, doc: DocId, seq: u64) -> String {
    format!("{}{seq:012}.json", versions_prefix(collection, doc))
}

pub fn trees_prefix(collection: &Collection, doc: DocId) -> String {
    format!("{}/trees/", document_scope(collection, doc))
}

/// Key of the tree or tombstone of version `seq`.
pub fn tree_key(collection: &Collection, doc: DocId, seq: u64) -> String {
    format!("{}{seq:012}.json", trees_prefix(collection, doc))
}

/// Parses the version from a key made by [`version_key`] or [`tree_key`].
pub fn parse_seq(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
}

pub fn changes_prefix(collection: &Collection) -> String {
    format!("c/{collection}/changes/")
}

/// Key of a change record at `at_ms`, ordered by minute, then by time.
pub fn change_key(collection: &Collection, at_ms: u64, random: u64) -> String {
    change_key_in(collection, at_ms / 60_000, at_ms, random)
}

/// Key of a change record in another minute than its time says: records of clocks that are behind join the others.
pub fn change_key_in(collection: &Collection, minute: u64, at_ms: u64, random: u64) -> String {
    format!(
        "{}{at_ms:013}-{random:016x}.json",
        change_minute_prefix(collection, minute)
    )
}

pub fn change_minute_prefix(collection: &Collection, minute: u64) -> String {
    format!("{}{minute:010}/", changes_prefix(collection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn originals_and_their_marks_are_parsed_from_their_keys() {
        let collection = Collection::default();
        let digest = Digest::from_content(b"x");
        for (place, key) in original_keys(&collection, digest).iter().enumerate() {
            assert_eq!(parse_original(key), Some((digest, place)));
            let mark = unused_original_key(&collection, key, 7);
            assert_eq!(parse_unused_original(&mark), Some((digest, place, 7)));
        }
        assert_eq!(parse_original("c/default/originals/x.tmp"), None);
    }

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
