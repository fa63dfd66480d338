//! Half a year of submissions, removals and weekly garbage collection, from originals in the store alone: what a document,
//! a job or the last two versions need is always there, and the store does not grow with time.
#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::{
    Collection, Digest, DocId, DocumentVersion, PublishedTree, TreeObject, blob_keys,
};
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_engine::jobs::{self, JobReport, PauseReason};
use stemma_engine::queue::Lane;
use stemma_extract::{ExtractError, ExtractJob, Extractor};
use stemma_pipeline::gc::GarbagePages;
use stemma_pipeline::sources::{SourceStore, SourceWriter};
use stemma_pipeline::{RunSettings, Submission, WorkerDeps};
use stemma_pipeline_tests::{InProcessExtractor, Services, report, simulate, submission};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::blobs::{Blobs, MemoryBlobs, list_all};
use stemma_store::{Env, Failure, JobId, Priority};

const DAY: Duration = Duration::from_secs(24 * 3600);
const DAY_MS: u64 = 24 * 3_600_000;
const WEEKS: u64 = 26;
// The document whose job is paused for weeks, while other jobs publish newer versions of it.
const PAUSED: &str = "paused.md";
const PAUSED_WEEKS: std::ops::Range<u64> = 3..11;

/// Has no files: what is not in the store is lost.
struct NoFiles;

#[async_trait]
impl SourceStore for NoFiles {
    async fn read(&self, version: &DocumentVersion, _: u64) -> Result<Bytes, Failure> {
        let message = format!("the original of {} is not in the store", version.uri);
        Err(Failure::permanent("input.unreachable", message))
    }
}

/// Takes a while, so that a job can be paused meanwhile.
struct SlowExtractor(Env);

#[async_trait]
impl Extractor for SlowExtractor {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        self.0.sleep(Duration::from_secs(5)).await;
        InProcessExtractor.extract(job).await
    }
}

fn text(state: u64) -> Bytes {
    format!("# State {state}\n\nWhat it says.\n\n# More\n\nThe rest of {state}.\n").into()
}

fn doc(name: &str) -> DocId {
    DocId::new(&Collection::default(), &submission(name, b"").uri)
}

struct Archive {
    env: Env,
    store: Arc<MemoryBlobs>,
    ports: Ports,
    collection: Collection,
}

impl Archive {
    fn new() -> Self {
        let env = Env::simulated(1);
        let store = Arc::new(MemoryBlobs::default());
        let ports = Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&store));
        Self {
            env,
            store,
            ports,
            collection: Collection::default(),
        }
    }

    fn start(&self) -> Services {
        let extractor = SlowExtractor(self.env.clone());
        let deps = WorkerDeps::new(Arc::new(NoFiles), Arc::new(extractor));
        Services::start(&self.ports, deps, [(Lane::Cpu, 2)])
    }

    async fn submit(&self, documents: &[Submission]) -> JobId {
        let order = SubmitRequest {
            collection: &self.collection,
            settings: &RunSettings::default(),
            priority: Priority::Bulk,
            options: JobOptions::default(),
        };
        submit(&self.ports, order, documents).await.unwrap().job
    }

    async fn upload(&self, name: &str, bytes: Bytes) -> Submission {
        let writer = SourceWriter::start(&self.ports.blobs, &self.collection)
            .await
            .unwrap();
        writer
            .store(Digest::from_content(&bytes), bytes.clone())
            .await
            .unwrap();
        submission(name, &bytes)
    }

    async fn process(&self, job: &JobId) -> JobReport {
        let services = self.start();
        let report = report(&self.env, &self.store, job).await.unwrap();
        services.stop().await.unwrap();
        report
    }

    // Submits a document and pauses its job when version `seq` is claimed, so that its run stays open.
    async fn open_and_pause(&self, name: &str, seq: u64, bytes: Bytes) -> JobId {
        let document = self.upload(name, bytes).await;
        let services = self.start();
        let job = self.submit(&[document]).await;
        let claim = blob_keys::version_key(&self.collection, doc(name), seq);
        while !self.store.has(&claim) {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        jobs::pause(&self.ports, &job, PauseReason::Person)
            .await
            .unwrap();
        services.stop().await.unwrap();
        let tree = blob_keys::tree_key(&self.collection, doc(name), seq);
        assert!(!self.store.has(&tree), "the run has ended before the pause");
        job
    }

    async fn collect(&self) {
        let blobs = &*self.store;
        let now_ms = self.env.now_ms();
        let pages = GarbagePages::start(blobs, &self.collection, now_ms, 30 * DAY_MS);
        let pages = pages.await.unwrap();
        pages.remove_all(|_| ()).await.unwrap();
    }

    async fn trees(&self, doc: DocId) -> Vec<(u64, TreeObject)> {
        let prefix = blob_keys::trees_prefix(&self.collection, doc);
        let mut trees = Vec::new();
        for key in list_all(&*self.store, &prefix).await.unwrap() {
            let json = self.store.get(&key).await.unwrap().unwrap();
            let seq = blob_keys::parse_seq(&key).unwrap();
            trees.push((seq, serde_json::from_slice(&json).unwrap()));
        }
        trees
    }

    // The last two trees, their texts, claims and originals exist.
    async fn check(&self, names: &BTreeSet<String>, week: u64) {
        for name in names {
            let doc = doc(name);
            let trees = self.trees(doc).await;
            let last: Vec<&PublishedTree> = trees
                .iter()
                .rev()
                .take(2)
                .filter_map(|(_, tree)| match tree {
                    TreeObject::Published(tree) => Some(&**tree),
                    TreeObject::Removed => None,
                })
                .collect();
            assert!(!last.is_empty(), "week {week}: {name} has no tree");
            for tree in last {
                let scope = blob_keys::document_scope(&self.collection, doc);
                let seq = tree.version.seq;
                let what = format!("week {week}: {name}, version {seq}");
                assert!(
                    self.store.has(&format!("{scope}/a/{}", tree.text_artifact)),
                    "{what}"
                );
                assert!(
                    self.store
                        .has(&blob_keys::version_key(&self.collection, doc, seq)),
                    "{what}"
                );
                let originals = blob_keys::original_keys(&self.collection, tree.version.source);
                assert!(originals.iter().any(|key| self.store.has(key)), "{what}");
            }
        }
    }

    // Publishes one version after another, and returns the artifacts that each added.
    async fn publish_states(&self, name: &str, states: &[u64]) -> Vec<BTreeSet<String>> {
        let mut known = self.artifacts(name).await;
        let mut added = Vec::new();
        for state in states {
            let document = self.upload(name, text(*state)).await;
            let job = self.submit(&[document]).await;
            let report = self.process(&job).await;
            assert_eq!(report.counts.done, 1, "{report:?}");
            let artifacts = self.artifacts(name).await;
            added.push(&artifacts - &known);
            known = artifacts;
        }
        added
    }

    async fn artifacts(&self, name: &str) -> BTreeSet<String> {
        let scope = blob_keys::document_scope(&self.collection, doc(name));
        let keys = list_all(&*self.store, &format!("{scope}/a/")).await;
        keys.unwrap().into_iter().collect()
    }

    async fn counts(&self) -> BTreeMap<&'static str, usize> {
        let keys = list_all(&*self.store, "").await.unwrap();
        let kinds = [
            "/versions/",
            "/trees/",
            "/a/",
            "/originals/",
            "/originals-unused/",
            "jobs/",
        ];
        let count = |kind: &str| keys.iter().filter(|key| key.contains(kind)).count();
        kinds.map(|kind| (kind, count(kind))).into()
    }
}

#[test]
fn months_of_collection_take_nothing_that_is_needed_and_leave_nothing_old() {
    simulate(async {
        let archive = Archive::new();
        let mut names = BTreeSet::new();
        let mut at_half = BTreeMap::new();
        let mut paused = None;
        for week in 0..WEEKS {
            if week == PAUSED_WEEKS.start {
                paused = Some(archive.open_and_pause(PAUSED, 1, text(1_000)).await);
                names.insert(PAUSED.to_string());
            }
            let mut documents = Vec::new();
            for n in 0..5_u64 {
                // States return after some weeks, while their originals stay, are marked, or are gone.
                if week % (n + 1) == 0 {
                    let name = format!("{n}.md");
                    let state = 10 * n + (week / (n + 1)) % 4;
                    documents.push(archive.upload(&name, text(state)).await);
                    names.insert(name);
                }
            }
            if PAUSED_WEEKS.contains(&week) {
                documents.push(archive.upload(PAUSED, text(2_000 + week)).await);
            }
            if week % 9 == 8 {
                let document = submission("3.md", b"");
                names.remove("3.md");
                documents.retain(|other| other.uri != document.uri);
                documents.push(Submission::for_removal(document.uri, document.path));
            }
            let job = archive.submit(&documents).await;
            let report = archive.process(&job).await;
            assert_eq!(report.counts.failed, 0, "week {week}: {report:?}");
            archive.check(&names, week).await;
            archive.collect().await;
            archive.check(&names, week).await;
            archive.env.sleep(5 * DAY).await;
            archive.collect().await;
            archive.env.sleep(2 * DAY).await;
            if week == PAUSED_WEEKS.end {
                let job = paused.take().unwrap();
                jobs::resume(&archive.ports, &job).await.unwrap();
                let report = archive.process(&job).await;
                assert_eq!(
                    (report.counts.done, report.counts.failed),
                    (1, 0),
                    "{report:?}"
                );
            }
            if week == WEEKS / 2 + 5 {
                at_half = archive.counts().await;
            }
        }
        let after = archive.counts().await;
        println!("{at_half:?}, later {after:?}");
        for (kind, count) in &after {
            // Half as long again may be a collection away.
            assert!(
                *count <= at_half[kind] + 8,
                "{kind}: {at_half:?}, later {after:?}"
            );
        }
        assert!(after["/versions/"] <= 6 * 5, "{after:?}");
    })
    .unwrap();
}

#[test]
fn artifacts_of_superseded_versions_go_and_those_of_the_last_two_stay() {
    simulate(async {
        let archive = Archive::new();
        let added = archive.publish_states("a.md", &[1, 2, 1, 3, 4]).await;
        let all = archive.artifacts("a.md").await;
        assert!(
            added[0].len() > 2 && added[2].len() < added[0].len(),
            "{added:?}"
        );
        archive.env.sleep(6 * DAY).await;
        archive.collect().await;
        assert_eq!(archive.artifacts("a.md").await, all, "superseded this week");
        archive.env.sleep(2 * DAY).await;
        archive.collect().await;
        let last: BTreeSet<String> = &added[3] | &added[4];
        assert_eq!(archive.artifacts("a.md").await, last);
        // The state returns when its artifacts are gone.
        let again = archive.publish_states("a.md", &[1]).await;
        assert_eq!(again[0].len(), added[0].len(), "{again:?}");
        archive.check(&["a.md".to_string()].into(), 2).await;
    })
    .unwrap();
}

#[test]
fn artifacts_of_a_state_that_returned_stay_with_it() {
    simulate(async {
        let archive = Archive::new();
        let added = archive.publish_states("a.md", &[1, 2, 3, 1]).await;
        archive.env.sleep(8 * DAY).await;
        archive.collect().await;
        // Only what publishes the first version is not needed again.
        let left = archive.artifacts("a.md").await;
        let first = &added[0] & &left;
        assert_eq!(first.len(), added[0].len() - 1, "{added:?}");
        assert_eq!(&left - &first, &added[2] | &added[3]);
    })
    .unwrap();
}

#[test]
fn all_artifacts_stay_while_a_version_is_open() {
    simulate(async {
        let archive = Archive::new();
        archive.publish_states("a.md", &[1, 2, 3]).await;
        archive.env.sleep(8 * DAY).await;
        let job = archive.open_and_pause("a.md", 4, text(4)).await;
        let before = archive.artifacts("a.md").await;
        archive.env.sleep(8 * DAY).await;
        archive.collect().await;
        assert_eq!(archive.artifacts("a.md").await, before);
        jobs::resume(&archive.ports, &job).await.unwrap();
        let report = archive.process(&job).await;
        assert_eq!(report.counts.done, 1, "{report:?}");
    })
    .unwrap();
}
