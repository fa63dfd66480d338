//! Which tasks run again after a page changes or is inserted at the front: only those that read it.
//!
//! The flow here works page by page, like the questions to models: every page is read, every section is
//! summarized from the results of its pages, and the document is described from the summaries. Keys contain
//! content digests but no page numbers, so pages that only moved cost nothing.
#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::Digest;
use stemma_engine::consumer::Consumer;
use stemma_engine::coordinator::Coordinator;
use stemma_engine::executor::TaskExecutor;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::message::RunOutcome;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageRegistry, StageResult, TaskContext, Work};
use stemma_engine::{Ports, jobs, settings};
use stemma_filings::{Filing, FilingKind, Spec, generate};
use stemma_pipeline_tests::{report, simulate};
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::{Env, JobId, PortResult, Priority, RunHeader, RunId, RunRef, TaskKeyBuilder};
use tokio_util::sync::CancellationToken;

struct PageFlow;

impl Work for PageFlow {
    type Settings = ();
    type Tools = PageLog;

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        let number: u64 = run.0.strip_prefix("one-")?.parse().ok()?;
        Some(RunRef {
            run: run.clone(),
            header: format!("{scope}/versions/{number:012}"),
            scope: scope.into(),
        })
    }
}

// The versions of the document, and a log of executed tasks.
#[derive(Default)]
struct PageLog {
    versions: Vec<Vec<String>>,
    ran: Mutex<Vec<String>>,
}

// Digests of the pages, and the sections by first and last page (from 0).
#[derive(Clone, Serialize, Deserialize)]
struct Version {
    number: usize,
    pages: Vec<Digest>,
    sections: Vec<(usize, usize)>,
}

#[derive(Serialize, Deserialize)]
struct ReadPageStage {
    text: Digest,
    // Where the text is; not part of the key.
    version: usize,
    page: usize,
}

#[async_trait]
impl Stage for ReadPageStage {
    type Work = PageFlow;
    type Outcome = Digest;
    const NAME: &'static str = "read_page";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, (): &(), identity: &mut TaskKeyBuilder) {
        identity.bytes(self.text.as_bytes());
    }

    async fn run(&self, task: &TaskContext<'_, PageFlow>) -> StageResult<Digest> {
        task.tools.record(format!("read_page {}", self.page + 1));
        let text = &task.tools.versions[self.version][self.page];
        Ok(Digest::from_content(text.to_uppercase().as_bytes()).into())
    }
}

#[derive(Serialize, Deserialize)]
struct SummarizeSection {
    pages: Vec<Digest>,
    // Only for the log.
    number: usize,
}

#[async_trait]
impl Stage for SummarizeSection {
    type Work = PageFlow;
    type Outcome = Digest;
    const NAME: &'static str = "summarize_section";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, (): &(), identity: &mut TaskKeyBuilder) {
        for page in &self.pages {
            identity.bytes(page.as_bytes());
        }
    }

    async fn run(&self, task: &TaskContext<'_, PageFlow>) -> StageResult<Digest> {
        task.tools
            .record(format!("summarize_section {}", self.number + 1));
        Ok(joined(&self.pages).into())
    }
}

#[derive(Serialize, Deserialize)]
struct DescribeStage {
    summaries: Vec<Digest>,
}

#[async_trait]
impl Stage for DescribeStage {
    type Work = PageFlow;
    type Outcome = Digest;
    const NAME: &'static str = "describe";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, (): &(), identity: &mut TaskKeyBuilder) {
        for summary in &self.summaries {
            identity.bytes(summary.as_bytes());
        }
    }

    async fn run(&self, task: &TaskContext<'_, PageFlow>) -> StageResult<Digest> {
        task.tools.record("describe".into());
        Ok(joined(&self.summaries).into())
    }
}

// Writes the result of the version. Every version has this task of its own, so the log leaves it out.
#[derive(Serialize, Deserialize)]
struct PublishStage {
    version: usize,
    description: Digest,
}

#[async_trait]
impl Stage for PublishStage {
    type Work = PageFlow;
    type Outcome = ();
    const NAME: &'static str = "publish";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, (): &(), identity: &mut TaskKeyBuilder) {
        identity
            .number(self.version as u64)
            .bytes(self.description.as_bytes());
    }

    async fn run(&self, task: &TaskContext<'_, PageFlow>) -> StageResult<()> {
        let key = format!("{}.tree", task.run.header);
        task.ports
            .blobs
            .put(&key, self.description.as_bytes().to_vec().into())
            .await?;
        Ok(().into())
    }
}

fn joined(digests: &[Digest]) -> Digest {
    Digest::from_content(
        &digests
            .iter()
            .flat_map(|digest| digest.as_bytes())
            .copied()
            .collect::<Vec<u8>>(),
    )
}

impl PageLog {
    fn record(&self, what: String) {
        self.ran.lock().unwrap().push(what);
    }
}

fn version_of(run: &RunHeader) -> Version {
    serde_json::from_value(run.input.clone()).unwrap()
}

#[async_trait]
impl Flow for PageFlow {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let Version {
            number,
            pages,
            sections,
        } = version_of(run);
        let tasks = pages.iter().enumerate().map(|(page, text)| ReadPageStage {
            text: *text,
            version: number,
            page,
        });
        let read = collect_outcomes(replay.results(tasks)?)?;
        let tasks = sections
            .iter()
            .enumerate()
            .map(|(number, (first, last))| SummarizeSection {
                pages: read[*first..=*last].to_vec(),
                number,
            });
        let summaries = collect_outcomes(replay.results(tasks.collect::<Vec<_>>())?)?;
        let description = replay.outcome(&DescribeStage { summaries })?;
        replay.outcome(&PublishStage {
            version: number,
            description,
        })?;
        Ok(FlowOutput { gaps: 0 })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let version: Version = serde_json::from_value(entry.input.clone()).unwrap();
        let header = format!("c/x/d/one/versions/{:012}", version.number);
        let run = RunId(format!("one-{}", version.number));
        let header = RunHeader {
            at: RunRef {
                run,
                header,
                scope: "c/x/d/one".into(),
            },
            settings: job.settings.clone(),
            flow_revision: Self::REVISION,
            priority: job.priority,
            opened_by: job.job.clone(),
            input: entry.input.clone(),
        };
        ports
            .blobs
            .put(
                &header.at.header,
                serde_json::to_vec(&header).unwrap().into(),
            )
            .await?;
        Ok(ClaimOutcome::Run(header))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let tree = ports.blobs.size(&format!("{}.tree", run.at.header)).await?;
        Ok(tree.map(|_| RunOutcome::Done))
    }
}

fn collect_outcomes<T>(
    outcomes: Vec<Result<T, stemma_store::FailureRecord>>,
) -> Result<Vec<T>, FlowStop> {
    outcomes
        .into_iter()
        .map(|outcome| outcome.map_err(FlowStop::Failed))
        .collect()
}

// The leaf sections as page ranges (from 0). A section ends on the page on which the next one starts, unless
// that one starts its page. The first section includes everything before it.
fn sections(filing: &Filing) -> Vec<(usize, usize)> {
    let starts: Vec<_> = filing
        .truth
        .nodes
        .iter()
        .filter(|node| node.level <= 2)
        .collect();
    let end = |n: usize, first: usize| match starts.get(n + 1) {
        Some(next) if next.starts_page => (next.page as usize - 1).saturating_sub(1).max(first),
        Some(next) => next.page as usize - 1,
        None => filing.page_texts.len() - 1,
    };
    (0..starts.len())
        .map(|n| {
            let first = if n == 0 {
                0
            } else {
                starts[n].page as usize - 1
            };
            (first, end(n, first))
        })
        .collect()
}

// The tasks that ran for each version. All versions are processed in order, over the same store.
fn run_versions(filings: &[&Filing]) -> Vec<BTreeSet<String>> {
    let versions = filings
        .iter()
        .map(|filing| filing.page_texts.clone())
        .collect();
    let log = Arc::new(PageLog {
        versions,
        ran: Mutex::default(),
    });
    simulate(async {
        let env = Env::simulated(3);
        let store = Arc::new(MemoryBlobs::default());
        let ports = Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&store));
        let stop = CancellationToken::new();
        let heartbeat = HeartbeatReporter::new(&env, "pipeline", "all");
        let coordinator = Coordinator::<PageFlow>::new(
            ports.clone(),
            4,
            Arc::new(|_| ()),
            Arc::clone(&heartbeat),
        );
        env.spawn(coordinator.run(stop.clone()));
        let registry = StageRegistry::default()
            .with_stage::<ReadPageStage>()
            .with_stage::<SummarizeSection>()
            .with_stage::<DescribeStage>()
            .with_stage::<PublishStage>();
        let executor = Arc::new(TaskExecutor::<PageFlow>::new(
            ports.clone(),
            registry,
            Arc::clone(&log),
            Arc::clone(&heartbeat),
        ));
        let queue = ports.queue.clone();
        let name = QueueName::Lane(Lane::Llm, Priority::Bulk);
        let consumer = Consumer {
            env: env.clone(),
            queue,
            name,
            concurrency: 4,
            grace: Duration::from_secs(1),
            heartbeat,
        };
        env.spawn(consumer.run(executor, stop.clone()));

        let mut ran = Vec::new();
        for (number, filing) in filings.iter().enumerate() {
            let job = submit(&ports, number, filing).await;
            assert_eq!(report(&env, &store, &job).await.unwrap().counts.done, 1);
            let executed = std::mem::take(&mut *log.ran.lock().unwrap());
            let once: BTreeSet<String> = executed.iter().cloned().collect();
            assert_eq!(
                once.len(),
                executed.len(),
                "something ran twice: {executed:?}"
            );
            ran.push(once);
        }
        stop.cancel();
        ran
    })
    .unwrap()
}

async fn submit(ports: &Ports, number: usize, filing: &Filing) -> JobId {
    let pages = filing
        .page_texts
        .iter()
        .map(|text| Digest::from_content(text.as_bytes()))
        .collect();
    let version = Version {
        number,
        pages,
        sections: sections(filing),
    };
    let input = serde_json::to_value(version).unwrap();
    let job = JobId(format!("job-{number}"));
    let manifest = JobManifest {
        job: job.clone(),
        collection: "x".into(),
        settings: settings::freeze::<PageFlow>(&ports.blobs, &())
            .await
            .unwrap(),
        priority: Priority::Bulk,
        entries: 1,
        submitted_ms: ports.env.now_ms(),
        options: Default::default(),
    };
    jobs::submit(ports, &manifest, &[JobEntry { weight: 1, input }])
        .await
        .unwrap();
    job
}

// The tasks that must run if these pages (from 0) are new: the pages, the sections that contain them, and the
// description. Of sections on the same pages only the first runs, since they read the same text.
fn expected_tasks(filing: &Filing, pages: &[usize]) -> BTreeSet<String> {
    let mut expected: BTreeSet<String> = pages
        .iter()
        .map(|page| format!("read_page {}", page + 1))
        .collect();
    let mut ranges = BTreeSet::new();
    for (number, (first, last)) in sections(filing).into_iter().enumerate() {
        if pages.iter().any(|page| (first..=last).contains(page)) && ranges.insert((first, last)) {
            expected.insert(format!("summarize_section {}", number + 1));
        }
    }
    expected.insert("describe".into());
    expected
}

fn by_stage(ran: &BTreeSet<String>) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    ran.iter().for_each(|task| {
        *counts
            .entry(task.split(' ').next().unwrap_or_default())
            .or_default() += 1;
    });
    counts
}

#[test]
fn changed_page_runs_only_its_readers() {
    let spec = Spec {
        pages: 16,
        ..Spec::new(FilingKind::TenK, 11)
    };
    let before = generate(&spec);
    for page in [2, 7, 12] {
        let after = generate(&spec.clone().with_page_changed(page));
        let ran = run_versions(&[&before, &after]);
        println!(
            "first: {:?}; page {page} changed, run again: {:?}",
            by_stage(&ran[0]),
            ran[1]
        );
        assert!(ran[0].len() > before.page_texts.len(), "{:?}", ran[0]);
        assert_eq!(ran[1], expected_tasks(&after, &[page as usize - 1]));
    }
}

#[test]
fn inserted_front_page_runs_only_its_readers() {
    let spec = Spec {
        pages: 16,
        ..Spec::new(FilingKind::TenK, 11)
    };
    let before = generate(&spec);
    let after = generate(&spec.with_page_inserted_at_front());
    let ran = run_versions(&[&before, &after]);
    println!(
        "first: {:?}; a page at the front, run again: {:?}",
        by_stage(&ran[0]),
        ran[1]
    );
    assert_eq!(ran[1], expected_tasks(&after, &[0]));
    assert_eq!(
        by_stage(&ran[1]),
        BTreeMap::from([("describe", 1), ("read_page", 1), ("summarize_section", 1)])
    );
}

#[test]
fn unchanged_pages_run_nothing() {
    let filing = generate(&Spec {
        pages: 12,
        ..Spec::new(FilingKind::TenQ, 4)
    });
    let ran = run_versions(&[&filing, &filing]);
    assert!(!ran[0].is_empty());
    println!(
        "first: {:?}; the same again: {:?}",
        by_stage(&ran[0]),
        ran[1]
    );
    assert_eq!(ran[1], BTreeSet::new());
}
