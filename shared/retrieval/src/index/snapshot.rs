//! Copies of an index in the store, so that a new process fetches what another has built.
//!
//! ```text
//! c/{collection}/index/00000001/snapshots/{seq:012}.json     which files, of which parts; create-only
//!                               parts/{digest}               a piece of a file, named by its content
//!                               claims/{seq:012}-{attempt:04}.json   who builds that snapshot
//! ```
//! Files of an index are written once, and keep their names: a snapshot after an update lists those of the one before and
//! a few new ones, and only these are uploaded. Whoever loses the race for a number has cost himself time, and reads the
//! winner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use stemma_document::{Collection, Digest, blob_keys};
use stemma_engine::blobs::{Blobs, PutOutcome, list_all};
use stemma_engine::env::Millis;

use super::folder::IndexGeneration;
use super::{IndexError, builder, run_blocking};

/// The largest part in bytes: what one transfer holds in memory.
const PART_BYTES: usize = 8 << 20;
/// Parts under way at once.
const CONCURRENT_PARTS: usize = 4;
/// Snapshots that are kept however old they are.
const MIN_SNAPSHOTS: usize = 2;
/// How long a superseded snapshot stays, and an unfinished claim holds up the removal of parts.
pub const GRACE_MS: Millis = 24 * 3_600_000;

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotManifest {
    /// When it was made, in milliseconds since 1970-01-01 UTC.
    pub at_ms: Millis,
    /// Documents in it.
    pub documents: u64,
    /// Entries in it.
    pub entries: u64,
    /// Its files by name.
    files: BTreeMap<String, FileParts>,
}

/// The parts of a file, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileParts {
    bytes: u64,
    parts: Vec<Digest>,
}

impl SnapshotManifest {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|pieces| pieces.bytes).sum()
    }

    /// Whether `generation` is at the commit this was made of.
    pub(super) fn is_commit_of(&self, generation: &IndexGeneration) -> Result<bool, IndexError> {
        let path = generation.path.join(META_FILE);
        let meta = fs::read(&path).map_err(IndexError::disk(&path))?;
        Ok(self
            .files
            .get(META_FILE)
            .is_some_and(|pieces| pieces.parts == [Digest::from_content(&meta)]))
    }

    fn parts(&self) -> impl Iterator<Item = &Digest> {
        self.files.values().flat_map(|pieces| &pieces.parts)
    }
}

/// What an upload did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotUpload {
    /// The number of the snapshot.
    pub seq: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes that the store did not have from the snapshot before.
    pub new_bytes: u64,
}

/// The snapshots of one collection, for one revision of its shape.
#[derive(Clone)]
pub struct Snapshots {
    blobs: Arc<dyn Blobs>,
    prefix: String,
}

impl Snapshots {
    /// Those below the collection's prefix.
    pub fn new(blobs: Arc<dyn Blobs>, collection: &Collection, revision: u32) -> Self {
        Self {
            blobs,
            prefix: format!("{}{revision:08x}/", blob_keys::index_prefix(collection)),
        }
    }

    /// The newest one that can be read, and its number.
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
                    tracing::warn!(key, %error, "snapshot cannot be read; an older one is used")
                }
            }
        }
        Ok(None)
    }

    /// Uploads a generation that no one writes to as the snapshot after `base`; `None` when another was first.
    ///
    /// # Errors
    /// [`IndexError`]; parts may be left behind.
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
            // Names of segments are unique: what is called the same is the same. Only meta.json changes.
            let base_parts = base.and_then(|(_, base)| base.files.get(&name));
            let base_parts =
                base_parts.filter(|base_parts| base_parts.bytes == bytes && name != META_FILE);
            let pieces = match base_parts {
                Some(base_parts) => base_parts.clone(),
                None => {
                    new_bytes += bytes;
                    FileParts {
                        bytes,
                        parts: self.upload_file(path).await?,
                    }
                }
            };
            files.insert(name, pieces);
        }
        let (documents, entries) = counts;
        let manifest = SnapshotManifest {
            at_ms,
            documents,
            entries,
            files,
        };
        let seq = base.map_or(0, |(seq, _)| *seq) + 1;
        let json = serde_json::to_vec(&manifest)
            .map_err(|error| IndexError::Damaged(error.to_string()))?;
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

    /// Fetches a snapshot into `room`; files that `near` already has are linked. Every part is checked against its name.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when a part is missing or altered.
    pub async fn fetch(
        &self,
        manifest: &SnapshotManifest,
        room: &Path,
        near: Option<&Path>,
    ) -> Result<u64, IndexError> {
        let mut fetched = 0;
        for (name, pieces) in &manifest.files {
            if !is_safe_name(name) {
                return Err(IndexError::Damaged(format!(
                    "`{}` is no name of an index file",
                    name.escape_debug()
                )));
            }
            let target = room.join(name);
            if !near.is_some_and(|near| {
                name != META_FILE && link_file(&near.join(name), &target, pieces.bytes)
            }) {
                self.fetch_file(pieces, &target).await?;
                fetched += pieces.bytes;
            }
        }
        // What the index may remove when it needs it no more.
        let managed = room.join(".managed.json");
        let names: Vec<&String> = manifest.files.keys().collect();
        let json =
            serde_json::to_vec(&names).map_err(|error| IndexError::Damaged(error.to_string()))?;
        fs::write(&managed, json).map_err(IndexError::disk(&managed))?;
        Ok(fetched)
    }

    async fn fetch_file(&self, pieces: &FileParts, target: &Path) -> Result<(), IndexError> {
        let mut file = File::create(target).map_err(IndexError::disk(target))?;
        let mut parts = stream::iter(pieces.parts.iter().copied().map(
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

    /// Whether everything that a snapshot lists is there; the parts that are not, or are altered where `deep`.
    ///
    /// # Errors
    /// [`IndexError::Port`].
    pub async fn missing_parts(
        &self,
        manifest: &SnapshotManifest,
        deep: bool,
    ) -> Result<Vec<Digest>, IndexError> {
        let looks = stream::iter(manifest.parts().copied().map(|digest: Digest| async move {
            let key = self.part_key(digest);
            let whole = if deep {
                self.blobs
                    .get(&key)
                    .await?
                    .is_some_and(|part| Digest::from_content(&part) == digest)
            } else {
                self.blobs.size(&key).await?.is_some()
            };
            Ok::<_, IndexError>((!whole).then_some(digest))
        }))
        .buffered(CONCURRENT_PARTS);
        looks
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

/// Keys of snapshots that nothing needs any more, as of `now_ms`: all but the last two of this revision and those younger
/// than a day, and parts that no kept one lists, unless one may be under way; of another revision everything, a day
/// after its last snapshot, if there is a newer one of this. Removes nothing.
///
/// # Errors
/// [`IndexError::Port`].
pub async fn superseded_keys(
    blobs: &Arc<dyn Blobs>,
    collection: &Collection,
    revision: u32,
    now_ms: Millis,
) -> Result<Vec<String>, IndexError> {
    let mut gone = Vec::new();
    let old = |at_ms: Millis| at_ms + GRACE_MS < now_ms;
    let ours = Snapshots::new(Arc::clone(blobs), collection, revision)
        .newest()
        .await?;
    let replaced =
        |at_ms: Millis| old(at_ms) && ours.as_ref().is_some_and(|(_, ours)| ours.at_ms > at_ms);
    for name in blobs
        .children(&blob_keys::index_prefix(collection), None, 10_000)
        .await?
    {
        let Ok(revision_number) = u32::from_str_radix(name.trim_end_matches('/'), 16) else {
            continue;
        };
        let snapshots = Snapshots::new(Arc::clone(blobs), collection, revision_number);
        if revision_number == revision {
            gone.extend(snapshots.superseded_keys(old).await?);
        } else if snapshots
            .newest()
            .await?
            .is_some_and(|(_, newest)| replaced(newest.at_ms))
        {
            gone.extend(list_all(blobs.as_ref(), &snapshots.prefix).await?);
        }
    }
    Ok(gone)
}

impl Snapshots {
    async fn superseded_keys(
        &self,
        old: impl Fn(Millis) -> bool,
    ) -> Result<Vec<String>, IndexError> {
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
                    .is_none_or(|manifest| old(manifest.at_ms))
            })
            .cloned()
            .collect();
        if self.is_upload_in_progress(&keys, &old).await? {
            return Ok(gone);
        }
        let retained = manifests
            .iter()
            .filter(|(key, _)| !gone.iter().any(|gone| gone == *key));
        let document: BTreeSet<String> = retained
            .flat_map(|(_, manifest)| manifest.parts())
            .map(|digest| self.part_key(*digest))
            .collect();
        let parts = list_all(self.blobs.as_ref(), &self.folder_key("parts")).await?;
        gone.extend(parts.into_iter().filter(|part| !document.contains(part)));
        let claims = list_all(self.blobs.as_ref(), &self.folder_key("claims")).await?;
        gone.extend(claims.into_iter().rev().skip(1));
        Ok(gone)
    }

    /// Whether someone may be uploading parts that no manifest lists yet.
    async fn is_upload_in_progress(
        &self,
        keys: &[String],
        old: &impl Fn(Millis) -> bool,
    ) -> Result<bool, IndexError> {
        let newest =
            builder::newest_build_claim(self.blobs.as_ref(), &self.folder_key("claims")).await?;
        let Some((seq, _, claim)) = newest else {
            return Ok(false);
        };
        Ok(keys
            .last()
            .and_then(|key| blob_keys::parse_seq(key))
            .is_none_or(|newest| newest < seq)
            && !old(claim.at_ms))
    }
}

/// The commit an index is at.
const META_FILE: &str = "meta.json";

/// The files of the last commit.
fn files_of(generation: &IndexGeneration) -> Result<Vec<PathBuf>, IndexError> {
    let metas = generation.index.load_metas()?;
    let document = metas
        .list_segment_files()
        .into_iter()
        .chain([PathBuf::from(META_FILE)]);
    let mut files: Vec<PathBuf> = document
        .map(|name| generation.path.join(name))
        .filter(|path| path.exists())
        .collect();
    files.sort();
    Ok(files)
}

/// A manifest comes from the store: no name in it leaves the folder.
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
