//! Fault injection: counts every call over all ports, and makes chosen calls fail, wait, run twice or get lost.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use stemma_engine::blobs::{Blobs, PutOutcome};
use stemma_engine::env::{Env, Millis};
use stemma_engine::key::{JobId, RunId, TaskKey};
use stemma_engine::ledger::{
    Lease, Ledger, OpenTask, OutcomeBatch, Retry, ScheduledItem, StatusRecord, StatusTopic,
    TaskOutcome, TaskSpec,
};
use stemma_engine::limit::{Limiter, Permit, Quota, ReportedLimits, RequestCost, Reservation};
use stemma_engine::port_error::PortError;
use stemma_engine::ports::Ports;
use stemma_engine::queue::{
    Delivery, Depth, Message, Queue, QueueName, Receipt, RetryDelay, Subscription,
};

/// A fault of one port call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortFault {
    /// The call fails without an effect.
    FailBefore,
    /// The call takes effect and fails all the same.
    FailAfter,
    /// The call starts late.
    Delay(Duration),
    /// The call is made twice; the second result counts.
    Duplicate,
    /// A publication is confirmed, but each of its messages is lost with even odds: worse than any broker (I-9). Other
    /// calls are not affected.
    Lose,
    /// A publication is confirmed, but takes effect late, so that later ones overtake it. Other calls are not affected.
    Overtaken(Duration),
}

/// Assigns faults to calls.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// By number of the call, from 1.
    pub calls: BTreeMap<u64, PortFault>,
    /// Probabilities of faults for all other calls.
    pub rates: FaultRates,
    pub seed: u64,
}

/// Faults per thousand calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRates {
    pub fail_before: u32,
    pub fail_after: u32,
    pub delay: u32,
    pub duplicate: u32,
    pub lose: u32,
    pub overtaken: u32,
    pub max_delay: Duration,
}

impl FaultPlan {
    /// Injects a fault into the n-th call only (from 1).
    pub fn nth(call: u64, fault: PortFault) -> Self {
        Self {
            calls: BTreeMap::from([(call, fault)]),
            ..Self::default()
        }
    }

    /// Injects random faults.
    pub fn random(seed: u64, rates: FaultRates) -> Self {
        Self {
            calls: BTreeMap::new(),
            rates,
            seed,
        }
    }
}

/// Wraps ports to inject faults. Clones, and all ports wrapped by one injector, share one call counter.
#[derive(Clone)]
pub struct FaultInjector(Arc<FaultInjectorInner>);

struct FaultInjectorInner {
    env: Env,
    state: Mutex<InjectorState>,
}

struct InjectorState {
    plan: FaultPlan,
    rng: SmallRng,
    calls: u64,
    log: blake3::Hasher,
    listener: Option<CallListener>,
}

/// Callback for every call: its number, `port.operation`, its subject, its fault.
pub type CallListener = Box<dyn Fn(u64, &str, &str, Option<PortFault>) + Send>;

impl FaultInjector {
    pub fn new(env: Env, plan: FaultPlan) -> Self {
        let rng = SmallRng::seed_from_u64(plan.seed);
        let state = InjectorState {
            plan,
            rng,
            calls: 0,
            log: blake3::Hasher::new(),
            listener: None,
        };
        Self(Arc::new(FaultInjectorInner {
            env,
            state: Mutex::new(state),
        }))
    }

    pub fn wrap(&self, ports: &Ports) -> Ports {
        Ports {
            queue: Arc::new(FaultyQueue {
                faults: self.clone(),
                inner: Arc::clone(&ports.queue),
            }),
            ledger: Arc::new(FaultyLedger {
                faults: self.clone(),
                inner: Arc::clone(&ports.ledger),
            }),
            blobs: Arc::new(FaultyBlobs {
                faults: self.clone(),
                inner: Arc::clone(&ports.blobs),
            }),
            limiter: Arc::new(FaultyLimiter {
                faults: self.clone(),
                inner: Arc::clone(&ports.limiter),
            }),
        }
    }

    /// Number of calls so far, over all ports.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Digest of all calls so far (time, operation, subject, fault). Equal schedules have equal digests.
    pub fn digest(&self) -> String {
        self.state().log.finalize().to_hex().to_string()
    }

    /// Stops injecting faults.
    pub fn disable(&self) {
        self.state().plan = FaultPlan::default();
    }

    /// Reports every later call to `listener`.
    pub fn set_listener(&self, listener: CallListener) {
        self.state().listener = Some(listener);
    }

    fn state(&self) -> MutexGuard<'_, InjectorState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and picks its fault.
    fn next_fault(&self, operation: &str, about: &str) -> Option<PortFault> {
        let now = self.0.env.now_ms();
        let mut state = self.state();
        state.calls += 1;
        let number = state.calls;
        let fault = state
            .plan
            .calls
            .get(&number)
            .copied()
            .or_else(|| state.draw());
        state.log.update(&now.to_le_bytes());
        for part in [operation, about, &format!("{fault:?}")] {
            state
                .log
                .update(&(part.len() as u64).to_le_bytes())
                .update(part.as_bytes());
        }
        if let Some(listener) = &state.listener {
            listener(number, operation, about, fault);
        }
        fault
    }

    async fn call<T, F, Called>(
        &self,
        operation: &'static str,
        about: &str,
        call: F,
    ) -> Result<T, PortError>
    where
        F: Fn() -> Called,
        Called: Future<Output = Result<T, PortError>>,
    {
        let fault = self.next_fault(operation, about);
        self.apply(fault, operation, call).await
    }

    async fn apply<T, F, Called>(
        &self,
        fault: Option<PortFault>,
        operation: &'static str,
        call: F,
    ) -> Result<T, PortError>
    where
        F: Fn() -> Called,
        Called: Future<Output = Result<T, PortError>>,
    {
        match fault {
            None | Some(PortFault::Lose | PortFault::Overtaken(_)) => call().await,
            Some(PortFault::FailBefore) => Err(injected_error(operation)),
            Some(PortFault::FailAfter) => call().await.and(Err(injected_error(operation))),
            Some(PortFault::Duplicate) => {
                call().await?;
                call().await
            }
            Some(PortFault::Delay(delay)) => {
                self.0.env.sleep(delay).await;
                call().await
            }
        }
    }

    fn survivors(&self, messages: Vec<Message>) -> Vec<Message> {
        let mut state = self.state();
        messages
            .into_iter()
            .filter(|_| state.rng.random_ratio(1, 2))
            .collect()
    }
}

impl InjectorState {
    fn draw(&mut self) -> Option<PortFault> {
        let chances = self.plan.rates;
        let mut roll = self.rng.random_range(0..1_000u32);
        let longest = u64::try_from(chances.max_delay.as_millis()).unwrap_or(u64::MAX);
        let delay = Duration::from_millis(self.rng.random_range(0..=longest));
        let table = [
            (chances.fail_before, PortFault::FailBefore),
            (chances.fail_after, PortFault::FailAfter),
            (chances.delay, PortFault::Delay(delay)),
            (chances.duplicate, PortFault::Duplicate),
            (chances.lose, PortFault::Lose),
            (chances.overtaken, PortFault::Overtaken(delay)),
        ];
        for (chance, fault) in table {
            if roll < chance {
                return Some(fault);
            }
            roll -= chance;
        }
        None
    }
}

fn injected_error(operation: &'static str) -> PortError {
    let port = operation.split('.').next().unwrap_or(operation);
    PortError::transient(
        port,
        operation.rsplit('.').next().unwrap_or(operation),
        "failed on purpose",
    )
}

struct FaultyQueue {
    faults: FaultInjector,
    inner: Arc<dyn Queue>,
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> Result<(), PortError> {
        let about = format!("{queue} {}", message_digest(&messages));
        match self.faults.next_fault("queue.publish", &about) {
            Some(PortFault::Lose) => {
                self.inner
                    .publish(queue, self.faults.survivors(messages))
                    .await
            }
            Some(PortFault::Overtaken(delay)) => {
                let env = self.faults.0.env.clone();
                let inner = Arc::clone(&self.inner);
                env.clone().spawn(async move {
                    env.sleep(delay).await;
                    inner.publish(queue, messages).await
                });
                Ok(())
            }
            fault => {
                self.faults
                    .apply(fault, "queue.publish", || {
                        self.inner.publish(queue, messages.clone())
                    })
                    .await
            }
        }
    }

    async fn publish_later(
        &self,
        queue: QueueName,
        message: Message,
        delay: RetryDelay,
    ) -> Result<(), PortError> {
        let about = format!(
            "{queue} {delay:?} {}",
            message_digest(std::slice::from_ref(&message))
        );
        let fault = self.faults.next_fault("queue.publish_later", &about);
        if fault == Some(PortFault::Lose) && self.faults.survivors(vec![message.clone()]).is_empty()
        {
            return Ok(());
        }
        self.faults
            .apply(fault, "queue.publish_later", || {
                self.inner.publish_later(queue, message.clone(), delay)
            })
            .await
    }

    async fn subscribe(
        &self,
        queue: QueueName,
        prefetch: u16,
    ) -> Result<Box<dyn Subscription>, PortError> {
        let inner = self
            .faults
            .call("queue.subscribe", &queue.to_string(), || {
                self.inner.subscribe(queue, prefetch)
            })
            .await?;
        Ok(Box::new(FaultySubscription {
            faults: self.faults.clone(),
            queue,
            inner,
        }))
    }

    async fn announce(&self, topic: &str, event: Message) -> Result<(), PortError> {
        self.faults
            .call("queue.announce", topic, || {
                self.inner.announce(topic, event.clone())
            })
            .await
    }

    async fn depth(&self, queue: QueueName) -> Result<Depth, PortError> {
        self.faults
            .call("queue.depth", &queue.to_string(), || {
                self.inner.depth(queue)
            })
            .await
    }
}

/// Identifies messages in the log.
fn message_digest(messages: &[Message]) -> String {
    let mut digest = blake3::Hasher::new();
    for message in messages {
        digest
            .update(&message.body)
            .update(&message.attempts.to_le_bytes());
    }
    digest.finalize().to_hex().as_str()[..12].to_string()
}

struct FaultySubscription {
    faults: FaultInjector,
    queue: QueueName,
    inner: Box<dyn Subscription>,
}

#[async_trait]
impl Subscription for FaultySubscription {
    // Counted when the delivery arrives; on a fault the delivery is requeued by dropping it.
    async fn next(&mut self) -> Result<Delivery, PortError> {
        let delivery = self.inner.next().await?;
        match self
            .faults
            .next_fault("queue.next", &self.queue.to_string())
        {
            Some(PortFault::FailBefore | PortFault::FailAfter) => {
                return Err(injected_error("queue.next"));
            }
            Some(PortFault::Delay(delay)) => self.faults.0.env.sleep(delay).await,
            _ => {}
        }
        let receipt = FaultyReceipt {
            faults: self.faults.clone(),
            queue: self.queue,
            inner: delivery.receipt,
        };
        Ok(Delivery {
            receipt: Box::new(receipt),
            ..delivery
        })
    }
}

struct FaultyReceipt {
    faults: FaultInjector,
    queue: QueueName,
    inner: Box<dyn Receipt>,
}

impl FaultyReceipt {
    // An acknowledgement can be lost, delayed, or take effect without a response. It cannot be sent twice.
    async fn settle<Answered>(
        self,
        operation: &'static str,
        settle: impl FnOnce(Box<dyn Receipt>) -> Answered,
    ) -> Result<(), PortError>
    where
        Answered: Future<Output = Result<(), PortError>>,
    {
        match self.faults.next_fault(operation, &self.queue.to_string()) {
            Some(PortFault::FailBefore) => return Err(injected_error(operation)),
            Some(PortFault::FailAfter) => {
                return settle(self.inner).await.and(Err(injected_error(operation)));
            }
            Some(PortFault::Delay(delay)) => self.faults.0.env.sleep(delay).await,
            _ => {}
        }
        settle(self.inner).await
    }
}

#[async_trait]
impl Receipt for FaultyReceipt {
    async fn ack(self: Box<Self>) -> Result<(), PortError> {
        self.settle("queue.ack", |receipt| receipt.ack()).await
    }

    async fn requeue(self: Box<Self>) -> Result<(), PortError> {
        self.settle("queue.requeue", |receipt| receipt.requeue())
            .await
    }
}

struct FaultyLedger {
    faults: FaultInjector,
    inner: Arc<dyn Ledger>,
}

#[async_trait]
impl Ledger for FaultyLedger {
    async fn outcomes(&self, run: &RunId, since: u64) -> Result<OutcomeBatch, PortError> {
        self.faults
            .call("ledger.outcomes", &run.0, || {
                self.inner.outcomes(run, since)
            })
            .await
    }

    async fn record(
        &self,
        run: &RunId,
        key: &TaskKey,
        entry: TaskOutcome,
    ) -> Result<(), PortError> {
        let about = format!("{run} {key}");
        self.faults
            .call("ledger.record", &about, || {
                self.inner.record(run, key, entry.clone())
            })
            .await
    }

    async fn request_tasks(
        &self,
        run: &RunId,
        tasks: &[TaskSpec],
        now_ms: Millis,
        due_ms: Millis,
    ) -> Result<Vec<TaskKey>, PortError> {
        let about = format!(
            "{run} {:?}",
            tasks.iter().map(|task| task.key).collect::<Vec<_>>()
        );
        self.faults
            .call("ledger.want", &about, || {
                self.inner.request_tasks(run, tasks, now_ms, due_ms)
            })
            .await
    }

    async fn overdue(&self, run: &RunId, now_ms: Millis) -> Result<Vec<TaskKey>, PortError> {
        self.faults
            .call("ledger.overdue", &run.0, || self.inner.overdue(run, now_ms))
            .await
    }

    async fn open_tasks(&self, run: &RunId) -> Result<Vec<OpenTask>, PortError> {
        self.faults
            .call("ledger.open_tasks", &run.0, || self.inner.open_tasks(run))
            .await
    }

    async fn lease(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        now_ms: Millis,
        until_ms: Millis,
    ) -> Result<Lease, PortError> {
        let about = format!("{run} {key} {holder}");
        self.faults
            .call("ledger.lease", &about, || {
                self.inner.lease(run, key, holder, now_ms, until_ms)
            })
            .await
    }

    async fn release(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        retry: Option<&Retry>,
    ) -> Result<u32, PortError> {
        let about = format!("{run} {key} {holder} {retry:?}");
        self.faults
            .call("ledger.release", &about, || {
                self.inner.release(run, key, holder, retry)
            })
            .await
    }

    async fn schedule(&self, item: &ScheduledItem, at_ms: Millis) -> Result<(), PortError> {
        self.faults
            .call("ledger.schedule", &format!("{item:?}"), || {
                self.inner.schedule(item, at_ms)
            })
            .await
    }

    async fn claim_due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> Result<Vec<ScheduledItem>, PortError> {
        self.faults
            .call("ledger.due", "", || {
                self.inner.claim_due(now_ms, again_ms, limit)
            })
            .await
    }

    async fn unschedule(&self, item: &ScheduledItem) -> Result<(), PortError> {
        self.faults
            .call("ledger.unschedule", &format!("{item:?}"), || {
                self.inner.unschedule(item)
            })
            .await
    }

    async fn add_watcher(&self, run: &RunId, job: &JobId) -> Result<(), PortError> {
        self.faults
            .call("ledger.watch", &format!("{run} {job}"), || {
                self.inner.add_watcher(run, job)
            })
            .await
    }

    async fn watchers(&self, run: &RunId) -> Result<Vec<JobId>, PortError> {
        self.faults
            .call("ledger.watchers", &run.0, || self.inner.watchers(run))
            .await
    }

    async fn forget_run(&self, run: &RunId) -> Result<(), PortError> {
        self.faults
            .call("ledger.forget", &run.0, || self.inner.forget_run(run))
            .await
    }

    async fn post_status(
        &self,
        topic: StatusTopic,
        record: StatusRecord,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        let about = format!("{topic:?} {}", record.name);
        self.faults
            .call("ledger.post", &about, || {
                self.inner.post_status(topic, record.clone(), now_ms)
            })
            .await
    }

    async fn status_records(
        &self,
        topic: StatusTopic,
        now_ms: Millis,
    ) -> Result<Vec<StatusRecord>, PortError> {
        self.faults
            .call("ledger.notices", &format!("{topic:?}"), || {
                self.inner.status_records(topic, now_ms)
            })
            .await
    }
}

struct FaultyBlobs {
    faults: FaultInjector,
    inner: Arc<dyn Blobs>,
}

#[async_trait]
impl Blobs for FaultyBlobs {
    async fn put(&self, key: &str, bytes: Bytes) -> Result<PutOutcome, PortError> {
        self.faults
            .call("blobs.put", key, || self.inner.put(key, bytes.clone()))
            .await
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, PortError> {
        self.faults
            .call("blobs.get", key, || self.inner.get(key))
            .await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>, PortError> {
        self.faults
            .call("blobs.get_range", key, || {
                self.inner.get_range(key, range.clone())
            })
            .await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>, PortError> {
        self.faults
            .call("blobs.size", key, || self.inner.size(key))
            .await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, PortError> {
        self.faults
            .call("blobs.list", prefix, || {
                self.inner.list(prefix, after, limit)
            })
            .await
    }

    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, PortError> {
        self.faults
            .call("blobs.children", prefix, || {
                self.inner.children(prefix, after, limit)
            })
            .await
    }

    async fn delete(&self, key: &str) -> Result<(), PortError> {
        self.faults
            .call("blobs.delete", key, || self.inner.delete(key))
            .await
    }

    async fn barrier(&self) -> Result<(), PortError> {
        self.faults
            .call("blobs.barrier", "", || self.inner.barrier())
            .await
    }
}

struct FaultyLimiter {
    faults: FaultInjector,
    inner: Arc<dyn Limiter>,
}

#[async_trait]
impl Limiter for FaultyLimiter {
    async fn acquire(
        &self,
        bucket: &str,
        quota: Quota,
        cost: RequestCost,
        now_ms: Millis,
    ) -> Result<Permit, PortError> {
        self.faults
            .call("limiter.acquire", bucket, || {
                self.inner.acquire(bucket, quota, cost, now_ms)
            })
            .await
    }

    async fn settle(
        &self,
        bucket: &str,
        quota: Quota,
        estimated: u32,
        used: u32,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.settle", bucket, || {
                self.inner.settle(bucket, quota, estimated, used)
            })
            .await
    }

    async fn pause(&self, bucket: &str, until_ms: Millis) -> Result<(), PortError> {
        self.faults
            .call("limiter.pause", bucket, || {
                self.inner.pause(bucket, until_ms)
            })
            .await
    }

    async fn report_limits(
        &self,
        bucket: &str,
        quota: Quota,
        reported: ReportedLimits,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.state", bucket, || {
                self.inner.report_limits(bucket, quota, reported, now_ms)
            })
            .await
    }

    async fn decrease_rate(
        &self,
        bucket: &str,
        age_ms: u64,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.slow", bucket, || {
                self.inner.decrease_rate(bucket, age_ms, now_ms)
            })
            .await
    }

    async fn reserve(
        &self,
        account: &str,
        limit: u64,
        amount: u64,
        now_ms: Millis,
    ) -> Result<Reservation, PortError> {
        self.faults
            .call("limiter.reserve", account, || {
                self.inner.reserve(account, limit, amount, now_ms)
            })
            .await
    }

    async fn settle_reservation(
        &self,
        account: &str,
        reserved: u64,
        used: u64,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.spend", account, || {
                self.inner
                    .settle_reservation(account, reserved, used, now_ms)
            })
            .await
    }

    async fn open_account(
        &self,
        account: &str,
        used: u64,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.open_account", account, || {
                self.inner.open_account(account, used, now_ms)
            })
            .await
    }
}
