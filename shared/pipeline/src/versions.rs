//! Claims versions: a submitted document becomes one version and one run, however often and by whomever it is
//! submitted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{
    Collection, CorrectionRef, Digest, DocId, DocumentVersion, Origin, TreeObject, blob_keys,
};
use stemma_engine::blobs::{Blobs, PutOutcome, list_all, put_json};
use stemma_engine::flow::{ClaimOutcome, Flow, JobEntry, JobManifest};
use stemma_engine::key::run_failure_key;
use stemma_engine::message::RunOutcome;
use stemma_engine::s3::ObjectMeta;
use stemma_engine::{
    Failure, FailureRecord, PortError, PortResult, Ports, RunHeader, RunId, RunRef, TaskKey,
    TaskKeyBuilder, artifact,
};

use crate::FilingFlow;
use crate::sources::object_uri;

/// Name and revision of the stages that publish and withdraw. They stand here because a publication is looked
/// up by the key of its task, without running the flow.
pub(crate) const PUBLISH: (&str, u32) = ("publish", 1);
pub(crate) const WITHDRAW: (&str, u32) = ("withdraw", 1);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PublishOutcome {
    /// Number of gaps in the tree that are warnings.
    pub(crate) gaps: u32,
}

/// A submitted document: the content of [`JobEntry::input`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Canonical location of the bytes, e.g. `file:///archive/a.pdf` or `s3://filings/a%20b.pdf`.
    pub uri: String,
    /// File name, for display.
    pub name: String,
    /// Path relative to the submitted folder, including the name.
    pub path: String,
    /// Identifies the bytes as `origin` says. Another value is another version.
    pub source: Digest,
    /// How the bytes are identified: files by content, objects by their ETag.
    #[serde(skip_serializing_if = "is_content", default)]
    pub origin: Origin,
    pub size_bytes: u64,
    /// Facts of a sidecar, by the names in [`FACT_NAMES`](crate::external_metadata::FACT_NAMES).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub stated: BTreeMap<String, String>,
    /// Tries a version again, as a new version, if it failed before or if a model left questions unanswered.
    pub retry_failed: bool,
    #[serde(skip_serializing_if = "CorrectionChange::is_keep", default)]
    pub correction: CorrectionChange,
}

/// What a submission does to the structure that a person gave the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CorrectionChange {
    /// Keeps it: every submission of a file.
    #[default]
    Keep,
    Set {
        correction: CorrectionRef,
        /// The correction that the person saw. If the document has another one by now, the submission is refused.
        replaces: Option<CorrectionRef>,
    },
    /// Removes it, so that rules or a model decide again.
    Reset,
}

impl CorrectionChange {
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

fn is_content(origin: &Origin) -> bool {
    *origin == Origin::Content
}

impl Submission {
    /// Reports that the document at `uri` was removed. Its next version is a tombstone.
    pub fn for_removal(uri: String, path: String) -> Self {
        Self {
            name: path.rsplit('/').next().unwrap_or_default().into(),
            uri,
            path,
            source: Digest::from_content(b""),
            origin: Origin::Removed,
            size_bytes: 0,
            stated: BTreeMap::new(),
            retry_failed: false,
            correction: CorrectionChange::Keep,
        }
    }

    /// An object of a bucket, found under the prefix `below`.
    pub fn from_object(bucket: &str, below: &str, entry: &ObjectMeta) -> Self {
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
            source: Digest::from_object(&entry.etag, entry.size_bytes),
            origin: Origin::Object {
                etag: entry.etag.clone(),
                version: entry.version.clone(),
            },
            size_bytes: entry.size_bytes,
            stated: BTreeMap::new(),
            retry_failed: false,
            correction: CorrectionChange::Keep,
        }
    }

    /// The submission that repeats the document of a run; `None` if the run has no document.
    pub fn resubmit(run: &RunHeader) -> Option<Self> {
        let version: DocumentVersion = serde_json::from_value(run.input.clone()).ok()?;
        Some(Self::for_version(version))
    }

    /// The submission that repeats a version.
    pub(crate) fn for_version(version: DocumentVersion) -> Self {
        Self {
            uri: version.uri,
            name: version.name,
            path: version.path,
            source: version.source,
            origin: version.origin,
            size_bytes: version.size_bytes,
            stated: version.sidecar_facts,
            retry_failed: true,
            correction: CorrectionChange::Keep,
        }
    }
}

pub fn run_id(doc: DocId, seq: u64) -> RunId {
    RunId(format!("{doc}-{seq}"))
}

/// The key of the header of a run; `None` if [`run_id`] did not make the name.
pub fn header_key(collection: &str, run: &RunId) -> Option<String> {
    let (doc, seq) = run.0.rsplit_once('-')?;
    Some(blob_keys::version_key(
        &collection.parse().ok()?,
        doc.parse().ok()?,
        seq.parse().ok()?,
    ))
}

pub(crate) struct VersionState {
    // `None` also if the newest claim was torn.
    newest: Option<RunHeader>,
    // What the newest readable claim says, unless the document was removed.
    pub(crate) correction: Option<CorrectionRef>,
    // Greater than all claims and tombstones.
    next: u64,
    // Whether the document was removed after the newest claim.
    removed: bool,
}

fn claim_error(subject: &str, error: &dyn std::fmt::Display) -> PortError {
    PortError::permanent("blobs.claim", format!("{subject}: {error}"))
}

pub(crate) async fn claim_version(
    ports: &Ports,
    job: &JobManifest,
    entry: &JobEntry,
) -> PortResult<ClaimOutcome> {
    let submission: Submission = serde_json::from_value(entry.input.clone())
        .map_err(|error| claim_error(&format!("job {}", job.job), &error))?;
    let collection: Collection = job
        .collection
        .parse()
        .map_err(|error| claim_error(&format!("job {}", job.job), &error))?;
    let doc = DocId::new(&collection, &submission.uri);
    loop {
        let versions = load_versions(&ports.blobs, &collection, doc).await?;
        let correction = match submission.correction {
            CorrectionChange::Keep if submission.origin != Origin::Removed => versions.correction,
            CorrectionChange::Set { correction, .. } => Some(correction),
            CorrectionChange::Keep | CorrectionChange::Reset => None,
        };
        let newest = versions.newest.as_ref().filter(|_| !versions.removed);
        if let Some(newest) = newest
            .filter(|newest| is_same_version(newest, &submission, correction, job))
            .cloned()
        {
            // A failed run is repeated only by another job: a job that repeated its own failures would never end.
            match run_outcome(ports, &newest).await? {
                None => return Ok(ClaimOutcome::Run(newest)),
                // The run is over. A new version continues from its artifacts.
                Some(RunOutcome::Cancelled) => {}
                Some(RunOutcome::Failed(_))
                    if submission.retry_failed && newest.opened_by != job.job => {}
                Some(RunOutcome::DoneWithGaps(_))
                    if submission.retry_failed
                        && newest.opened_by != job.job
                        && has_unanswered_gaps(ports, &collection, &newest).await? => {}
                Some(ended @ RunOutcome::Failed(_)) => return Ok(ClaimOutcome::Ended(ended)),
                Some(ended) if newest.opened_by == job.job => {
                    return Ok(ClaimOutcome::Ended(ended));
                }
                Some(_) => return Ok(ClaimOutcome::Ended(RunOutcome::Unchanged)),
            }
        }
        if submission.origin == Origin::Removed && (versions.next == 1 || versions.removed) {
            return Ok(ClaimOutcome::Ended(RunOutcome::Unchanged)); // nothing to remove
        }
        if is_outdated(ports, &submission, &versions).await? {
            return Ok(ClaimOutcome::Ended(outdated_correction()));
        }
        let header = run_header(
            job,
            &collection,
            doc,
            versions.next,
            submission.clone(),
            correction,
        )?;
        let json = serde_json::to_vec(&header)
            .map_err(|error| claim_error(&format!("job {}", job.job), &error))?;
        if ports.blobs.put(&header.at.header, json.into()).await? == PutOutcome::Created {
            return Ok(ClaimOutcome::Run(header));
        }
        // Someone else claimed this number. Read the versions again: it may be the same one.
    }
}

// Whether someone else corrected the document, or its bytes changed, since the person of this submission saw it. A version
// that failed changed nothing that a person could see.
async fn is_outdated(
    ports: &Ports,
    submission: &Submission,
    versions: &VersionState,
) -> PortResult<bool> {
    let CorrectionChange::Set { replaces, .. } = submission.correction else {
        return Ok(false);
    };
    if versions.removed || versions.next == 1 {
        return Ok(true);
    }
    let is_seen = versions.correction == replaces;
    let Some(newest) = &versions.newest else {
        return Ok(!is_seen); // torn, so nobody could see it
    };
    let source = document_version(newest).map(|version| version.source);
    if is_seen && source.is_ok_and(|source| source == submission.source) {
        return Ok(false);
    }
    let outcome = run_outcome(ports, newest).await?;
    Ok(!matches!(
        outcome,
        Some(RunOutcome::Failed(_) | RunOutcome::Cancelled)
    ))
}

fn outdated_correction() -> RunOutcome {
    let failure = Failure::permanent(
        "outline.outdated",
        "the document was changed after its outline was exported",
    )
    .with_next("export the outline again and repeat the changes");
    RunOutcome::Failed(FailureRecord::new(failure, "submit", 1, 0))
}

// Whether the code of a gap says that a model did not answer. `model.method_failed` does not: the model
// answered, and the method was given up.
fn is_unanswered(code: &str) -> bool {
    code.starts_with("model.") && code.ends_with("_failed") && code != "model.method_failed"
}

// Such a version can be tried again: the model may answer this time.
async fn has_unanswered_gaps(
    ports: &Ports,
    collection: &Collection,
    run: &RunHeader,
) -> PortResult<bool> {
    let Ok(version) = serde_json::from_value::<DocumentVersion>(run.input.clone()) else {
        return Ok(false);
    };
    let key = blob_keys::tree_key(collection, version.doc, version.seq);
    let json = ports.blobs.get(&key).await?;
    Ok(
        match json.and_then(|json| serde_json::from_slice(&json).ok()) {
            Some(TreeObject::Published(published)) => published
                .tree
                .gaps
                .iter()
                .any(|gap| is_unanswered(&gap.code)),
            Some(TreeObject::Removed) | None => false,
        },
    )
}

pub(crate) fn document_version(run: &RunHeader) -> Result<DocumentVersion, Failure> {
    serde_json::from_value(run.input.clone()).map_err(|error| {
        Failure::permanent(
            "engine.header_invalid",
            format!("{}: {error}", run.at.header),
        )
    })
}

pub(crate) fn identify_version(identity: &mut TaskKeyBuilder, doc: DocId, seq: u64) {
    identity.bytes(doc.as_bytes()).number(seq);
}

// `None` while the tree (or tombstone) or the change record of the version may be missing.
async fn publish_outcome(
    ports: &Ports,
    scope: &str,
    version: &DocumentVersion,
) -> PortResult<Option<PublishOutcome>> {
    let (name, revision) = match version.origin {
        Origin::Removed => WITHDRAW,
        _ => PUBLISH,
    };
    let mut identity = TaskKey::builder(name, revision);
    identify_version(&mut identity, version.doc, version.seq);
    let key = identity.finish();
    let outcome = artifact::outcome(&ports.blobs, scope, &key).await?;
    Ok(outcome.and_then(|outcome| serde_json::from_slice(&outcome).ok()))
}

/// How a run ended, derived from blobs alone.
pub(crate) async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
    let version: DocumentVersion = serde_json::from_value(run.input.clone()).map_err(|error| {
        PortError::permanent(
            "blobs.get",
            format!("run header {}: {error}", run.at.header),
        )
    })?;
    if let Some(PublishOutcome { gaps }) = publish_outcome(ports, &run.at.scope, &version).await? {
        return Ok(Some(if gaps == 0 {
            RunOutcome::Done
        } else {
            RunOutcome::DoneWithGaps(gaps)
        }));
    }
    let key = run_failure_key(&run.at.run);
    let Some(json) = ports.blobs.get(&key).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&json)
        .map(|record| Some(RunOutcome::from_record(record)))
        .map_err(|error| {
            PortError::permanent("blobs.get", format!("{key} cannot be read: {error}"))
        })
}

/// Whether the newest claim of the document at `uri` has neither a tree nor a failure.
pub async fn has_open_run(ports: &Ports, collection: &Collection, uri: &str) -> PortResult<bool> {
    let versions = load_versions(&ports.blobs, collection, DocId::new(collection, uri)).await?;
    match versions.newest.filter(|_| !versions.removed) {
        Some(newest) => Ok(run_outcome(ports, &newest).await?.is_none()),
        None => Ok(false),
    }
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

pub(crate) async fn load_versions(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
) -> PortResult<VersionState> {
    let claims = blob_keys::versions_prefix(collection, doc);
    let trees = blob_keys::trees_prefix(collection, doc);
    let claims = list_all(blobs, &claims).await?;
    let trees = list_all(blobs, &trees).await?;
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
        .and_then(|claim| document_version(&claim).ok()?.correction);
    Ok(VersionState {
        newest,
        correction,
        next: claimed.max(finished) + 1,
        removed,
    })
}

/// Who has a version number.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Claim {
    Run(Box<RunHeader>),
    Reserved { reserved: bool },
}

impl Claim {
    fn into_run(self) -> Option<RunHeader> {
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

// Same bytes, same sidecar facts, same correction, same settings and the same flow revision.
fn is_same_version(
    newest: &RunHeader,
    submission: &Submission,
    correction: Option<CorrectionRef>,
    job: &JobManifest,
) -> bool {
    let Ok(version) = serde_json::from_value::<DocumentVersion>(newest.input.clone()) else {
        return false;
    };
    version.source == submission.source
        && (version.origin == Origin::Removed) == (submission.origin == Origin::Removed)
        && version.sidecar_facts == submission.stated
        && version.correction == correction
        && newest.settings == job.settings
        && newest.flow_revision == FilingFlow::REVISION
}

fn run_header(
    job: &JobManifest,
    collection: &Collection,
    doc: DocId,
    seq: u64,
    submission: Submission,
    correction: Option<CorrectionRef>,
) -> PortResult<RunHeader> {
    let version = DocumentVersion {
        doc,
        seq,
        uri: submission.uri,
        name: submission.name,
        path: submission.path,
        source: submission.source,
        origin: submission.origin,
        size_bytes: submission.size_bytes,
        settings: job.settings.clone(),
        sidecar_facts: submission.stated,
        correction,
    };
    Ok(RunHeader {
        at: RunRef {
            run: run_id(doc, seq),
            header: blob_keys::version_key(collection, doc, seq),
            scope: blob_keys::document_scope(collection, doc),
        },
        settings: job.settings.clone(),
        flow_revision: FilingFlow::REVISION,
        class: job.class,
        opened_by: job.job.clone(),
        input: serde_json::to_value(&version)
            .map_err(|error| claim_error(&version.path, &error))?,
    })
}

#[cfg(test)]
mod tests {
    use stemma_engine::flow::JobOptions;
    use stemma_engine::{JobId, Priority};

    use stemma_engine::Env;

    use super::*;

    fn entry(text: &str) -> JobEntry {
        entry_with(text, CorrectionChange::Keep)
    }

    fn entry_with(text: &str, correction: CorrectionChange) -> JobEntry {
        let submission = Submission {
            uri: "file:///a.md".into(),
            name: "a.md".into(),
            path: "a.md".into(),
            source: Digest::from_content(text.as_bytes()),
            origin: Origin::Content,
            size_bytes: text.len() as u64,
            stated: BTreeMap::new(),
            retry_failed: false,
            correction,
        };
        JobEntry {
            weight: 1,
            input: serde_json::to_value(submission).unwrap(),
        }
    }

    fn job() -> JobManifest {
        let collection = Collection::default().to_string();
        let job = JobId("job".into());
        let settings = "s".into();
        JobManifest {
            job,
            collection,
            settings,
            class: Priority::Bulk,
            entries: 1,
            submitted_ms: 0,
            terms: JobOptions::default(),
        }
    }

    async fn claim_run(ports: &Ports, text: &str) -> RunHeader {
        match claim_version(ports, &job(), &entry(text)).await.unwrap() {
            ClaimOutcome::Run(header) => header,
            ClaimOutcome::Ended(ending) => panic!("{ending:?}"),
        }
    }

    #[tokio::test]
    async fn older_flow_revision_is_claimed_again() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let first = claim_run(&ports, "text").await;
        assert_eq!(claim_run(&ports, "text").await, first);
        assert_eq!(
            claim_run(&ports, "other text").await.at.run.0,
            first.at.run.0.replace("-1", "-2")
        );

        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let older = RunHeader {
            flow_revision: first.flow_revision - 1,
            ..first
        };
        ports
            .blobs
            .put(&older.at.header, serde_json::to_vec(&older).unwrap().into())
            .await
            .unwrap();
        let anew = claim_run(&ports, "text").await;
        assert_ne!(anew.at.run, older.at.run);
        assert_eq!(claim_run(&ports, "text").await, anew);
    }

    fn set(text: &str, headings: &str, replaces: Option<CorrectionRef>) -> CorrectionChange {
        let correction = CorrectionRef {
            headings: Digest::from_content(headings.as_bytes()),
            source: Digest::from_content(text.as_bytes()),
            content: None,
        };
        CorrectionChange::Set {
            correction,
            replaces,
        }
    }

    async fn claim_entry(ports: &Ports, entry: &JobEntry) -> ClaimOutcome {
        claim_version(ports, &job(), entry).await.unwrap()
    }

    async fn claim_change(ports: &Ports, text: &str, change: CorrectionChange) -> DocumentVersion {
        match claim_entry(ports, &entry_with(text, change)).await {
            ClaimOutcome::Run(header) => document_version(&header).unwrap(),
            ClaimOutcome::Ended(ending) => panic!("{ending:?}"),
        }
    }

    #[tokio::test]
    async fn a_correction_is_kept_until_it_is_reset() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        claim_run(&ports, "text").await;
        let corrected = claim_change(&ports, "text", set("text", "a", None)).await;
        assert_eq!(
            (corrected.seq, corrected.applied_correction(None).is_some()),
            (2, true)
        );
        let keep = CorrectionChange::Keep;
        assert_eq!(
            claim_change(&ports, "text", keep).await,
            corrected,
            "the same version"
        );

        let changed = claim_change(&ports, "other text", keep).await;
        assert_eq!(changed.correction, corrected.correction);
        assert_eq!(
            changed.applied_correction(None),
            None,
            "made for other bytes"
        );
        let back = claim_change(&ports, "text", keep).await;
        assert_eq!(
            back.applied_correction(None),
            corrected.applied_correction(None)
        );

        let reset = claim_change(&ports, "text", CorrectionChange::Reset).await;
        assert_eq!((reset.seq, reset.correction), (5, None));
        assert_eq!(claim_change(&ports, "text", keep).await, reset);
    }

    #[tokio::test]
    async fn newer_rules_and_torn_claims_keep_the_correction() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let first = claim_run(&ports, "text").await;
        let corrected = claim_change(&ports, "text", set("text", "a", None)).await;
        let mut older = first;
        older.flow_revision -= 1;
        older.at.header = older.at.header.replace("1.json", "3.json");
        older.input = serde_json::to_value(DocumentVersion {
            seq: 3,
            ..corrected.clone()
        })
        .unwrap();
        let json = serde_json::to_vec(&older).unwrap();
        ports
            .blobs
            .put(&older.at.header, json.into())
            .await
            .unwrap();
        let torn = older.at.header.replace("3.json", "4.json");
        ports.blobs.put(&torn, "{".into()).await.unwrap();
        let anew = claim_change(&ports, "text", CorrectionChange::Keep).await;
        assert_eq!((anew.seq, anew.correction), (5, corrected.correction));
    }

    #[tokio::test]
    async fn the_second_of_two_corrections_of_one_version_is_refused() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        claim_run(&ports, "text").await;
        let first = claim_change(&ports, "text", set("text", "a", None)).await;
        for late in [
            set("text", "b", None),
            set("other text", "b", first.correction),
        ] {
            let text = match late {
                CorrectionChange::Set { replaces: None, .. } => "text",
                _ => "other text",
            };
            let outcome = claim_entry(&ports, &entry_with(text, late)).await;
            let ClaimOutcome::Ended(RunOutcome::Failed(record)) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(record.code, "outline.outdated");
        }
        let second = claim_change(&ports, "text", set("text", "b", first.correction)).await;
        assert_eq!(second.seq, 3);
    }

    #[tokio::test]
    async fn a_torn_claim_does_not_refuse_a_correction() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let first = claim_run(&ports, "text").await;
        let torn = first.at.header.replace("1.json", "2.json");
        ports.blobs.put(&torn, "{".into()).await.unwrap();
        let corrected = claim_change(&ports, "text", set("text", "a", None)).await;
        assert_eq!(corrected.seq, 3);
        let torn = first.at.header.replace("1.json", "4.json");
        ports.blobs.put(&torn, "{".into()).await.unwrap();
        let late = entry_with("text", set("text", "b", None));
        let outcome = claim_entry(&ports, &late).await;
        assert!(matches!(
            outcome,
            ClaimOutcome::Ended(RunOutcome::Failed(_))
        ));
    }

    #[tokio::test]
    async fn a_correction_without_a_tree_can_be_reset() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let collection = Collection::default();
        let first = document_version(&claim_run(&ports, "text").await).unwrap();
        claim_change(&ports, "text", set("text", "a", None)).await;
        let claimed =
            || crate::corrections::claimed_correction(&ports.blobs, &collection, first.doc);
        assert!(claimed().await.unwrap().is_some());
        claim_change(&ports, "text", CorrectionChange::Reset).await;
        assert_eq!(claimed().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_correction_applies_to_the_same_bytes_under_another_etag() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let content = Some(Digest::from_content(b"bytes"));
        let change = match set("first etag", "a", None) {
            CorrectionChange::Set {
                correction,
                replaces,
            } => CorrectionChange::Set {
                correction: CorrectionRef {
                    content,
                    ..correction
                },
                replaces,
            },
            other => other,
        };
        claim_run(&ports, "first etag").await;
        let first = claim_change(&ports, "first etag", change).await;
        let again = claim_change(&ports, "second etag", CorrectionChange::Keep).await;
        assert!(first.applied_correction(None).is_some());
        assert_eq!(
            again.applied_correction(content),
            first.applied_correction(None)
        );
        assert_eq!(
            again.applied_correction(Some(Digest::from_content(b"other"))),
            None
        );
        assert_eq!(again.applied_correction(None), None);
    }

    #[tokio::test]
    async fn a_correction_that_failed_is_tried_again() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let first = document_version(&claim_run(&ports, "text").await).unwrap();
        let correction = stemma_outline::correction::Correction {
            headings: Vec::new(),
        };
        for seq in [2, 3] {
            let collection = Collection::default();
            let submission =
                crate::corrections::store_correction(&ports, &collection, &first, "", &correction)
                    .await
                    .unwrap();
            let entry = JobEntry {
                weight: 1,
                input: serde_json::to_value(submission).unwrap(),
            };
            let other = JobManifest {
                job: JobId(format!("job{seq}")),
                ..job()
            };
            let claimed = claim_version(&ports, &other, &entry).await.unwrap();
            let ClaimOutcome::Run(header) = claimed else {
                panic!("{claimed:?}");
            };
            assert_eq!(document_version(&header).unwrap().seq, seq);
            let failure = Failure::permanent("correct.missing", "x");
            let record = FailureRecord::new(failure, "correct", 1, 0);
            let key = run_failure_key(&header.at.run);
            let json = serde_json::to_vec(&record).unwrap();
            ports.blobs.put(&key, json.into()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn object_version_depends_on_etag_and_size() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let object = ObjectMeta {
            key: "in/2022/a b.pdf".into(),
            size_bytes: 5,
            etag: "e".into(),
            modified_ms: 0,
            version: None,
        };
        let versioned = ObjectMeta {
            modified_ms: 9,
            version: Some("v2".into()),
            ..object.clone()
        };
        let changed = ObjectMeta {
            etag: "f".into(),
            ..object.clone()
        };
        let submission = Submission::from_object("filings", "in/", &object);
        assert_eq!(submission.uri, "s3://filings/in/2022/a%20b.pdf");
        assert_eq!(submission.path, "2022/a b.pdf");
        assert_eq!(submission.name, "a b.pdf");
        let mut runs = Vec::new();
        for entry in [&object, &versioned, &changed] {
            let input =
                serde_json::to_value(Submission::from_object("filings", "in/", entry)).unwrap();
            match claim_version(&ports, &job(), &JobEntry { weight: 1, input })
                .await
                .unwrap()
            {
                ClaimOutcome::Run(header) => runs.push(header.at.run),
                ClaimOutcome::Ended(ending) => panic!("{ending:?}"),
            }
        }
        assert!(runs[0] == runs[1] && runs[1] != runs[2], "{runs:?}");
    }

    #[test]
    fn flow_revision_sums_stage_revisions() {
        let stages: u32 = crate::stages::REVISIONS
            .iter()
            .map(|(_, revision)| revision)
            .sum();
        let asking: u32 = crate::stages::MODEL_REVISIONS
            .iter()
            .chain(&crate::stages::CORRECTION_REVISIONS)
            .map(|(_, revision)| revision - 1)
            .sum();
        assert_eq!(
            FilingFlow::REVISION - stages - asking,
            crate::filing_flow::FLOW_REVISION
        );
    }
}
