//! Claims versions: a submitted document becomes one version and one run, however often and by whomever it is
//! submitted.

mod outcome;
mod run_ref;
mod state;
mod submission;

use serde::{Deserialize, Serialize};
use stemma_document::{
    Collection, CompanionFile, CorrectionRef, Digest, DocId, DocumentVersion, Origin,
};
use stemma_engine::Ports;
use stemma_engine::flow::{ClaimOutcome, Flow, JobEntry, JobManifest};
use stemma_engine::message::RunOutcome;
use stemma_engine::objects::ObjectLookup;
use stemma_store::blobs::{Blobs, PutOutcome};
use stemma_store::env::Millis;
use stemma_store::{Failure, FailureRecord, PortError, PortResult, RunHeader};

use crate::FilingFlow;
use crate::filing_folders::BucketFolder;

use outcome::has_unanswered_gaps;
pub(crate) use outcome::{
    PUBLISH, PublishOutcome, WITHDRAW, document_version, identify_version, run_outcome,
};
pub(crate) use run_ref::published_collection;
use run_ref::version_ref;
pub use run_ref::{run_id, run_ref};
use state::VersionState;
pub(crate) use state::{Claim, load_versions, reserve_version};
pub use submission::{CorrectionChange, FollowedObject, SeenObject, Submission};

pub(crate) async fn claim_version(
    ports: &Ports,
    job: &JobManifest,
    entry: &JobEntry,
) -> PortResult<ClaimOutcome> {
    let submitted: Submission = serde_json::from_value(entry.input.clone())
        .map_err(|error| claim_error(&format!("job {}", job.job), &error))?;
    let collection: Collection = job
        .collection
        .parse()
        .map_err(|error| claim_error(&format!("job {}", job.job), &error))?;
    if let Some(refused) = refuse_local_object(&submitted) {
        return Ok(ClaimOutcome::Ended(refused));
    }
    let doc = DocId::new(&collection, &submitted.uri);
    loop {
        let versions = load_versions(&ports.blobs, &collection, doc).await?;
        // Looked up after the versions were listed, so that a later version never has an older state: the next number can
        // be claimed only if no other state was claimed since.
        let submission = current_state(ports, &submitted).await?;
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
                // The object had another state for a while.
                Some(RunOutcome::Failed(record))
                    if is_followed(&submission)
                        && record.code == FailureRecord::INPUT_CHANGED
                        && newest.opened_by != job.job => {}
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
        if let Some(newest) = newest {
            if is_followed(&submission) && run_outcome(ports, newest).await?.is_none() {
                return Ok(ClaimOutcome::After(newest.clone()));
            }
            if is_older(&submission, newest) {
                return Ok(ClaimOutcome::Ended(RunOutcome::Unchanged));
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

fn is_followed(submission: &Submission) -> bool {
    submission
        .object
        .as_ref()
        .is_some_and(|object| object.follow.is_some())
}

// What is to be indexed: the state that was seen at the submission, or for a followed object the present one.
async fn current_state(ports: &Ports, submitted: &Submission) -> PortResult<Submission> {
    let seen = submitted.object.as_ref();
    let Some(object) = seen.and_then(|seen| seen.follow.as_ref()) else {
        return Ok(submitted.clone());
    };
    let Some(objects) = &ports.objects else {
        let text = "this coordinator has no access to buckets; give it [s3] settings";
        return Err(PortError::refused("bucket.head", text));
    };
    let found = objects.head(&object.bucket, &object.key).await?;
    let current = Submission::from_followed(object, found.as_ref());
    Ok(Submission {
        retry_failed: submitted.retry_failed,
        correction: submitted.correction,
        ..add_folder(objects.as_ref(), object, current).await?
    })
}

// What the folder of a filing says about its document now. It may say that the object is a document no more, because a full
// submission is next to all of its parts.
async fn add_folder(
    objects: &dyn ObjectLookup,
    object: &FollowedObject,
    current: Submission,
) -> PortResult<Submission> {
    let folder = BucketFolder::find(objects, &object.bucket, &object.key).await?;
    let Some(folder) = folder.filter(|folder| folder.has_object(&object.key)) else {
        return Ok(current);
    };
    let plan = folder.plan(objects, &object.bucket).await?;
    let mut documents = plan.documents();
    Ok(
        match documents.find(|planned| planned.object.key == object.key) {
            Some(planned) if current.origin != Origin::Removed => current.with_filing(planned),
            _ => Submission::from_followed(object, None),
        },
    )
}

// Whether the newest version was made of a later state of the object than the submission, as when a listing waited for
// hours. Modification times have whole seconds, so equal ones say nothing. The state of a followed object is the current
// one, and goes back in time where labels are removed.
fn is_older(submission: &Submission, newest: &RunHeader) -> bool {
    if is_followed(submission) {
        return false;
    }
    let claimed = serde_json::from_value::<ClaimedInput>(newest.input.clone());
    let newest_ms = claimed.map_or(0, |claimed| claimed.modified_ms);
    let modified_ms = submission
        .object
        .as_ref()
        .map_or(0, |seen| seen.modified_ms);
    modified_ms != 0 && modified_ms < newest_ms
}

// What the input of a run says in addition to the version.
#[derive(Serialize, Deserialize)]
struct ClaimedInput {
    #[serde(flatten)]
    version: DocumentVersion,
    // As in `SeenObject`.
    #[serde(default, skip_serializing_if = "is_zero")]
    modified_ms: Millis,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
fn is_zero(millis: &Millis) -> bool {
    *millis == 0
}

// Objects are identified by what their bucket says. Whoever may write jobs could otherwise name any file of a worker so,
// and have it published. `stemma submit` identifies files by their content.
fn refuse_local_object(submission: &Submission) -> Option<RunOutcome> {
    let is_object =
        submission.object.is_some() || matches!(submission.origin, Origin::Object { .. });
    if !is_object || submission.uri.starts_with("s3://") {
        return None;
    }
    let message = format!(
        "{} is submitted as an object, but is not one",
        submission.uri
    );
    let failure = Failure::permanent("input.denied", message)
        .with_next("submit files with `stemma submit`, and objects as s3://BUCKET/KEY");
    Some(RunOutcome::Failed(FailureRecord::new(
        failure, "submit", 1, 0,
    )))
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

// Same bytes and labels, same facts of sidecar and index, same correction, same settings and the same flow revision. A job claims an entry
// once, whatever release its coordinators have: during an update they would otherwise do, and pay for, the job again.
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
        && version.filing_facts == submission.filing
        && labels_digest(version.labels.as_deref()) == labels_digest(submission.labels.as_deref())
        && version.correction.as_deref() == correction.as_ref()
        && newest.settings == job.settings
        && (newest.flow_revision == FilingFlow::REVISION || newest.opened_by == job.job)
}

fn labels_digest(labels: Option<&CompanionFile>) -> Option<Digest> {
    labels.map(|labels| labels.source)
}

fn run_header(
    job: &JobManifest,
    collection: &Collection,
    doc: DocId,
    seq: u64,
    submission: Submission,
    correction: Option<CorrectionRef>,
) -> PortResult<RunHeader> {
    let modified_ms = submission.object.map_or(0, |seen| seen.modified_ms);
    let version = DocumentVersion {
        doc,
        seq,
        uri: submission.uri,
        name: submission.name,
        path: submission.path,
        source: submission.source,
        origin: submission.origin,
        size_bytes: submission.size_bytes,
        settings: job.settings.as_str().into(),
        sidecar_facts: submission.stated,
        filing_facts: submission.filing,
        correction: correction.map(Box::new),
        labels: submission.labels,
    };
    Ok(RunHeader {
        at: version_ref(collection, doc, seq),
        settings: job.settings.clone(),
        flow_revision: FilingFlow::REVISION,
        priority: job.priority,
        opened_by: job.job.clone(),
        input: serde_json::to_value(ClaimedInput {
            version,
            modified_ms,
        })
        .map_err(|error| claim_error(&format!("job {}", job.job), &error))?,
    })
}

fn claim_error(subject: &str, error: &dyn std::fmt::Display) -> PortError {
    PortError::permanent("blobs.claim", format!("{subject}: {error}"))
}

#[cfg(test)]
mod tests;
