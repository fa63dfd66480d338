//! `publish`: writes the finished tree as the document's latest version, then a change record.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{
    CatalogEntry, ChangeKind, Collection, Digest, DocId, Gap, PublishedTree, SectionTree,
    TreeObject, blob_keys,
};
use stemma_engine::Ports;
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageResult};
use stemma_store::blobs::{Blobs, PutOutcome, get_json, put_json};
use stemma_store::{Failure, PortError, PortResult, TaskKey, TaskKeyBuilder};

use crate::changes::write_change;
use crate::settings::RunSettings;
use crate::versions::{PUBLISH, PublishOutcome, identify_version};
use crate::{FilingFlow, FilingTask, corrections, external_metadata, versions};

/// Key: the document and its version. They determine the tree, so a claim alone tells whether its version was
/// published.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Publish {
    pub(crate) doc: DocId,
    /// The version number; the run header holds the rest of the version.
    pub(crate) seq: u64,
    pub(crate) tree: Digest,
    /// The artifact whose blob `tree` holds the tree.
    pub(crate) outline: TaskKey,
    /// The artifact whose blob `source` holds the text.
    pub(crate) text: TaskKey,
}

#[async_trait]
impl Stage for Publish {
    type Work = FilingFlow;
    type Outcome = PublishOutcome;

    const NAME: &'static str = PUBLISH.0;
    const REVISION: u32 = PUBLISH.1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identify_version(identity, self.doc, self.seq);
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<PublishOutcome> {
        let json = task.blob(&self.outline, "tree").await?;
        let mut tree: SectionTree =
            serde_json::from_slice(&json).map_err(|error| invalid_tree(&error))?;
        let collection = versions::published_collection(task.run, self.doc, self.seq)?;
        let version = versions::document_version(&task.header().await?)?;
        external_metadata::apply(&mut tree.facts, &version);
        tree.gaps.extend(corrections::dropped_gap(&version, &tree));
        let published = PublishedTree {
            version,
            text_artifact: self.text.to_string(),
            tree,
        };
        let entry = CatalogEntry::from_tree(&published);
        let gaps = &published.tree.gaps;
        let gaps = gaps.iter().filter(|gap| Gap::is_warning(&gap.code)).count();
        let gaps = u32::try_from(gaps).unwrap_or(u32::MAX);
        let json = serde_json::to_vec(&TreeObject::Published(Box::new(published)))
            .map_err(|error| invalid_tree(&error))?;
        let blobs = &task.ports.blobs;
        // Everything that the tree refers to must survive a power loss before the tree becomes visible.
        blobs.barrier().await?;
        let key = blob_keys::tree_key(&collection, self.doc, self.seq);
        let kind = match blobs.put(&key, json.into()).await? {
            PutOutcome::Created => ChangeKind::Published(Box::new(entry)),
            PutOutcome::Exists => stored_change(task.ports, &key, self.doc, self.seq).await?,
        };
        write_change(task.ports, &collection, kind).await?;
        Ok(PublishOutcome { gaps }.into())
    }
}

/// Writes a tombstone instead of a tree, and its change record.
pub(super) async fn write_tombstone(
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
    seq: u64,
) -> PortResult<()> {
    let key = blob_keys::tree_key(collection, doc, seq);
    let kind = match put_json(&ports.blobs, &key, &TreeObject::Removed).await? {
        PutOutcome::Created => ChangeKind::Removed { doc, seq },
        PutOutcome::Exists => stored_change(ports, &key, doc, seq).await?,
    };
    write_change(ports, collection, kind).await
}

// What the tree object says that was there first. A run of an older program may have written it before it crashed; the
// change record must describe the tree that readers open.
async fn stored_change(ports: &Ports, key: &str, doc: DocId, seq: u64) -> PortResult<ChangeKind> {
    match get_json::<TreeObject>(&ports.blobs, key).await? {
        Some(TreeObject::Published(tree)) => {
            let entry = CatalogEntry::from_tree(&tree);
            Ok(ChangeKind::Published(Box::new(entry)))
        }
        // A tree that existed and is gone was deleted by the garbage collection.
        Some(TreeObject::Removed) | None => Ok(ChangeKind::Removed { doc, seq }),
    }
}

fn invalid_tree(error: &serde_json::Error) -> Failure {
    Failure::permanent("publish.tree_invalid", error.to_string())
}

/// Removes a document: writes a tombstone above its newest version, and a change record. Garbage collection
/// deletes the rest.
pub async fn remove_document(ports: &Ports, collection: &Collection, doc: DocId) -> PortResult<()> {
    let seq = put_next_version(ports, collection, doc, |_| TreeObject::Removed).await?;
    write_change(ports, collection, ChangeKind::Removed { doc, seq }).await
}

/// Publishes a tree from another program as the next version of its document.
pub async fn publish_imported(
    ports: &Ports,
    collection: &Collection,
    mut published: PublishedTree,
) -> PortResult<CatalogEntry> {
    let doc = published.version.doc;
    ports.blobs.barrier().await?;
    published.version.seq = put_next_version(ports, collection, doc, |seq| {
        let mut published = published.clone();
        published.version.seq = seq;
        TreeObject::Published(Box::new(published))
    })
    .await?;
    let entry = CatalogEntry::from_tree(&published);
    let kind = ChangeKind::Published(Box::new(entry.clone()));
    write_change(ports, collection, kind).await?;
    Ok(entry)
}

// Writes a tree object under the next version number, which it claims before: otherwise a run could claim the same
// number, publish nothing, and end as done.
async fn put_next_version(
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
    object: impl Fn(u64) -> TreeObject,
) -> PortResult<u64> {
    loop {
        let seq = versions::reserve_version(ports, collection, doc).await?;
        let key = blob_keys::tree_key(collection, doc, seq);
        let json = serde_json::to_vec(&object(seq))
            .map_err(|error| PortError::permanent("blobs.put", format!("{key}: {error}")))?;
        let json = Bytes::from(json);
        if ports.blobs.put(&key, json.clone()).await? == PutOutcome::Created {
            return Ok(seq);
        }
        // Ours, if the answer of an earlier attempt was lost. An older program writes trees without a claim.
        if ports.blobs.get(&key).await?.as_ref() == Some(&json) {
            return Ok(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use futures::future::BoxFuture;
    use stemma_document::{Change, DocumentVersion, Extent, Method, Origin, VerifiedOutline};
    use stemma_store::Env;
    use stemma_store::blobs::{MemoryBlobs, list_all};
    use stemma_store::port_layer::{Layered, PortLayer};

    use super::*;

    // What interrupts one call, once.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Interruption {
        /// A run claims the next version while a tree is written.
        Claim,
        /// A tree is written, and the answer is lost.
        LostAnswer,
        /// The process is suspended while a change record is written, and others write.
        Suspension,
    }

    struct InterruptedBlobs {
        inner: Arc<MemoryBlobs>,
        interruption: Interruption,
        is_over: AtomicBool,
    }

    impl PortLayer for InterruptedBlobs {
        async fn call<'a, T, F>(
            &'a self,
            operation: &'static str,
            about: impl Fn() -> String + Send + 'a,
            mut call: F,
        ) -> PortResult<T>
        where
            T: Send + 'a,
            F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
        {
            let written = match self.interruption {
                Interruption::Claim | Interruption::LostAnswer => "/trees/",
                Interruption::Suspension => "/changes/",
            };
            if operation != "blobs.put"
                || !about().contains(written)
                || self.is_over.swap(true, Ordering::Relaxed)
            {
                return call().await;
            }
            match self.interruption {
                Interruption::Claim => {
                    let doc = DocId::new(&Collection::default(), URI);
                    let claims = blob_keys::versions_prefix(&Collection::default(), doc);
                    let seq = list_all(&*self.inner, &claims).await?.len() as u64 + 1;
                    let claim = blob_keys::version_key(&Collection::default(), doc, seq);
                    assert_eq!(
                        self.inner.put(&claim, "run".into()).await?,
                        PutOutcome::Created
                    );
                }
                Interruption::Suspension => {
                    tokio::time::advance(Duration::from_mins(20)).await;
                    put_record(&*self.inner, SUSPENDED_UNTIL_MINUTE).await;
                }
                Interruption::LostAnswer => {
                    call().await?;
                    return Err(PortError::transient(operation, "connection reset"));
                }
            }
            call().await
        }
    }

    const URI: &str = "file:///a.md";
    // Later than the clock of simulated environments.
    const SUSPENDED_UNTIL_MINUTE: u64 = 40_000_000;

    fn interrupted_ports(env: &Env, interruption: Interruption) -> Ports {
        let inner = Arc::<MemoryBlobs>::default();
        let port: Arc<dyn Blobs> = Arc::<MemoryBlobs>::clone(&inner);
        let layer = InterruptedBlobs {
            inner,
            interruption,
            is_over: AtomicBool::new(false),
        };
        Ports::embedded(env, Arc::new(Layered { layer, port }))
    }

    fn imported_tree() -> PublishedTree {
        let outline = VerifiedOutline::new(Extent::Lines(3), Vec::new()).unwrap();
        PublishedTree {
            version: DocumentVersion {
                doc: DocId::new(&Collection::default(), URI),
                seq: 0,
                uri: URI.into(),
                name: "a.md".into(),
                path: "a.md".into(),
                source: Digest::from_content(b"a"),
                origin: Origin::Content,
                size_bytes: 1,
                settings: "s".into(),
                sidecar_facts: BTreeMap::new(),
                filing_facts: Default::default(),
                correction: None,
                labels: None,
            },
            text_artifact: String::new(),
            tree: SectionTree::build(&outline, Method::Markup, Vec::new()),
        }
    }

    async fn read_changes(ports: &Ports) -> Vec<Change> {
        let prefix = blob_keys::changes_prefix(&Collection::default());
        let mut changes = Vec::new();
        for key in list_all(&ports.blobs, &prefix).await.unwrap() {
            changes.push(get_json(&ports.blobs, &key).await.unwrap().unwrap());
        }
        changes
    }

    #[tokio::test]
    async fn a_withdrawal_of_a_published_version_records_its_tree() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let collection = Collection::default();
        let tree = imported_tree();
        let doc = tree.version.doc;
        let entry = publish_imported(&ports, &collection, tree).await.unwrap();
        write_tombstone(&ports, &collection, doc, entry.version.seq)
            .await
            .unwrap();
        let changes = read_changes(&ports).await;
        assert_eq!(changes.len(), 2);
        for change in changes {
            assert_eq!(change.kind, ChangeKind::Published(Box::new(entry.clone())));
        }
    }

    /// D17 of the engine review: the run ended as done, and its document stayed removed.
    #[tokio::test]
    async fn a_run_and_a_removal_never_share_a_version_number() {
        let env = Env::simulated(1);
        let ports = interrupted_ports(&env, Interruption::Claim);
        let collection = Collection::default();
        let doc = DocId::new(&collection, URI);
        remove_document(&ports, &collection, doc).await.unwrap();
        let trees = list_all(&ports.blobs, &blob_keys::trees_prefix(&collection, doc))
            .await
            .unwrap();
        let run = ports
            .blobs
            .get(&trees[0].replace("/trees/", "/versions/"))
            .await
            .unwrap();
        assert_eq!(trees.len(), 1);
        assert_ne!(run.as_deref(), Some(b"run".as_slice()), "{trees:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_makes_no_second_tree_object() {
        let collection = Collection::default();
        let doc = DocId::new(&collection, URI);
        for is_removal in [true, false] {
            let env = Env::simulated(1);
            let ports = interrupted_ports(&env, Interruption::LostAnswer);
            if is_removal {
                remove_document(&ports, &collection, doc).await.unwrap();
            } else {
                publish_imported(&ports, &collection, imported_tree())
                    .await
                    .unwrap();
            }
            let prefix = blob_keys::trees_prefix(&collection, doc);
            assert_eq!(
                list_all(&ports.blobs, &prefix).await.unwrap(),
                [blob_keys::tree_key(&collection, doc, 1)],
                "removal: {is_removal}"
            );
            assert_eq!(read_changes(&ports).await.len(), 1);
        }
    }

    async fn put_record(blobs: &dyn Blobs, minute: u64) {
        let kind = ChangeKind::Removed {
            doc: DocId::new(&Collection::default(), "file:///other.md"),
            seq: 1,
        };
        let change = Change {
            at_ms: minute * 60_000,
            kind,
        };
        let key = blob_keys::change_key(&Collection::default(), change.at_ms, 1);
        let json = serde_json::to_vec(&change).unwrap();
        blobs.put(&key, json.into()).await.unwrap();
    }

    // The minutes that hold the record of the imported tree.
    async fn minutes_of_record(ports: &Ports) -> Vec<u64> {
        let prefix = blob_keys::changes_prefix(&Collection::default());
        let mut minutes = Vec::new();
        for key in list_all(&ports.blobs, &prefix).await.unwrap() {
            let change: Change = get_json(&ports.blobs, &key).await.unwrap().unwrap();
            if matches!(change.kind, ChangeKind::Published(_)) {
                let minute = key.trim_start_matches(&prefix).split('/').next();
                minutes.push(minute.unwrap().parse().unwrap());
            }
        }
        minutes
    }

    /// D26 of the engine review: readers do not return to minutes long past.
    #[tokio::test(start_paused = true)]
    async fn a_change_record_delayed_by_a_suspension_is_written_again() {
        let env = Env::simulated(1);
        let ports = interrupted_ports(&env, Interruption::Suspension);
        let collection = Collection::default();
        let minute = env.now_ms() / 60_000;
        publish_imported(&ports, &collection, imported_tree())
            .await
            .unwrap();
        let minutes = minutes_of_record(&ports).await;
        assert_eq!(minutes, [minute, SUSPENDED_UNTIL_MINUTE]);
    }

    /// The same for clocks: the writer's is behind, or another one is ahead.
    #[tokio::test]
    async fn a_change_record_follows_the_newest_minute_of_others() {
        let env = Env::simulated(1);
        let collection = Collection::default();
        let own = env.now_ms() / 60_000;
        for ahead in [1, 2, 11, 1_440] {
            let ports = Ports::memory(&env);
            put_record(&ports.blobs, own + ahead).await;
            publish_imported(&ports, &collection, imported_tree())
                .await
                .unwrap();
            let minutes = minutes_of_record(&ports).await;
            let expected = if ahead == 1 {
                vec![own]
            } else {
                vec![own, own + ahead]
            };
            assert_eq!(minutes, expected);
        }
    }
}
