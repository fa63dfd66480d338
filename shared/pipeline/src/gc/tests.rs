//! Tests of garbage collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use stemma_document::{
    CatalogEntry, CorrectionRef, Digest, DocumentVersion, Extent, Method, Origin, PublishedTree,
    SectionTree, TreeObject, VerifiedOutline,
};
use stemma_engine::jobs::{EntryCounts, JobEndReason, JobManifest, JobOptions, JobReport};
use stemma_store::blobs::{MemoryBlobs, list_all};
use stemma_store::{JobId, Priority};

use super::observed_blobs::observed;
use super::*;
use stemma_document::{Change, ChangeKind, DocId, blob_keys};

pub(super) const NOW: Millis = 200 * DAY_MS;

/// All garbage of a collection.
#[derive(Default)]
pub(super) struct FoundGarbage {
    pub(super) documents: Vec<DocumentGarbage>,
    failures: Vec<GarbageObject>,
    pub(super) jobs: Vec<JobGarbage>,
    pub(super) originals: OriginalGarbage,
}

impl FoundGarbage {
    fn objects(&self) -> impl Iterator<Item = &GarbageObject> {
        let jobs = self.jobs.iter().flat_map(|garbage| &garbage.objects);
        let documents = self.documents.iter().flat_map(|garbage| &garbage.objects);
        documents
            .chain(jobs)
            .chain(&self.failures)
            .chain(&self.originals.objects)
    }
}

pub(super) async fn find_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
    job_retention_ms: Millis,
) -> PortResult<FoundGarbage> {
    let mut pages = GarbagePages::start(blobs, collection, now_ms, job_retention_ms).await?;
    let mut found = FoundGarbage::default();
    while let Some(page) = pages.next_documents().await? {
        found.documents.extend(page.documents);
        found.failures.extend(page.failures);
    }
    while let Some(page) = pages.next_originals().await? {
        found.originals.marks.extend(page.marks);
        found.originals.objects.extend(page.objects);
    }
    found.jobs = pages.jobs;
    Ok(found)
}

pub(super) struct GcFixture {
    pub(super) blobs: Arc<MemoryBlobs>,
    pub(super) collection: Collection,
    pub(super) doc: DocId,
}

impl GcFixture {
    pub(super) fn new() -> Self {
        let collection = Collection::default();
        let doc = DocId::new(&collection, "file:///a.md");
        Self {
            blobs: Arc::default(),
            collection,
            doc,
        }
    }

    pub(super) async fn put(&self, key: &str, json: &impl serde::Serialize) {
        self.blobs
            .put(key, serde_json::to_vec(json).unwrap().into())
            .await
            .unwrap();
    }

    pub(super) fn version(&self, seq: u64, source: Digest, origin: Origin) -> DocumentVersion {
        DocumentVersion {
            doc: self.doc,
            seq,
            uri: "file:///a.md".into(),
            name: "a.md".into(),
            path: "a.md".into(),
            source,
            origin,
            size_bytes: 1,
            settings: "s".into(),
            sidecar_facts: BTreeMap::new(),
            filing_facts: Default::default(),
            correction: None,
            labels: None,
        }
    }

    async fn claim(&self, seq: u64) {
        self.put(
            &blob_keys::version_key(&self.collection, self.doc, seq),
            &seq,
        )
        .await;
    }

    pub(super) async fn change(&self, kind: ChangeKind, days_ago: u64) {
        self.change_at(kind, NOW - days_ago * DAY_MS).await;
    }

    async fn change_at(&self, kind: ChangeKind, at_ms: Millis) {
        self.put(
            &blob_keys::change_key(&self.collection, at_ms, at_ms),
            &Change { at_ms, kind },
        )
        .await;
    }

    // Writes a version with its tree, its text under `text`, and its change record.
    pub(super) async fn publish(&self, seq: u64, text: &str, days_ago: u64) {
        self.publish_corrected(seq, text, None, days_ago).await;
    }

    /// As [`GcFixture::publish`], at a time that no other document has.
    pub(super) async fn publish_at(&self, seq: u64, text: &str, at_ms: Millis) {
        self.publish_corrected_at(seq, text, None, at_ms).await;
    }

    async fn publish_corrected(
        &self,
        seq: u64,
        text: &str,
        correction: Option<&str>,
        days_ago: u64,
    ) {
        let at_ms = NOW - days_ago * DAY_MS;
        self.publish_corrected_at(seq, text, correction, at_ms)
            .await;
    }

    async fn publish_corrected_at(
        &self,
        seq: u64,
        text: &str,
        correction: Option<&str>,
        at_ms: Millis,
    ) {
        self.claim(seq).await;
        let source = Digest::from_content(&seq.to_le_bytes());
        let correction = correction.map(|text| CorrectionRef {
            content: None,
            headings: Digest::from_content(text.as_bytes()),
            source,
        });
        let version = DocumentVersion {
            correction: correction.map(Box::new),
            ..self.version(seq, source, Origin::Content)
        };
        let tree = tree();
        let published = PublishedTree {
            version,
            text_artifact: text.into(),
            tree,
        };
        let entry = CatalogEntry::from_tree(&published);
        let key = blob_keys::tree_key(&self.collection, self.doc, seq);
        self.put(&key, &TreeObject::Published(Box::new(published)))
            .await;
        self.put(
            &format!(
                "{}/a/{text}",
                blob_keys::document_scope(&self.collection, self.doc)
            ),
            &0,
        )
        .await;
        self.change_at(ChangeKind::Published(Box::new(entry)), at_ms)
            .await;
    }

    async fn find(&self) -> FoundGarbage {
        find_garbage(&*self.blobs, &self.collection, NOW, 90 * DAY_MS)
            .await
            .unwrap()
    }

    pub(super) async fn garbage(&self) -> Vec<String> {
        let report = self.find().await;
        let scope = blob_keys::document_scope(&self.collection, self.doc);
        report
            .objects()
            .map(|garbage| garbage.key.replace(&scope, ""))
            .collect()
    }
}

fn tree() -> SectionTree {
    let outline = VerifiedOutline::new(Extent::Lines(3), Vec::new()).unwrap();
    SectionTree::build(&outline, Method::Markup, Vec::new())
}

fn tree_suffix(seq: u64) -> String {
    format!("/trees/{seq:012}.json")
}

fn claim_suffix(seq: u64) -> String {
    format!("/versions/{seq:012}.json")
}

#[tokio::test]
async fn last_two_trees_and_recent_objects_are_retained() {
    let fixture = GcFixture::new();
    for (seq, text, days_ago) in [(1, "t1", 60), (2, "t2", 50), (3, "t1", 40), (4, "t4", 3)] {
        fixture.publish(seq, text, days_ago).await;
    }
    // Tree 1 was superseded by tree 3, 40 days ago, which has the same text; tree 2 three days ago.
    assert_eq!(fixture.garbage().await, [tree_suffix(1), claim_suffix(1)]);
    fixture.publish(5, "t5", 8).await;
    assert_eq!(
        fixture.garbage().await,
        [
            "/a/t1".into(),
            tree_suffix(1),
            tree_suffix(3),
            claim_suffix(1),
            claim_suffix(3)
        ]
    );
}

#[tokio::test]
async fn corrections_stay_with_the_trees_that_they_made() {
    let fixture = GcFixture::new();
    let corrections = [
        Some("first"),
        Some("second"),
        Some("second"),
        Some("second"),
    ];
    for (seq, correction) in (1..).zip(corrections) {
        fixture
            .publish_corrected(seq, "t", correction, 60 - seq)
            .await;
    }
    let first = Digest::from_content(b"first");
    assert_eq!(
        fixture.garbage().await,
        [
            format!("/corrections/{first}.json"),
            tree_suffix(1),
            tree_suffix(2),
            claim_suffix(1),
            claim_suffix(2)
        ]
    );
}

#[tokio::test]
async fn trees_whose_records_are_gone_are_collected_alike() {
    let fixture = GcFixture::new();
    for seq in 1..=3 {
        fixture.publish(seq, &format!("t{seq}"), 90 - seq).await;
    }
    let expected = fixture.garbage().await;
    assert_eq!(expected, ["/a/t1".into(), tree_suffix(1), claim_suffix(1)]);
    let prefix = blob_keys::changes_prefix(&fixture.collection);
    let records = list_all(&*fixture.blobs, &prefix).await.unwrap();
    for record in &records[..2] {
        fixture.blobs.delete(record).await.unwrap();
    }
    assert_eq!(fixture.garbage().await, expected);
}

#[tokio::test]
async fn open_version_retains_all_objects() {
    let fixture = GcFixture::new();
    for seq in 1..=4 {
        fixture.publish(seq, &format!("t{seq}"), 90 - seq).await;
    }
    assert_eq!(
        fixture.garbage().await,
        [
            "/a/t1".into(),
            "/a/t2".into(),
            tree_suffix(1),
            tree_suffix(2),
            claim_suffix(1),
            claim_suffix(2)
        ]
    );
    fixture.claim(5).await;
    assert_eq!(fixture.garbage().await, [""; 0]);
}

#[tokio::test]
async fn removed_document_retains_claims_and_tombstone() {
    let fixture = GcFixture::new();
    fixture.publish(1, "t1", 60).await;
    let key = blob_keys::tree_key(&fixture.collection, fixture.doc, 2);
    fixture.put(&key, &TreeObject::Removed).await;
    fixture
        .change(
            ChangeKind::Removed {
                doc: fixture.doc,
                seq: 2,
            },
            8,
        )
        .await;
    assert_eq!(fixture.garbage().await, ["/a/t1".into(), tree_suffix(1)]);
    fixture.claim(3).await;
    assert_eq!(fixture.garbage().await, [""; 0]);
}

#[tokio::test]
async fn claim_between_find_and_remove_keeps_what_it_may_reuse() {
    let fixture = GcFixture::new();
    fixture.publish(1, "t1", 60).await;
    let key = blob_keys::tree_key(&fixture.collection, fixture.doc, 2);
    fixture.put(&key, &TreeObject::Removed).await;
    let removal = ChangeKind::Removed {
        doc: fixture.doc,
        seq: 2,
    };
    fixture.change(removal, 8).await;
    fixture.claim(2).await;
    let report = fixture.find().await;
    assert_eq!(report.documents.len(), 1);
    // The document is submitted again, and its run takes over the text.
    fixture.claim(3).await;
    let removed = report.documents[0]
        .remove(&*fixture.blobs, &fixture.collection)
        .await
        .unwrap();
    assert!(removed.is_empty());
    let text = format!(
        "{}/a/t1",
        blob_keys::document_scope(&fixture.collection, fixture.doc)
    );
    assert!(fixture.blobs.get(&text).await.unwrap().is_some());
}

#[tokio::test]
async fn garbage_without_a_new_claim_is_removed() {
    let fixture = GcFixture::new();
    for seq in 1..=4 {
        fixture.publish(seq, &format!("t{seq}"), 90 - seq).await;
    }
    let report = fixture.find().await;
    let removed = report.documents[0]
        .remove(&*fixture.blobs, &fixture.collection)
        .await
        .unwrap();
    assert_eq!(removed.len(), 6);
    assert_eq!(fixture.garbage().await, [""; 0]);
}

impl GcFixture {
    pub(super) async fn job(&self, id: &str, name: &str, ended_days_ago: Option<u64>) {
        let manifest = JobManifest {
            job: JobId(id.into()),
            collection: self.collection.to_string(),
            settings: "s".into(),
            priority: Priority::Bulk,
            entries: 1,
            submitted_ms: 0,
            options: JobOptions {
                name: Some(name.into()),
                ..JobOptions::default()
            },
        };
        self.put(&format!("jobs/{id}/manifest.json"), &manifest)
            .await;
        for part in [
            "entries/a/000000.json",
            "cursor/1.json",
            "control/1-paused.json",
        ] {
            self.put(&format!("jobs/{id}/{part}"), &0).await;
        }
        let name = format!("job-names/{}/{name}", self.collection);
        self.put(&name, &serde_json::json!({ "job": id })).await;
        if let Some(days) = ended_days_ago {
            let report = JobReport {
                job: JobId(id.into()),
                close: JobEndReason::Finished,
                counts: EntryCounts::default(),
                reasons: BTreeMap::new(),
                failures: Vec::new(),
                tasks: 0,
                submitted_ms: 0,
                ended_ms: NOW - days * DAY_MS,
            };
            self.put(&format!("jobs/{id}/report.json"), &report).await;
            self.put(&format!("jobs-ended/{id}"), &0).await;
        }
    }

    pub(super) async fn remove_jobs(&self) -> Vec<String> {
        for job in self.find().await.jobs {
            job.remove(&*self.blobs).await.unwrap();
        }
        list_all(&*self.blobs, "").await.unwrap()
    }
}

#[tokio::test]
async fn ended_jobs_lose_their_entries_first_and_go_with_their_names_later() {
    let fixture = GcFixture::new();
    fixture.job("j-open", "open", None).await;
    fixture.job("j-recent", "recent", Some(3)).await;
    fixture.job("j-week", "week", Some(30)).await;
    fixture.job("j-old", "old", Some(91)).await;
    let before = list_all(&*fixture.blobs, "").await.unwrap().len();
    let after = fixture.remove_jobs().await;
    assert_eq!(before - after.len(), 2 + 7, "{after:?}");
    assert!(!after.iter().any(|key| key.contains("old")));
    let of_week: Vec<_> = after.iter().filter(|key| key.contains("week")).collect();
    assert_eq!(
        of_week,
        [
            "job-names/default/week",
            "jobs-ended/j-week",
            "jobs/j-week/control/1-paused.json",
            "jobs/j-week/manifest.json",
            "jobs/j-week/report.json",
        ]
    );
    assert_eq!(
        fixture.remove_jobs().await,
        after,
        "nothing is left to remove"
    );
}

#[tokio::test]
async fn interrupted_removal_of_a_job_is_completed() {
    let fixture = GcFixture::new();
    fixture.job("j-old", "old", Some(91)).await;
    for key in ["job-names/default/old", "jobs/j-old/manifest.json"] {
        fixture.blobs.delete(key).await.unwrap();
    }
    assert_eq!(fixture.remove_jobs().await, [""; 0]);
}

#[tokio::test]
async fn name_of_an_old_job_stays_with_a_newer_one() {
    let fixture = GcFixture::new();
    fixture.job("j-new", "nightly", None).await;
    fixture.job("j-old", "nightly", Some(91)).await;
    let after = fixture.remove_jobs().await;
    assert!(after.contains(&"job-names/default/nightly".to_string()));
    assert!(!after.iter().any(|key| key.contains("j-old")));
}

#[tokio::test]
async fn failures_go_when_a_later_version_was_published() {
    let fixture = GcFixture::new();
    let failed = |seq: u64| format!("runs/{}-{seq}/failed/document.json", fixture.doc);
    for seq in [1, 2, 4] {
        fixture.put(&failed(seq), &0).await;
    }
    let other = "runs/0123456789abcdef0123456789abcdef-1/failed/document.json";
    fixture.put(other, &0).await;
    fixture.publish(2, "t2", 40).await;
    fixture.publish(3, "t3", 3).await;
    assert_eq!(
        fixture.garbage().await,
        [failed(1)],
        "that of version 2 was superseded three days ago, version 4 by nothing"
    );
}

// The requests from which docs/OPERATING.md computes the cost of a run.
#[tokio::test]
async fn requests_per_document_and_job_are_bounded() {
    // A document that was published `versions` times: requests to find, and to remove.
    let document = async |versions: u64| {
        let fixture = GcFixture::new();
        for seq in 1..=versions {
            fixture.publish(seq, &format!("t{seq}"), 90 - seq).await;
        }
        let blobs = observed(&fixture.blobs, usize::MAX);
        let find = async || {
            find_garbage(&blobs, &fixture.collection, NOW, 90 * DAY_MS)
                .await
                .unwrap()
        };
        let report = find().await;
        let found = blobs.layer.counts();
        for garbage in &report.documents {
            garbage.remove(&blobs, &fixture.collection).await.unwrap();
        }
        let removed = blobs.layer.counts();
        find().await;
        (found, removed, blobs.layer.counts())
    };
    // Listings that do not depend on the number of documents: the position, changes (two), runs, jobs, originals and their marks.
    const FIXED: usize = 7;
    assert_eq!(document(1).await, ([1, FIXED, 0], [0, 0, 0], [1, FIXED, 0]));
    assert_eq!(document(2).await.0, [2, FIXED, 0], "its change records");
    assert_eq!(
        document(4).await,
        ([4 + 4 + 1, FIXED + 2, 0], [0, 1, 6], [4 + 2, FIXED + 2, 0]),
        "trees are read as long as they exist, and the first claim that stays"
    );
    // A job: its report; when it is a week old, also its manifest and a listing.
    let job = async |ended_days_ago: u64| {
        let fixture = GcFixture::new();
        fixture.job("j-1", "name", Some(ended_days_ago)).await;
        let blobs = observed(&fixture.blobs, usize::MAX);
        find_garbage(&blobs, &fixture.collection, NOW, 90 * DAY_MS)
            .await
            .unwrap();
        blobs.layer.counts()
    };
    const FIXED_WITH_JOBS: usize = 1 + 1 + 2 + 2;
    assert_eq!(job(3).await, [1, FIXED_WITH_JOBS, 0]);
    assert_eq!(job(30).await, [2, FIXED_WITH_JOBS + 1, 0]);
    assert_eq!(job(91).await, [3, FIXED_WITH_JOBS + 1, 0], "and its name");
}
