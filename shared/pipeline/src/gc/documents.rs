//! Superseded trees, texts, artifacts and claims of a document, and everything of a removed one.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{Collection, DocId, PublishedTree, TreeObject, blob_keys};
use stemma_engine::settings::SettingsCache;
use stemma_store::PortResult;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::env::Millis;

use super::artifacts::{RetainedVersions, SUPERSEDED_ARTIFACT, find_unused};
use super::history::{DocumentHistory, Horizon};
use super::{GRACE_MS, GarbageObject, MAX_CONCURRENT_DELETES, delete_all, is_past_grace};
use crate::FilingFlow;

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
    /// Looks before every few deletions. Artifacts go first, because they are looked for when a tree or claim is superseded.
    /// Returns what it deleted.
    pub async fn remove(
        &self,
        blobs: &dyn Blobs,
        collection: &Collection,
    ) -> PortResult<&[GarbageObject]> {
        let versions = blob_keys::versions_prefix(collection, self.doc);
        let claimed = blob_keys::version_key(collection, self.doc, self.claimed);
        let mut deleted = 0;
        let kinds = self
            .objects
            .chunk_by(|a, b| is_artifact(a) == is_artifact(b));
        for objects in kinds.flat_map(|kind| kind.chunks(MAX_CONCURRENT_DELETES)) {
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

fn is_artifact(object: &GarbageObject) -> bool {
    object.reason == SUPERSEDED_ARTIFACT
}

/// What all documents of a collection are judged by.
#[derive(Clone, Copy)]
pub(super) struct DocumentSearch<'a> {
    pub(super) blobs: &'a dyn Blobs,
    pub(super) collection: &'a Collection,
    pub(super) settings: &'a SettingsCache<FilingFlow>,
    pub(super) horizon: Horizon,
    pub(super) now_ms: Millis,
}

impl DocumentSearch<'_> {
    /// Finds the garbage of a document. One with few versions costs no request.
    pub(super) async fn find(
        self,
        doc: DocId,
        history: DocumentHistory,
    ) -> PortResult<Option<DocumentGarbage>> {
        let Self {
            blobs, collection, ..
        } = self;
        let last = history.last_tree();
        let is_removed = last.is_some_and(|(_, _, is_removed)| is_removed);
        if !is_removed && history.newest() <= RETAINED_TREES as u64 {
            return Ok(None);
        }
        let claims = list_all(blobs, &blob_keys::versions_prefix(collection, doc)).await?;
        let newest_claim = claims.last().and_then(|key| blob_keys::parse_seq(key));
        let claimed = newest_claim.unwrap_or(0);
        let trees = list_all(blobs, &blob_keys::trees_prefix(collection, doc)).await?;
        let mut garbage = match last {
            Some((seq, at_ms, is_removed)) if claimed <= seq => match is_removed {
                false => self.superseded(doc, &trees, &history).await?,
                true if is_past_grace(at_ms, self.now_ms) => {
                    self.removed_document_garbage(doc, &trees, seq).await?
                }
                true => BTreeSet::new(),
            },
            // An open or failed version may still need any object, except the claims of others.
            _ => BTreeSet::new(),
        };
        garbage.extend(self.settled_claims(doc, &claims, &trees, &garbage, &history));
        let mut objects = Vec::new();
        if !garbage.is_empty() && !is_removed {
            let retained = RetainedVersions {
                claims: remaining(&claims, &garbage),
                trees: remaining(&trees, &garbage),
                history: &history,
            };
            objects = find_unused(self, doc, &retained).await?;
            // A text is an artifact that a tree names.
            let named: BTreeSet<&str> = garbage.iter().map(|object| object.key.as_str()).collect();
            objects.retain(|object| !named.contains(object.key.as_str()));
        }
        objects.extend(garbage);
        Ok((!objects.is_empty()).then_some(DocumentGarbage {
            doc,
            claimed,
            objects,
        }))
    }

    // Claims that no run reads any more, and whose trees are gone or go now. The two newest stay: the newest says what is
    // known of the document, and the one before replaces it if it was torn.
    fn settled_claims(
        self,
        doc: DocId,
        claims: &[String],
        trees: &[String],
        garbage: &BTreeSet<GarbageObject>,
        history: &DocumentHistory,
    ) -> Vec<GarbageObject> {
        let going: BTreeSet<&str> = garbage.iter().map(|object| object.key.as_str()).collect();
        let settled = claims.iter().filter(|key| {
            blob_keys::parse_seq(key).is_some_and(|seq| {
                let tree = blob_keys::tree_key(self.collection, doc, seq);
                let has_tree = trees.binary_search(&tree).is_ok() && !going.contains(tree.as_str());
                history.is_settled(seq, self.horizon) && !has_tree
            })
        });
        settled
            .map(|key| GarbageObject::new(key.clone(), "superseded claim"))
            .collect()
    }

    async fn superseded(
        self,
        doc: DocId,
        existing: &[String],
        history: &DocumentHistory,
    ) -> PortResult<BTreeSet<GarbageObject>> {
        let mut written_ms: BTreeMap<u64, Millis> = history.trees_after(0).collect();
        // Trees without a record were published before the grace period: snapshots of the catalog replace only such records.
        let unrecorded_ms = self.now_ms.saturating_sub(GRACE_MS + 1);
        for seq in existing.iter().filter_map(|key| blob_keys::parse_seq(key)) {
            written_ms.entry(seq).or_insert(unrecorded_ms);
        }
        // A tree is no longer needed once two newer trees are published.
        let seqs: Vec<u64> = written_ms.keys().copied().collect();
        let scope = blob_keys::document_scope(self.collection, doc);
        // The objects that a tree refers to: its text and its correction.
        let mut retained = BTreeSet::new();
        let mut superseded_trees = Vec::new();
        for (n, seq) in seqs.iter().enumerate() {
            let key = blob_keys::tree_key(self.collection, doc, *seq);
            if existing.binary_search(&key).is_err() {
                continue; // removed before
            }
            let Some(json) = self.blobs.get(&key).await? else {
                continue;
            };
            let objects = match serde_json::from_slice::<TreeObject>(&json) {
                Ok(TreeObject::Published(tree)) => referred_objects(&scope, &tree),
                Ok(TreeObject::Removed) => Vec::new(),
                Err(_) => return Ok(BTreeSet::new()), // an unreadable tree: delete nothing
            };
            let is_superseded = seqs
                .get(n + RETAINED_TREES)
                .is_some_and(|newer| self.horizon.is_past(written_ms[newer]));
            if is_superseded {
                superseded_trees.push((key, objects));
            } else {
                retained.extend(objects.into_iter().map(|object| object.key));
            }
        }
        let mut garbage = BTreeSet::new();
        for (key, objects) in superseded_trees {
            garbage.insert(GarbageObject::new(key, "superseded tree"));
            garbage.extend(
                objects
                    .into_iter()
                    .filter(|object| !retained.contains(&object.key)),
            );
        }
        Ok(garbage)
    }

    // All objects of a removed document except its newest claims and the tombstone: they show that it existed, and where
    // version numbers continue.
    async fn removed_document_garbage(
        self,
        doc: DocId,
        trees: &[String],
        tombstone: u64,
    ) -> PortResult<BTreeSet<GarbageObject>> {
        let scope = blob_keys::document_scope(self.collection, doc);
        let artifacts = list_all(self.blobs, &format!("{scope}/a/")).await?;
        let corrections = list_all(self.blobs, &blob_keys::corrections_prefix(&scope)).await?;
        let trees = trees
            .iter()
            .filter(|key| blob_keys::parse_seq(key).is_some_and(|seq| seq < tombstone));
        Ok(artifacts
            .into_iter()
            .chain(corrections)
            .chain(trees.cloned())
            .map(|key| GarbageObject::new(key, "removed document"))
            .collect())
    }
}

// The versions whose objects are among `keys` and not among the garbage.
fn remaining(keys: &[String], garbage: &BTreeSet<GarbageObject>) -> BTreeSet<u64> {
    let going: BTreeSet<&str> = garbage.iter().map(|object| object.key.as_str()).collect();
    let keys = keys.iter().filter(|key| !going.contains(key.as_str()));
    keys.filter_map(|key| blob_keys::parse_seq(key)).collect()
}

// The objects that become superfluous with the last tree that refers to them.
fn referred_objects(scope: &str, published: &PublishedTree) -> Vec<GarbageObject> {
    let text = &published.text_artifact;
    let text = (!text.is_empty())
        .then(|| GarbageObject::new(format!("{scope}/a/{text}"), "superseded text"));
    let correction = published.version.correction.as_deref();
    let correction = correction.map(|correction| {
        GarbageObject::new(
            blob_keys::correction_key(scope, correction.headings),
            "superseded correction",
        )
    });
    text.into_iter().chain(correction).collect()
}
