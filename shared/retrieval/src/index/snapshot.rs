//! Index snapshots in the blob store, so that a new process fetches what another one has built.
//!
//! ```text
//! c/{collection}/index/00000001/snapshots/{seq:012}.json     manifest: files and their parts; create-only
//!                               parts/{digest}               a piece of a file, named by its content
//!                               claims/{seq:012}-{attempt:06}.json   which builder works on the snapshot
//! ```
//! The shards of an index have snapshots of their own, below `00000001-000of004` and so on.
//!
//! Index files are written once and keep their names. So a snapshot lists most files of the previous one and a few new
//! ones, and only these are uploaded. A builder that loses the race for a number continues from the winner's snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use stemma_document::{Collection, Digest, blob_keys};
use stemma_store::blobs::{Blobs, PutOutcome, list_all};
use stemma_store::env::Millis;

use super::folder::{IndexGeneration, META_FILE};
use super::shard::{ShardCount, ShardId};
use super::{IndexError, claim, run_blocking};

// Bounds the memory of one transfer.
const PART_BYTES: usize = 8 << 20;
const CONCURRENT_PARTS: usize = 4;
// Kept whatever their age, for processes that are still fetching them.
const MIN_SNAPSHOTS: usize = 2;
/// How long a superseded snapshot stays, and how long an unfinished claim protects unlisted parts.
pub const GRACE_MS: Millis = 24 * 3_600_000;

/// The content of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotManifest {
    /// Creation time, in Unix milliseconds.
    pub at_ms: Millis,
    pub documents: u64,
    pub entries: u64,
    // By name.
    files: BTreeMap<String, FileParts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileParts {
    bytes: u64,
    parts: Vec<Digest>,
}

impl SnapshotManifest {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    // Whether `generation` is at the commit of this snapshot. `meta.json` names the commit.
    pub(super) fn is_commit_of(&self, generation: &IndexGeneration) -> Result<bool, IndexError> {
        let path = generation.path.join(META_FILE);
        let meta = fs::read(&path).map_err(IndexError::disk(&path))?;
        Ok(self
            .files
            .get(META_FILE)
            .is_some_and(|file| file.parts == [Digest::from_content(&meta)]))
    }

    fn parts(&self) -> impl Iterator<Item = &Digest> {
        self.files.values().flat_map(|file| &file.parts)
    }
}

/// The result of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotUpload {
    /// Number of the snapshot.
    pub seq: u64,
    /// Size of the snapshot.
    pub bytes: u64,
    /// Size of the files that are not in the previous snapshot.
    pub new_bytes: u64,
}

/// The snapshots of one shard of a collection, for one index revision.
#[derive(Clone)]
pub struct Snapshots {
    blobs: Arc<dyn Blobs>,
    prefix: String,
}

impl Snapshots {
    pub fn new(
        blobs: Arc<dyn Blobs>,
        collection: &Collection,
        revision: u32,
        shard: ShardId,
    ) -> Self {
        let index = blob_keys::index_prefix(collection);
        Self {
            blobs,
            prefix: format!("{index}{revision:08x}{}/", shard.suffix()),
        }
    }

    /// The newest readable snapshot, with its number.
    ///
    /// # Errors
    /// [`IndexError::Port`].
    pub async fn newest(&self) -> Result<Option<(u64, SnapshotManifest)>, IndexError> {
        for key in list_all(self.blobs.as_ref(), &self.folder_key("snapshots"))
            .await?
            .iter()
            .rev()
        {
            let Some(seq) = blob_keys::parse_seq(key) else {
                continue;
            };
            let Some(json) = self.blobs.get(key).await? else {
                continue;
            };
            match serde_json::from_slice(&json) {
                Ok(manifest) => return Ok(Some((seq, manifest))),
                Err(error) => {
                    tracing::warn!(key, %error, "index snapshot cannot be read; trying an older one");
                }
            }
        }
        Ok(None)
    }

    /// Uploads a generation as the snapshot after `base`; `None` if another builder was first. Nothing may write to the
    /// generation meanwhile. `counts` are its documents and entries.
    ///
    /// # Errors
    /// [`IndexError`]; uploaded parts may stay behind.
    pub async fn upload(
        &self,
        generation: &IndexGeneration,
        base: Option<&(u64, SnapshotManifest)>,
        counts: (u64, u64),
        at_ms: Millis,
    ) -> Result<Option<SnapshotUpload>, IndexError> {
        let mut files = BTreeMap::new();
        let mut new_bytes = 0;
        for path in files_of(generation)? {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let bytes = fs::metadata(&path).map_err(IndexError::disk(&path))?.len();
            // Segment names are unique, so a file of the same name has the same content. Only meta.json changes.
            let base_parts = base.and_then(|(_, base)| base.files.get(&name));
            let base_parts =
                base_parts.filter(|base_parts| base_parts.bytes == bytes && name != META_FILE);
            let file = match base_parts {
                Some(base_parts) => base_parts.clone(),
                None => {
                    new_bytes += bytes;
                    FileParts {
                        bytes,
                        parts: self.upload_file(path).await?,
                    }
                }
            };
            files.insert(name, file);
        }
        let (documents, entries) = counts;
        let manifest = SnapshotManifest {
            at_ms,
            documents,
            entries,
            files,
        };
        let seq = base.map_or(0, |(seq, _)| *seq) + 1;
        let json = serde_json::to_vec(&manifest).map_err(IndexError::damaged)?;
        // All parts must be durable before a manifest lists them.
        self.blobs.barrier().await?;
        let put = self
            .blobs
            .put(
                &format!("{}{seq:012}.json", self.folder_key("snapshots")),
                json.into(),
            )
            .await?;
        Ok((put == PutOutcome::Created).then(|| SnapshotUpload {
            seq,
            bytes: manifest.bytes(),
            new_bytes,
        }))
    }

    async fn upload_file(&self, path: PathBuf) -> Result<Vec<Digest>, IndexError> {
        let file = File::open(&path).map_err(IndexError::disk(&path))?;
        let parts = stream::try_unfold((file, path), |(file, path)| async move {
            let read = run_blocking(move || {
                let mut part = Vec::new();
                let read = (&file).take(PART_BYTES as u64).read_to_end(&mut part);
                read.map_err(IndexError::disk(&path))?;
                let digest = Digest::from_content(&part);
                Ok((digest, Bytes::from(part), file, path))
            });
            let (digest, part, file, path) = read.await?;
            Ok::<_, IndexError>((!part.is_empty()).then_some(((digest, part), (file, path))))
        });
        parts
            .map_ok(|(digest, part): (Digest, Bytes)| async move {
                self.blobs.put(&self.part_key(digest), part).await?;
                Ok(digest)
            })
            .try_buffered(CONCURRENT_PARTS)
            .try_collect()
            .await
    }

    /// Fetches a snapshot into `target`, and links files that the folder `near` has. All parts are checked against their
    /// digests.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a part is missing or altered.
    pub async fn fetch(
        &self,
        manifest: &SnapshotManifest,
        target: &Path,
        near: Option<&Path>,
    ) -> Result<u64, IndexError> {
        let mut fetched = 0;
        for (name, file) in &manifest.files {
            if !is_safe_name(name) {
                return Err(IndexError::Damaged(format!(
                    "`{}` is not a name of an index file",
                    name.escape_debug()
                )));
            }
            let path = target.join(name);
            if !near.is_some_and(|near| {
                name != META_FILE && link_file(&near.join(name), &path, file.bytes)
            }) {
                self.fetch_file(file, &path).await?;
                fetched += file.bytes;
            }
        }
        // Tantivy deletes only the files that it lists here.
        let managed = target.join(".managed.json");
        let names: Vec<&String> = manifest.files.keys().collect();
        let json = serde_json::to_vec(&names).map_err(IndexError::damaged)?;
        fs::write(&managed, json).map_err(IndexError::disk(&managed))?;
        Ok(fetched)
    }

    async fn fetch_file(&self, parts_of: &FileParts, target: &Path) -> Result<(), IndexError> {
        let mut file = File::create(target).map_err(IndexError::disk(target))?;
        let mut parts = stream::iter(parts_of.parts.iter().copied().map(
            |digest: Digest| async move {
                let part = self.blobs.get(&self.part_key(digest)).await?;
                part.filter(|part| Digest::from_content(part) == digest)
                    .ok_or_else(|| {
                        IndexError::Damaged(format!(
                            "part {} is missing or altered",
                            digest.short()
                        ))
                    })
            },
        ))
        .buffered(CONCURRENT_PARTS);
        while let Some(part) = parts.next().await {
            file.write_all(&part?).map_err(IndexError::disk(target))?;
        }
        file.sync_data().map_err(IndexError::disk(target))
    }

    /// The parts of a snapshot that are missing, or also those that are altered if `deep`, which reads all of them.
    ///
    /// # Errors
    /// [`IndexError::Port`].
    pub async fn missing_parts(
        &self,
        manifest: &SnapshotManifest,
        deep: bool,
    ) -> Result<Vec<Digest>, IndexError> {
        let missing = stream::iter(manifest.parts().copied().map(|digest: Digest| async move {
            let key = self.part_key(digest);
            let is_intact = if deep {
                self.blobs
                    .get(&key)
                    .await?
                    .is_some_and(|part| Digest::from_content(&part) == digest)
            } else {
                self.blobs.size(&key).await?.is_some()
            };
            Ok::<_, IndexError>((!is_intact).then_some(digest))
        }))
        .buffered(CONCURRENT_PARTS);
        missing
            .try_filter_map(|missing| async move { Ok(missing) })
            .try_collect()
            .await
    }

    pub(super) fn folder_key(&self, name: &str) -> String {
        format!("{}{name}/", self.prefix)
    }

    fn part_key(&self, digest: Digest) -> String {
        format!("{}{digest}", self.folder_key("parts"))
    }
}

/// Keys of index files that can be deleted as of `now_ms`. Deletes nothing.
///
/// For the current `revision` and number of shards, these are the snapshots older than a day except the last two, and the parts
/// that no other snapshot lists, unless an upload may be in progress. An index of another revision or number of shards is
/// deleted shard by shard, one day after the last snapshot of each, once all shards of the current index have newer ones.
///
/// # Errors
/// [`IndexError::Port`].
pub async fn superseded_keys(
    blobs: &Arc<dyn Blobs>,
    collection: &Collection,
    revision: u32,
    count: ShardCount,
    now_ms: Millis,
) -> Result<Vec<String>, IndexError> {
    let snapshots_of =
        |revision, shard| Snapshots::new(Arc::clone(blobs), collection, revision, shard);
    let mut gone = Vec::new();
    // When the oldest of the newest snapshots was made; `None` if a shard has none.
    let mut current_ms = Some(Millis::MAX);
    for shard in count.shards() {
        let snapshots = snapshots_of(revision, shard);
        let newest = snapshots.newest().await?;
        current_ms = current_ms.min(newest.map(|(_, newest)| newest.at_ms));
        gone.extend(snapshots.superseded_keys(now_ms).await?);
    }
    for name in blobs
        .children(&blob_keys::index_prefix(collection), None, 10_000)
        .await?
    {
        let Some((other_revision, shard)) = parse_folder(name.trim_end_matches('/')) else {
            continue;
        };
        if other_revision == revision && shard.count() == count {
            continue;
        }
        let snapshots = snapshots_of(other_revision, shard);
        if snapshots.newest().await?.is_some_and(|(_, newest)| {
            is_expired(newest.at_ms, now_ms)
                && current_ms.is_some_and(|current_ms| current_ms > newest.at_ms)
        }) {
            gone.extend(list_all(blobs.as_ref(), &snapshots.prefix).await?);
        }
    }
    Ok(gone)
}

// Revision and shard of a folder of the blob store.
fn parse_folder(name: &str) -> Option<(u32, ShardId)> {
    let at = name.find('-').unwrap_or(name.len());
    let revision = u32::from_str_radix(&name[..at], 16).ok()?;
    Some((revision, ShardId::from_suffix(&name[at..])?))
}

impl Snapshots {
    async fn superseded_keys(&self, now_ms: Millis) -> Result<Vec<String>, IndexError> {
        // Listed before the claims are: parts of a builder that claims later are not in this list.
        let parts = list_all(self.blobs.as_ref(), &self.folder_key("parts")).await?;
        let keys = list_all(self.blobs.as_ref(), &self.folder_key("snapshots")).await?;
        let mut manifests: HashMap<&str, SnapshotManifest> = HashMap::new();
        for key in &keys {
            let json = self.blobs.get(key).await?;
            if let Some(manifest) = json.and_then(|json| serde_json::from_slice(&json).ok()) {
                manifests.insert(key, manifest);
            }
        }
        let newer = keys.len().saturating_sub(MIN_SNAPSHOTS);
        let mut gone: Vec<String> = keys[..newer]
            .iter()
            .filter(|key: &&String| {
                manifests
                    .get(key.as_str())
                    .is_none_or(|manifest| is_expired(manifest.at_ms, now_ms))
            })
            .cloned()
            .collect();
        if self.is_upload_in_progress(&keys, now_ms).await? {
            return Ok(gone);
        }
        let retained = manifests
            .iter()
            .filter(|(key, _)| !gone.iter().any(|gone| gone == *key));
        let listed: BTreeSet<String> = retained
            .flat_map(|(_, manifest)| manifest.parts())
            .map(|digest| self.part_key(*digest))
            .collect();
        gone.extend(parts.into_iter().filter(|part| !listed.contains(part)));
        let claims = list_all(self.blobs.as_ref(), &self.folder_key("claims")).await?;
        gone.extend(claims.into_iter().rev().skip(1));
        Ok(gone)
    }

    // Whether a builder may be uploading parts that no manifest lists yet.
    async fn is_upload_in_progress(
        &self,
        keys: &[String],
        now_ms: Millis,
    ) -> Result<bool, IndexError> {
        let newest = claim::newest(self.blobs.as_ref(), &self.folder_key("claims")).await?;
        let Some((seq, _, claim)) = newest else {
            return Ok(false);
        };
        Ok(keys
            .last()
            .and_then(|key| blob_keys::parse_seq(key))
            .is_none_or(|newest| newest < seq)
            && claim.is_none_or(|claim| !is_expired(claim.at_ms, now_ms)))
    }
}

fn is_expired(at_ms: Millis, now_ms: Millis) -> bool {
    at_ms + GRACE_MS < now_ms
}

// Files of the last commit.
fn files_of(generation: &IndexGeneration) -> Result<Vec<PathBuf>, IndexError> {
    let metas = generation.index.load_metas()?;
    let names = metas
        .list_segment_files()
        .into_iter()
        .chain([PathBuf::from(META_FILE)]);
    let mut files: Vec<PathBuf> = names
        .map(|name| generation.path.join(name))
        .filter(|path| path.exists())
        .collect();
    files.sort();
    Ok(files)
}

// A manifest comes from the blob store, so its file names must not lead out of the folder.
fn is_safe_name(name: &str) -> bool {
    !name.starts_with('.')
        && name.len() <= 100
        && !name.is_empty()
        && name
            .bytes()
            .all(|b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
}

fn link_file(from: &Path, to: &Path, bytes: u64) -> bool {
    fs::metadata(from).is_ok_and(|metadata| metadata.len() == bytes)
        && fs::hard_link(from, to).is_ok()
}
