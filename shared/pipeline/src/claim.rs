//! Claiming: a submitted document becomes one version and one run, whoever submits it how often.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{Collection, Digest, DocId, DocumentVersion, Origin, TreeObject, layout};
use stemma_engine::blobs::{Put, list_all};
use stemma_engine::coordinate::run_failure_key;
use stemma_engine::flow::{Claim, Flow, JobEntry, Manifest};
use stemma_engine::message::Ending;
use stemma_engine::port::ask;
use stemma_engine::s3::Entry;
use stemma_engine::{Env, PortError, Ports, RunHeader, RunId, RunRef};

use crate::originals::object_uri;
use crate::stages::{Published, published};
use crate::{Filings, model};

/// A document as submitted: what [`JobEntry::input`] holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Canonical place of the bytes, e.g. `file:///archive/a.pdf` or `s3://filings/a%20b.pdf`.
    pub uri: String,
    /// File name, for display.
    pub name: String,
    /// Folder path below the place it was submitted from, and the name.
    pub path: String,
    /// Identifies the bytes, in the way that `origin` says: another one is another version.
    pub source: Digest,
    /// How they are identified: files by content, objects by their ETag.
    #[serde(skip_serializing_if = "is_content", default)]
    pub origin: Origin,
    /// Size of the bytes.
    pub size_bytes: u64,
    /// Facts a sidecar states about it, by their names in [`crate::stated::NAMES`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub stated: BTreeMap<String, String>,
    /// Whether a version that failed before, or about which a model left questions unanswered, is tried again, as a new
    /// version.
    pub retry_failed: bool,
}

fn is_content(origin: &Origin) -> bool {
    *origin == Origin::Content
}

impl Submission {
    /// The word that a document at `uri` was removed: its next version is a tombstone.
    pub fn removed(uri: String, path: String) -> Self {
        Self {
            name: path.rsplit('/').next().unwrap_or_default().into(),
            uri,
            path,
            source: Digest::of(b""),
            origin: Origin::Removed,
            size_bytes: 0,
            stated: BTreeMap::new(),
            retry_failed: false,
        }
    }

    /// An object of a bucket, found below the prefix `below`.
    pub fn of_object(bucket: &str, below: &str, entry: &Entry) -> Self {
        let path = entry
            .key
            .strip_prefix(below)
            .unwrap_or(&entry.key)
            .trim_start_matches('/');
        let path = if path.is_empty() {
            entry.key.as_str()
        } else {
            path
        };
        Self {
            uri: object_uri(bucket, &entry.key),
            name: entry.key.rsplit('/').next().unwrap_or_default().into(),
            path: path.into(),
            source: Digest::of_object(&entry.etag, entry.size_bytes),
            origin: Origin::Object {
                etag: entry.etag.clone(),
                version: entry.version.clone(),
            },
            size_bytes: entry.size_bytes,
            stated: BTreeMap::new(),
            retry_failed: false,
        }
    }
}

impl Submission {
    /// What to submit to have the document of a run again; `None` where the run is of no document.
    pub fn again(run: &RunHeader) -> Option<Self> {
        let version: DocumentVersion = serde_json::from_value(run.input.clone()).ok()?;
        let DocumentVersion {
            uri,
            name,
            path,
            source,
            origin,
            size_bytes,
            stated,
            ..
        } = version;
        Some(Self {
            uri,
            name,
            path,
            source,
            origin,
            size_bytes,
            stated,
            retry_failed: true,
        })
    }
}

/// The name of a run.
pub fn run_id(doc: DocId, seq: u64) -> RunId {
    RunId(format!("{doc}-{seq}"))
}

/// Where the header of a run lies that [`run_id`] named; `None` for another name.
pub fn header_key(collection: &str, run: &RunId) -> Option<String> {
    let (doc, seq) = run.0.rsplit_once('-')?;
    Some(layout::version_key(
        &collection.parse().ok()?,
        doc.parse().ok()?,
        seq.parse().ok()?,
    ))
}

/// What is known of a document's versions.
struct Versions {
    /// The newest claim.
    newest: Option<RunHeader>,
    /// The next free number: above all claims and tombstones.
    next: u64,
    /// Whether the document was removed after the newest claim.
    removed: bool,
}

pub(crate) async fn claim(
    env: &Env,
    ports: &Ports,
    job: &Manifest,
    entry: &JobEntry,
) -> Result<Claim, PortError> {
    let wrong = |error: &dyn std::fmt::Display| {
        PortError::lasting("blobs", "claim", format!("job {}: {error}", job.job))
    };
    let submission: Submission =
        serde_json::from_value(entry.input.clone()).map_err(|error| wrong(&error))?;
    let collection: Collection = job.collection.parse().map_err(|error| wrong(&error))?;
    let doc = DocId::of(&collection, &submission.uri);
    loop {
        let versions = versions(env, ports, &collection, doc).await?;
        if let Some(newest) = versions
            .newest
            .filter(|newest| !versions.removed && same(newest, &submission, job))
        {
            match ending(env, ports, &newest).await? {
                None => return Ok(Claim::Run(newest)),
                // Its run is over; a new version goes on from what it made.
                Some(Ending::Cancelled) => {}
                Some(Ending::Failed(_))
                    if submission.retry_failed && newest.opened_by != job.job => {}
                Some(Ending::DoneWithGaps(_))
                    if submission.retry_failed
                        && newest.opened_by != job.job
                        && is_unanswered(env, ports, &collection, &newest).await? => {}
                Some(ended @ Ending::Failed(_)) => return Ok(Claim::Ended(ended)),
                Some(ended) if newest.opened_by == job.job => return Ok(Claim::Ended(ended)),
                Some(_) => return Ok(Claim::Ended(Ending::Unchanged)),
            }
        }
        if submission.origin == Origin::Removed && (versions.next == 1 || versions.removed) {
            return Ok(Claim::Ended(Ending::Unchanged)); // nothing is there to be removed
        }
        let header = header(job, &collection, doc, versions.next, submission.clone())?;
        let json = serde_json::to_vec(&header).map_err(|error| wrong(&error))?;
        if ask(env, || {
            ports.blobs.put(&header.at.header, json.clone().into())
        })
        .await?
            == Put::Created
        {
            return Ok(Claim::Run(header));
        }
        // Someone else claimed this number: look again, it may be the same version.
    }
}

/// Whether the tree of a version has gaps because a model did not answer: asked again, it may.
async fn is_unanswered(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    run: &RunHeader,
) -> Result<bool, PortError> {
    let Ok(version) = serde_json::from_value::<DocumentVersion>(run.input.clone()) else {
        return Ok(false);
    };
    let key = layout::tree_key(collection, version.doc, version.seq);
    let json = ask(env, || ports.blobs.get(&key)).await?;
    Ok(
        match json.and_then(|json| serde_json::from_slice(&json).ok()) {
            Some(TreeObject::Published(published)) => published
                .tree
                .gaps
                .iter()
                .any(|gap| model::is_unanswered(&gap.code)),
            Some(TreeObject::Removed) | None => false,
        },
    )
}

/// How a run ended, from the blobs alone.
pub(crate) async fn ending(
    env: &Env,
    ports: &Ports,
    run: &RunHeader,
) -> Result<Option<Ending>, PortError> {
    let version: DocumentVersion = serde_json::from_value(run.input.clone()).map_err(|error| {
        PortError::lasting(
            "blobs",
            "get",
            format!("run header {}: {error}", run.at.header),
        )
    })?;
    if let Some(Published { gaps }) = published(env, ports, &run.at.scope, &version).await? {
        return Ok(Some(if gaps == 0 {
            Ending::Done
        } else {
            Ending::DoneWithGaps(gaps)
        }));
    }
    let key = run_failure_key(&run.at.run);
    let Some(json) = ask(env, || ports.blobs.get(&key)).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&json)
        .map(|record| Some(Ending::of_record(record)))
        .map_err(|error| {
            PortError::lasting("blobs", "get", format!("{key} cannot be read: {error}"))
        })
}

/// Whether a run of the document at `uri` is open: its newest claim has neither a tree nor a failure.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn in_work(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    uri: &str,
) -> Result<bool, PortError> {
    let versions = versions(env, ports, collection, DocId::of(collection, uri)).await?;
    match versions.newest.filter(|_| !versions.removed) {
        Some(newest) => Ok(ending(env, ports, &newest).await?.is_none()),
        None => Ok(false),
    }
}

/// The next free version number of a document: above all claims, trees and tombstones.
pub(crate) async fn next_version(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
) -> Result<u64, PortError> {
    Ok(versions(env, ports, collection, doc).await?.next)
}

async fn versions(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    doc: DocId,
) -> Result<Versions, PortError> {
    let blobs = ports.blobs.as_ref();
    let claims = layout::versions_prefix(collection, doc);
    let trees = layout::trees_prefix(collection, doc);
    let claims = ask(env, || list_all(blobs, &claims)).await?;
    let trees = ask(env, || list_all(blobs, &trees)).await?;
    let highest = |keys: &[String]| keys.last().and_then(|key| layout::seq_of(key)).unwrap_or(0);
    let claimed = highest(&claims);
    let finished = highest(&trees);
    let newest = match claims.last() {
        // A claim that a power loss tore is passed over: the next number is claimed instead.
        Some(key) => ask(env, || blobs.get(key))
            .await?
            .and_then(|json| serde_json::from_slice(&json).ok()),
        None => None,
    };
    Ok(Versions {
        newest,
        next: claimed.max(finished) + 1,
        removed: finished > claimed,
    })
}

/// Whether a claim is of the same bytes, stated to be the same, under the same settings.
fn same(newest: &RunHeader, submission: &Submission, job: &Manifest) -> bool {
    let Ok(version) = serde_json::from_value::<DocumentVersion>(newest.input.clone()) else {
        return false;
    };
    let described = version.stated == submission.stated;
    version.source == submission.source
        && (version.origin == Origin::Removed) == (submission.origin == Origin::Removed)
        && described
        && newest.settings == job.settings
        && newest.flow_revision == Filings::REVISION
}

fn header(
    job: &Manifest,
    collection: &Collection,
    doc: DocId,
    seq: u64,
    submission: Submission,
) -> Result<RunHeader, PortError> {
    let Submission {
        uri,
        name,
        path,
        source,
        origin,
        size_bytes,
        stated,
        ..
    } = submission;
    let wrong = |error: &dyn std::fmt::Display| {
        PortError::lasting("blobs", "claim", format!("{path}: {error}"))
    };
    let settings = job.settings.clone();
    let version = DocumentVersion {
        doc,
        seq,
        uri,
        name,
        path: path.clone(),
        source,
        origin,
        size_bytes,
        settings,
        stated,
    };
    Ok(RunHeader {
        at: RunRef {
            run: run_id(doc, seq),
            header: layout::version_key(collection, doc, seq),
            scope: layout::document_scope(collection, doc),
        },
        settings: job.settings.clone(),
        flow_revision: Filings::REVISION,
        class: job.class,
        opened_by: job.job.clone(),
        input: serde_json::to_value(version).map_err(|error| wrong(&error))?,
    })
}

#[cfg(test)]
mod tests {
    use stemma_engine::flow::Terms;
    use stemma_engine::{Class, JobId};

    use super::*;

    fn entry(text: &str) -> JobEntry {
        let submission = Submission {
            uri: "file:///a.md".into(),
            name: "a.md".into(),
            path: "a.md".into(),
            source: Digest::of(text.as_bytes()),
            origin: Origin::Content,
            size_bytes: text.len() as u64,
            stated: BTreeMap::new(),
            retry_failed: false,
        };
        JobEntry {
            weight: 1,
            input: serde_json::to_value(submission).unwrap(),
        }
    }

    fn job() -> Manifest {
        let collection = Collection::default().to_string();
        let job = JobId("job".into());
        let settings = "s".into();
        Manifest {
            job,
            collection,
            settings,
            class: Class::Bulk,
            entries: 1,
            submitted_ms: 0,
            terms: Terms::default(),
        }
    }

    async fn claimed(env: &Env, ports: &Ports, text: &str) -> RunHeader {
        match claim(env, ports, &job(), &entry(text)).await.unwrap() {
            Claim::Run(header) => header,
            Claim::Ended(ending) => panic!("{ending:?}"),
        }
    }

    #[tokio::test]
    async fn what_was_claimed_under_older_revisions_is_claimed_anew() {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        let first = claimed(&env, &ports, "text").await;
        assert_eq!(claimed(&env, &ports, "text").await, first);
        assert_eq!(
            claimed(&env, &ports, "other text").await.at.run.0,
            first.at.run.0.replace("-1", "-2")
        );

        let env = Env::simulated(1);
        let ports = Ports::memory();
        let older = RunHeader {
            flow_revision: first.flow_revision - 1,
            ..first
        };
        ports
            .blobs
            .put(&older.at.header, serde_json::to_vec(&older).unwrap().into())
            .await
            .unwrap();
        let anew = claimed(&env, &ports, "text").await;
        assert_ne!(anew.at.run, older.at.run);
        assert_eq!(claimed(&env, &ports, "text").await, anew);
    }

    #[tokio::test]
    async fn an_object_is_the_same_until_its_etag_or_size_is_another() {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        let seen = Entry {
            key: "in/2022/a b.pdf".into(),
            size_bytes: 5,
            etag: "e".into(),
            modified_ms: 0,
            version: None,
        };
        let versioned = Entry {
            modified_ms: 9,
            version: Some("v2".into()),
            ..seen.clone()
        };
        let changed = Entry {
            etag: "f".into(),
            ..seen.clone()
        };
        let submission = Submission::of_object("filings", "in/", &seen);
        assert_eq!(
            (submission.uri.as_str(), submission.path.as_str()),
            ("s3://filings/in/2022/a%20b.pdf", "2022/a b.pdf")
        );
        assert_eq!(submission.name, "a b.pdf");
        let mut runs = Vec::new();
        for entry in [&seen, &versioned, &changed] {
            let input =
                serde_json::to_value(Submission::of_object("filings", "in/", entry)).unwrap();
            match claim(&env, &ports, &job(), &JobEntry { weight: 1, input })
                .await
                .unwrap()
            {
                Claim::Run(header) => runs.push(header.at.run),
                Claim::Ended(ending) => panic!("{ending:?}"),
            }
        }
        assert!(runs[0] == runs[1] && runs[1] != runs[2], "{runs:?}");
    }

    #[test]
    fn a_higher_stage_is_a_higher_flow() {
        let stages: u32 = crate::stages::REVISIONS
            .iter()
            .map(|(_, revision)| revision)
            .sum();
        let asking: u32 = crate::stages::MODEL_REVISIONS
            .iter()
            .map(|(_, revision)| revision - 1)
            .sum();
        assert_eq!(Filings::REVISION - stages - asking, crate::flow::FLOW);
    }
}
