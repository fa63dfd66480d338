//! Publish: the finished tree becomes the document's latest, and then a change record says so.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::{
    CatalogEntry, Change, ChangeKind, Collection, Digest, DocId, DocumentVersion, Origin,
    PublishedTree, SectionTree, TreeObject, blob_keys,
};
use stemma_engine::artifact;
use stemma_engine::blobs::PutOutcome;
use stemma_engine::port_error::with_retry;
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Env, Failure, PortError, Ports, TaskKey, TaskKeyBuilder};

use super::Withdraw;
use crate::settings::RunSettings;
use crate::{FilingFlow, external_metadata, filing_flow, notify, versions};

/// Writes a tree and its change record. Key: the document and its version, which settle the tree; so whether a version
/// was published can be told from its claim alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Publish {
    /// The document.
    pub doc: DocId,
    /// Its version; the rest of it stands in the run's header.
    pub seq: u64,
    /// Digest of the tree.
    pub tree: Digest,
    /// The artifact whose blob `tree` holds it.
    pub outline: TaskKey,
    /// The artifact whose blob `source` holds the text.
    pub text: TaskKey,
}

/// What was published.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishOutcome {
    /// Gaps of the tree.
    pub gaps: u32,
}

#[async_trait]
impl Stage for Publish {
    type Work = FilingFlow;
    type Outcome = PublishOutcome;

    const NAME: &'static str = "publish";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identify_version(identity, self.doc, self.seq);
    }

    async fn run(
        &self,
        task: &TaskContext<'_, FilingFlow>,
    ) -> Result<StageOutput<PublishOutcome>, Failure> {
        let invalid = |error: serde_json::Error| {
            Failure::permanent("publish.tree_invalid", error.to_string())
        };
        let json = task.blob(&self.outline, "tree").await?;
        let mut tree: SectionTree = serde_json::from_slice(&json).map_err(invalid)?;
        let collection = blob_keys::parse_collection(&task.run.scope)
            .map_err(|error| Failure::permanent("publish.scope", error.to_string()))?;
        let version = filing_flow::document_version(&task.header().await?)?;
        external_metadata::apply(&mut tree.facts, &version);
        let published = PublishedTree {
            version,
            text_artifact: self.text.to_string(),
            tree,
        };
        let entry = CatalogEntry::from_tree(&published);
        let gaps = u32::try_from(published.tree.gaps.len()).unwrap_or(u32::MAX);
        let json =
            serde_json::to_vec(&TreeObject::Published(Box::new(published))).map_err(invalid)?;
        let blobs = &task.ports.blobs;
        // Everything the tree stands on must survive a power loss before the tree can be seen.
        with_retry(task.env, || blobs.barrier()).await?;
        let key = blob_keys::tree_key(&collection, self.doc, self.seq);
        with_retry(task.env, || blobs.put(&key, json.clone().into())).await?;
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

pub(super) fn identify_version(identity: &mut TaskKeyBuilder, doc: DocId, seq: u64) {
    identity.bytes(doc.as_bytes()).number(seq);
}

/// What was published of a version; `None` while its tree (or tombstone) or its change record may be missing.
///
/// # Errors
/// [`PortError`] when a port is away.
pub(crate) async fn publish_outcome(
    env: &Env,
    ports: &Ports,
    scope: &str,
    version: &DocumentVersion,
) -> Result<Option<PublishOutcome>, PortError> {
    let (name, revision) = match version.origin {
        Origin::Removed => (Withdraw::NAME, Withdraw::REVISION),
        _ => (Publish::NAME, Publish::REVISION),
    };
    let mut identity = TaskKey::builder(name, revision);
    identify_version(&mut identity, version.doc, version.seq);
    let key = identity.finish();
    let outcome = with_retry(env, || artifact::outcome(ports.blobs.as_ref(), scope, &key)).await?;
    Ok(outcome.and_then(|outcome| serde_json::from_slice(&outcome).ok()))
}

/// Writes a tombstone in the place of a tree, and its change record.
pub(super) async fn write_tombstone(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
    seq: u64,
) -> Result<(), PortError> {
    let json = serde_json::to_vec(&TreeObject::Removed)
        .map_err(|error| PortError::permanent("blobs", "put", error.to_string()))?;
    let key = blob_keys::tree_key(collection, doc, seq);
    with_retry(env, || ports.blobs.put(&key, json.clone().into())).await?;
    write_change(env, ports, collection, ChangeKind::Removed { doc, seq }).await
}

/// Writes a change record, after what it speaks of, and tells whoever listens.
async fn write_change(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    kind: ChangeKind,
) -> Result<(), PortError> {
    let change = Change {
        at_ms: env.now_ms(),
        kind,
    };
    let json = serde_json::to_vec(&change)
        .map_err(|error| PortError::permanent("blobs", "put", error.to_string()))?;
    let key = blob_keys::change_key(collection, change.at_ms, env.random());
    with_retry(env, || ports.blobs.put(&key, json.clone().into())).await?;
    notify::notify_change(ports, collection, &change).await;
    Ok(())
}

/// Removes a document: a tombstone above its newest version, and a change record. What it left is garbage afterwards.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn remove_document(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
) -> Result<(), PortError> {
    let seq = put_next_version(env, ports, collection, doc, |_| TreeObject::Removed).await?;
    write_change(env, ports, collection, ChangeKind::Removed { doc, seq }).await
}

/// Publishes a tree that another program made, as the next version of its document.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn publish_imported(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    published: PublishedTree,
) -> Result<CatalogEntry, PortError> {
    let doc = published.version.doc;
    with_retry(env, || ports.blobs.barrier()).await?;
    let seq = put_next_version(env, ports, collection, doc, |seq| {
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

/// Writes a tree object under the document's next free version number, and returns that number.
async fn put_next_version(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
    object: impl Fn(u64) -> TreeObject,
) -> Result<u64, PortError> {
    loop {
        let seq = versions::next_version(env, ports, collection, doc).await?;
        let json = serde_json::to_vec(&object(seq))
            .map_err(|error| PortError::permanent("blobs", "put", error.to_string()))?;
        let key = blob_keys::tree_key(collection, doc, seq);
        if with_retry(env, || ports.blobs.put(&key, json.clone().into())).await?
            == PutOutcome::Created
        {
            return Ok(seq);
        }
    }
}
