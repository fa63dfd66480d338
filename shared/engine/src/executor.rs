//! Executes a task: lease, run, store, record, notify. The consumer loop acknowledges afterwards (I-3).

mod leases;
mod results;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use parking_lot::Mutex;
use stemma_store::artifact::{self, Artifact};
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::failure::{Failure, FailureKind, FailureRecord};
use stemma_store::key::{RunId, TaskKey, failure_key, run_failure_key};
use stemma_store::port_error::{PortError, PortResult};
use tokio::sync::RwLock;
use tracing::{Instrument, Span, field};

use crate::consumer::{Disposition, Handler};
use crate::heartbeat::{AttemptOutcome, HeartbeatReporter, RunningTask};
use crate::ledger::{DeliveryKind, Lease, Retry, TaskOutcome};
use crate::message::{CoordinatorMessage, TaskMessage};
use crate::metrics::{self, DeliveryOutcome};
use crate::outcome::{notify_coordinator, record_failure, record_outcome, reload_run};
use crate::ports::Ports;
use crate::queue::{Lane, Message, RetryDelay};
use crate::retry::{RetryDecision, decide_retry};
use crate::settings::SettingsCache;
use crate::stage::{AnyStage, StageRegistry, TaskContext, Work, artifact_failure};
use crate::trace::RunTrace;
use crate::zero_counters;

// Crashes after which a task is poison: it crashes every worker that takes it.
const MAX_CRASHES: u32 = 10;

/// Executes tasks: the handler of lane queues.
pub struct TaskExecutor<W: Work> {
    ports: Ports,
    registry: StageRegistry<W>,
    tools: Arc<W::Tools>,
    settings: SettingsCache<W>,
    // The process that is named in leases; collects the counts.
    heartbeat: Arc<HeartbeatReporter>,
    in_flight: Arc<InFlightTasks>,
    // Tasks leased by this process and not yet released.
    leased: Mutex<HashSet<(RunId, TaskKey)>>,
    // Tasks hold it shared; a task that must run alone holds it exclusively.
    exclusive: RwLock<()>,
}

// Tasks running in this process. Leases exclude other processes; this excludes duplicates within the process.
#[derive(Default)]
struct InFlightTasks(Mutex<HashSet<(RunId, TaskKey)>>);

// Removes the task on drop, however its handler ends.
struct InFlightGuard(Arc<InFlightTasks>, (RunId, TaskKey));

impl InFlightTasks {
    fn begin(self: &Arc<Self>, task: &TaskMessage) -> Option<InFlightGuard> {
        let name = task.id();
        let is_new = self.0.lock().insert(name.clone());
        is_new.then(|| InFlightGuard(Arc::clone(self), name))
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}

type HandleResult = (DeliveryOutcome, Disposition);

/// Result of an attempt.
enum StageResult {
    Outcome(Bytes),
    Failed(Failure),
}

impl<W: Work> TaskExecutor<W> {
    /// An executor of the stages in `registry`, in the process of `heartbeat`.
    pub fn new(
        ports: Ports,
        registry: StageRegistry<W>,
        tools: Arc<W::Tools>,
        heartbeat: Arc<HeartbeatReporter>,
    ) -> Self {
        zero_counters::register_stages(registry.revisions().into_keys());
        Self {
            ports,
            registry,
            tools,
            settings: SettingsCache::default(),
            heartbeat,
            in_flight: Arc::default(),
            leased: Mutex::default(),
            exclusive: RwLock::default(),
        }
    }

    /// Executes the task in a span of its own, below the batch that published it.
    async fn execute_traced(
        &self,
        message: &Message,
        delivery: DeliveryKind,
        task: &TaskMessage,
    ) -> HandleResult {
        let publish_batch = message.trace.clone().unwrap_or_else(|| {
            let trace = RunTrace::for_run(&task.run.run);
            trace.traceparent(&trace.root)
        });
        let span = tracing::info_span!(
            "task",
            traceparent = publish_batch,
            run = %task.run.run,
            stage = task.stage,
            attempt = field::Empty,
            outcome = field::Empty,
            code = field::Empty,
        );
        let performed = self
            .execute(message, delivery, task)
            .instrument(span.clone())
            .await;
        let (outcome, disposition) = match performed {
            Ok(performed) => performed,
            Err(error) => {
                let retry = self.on_port_error(message, task, &error);
                retry.instrument(span.clone()).await
            }
        };
        span.record("outcome", outcome.name());
        (outcome, disposition)
    }

    async fn execute(
        &self,
        message: &Message,
        delivery: DeliveryKind,
        task: &TaskMessage,
    ) -> PortResult<HandleResult> {
        let elsewhere = (
            DeliveryOutcome::Elsewhere,
            Disposition::Retry {
                delay: self.delay_for_others(task),
                attempts: message.attempts,
                retry_ms: message.retry_ms,
            },
        );
        let Some(stage) = self.registry.get(&task.stage, task.revision) else {
            tracing::info!(
                stage = task.stage,
                revision = task.revision,
                "stage not supported by this worker; leaving it to others"
            );
            return Ok(elsewhere);
        };
        if message.attempts == 0 && task.published_ms > 0 {
            metrics::queue_time(
                &task.stage,
                task.priority,
                self.ports.env.now_ms().saturating_sub(task.published_ms),
            );
        }
        let blobs = &self.ports.blobs;
        let Some(settings) = self.settings.load(blobs, &task.settings).await? else {
            return Ok(elsewhere);
        };
        // A duplicate of a task that runs in this process: that execution decides what becomes of the task.
        let Some(_working) = self.in_flight.begin(task) else {
            return Ok((DeliveryOutcome::Duplicate, Disposition::Ack));
        };
        let (lease, _guard) = self.acquire_lease_and_guard(task, delivery).await?;
        let (attempts, crashes) = match lease {
            Lease::Granted {
                attempts, crashes, ..
            } => (attempts.max(message.attempts) + 1, crashes),
            Lease::LeasedElsewhere { until_ms, .. } => {
                return Ok(self.on_leased_elsewhere(until_ms, message.attempts, message.retry_ms));
            }
            Lease::Ended => return self.on_already_ended(task).await,
            Lease::Parked => return Ok((DeliveryOutcome::Parked, Disposition::Ack)),
            Lease::Outdated => return Ok((DeliveryOutcome::Duplicate, Disposition::Ack)),
        };
        Span::current().record("attempt", attempts);
        let now = self.ports.env.now_ms();
        let running = self.heartbeat.start_task(task, stage.lane(), now);
        // A result is dropped once it is stored, so the artifact is looked for after it: a holder whose lease was lost with the
        // ledger may have stored it meanwhile.
        let earlier_result = match stage.lane() {
            Lane::Llm => self.while_leased(task, self.held_artifact(task)).await?,
            _ => None,
        };
        // Checked under the lease: a previous holder has either stored its artifact by now, or never will.
        let stored = artifact::outcome(blobs, &task.run.scope, &task.key);
        match self.while_leased(task, stored).await {
            Ok(Some(outcome)) => {
                self.record_outcome(task, TaskOutcome::Done(outcome))
                    .await?;
                return Ok((DeliveryOutcome::Reused, Disposition::Ack));
            }
            Ok(None) => {}
            Err(error) if error.is_permanent() => {
                let failure = artifact_failure(error);
                return self.on_failure(task, failure, attempts, &running).await;
            }
            Err(error) => return Err(error),
        }
        if crashes >= MAX_CRASHES {
            self.finish_attempt(&running, AttemptOutcome::Failed);
            let reason = format!("{crashes} workers that took it disappeared");
            return Ok((DeliveryOutcome::Poison, Disposition::DeadLetter(reason)));
        }
        let context = TaskContext {
            run: &task.run,
            key: task.key,
            message: &message.body,
            priority: task.priority,
            attempt: attempts,
            began_ms: self.ports.env.now_ms(),
            settings: settings.as_ref(),
            tools: self.tools.as_ref(),
            ports: &self.ports,
        };
        tracing::debug!(run = %task.run.run, stage = task.stage, task = %task.key, attempts, "stage started");
        match self
            .run_stage(stage, task, &context, earlier_result)
            .await?
        {
            StageResult::Outcome(outcome) => {
                self.record_outcome(task, TaskOutcome::Done(outcome))
                    .await?;
                self.finish_attempt(&running, AttemptOutcome::Done);
                Ok((DeliveryOutcome::Done, Disposition::Ack))
            }
            StageResult::Failed(failure) => {
                self.on_failure(task, failure, attempts, &running).await
            }
        }
    }

    // How long a task waits for another worker to receive it. Where there is none, as after a rollback, all tasks of a newer
    // program come back again and again, so the pause grows with their age.
    fn delay_for_others(&self, task: &TaskMessage) -> RetryDelay {
        let age_ms = self.ports.env.now_ms().saturating_sub(task.published_ms);
        RetryDelay::at_least(age_ms / 4)
    }

    // A port that is unavailable for long must not look like crashes, so the lease is released.
    async fn on_port_error(
        &self,
        message: &Message,
        task: &TaskMessage,
        error: &PortError,
    ) -> HandleResult {
        tracing::warn!(run = %task.run.run, stage = task.stage, %error, "a port is unavailable; the task will be redelivered");
        self.release_if_leased(task).await;
        // A person has to act before a refusal ends.
        let delay = if error.is_transient() {
            RetryDelay::Short
        } else {
            RetryDelay::Medium
        };
        let attempts = message.attempts;
        let retry = Disposition::Retry {
            delay,
            attempts,
            retry_ms: None,
        };
        (DeliveryOutcome::PortUnavailable, retry)
    }

    fn finish_attempt(&self, running: &RunningTask, how: AttemptOutcome) {
        metrics::attempt(
            running.stage(),
            running.finish(how, self.ports.env.now_ms()),
        );
    }

    // A failure of the task or of its whole run may be in the blobs although the ledger no longer knows it.
    async fn has_recorded_failure(&self, task: &TaskMessage) -> PortResult<bool> {
        let run = &task.run.run;
        for name in [failure_key(run, &task.key), run_failure_key(run)] {
            if self.ports.blobs.size(&name).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    // The message comes again when the other holder has recorded an outcome, or its lease has expired.
    fn on_leased_elsewhere(
        &self,
        until_ms: Millis,
        attempts: u32,
        retry_ms: Option<Millis>,
    ) -> HandleResult {
        let delay = RetryDelay::at_least(until_ms.saturating_sub(self.ports.env.now_ms()));
        let delay = delay.min(RetryDelay::Medium);
        (
            DeliveryOutcome::LeasedElsewhere,
            Disposition::Retry {
                delay,
                attempts,
                retry_ms,
            },
        )
    }

    // Only the notification is left: the first one may have been lost.
    async fn on_already_ended(&self, task: &TaskMessage) -> PortResult<HandleResult> {
        let completed = CoordinatorMessage::Completed(task.run.clone());
        notify_coordinator(&self.ports, &completed).await?;
        Ok((DeliveryOutcome::Ended, Disposition::Ack))
    }

    /// Runs the stage, unless a process before this one has handed its result on, and stores the artifact.
    async fn run_stage(
        &self,
        stage: &dyn AnyStage<W>,
        task: &TaskMessage,
        context: &TaskContext<'_, W>,
        earlier_result: Option<Artifact>,
    ) -> PortResult<StageResult> {
        let artifact = match earlier_result {
            Some(artifact) => artifact,
            None => match self.run_within_deadline(stage, task, context).await {
                Ok(artifact) => artifact,
                Err(failure) => return Ok(StageResult::Failed(failure)),
            },
        };
        // Stored under the lease: while the store is in trouble a second worker must not pay for the same work again.
        let blobs = self.ports.blobs.with_long_retries();
        let store = artifact.store(&blobs, &task.run.scope, &task.key);
        let store = async {
            if stage.lane() == Lane::Llm {
                self.store_or_hand_on(task, &artifact, store).await
            } else {
                store.await
            }
        };
        match self.while_leased(task, store).await {
            Ok(outcome) => Ok(StageResult::Outcome(outcome)),
            Err(error) if !error.is_permanent() => Err(error),
            Err(error) => Ok(StageResult::Failed(error.into())),
        }
    }

    async fn run_within_deadline(
        &self,
        stage: &dyn AnyStage<W>,
        task: &TaskMessage,
        context: &TaskContext<'_, W>,
    ) -> Result<Artifact, Failure> {
        let run = AssertUnwindSafe(stage.run(&task.payload, context)).catch_unwind();
        let run = tokio::time::timeout(stage.deadline(), run);
        match self.while_leased(task, run).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                let message = format!("{} panicked; the worker's log says where", task.stage);
                Err(Failure::transient("engine.panic", message))
            }
            Err(_) => {
                let message = format!(
                    "{} took longer than {} s",
                    task.stage,
                    stage.deadline().as_secs()
                );
                Err(Failure::transient("engine.deadline", message))
            }
        }
    }

    async fn on_failure(
        &self,
        task: &TaskMessage,
        failure: Failure,
        attempts: u32,
        running: &RunningTask,
    ) -> PortResult<HandleResult> {
        Span::current().record("code", &failure.code);
        match decide_retry(failure.kind, attempts) {
            // The message ends here. The task is published again by whoever brings what it waits for, and if that is lost,
            // by the coordinator once it is overdue.
            RetryDecision::Wait { within_ms } => {
                let retry = Retry {
                    code: failure.code,
                    next_ms: self.ports.env.now_ms() + within_ms,
                    counted: false,
                };
                self.release(task, Some(&retry)).await?;
                Ok((DeliveryOutcome::Waiting, Disposition::Ack))
            }
            RetryDecision::Retry { delay, counted } => {
                tracing::info!(run = %task.run.run, stage = task.stage, attempts, code = failure.code, "task failed; it will be retried");
                let next_ms = self.ports.env.now_ms() + delay.duration().as_millis() as Millis;
                let retry = Retry {
                    code: failure.code,
                    next_ms,
                    counted,
                };
                metrics::failure(&task.stage, &retry.code);
                self.release(task, Some(&retry)).await?;
                if failure.kind == FailureKind::InputMissing {
                    reload_run(&self.ports, &task.run).await?;
                }
                self.finish_attempt(running, AttemptOutcome::Retried);
                let outcome = if counted {
                    DeliveryOutcome::Retried
                } else {
                    DeliveryOutcome::Throttled
                };
                Ok((
                    outcome,
                    Disposition::Retry {
                        delay,
                        attempts: attempts - u32::from(!counted),
                        retry_ms: Some(next_ms),
                    },
                ))
            }
            RetryDecision::Final => {
                // A process that was suspended may have lost its lease: whoever holds it now decides.
                match self
                    .try_lease(&self.ports.ledger, task, DeliveryKind::Published)
                    .await?
                {
                    Lease::Granted { .. } => {}
                    Lease::LeasedElsewhere { until_ms, .. } => {
                        let attempts = attempts.saturating_sub(1);
                        return Ok(self.on_leased_elsewhere(until_ms, attempts, None));
                    }
                    Lease::Ended => return self.on_already_ended(task).await,
                    Lease::Parked => return Ok((DeliveryOutcome::Parked, Disposition::Ack)),
                    Lease::Outdated => return Ok((DeliveryOutcome::Duplicate, Disposition::Ack)),
                }
                let record =
                    FailureRecord::new(failure, &task.stage, attempts, self.ports.env.now_ms());
                record_failure(&self.ports, &task.run, &task.key, record.clone()).await?;
                self.leased.lock().remove(&task.id());
                let FailureRecord { code, message, .. } = record;
                tracing::warn!(run = %task.run.run, stage = task.stage, attempts, code, error = message, "task failed permanently");
                metrics::failure(&task.stage, &code);
                self.finish_attempt(running, AttemptOutcome::Failed);
                Ok((DeliveryOutcome::Failed, Disposition::Ack))
            }
        }
    }

    /// Records the outcome of a task whose artifact or failure is stored, and notifies the coordinator.
    async fn record_outcome(&self, task: &TaskMessage, entry: TaskOutcome) -> PortResult<()> {
        record_outcome(&self.ports, &task.run, &task.key, entry).await?;
        self.leased.lock().remove(&task.id());
        Ok(())
    }
}

#[async_trait]
impl<W: Work> Handler for TaskExecutor<W> {
    async fn handle(&self, message: &Message, redeliveries: u32) -> Disposition {
        let task: TaskMessage = match serde_json::from_slice(&message.body) {
            Ok(task) => task,
            Err(error) => return Disposition::DeadLetter(format!("it is not a task: {error}")),
        };
        let (outcome, disposition) = match self.ports.message_keys.admit_task::<W>(&task) {
            Ok(()) => {
                let delivery = match message.retry_ms {
                    _ if redeliveries > 0 => DeliveryKind::Redelivered,
                    Some(retry_ms) => DeliveryKind::Retried(retry_ms),
                    None => DeliveryKind::Published,
                };
                self.execute_traced(message, delivery, &task).await
            }
            Err(error) => (
                DeliveryOutcome::Refused,
                Disposition::Refuse(error.to_string()),
            ),
        };
        let ours = self
            .registry
            .get(&task.stage, task.revision)
            .map(|_| task.stage.as_str());
        metrics::task(ours, outcome);
        disposition
    }

    async fn on_interrupted(&self, message: &Message) {
        let Ok(task) = serde_json::from_slice::<TaskMessage>(&message.body) else {
            return;
        };
        let ours = self
            .registry
            .get(&task.stage, task.revision)
            .map(|_| task.stage.as_str());
        metrics::task(ours, DeliveryOutcome::CutOff);
        self.release_if_leased(&task).await;
    }
}
