//! Tests of claims, originals and submissions: what is needed stays, while jobs are open and after interruptions; what is old
//! goes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use stemma_document::{
    ChangeKind, CompanionFile, Digest, DocumentVersion, Origin, TreeObject, blob_keys,
};
use stemma_engine::jobs::JobEntry;
use stemma_store::blobs::{MemoryBlobs, PutOutcome, list_all};
use stemma_store::{Env, JobId, Priority, RetryingBlobs, RunHeader, RunRef};

use super::observed_blobs::observed;
use super::tests::{GcFixture, NOW, find_garbage};
use super::*;
use crate::sources::SourceWriter;
use crate::{FilingFlow, Submission, run_id};
use stemma_engine::flow::Flow;

impl GcFixture {
    // Writes a claim as coordinators do.
    async fn claim_run(&self, seq: u64, source: Digest, origin: Origin) {
        self.claim_version(self.version(seq, source, origin)).await;
    }

    async fn claim_version(&self, version: DocumentVersion) {
        let header = blob_keys::version_key(&self.collection, self.doc, version.seq);
        let run = RunHeader {
            at: RunRef {
                run: run_id(self.doc, version.seq),
                header: header.clone(),
                scope: blob_keys::document_scope(&self.collection, self.doc),
            },
            settings: "s".into(),
            flow_revision: FilingFlow::REVISION,
            priority: Priority::Bulk,
            opened_by: JobId("j".into()),
            input: serde_json::to_value(version).unwrap(),
        };
        self.put(&header, &run).await;
    }

    async fn fail(&self, seq: u64, days_ago: u64) {
        let version = Box::new(self.version(seq, Digest::from_content(b""), Origin::Content));
        let failure = json!({});
        self.change(ChangeKind::Failed { version, failure }, days_ago)
            .await;
        let key = format!("runs/{}/failed/document.json", run_id(self.doc, seq));
        self.put(&key, &0).await;
    }

    pub(super) async fn store_original(&self, text: &'static str) -> Digest {
        let digest = Digest::from_content(text.as_bytes());
        let [key, _] = blob_keys::original_keys(&self.collection, digest);
        self.blobs.put(&key, text.into()).await.unwrap();
        digest
    }

    // Writes an entry of a submission under way: its manifest is written last.
    pub(super) async fn submit(&self, attempt: &str, source: Digest) {
        self.submit_version(attempt, self.version(1, source, Origin::Content))
            .await;
    }

    async fn submit_version(&self, attempt: &str, version: DocumentVersion) {
        let entry = JobEntry {
            weight: 1,
            input: serde_json::to_value(Submission::for_version(version)).unwrap(),
        };
        self.put(&format!("{attempt}/000000.json"), &[entry]).await;
    }

    // Collects on this day, and returns the names of the originals that are there afterwards.
    pub(super) async fn originals_after(&self, days: u64) -> Vec<String> {
        let now_ms = NOW + days * DAY_MS;
        let report = find_garbage(&*self.blobs, &self.collection, now_ms, 90 * DAY_MS);
        let originals = report.await.unwrap().originals;
        originals.remove(&*self.blobs).await.unwrap();
        self.originals().await
    }

    async fn originals(&self) -> Vec<String> {
        let prefix = blob_keys::originals_prefix(&self.collection);
        let keys = list_all(&*self.blobs, &prefix).await.unwrap();
        keys.iter().map(|key| key.replace(&prefix, "")).collect()
    }

    async fn marks(&self) -> usize {
        let prefix = blob_keys::unused_originals_prefix(&self.collection);
        list_all(&*self.blobs, &prefix).await.unwrap().len()
    }
}

fn suffixes(kind: &str, seqs: &[u64]) -> Vec<String> {
    let names = seqs.iter().map(|seq| format!("/{kind}/{seq:012}.json"));
    names.collect()
}

fn only<'a>(garbage: &'a [String], kind: &str) -> Vec<&'a String> {
    garbage.iter().filter(|key| key.contains(kind)).collect()
}

#[tokio::test]
async fn claims_of_the_last_two_trees_and_versions_stay() {
    let fixture = GcFixture::new();
    for seq in 1..=2 {
        fixture.publish(seq, "t", 60 - seq).await;
    }
    for seq in 3..=6 {
        fixture
            .claim_run(seq, Digest::from_content(b"x"), Origin::Content)
            .await;
        fixture.fail(seq, 50 - seq).await;
    }
    let garbage = fixture.garbage().await;
    assert_eq!(
        only(&garbage, "/versions/"),
        suffixes("versions", &[3, 4]).iter().collect::<Vec<_>>(),
        "1 and 2 have the last trees, 5 and 6 are the last claims"
    );
    assert_eq!(only(&garbage, "/trees/"), Vec::<&String>::new());
}

#[tokio::test]
async fn claims_and_failures_of_a_document_that_always_fails_are_bounded() {
    let fixture = GcFixture::new();
    for seq in 1..=20 {
        fixture
            .claim_run(seq, Digest::from_content(b"x"), Origin::Content)
            .await;
        fixture.fail(seq, 60 - 2 * seq).await;
    }
    let garbage = fixture.garbage().await;
    assert_eq!(only(&garbage, "/versions/").len(), 18);
    assert_eq!(only(&garbage, "runs/").len(), 18);
}

#[tokio::test]
async fn claims_stay_for_a_week_and_while_an_older_job_is_open() {
    let fixture = GcFixture::new();
    for (seq, days_ago) in (1..=5).zip([60, 50, 40, 30, 3]) {
        fixture.publish(seq, &format!("t{seq}"), days_ago).await;
    }
    let garbage = fixture.garbage().await;
    assert_eq!(
        only(&garbage, "/versions/"),
        suffixes("versions", &[1, 2]).iter().collect::<Vec<_>>(),
        "tree 3 was superseded three days ago"
    );
    let open = json!({ "job": "j-open", "collection": "default", "settings": "s", "class": "bulk",
        "entries": 1, "submitted_ms": NOW - 55 * DAY_MS });
    fixture.put("jobs/j-open/manifest.json", &open).await;
    assert_eq!(
        fixture.garbage().await,
        [""; 0],
        "its run may be that of any version since then"
    );
}

#[tokio::test]
async fn unused_original_is_marked_and_goes_a_week_later() {
    let fixture = GcFixture::new();
    let digest = fixture.store_original("forgotten").await.to_string();
    assert_eq!(
        fixture.originals_after(0).await,
        std::slice::from_ref(&digest)
    );
    assert_eq!(fixture.marks().await, 1);
    assert_eq!(fixture.originals_after(6).await, [digest]);
    assert_eq!(fixture.originals_after(8).await, [""; 0]);
    assert_eq!(
        fixture.marks().await,
        1,
        "whoever saw the original sees the mark"
    );
    assert_eq!(fixture.originals_after(8).await, [""; 0]);
    assert_eq!(fixture.marks().await, 0);
}

#[tokio::test]
async fn originals_that_a_claim_a_tree_or_an_open_job_names_stay() {
    let fixture = GcFixture::new();
    let claimed = fixture.store_original("claimed").await;
    fixture.claim_run(1, claimed, Origin::Content).await;
    let imported = fixture.store_original("imported").await;
    fixture.publish(2, "t2", 50).await;
    let claim = blob_keys::version_key(&fixture.collection, fixture.doc, 2);
    fixture.blobs.delete(&claim).await.unwrap();
    fixture.put(&claim, &json!({ "reserved": true })).await;
    let tree_key = blob_keys::tree_key(&fixture.collection, fixture.doc, 2);
    let json = fixture.blobs.get(&tree_key).await.unwrap().unwrap();
    let Ok(TreeObject::Published(mut tree)) = serde_json::from_slice(&json) else {
        panic!("no tree");
    };
    tree.version.source = imported;
    fixture.blobs.delete(&tree_key).await.unwrap();
    fixture.put(&tree_key, &TreeObject::Published(tree)).await;

    let submitted = fixture.store_original("submitted").await;
    fixture.submit("jobs/j-new/entries/a", submitted).await;
    let all = fixture.originals().await;
    assert_eq!(all.len(), 3);
    for days in [0, 8, 16] {
        assert_eq!(fixture.originals_after(days).await, all);
        assert_eq!(fixture.marks().await, 0);
    }
}

#[tokio::test]
async fn originals_of_a_removed_document_go() {
    for by_run in [true, false] {
        let fixture = GcFixture::new();
        let digest = fixture.store_original("secret").await;
        fixture.claim_run(1, digest, Origin::Content).await;
        if by_run {
            fixture
                .claim_run(2, Digest::from_content(b""), Origin::Removed)
                .await;
        } else {
            let claim = blob_keys::version_key(&fixture.collection, fixture.doc, 2);
            fixture.put(&claim, &json!({ "reserved": true })).await;
        }
        assert_eq!(fixture.originals_after(0).await.len(), 1);
        assert_eq!(fixture.marks().await, 0, "the tombstone is not there yet");
        let key = blob_keys::tree_key(&fixture.collection, fixture.doc, 2);
        fixture.put(&key, &TreeObject::Removed).await;
        assert_eq!(fixture.originals_after(1).await.len(), 1);
        assert_eq!(fixture.originals_after(9).await, [""; 0]);
    }
}

#[tokio::test]
async fn claim_of_a_newer_release_keeps_all_originals() {
    let fixture = GcFixture::new();
    fixture.store_original("kept").await;
    let claim = blob_keys::version_key(&fixture.collection, fixture.doc, 1);
    fixture.put(&claim, &json!({ "pointer": "x" })).await;
    fixture.originals_after(0).await;
    assert_eq!(fixture.originals_after(8).await.len(), 1);
    // A torn one does not, since nobody can use it.
    fixture.blobs.delete(&claim).await.unwrap();
    fixture.blobs.put(&claim, "{\"at\":".into()).await.unwrap();
    fixture.originals_after(8).await;
    assert_eq!(fixture.originals_after(16).await, [""; 0]);
}

#[tokio::test]
async fn unfinished_submission_goes_after_a_week_and_its_originals_a_week_later() {
    let fixture = GcFixture::new();
    let digest = fixture.store_original("begun").await;
    fixture.submit("jobs/j-new/entries/a", digest).await;
    collect(&fixture, usize::MAX, 0).await.unwrap();
    collect(&fixture, usize::MAX, 6).await.unwrap();
    // The same job is submitted again, and that is under way.
    let again = fixture.store_original("again").await;
    fixture.submit("jobs/j-new/entries/b", again).await;
    let jobs = async || list_all(&*fixture.blobs, "jobs/").await.unwrap();
    let first = format!("jobs/j-new/unfinished/a~{NOW:013}");
    assert_eq!(
        jobs().await,
        [
            "jobs/j-new/entries/a/000000.json",
            "jobs/j-new/entries/b/000000.json",
            &first
        ]
    );
    collect(&fixture, usize::MAX, 8).await.unwrap();
    let second = format!("jobs/j-new/unfinished/b~{:013}", NOW + 8 * DAY_MS);
    assert_eq!(
        jobs().await,
        ["jobs/j-new/entries/b/000000.json", &second],
        "the second attempt is a day old"
    );
    assert_eq!(fixture.originals().await.len(), 2);
    collect(&fixture, usize::MAX, 9).await.unwrap();
    collect(&fixture, usize::MAX, 17).await.unwrap();
    assert_eq!(jobs().await, [""; 0]);
    assert_eq!(
        fixture.originals().await,
        [again.to_string()],
        "it was an entry's until now"
    );
    collect(&fixture, usize::MAX, 18).await.unwrap();
    collect(&fixture, usize::MAX, 26).await.unwrap();
    assert_eq!(fixture.originals().await, [""; 0]);
}

#[tokio::test]
async fn a_job_keeps_the_entries_that_were_marked_before_it_was_submitted() {
    let fixture = GcFixture::new();
    let digest = fixture.store_original("slow").await;
    fixture.submit("jobs/j-open/entries/a", digest).await;
    collect(&fixture, usize::MAX, 0).await.unwrap();
    fixture.job("j-open", "open", None).await;
    for days in [8, 16, 24] {
        collect(&fixture, usize::MAX, days).await.unwrap();
    }
    let entries = list_all(&*fixture.blobs, "jobs/j-open/entries/").await;
    assert_eq!(entries.unwrap(), ["jobs/j-open/entries/a/000000.json"]);
    assert_eq!(fixture.originals().await, [digest.to_string()]);
}

#[tokio::test]
async fn labels_stay_with_the_claim_or_entry_that_names_them() {
    let version = |fixture: &GcFixture, source| DocumentVersion {
        labels: Some(Box::new(CompanionFile {
            name: "a_lab.xml".into(),
            source,
            origin: Origin::Content,
            size_bytes: 6,
        })),
        ..fixture.version(1, Digest::from_content(b"text"), Origin::Content)
    };
    let claimed = GcFixture::new();
    let digest = claimed.store_original("labels").await;
    claimed.claim_version(version(&claimed, digest)).await;
    let submitted = GcFixture::new();
    submitted.store_original("labels").await;
    submitted
        .submit_version("jobs/j-open/entries/a", version(&submitted, digest))
        .await;
    submitted.job("j-open", "open", None).await;
    for days in [0, 8, 16] {
        for fixture in [&claimed, &submitted] {
            let originals = fixture.originals_after(days).await;
            assert_eq!(originals, [digest.to_string()], "after {days} days");
        }
    }
}

// What a submission does, with the marks it reads when it starts.
async fn writer(fixture: &GcFixture) -> SourceWriter {
    let blobs = RetryingBlobs::new(&Env::system(), Arc::<MemoryBlobs>::clone(&fixture.blobs));
    SourceWriter::start(&blobs, &fixture.collection)
        .await
        .unwrap()
}

#[tokio::test]
async fn submission_that_sees_a_mark_stores_the_bytes_again() {
    let fixture = GcFixture::new();
    let digest = fixture.store_original("text").await;
    fixture.originals_after(0).await;
    let submission = writer(&fixture).await;
    let stored = submission.store(digest, "text".into()).await.unwrap();
    assert_eq!(stored, PutOutcome::Created);
    // Its job is written after the collection has looked, and before it removes the first object.
    assert_eq!(fixture.originals_after(8).await, [format!("{digest}.2")]);
    // The mark of the first object is still there, so that another submission finds the second.
    let stored = writer(&fixture).await.store(digest, "text".into()).await;
    assert_eq!(stored.unwrap(), PutOutcome::Exists);
    fixture.claim_run(1, digest, Origin::Content).await;
    for days in [8, 16, 24] {
        assert_eq!(fixture.originals_after(days).await, [format!("{digest}.2")]);
    }
}

#[tokio::test]
async fn submission_that_began_before_the_mark_is_spared() {
    let fixture = GcFixture::new();
    let digest = fixture.store_original("text").await;
    let submission = writer(&fixture).await;
    fixture.originals_after(0).await;
    let stored = submission.store(digest, "text".into()).await.unwrap();
    assert_eq!(stored, PutOutcome::Exists);
    fixture.claim_run(1, digest, Origin::Content).await;
    assert_eq!(fixture.originals_after(8).await, [digest.to_string()]);
    assert_eq!(fixture.marks().await, 0);
}

#[tokio::test]
async fn an_original_is_never_marked_at_both_keys() {
    let fixture = GcFixture::new();
    let digest = fixture.store_original("text").await;
    for round in 0..6 {
        fixture.originals_after(8 * round).await;
        let submission = writer(&fixture).await;
        submission.store(digest, "text".into()).await.unwrap();
        assert!(fixture.marks().await <= 1, "round {round}");
        assert!(!fixture.originals().await.is_empty(), "round {round}");
    }
}

// A document with five versions, one that fails, two unused originals, one with a mark, an old job, and two attempts
// to submit a job.
async fn used_store() -> GcFixture {
    let fixture = GcFixture::new();
    fixture.store_original("marked").await;
    fixture.originals_after(0).await;
    for seq in 1..=5 {
        fixture.publish(seq, &format!("t{seq}"), 60 - seq).await;
        let claim = blob_keys::version_key(&fixture.collection, fixture.doc, seq);
        fixture.blobs.delete(&claim).await.unwrap();
        let digest = Digest::from_content(&seq.to_le_bytes());
        fixture.claim_run(seq, digest, Origin::Content).await;
        let [key, _] = blob_keys::original_keys(&fixture.collection, digest);
        fixture
            .blobs
            .put(&key, Bytes::copy_from_slice(&seq.to_le_bytes()))
            .await
            .unwrap();
    }
    fixture.fail(2, 58).await;
    fixture.store_original("unused").await;
    fixture.job("j-old", "old", Some(91)).await;
    for attempt in ["a", "b"] {
        let begun = fixture.store_original("begun").await;
        let attempt = format!("jobs/j-begun/entries/{attempt}");
        fixture.submit(&attempt, begun).await;
    }
    fixture
}

async fn collect(fixture: &GcFixture, writes: usize, days: u64) -> PortResult<()> {
    let blobs = observed(&fixture.blobs, writes);
    let now_ms = NOW + days * DAY_MS;
    let pages = GarbagePages::start(&blobs, &fixture.collection, now_ms, 90 * DAY_MS).await?;
    pages.remove_all(|_| ()).await.map(drop)
}

async fn keys(fixture: &GcFixture) -> Vec<String> {
    list_all(&*fixture.blobs, "").await.unwrap()
}

#[tokio::test]
async fn interrupted_collection_takes_nothing_else_and_the_next_completes_it() {
    const DAYS: [u64; 5] = [0, 8, 16, 24, 32];
    let undisturbed = used_store().await;
    for days in DAYS {
        collect(&undisturbed, usize::MAX, days).await.unwrap();
    }
    let expected = keys(&undisturbed).await;
    for seq in [4, 5] {
        let names = suffixes("versions", &[seq])
            .into_iter()
            .chain(suffixes("trees", &[seq]));
        for name in names.chain([Digest::from_content(&seq.to_le_bytes()).to_string()]) {
            assert!(expected.iter().any(|key| key.ends_with(&name)), "{name}");
        }
    }
    assert_eq!(undisturbed.originals().await.len(), 2);
    let mut interruptions = 0;
    for writes in 0.. {
        let fixture = used_store().await;
        let mut died = false;
        for days in DAYS.into_iter().chain([40, 48]) {
            // Every collection of the first two weeks dies at this write.
            let limit = if days <= 8 { writes } else { usize::MAX };
            died |= collect(&fixture, limit, days).await.is_err();
            let present = keys(&fixture).await;
            let lost: Vec<_> = expected
                .iter()
                .filter(|key| !present.contains(key))
                .collect();
            assert!(
                lost.is_empty(),
                "dead at write {writes}, day {days}: {lost:?}"
            );
        }
        assert_eq!(keys(&fixture).await, expected, "dead at write {writes}");
        if !died {
            break;
        }
        interruptions += 1;
    }
    assert!(interruptions > 15, "{interruptions}");
}

// The documents of a store with many, in the order in which they are collected.
async fn many_documents(count: u32) -> (GcFixture, Vec<GcFixture>) {
    let first = GcFixture::new();
    let mut documents = Vec::new();
    for n in 0..count {
        let document = GcFixture {
            blobs: Arc::clone(&first.blobs),
            collection: first.collection.clone(),
            doc: DocId::new(&first.collection, &format!("file:///{n}.md")),
        };
        for seq in 1..=3 {
            let at_ms = NOW - 60 * DAY_MS + seq * DAY_MS + u64::from(n);
            document.publish_at(seq, "t", at_ms).await;
        }
        documents.push(document);
    }
    documents.sort_by_key(|document| document.doc);
    (first, documents)
}

#[tokio::test]
async fn documents_are_collected_in_pages_that_do_not_grow_with_them() {
    let (first, documents) = many_documents(2_500).await;
    let blobs = observed(&first.blobs, usize::MAX);
    let mut pages = GarbagePages::start(&blobs, &first.collection, NOW, 90 * DAY_MS)
        .await
        .unwrap();
    let mut sizes = Vec::new();
    while let Some(page) = pages.next_documents().await.unwrap() {
        sizes.push(page.documents.len());
    }
    assert_eq!(sizes, [1_000, 1_000, 500]);
    let [_, lists, _] = blobs.layer.counts();
    // Two listings of each document, and pages of change records.
    assert!(
        lists < 3 * documents.len() + 7_500 / 1_000 + 10,
        "{lists} listings"
    );
}

#[tokio::test]
async fn interrupted_collection_goes_on_with_the_next_page() {
    let (first, documents) = many_documents(1_200).await;
    let tree = |document: &GcFixture| {
        let key = blob_keys::tree_key(&first.collection, document.doc, 1);
        first.blobs.has(&key)
    };
    // Dies in the second page. The first and the record of it are 2,001 writes.
    collect(&first, 2_101, 0).await.unwrap_err();
    let left = documents.iter().filter(|document| tree(document)).count();
    assert!((100..200).contains(&left), "{left}");
    // Documents of the first page are not looked at again: this one got a fourth version meanwhile.
    let at_ms = NOW - 20 * DAY_MS;
    documents[0].publish_at(4, "t", at_ms).await;
    let second = |document: &GcFixture| {
        let key = blob_keys::tree_key(&first.collection, document.doc, 2);
        first.blobs.has(&key)
    };
    collect(&first, usize::MAX, 1).await.unwrap();
    assert_eq!(
        documents.iter().filter(|document| tree(document)).count(),
        0
    );
    assert!(second(&documents[0]));
    // The next collection begins anew.
    collect(&first, usize::MAX, 2).await.unwrap();
    assert!(!second(&documents[0]));
    let positions = position::positions_prefix(&first.collection);
    assert_eq!(list_all(&*first.blobs, &positions).await.unwrap(), [""; 0]);
}
