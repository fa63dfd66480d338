//! Claims in interleaved orders, corrections, removals.

use std::collections::BTreeMap;

use stemma_document::Digest;
use stemma_engine::flow::JobOptions;
use stemma_engine::objects::ObjectMeta;
use stemma_engine::stage::Stage;
use stemma_store::blobs::put_json;
use stemma_store::key::run_failure_key;
use stemma_store::{Env, JobId, Priority};

use super::*;
use crate::filing_folders::PlannedObject;
use crate::settings::RunSettings;
use crate::stages::{Outline, Paginate, Publish};

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
        filing: BTreeMap::new(),
        labels: None,
        retry_failed: false,
        correction,
        object: None,
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
        priority: Priority::Bulk,
        entries: 1,
        submitted_ms: 0,
        options: JobOptions::default(),
    }
}

async fn claim_run(ports: &Ports, text: &str) -> RunHeader {
    match claim_version(ports, &job(), &entry(text)).await.unwrap() {
        ClaimOutcome::Run(header) => header,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_local_file_submitted_as_an_object_is_refused() {
    let ports = Ports::memory(&Env::simulated(1));
    for uri in ["file:///proc/self/environ", "/etc/passwd", "upload:a.md"] {
        let mut input = entry("").input;
        input["uri"] = uri.into();
        input["origin"] = serde_json::json!({ "object": { "etag": "x" } });
        match claim_entry(&ports, &JobEntry { weight: 1, input }).await {
            ClaimOutcome::Ended(RunOutcome::Failed(record)) => {
                assert_eq!(record.code, "input.denied", "{uri}");
            }
            other => panic!("{uri}: {other:?}"),
        }
    }
    let stored = ports.blobs.list("c/", None, 10).await.unwrap();
    assert_eq!(stored, Vec::<String>::new(), "nothing is claimed");
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
        opened_by: JobId("earlier job".into()),
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

#[tokio::test]
async fn another_linkbase_of_labels_is_another_version() {
    let ports = Ports::memory(&Env::simulated(1));
    let claim = async |labels: Option<(&str, &str)>| {
        let mut input = entry("text").input;
        if let Some((text, etag)) = labels {
            input["labels"] = serde_json::to_value(CompanionFile {
                name: "a_lab.xml".into(),
                source: Digest::from_content(text.as_bytes()),
                origin: Origin::Object {
                    etag: etag.into(),
                    version: None,
                },
                size_bytes: 1,
            })
            .unwrap();
        }
        match claim_entry(&ports, &JobEntry { weight: 1, input }).await {
            ClaimOutcome::Run(header) => document_version(&header).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let versions = [
        claim(None).await,
        claim(None).await,
        claim(Some(("Sales", "1"))).await,
        claim(Some(("Sales", "1"))).await,
        claim(Some(("Turnover", "2"))).await,
        claim(None).await,
    ];
    let numbers = versions.each_ref().map(|version| version.seq);
    assert_eq!(numbers, [1, 1, 2, 2, 3, 4]);
    // What reads a document is the same work where its labels are.
    let keys = versions.map(|version| Paginate::for_version(&version).key(&RunSettings::default()));
    assert!(keys[0] == keys[5] && keys[0] != keys[2] && keys[2] != keys[4]);
}

#[tokio::test]
async fn a_job_claims_an_entry_once_whatever_the_release() {
    let newest = claim_run(&Ports::memory(&Env::simulated(1)), "text").await;
    for revision in [newest.flow_revision - 1, newest.flow_revision + 1] {
        let ports = Ports::memory(&Env::simulated(1));
        let other = RunHeader {
            flow_revision: revision,
            ..newest.clone()
        };
        put_json(&ports.blobs, &other.at.header, &other)
            .await
            .unwrap();
        assert_eq!(claim_run(&ports, "text").await, other);
    }
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
        other => panic!("{other:?}"),
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
    assert_eq!((reset.seq, &reset.correction), (5, &None));
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
    older.opened_by = JobId("earlier job".into());
    older.at.header = older.at.header.replace("1.json", "3.json");
    older.at.run = run_id(corrected.doc, 3);
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
        set("other text", "b", first.correction.as_deref().copied()),
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
    let second = claim_change(
        &ports,
        "text",
        set("text", "b", first.correction.as_deref().copied()),
    )
    .await;
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
    let claimed = || crate::corrections::claimed_correction(&ports.blobs, &collection, first.doc);
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
        let failure = Failure::permanent("correct.correction_missing", "x");
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
        let input = serde_json::to_value(Submission::from_object("filings", "in/", entry)).unwrap();
        match claim_version(&ports, &job(), &JobEntry { weight: 1, input })
            .await
            .unwrap()
        {
            ClaimOutcome::Run(header) => runs.push(header.at.run),
            other => panic!("{other:?}"),
        }
    }
    assert!(runs[0] == runs[1] && runs[1] != runs[2], "{runs:?}");
}

#[test]
fn flow_revision_sums_stage_revisions() {
    let first = [Paginate::NAME, Outline::NAME, Publish::NAME];
    let stages: u32 = crate::stages::STAGES
        .iter()
        .map(|(name, revision, _)| revision - u32::from(!first.contains(name)))
        .sum();
    assert_eq!(
        FilingFlow::REVISION - stages,
        crate::filing_flow::FLOW_REVISION
    );
}

/// D5 of the engine review: a listing that waited for hours was indexed over what a notification had indexed since.
#[tokio::test]
async fn older_listing_is_not_claimed_after_a_newer_state() {
    let env = Env::simulated(1);
    let ports = Ports::memory(&env);
    let listed = |etag: &str, modified_ms| {
        let meta = ObjectMeta {
            key: "in/a.pdf".into(),
            size_bytes: 1,
            etag: etag.into(),
            modified_ms,
            version: None,
        };
        let submission = Submission::from_object("filings", "in/", &meta);
        let input = serde_json::to_value(submission).unwrap();
        JobEntry { weight: 1, input }
    };
    let claim = async |etag, modified_ms| {
        claim_version(&ports, &job(), &listed(etag, modified_ms))
            .await
            .unwrap()
    };
    let newer = claim("2", 9_000).await;
    assert!(matches!(newer, ClaimOutcome::Run(_)), "{newer:?}");
    let older = claim("1", 5_000).await;
    assert_eq!(older, ClaimOutcome::Ended(RunOutcome::Unchanged));
    let newest = claim("3", 10_000).await;
    assert!(matches!(newest, ClaimOutcome::Run(_)), "{newest:?}");
}

/// The labels of a listing that waited for hours were indexed over newer ones.
#[tokio::test]
async fn older_listing_of_labels_is_not_claimed_after_a_newer_state() {
    let ports = Ports::memory(&Env::simulated(1));
    let document = ObjectMeta {
        key: "77/000000007723000012/a.htm".into(),
        size_bytes: 1,
        etag: "1".into(),
        modified_ms: 1_000,
        version: None,
    };
    let claim = async |labels: &str, modified_ms| {
        let planned = PlannedObject {
            object: &document,
            filing: BTreeMap::new(),
            labels: Some(Box::new(CompanionFile {
                name: "a_lab.xml".into(),
                source: Digest::from_content(labels.as_bytes()),
                origin: Origin::Content,
                size_bytes: 1,
            })),
            modified_ms,
        };
        let submission = Submission::from_object("filings", "", &document).with_filing(planned);
        let input = serde_json::to_value(submission).unwrap();
        claim_entry(&ports, &JobEntry { weight: 1, input }).await
    };
    let newer = claim("2", 9_000).await;
    assert!(matches!(newer, ClaimOutcome::Run(_)), "{newer:?}");
    let older = claim("1", 5_000).await;
    assert_eq!(older, ClaimOutcome::Ended(RunOutcome::Unchanged));
    let newest = claim("3", 10_000).await;
    assert!(matches!(newest, ClaimOutcome::Run(_)), "{newest:?}");
}

#[tokio::test]
async fn a_header_whose_input_is_of_another_run_is_invalid() {
    let ports = Ports::memory(&Env::simulated(1));
    let mut header = claim_run(&ports, "text").await;
    header.at.run = run_id(document_version(&header).unwrap().doc, 2);
    let refused = document_version(&header).unwrap_err();
    assert_eq!(refused.code, "engine.header_invalid");
}
