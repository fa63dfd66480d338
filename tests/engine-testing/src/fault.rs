//! Fault injection: counts every call over all ports, and makes chosen calls fail, wait, run twice or get lost.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use stemma_engine::ports::Ports;
use stemma_engine::queue::{
    Delivery, Depth, Message, Queue, QueueName, Receipt, RetryDelay, Subscription,
};
use stemma_store::env::{Env, Millis};
use stemma_store::port_error::{PortError, PortResult};
use stemma_store::port_layer::{Layered, PortLayer};

/// A fault of one port call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortFault {
    /// The call fails without an effect.
    FailBefore,
    /// The call takes effect and fails all the same.
    FailAfter,
    /// The call starts late.
    Delay(Duration),
    /// The call takes effect, and its result comes late.
    DelayResult(Duration),
    /// The call is made twice; the second result counts.
    Duplicate,
    /// A publication is confirmed, but each of its messages is lost with even odds: worse than any broker (I-9). Other
    /// calls are not affected.
    Lose,
    /// A publication is confirmed, but takes effect late, so that later ones overtake it. Other calls are not affected.
    Overtaken(Duration),
    /// The call fails without an effect, with an error that says that a retry does not help.
    Refuse,
}

/// Assigns faults to calls.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// By number of the call, from 1.
    pub calls: BTreeMap<u64, PortFault>,
    /// Ports that are unavailable for a time.
    pub outages: Vec<Outage>,
    /// Calls that take their time.
    pub slow: Vec<SlowCalls>,
    /// Probabilities of faults for all other calls.
    pub rates: FaultRates,
    pub seed: u64,
}

/// A time in which every call of a port fails.
#[derive(Debug, Clone)]
pub struct Outage {
    /// What the operations begin with: `blobs.`, or `blobs.put`.
    pub operations: &'static str,
    /// In milliseconds since the start of the schedule.
    pub during: Range<Millis>,
    /// Whether the errors say that a retry may succeed; a wrong password does not.
    pub transient: bool,
}

/// Calls of an operation whose subject contains a text.
#[derive(Debug, Clone)]
pub struct SlowCalls {
    pub operation: &'static str,
    pub about: &'static str,
    pub delay: Duration,
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
            rates,
            seed,
            ..Self::default()
        }
    }
}

impl FaultPlan {
    fn slow(&self, operation: &str, about: &str) -> Option<PortFault> {
        let calls = self
            .slow
            .iter()
            .find(|calls| calls.operation == operation && about.contains(calls.about));
        calls.map(|calls| PortFault::Delay(calls.delay))
    }

    fn outage(&self, operation: &str, at_ms: Millis) -> Option<PortFault> {
        let outage = self.outages.iter().find(|outage| {
            operation.starts_with(outage.operations) && outage.during.contains(&at_ms)
        })?;
        Some(if outage.transient {
            PortFault::FailBefore
        } else {
            PortFault::Refuse
        })
    }
}

/// Wraps ports to inject faults. Clones, and all ports wrapped by one injector, share one call counter.
#[derive(Clone)]
pub struct FaultInjector(Arc<FaultInjectorInner>, Stall);

/// A process that is suspended: none of its calls begins or ends before it goes on. Clones are of one process.
#[derive(Clone, Default)]
pub struct Stall(Arc<AtomicU64>);

impl Stall {
    /// Suspends the process until this time of the simulation's clock.
    pub fn suspend_until(&self, at_ms: Millis) {
        self.0.store(at_ms, Ordering::SeqCst);
    }

    /// Whether the process is suspended at this time, or was within `recent` before it.
    pub fn was_suspended(&self, at_ms: Millis, recent: Duration) -> bool {
        let until_ms = self.0.load(Ordering::SeqCst);
        until_ms > 0 && at_ms < until_ms + recent.as_millis() as Millis
    }

    async fn pass(&self, env: &Env) {
        let wait_ms = self.0.load(Ordering::SeqCst).saturating_sub(env.now_ms());
        if wait_ms > 0 {
            env.sleep(Duration::from_millis(wait_ms)).await;
        }
    }
}

struct FaultInjectorInner {
    env: Env,
    started_ms: Millis,
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
        let inner = FaultInjectorInner {
            started_ms: env.now_ms(),
            env,
            state: Mutex::new(state),
        };
        Self(Arc::new(inner), Stall::default())
    }

    /// The injector for the ports of a process that `stall` suspends.
    #[must_use]
    pub fn for_process(&self, stall: &Stall) -> Self {
        Self(Arc::clone(&self.0), stall.clone())
    }

    pub fn wrap(&self, ports: &Ports) -> Ports {
        self.wrap_for(&self.0.env, ports)
    }

    /// Wraps ports for a process with a clock of its own.
    pub fn wrap_for(&self, env: &Env, ports: &Ports) -> Ports {
        let wrapped = Ports::new(
            env,
            Arc::new(FaultyQueue(self.layer(ports.queue.raw()))),
            Arc::new(self.layer(ports.ledger.raw())),
            Arc::new(self.layer(ports.blobs.raw())),
            Arc::new(self.layer(&ports.limiter)),
        );
        Ports {
            objects: ports.objects.clone(),
            ..wrapped
        }
    }

    fn layer<P: ?Sized>(&self, port: &Arc<P>) -> Layered<Self, P> {
        Layered {
            layer: self.clone(),
            port: Arc::clone(port),
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
            .or_else(|| state.plan.slow(operation, about))
            .or_else(|| state.plan.outage(operation, now - self.0.started_ms))
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

    async fn apply<T, F, Called>(
        &self,
        fault: Option<PortFault>,
        operation: &'static str,
        mut call: F,
    ) -> PortResult<T>
    where
        F: FnMut() -> Called,
        Called: Future<Output = PortResult<T>>,
    {
        self.1.pass(&self.0.env).await;
        let result = match fault {
            None | Some(PortFault::Lose | PortFault::Overtaken(_)) => call().await,
            Some(PortFault::FailBefore) => Err(injected_error(operation)),
            Some(PortFault::Refuse) => Err(PortError::refused(operation, "refused on purpose")),
            Some(PortFault::FailAfter) => call().await.and(Err(injected_error(operation))),
            Some(PortFault::Duplicate) => match call().await {
                Ok(_) => call().await,
                Err(error) => Err(error),
            },
            Some(PortFault::Delay(delay)) => {
                self.0.env.sleep(delay).await;
                call().await
            }
            Some(PortFault::DelayResult(delay)) => {
                let result = call().await;
                self.0.env.sleep(delay).await;
                result
            }
        };
        self.1.pass(&self.0.env).await;
        result
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
    PortError::transient(operation, "failed on purpose")
}

impl PortLayer for FaultInjector {
    async fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        about: impl Fn() -> String + Send + 'a,
        call: F,
    ) -> PortResult<T>
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
    {
        let fault = self.next_fault(operation, &about());
        self.apply(fault, operation, call).await
    }
}

// Publications can also be lost or overtaken, and deliveries and acknowledgements fail too.
struct FaultyQueue(Layered<FaultInjector, dyn Queue>);

#[async_trait]
impl Queue for FaultyQueue {
    async fn publish(&self, queue: QueueName, messages: Vec<Message>) -> PortResult<()> {
        let Layered { layer, port } = &self.0;
        let about = format!("{queue} {}", message_digest(&messages));
        match layer.next_fault("queue.publish", &about) {
            Some(PortFault::Lose) => port.publish(queue, layer.survivors(messages)).await,
            Some(PortFault::Overtaken(delay)) => {
                let env = layer.0.env.clone();
                let port = Arc::clone(port);
                env.clone().spawn(async move {
                    env.sleep(delay).await;
                    port.publish(queue, messages).await
                });
                Ok(())
            }
            fault => {
                let publish = || port.publish(queue, messages.clone());
                layer.apply(fault, "queue.publish", publish).await
            }
        }
    }

    async fn publish_later(
        &self,
        queue: QueueName,
        message: Message,
        delay: RetryDelay,
    ) -> PortResult<()> {
        let Layered { layer, port } = &self.0;
        let digest = message_digest(std::slice::from_ref(&message));
        let fault = layer.next_fault(
            "queue.publish_later",
            &format!("{queue} {delay:?} {digest}"),
        );
        if fault == Some(PortFault::Lose) && layer.survivors(vec![message.clone()]).is_empty() {
            return Ok(());
        }
        let publish = || port.publish_later(queue, message.clone(), delay);
        layer.apply(fault, "queue.publish_later", publish).await
    }

    async fn subscribe(
        &self,
        queue: QueueName,
        prefetch: u16,
    ) -> PortResult<Box<dyn Subscription>> {
        Ok(Box::new(FaultySubscription {
            faults: self.0.layer.clone(),
            queue,
            inner: self.0.subscribe(queue, prefetch).await?,
        }))
    }

    async fn announce(&self, topic: &str, event: Message) -> PortResult<()> {
        self.0.announce(topic, event).await
    }

    async fn depth(&self, queue: QueueName) -> PortResult<Depth> {
        self.0.depth(queue).await
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
    async fn next(&mut self) -> PortResult<Delivery> {
        let delivery = self.inner.next().await?;
        self.faults.1.pass(&self.faults.0.env).await;
        match self
            .faults
            .next_fault("queue.next", &self.queue.to_string())
        {
            Some(PortFault::FailBefore | PortFault::FailAfter | PortFault::Refuse) => {
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
    ) -> PortResult<()>
    where
        Answered: Future<Output = PortResult<()>>,
    {
        self.faults.1.pass(&self.faults.0.env).await;
        match self.faults.next_fault(operation, &self.queue.to_string()) {
            Some(PortFault::FailBefore | PortFault::Refuse) => {
                return Err(injected_error(operation));
            }
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
    async fn ack(self: Box<Self>) -> PortResult<()> {
        self.settle("queue.ack", |receipt| receipt.ack()).await
    }

    async fn requeue(self: Box<Self>) -> PortResult<()> {
        self.settle("queue.requeue", |receipt| receipt.requeue())
            .await
    }
}
