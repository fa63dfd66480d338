//! A store, a payer and a provider in memory, with crashes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use stemma_engine::Ports;
use stemma_engine::queue::{Lane, QueueName};
use stemma_llm::batch::{
    BatchName, BatchPhase, BatchProvider, BatchResult, BatchStatus, FoundBatch,
};
use stemma_llm::calls::job_spend;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::prices::Prices;
use stemma_llm::request::{Llm, LlmError, LlmReply, LlmRequest, TokenUsage};
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::env::Millis;
use stemma_store::key::run_failure_key;
use stemma_store::port_layer::{Layered, PortLayer};
use stemma_store::spend::{CallReservation, SpendAmount, SpendMeasure};
use stemma_store::{Env, Failure, JobId, PortError, PortResult, Priority, RunId, RunRef, TaskKey};
use tokio_util::sync::CancellationToken;

use super::store::{BatchItem, BatchStore, item_id};
use super::{BatchPayer, BatchRunner, BatchSettings};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);
// How long a batch takes.
const BATCH_MS: Millis = 3_600_000;
const PLAN: &str = "/plan.json";

/// Whether a provider knows the names of batches.
pub(super) const NAMED: bool = true;
pub(super) const UNNAMED: bool = false;

/// When the process dies: around its n-th effect on store or provider.
#[derive(Debug, Clone, Copy)]
pub(super) enum Crash {
    Never,
    Before(usize),
    After(usize),
}

// How many of the next operations on plans fail.
#[derive(Default)]
struct PlanFaults {
    refused_reads: AtomicU32,
    // Of writes that take effect.
    lost_replies: AtomicU32,
}

fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(1)
    })
    .is_ok()
}

struct Steps {
    done: Mutex<usize>,
    crash: Crash,
    crashed: CancellationToken,
    plan_faults: Arc<PlanFaults>,
}

impl Steps {
    // Makes an effect, unless the process dies before; the caller never learns of one after which it dies.
    async fn step<T>(&self, effect: impl Future<Output = T>) -> T {
        let step = {
            let mut done = self.done.lock();
            *done += 1;
            *done - 1
        };
        if matches!(self.crash, Crash::Before(at) if step >= at) {
            self.crashed.cancel();
            return std::future::pending().await;
        }
        let result = effect.await;
        if matches!(self.crash, Crash::After(at) if step >= at) {
            self.crashed.cancel();
            return std::future::pending().await;
        }
        result
    }
}

pub(super) struct Fixture {
    env: Env,
    blobs: Arc<MemoryBlobs>,
    ports: Ports,
    pub(super) store: BatchStore,
    pub(super) provider: Arc<FakeProvider>,
    pub(super) payer: Arc<FakePayer>,
    ids: Mutex<Vec<String>>,
    plan_faults: Arc<PlanFaults>,
}

impl Fixture {
    pub(super) fn new(named: bool) -> Self {
        let env = Env::simulated(7);
        let blobs = Arc::new(MemoryBlobs::default());
        let ports = Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&blobs));
        let store = BatchStore::new(&ports.blobs, "c/x", "m@here");
        let provider = Arc::new(FakeProvider {
            env: env.clone(),
            named,
            steps: Mutex::default(),
            state: Mutex::new(FakeState {
                rejects_above: usize::MAX,
                ..FakeState::default()
            }),
        });
        Self {
            env,
            blobs,
            ports,
            store,
            provider,
            payer: Arc::default(),
            ids: Mutex::default(),
            plan_faults: Arc::default(),
        }
    }

    /// Adds requests of a run.
    pub(super) async fn add(&self, run: &str, requests: u64) {
        for number in 0..requests {
            let task = TaskKey::builder("t", 1).text(run).number(number).finish();
            let scope = format!("c/x/d/{run}");
            let id = item_id(&scope, &task, 0);
            let item = BatchItem {
                id: id.clone(),
                run: run_ref(run),
                task,
                stage: "summarize".into(),
                attempt: 1,
                model: "m".into(),
                request: "digest".into(),
                most: tokens(100),
                line: format!("{{\"custom_id\":\"{id}\"}}"),
                message: format!("wake {id}"),
            };
            self.store.add(&item).await.unwrap();
            self.ids.lock().push(id);
        }
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.ids.lock().clone()
    }

    // A process that dies at `crash`.
    fn start(&self, crash: Crash) -> (BatchRunner, CancellationToken) {
        let crashed = CancellationToken::new();
        let steps = Arc::new(Steps {
            done: Mutex::new(0),
            crash,
            crashed: crashed.clone(),
            plan_faults: Arc::clone(&self.plan_faults),
        });
        *self.provider.steps.lock() = Some(Arc::clone(&steps));
        let blobs = Layered::<_, dyn Blobs> {
            layer: CrashingBlobs(steps),
            port: Arc::<MemoryBlobs>::clone(&self.blobs),
        };
        let ports = Ports {
            queue: self.ports.queue.clone(),
            ..Ports::embedded(&self.env, Arc::new(blobs))
        };
        let settings = ModelClientSettings {
            prices: Prices {
                input: Some(0.002),
                output: Some(0.0),
                ..Prices::default()
            },
            ..ModelClientSettings::unlimited("m", "here")
        };
        let client = ModelClient::new(
            self.env.clone(),
            Arc::clone(&ports.limiter),
            Arc::<FakeProvider>::clone(&self.provider),
            settings,
        );
        let settings = BatchSettings {
            max_requests: 10,
            ..BatchSettings::default()
        };
        let runner = BatchRunner {
            ports,
            client: Arc::new(client),
            payer: Arc::<FakePayer>::clone(&self.payer),
            settings,
            process: "w".into(),
        };
        (runner, crashed)
    }

    /// Runs until all requests have replies and nothing is left to do. Whether the process died before.
    pub(super) async fn run_until_answered(&self, crash: Crash) -> bool {
        let (runner, crashed) = self.start(crash);
        let run = runner.run(CancellationToken::new(), HOUR);
        tokio::select! {
            () = run => panic!("the runner ended"),
            () = crashed.cancelled() => return true,
            () = self.wait_until_answered() => {}
        }
        false
    }

    async fn wait_until_answered(&self) {
        // More than the slowest path needs: a batch of a day, halved five times.
        for _ in 0..20_000 {
            self.env.sleep(Duration::from_secs(30)).await;
            let is_open = self.keys("c/x/batches/").iter().any(|key| {
                key.contains("/items/")
                    || key.ends_with("/plan.json") && !self.has(&key.replace("/plan.", "/ended."))
            });
            if !is_open {
                return;
            }
        }
        panic!("not answered: {:?}", self.keys("c/x/batches/"));
    }

    pub(super) async fn run_for(&self, time: Duration) {
        let (runner, _) = self.start(Crash::Never);
        let run = runner.run(CancellationToken::new(), HOUR);
        assert!(tokio::time::timeout(time, run).await.is_err());
    }

    /// The store refuses the next reads of plans.
    pub(super) fn refuse_plans(&self, reads: u32) {
        self.plan_faults
            .refused_reads
            .store(reads, Ordering::Relaxed);
    }

    /// The replies to the next writes of plans are lost.
    pub(super) fn lose_plan_replies(&self, writes: u32) {
        self.plan_faults
            .lost_replies
            .store(writes, Ordering::Relaxed);
    }

    pub(super) async fn end_run(&self, run: &str) {
        let key = run_failure_key(&run_ref(run).run);
        self.blobs
            .put(&key, Bytes::from_static(b"{}"))
            .await
            .unwrap();
    }

    /// Distinct tasks that were woken.
    pub(super) async fn woken(&self) -> usize {
        let lane = QueueName::Lane(Lane::Llm, Priority::Bulk);
        let mut subscription = self.ports.queue.raw().subscribe(lane, 1_000).await.unwrap();
        let mut woken = std::collections::BTreeSet::new();
        while let Ok(delivery) =
            tokio::time::timeout(Duration::from_secs(1), subscription.next()).await
        {
            let delivery = delivery.unwrap();
            woken.insert(delivery.message.body.clone());
            delivery.receipt.ack().await.unwrap();
        }
        woken.len()
    }

    /// Each request was executed once, has one line in the call log, and is paid once.
    pub(super) async fn assert_paid_once(&self, requests: usize) {
        let executed = self.provider.executed();
        assert_eq!(executed.len(), requests);
        assert!(executed.values().all(|times| *times == 1), "{executed:?}");
        assert_eq!(self.keys("c/x/calls/").len(), requests);
        // 10 tokens each at half of two nanodollars.
        assert!(self.payer.spending() <= 10 * requests as i64);
        for id in &self.ids() {
            let reply = self.store.reply(id).await.unwrap();
            let lost = reply.is_none() && !executed.contains_key(id);
            assert!(!lost, "{id} has no reply");
        }
    }

    /// What the job has spent by the names of the call log alone.
    pub(super) async fn named_spending(&self) -> SpendAmount {
        let period = (0, self.env.now_ms());
        let measure = SpendMeasure::TokensAndCost;
        let job = JobId("j".into());
        job_spend(self.blobs.as_ref(), "c/x", &job, period, measure, |_| {
            panic!("a record was read")
        })
        .await
        .unwrap()
    }

    pub(super) fn keys(&self, prefix: &str) -> Vec<String> {
        let all = self.blobs.snapshot();
        all.keys()
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect()
    }

    fn has(&self, key: &str) -> bool {
        self.blobs.snapshot().contains_key(key)
    }
}

fn run_ref(run: &str) -> RunRef {
    RunRef {
        run: RunId(format!("r-{run}")),
        header: format!("c/x/d/{run}/versions/1"),
        scope: format!("c/x/d/{run}"),
    }
}

fn tokens(prompt_tokens: u32) -> TokenUsage {
    TokenUsage {
        prompt_tokens,
        ..TokenUsage::default()
    }
}

/// Reservations and spending of one account.
#[derive(Default)]
pub(super) struct FakePayer(Mutex<Account>);

#[derive(Default)]
struct Account {
    // By request.
    held: BTreeMap<u64, i64>,
    spent: i64,
    limit: Option<i64>,
    pauses: u32,
    // Jobs that joined a run later.
    joined: u32,
    // For how many calls it is not known who pays.
    unknown: u32,
}

impl Account {
    fn reserved(&self) -> i64 {
        self.held.values().sum()
    }
}

impl FakePayer {
    pub(super) fn reserved(&self) -> i64 {
        self.0.lock().reserved()
    }

    pub(super) fn spending(&self) -> i64 {
        self.0.lock().spent
    }

    pub(super) fn pauses(&self) -> u32 {
        self.0.lock().pauses
    }

    pub(super) fn join_job(&self) {
        self.0.lock().joined += 1;
    }

    /// The next calls fail to learn who pays.
    pub(super) fn fail_jobs(&self, calls: u32) {
        self.0.lock().unknown = calls;
    }

    pub(super) fn set_limit(&self, limit: i64) {
        self.0.lock().limit = Some(limit);
    }
}

fn nanodollars(amount: SpendAmount) -> i64 {
    i64::try_from(amount.nanodollars.unwrap()).unwrap()
}

#[async_trait]
impl BatchPayer for FakePayer {
    async fn reserve(&self, _: &RunRef, request: &CallReservation) -> Result<(), Failure> {
        let mut account = self.0.lock();
        let max = nanodollars(request.max);
        let after = account.reserved() + account.spent + max;
        if account.limit.is_some_and(|limit| after > limit) {
            return Err(Failure::throttled("budget.reserved", "reserved", HOUR));
        }
        account.held.insert(request.id, max);
        Ok(())
    }

    async fn settle(&self, _: &RunRef, request: &CallReservation, used: SpendAmount) {
        let mut account = self.0.lock();
        account.held.remove(&request.id);
        account.spent += nanodollars(used);
    }

    async fn jobs(&self, _: &RunRef) -> Result<Vec<JobId>, Failure> {
        let mut account = self.0.lock();
        if account.unknown > 0 {
            account.unknown -= 1;
            return Err(Failure::throttled("budget.unknown", "Redis is away", HOUR));
        }
        let joined = (0..account.joined).map(|n| JobId(format!("j-{n}")));
        Ok([JobId("j".into())].into_iter().chain(joined).collect())
    }

    async fn pause(&self, _: &RunRef) {
        self.0.lock().pauses += 1;
    }
}

/// A provider that answers batches after an hour. What it takes counts as steps of the process.
pub(super) struct FakeProvider {
    env: Env,
    named: bool,
    // Of the process that runs.
    steps: Mutex<Option<Arc<Steps>>>,
    state: Mutex<FakeState>,
}

#[derive(Default)]
pub(super) struct FakeState {
    batches: Vec<FakeBatch>,
    pub(super) expires: bool,
    pub(super) rejects_above: usize,
    pub(super) refuses: bool,
}

struct FakeBatch {
    name: String,
    lines: Vec<String>,
    created_ms: Millis,
    cancelled: bool,
    rejected: bool,
    has_requests: bool,
}

impl FakeProvider {
    pub(super) fn set(&self, change: impl FnOnce(&mut FakeState)) {
        change(&mut self.state.lock());
    }

    pub(super) fn batch_sizes(&self) -> Vec<usize> {
        self.state
            .lock()
            .batches
            .iter()
            .map(|batch| batch.lines.len())
            .collect()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.state
            .lock()
            .batches
            .iter()
            .all(|batch| batch.cancelled)
    }

    /// Batches whose requests it still has.
    pub(super) fn with_requests(&self) -> usize {
        let state = self.state.lock();
        state
            .batches
            .iter()
            .filter(|batch| batch.has_requests)
            .count()
    }

    /// How often each request was executed.
    pub(super) fn executed(&self) -> BTreeMap<String, u32> {
        let mut executed = BTreeMap::new();
        let state = self.state.lock();
        for batch in state
            .batches
            .iter()
            .filter(|batch| !batch.cancelled && !batch.rejected)
        {
            for line in &batch.lines {
                *executed.entry(line.clone()).or_default() += 1;
            }
        }
        executed
    }

    async fn step<T>(&self, effect: impl Future<Output = T>) -> T {
        let steps = self.steps.lock().clone().unwrap();
        steps.step(effect).await
    }

    fn phase(&self, batch: &FakeBatch) -> BatchPhase {
        if batch.rejected {
            return BatchPhase::Rejected("too_large".into());
        }
        let is_over = batch.cancelled || self.env.now_ms() >= batch.created_ms + BATCH_MS;
        if is_over {
            BatchPhase::Ended
        } else {
            BatchPhase::Running
        }
    }
}

#[async_trait]
impl Llm for FakeProvider {
    async fn complete(&self, _: &LlmRequest) -> Result<LlmReply, LlmError> {
        Err(LlmError::Unreachable("no calls here".into()))
    }

    fn batches(&self) -> Option<&dyn BatchProvider> {
        Some(self)
    }
}

#[async_trait]
impl BatchProvider for FakeProvider {
    fn max_requests(&self) -> usize {
        1_000
    }

    fn line(&self, id: &str, _: &LlmRequest) -> String {
        id.into()
    }

    async fn submit(&self, batch: &BatchName<'_>, lines: &[String]) -> Result<String, LlmError> {
        self.step(async {
            let mut state = self.state.lock();
            if state.refuses {
                return Err(LlmError::Configuration {
                    status: 404,
                    message: String::new(),
                });
            }
            assert_eq!(batch.lines.len(), lines.len());
            let rejected = lines.len() > state.rejects_above;
            state.batches.push(FakeBatch {
                name: batch.name.into(),
                lines: batch.lines.to_vec(),
                created_ms: self.env.now_ms(),
                cancelled: false,
                rejected,
                has_requests: true,
            });
            Ok((state.batches.len() - 1).to_string())
        })
        .await
    }

    async fn find(&self, name: &BatchName<'_>) -> Result<FoundBatch, LlmError> {
        let state = self.state.lock();
        let mut found = FoundBatch::Missing;
        for (id, batch) in state.batches.iter().enumerate() {
            let is_it = if self.named {
                batch.name == name.name
            } else {
                batch.lines == name.lines
            };
            let is_known = self.named || self.phase(batch) == BatchPhase::Ended;
            match (is_it, is_known) {
                (true, true) => return Ok(FoundBatch::Submitted(id.to_string())),
                (true, false) => found = FoundBatch::Undecided,
                (false, _) => {}
            }
        }
        Ok(found)
    }

    async fn status(&self, id: &str) -> Result<BatchStatus, LlmError> {
        let state = self.state.lock();
        let batch = &state.batches[id.parse::<usize>().unwrap()];
        Ok(BatchStatus {
            phase: self.phase(batch),
            done: 0,
            requests: batch.lines.len() as u64,
        })
    }

    async fn results(&self, id: &str) -> Result<Vec<(String, BatchResult)>, LlmError> {
        let state = self.state.lock();
        let batch = &state.batches[id.parse::<usize>().unwrap()];
        Ok(batch
            .lines
            .iter()
            .map(|line| {
                let reply = BatchResult::Reply(LlmReply::new("{}", tokens(10)));
                let is_executed = !state.expires && !batch.cancelled;
                (
                    line.clone(),
                    if is_executed {
                        reply
                    } else {
                        BatchResult::NotExecuted
                    },
                )
            })
            .collect())
    }

    async fn cancel(&self, id: &str) -> Result<(), LlmError> {
        self.step(async {
            self.state.lock().batches[id.parse::<usize>().unwrap()].cancelled = true;
            Ok(())
        })
        .await
    }

    async fn remove_requests(&self, id: &str) -> Result<(), LlmError> {
        self.step(async {
            self.state.lock().batches[id.parse::<usize>().unwrap()].has_requests = false;
            Ok(())
        })
        .await
    }
}

// Objects whose changes count as steps of the process.
struct CrashingBlobs(Arc<Steps>);

impl PortLayer for CrashingBlobs {
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
        let faults = &self.0.plan_faults;
        let is_of_plan = about().contains(PLAN);
        match operation {
            "blobs.get" if is_of_plan && take_one(&faults.refused_reads) => {
                Err(PortError::refused(operation, "access denied"))
            }
            "blobs.put" | "blobs.delete" | "blobs.barrier" => {
                let changed = self.0.step(call()).await;
                if operation == "blobs.put" && is_of_plan && take_one(&faults.lost_replies) {
                    return Err(PortError::transient(operation, "connection reset"));
                }
                changed
            }
            _ => call().await,
        }
    }
}
