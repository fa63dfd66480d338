//! Batches sections of one document into shared model calls.
//!
//! A batch is transport only: each section keeps its key, its answer and its failure. Sections of one run
//! that are asked about at the same time share calls of at most [`MAX_ITEMS`] sections and [`MAX_TOKENS`]
//! tokens. A section without a valid answer asks again alone. Batches run in tasks of their own, so a
//! cancelled task does not block the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use stemma_llm::client::ModelClient;
use stemma_llm::request::LlmRequest;
use stemma_llm::structured::complete_structured;
use stemma_llm::tokens;
use stemma_llm::untrusted::delimit;
use stemma_store::{Env, Failure, Priority, RunId};
use tokio::sync::oneshot;

use super::call_log::TaskCallLog;
use super::llm_question::LlmQuestion;
use super::prompt_text::PROMPT_OVERHEAD_TOKENS;
use crate::FilingTask;
use crate::settings::{ModelSettings, Purpose};

// Most sections in one call.
const MAX_ITEMS: usize = 8;
// Most tokens of their blocks. A larger section is asked about alone.
const MAX_TOKENS: u32 = 8_000;
// A batch with so many tokens is sent at once: hardly any section is small enough to fit in.
const FULL_TOKENS: u32 = 7_600;
// How long a batch waits after the last section arrived.
const FLUSH_DELAY: Duration = Duration::from_millis(80);
// It waits at most so many times as long for expected sections.
const MAX_FLUSH_DELAYS: u32 = 50;

// Sections are batched only with others of the same run and priority, so that no prompt mixes documents.
type BatchKey = (RunId, Priority);

/// The batches that are being filled. One per worker.
#[derive(Clone, Default)]
pub struct Batcher(Arc<Mutex<HashMap<BatchKey, SectionQueue>>>);

#[derive(Default)]
struct SectionQueue {
    // Announced tasks that have not arrived yet.
    expected: usize,
    batches: Vec<Vec<SectionRequest>>,
    // Total number of arrivals. Unchanged means that nothing new came since the last check.
    arrivals: u64,
    // Whether a task is waiting to flush the batches.
    has_flusher: bool,
}

struct SectionRequest {
    // Index of the section in the document.
    position: u32,
    block: String,
    tokens: u32,
    reply_sender: oneshot::Sender<BatchReply>,
}

enum BatchReply {
    Summary(String),
    // No valid answer: the section asks again alone.
    AskAlone,
    Failed(Failure),
}

/// The reply to a batch, or to one section alone.
#[derive(Deserialize)]
pub(crate) struct SummaryBatch {
    summaries: Vec<SectionSummary>,
}

#[derive(Deserialize)]
struct SectionSummary {
    section: u32,
    summary: String,
}

impl SummaryBatch {
    /// The summary of section `number` (from 1); `None` if it is missing or ambiguous.
    pub(crate) fn summary_for(&self, number: usize) -> Option<&str> {
        let mut lines = (self.summaries.iter()).filter(|line| line.section as usize == number);
        let first = lines.next()?.summary.as_str();
        lines.all(|line| line.summary == first).then_some(first)
    }

    fn check(self, sections: usize) -> Result<Self, String> {
        match (1..=sections).any(|number| self.summary_for(number).is_some()) {
            true => Ok(self),
            false => Err("it holds no summary of any of the sections".into()),
        }
    }
}

// Borrows nothing from a task, because the call may outlive it.
#[derive(Clone)]
struct BatchCall {
    env: Env,
    client: Arc<ModelClient>,
    // The request without sections.
    template: LlmRequest,
    priority: Priority,
    // Most tokens in a batch of this call.
    token_limit: u32,
    log: TaskCallLog,
}

/// A task that will arrive soon. Dropping it means that it will not.
pub(crate) struct ExpectedItem {
    batcher: Batcher,
    key: BatchKey,
}

impl Drop for ExpectedItem {
    fn drop(&mut self) {
        let mut all = self.batcher.0.lock();
        if let Some(queue) = all.get_mut(&self.key) {
            queue.expected -= 1;
            if queue.expected == 0 && !queue.has_flusher {
                all.remove(&self.key);
            }
        }
    }
}

pub(crate) fn delimit_sections<'a>(blocks: impl Iterator<Item = &'a str>) -> String {
    let delimited: Vec<_> = blocks
        .enumerate()
        .map(|(at, text)| delimit(&format!("Section {}", at + 1), text))
        .collect();
    delimited.join("\n\n")
}

impl Batcher {
    /// Announces a task, so that batches wait for it.
    pub(crate) fn expect_item(&self, task: &FilingTask<'_>) -> ExpectedItem {
        let key = (task.run.run.clone(), task.priority);
        self.0.lock().entry(key.clone()).or_default().expected += 1;
        ExpectedItem {
            batcher: self.clone(),
            key,
        }
    }

    /// Summarizes `block`, the section at `position`, together with others. `None` if the section must be
    /// asked about alone, because it is too large or had no valid answer.
    ///
    /// # Errors
    /// The failure of the call of its batch.
    pub(crate) async fn summarize(
        &self,
        task: &FilingTask<'_>,
        expected: ExpectedItem,
        question: &LlmQuestion,
        position: u32,
        block: String,
    ) -> Result<Option<String>, Failure> {
        let (model, client) = question.model_client(task)?;
        let tokens = tokens::count(&block);
        let token_limit = token_limit(model);
        if tokens > token_limit {
            return Ok(None);
        }
        let call = BatchCall {
            env: task.ports.env.clone(),
            client: Arc::clone(client),
            template: question.build_request(task.settings, model, String::new()),
            priority: task.priority,
            token_limit,
            log: TaskCallLog::for_batch(task, question.stage),
        };
        let (reply_sender, answer) = oneshot::channel();
        let item = SectionRequest {
            position,
            block,
            tokens,
            reply_sender,
        };
        self.push(&expected.key, item, &call);
        drop(expected);
        match answer.await {
            Ok(BatchReply::Summary(summary)) => Ok(Some(summary)),
            Ok(BatchReply::AskAlone) => Ok(None),
            Ok(BatchReply::Failed(failure)) => Err(failure),
            Err(_) => {
                let message = "the call of a batch ended without a reply";
                Err(Failure::transient("engine.panic", message))
            }
        }
    }

    fn push(&self, key: &BatchKey, item: SectionRequest, call: &BatchCall) {
        let mut all = self.0.lock();
        let Some(queue) = all.get_mut(key) else {
            return;
        };
        queue.arrivals += 1;
        add_to_fullest(
            &mut queue.batches,
            item,
            |item| item.tokens,
            call.token_limit,
        );
        // Full batches go out at once. The rest waits for a flush, because more sections may follow.
        for batch in queue
            .batches
            .extract_if(.., |batch: &mut Vec<SectionRequest>| {
                batch.len() == MAX_ITEMS || total_tokens(batch) >= FULL_TOKENS.min(call.token_limit)
            })
        {
            call.env.spawn(call.clone().send(batch));
        }
        if !queue.batches.is_empty() && !queue.has_flusher {
            queue.has_flusher = true;
            let flush = self.clone().flush_when_idle(key.clone(), call.clone());
            call.env.spawn(flush);
        }
    }

    // Sends the batches of a queue when no more sections arrive.
    async fn flush_when_idle(self, key: BatchKey, call: BatchCall) {
        let mut arrivals = 0;
        for _ in 0..MAX_FLUSH_DELAYS {
            call.env.sleep(FLUSH_DELAY).await;
            let all = self.0.lock();
            let Some(queue) = all.get(&key) else {
                return;
            };
            // Nothing is expected and nothing came since the last check: waiting longer gains nothing.
            if queue.expected == 0 && queue.arrivals == arrivals {
                break;
            }
            arrivals = queue.arrivals;
        }
        let batches = {
            let mut all = self.0.lock();
            let Some(queue) = all.get_mut(&key) else {
                return;
            };
            queue.has_flusher = false;
            let batches = std::mem::take(&mut queue.batches);
            if queue.expected == 0 {
                all.remove(&key);
            }
            batches
        };
        for batch in batches {
            call.env.spawn(call.clone().send(batch));
        }
    }
}

/// Most tokens of the blocks in one call.
pub(super) fn token_limit(model: &ModelSettings) -> u32 {
    let room = model.max_prompt_tokens_for(Purpose::Summaries);
    MAX_TOKENS.min(room.saturating_sub(PROMPT_OVERHEAD_TOKENS))
}

/// The calls that blocks of these tokens share if all arrive in this order.
pub(super) fn pack(blocks: &[u32], token_limit: u32) -> Vec<Vec<u32>> {
    let mut batches = Vec::new();
    for block in blocks {
        add_to_fullest(&mut batches, *block, |tokens| *tokens, token_limit);
    }
    batches
}

// Adds a section to the fullest batch with room for it, which keeps the number of calls low.
fn add_to_fullest<T>(batches: &mut Vec<Vec<T>>, item: T, tokens: fn(&T) -> u32, token_limit: u32) {
    let total = |batch: &[T]| batch.iter().map(tokens).fold(0, u32::saturating_add);
    let with_room = batches.iter_mut().filter(|batch| {
        batch.len() < MAX_ITEMS && total(batch).saturating_add(tokens(&item)) <= token_limit
    });
    match with_room.max_by_key(|batch| total(batch)) {
        Some(batch) => batch.push(item),
        None => batches.push(vec![item]),
    }
}

fn total_tokens(batch: &[SectionRequest]) -> u32 {
    batch.iter().map(|item| item.tokens).sum()
}

impl BatchCall {
    // A batch without an answer is split in halves, so that one bad section does not fail the others.
    async fn send(self, batch: Vec<SectionRequest>) {
        let mut batches = vec![batch];
        while let Some(mut batch) = batches.pop() {
            // Document order, whatever order the tasks arrived in. Cancelled tasks are left out.
            batch.retain(|item| !item.reply_sender.is_closed());
            batch.sort_by_key(|item| item.position);
            match self.call(&batch).await {
                Ok(replies) => batch.into_iter().zip(replies).for_each(send_reply),
                Err(BatchError::Items) => {
                    let other = batch.split_off(batch.len() / 2);
                    batches.extend([other, batch]);
                }
                Err(BatchError::Provider(failure)) => {
                    for item in batch {
                        send_reply((item, BatchReply::Failed(failure.clone())));
                    }
                }
            }
        }
    }

    async fn call(&self, batch: &[SectionRequest]) -> Result<Vec<BatchReply>, BatchError> {
        // A batch of one is not a batch: the section asks alone, with its own call record.
        if batch.len() < 2 {
            return Ok(batch.iter().map(|_| BatchReply::AskAlone).collect());
        }
        let user = delimit_sections(batch.iter().map(|item| item.block.as_str()));
        let answers = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let max_output_tokens = self.template.max_output_tokens.saturating_mul(answers);
        let request = LlmRequest {
            user,
            max_output_tokens,
            ..self.template.clone()
        };
        let Self { client, log, .. } = self;
        let answer = complete_structured(
            client,
            &request,
            self.priority,
            log,
            |written: SummaryBatch| written.check(batch.len()),
        );
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(failure) => return Err(classify_failure(log.handle_failure(failure).await)),
        };
        for reply in &answer.replies {
            log.write(&request, reply, true)
                .await
                .map_err(BatchError::Provider)?;
        }
        let summaries = (1..=batch.len()).map(|number| answer.value.summary_for(number));
        let replies = summaries.map(|summary| match summary {
            Some(summary) => BatchReply::Summary(summary.into()),
            None => BatchReply::AskAlone,
        });
        Ok(replies.collect())
    }
}

enum BatchError {
    // Caused by these sections, or by one of them.
    Items,
    // Affects all calls.
    Provider(Failure),
}

fn classify_failure(failure: Failure) -> BatchError {
    match failure.code.as_str() {
        "model.refused"
        | "model.request_too_large"
        | "model.reply_unreadable"
        | "model.reply_cut_off"
        | "model.context_exceeded" => BatchError::Items,
        _ => BatchError::Provider(failure),
    }
}

// The receiver is gone if the task was cancelled.
fn send_reply((item, reply): (SectionRequest, BatchReply)) {
    drop(item.reply_sender.send(reply));
}

#[cfg(test)]
mod tests;
