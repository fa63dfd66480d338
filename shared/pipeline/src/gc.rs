//! Garbage collection: finds objects that neither a readable tree nor an open run needs.
//!
//! It retains the last two trees of each document with their text and correction, every claim, all objects of a document
//! whose newest claim has no tree yet, and everything that became superfluous less than seven days ago. That
//! moment comes from change records and job reports, because stores do not tell the age of an object. Model
//! answers stay as long as their document: trees do not record which answers they used, and answers cost
//! money.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{
    Change, ChangeKind, Collection, DocId, PublishedTree, TreeObject, blob_keys,
};
use stemma_engine::blobs::{Blobs, list_all};
use stemma_engine::env::Millis;
use stemma_engine::{JobId, PortResult, jobs};

/// How long an object stays after it became superfluous.
pub const GRACE_MS: Millis = 7 * 24 * 3_600_000;
// Trees that each document keeps.
const RETAINED_TREES: usize = 2;
const MAX_CONCURRENT_READS: usize = 32;

/// An object that can be deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GarbageObject {
    pub key: String,
    /// One of `superseded tree`, `superseded text`, `superseded correction`, `removed document`, `ended job`.
    pub reason: &'static str,
}

// When each version was published or removed, by version number; `true` means removed.
type DocumentHistory = BTreeMap<u64, (Millis, bool)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GarbageReport {
    pub garbage: Vec<GarbageObject>,
    /// When a document of the collection was last removed.
    pub removed_ms: Option<Millis>,
}

/// Finds the garbage of a collection as of `now_ms`. Deletes nothing.
pub async fn find_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
) -> PortResult<GarbageReport> {
    let histories = load_histories(blobs, collection).await?;
    let removals = histories
        .values()
        .flat_map(BTreeMap::values)
        .filter(|(_, removed)| *removed);
    let removed_ms = removals.map(|(at_ms, _)| *at_ms).max();
    let of_documents = stream::iter(histories)
        .map(|(doc, history)| document_garbage(blobs, collection, doc, history, now_ms));
    let of_documents: Vec<Vec<GarbageObject>> = of_documents
        .buffered(MAX_CONCURRENT_READS)
        .try_collect()
        .await?;
    let mut garbage: Vec<GarbageObject> = of_documents.into_iter().flatten().collect();
    garbage.extend(job_garbage(blobs, collection, now_ms).await?);
    Ok(GarbageReport {
        garbage,
        removed_ms,
    })
}

async fn load_histories(
    blobs: &dyn Blobs,
    collection: &Collection,
) -> PortResult<BTreeMap<DocId, DocumentHistory>> {
    let keys = list_all(blobs, &blob_keys::changes_prefix(collection)).await?;
    let mut changes = stream::iter(keys)
        .map(|key: String| async move { blobs.get(&key).await })
        .buffered(MAX_CONCURRENT_READS);
    let mut histories: BTreeMap<DocId, DocumentHistory> = BTreeMap::new();
    while let Some(json) = changes.try_next().await? {
        let Some(change) = json.and_then(|json| serde_json::from_slice::<Change>(&json).ok())
        else {
            continue;
        };
        let removed = match change.kind {
            ChangeKind::Published(_) => false,
            ChangeKind::Removed { .. } => true,
            ChangeKind::Claimed(_) | ChangeKind::Failed { .. } => continue,
        };
        let (doc, seq) = change.kind.version();
        // A crash between tree and record publishes twice. The later record counts, so that nothing is
        // deleted too early.
        let recorded = histories
            .entry(doc)
            .or_default()
            .entry(seq)
            .or_insert((change.at_ms, removed));
        recorded.0 = recorded.0.max(change.at_ms);
    }
    Ok(histories)
}

fn is_past_grace(at_ms: Millis, now_ms: Millis) -> bool {
    at_ms + GRACE_MS < now_ms
}

async fn document_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    mut history: DocumentHistory,
    now_ms: Millis,
) -> PortResult<Vec<GarbageObject>> {
    let Some((last, (last_ms, removed))) =
        history.last_key_value().map(|(seq, last)| (*seq, *last))
    else {
        return Ok(Vec::new());
    };
    let claims = list_all(blobs, &blob_keys::versions_prefix(collection, doc)).await?;
    let claimed = claims
        .last()
        .and_then(|key| blob_keys::parse_seq(key))
        .unwrap_or(0);
    if claimed > last {
        return Ok(Vec::new()); // an open or failed version may still need any object
    }
    if removed {
        return if is_past_grace(last_ms, now_ms) {
            removed_document_garbage(blobs, collection, doc, last).await
        } else {
            Ok(Vec::new())
        };
    }
    // Trees without a record were published before the grace period: snapshots of the catalog replace only such records.
    for key in list_all(blobs, &blob_keys::trees_prefix(collection, doc)).await? {
        if let Some(seq) = blob_keys::parse_seq(&key) {
            history.entry(seq).or_insert((0, false));
        }
    }
    // A tree became superfluous when the second newer tree was published.
    let seqs: Vec<u64> = history.keys().copied().collect();
    let scope = blob_keys::document_scope(collection, doc);
    // The objects that a tree refers to: its text and its correction.
    let mut retained = BTreeSet::new();
    let mut superseded_trees = Vec::new();
    for (n, seq) in seqs.iter().enumerate() {
        let key = blob_keys::tree_key(collection, doc, *seq);
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
    let correction = published.version.correction;
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

// Entries and cursors of ended jobs. Manifests and reports stay.
async fn job_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
) -> PortResult<Vec<GarbageObject>> {
    const PAGE: usize = 1_000;
    let mut garbage = Vec::new();
    let mut after: Option<JobId> = None;
    loop {
        let page = jobs::list(blobs, after.as_ref(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(garbage);
        };
        for job in page {
            let Some(report) = jobs::report(blobs, &job).await? else {
                continue;
            };
            let manifest = jobs::manifest(blobs, &job).await?;
            let ours = manifest.is_some_and(|manifest| manifest.collection == collection.as_str());
            if ours && report.ended_ms + GRACE_MS < now_ms {
                for part in ["entries", "cursor"] {
                    let keys = list_all(blobs, &format!("jobs/{job}/{part}/")).await?;
                    garbage.extend(keys.into_iter().map(|key| GarbageObject {
                        key,
                        reason: "ended job",
                    }));
                }
            }
        }
        after = Some(last);
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{
        CatalogEntry, CorrectionRef, Digest, DocumentVersion, Extent, Method, Origin, SectionTree,
        VerifiedOutline,
    };
    use stemma_engine::blobs::MemoryBlobs;

    use super::*;

    const NOW: Millis = 100 * 24 * 3_600_000;

    struct GcFixture {
        blobs: MemoryBlobs,
        collection: Collection,
        doc: DocId,
    }

    impl GcFixture {
        fn new() -> Self {
            let collection = Collection::default();
            let doc = DocId::new(&collection, "file:///a.md");
            Self {
                blobs: MemoryBlobs::default(),
                collection,
                doc,
            }
        }

        async fn put(&self, key: &str, json: &impl serde::Serialize) {
            self.blobs
                .put(key, serde_json::to_vec(json).unwrap().into())
                .await
                .unwrap();
        }

        async fn claim(&self, seq: u64) {
            self.put(
                &blob_keys::version_key(&self.collection, self.doc, seq),
                &seq,
            )
            .await;
        }

        async fn change(&self, kind: ChangeKind, days_ago: u64) {
            let at_ms = NOW - days_ago * 24 * 3_600_000;
            self.put(
                &blob_keys::change_key(&self.collection, at_ms, at_ms),
                &Change { at_ms, kind },
            )
            .await;
        }

        // Writes a version with its tree, its text under `text`, and its change record.
        async fn publish(&self, seq: u64, text: &str, days_ago: u64) {
            self.publish_corrected(seq, text, None, days_ago).await;
        }

        async fn publish_corrected(
            &self,
            seq: u64,
            text: &str,
            correction: Option<&str>,
            days_ago: u64,
        ) {
            self.claim(seq).await;
            let source = Digest::from_content(&seq.to_le_bytes());
            let correction = correction.map(|text| CorrectionRef {
                content: None,
                headings: Digest::from_content(text.as_bytes()),
                source,
            });
            let version = DocumentVersion {
                doc: self.doc,
                seq,
                uri: "file:///a.md".into(),
                name: "a.md".into(),
                path: "a.md".into(),
                source,
                origin: Origin::Content,
                size_bytes: 1,
                settings: "s".into(),
                sidecar_facts: BTreeMap::new(),
                correction,
            };
            let tree = tree();
            let published = PublishedTree {
                version,
                text_artifact: text.into(),
                tree,
            };
            let entry = CatalogEntry::from_tree(&published);
            let key = blob_keys::tree_key(&self.collection, self.doc, seq);
            self.put(&key, &TreeObject::Published(Box::new(published)))
                .await;
            self.put(
                &format!(
                    "{}/a/{text}",
                    blob_keys::document_scope(&self.collection, self.doc)
                ),
                &0,
            )
            .await;
            self.change(ChangeKind::Published(Box::new(entry)), days_ago)
                .await;
        }

        async fn garbage(&self) -> Vec<String> {
            let objects = find_garbage(&self.blobs, &self.collection, NOW)
                .await
                .unwrap()
                .garbage;
            let scope = blob_keys::document_scope(&self.collection, self.doc);
            objects
                .into_iter()
                .map(|garbage| garbage.key.replace(&scope, ""))
                .collect()
        }
    }

    fn tree() -> SectionTree {
        let outline = VerifiedOutline::new(Extent::Lines(3), Vec::new()).unwrap();
        SectionTree::build(&outline, Method::Markup, Vec::new())
    }

    fn tree_suffix(seq: u64) -> String {
        format!("/trees/{seq:012}.json")
    }

    #[tokio::test]
    async fn last_two_trees_and_recent_objects_are_retained() {
        let fixture = GcFixture::new();
        for (seq, text, days_ago) in [(1, "t1", 60), (2, "t2", 50), (3, "t1", 40), (4, "t4", 3)] {
            fixture.publish(seq, text, days_ago).await;
        }
        // Tree 1 was superseded by tree 3, 40 days ago, which has the same text; tree 2 three days ago.
        assert_eq!(fixture.garbage().await, [tree_suffix(1)]);
        fixture.publish(5, "t5", 8).await;
        assert_eq!(
            fixture.garbage().await,
            ["/a/t1".into(), tree_suffix(1), tree_suffix(3)]
        );
    }

    #[tokio::test]
    async fn corrections_stay_with_the_trees_that_they_made() {
        let fixture = GcFixture::new();
        let corrections = [
            Some("first"),
            Some("second"),
            Some("second"),
            Some("second"),
        ];
        for (seq, correction) in (1..).zip(corrections) {
            fixture
                .publish_corrected(seq, "t", correction, 60 - seq)
                .await;
        }
        let first = Digest::from_content(b"first");
        assert_eq!(
            fixture.garbage().await,
            [
                format!("/corrections/{first}.json"),
                tree_suffix(1),
                tree_suffix(2)
            ]
        );
    }

    #[tokio::test]
    async fn trees_whose_records_are_gone_are_collected_alike() {
        let fixture = GcFixture::new();
        for seq in 1..=3 {
            fixture.publish(seq, &format!("t{seq}"), 90 - seq).await;
        }
        let expected = fixture.garbage().await;
        assert_eq!(expected, ["/a/t1".into(), tree_suffix(1)]);
        let prefix = blob_keys::changes_prefix(&fixture.collection);
        let records = list_all(&fixture.blobs, &prefix).await.unwrap();
        for record in &records[..2] {
            fixture.blobs.delete(record).await.unwrap();
        }
        assert_eq!(fixture.garbage().await, expected);
    }

    #[tokio::test]
    async fn open_version_retains_all_objects() {
        let fixture = GcFixture::new();
        for seq in 1..=4 {
            fixture.publish(seq, &format!("t{seq}"), 90 - seq).await;
        }
        assert_eq!(
            fixture.garbage().await,
            [
                "/a/t1".into(),
                "/a/t2".into(),
                tree_suffix(1),
                tree_suffix(2)
            ]
        );
        fixture.claim(5).await;
        assert_eq!(fixture.garbage().await, [""; 0]);
    }

    #[tokio::test]
    async fn removed_document_retains_claims_and_tombstone() {
        let fixture = GcFixture::new();
        fixture.publish(1, "t1", 60).await;
        let key = blob_keys::tree_key(&fixture.collection, fixture.doc, 2);
        fixture.put(&key, &TreeObject::Removed).await;
        fixture
            .change(
                ChangeKind::Removed {
                    doc: fixture.doc,
                    seq: 2,
                },
                8,
            )
            .await;
        assert_eq!(fixture.garbage().await, ["/a/t1".into(), tree_suffix(1)]);
        fixture.claim(3).await;
        assert_eq!(fixture.garbage().await, [""; 0]);
    }
}
