//! Which failed documents to submit again.

use std::str::FromStr;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_archive::{Archive, FailureRow};
use stemma_document::blob_keys;
use stemma_engine::jobs;
use stemma_pipeline::Submission;
use stemma_store::blobs::list_range;
use stemma_store::{FailureRecord, JobId, PortResult, RunHeader, RunId};

use crate::{Operations, OperationsError};

const READS_AT_ONCE: usize = 16;

/// A condition on failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureFilter {
    /// The failure code, or a prefix with `*`.
    Code(String),
    Stage(String),
    Doc(String),
}

impl FromStr for FailureFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("code", value)) => Ok(Self::Code(value.into())),
            Some(("stage", value)) => Ok(Self::Stage(value.into())),
            Some(("doc", value)) => Ok(Self::Doc(value.into())),
            _ => Err(format!(
                "invalid filter `{text}`; use code=…, stage=… or doc=…"
            )),
        }
    }
}

impl FailureFilter {
    fn matches(&self, code: &str, stage: &str, names: &[&String]) -> bool {
        match self {
            Self::Code(wanted) => match wanted.strip_suffix('*') {
                Some(beginning) => code.starts_with(beginning),
                None => code == wanted,
            },
            Self::Stage(wanted) => stage == wanted,
            Self::Doc(wanted) => names.contains(&wanted),
        }
    }
}

/// A failed document that can be submitted again.
#[derive(Debug, Clone)]
pub struct RetryCandidate {
    pub locator: String,
    pub submission: Submission,
}

impl Operations {
    /// The failed documents that match all `filters` and, if a job is given, that it ran last. A job that has ended says
    /// itself which those are, while its report names all. Otherwise all failed documents of the collection are looked at, in
    /// `archive` or, without one, in an archive that is opened for it.
    ///
    /// # Errors
    /// [`OperationsError`] when the store does not answer.
    pub async fn failed_documents_to_retry(
        &self,
        archive: Option<&Archive>,
        job: Option<&JobId>,
        filters: &[FailureFilter],
    ) -> Result<Vec<RetryCandidate>, OperationsError> {
        if let Some(job) = job
            // Only the catalog knows all their names.
            && !filters
                .iter()
                .any(|filter| matches!(filter, FailureFilter::Doc(_)))
            && let Some(reported) = self.reported_failures(job).await?
        {
            return self.still_failed(job, reported, filters).await;
        }
        let opened;
        let reader = match archive {
            Some(archive) => archive,
            None => {
                opened = self.archive().await?;
                &opened
            }
        };
        let rows = reader.failures("/", usize::MAX)?.failures.into_iter();
        let rows = rows.filter(|row| {
            let failure = &row.failure;
            let names = [&row.doc_id, &row.locator, &row.path];
            let matches =
                |filter: &FailureFilter| filter.matches(&failure.code, &failure.stage, &names);
            filters.iter().all(matches)
        });
        let chosen: Vec<Option<RetryCandidate>> = stream::iter(rows)
            .map(|row: FailureRow| async move {
                let (doc, seq) = reader.latest_version(&row.doc_id).await?;
                let run = stemma_pipeline::run_id(doc, seq);
                let header = self.run_header(&run).await?;
                let header = header
                    .filter(|header| job.is_none_or(|job| header.opened_by.split().0 == *job));
                let submission = header.and_then(|header| Submission::resubmit(&header));
                Ok::<_, OperationsError>(submission.map(|submission| RetryCandidate {
                    locator: row.locator,
                    submission,
                }))
            })
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(chosen.into_iter().flatten().collect())
    }

    // The runs of a job that failed; `None` while it runs, and where its report lacks some: it names a thousand, and none that
    // were cancelled.
    async fn reported_failures(
        &self,
        job: &JobId,
    ) -> PortResult<Option<Vec<(String, FailureRecord)>>> {
        let report = jobs::report(self.blobs(), job).await?;
        Ok(report.and_then(|report| {
            let counts = &report.counts;
            let is_whole = counts.cancelled == 0 && counts.failed == report.failures.len() as u64;
            is_whole.then_some(report.failures)
        }))
    }

    // The runs that the job opened and whose documents have no newer version and no tree of it.
    async fn still_failed(
        &self,
        job: &JobId,
        reported: Vec<(String, FailureRecord)>,
        filters: &[FailureFilter],
    ) -> Result<Vec<RetryCandidate>, OperationsError> {
        let matching = reported.into_iter().filter(|(_, failure)| {
            let matches =
                |filter: &FailureFilter| filter.matches(&failure.code, &failure.stage, &[]);
            filters.iter().all(matches)
        });
        let reads = stream::iter(matching).map(|(run, _)| async move {
            // An entry that opened no run has no header.
            let Some(header) = self.run_header(&RunId(run)).await? else {
                return Ok(None);
            };
            if header.opened_by.split().0 != *job || !self.is_newest(&header).await? {
                return Ok(None);
            }
            let submission = Submission::resubmit(&header);
            Ok::<_, OperationsError>(submission.map(|submission| RetryCandidate {
                locator: submission.path.clone(),
                submission,
            }))
        });
        let chosen: Vec<_> = reads.buffered(READS_AT_ONCE).try_collect().await?;
        Ok(chosen.into_iter().flatten().collect())
    }

    // Whether a run is that of the newest version, and left no tree. One listing: what else a document has sorts before its
    // trees and versions.
    async fn is_newest(&self, header: &RunHeader) -> PortResult<bool> {
        let scope = &header.at.scope;
        let after = format!("{scope}/trees");
        let keys = list_range(self.blobs(), &format!("{scope}/"), Some(&after), None).await?;
        let seq = blob_keys::parse_seq(&header.at.header);
        let newest = keys.iter().filter_map(|key| blob_keys::parse_seq(key));
        let has_tree = keys
            .iter()
            .any(|key| key[after.len()..].starts_with('/') && blob_keys::parse_seq(key) >= seq);
        Ok(newest.max() == seq && !has_tree)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use futures::future::BoxFuture;
    use serde_json::json;
    use stemma_document::{Collection, Digest, DocId, DocumentVersion, Origin};
    use stemma_engine::Ports;
    use stemma_engine::jobs::{EntryCounts, JobEndReason, JobReport};
    use stemma_store::blobs::{Blobs, MemoryBlobs, put_json};
    use stemma_store::port_layer::{Layered, PortLayer};
    use stemma_store::{Env, Failure, Priority, RunRef};

    use super::*;

    /// Notes what is listed.
    #[derive(Clone, Default)]
    struct Listings(Arc<Mutex<Vec<String>>>);

    impl PortLayer for Listings {
        async fn call<'a, T, F>(
            &'a self,
            operation: &'static str,
            about: impl Fn() -> String + Send + 'a,
            mut call: F,
        ) -> PortResult<T>
        where
            T: Send + 'a,
            F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
        {
            if ["blobs.list", "blobs.children"].contains(&operation) {
                self.0.lock().unwrap().push(about());
            }
            call().await
        }
    }

    struct Lab {
        operations: Operations,
        listings: Listings,
        collection: Collection,
    }

    impl Lab {
        fn new() -> Self {
            let env = Env::simulated(1);
            let listings = Listings::default();
            let store: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
            let blobs = Layered {
                layer: listings.clone(),
                port: store,
            };
            let ports = Ports::embedded(&env, Arc::new(blobs));
            let collection = Collection::default();
            Self {
                operations: Operations::live(ports, collection.clone()),
                listings,
                collection,
            }
        }

        fn doc(&self, name: &str) -> DocId {
            DocId::new(&self.collection, &format!("file:///{name}"))
        }

        async fn claim(&self, name: &str, seq: u64, job: &str) -> RunId {
            let doc = self.doc(name);
            let version = DocumentVersion {
                doc,
                seq,
                uri: format!("file:///{name}"),
                name: name.into(),
                path: name.into(),
                source: Digest::from_content(name.as_bytes()),
                origin: Origin::Content,
                size_bytes: 1,
                settings: "s".into(),
                sidecar_facts: BTreeMap::new(),
                filing_facts: BTreeMap::new(),
                correction: None,
                labels: None,
            };
            let header = RunHeader {
                at: RunRef {
                    run: stemma_pipeline::run_id(doc, seq),
                    header: blob_keys::version_key(&self.collection, doc, seq),
                    scope: blob_keys::document_scope(&self.collection, doc),
                },
                settings: "s".into(),
                flow_revision: 1,
                priority: Priority::Bulk,
                opened_by: JobId(job.into()),
                input: serde_json::to_value(version).unwrap(),
            };
            self.put(&header.at.header, &header).await;
            header.at.run
        }

        async fn put(&self, key: &str, value: &(impl serde::Serialize + Sync)) {
            put_json(&self.operations.ports.blobs, key, value)
                .await
                .unwrap();
        }

        async fn report(&self, job: &str, cancelled: u64, failed: &[(&RunId, &str)]) {
            let failures = failed.iter().map(|(run, code)| {
                let failure = Failure::permanent(code, "x");
                (run.0.clone(), FailureRecord::new(failure, "paginate", 1, 0))
            });
            let report = JobReport {
                job: JobId(job.into()),
                close: JobEndReason::Finished,
                counts: EntryCounts {
                    failed: failed.len() as u64,
                    cancelled,
                    ..EntryCounts::default()
                },
                reasons: BTreeMap::new(),
                failures: failures.collect(),
                tasks: 0,
                submitted_ms: 0,
                ended_ms: 1,
            };
            self.put(&format!("jobs/{job}/report.json"), &report).await;
        }

        async fn retried(&self, job: &str, filters: &[&str]) -> Vec<String> {
            let filters: Vec<FailureFilter> =
                filters.iter().map(|text| text.parse().unwrap()).collect();
            let job = JobId(job.into());
            let chosen = self
                .operations
                .failed_documents_to_retry(None, Some(&job), &filters);
            let chosen = chosen.await.unwrap().into_iter();
            chosen.map(|candidate| candidate.locator).collect()
        }

        fn take_listings(&self) -> Vec<String> {
            std::mem::take(&mut *self.listings.0.lock().unwrap())
        }
    }

    #[tokio::test]
    async fn a_job_names_its_failures_and_no_other_document_is_looked_at() {
        let lab = Lab::new();
        let first = lab.claim("first.pdf", 1, "j-1").await;
        let second = lab.claim("second.pdf", 1, "j-1+3").await;
        let published = lab.claim("published.pdf", 1, "j-1").await;
        let tree = blob_keys::tree_key(&lab.collection, lab.doc("published.pdf"), 1);
        lab.put(&tree, &json!({})).await;
        let newer = lab.claim("newer.pdf", 1, "j-1").await;
        lab.claim("newer.pdf", 2, "j-2").await;
        let foreign = lab.claim("foreign.pdf", 1, "j-2").await;
        let failed = [&first, &second, &published, &newer, &foreign];
        let failed: Vec<_> = failed.into_iter().map(|run| (run, "input.x")).collect();
        lab.report("j-1", 0, &failed).await;
        for n in 0..50 {
            lab.claim(&format!("other-{n}.pdf"), 1, "j-2").await;
        }
        lab.take_listings();
        assert_eq!(lab.retried("j-1", &[]).await, ["first.pdf", "second.pdf"]);
        let listings = lab.take_listings();
        assert_eq!(
            listings.len(),
            4,
            "one for each of its documents: {listings:?}"
        );
        assert_eq!(lab.retried("j-1", &["code=input.y"]).await, [""; 0]);
        assert_eq!(lab.take_listings(), [""; 0]);
    }

    #[tokio::test]
    async fn jobs_that_do_not_name_all_failures_are_answered_from_the_catalog() {
        let lab = Lab::new();
        let run = lab.claim("a.pdf", 1, "j-1").await;
        lab.report("j-1", 1, &[(&run, "input.x")]).await;
        lab.report("j-2", 0, &[(&run, "input.x")]).await;
        let reads_catalog = async |job: &str, filters: &[&str]| {
            lab.take_listings();
            lab.retried(job, filters).await;
            let listings = lab.take_listings();
            listings.iter().any(|about| about.contains("/changes/"))
        };
        assert!(reads_catalog("j-1", &[]).await, "one was cancelled");
        assert!(reads_catalog("j-3", &[]).await, "it has not ended");
        assert!(reads_catalog("j-2", &["doc=a"]).await, "names of documents");
        assert!(!reads_catalog("j-2", &[]).await);
    }
}
