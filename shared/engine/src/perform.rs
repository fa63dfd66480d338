//! Performing a task: lease, run, store, record, emit. The consumer loop acknowledges after that (I-3).

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use tracing::{Instrument, Span, field};

use crate::artifact;
use crate::consume::{Disposition, Handler};
use crate::coordinate::run_failure_key;
use crate::dead_letter;
use crate::env::{Env, Millis};
use crate::failure::{Consequence, Failure, FailureKind, FailureRecord, consequence};
use crate::key::{RunId, RunRef, TaskKey, failure_key};
use crate::ledger::{Entry, Lease, Retry};
use crate::measure::{self, Outcome};
use crate::message::{News, TaskMessage, encode};
use crate::port::{PortError, ask, keep};
use crate::ports::Ports;
use crate::presence::{Close, Presence, Underway};
use crate::queue::{Message, QueueName, Rung};
use crate::settings::SettingsCache;
use crate::stage::{AnyStage, Registry, Task, Work};
use crate::trace::Trace;

/// How long a lease lasts without being renewed.
const LEASE: Duration = Duration::from_secs(30);
/// How often it is renewed: so soon a ledger that forgot everything knows again who works on what. A call that takes
/// less than that renews nothing.
const RENEWED_EVERY: Duration = Duration::from_secs(3);
/// How long a redelivered task waits that the ledger does not know: by then whoever works on it has renewed its lease.
const RENEWED_BY: Duration = Duration::from_millis(3_500);
/// Leases that ran out before a task counts as poison: whoever takes it up goes away without a word.
const MAX_CRASHES: u32 = 10;

/// Performs tasks: the handler of lane queues.
pub struct Performer<W: Work> {
    env: Env,
    ports: Ports,
    registry: Registry<W>,
    tools: Arc<W::Tools>,
    settings: SettingsCache<W>,
    /// The process: named in leases, and told what is done.
    presence: Arc<Presence>,
    running: Arc<Running>,
    /// Tasks whose lease this process took and has not given up.
    leased: Mutex<HashSet<(RunId, TaskKey)>>,
}

/// The tasks this process works on: a lease keeps other processes away, this keeps duplicates in this one away.
#[derive(Default)]
struct Running(Mutex<HashSet<(RunId, TaskKey)>>);

/// Takes a task off the list when dropped, however its handler ends.
struct Working(Arc<Running>, (RunId, TaskKey));

impl Running {
    fn begin(self: &Arc<Self>, task: &TaskMessage) -> Option<Working> {
        let name = task.name();
        let begun = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone());
        begun.then(|| Working(Arc::clone(self), name))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.1);
    }
}

/// How a delivery ended, and what becomes of the message.
type Answer = (Outcome, Disposition);

/// What an attempt came to.
enum Attempt {
    Outcome(Bytes),
    Failed(Failure),
}

impl<W: Work> Performer<W> {
    /// A performer of the stages in `registry`, in the process of `presence`.
    pub fn new(
        env: Env,
        ports: Ports,
        registry: Registry<W>,
        tools: Arc<W::Tools>,
        presence: Arc<Presence>,
    ) -> Self {
        Self {
            env,
            ports,
            registry,
            tools,
            settings: SettingsCache::default(),
            presence,
            running: Arc::default(),
            leased: Mutex::default(),
        }
    }

    /// Performs under a span of its own, below the wave that published the task.
    async fn traced(&self, message: &Message, redelivered: bool, task: &TaskMessage) -> Answer {
        let wave = message.trace.clone().unwrap_or_else(|| {
            let trace = Trace::of(&task.run.run);
            trace.below(&trace.root)
        });
        let span = tracing::info_span!(
            "task",
            traceparent = wave,
            run = %task.run.run,
            stage = task.stage,
            attempt = field::Empty,
            outcome = field::Empty,
            code = field::Empty,
        );
        let performed = self
            .perform(message, redelivered, task)
            .instrument(span.clone())
            .await;
        let (outcome, disposition) = performed.unwrap_or_else(|error| {
            let _under = span.enter();
            tracing::warn!(run = %task.run.run, stage = task.stage, %error, "a port is away; the task comes again");
            (Outcome::PortAway, Disposition::Later { rung: Rung::Short, attempts: message.attempts })
        });
        span.record("outcome", outcome.name());
        (outcome, disposition)
    }

    async fn perform(
        &self,
        message: &Message,
        redelivered: bool,
        task: &TaskMessage,
    ) -> Result<Answer, PortError> {
        let uncounted = Disposition::Later {
            rung: Rung::Short,
            attempts: message.attempts,
        };
        let Some(stage) = self.registry.get(&task.stage, task.revision) else {
            tracing::info!(
                stage = task.stage,
                revision = task.revision,
                "not a stage of this worker; leaving it to others"
            );
            return Ok((Outcome::Elsewhere, uncounted));
        };
        if message.attempts == 0 && task.published_ms > 0 {
            measure::waited(
                &task.stage,
                task.class,
                self.env.now_ms().saturating_sub(task.published_ms),
            );
        }
        let blobs = self.ports.blobs.as_ref();
        let Some(settings) = self.settings.load(&self.env, blobs, &task.settings).await? else {
            return Ok((Outcome::Elsewhere, uncounted));
        };
        // A duplicate of what is running right here is done with: what becomes of the task is in those hands.
        let Some(_working) = self.running.begin(task) else {
            return Ok((Outcome::Duplicate, Disposition::Ack));
        };
        let (attempts, crashes) = match self.begin(task, redelivered).await? {
            Lease::Granted {
                attempts, crashes, ..
            } => (attempts.max(message.attempts) + 1, crashes),
            Lease::Held { until_ms, .. } => {
                let rung =
                    Rung::at_least(until_ms.saturating_sub(self.env.now_ms())).min(Rung::Medium);
                return Ok((
                    Outcome::Held,
                    Disposition::Later {
                        rung,
                        attempts: message.attempts,
                    },
                ));
            }
            Lease::Ended => return self.ended(task).await,
        };
        Span::current().record("attempt", attempts);
        let underway = self.presence.begin(task, self.env.now_ms());
        // Looked for under the lease: whoever held it before has stored what it made, or never will.
        if let Some(outcome) = ask(&self.env, || {
            artifact::outcome(blobs, &task.run.scope, &task.key)
        })
        .await?
        {
            self.conclude(task, Entry::Done(outcome)).await?;
            return Ok((Outcome::Reused, Disposition::Ack));
        }
        if crashes >= MAX_CRASHES {
            self.close(&underway, Close::Failed);
            return Ok((Outcome::Poison, Disposition::Dead));
        }
        let context = Task {
            run: &task.run,
            key: task.key,
            class: task.class,
            attempt: attempts,
            settings: settings.as_ref(),
            tools: self.tools.as_ref(),
            ports: &self.ports,
            env: &self.env,
        };
        tracing::debug!(run = %task.run.run, stage = task.stage, task = %task.key, attempts, "a stage begins");
        match self.attempt(stage, task, &context).await? {
            Attempt::Outcome(outcome) => {
                self.conclude(task, Entry::Done(outcome)).await?;
                self.close(&underway, Close::Done);
                Ok((Outcome::Done, Disposition::Ack))
            }
            Attempt::Failed(failure) => self.failed(task, failure, attempts, &underway).await,
        }
    }

    /// Counts how an attempt ended, and how long it took.
    fn close(&self, underway: &Underway, how: Close) {
        measure::attempt(underway.stage(), underway.close(how, self.env.now_ms()));
    }

    /// Whether a failure of the task, or of its whole run, is kept that the ledger does not know of (any more).
    async fn failed_before(&self, task: &TaskMessage) -> Result<bool, PortError> {
        let run = &task.run.run;
        for name in [failure_key(run, &task.key), run_failure_key(run)] {
            if ask(&self.env, || self.ports.blobs.size(&name))
                .await?
                .is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Nothing is left to do but to say so: the first word of it may have been lost.
    async fn ended(&self, task: &TaskMessage) -> Result<Answer, PortError> {
        tell(&self.env, &self.ports, &task.run).await?;
        Ok((Outcome::Ended, Disposition::Ack))
    }

    /// Runs the stage under its deadline and stores what it made.
    async fn attempt(
        &self,
        stage: &dyn AnyStage<W>,
        task: &TaskMessage,
        context: &Task<'_, W>,
    ) -> Result<Attempt, PortError> {
        let run = AssertUnwindSafe(stage.run(&task.payload, context)).catch_unwind();
        let run = tokio::time::timeout(stage.deadline(), run);
        let artifact = match self.while_leased(task, run).await {
            Ok(Ok(Ok(artifact))) => artifact,
            Ok(Ok(Err(failure))) => return Ok(Attempt::Failed(failure)),
            Ok(Err(_)) => {
                let message = format!("{} panicked; the worker's log says where", task.stage);
                return Ok(Attempt::Failed(Failure::transient("engine.panic", message)));
            }
            Err(_) => {
                let message = format!(
                    "{} took longer than {} s",
                    task.stage,
                    stage.deadline().as_secs()
                );
                return Ok(Attempt::Failed(Failure::transient(
                    "engine.deadline",
                    message,
                )));
            }
        };
        let blobs = self.ports.blobs.as_ref();
        // Still under the lease: a store in trouble is when a second worker would pay for the same once more.
        let store = keep(&self.env, || {
            artifact.store(blobs, &task.run.scope, &task.key)
        });
        match self.while_leased(task, store).await {
            Ok(outcome) => Ok(Attempt::Outcome(outcome)),
            Err(error) if error.passing => Err(error),
            Err(error) => Ok(Attempt::Failed(error.into())),
        }
    }

    async fn failed(
        &self,
        task: &TaskMessage,
        failure: Failure,
        attempts: u32,
        underway: &Underway,
    ) -> Result<Answer, PortError> {
        measure::failure(&task.stage, &failure.code);
        Span::current().record("code", &failure.code);
        match consequence(failure.kind, attempts) {
            Consequence::Again { rung, counted } => {
                tracing::info!(run = %task.run.run, stage = task.stage, attempts, code = failure.code, "failed, to be tried again");
                let next_ms = self.env.now_ms() + rung.delay().as_millis() as Millis;
                let retry = Retry {
                    code: failure.code,
                    next_ms,
                    counted,
                };
                self.release(task, Some(&retry)).await?;
                self.close(underway, Close::Retried);
                let outcome = if counted {
                    Outcome::Retried
                } else {
                    Outcome::Throttled
                };
                Ok((
                    outcome,
                    Disposition::Later {
                        rung,
                        attempts: attempts - u32::from(!counted),
                    },
                ))
            }
            Consequence::Final => {
                tracing::warn!(run = %task.run.run, stage = task.stage, attempts, code = failure.code, "failed for good");
                let record = FailureRecord::of(failure, &task.stage, attempts, self.env.now_ms());
                record_failure(&self.env, &self.ports, &task.run, &task.key, record).await?;
                self.leased().remove(&task.name());
                self.close(underway, Close::Failed);
                Ok((Outcome::Failed, Disposition::Ack))
            }
        }
    }

    /// Records what became of the task and tells the coordinator. The artifact is already stored.
    async fn conclude(&self, task: &TaskMessage, entry: Entry) -> Result<(), PortError> {
        conclude(&self.env, &self.ports, &task.run, &task.key, entry).await?;
        self.leased().remove(&task.name());
        Ok(())
    }

    /// Takes the lease. A ledger that does not know the task has forgotten it, and with it who works on what. A message that
    /// someone else had may then be of a task that is being paid for: the ledger is asked once more when those who are at
    /// work have renewed their leases.
    async fn begin(&self, task: &TaskMessage, redelivered: bool) -> Result<Lease, PortError> {
        let lease = self.lease(task).await?;
        if !matches!(lease, Lease::Granted { wanted: false, .. }) {
            return Ok(lease);
        }
        if self.failed_before(task).await? {
            return Ok(Lease::Ended);
        }
        if !redelivered {
            return Ok(lease);
        }
        self.release(task, None).await?;
        self.env.sleep(RENEWED_BY).await;
        self.lease(task).await
    }

    async fn lease(&self, task: &TaskMessage) -> Result<Lease, PortError> {
        let now = self.env.now_ms();
        let until = now + LEASE.as_millis() as Millis;
        let ledger = &self.ports.ledger;
        let holder = self.presence.process();
        self.leased().insert(task.name()); // before it is known: a lease may have been taken by a call that failed
        let lease = ask(&self.env, || {
            ledger.lease(&task.run.run, &task.key, holder, now, until)
        })
        .await?;
        if !matches!(lease, Lease::Granted { .. }) {
            self.leased().remove(&task.name());
        }
        Ok(lease)
    }

    async fn release(&self, task: &TaskMessage, retry: Option<&Retry>) -> Result<(), PortError> {
        let ledger = &self.ports.ledger;
        let holder = self.presence.process();
        ask(&self.env, || {
            ledger.release(&task.run.run, &task.key, holder, retry)
        })
        .await?;
        self.leased().remove(&task.name());
        Ok(())
    }

    fn leased(&self) -> MutexGuard<'_, HashSet<(RunId, TaskKey)>> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `work`, renewing the lease beside it.
    async fn while_leased<T>(&self, task: &TaskMessage, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            result = work => result,
            never = self.renew(task) => match never {},
        }
    }

    async fn renew(&self, task: &TaskMessage) -> Infallible {
        loop {
            self.env.sleep(RENEWED_EVERY).await;
            if let Err(error) = self.lease(task).await {
                tracing::warn!(stage = task.stage, %error, "lease could not be renewed; going on");
            }
        }
    }
}

#[async_trait]
impl<W: Work> Handler for Performer<W> {
    async fn handle(&self, message: &Message, redeliveries: u32) -> Disposition {
        let task: TaskMessage = match serde_json::from_slice(&message.body) {
            Ok(task) => task,
            Err(error) => {
                tracing::error!(%error, "a message that is no task");
                return Disposition::Dead;
            }
        };
        let (outcome, disposition) = self.traced(message, redeliveries > 0, &task).await;
        let ours = self
            .registry
            .get(&task.stage, task.revision)
            .map(|_| task.stage.as_str());
        measure::task(ours, outcome);
        disposition
    }

    /// Gives up the lease, uncounted, so that whoever gets the message next can begin at once.
    async fn hand_back(&self, message: &Message) {
        let Ok(task) = serde_json::from_slice::<TaskMessage>(&message.body) else {
            return;
        };
        let ours = self
            .registry
            .get(&task.stage, task.revision)
            .map(|_| task.stage.as_str());
        measure::task(ours, Outcome::CutOff);
        if !self.leased().contains(&task.name()) {
            return;
        }
        if let Err(error) = self.release(&task, None).await {
            tracing::warn!(run = %task.run.run, stage = task.stage, %error, "the lease of a task that was cut off runs out by itself");
        }
    }
}

/// Stores a final failure of a task and tells the coordinator.
pub(crate) async fn record_failure(
    env: &Env,
    ports: &Ports,
    run: &RunRef,
    key: &TaskKey,
    record: FailureRecord,
) -> Result<(), PortError> {
    let json = serde_json::to_vec(&record)
        .map_err(|error| PortError::lasting("blobs", "put", error.to_string()))?;
    let name = failure_key(&run.run, key);
    ask(env, || ports.blobs.put(&name, json.clone().into())).await?;
    conclude(env, ports, run, key, Entry::Failed(record)).await
}

async fn conclude(
    env: &Env,
    ports: &Ports,
    run: &RunRef,
    key: &TaskKey,
    entry: Entry,
) -> Result<(), PortError> {
    ask(env, || ports.ledger.record(&run.run, key, entry.clone())).await?;
    tell(env, ports, run).await
}

/// Tells whoever coordinates `run` that something of it ended.
async fn tell(env: &Env, ports: &Ports, run: &RunRef) -> Result<(), PortError> {
    let news = encode(&News::Completed(run.clone()))?;
    ask(env, || {
        ports
            .queue
            .publish(QueueName::of_run(&run.run), vec![news.clone()])
    })
    .await
}

/// A task that takes down whoever works on it.
fn poison(stage: &str) -> Failure {
    Failure {
        kind: FailureKind::Poison,
        code: "engine.poison".into(),
        message: format!("{stage} could not be handled by any worker, again and again"),
        next: Some("look for crashes in the workers' logs, then run the document again".into()),
    }
}

/// Handles dead letters: a task that no one could handle failed for good, and its flow goes on or fails (rule 6).
pub struct Undertaker {
    /// The world.
    pub env: Env,
    /// The ports.
    pub ports: Ports,
}

#[async_trait]
impl Handler for Undertaker {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        measure::dead_letter();
        let buried = match serde_json::from_slice::<TaskMessage>(&message.body) {
            Ok(task) => self.bury(&task, message).await,
            Err(_) => {
                dead_letter::bury(
                    &self.env,
                    self.ports.blobs.as_ref(),
                    message,
                    "it cannot be read",
                )
                .await
            }
        };
        match buried {
            Ok(()) => Disposition::Ack,
            Err(error) => {
                tracing::warn!(%error, "dead letter could not be recorded; trying again");
                Disposition::Later {
                    rung: Rung::Short,
                    attempts: message.attempts,
                }
            }
        }
    }
}

impl Undertaker {
    async fn bury(&self, task: &TaskMessage, message: &Message) -> Result<(), PortError> {
        let env = &self.env;
        let blobs = self.ports.blobs.as_ref();
        if let Some(outcome) =
            ask(env, || artifact::outcome(blobs, &task.run.scope, &task.key)).await?
        {
            return conclude(env, &self.ports, &task.run, &task.key, Entry::Done(outcome)).await;
        }
        let poison = poison(&task.stage);
        dead_letter::bury(env, blobs, message, &poison.message).await?;
        let record = FailureRecord::of(poison, &task.stage, message.attempts, env.now_ms());
        record_failure(env, &self.ports, &task.run, &task.key, record).await
    }
}
