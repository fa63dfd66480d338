//! Originals that no version and no job uses.
//!
//! An original has no age, and whoever submits stores it before anything names it. So the first collection that finds it
//! unused only marks it, and a collection a week later removes it if it is still unused. A submission that reads the
//! marks stores its bytes under another key ([`crate::sources::SourceWriter`]), and one that read them before is a week
//! old, so that its job is seen. Nothing depends on how long a collection or a submission takes within that week.
//!
//! What is used is sorted on disk and compared with the listing of what is stored, so that memory does not grow with originals.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Collection, Digest, DocId, DocumentVersion, Origin, TreeObject, blob_keys};
use stemma_engine::jobs;
use stemma_store::blobs::{Blobs, list_all, list_range};
use stemma_store::env::Millis;
use stemma_store::{PortError, PortResult};

use super::jobs::OpenJob;
use super::listed_keys::ListedKeys;
use super::sorted_records::{RecordSorter, SortedRecords};
use super::{GarbageObject, MAX_CONCURRENT_READS, delete_all, is_past_grace};
use crate::Submission;
use crate::versions::{Claim, document_version};

const PAGE: usize = 1_000;
const DIGEST_BYTES: usize = 32;

type UsedOriginals = RecordSorter<DIGEST_BYTES>;

/// Originals that nothing uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginalGarbage {
    /// Marks to write: of originals found unused for the first time.
    pub marks: Vec<String>,
    /// Originals that have been unused for a week, and marks that say nothing any more.
    pub objects: Vec<GarbageObject>,
}

impl OriginalGarbage {
    /// Writes the marks and deletes the objects. After an interruption the next collection does the rest.
    pub async fn remove(&self, blobs: &dyn Blobs) -> PortResult<()> {
        for mark in &self.marks {
            blobs.put(mark, "unused".into()).await?;
        }
        delete_all(blobs, &self.objects).await
    }
}

// What is stored at the two keys of an original.
type Places = [Place; 2];

#[derive(Debug, Clone, Default)]
struct Place {
    exists: bool,
    marks: Vec<Millis>,
}

/// The originals of a collection, page by page in the order of their digests, with what nothing uses.
pub(super) struct OriginalPages {
    stored: ListedKeys,
    marks: ListedKeys,
    used: SortedRecords<DIGEST_BYTES>,
}

impl OriginalPages {
    /// Finds what is used. `open` are the jobs that had not ended before anything else was read: what they claim from then on
    /// is in their entries. A collection without originals costs two listings. `None` if an entry or a claim cannot be
    /// understood.
    pub(super) async fn start(
        blobs: &dyn Blobs,
        collection: &Collection,
        open: &[OpenJob],
    ) -> PortResult<Option<Self>> {
        let mut stored = ListedKeys::below(blob_keys::originals_prefix(collection));
        let marks = ListedKeys::below(blob_keys::unused_originals_prefix(collection));
        let mut used = UsedOriginals::new();
        if stored.peek(blobs).await?.is_some() {
            for job in open {
                if !add_submitted(blobs, job, &mut used).await? {
                    return Ok(None);
                }
            }
            if !add_used(blobs, collection, &mut used).await? {
                return Ok(None);
            }
        }
        Ok(Some(Self {
            stored,
            marks,
            used: used.finish()?,
        }))
    }

    /// What to do about the next thousand originals; `None` after the last.
    pub(super) async fn next_page(
        &mut self,
        blobs: &dyn Blobs,
        collection: &Collection,
        now_ms: Millis,
    ) -> PortResult<Option<OriginalGarbage>> {
        let mut garbage = OriginalGarbage::default();
        for n in 0..PAGE {
            let Some((digest, places)) = self.next_places(blobs).await? else {
                return Ok((n > 0).then_some(garbage));
            };
            let is_unused = !self.is_used(digest)?;
            judge(&mut garbage, collection, digest, &places, is_unused, now_ms);
        }
        Ok(Some(garbage))
    }

    // The next digest with a stored original or mark. What has another name is passed over.
    async fn next_places(&mut self, blobs: &dyn Blobs) -> PortResult<Option<(Digest, Places)>> {
        let mut found: Option<(Digest, Places)> = None;
        loop {
            let stored = self.stored.peek(blobs).await?.map(parse_stored);
            let marked = self.marks.peek(blobs).await?.map(parse_mark);
            let digest_of = |parsed: &Option<Option<StoredName>>| {
                parsed.as_ref().map(|name| name.as_ref().map(|name| name.0))
            };
            // A name that is not a digest sorts first, so that it is passed over.
            let from_stored = match (digest_of(&stored), digest_of(&marked)) {
                (None, None) => return Ok(found),
                (Some(stored), Some(marked)) => stored <= marked,
                (stored, _) => stored.is_some(),
            };
            let name = if from_stored { stored } else { marked }.flatten();
            let Some((digest, place, at_ms)) = name else {
                self.skip(blobs, from_stored).await?;
                continue;
            };
            if found.as_ref().is_some_and(|(known, _)| *known != digest) {
                return Ok(found);
            }
            let (_, places) = found.get_or_insert_with(|| (digest, Places::default()));
            match at_ms {
                Some(at_ms) => places[place].marks.push(at_ms),
                None => places[place].exists = true,
            }
            self.skip(blobs, from_stored).await?;
        }
    }

    async fn skip(&mut self, blobs: &dyn Blobs, stored: bool) -> PortResult<()> {
        let keys = if stored {
            &mut self.stored
        } else {
            &mut self.marks
        };
        keys.next(blobs).await.map(drop)
    }

    // Digests come in order.
    fn is_used(&mut self, digest: Digest) -> PortResult<bool> {
        let digest = record(digest);
        while self.used.peek().is_some_and(|used| *used < digest) {
            self.used.next()?;
        }
        Ok(self.used.peek() == Some(&digest))
    }
}

fn record(digest: Digest) -> [u8; DIGEST_BYTES] {
    let bytes = digest.as_bytes().first_chunk().copied();
    bytes.unwrap_or_default()
}

// Digest, place, and the time of a mark.
type StoredName = (Digest, usize, Option<Millis>);

fn parse_stored(key: &str) -> Option<StoredName> {
    let (digest, place) = blob_keys::parse_original(key)?;
    Some((digest, place, None))
}

fn parse_mark(key: &str) -> Option<StoredName> {
    let (digest, place, at_ms) = blob_keys::parse_unused_original(key)?;
    Some((digest, place, Some(at_ms)))
}

fn judge(
    garbage: &mut OriginalGarbage,
    collection: &Collection,
    digest: Digest,
    places: &Places,
    is_unused: bool,
    now_ms: Millis,
) {
    let keys = blob_keys::original_keys(collection, digest);
    for (n, (key, place)) in keys.iter().zip(places).enumerate() {
        let other = &places[1 - n];
        let is_expired = place
            .marks
            .iter()
            .any(|at_ms| is_past_grace(*at_ms, now_ms));
        if place.exists && is_unused {
            if is_expired {
                garbage
                    .objects
                    .push(GarbageObject::new(key.clone(), "unused original"));
            } else if place.marks.is_empty() && !other.exists && other.marks.is_empty() {
                // Only one of two, so that there is always a key for a submission.
                let mark = blob_keys::unused_original_key(collection, key, now_ms);
                garbage.marks.push(mark);
            }
            continue;
        }
        // The mark stays one collection longer than its object: a submission that saw the object must see the mark too.
        let marks = place.marks.iter().map(|at_ms| {
            GarbageObject::new(
                blob_keys::unused_original_key(collection, key, *at_ms),
                "mark of an original",
            )
        });
        garbage.objects.extend(marks);
    }
}

// What an open job will read, or a submission that is under way. `false` if an entry cannot be understood.
async fn add_submitted(
    blobs: &dyn Blobs,
    job: &OpenJob,
    used: &mut UsedOriginals,
) -> PortResult<bool> {
    let chunks = list_all(blobs, &format!("jobs/{}/entries/", job.job)).await?;
    let mut chunks = stream::iter(chunks)
        .map(async |key: String| Ok::<_, PortError>((blobs.get(&key).await?, key)))
        .buffered(MAX_CONCURRENT_READS);
    while let Some((json, key)) = chunks.try_next().await? {
        let Some(json) = json else {
            continue; // removed meanwhile: its claims were made
        };
        let Ok(submissions) = submissions(&json) else {
            tracing::warn!(entries = key, "not understood; no original is removed");
            return Ok(false);
        };
        for submission in submissions {
            used.push(record(submission.source))?;
            if let Some(labels) = &submission.labels {
                used.push(record(labels.source))?;
            }
        }
    }
    Ok(true)
}

fn submissions(json: &[u8]) -> serde_json::Result<Vec<Submission>> {
    let entries: Vec<jobs::JobEntry> = serde_json::from_slice(json)?;
    let inputs = entries.into_iter().map(|entry| entry.input);
    inputs.map(serde_json::from_value).collect()
}

// What versions use. `false` if one of them cannot be understood.
async fn add_used(
    blobs: &dyn Blobs,
    collection: &Collection,
    all: &mut UsedOriginals,
) -> PortResult<bool> {
    let prefix = blob_keys::documents_prefix(collection);
    let mut after: Option<String> = None;
    loop {
        let page = blobs.children(&prefix, after.as_deref(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(true);
        };
        after = Some(last);
        let docs = page
            .into_iter()
            .filter_map(|name| name.trim_end_matches('/').parse::<DocId>().ok());
        let mut found = stream::iter(docs)
            .map(|doc| used_by_document(blobs, collection, doc))
            .buffer_unordered(MAX_CONCURRENT_READS);
        while let Some(used) = found.try_next().await? {
            let Some(used) = used else {
                return Ok(false);
            };
            for digest in used {
                all.push(record(digest))?;
            }
        }
    }
}

// The sources of the claims and trees that a document has; nothing if it was removed. `None` if one of them was written by
// a newer release.
async fn used_by_document(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
) -> PortResult<Option<Vec<Digest>>> {
    // One listing for both: what else a document has sorts before its trees and versions.
    let scope = blob_keys::document_scope(collection, doc);
    let after = format!("{scope}/trees");
    let keys = list_range(blobs, &format!("{scope}/"), Some(&after), None).await?;
    let seqs: BTreeSet<u64> = keys
        .iter()
        .filter_map(|key| blob_keys::parse_seq(key))
        .collect();
    let mut used = Vec::new();
    for (n, seq) in seqs.iter().rev().enumerate() {
        let claim_key = blob_keys::version_key(collection, doc, *seq);
        let tree_key = blob_keys::tree_key(collection, doc, *seq);
        let has_tree = keys.binary_search(&tree_key).is_ok();
        match read_use(blobs, &claim_key, &tree_key, has_tree).await? {
            Use::Unknown => {
                tracing::warn!(claim = claim_key, "not understood; no original is removed");
                return Ok(None);
            }
            Use::Removal if n == 0 => return Ok(Some(Vec::new())),
            Use::Removal | Use::Nothing => {}
            Use::Originals(digests) => used.extend(digests),
        }
    }
    Ok(Some(used))
}

enum Use {
    /// The document, and its labels.
    Originals(Vec<Digest>),
    /// A tombstone that was written.
    Removal,
    /// A torn object, one that was removed meanwhile, or a tombstone that is not there yet.
    Nothing,
    Unknown,
}

async fn read_use(
    blobs: &dyn Blobs,
    claim_key: &str,
    tree_key: &str,
    has_tree: bool,
) -> PortResult<Use> {
    let claim = blobs.get(claim_key).await?;
    // Torn objects are not JSON, and nobody can use them.
    let claim = claim.and_then(|json| serde_json::from_slice::<serde_json::Value>(&json).ok());
    let run = match claim.map(serde_json::from_value::<Claim>) {
        Some(Err(_)) => return Ok(Use::Unknown),
        Some(Ok(claim)) => claim.into_run(),
        None => None,
    };
    if let Some(run) = run {
        return Ok(match document_version(&run) {
            Err(_) => Use::Unknown,
            Ok(version) if version.origin != Origin::Removed => Use::Originals(originals(&version)),
            Ok(_) if has_tree => Use::Removal,
            Ok(_) => Use::Nothing,
        });
    }
    // A reserved number: an imported tree, or a tombstone.
    let Some(json) = blobs.get(tree_key).await?.filter(|_| has_tree) else {
        return Ok(Use::Nothing);
    };
    Ok(match serde_json::from_slice::<TreeObject>(&json) {
        Ok(TreeObject::Published(tree)) => Use::Originals(originals(&tree.version)),
        Ok(TreeObject::Removed) => Use::Removal,
        Err(_) => Use::Unknown,
    })
}

fn originals(version: &DocumentVersion) -> Vec<Digest> {
    let labels = version.labels.iter().map(|labels| labels.source);
    std::iter::once(version.source).chain(labels).collect()
}
