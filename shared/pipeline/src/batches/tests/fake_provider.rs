//! A provider of batches in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use stemma_llm::batch::{
    BatchName, BatchPhase, BatchProvider, BatchResult, BatchStatus, FoundBatch,
};
use stemma_llm::request::{Llm, LlmError, LlmReply, LlmRequest};
use stemma_store::Env;
use stemma_store::env::Millis;

use super::crash::Steps;
use super::fixture::tokens;

// How long a batch takes.
const BATCH_MS: Millis = 3_600_000;

/// A provider that answers batches after an hour. What it takes counts as steps of the process.
pub(super) struct FakeProvider {
    env: Env,
    named: bool,
    // Steps of the process that runs.
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
    pub(super) fn new(env: Env, named: bool) -> Self {
        Self {
            env,
            named,
            steps: Mutex::default(),
            state: Mutex::new(FakeState {
                rejects_above: usize::MAX,
                ..FakeState::default()
            }),
        }
    }

    /// What it takes from now on counts as steps of `process`.
    pub(super) fn start(&self, process: Arc<Steps>) {
        *self.steps.lock() = Some(process);
    }

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
