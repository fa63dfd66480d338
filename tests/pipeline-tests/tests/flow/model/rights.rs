//! What each process writes and deletes is what the table in docs/SECURITY.md lets its identity do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use stemma_document::{Collection, Digest, DocumentVersion, PublishedTree, TreeObject};
use stemma_engine::Ports;
use stemma_engine::dead_letter::{self, DeadLetter};
use stemma_engine::flow::JobOptions;
use stemma_engine::jobs::{self, CancelReason, PauseReason};
use stemma_engine::queue::{Lane, Message, Queue, QueueName};
use stemma_filings::generate;
use stemma_llm::batch::{
    BatchName, BatchPhase, BatchProvider, BatchResult, BatchStatus, FoundBatch,
};
use stemma_llm::calls;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::request::{Llm, LlmError, LlmReply, LlmRequest};
use stemma_pipeline::corrections::{Correction, store_correction};
use stemma_pipeline::gc::GarbagePages;
use stemma_pipeline::sources::{SourceStore, SourceWriter};
use stemma_pipeline::{OnModelFailure, StructureMode, Submission, WorkerDeps};
use stemma_pipeline_tests::{InProcessExtractor, Services, report, simulate, submission};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::blobs::{Blobs, MemoryBlobs, get_json, list_all};
use stemma_store::port_layer::{Layered, PortLayer};
use stemma_store::spend::JobBudget;
use stemma_store::{Env, Failure, JobId, PortResult, Priority, RunRef};

use super::echo::DeterministicEcho;
use super::run::{settings, spec};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SECURITY.md");
// Used only by a publication that fails, and to submit documents that messages for reindexing name.
const NOT_USED_HERE: [(&str, &str); 2] = [
    ("stemma-assembler", "runs/*/failed/*"),
    ("stemma-coordinator", "settings/*"),
];
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// What an identity may do below the prefix of the store: patterns in which `*` matches any text.
#[derive(Debug, Default)]
struct Rights {
    puts: Vec<String>,
    deletes: Vec<String>,
}

/// The rights of each role.
fn documented_rights() -> BTreeMap<String, Rights> {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let quoted = |cell: &str| -> Vec<String> {
        let codes = cell.split('`').skip(1).step_by(2);
        codes.map(String::from).collect()
    };
    let rows = document
        .lines()
        .filter(|line| line.starts_with("| `stemma-"));
    let rows = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let rights = Rights {
            puts: quoted(cells[2]),
            deletes: quoted(cells[3]),
        };
        (quoted(cells[1]).remove(0), rights)
    });
    rows.collect()
}

fn matches(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == key,
        Some((head, tail)) => key
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).any(|at| matches(tail, &rest[at..]))),
    }
}

/// Role, operation and key of each write.
type Writes = Arc<Mutex<BTreeSet<(&'static str, &'static str, String)>>>;

/// Records what a role writes and deletes.
#[derive(Clone)]
struct RoleLayer {
    role: &'static str,
    writes: Writes,
}

impl PortLayer for RoleLayer {
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
        if ["blobs.put", "blobs.delete"].contains(&operation) {
            let about = about();
            let key = about.trim_matches(['(', ')', ',', '"']);
            let write = (self.role, operation, key.to_string());
            self.writes.lock().unwrap().insert(write);
        }
        call().await
    }
}

/// The echo, which also takes batches and answers them at once.
#[derive(Default)]
struct BatchingEcho {
    echo: DeterministicEcho,
    requests: Mutex<BTreeMap<String, LlmRequest>>,
    batches: Mutex<Vec<Vec<String>>>,
}

#[async_trait]
impl Llm for BatchingEcho {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        self.echo.complete(request).await
    }

    fn batches(&self) -> Option<&dyn BatchProvider> {
        Some(self)
    }
}

#[async_trait]
impl BatchProvider for BatchingEcho {
    fn max_requests(&self) -> usize {
        1_000
    }

    fn line(&self, id: &str, request: &LlmRequest) -> String {
        let mut requests = self.requests.lock().unwrap();
        requests.insert(id.into(), request.clone());
        id.into()
    }

    async fn submit(&self, _: &BatchName<'_>, lines: &[String]) -> Result<String, LlmError> {
        let mut batches = self.batches.lock().unwrap();
        batches.push(lines.to_vec());
        Ok((batches.len() - 1).to_string())
    }

    async fn find(&self, _: &BatchName<'_>) -> Result<FoundBatch, LlmError> {
        Ok(FoundBatch::Missing)
    }

    async fn status(&self, id: &str) -> Result<BatchStatus, LlmError> {
        let requests = self.lines(id).len() as u64;
        Ok(BatchStatus {
            phase: BatchPhase::Ended,
            done: requests,
            requests,
        })
    }

    async fn results(&self, id: &str) -> Result<Vec<(String, BatchResult)>, LlmError> {
        let mut results = Vec::new();
        for line in self.lines(id) {
            let request = self.requests.lock().unwrap()[&line].clone();
            let reply = self.echo.complete(&request).await?;
            results.push((line, BatchResult::Reply(reply)));
        }
        Ok(results)
    }

    async fn cancel(&self, _: &str) -> Result<(), LlmError> {
        Ok(())
    }
}

impl BatchingEcho {
    fn lines(&self, id: &str) -> Vec<String> {
        self.batches.lock().unwrap()[id.parse::<usize>().unwrap()].clone()
    }
}

/// The same PDF for each document, but none for `broken.pdf`.
struct Documents(Bytes);

#[async_trait]
impl SourceStore for Documents {
    async fn read(&self, version: &DocumentVersion, _: u64) -> Result<Bytes, Failure> {
        match version.name.as_str() {
            "broken.pdf" => Err(Failure::permanent("input.broken", "it is broken")),
            _ => Ok(self.0.clone()),
        }
    }
}

/// A fleet whose processes have identities of their own.
struct Fleet {
    env: Env,
    store: Arc<MemoryBlobs>,
    shared: Ports,
    writes: Writes,
    pdf: Bytes,
}

impl Fleet {
    fn new() -> Self {
        let env = Env::simulated(1);
        let store = Arc::new(MemoryBlobs::default());
        let shared = Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&store));
        Self {
            env,
            store,
            shared,
            writes: Writes::default(),
            pdf: generate(&spec()).pdf.into(),
        }
    }

    /// The ports of a process of this role.
    fn ports(&self, role: &'static str) -> Ports {
        let layer = RoleLayer {
            role,
            writes: Arc::clone(&self.writes),
        };
        let port: Arc<dyn Blobs> = Arc::<MemoryBlobs>::clone(&self.store);
        Ports::new(
            &self.env,
            Arc::clone(self.shared.queue.raw()),
            Arc::clone(self.shared.ledger.raw()),
            Arc::new(Layered { layer, port }),
            Arc::clone(&self.shared.limiter),
        )
    }

    fn start(&self) -> Services {
        let client = ModelClient::new(
            self.env.clone(),
            Arc::clone(&self.shared.limiter),
            Arc::new(BatchingEcho::default()),
            ModelClientSettings::unlimited("echo", "here"),
        );
        let documents = Arc::new(Documents(self.pdf.clone()));
        let deps = WorkerDeps::new(documents, Arc::new(InProcessExtractor))
            .with_models([Arc::new(client)]);
        let roles = ["stemma-coordinator", "stemma-worker", "stemma-assembler"];
        let ports = roles.map(|role| self.ports(role));
        Services::start_with(ports, deps, [(Lane::Cpu, 2), (Lane::Llm, 8)])
    }

    async fn submit(&self, options: JobOptions, documents: &[Submission]) -> JobId {
        let collection = Collection::default();
        let settings = settings(StructureMode::Llm, OnModelFailure::Gap);
        let request = SubmitRequest {
            collection: &collection,
            settings: &settings,
            priority: Priority::Bulk,
            options,
        };
        let ports = self.ports("stemma-submit");
        let submitted = submit(&ports, request, documents).await;
        submitted.unwrap().job
    }

    async fn run(&self, options: JobOptions, documents: &[Submission]) {
        let job = self.submit(options, documents).await;
        report(&self.env, &self.store, &job).await.unwrap();
    }

    fn document(&self, name: &str) -> Submission {
        submission(name, &self.pdf)
    }

    async fn until<T>(&self, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        for _ in 0..3_600 {
            if let Some(found) = look().await {
                return found;
            }
            self.env.sleep(Duration::from_secs(1)).await;
        }
        panic!("nothing after an hour")
    }

    async fn tree(&self) -> PublishedTree {
        let keys = list_all(&*self.store, "c/default/d/").await.unwrap();
        let key = keys.iter().find(|key| key.contains("/trees/")).unwrap();
        match get_json(&*self.store, key).await.unwrap() {
            Some(TreeObject::Published(tree)) => *tree,
            _ => panic!("{key} is not a tree"),
        }
    }
}

async fn process_documents(fleet: &Fleet) {
    let submitter = fleet.ports("stemma-submit");
    let collection = Collection::default();
    let writer = SourceWriter::start(&submitter.blobs, &collection).await;
    let digest = Digest::from_content(&fleet.pdf);
    let stored = writer.unwrap().store(digest, fleet.pdf.clone()).await;
    stored.unwrap();
    let named = JobOptions {
        name: Some("nightly".into()),
        ..JobOptions::default()
    };
    let first = [fleet.document("a.pdf"), submission("broken.pdf", b"broken")];
    fleet.run(named, &first).await;

    let batch = JobOptions {
        batch: true,
        ..JobOptions::default()
    };
    fleet.run(batch, &[fleet.document("b.pdf")]).await;

    let PublishedTree {
        version,
        text_artifact,
        ..
    } = fleet.tree().await;
    let correction = Correction {
        headings: Vec::new(),
    };
    let corrected = store_correction(
        &submitter,
        &collection,
        &version,
        &text_artifact,
        &correction,
    );
    let corrected = corrected.await.unwrap();
    fleet.run(JobOptions::default(), &[corrected]).await;
}

// The worker pauses the job at its budget; a person raises the budget, and cancels the job.
async fn control_a_job(fleet: &Fleet) {
    let budget = |tokens| JobBudget {
        nanodollars: None,
        tokens: Some(tokens),
    };
    let tight = JobOptions {
        budget: Some(budget(1)),
        ..JobOptions::default()
    };
    let job = fleet.submit(tight, &[fleet.document("c.pdf")]).await;
    let paused = fleet.until(async || {
        let control = jobs::load_control(&*fleet.store, &job).await.unwrap();
        control.paused
    });
    assert_eq!(paused.await.reason, PauseReason::Budget);
    let env = &fleet.env;
    let ports = fleet.ports("stemma-query");
    jobs::set_budget(&ports, &job, budget(2)).await.unwrap();
    jobs::pause(&ports, &job, PauseReason::Person)
        .await
        .unwrap();
    jobs::cancel(&ports, &job, CancelReason::Person)
        .await
        .unwrap();
    report(env, &fleet.store, &job).await.unwrap();
}

async fn replay_dead_letters(fleet: &Fleet) {
    let queue = QueueName::Lane(Lane::Cpu, Priority::Bulk);
    let message = vec![Message::new("no task")];
    fleet.shared.queue.publish(queue, message).await.unwrap();
    let letter = fleet.until(async || {
        let keys = list_all(&*fleet.store, "dead/").await.unwrap();
        dead_letter::read(&*fleet.store, keys.first()?)
            .await
            .unwrap()
    });
    let letter = letter.await;
    let keys = list_all(&*fleet.store, "c/default/d/").await.unwrap();
    let header = keys.iter().find(|key| key.contains("/versions/")).unwrap();
    let (scope, _) = header.split_once("/versions/").unwrap();
    let of_a_run = DeadLetter {
        run: Some(RunRef {
            run: stemma_store::RunId("a-run".into()),
            header: header.clone(),
            scope: scope.into(),
        }),
        key: Some("0123456789abcdef0123456789abcdef".parse().unwrap()),
        ..letter
    };
    for role in ["stemma-query", "stemma-coordinator"] {
        let ports = fleet.ports(role);
        dead_letter::replay(&ports, &of_a_run).await.unwrap();
    }
}

async fn remove_and_collect(fleet: &Fleet) {
    let collection = Collection::default();
    let env = &fleet.env;
    let ports = fleet.ports("stemma-operator");
    let tree = fleet.tree().await;
    let doc = tree.version.doc;
    let removed = stemma_roles::assembler::remove_document(&ports, &collection, doc);
    removed.await.unwrap();
    let imported = stemma_roles::assembler::publish_imported(&ports, &collection, tree);
    imported.await.unwrap();
    let broken_off = "jobs/j-0000000000000000000000000001/entries/x/000000.json";
    let submitter = fleet.ports("stemma-submit");
    submitter.blobs.put(broken_off, "[]".into()).await.unwrap();
    let blobs = ports.blobs.raw().as_ref();
    for _ in 0..2 {
        env.sleep(100 * DAY).await;
        let retention_ms = (90 * DAY).as_millis() as u64;
        let pages = GarbagePages::start(blobs, &collection, env.now_ms(), retention_ms);
        pages.await.unwrap().remove_all(|_| ()).await.unwrap();
        for day in calls::days_to_sum(blobs, "c/default", env.now_ms(), 30)
            .await
            .unwrap()
        {
            calls::sum_day(blobs, "c/default", day).await.unwrap();
        }
    }
}

#[test]
fn processes_write_what_the_documented_rights_of_their_role_allow() {
    let fleet = Fleet::new();
    simulate(async {
        let services = fleet.start();
        process_documents(&fleet).await;
        control_a_job(&fleet).await;
        replay_dead_letters(&fleet).await;
        services.stop().await.unwrap();
        remove_and_collect(&fleet).await;
    })
    .unwrap();
    let rights = documented_rights();
    let mut used = BTreeSet::new();
    let mut refused = Vec::new();
    for (role, operation, key) in &*fleet.writes.lock().unwrap() {
        let patterns = match *operation {
            "blobs.put" => &rights[*role].puts,
            _ => &rights[*role].deletes,
        };
        let allowed: Vec<_> = patterns
            .iter()
            .filter(|pattern| matches(pattern, key))
            .collect();
        if allowed.is_empty() {
            refused.push(format!("{role} {operation} {key}"));
        }
        used.extend(
            allowed
                .into_iter()
                .map(|pattern| (*role, *operation, pattern)),
        );
    }
    assert_eq!(refused, [""; 0], "not in docs/SECURITY.md");

    // Nor more than they use.
    for role in [
        "stemma-worker",
        "stemma-assembler",
        "stemma-coordinator",
        "stemma-submit",
    ] {
        let Rights { puts, deletes } = &rights[role];
        let puts = puts.iter().map(|pattern| ("blobs.put", pattern));
        let deletes = deletes.iter().map(|pattern| ("blobs.delete", pattern));
        let unused = puts.chain(deletes).filter(|(operation, pattern)| {
            !used.contains(&(role, *operation, *pattern))
                && !NOT_USED_HERE.contains(&(role, pattern.as_str()))
        });
        assert_eq!(unused.collect::<Vec<_>>(), [], "{role} does not use");
    }
}

#[test]
fn patterns_match_as_those_of_a_policy() {
    assert!(matches("c/*/d/*/a/*", "c/x/d/1/a/k"));
    assert!(matches("jobs/*", "jobs/j/entries/1"));
    assert!(matches(
        "jobs/*/control/*-paused*",
        "jobs/j/control/1-2-paused-v3.json"
    ));
    assert!(!matches("c/*/d/*/a/*", "c/x/d/1/trees/k"));
    assert!(!matches("jobs/*", "jobs-ended/j"));
}
