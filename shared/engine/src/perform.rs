//! Performing a task: lease, run, store, record, emit. The consumer loop acknowledges after that (I-3).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::artifact;
use crate::consume::{Disposition, Handler};
use crate::env::{Env, Millis};
use crate::failure::{Consequence, Failure, FailureKind, FailureRecord, consequence};
use crate::key::failure_key;
use crate::ledger::{Entry, Lease};
use crate::message::{News, TaskMessage, encode};
use crate::port::{PortError, ask};
use crate::ports::Ports;
use crate::queue::{Message, QueueName, Rung};
use crate::settings::SettingsCache;
use crate::stage::{AnyStage, Registry, Task, Work};

/// How long a lease lasts without being renewed.
const LEASE: Duration = Duration::from_secs(60);

/// Performs tasks: the handler of lane queues.
pub struct Performer<W: Work> {
    env: Env,
    ports: Ports,
    registry: Registry<W>,
    tools: Arc<W::Tools>,
    settings: SettingsCache<W>,
    /// Names this process in leases.
    holder: String,
}

/// What an attempt came to.
enum Attempt {
    Outcome(Bytes),
    Failed(Failure),
}

impl<W: Work> Performer<W> {
    /// A performer of the stages in `registry`. `holder` names this process, as `why` will show it.
    pub fn new(env: Env, ports: Ports, registry: Registry<W>, tools: Arc<W::Tools>, holder: String) -> Self {
        Self { env, ports, registry, tools, settings: SettingsCache::default(), holder }
    }

    async fn perform(&self, message: &Message, task: &TaskMessage) -> Result<Disposition, PortError> {
        let uncounted = Disposition::Later { rung: Rung::Short, attempts: message.attempts };
        let Some(stage) = self.registry.get(&task.stage, task.revision) else {
            tracing::info!(
                stage = task.stage,
                revision = task.revision,
                "not a stage of this worker; leaving it to others"
            );
            return Ok(uncounted);
        };
        let blobs = self.ports.blobs.as_ref();
        let Some(settings) = self.settings.load(&self.env, blobs, &task.settings).await? else { return Ok(uncounted) };
        if let Some(outcome) = ask(&self.env, || artifact::outcome(blobs, &task.run.scope, &task.key)).await? {
            self.conclude(task, Entry::Done(outcome)).await?;
            return Ok(Disposition::Ack);
        }
        let attempts = match self.lease(task).await? {
            Lease::Granted { attempts } => attempts.max(message.attempts) + 1,
            Lease::Held { .. } => return Ok(uncounted),
        };
        let context = Task {
            run: &task.run,
            key: task.key,
            settings: settings.as_ref(),
            tools: self.tools.as_ref(),
            ports: &self.ports,
            env: &self.env,
        };
        match self.attempt(stage, task, &context).await? {
            Attempt::Outcome(outcome) => {
                self.conclude(task, Entry::Done(outcome)).await?;
                Ok(Disposition::Ack)
            }
            Attempt::Failed(failure) => self.failed(task, failure, attempts).await,
        }
    }

    /// Runs the stage under its deadline and stores what it made.
    async fn attempt(
        &self,
        stage: &dyn AnyStage<W>,
        task: &TaskMessage,
        context: &Task<'_, W>,
    ) -> Result<Attempt, PortError> {
        let run = tokio::time::timeout(stage.deadline(), stage.run(&task.payload, context));
        let artifact = match self.while_leased(task, run).await {
            Ok(Ok(artifact)) => artifact,
            Ok(Err(failure)) => return Ok(Attempt::Failed(failure)),
            Err(_) => {
                let message = format!("{} took longer than {} s", task.stage, stage.deadline().as_secs());
                return Ok(Attempt::Failed(Failure::transient("engine.deadline", message)));
            }
        };
        match artifact.store(self.ports.blobs.as_ref(), &task.run.scope, &task.key).await {
            Ok(outcome) => Ok(Attempt::Outcome(outcome)),
            Err(error) if error.passing => Err(error),
            Err(error) => Ok(Attempt::Failed(error.into())),
        }
    }

    async fn failed(&self, task: &TaskMessage, failure: Failure, attempts: u32) -> Result<Disposition, PortError> {
        match consequence(failure.kind, attempts) {
            Consequence::Again { rung, counted } => {
                tracing::info!(run = %task.run.run, stage = task.stage, attempts, code = failure.code, "failed, to be tried again");
                self.ports.ledger.release(&task.run.run, &task.key, &self.holder, counted).await?;
                Ok(Disposition::Later { rung, attempts: attempts - u32::from(!counted) })
            }
            Consequence::Final => {
                tracing::warn!(run = %task.run.run, stage = task.stage, attempts, code = failure.code, "failed for good");
                let record = FailureRecord::of(failure, &task.stage, attempts, self.env.now_ms());
                record_failure(&self.env, &self.ports, task, record).await?;
                Ok(Disposition::Ack)
            }
        }
    }

    /// Records what became of the task and tells the coordinator. The artifact is already stored.
    async fn conclude(&self, task: &TaskMessage, entry: Entry) -> Result<(), PortError> {
        conclude(&self.env, &self.ports, task, entry).await
    }

    async fn lease(&self, task: &TaskMessage) -> Result<Lease, PortError> {
        let now = self.env.now_ms();
        let until = now + LEASE.as_millis() as Millis;
        ask(&self.env, || self.ports.ledger.lease(&task.run.run, &task.key, &self.holder, now, until)).await
    }

    /// Waits for `work`, renewing the lease every third of its length.
    async fn while_leased<T>(&self, task: &TaskMessage, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = self.env.sleep(LEASE / 3) => {
                    if let Err(error) = self.lease(task).await {
                        tracing::warn!(stage = task.stage, %error, "lease could not be renewed; going on");
                    }
                }
            }
        }
    }
}

#[async_trait]
impl<W: Work> Handler for Performer<W> {
    async fn handle(&self, message: &Message) -> Disposition {
        let task: TaskMessage = match serde_json::from_slice(&message.body) {
            Ok(task) => task,
            Err(error) => {
                tracing::error!(%error, "a message that is no task");
                return Disposition::Dead;
            }
        };
        match self.perform(message, &task).await {
            Ok(disposition) => disposition,
            Err(error) => {
                tracing::warn!(run = %task.run.run, stage = task.stage, %error, "a port is away; the task comes again");
                Disposition::Later { rung: Rung::Short, attempts: message.attempts }
            }
        }
    }
}

/// Stores a final failure of a task and tells the coordinator.
pub(crate) async fn record_failure(
    env: &Env,
    ports: &Ports,
    task: &TaskMessage,
    record: FailureRecord,
) -> Result<(), PortError> {
    let json = serde_json::to_vec(&record).map_err(|error| PortError::lasting("blobs", "put", error.to_string()))?;
    let key = failure_key(&task.run.run, &task.key);
    ask(env, || ports.blobs.put(&key, json.clone().into())).await?;
    conclude(env, ports, task, Entry::Failed(record)).await
}

async fn conclude(env: &Env, ports: &Ports, task: &TaskMessage, entry: Entry) -> Result<(), PortError> {
    ask(env, || ports.ledger.record(&task.run.run, &task.key, entry.clone())).await?;
    let news = encode(&News::Completed(task.run.clone()))?;
    ask(env, || ports.queue.publish(QueueName::of_run(&task.run.run), vec![news.clone()])).await
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
    async fn handle(&self, message: &Message) -> Disposition {
        let buried = match serde_json::from_slice::<TaskMessage>(&message.body) {
            Ok(task) => self.bury(&task, message.attempts).await,
            Err(_) => self.keep_unreadable(message).await,
        };
        match buried {
            Ok(()) => Disposition::Ack,
            Err(error) => {
                tracing::warn!(%error, "dead letter could not be recorded; trying again");
                Disposition::Later { rung: Rung::Short, attempts: message.attempts }
            }
        }
    }
}

impl Undertaker {
    async fn bury(&self, task: &TaskMessage, attempts: u32) -> Result<(), PortError> {
        let failure = Failure {
            kind: FailureKind::Poison,
            code: "engine.poison".into(),
            message: format!("{} could not be handled by any worker, again and again", task.stage),
            next: Some("look for crashes in the workers' logs, then run the document again".into()),
        };
        let record = FailureRecord::of(failure, &task.stage, attempts, self.env.now_ms());
        record_failure(&self.env, &self.ports, task, record).await
    }

    /// A message that cannot even be read is kept for a person to look at.
    async fn keep_unreadable(&self, message: &Message) -> Result<(), PortError> {
        let key = format!("dead/{}", blake3::hash(&message.body).to_hex());
        ask(&self.env, || self.ports.blobs.put(&key, message.body.clone())).await.map(|_| ())
    }
}
