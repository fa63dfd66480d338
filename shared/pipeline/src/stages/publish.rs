//! `publish`: writes the finished tree as the document's latest version, then a change record.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::{
    CatalogEntry, Change, ChangeKind, Collection, Digest, DocId, Gap, PublishedTree, SectionTree,
    TreeObject, blob_keys,
};
use stemma_engine::blobs::{Blobs, PutOutcome, put_json};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageResult};
use stemma_engine::{Env, Failure, PortResult, Ports, TaskKey, TaskKeyBuilder};

use crate::settings::RunSettings;
use crate::versions::{PUBLISH, PublishOutcome, identify_version};
use crate::{FilingFlow, FilingTask, corrections, external_metadata, notify, versions};

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
        let collection = blob_keys::parse_collection(&task.run.scope)
            .map_err(|error| Failure::permanent("publish.scope", error.to_string()))?;
        let version = versions::document_version(&task.header().await?)?;
        external_metadata::apply(&mut tree.facts, &version);
        tree.gaps.extend(corrections::dropped_gap(&version, &tree));
        let published = PublishedTree {
            version,
            text_artifact: self.text.to_string(),
            tree,
        };
        let entry = CatalogEntry::from_tree(&published);
        let warnings = published
            .tree
            .gaps
            .iter()
            .filter(|gap| Gap::is_warning(&gap.code));
        let gaps = u32::try_from(warnings.count()).unwrap_or(u32::MAX);
        let json = serde_json::to_vec(&TreeObject::Published(Box::new(published)))
            .map_err(|error| invalid_tree(&error))?;
        let blobs = &task.ports.blobs;
        // Everything that the tree refers to must survive a power loss before the tree becomes visible.
        blobs.barrier().await?;
        let key = blob_keys::tree_key(&collection, self.doc, self.seq);
        blobs.put(&key, json.into()).await?;
        write_change(
            task.env,
            task.ports,
            &collection,
            ChangeKind::Published(Box::new(entry)),
        )
        .await?;
        Ok(PublishOutcome { gaps }.into())
    }
}

/// Writes a tombstone instead of a tree, and its change record.
pub(super) async fn write_tombstone(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
    seq: u64,
) -> PortResult<()> {
    let key = blob_keys::tree_key(collection, doc, seq);
    put_json(&ports.blobs, &key, &TreeObject::Removed).await?;
    write_change(env, ports, collection, ChangeKind::Removed { doc, seq }).await
}

fn invalid_tree(error: &serde_json::Error) -> Failure {
    Failure::permanent("publish.tree_invalid", error.to_string())
}

// Called after the tree or tombstone is written: a change record must never refer to a missing object.
async fn write_change(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    kind: ChangeKind,
) -> PortResult<()> {
    let change = Change {
        at_ms: env.now_ms(),
        kind,
    };
    let key = blob_keys::change_key(collection, change.at_ms, env.random());
    put_json(&ports.blobs, &key, &change).await?;
    notify::notify_change(ports, collection, &change).await;
    Ok(())
}

/// Removes a document: writes a tombstone above its newest version, and a change record. Garbage collection
/// deletes the rest.
pub async fn remove_document(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
) -> PortResult<()> {
    let seq = put_next_version(ports, collection, doc, |_| TreeObject::Removed).await?;
    write_change(env, ports, collection, ChangeKind::Removed { doc, seq }).await
}

/// Publishes a tree from another program as the next version of its document.
pub async fn publish_imported(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    published: PublishedTree,
) -> PortResult<CatalogEntry> {
    let doc = published.version.doc;
    ports.blobs.barrier().await?;
    let seq = put_next_version(ports, collection, doc, |seq| {
        let mut published = published.clone();
        published.version.seq = seq;
        TreeObject::Published(Box::new(published))
    })
    .await?;
    let mut published = published;
    published.version.seq = seq;
    let entry = CatalogEntry::from_tree(&published);
    write_change(
        env,
        ports,
        collection,
        ChangeKind::Published(Box::new(entry.clone())),
    )
    .await?;
    Ok(entry)
}

// Writes a tree object under the next free version number. Another writer may take the number first, then the
// next one is tried.
async fn put_next_version(
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
    object: impl Fn(u64) -> TreeObject,
) -> PortResult<u64> {
    loop {
        // `put` creates and never overwrites, so a lost race shows as an existing object.
        let seq = versions::next_version(ports, collection, doc).await?;
        let key = blob_keys::tree_key(collection, doc, seq);
        if put_json(&ports.blobs, &key, &object(seq)).await? == PutOutcome::Created {
            return Ok(seq);
        }
    }
}
