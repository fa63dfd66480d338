//! Superseded trees and texts of a document, and everything of a removed one.

use std::collections::BTreeSet;

use stemma_document::{Collection, DocId, PublishedTree, TreeObject, blob_keys};
use stemma_engine::PortResult;
use stemma_engine::blobs::{Blobs, list_all};
use stemma_engine::env::Millis;

use super::{DocumentHistory, GarbageObject, MAX_CONCURRENT_DELETES, delete_all, is_past_grace};

// Trees that each document keeps.
const RETAINED_TREES: usize = 2;

/// What a document does not need, as long as nobody claims a further version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentGarbage {
    pub doc: DocId,
    /// The newest claim when the garbage was found.
    pub claimed: u64,
    pub objects: Vec<GarbageObject>,
}

impl DocumentGarbage {
    /// Deletes the objects, unless the document was claimed again: the run of that claim may have taken over what is there.
    /// Looks before every few deletions. Returns what it deleted.
    ///
    /// # Errors
    /// [`stemma_engine::PortError`] when the store is unavailable.
    pub async fn remove(
        &self,
        blobs: &dyn Blobs,
        collection: &Collection,
    ) -> PortResult<&[GarbageObject]> {
        let versions = blob_keys::versions_prefix(collection, self.doc);
        let claimed = blob_keys::version_key(collection, self.doc, self.claimed);
        let mut deleted = 0;
        for objects in self.objects.chunks(MAX_CONCURRENT_DELETES) {
            let newer = blobs.list(&versions, Some(&claimed), 1).await?;
            if !newer.is_empty() {
                break;
            }
            delete_all(blobs, objects).await?;
            deleted += objects.len();
        }
        Ok(&self.objects[..deleted])
    }
}

/// Finds the garbage of a document. One with few versions costs no request.
pub(super) async fn find(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    history: DocumentHistory,
    now_ms: Millis,
) -> PortResult<Option<DocumentGarbage>> {
    let Some((last, (last_ms, removed))) =
        history.last_key_value().map(|(seq, last)| (*seq, *last))
    else {
        return Ok(None);
    };
    if !removed && last <= RETAINED_TREES as u64 {
        return Ok(None);
    }
    let claims = list_all(blobs, &blob_keys::versions_prefix(collection, doc)).await?;
    let claimed = claims
        .last()
        .and_then(|key| blob_keys::parse_seq(key))
        .unwrap_or(0);
    if claimed > last {
        return Ok(None); // an open or failed version may still need any object
    }
    let objects = if !removed {
        superseded(blobs, collection, doc, history, now_ms).await?
    } else if is_past_grace(last_ms, now_ms) {
        removed_document_garbage(blobs, collection, doc, last).await?
    } else {
        Vec::new()
    };
    Ok((!objects.is_empty()).then_some(DocumentGarbage {
        doc,
        claimed,
        objects,
    }))
}

async fn superseded(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    mut history: DocumentHistory,
    now_ms: Millis,
) -> PortResult<Vec<GarbageObject>> {
    let existing = list_all(blobs, &blob_keys::trees_prefix(collection, doc)).await?;
    // Trees without a record were published before the grace period: snapshots of the catalog replace only such records.
    for seq in existing.iter().filter_map(|key| blob_keys::parse_seq(key)) {
        history.entry(seq).or_insert((0, false));
    }
    // A tree became superfluous when the second newer tree was published.
    let seqs: Vec<u64> = history.keys().copied().collect();
    let scope = blob_keys::document_scope(collection, doc);
    // The objects that a tree refers to: its text and its correction.
    let mut retained = BTreeSet::new();
    let mut superseded_trees = Vec::new();
    for (n, seq) in seqs.iter().enumerate() {
        let key = blob_keys::tree_key(collection, doc, *seq);
        if existing.binary_search(&key).is_err() {
            continue; // removed before
        }
        let Some(json) = blobs.get(&key).await? else {
            continue;
        };
        let objects = match serde_json::from_slice::<TreeObject>(&json) {
            Ok(TreeObject::Published(tree)) => referred_objects(&scope, &tree),
            Ok(TreeObject::Removed) => Vec::new(),
            Err(_) => return Ok(Vec::new()), // an unreadable tree: delete nothing
        };
        let is_superseded = seqs
            .get(n + RETAINED_TREES)
            .is_some_and(|newer| is_past_grace(history[newer].0, now_ms));
        if is_superseded {
            superseded_trees.push((key, objects));
        } else {
            retained.extend(objects.into_iter().map(|object| object.key));
        }
    }
    let mut garbage = BTreeSet::new();
    for (key, objects) in superseded_trees {
        garbage.insert(GarbageObject {
            key,
            reason: "superseded tree",
        });
        let superseded = objects.into_iter();
        garbage.extend(superseded.filter(|object| !retained.contains(&object.key)));
    }
    Ok(garbage.into_iter().collect())
}

// The objects that become superfluous with the last tree that refers to them.
fn referred_objects(scope: &str, published: &PublishedTree) -> Vec<GarbageObject> {
    let text = &published.text_artifact;
    let text = (!text.is_empty()).then(|| GarbageObject {
        key: format!("{scope}/a/{text}"),
        reason: "superseded text",
    });
    let correction = published.version.correction.as_deref();
    let correction = correction.map(|correction| GarbageObject {
        key: blob_keys::correction_key(scope, correction.headings),
        reason: "superseded correction",
    });
    text.into_iter().chain(correction).collect()
}

// All objects of a removed document except its claims and the tombstone: they show that it existed, and where
// version numbers continue.
async fn removed_document_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    tombstone: u64,
) -> PortResult<Vec<GarbageObject>> {
    let scope = blob_keys::document_scope(collection, doc);
    let artifacts = list_all(blobs, &format!("{scope}/a/")).await?;
    let corrections = list_all(blobs, &blob_keys::corrections_prefix(&scope)).await?;
    let trees = list_all(blobs, &blob_keys::trees_prefix(collection, doc)).await?;
    let trees = trees
        .into_iter()
        .filter(|key| blob_keys::parse_seq(key).is_some_and(|seq| seq < tombstone));
    Ok(artifacts
        .into_iter()
        .chain(corrections)
        .chain(trees)
        .map(|key| GarbageObject {
            key,
            reason: "removed document",
        })
        .collect())
}
