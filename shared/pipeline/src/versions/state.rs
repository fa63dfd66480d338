//! The versions of a document: claimed numbers, trees and tombstones.

use serde::{Deserialize, Serialize};
use stemma_document::{Collection, CorrectionRef, DocId, blob_keys};
use stemma_engine::Ports;
use stemma_store::blobs::{Blobs, PutOutcome, list_range, put_json};
use stemma_store::{PortResult, RunHeader};

use super::outcome::document_version;

pub(crate) struct VersionState {
    // `None` also if the newest claim was torn.
    pub(super) newest: Option<RunHeader>,
    // What the newest readable claim says, unless the document was removed.
    pub(crate) correction: Option<CorrectionRef>,
    // Greater than all claims and tombstones.
    pub(super) next: u64,
    // Whether the document was removed after the newest claim.
    pub(super) removed: bool,
}

pub(crate) async fn load_versions(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
) -> PortResult<VersionState> {
    // One listing for both: what else a document has sorts before its trees and versions.
    let scope = blob_keys::document_scope(collection, doc);
    let after = format!("{scope}/trees");
    let keys = list_range(blobs, &format!("{scope}/"), Some(&after), None).await?;
    let of_prefix = |prefix: &str| -> Vec<String> {
        let keys = keys.iter().filter(|key| key.starts_with(prefix));
        keys.cloned().collect()
    };
    let claims = of_prefix(&blob_keys::versions_prefix(collection, doc));
    let trees = of_prefix(&blob_keys::trees_prefix(collection, doc));
    let claimed = highest_seq(&claims);
    let finished = highest_seq(&trees);
    let last = match claims.last() {
        Some(key) => read_claim(blobs, key).await?,
        None => None,
    };
    let is_reserved = matches!(last, Some(Claim::Reserved { reserved: true }));
    let removed = finished > claimed || (finished == claimed && is_reserved);
    // A claim torn by a power loss is skipped: the next number is claimed instead.
    let newest = last.and_then(Claim::into_run);
    // A torn claim must not lose the work of a person, so the one before it is read.
    let mut readable = newest.clone();
    for key in claims.iter().rev().skip(1) {
        if removed || readable.is_some() {
            break;
        }
        readable = read_claim(blobs, key).await?.and_then(Claim::into_run);
    }
    let correction = readable
        .filter(|_| !removed)
        .and_then(|claim| document_version(&claim).ok()?.correction)
        .map(|correction| *correction);
    Ok(VersionState {
        newest,
        correction,
        next: claimed.max(finished) + 1,
        removed,
    })
}

/// Claims the next version number of a document for an object that no run makes: a tombstone, or an imported tree. Runs
/// claim their numbers under the same keys, so no run and no other writer gets this number.
pub(crate) async fn reserve_version(
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
) -> PortResult<u64> {
    loop {
        let seq = load_versions(&ports.blobs, collection, doc).await?.next;
        let key = blob_keys::version_key(collection, doc, seq);
        let reservation = Claim::Reserved { reserved: true };
        if put_json(&ports.blobs, &key, &reservation).await? == PutOutcome::Created {
            return Ok(seq);
        }
    }
}

/// Who has a version number.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Claim {
    Run(Box<RunHeader>),
    Reserved { reserved: bool },
}

impl Claim {
    pub(crate) fn into_run(self) -> Option<RunHeader> {
        match self {
            Claim::Run(header) => Some(*header),
            Claim::Reserved { .. } => None,
        }
    }
}

// `None` if the claim was torn.
async fn read_claim(blobs: &dyn Blobs, key: &str) -> PortResult<Option<Claim>> {
    let json = blobs.get(key).await?;
    Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
}

// Keys are sorted by version number; 0 if there are none.
fn highest_seq(keys: &[String]) -> u64 {
    keys.last()
        .and_then(|key| blob_keys::parse_seq(key))
        .unwrap_or(0)
}
