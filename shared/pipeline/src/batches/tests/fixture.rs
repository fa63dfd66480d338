//! A store with requests, and a runner over it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use stemma_engine::Ports;
use stemma_engine::queue::{Lane, QueueName};
use stemma_llm::calls::job_spend;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::prices::Prices;
use stemma_llm::request::TokenUsage;
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::key::run_failure_key;
use stemma_store::port_layer::Layered;
use stemma_store::spend::{SpendAmount, SpendMeasure};
use stemma_store::{Env, JobId, Priority, RunId, RunRef, TaskKey};
use tokio_util::sync::CancellationToken;

use super::crash::{Crash, CrashingBlobs, PlanFaults, Steps};
use super::fake_payer::FakePayer;
use super::fake_provider::FakeProvider;
use crate::batches::store::{BatchItem, BatchStore, item_id};
use crate::batches::{BatchRunner, BatchSettings};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// Whether a provider knows the names of batches.
pub(super) const NAMED: bool = true;
pub(super) const UNNAMED: bool = false;

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
        let provider = Arc::new(FakeProvider::new(env.clone(), named));
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
        let steps = Arc::new(Steps::new(
            crash,
            crashed.clone(),
            Arc::clone(&self.plan_faults),
        ));
        self.provider.start(Arc::clone(&steps));
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
        let mut woken = BTreeSet::new();
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

pub(super) fn tokens(prompt_tokens: u32) -> TokenUsage {
    TokenUsage {
        prompt_tokens,
        ..TokenUsage::default()
    }
}
