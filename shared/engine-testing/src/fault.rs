//! Ports that fail on purpose: every call over all ports is counted, and the n-th one fails, waits, is done twice, or
//! is lost. For tests of everything that stands on ports.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use stemma_engine::blobs::{Blobs, Put};
use stemma_engine::env::{Env, Millis};
use stemma_engine::key::{JobId, RunId, TaskKey};
use stemma_engine::ledger::{
    Board, Due, Entry, Lease, Ledger, Notice, OpenTask, Outcomes, Retry, Want,
};
use stemma_engine::limit::{Cost, Limiter, Permit, Quota, Reserved, Stated};
use stemma_engine::port::PortError;
use stemma_engine::ports::Ports;
use stemma_engine::queue::{
    Delivery, Depth, Message, Queue, QueueName, Receipt, Rung, Subscription,
};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and has no effect.
    FailBefore,
    /// It takes effect, and fails all the same.
    FailAfter,
    /// It takes this long before it begins.
    Delay(Duration),
    /// It is done twice; the second answer counts.
    Duplicate,
    /// A publication is confirmed and each of its messages lost with even odds: worse than any broker promises (I-9).
    /// Other calls go through.
    Lose,
    /// A publication is confirmed, and takes effect this much later: later ones overtake it. Other calls go through.
    Overtaken(Duration),
}

/// Which calls have which faults.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// By number of the call, from 1.
    pub calls: BTreeMap<u64, Fault>,
    /// Chances for all others.
    pub chances: Chances,
    /// Seed of the chances.
    pub seed: u64,
}

/// How many of a thousand calls have which fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chances {
    /// [`Fault::FailBefore`].
    pub fail_before: u32,
    /// [`Fault::FailAfter`].
    pub fail_after: u32,
    /// [`Fault::Delay`].
    pub delay: u32,
    /// [`Fault::Duplicate`].
    pub duplicate: u32,
    /// [`Fault::Lose`].
    pub lose: u32,
    /// [`Fault::Overtaken`].
    pub overtaken: u32,
    /// The longest delay.
    pub longest: Duration,
}

impl Plan {
    /// Only the n-th call (from 1) has a fault.
    pub fn nth(call: u64, fault: Fault) -> Self {
        Self {
            calls: BTreeMap::from([(call, fault)]),
            ..Self::default()
        }
    }

    /// Every call may have one.
    pub fn random(seed: u64, chances: Chances) -> Self {
        Self {
            calls: BTreeMap::new(),
            chances,
            seed,
        }
    }
}

/// Wraps ports so that a plan comes to pass. Clones and all ports wrapped by one share one count.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

struct Inner {
    env: Env,
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    rng: SmallRng,
    calls: u64,
    log: blake3::Hasher,
    listener: Option<Listener>,
}

/// Told of every call: its number, `port.operation`, what it is about, and its fault.
pub type Listener = Box<dyn Fn(u64, &str, &str, Option<Fault>) + Send>;

impl Faults {
    /// Faults by `plan`.
    pub fn new(env: Env, plan: Plan) -> Self {
        let rng = SmallRng::seed_from_u64(plan.seed);
        let state = State {
            plan,
            rng,
            calls: 0,
            log: blake3::Hasher::new(),
            listener: None,
        };
        Self(Arc::new(Inner {
            env,
            state: Mutex::new(state),
        }))
    }

    /// The same ports with faults.
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

    /// Calls so far, over all ports.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Digest of all calls so far: when, what, about what, with which fault. The same schedule has the same digest.
    pub fn digest(&self) -> String {
        self.state().log.finalize().to_hex().to_string()
    }

    /// From now on nothing goes wrong.
    pub fn cease(&self) {
        self.state().plan = Plan::default();
    }

    /// Tells `listener` of every call from now on.
    pub fn listen(&self, listener: Listener) {
        self.state().listener = Some(listener);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and says what goes wrong with it.
    fn next(&self, operation: &str, about: &str) -> Option<Fault> {
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
        let fault = self.next(operation, about);
        self.carry_out(fault, operation, call).await
    }

    async fn carry_out<T, F, Called>(
        &self,
        fault: Option<Fault>,
        operation: &'static str,
        call: F,
    ) -> Result<T, PortError>
    where
        F: Fn() -> Called,
        Called: Future<Output = Result<T, PortError>>,
    {
        match fault {
            None | Some(Fault::Lose | Fault::Overtaken(_)) => call().await,
            Some(Fault::FailBefore) => Err(failed(operation)),
            Some(Fault::FailAfter) => call().await.and(Err(failed(operation))),
            Some(Fault::Duplicate) => {
                call().await?;
                call().await
            }
            Some(Fault::Delay(delay)) => {
                self.0.env.sleep(delay).await;
                call().await
            }
        }
    }

    /// Of `messages`, those that are not lost.
    fn survivors(&self, messages: Vec<Message>) -> Vec<Message> {
        let mut state = self.state();
        messages
            .into_iter()
            .filter(|_| state.rng.random_ratio(1, 2))
            .collect()
    }
}

impl State {
    fn draw(&mut self) -> Option<Fault> {
        let chances = self.plan.chances;
        let mut roll = self.rng.random_range(0..1_000u32);
        let longest = u64::try_from(chances.longest.as_millis()).unwrap_or(u64::MAX);
        let delay = Duration::from_millis(self.rng.random_range(0..=longest));
        let table = [
            (chances.fail_before, Fault::FailBefore),
            (chances.fail_after, Fault::FailAfter),
            (chances.delay, Fault::Delay(delay)),
            (chances.duplicate, Fault::Duplicate),
            (chances.lose, Fault::Lose),
            (chances.overtaken, Fault::Overtaken(delay)),
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

fn failed(operation: &'static str) -> PortError {
    let port = operation.split('.').next().unwrap_or(operation);
    PortError::passing(
        port,
        operation.rsplit('.').next().unwrap_or(operation),
        "failed on purpose",
    )
}

struct FaultyQueue {
    faults: Faults,
    inner: Arc<dyn Queue>,
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> Result<(), PortError> {
        let about = format!("{queue} {}", digest_of(&messages));
        match self.faults.next("queue.publish", &about) {
            Some(Fault::Lose) => {
                self.inner
                    .publish(queue, self.faults.survivors(messages))
                    .await
            }
            Some(Fault::Overtaken(delay)) => {
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
                    .carry_out(fault, "queue.publish", || {
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
        rung: Rung,
    ) -> Result<(), PortError> {
        let about = format!(
            "{queue} {rung:?} {}",
            digest_of(std::slice::from_ref(&message))
        );
        let fault = self.faults.next("queue.publish_later", &about);
        if fault == Some(Fault::Lose) && self.faults.survivors(vec![message.clone()]).is_empty() {
            return Ok(());
        }
        self.faults
            .carry_out(fault, "queue.publish_later", || {
                self.inner.publish_later(queue, message.clone(), rung)
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

/// Names messages in the log.
fn digest_of(messages: &[Message]) -> String {
    let mut digest = blake3::Hasher::new();
    for message in messages {
        digest
            .update(&message.body)
            .update(&message.attempts.to_le_bytes());
    }
    digest.finalize().to_hex().as_str()[..12].to_string()
}

struct FaultySubscription {
    faults: Faults,
    queue: QueueName,
    inner: Box<dyn Subscription>,
}

#[async_trait]
impl Subscription for FaultySubscription {
    /// A delivery is counted when it arrives: a failing one is handed back with the subscription.
    async fn next(&mut self) -> Result<Delivery, PortError> {
        let delivery = self.inner.next().await?;
        match self.faults.next("queue.next", &self.queue.to_string()) {
            Some(Fault::FailBefore | Fault::FailAfter) => return Err(failed("queue.next")),
            Some(Fault::Delay(delay)) => self.faults.0.env.sleep(delay).await,
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
    faults: Faults,
    queue: QueueName,
    inner: Box<dyn Receipt>,
}

impl FaultyReceipt {
    /// An answer can be lost, late, or heard without the caller knowing; it cannot be given twice.
    async fn answer<Answered>(
        self,
        operation: &'static str,
        answer: impl FnOnce(Box<dyn Receipt>) -> Answered,
    ) -> Result<(), PortError>
    where
        Answered: Future<Output = Result<(), PortError>>,
    {
        match self.faults.next(operation, &self.queue.to_string()) {
            Some(Fault::FailBefore) => return Err(failed(operation)),
            Some(Fault::FailAfter) => return answer(self.inner).await.and(Err(failed(operation))),
            Some(Fault::Delay(delay)) => self.faults.0.env.sleep(delay).await,
            _ => {}
        }
        answer(self.inner).await
    }
}

#[async_trait]
impl Receipt for FaultyReceipt {
    async fn ack(self: Box<Self>) -> Result<(), PortError> {
        self.answer("queue.ack", |receipt| receipt.ack()).await
    }

    async fn requeue(self: Box<Self>) -> Result<(), PortError> {
        self.answer("queue.requeue", |receipt| receipt.requeue())
            .await
    }
}

struct FaultyLedger {
    faults: Faults,
    inner: Arc<dyn Ledger>,
}

#[async_trait]
impl Ledger for FaultyLedger {
    async fn outcomes(&self, run: &RunId, since: u64) -> Result<Outcomes, PortError> {
        self.faults
            .call("ledger.outcomes", &run.0, || {
                self.inner.outcomes(run, since)
            })
            .await
    }

    async fn record(&self, run: &RunId, key: &TaskKey, entry: Entry) -> Result<(), PortError> {
        let about = format!("{run} {key}");
        self.faults
            .call("ledger.record", &about, || {
                self.inner.record(run, key, entry.clone())
            })
            .await
    }

    async fn want(
        &self,
        run: &RunId,
        tasks: &[Want],
        now_ms: Millis,
        due_ms: Millis,
    ) -> Result<Vec<TaskKey>, PortError> {
        let about = format!(
            "{run} {:?}",
            tasks.iter().map(|task| task.key).collect::<Vec<_>>()
        );
        self.faults
            .call("ledger.want", &about, || {
                self.inner.want(run, tasks, now_ms, due_ms)
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

    async fn schedule(&self, due: &Due, at_ms: Millis) -> Result<(), PortError> {
        self.faults
            .call("ledger.schedule", &format!("{due:?}"), || {
                self.inner.schedule(due, at_ms)
            })
            .await
    }

    async fn due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> Result<Vec<Due>, PortError> {
        self.faults
            .call("ledger.due", "", || self.inner.due(now_ms, again_ms, limit))
            .await
    }

    async fn unschedule(&self, due: &Due) -> Result<(), PortError> {
        self.faults
            .call("ledger.unschedule", &format!("{due:?}"), || {
                self.inner.unschedule(due)
            })
            .await
    }

    async fn watch(&self, run: &RunId, job: &JobId) -> Result<(), PortError> {
        self.faults
            .call("ledger.watch", &format!("{run} {job}"), || {
                self.inner.watch(run, job)
            })
            .await
    }

    async fn watchers(&self, run: &RunId) -> Result<Vec<JobId>, PortError> {
        self.faults
            .call("ledger.watchers", &run.0, || self.inner.watchers(run))
            .await
    }

    async fn forget(&self, run: &RunId) -> Result<(), PortError> {
        self.faults
            .call("ledger.forget", &run.0, || self.inner.forget(run))
            .await
    }

    async fn post(&self, board: Board, notice: Notice, now_ms: Millis) -> Result<(), PortError> {
        let about = format!("{board:?} {}", notice.name);
        self.faults
            .call("ledger.post", &about, || {
                self.inner.post(board, notice.clone(), now_ms)
            })
            .await
    }

    async fn notices(&self, board: Board, now_ms: Millis) -> Result<Vec<Notice>, PortError> {
        self.faults
            .call("ledger.notices", &format!("{board:?}"), || {
                self.inner.notices(board, now_ms)
            })
            .await
    }
}

struct FaultyBlobs {
    faults: Faults,
    inner: Arc<dyn Blobs>,
}

#[async_trait]
impl Blobs for FaultyBlobs {
    async fn put(&self, key: &str, bytes: Bytes) -> Result<Put, PortError> {
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
    faults: Faults,
    inner: Arc<dyn Limiter>,
}

#[async_trait]
impl Limiter for FaultyLimiter {
    async fn acquire(
        &self,
        bucket: &str,
        quota: Quota,
        cost: Cost,
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

    async fn state(
        &self,
        bucket: &str,
        quota: Quota,
        stated: Stated,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.state", bucket, || {
                self.inner.state(bucket, quota, stated, now_ms)
            })
            .await
    }

    async fn slow(&self, bucket: &str, age_ms: u64, now_ms: Millis) -> Result<(), PortError> {
        self.faults
            .call("limiter.slow", bucket, || {
                self.inner.slow(bucket, age_ms, now_ms)
            })
            .await
    }

    async fn reserve(
        &self,
        account: &str,
        limit: u64,
        amount: u64,
        now_ms: Millis,
    ) -> Result<Reserved, PortError> {
        self.faults
            .call("limiter.reserve", account, || {
                self.inner.reserve(account, limit, amount, now_ms)
            })
            .await
    }

    async fn spend(
        &self,
        account: &str,
        reserved: u64,
        used: u64,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.spend", account, || {
                self.inner.spend(account, reserved, used, now_ms)
            })
            .await
    }

    async fn open_account(
        &self,
        account: &str,
        spent: u64,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        self.faults
            .call("limiter.open_account", account, || {
                self.inner.open_account(account, spent, now_ms)
            })
            .await
    }
}
