//! Packs: sections of one document travel to their model together (architecture §4 rule 9).
//!
//! A pack is transport and nothing else: each section keeps its key, its answer and its failure. Sections of one run
//! that are asked about at the same time share calls of at most [`MAX_ITEMS`] sections and [`MAX_TOKENS`] tokens; whoever is left
//! without a sound answer asks again alone. A pack is under way by itself, so that a task that is cut off holds up no
//! other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use stemma_engine::stage::TaskContext;
use stemma_engine::{Env, Failure, Priority, RunId};
use stemma_llm::client::ModelClient;
use stemma_llm::request::LlmRequest;
use stemma_llm::structured::complete_structured;
use stemma_llm::tokens;
use stemma_llm::untrusted::delimit;
use tokio::sync::oneshot;

use super::LlmQuestion;
use super::call_log::TaskCallLog;
use super::summaries::PROMPT_OVERHEAD_TOKENS;
use crate::FilingFlow;

/// Sections in one call at most.
const MAX_ITEMS: usize = 8;
/// Tokens of their blocks at most; a section that has more travels alone.
const MAX_TOKENS: u32 = 8_000;
/// Tokens from which on a pack is full: hardly a section is so small that it would still find room.
const FULL_TOKENS: u32 = 7_600;
/// How long a pack waits for others, counted from the last that came.
const FLUSH_DELAY: Duration = Duration::from_millis(80);
/// How many times as long it waits for those that were announced.
const MAX_FLUSH_DELAYS: u32 = 50;

/// Sections that may travel together: those of one run for which someone waits alike. Nothing of one document is ever
/// shown beside another.
type BatchKey = (RunId, Priority);

/// The packs that are being filled. One per worker.
#[derive(Clone, Default)]
pub struct Batcher(Arc<Mutex<HashMap<BatchKey, BatchQueue>>>);

/// The packs of one kind.
#[derive(Default)]
struct BatchQueue {
    /// Tasks that were announced and have not come yet.
    expected: usize,
    batches: Vec<Vec<BatchItem>>,
    /// How many came, ever.
    arrivals: u64,
    /// Whether someone waits for the packs to fill.
    has_flusher: bool,
}

/// A section in a pack.
struct BatchItem {
    /// Its place in the document.
    position: u32,
    block: String,
    tokens: u32,
    reply_sender: oneshot::Sender<BatchReply>,
}

/// What a section in a pack is told.
enum BatchReply {
    Summary(String),
    /// Nothing sound: it asks again alone.
    AskAlone,
    Failed(Failure),
}

/// Answers to a pack, and to one section alone.
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
    /// What was written about section `number` (from 1); nothing, where that is not one thing.
    pub(crate) fn summary_for(&self, number: usize) -> Option<&str> {
        let mut lines = self
            .summaries
            .iter()
            .filter(|line| line.section as usize == number);
        let line = lines.next()?;
        lines
            .all(|other| other.summary == line.summary)
            .then_some(line.summary.as_str())
    }
}

/// What one call is made with; it borrows nothing of a task.
#[derive(Clone)]
struct BatchCall {
    env: Env,
    client: Arc<ModelClient>,
    /// The question, about nothing yet.
    template: LlmRequest,
    class: Priority,
    /// Tokens that its pack may have.
    token_limit: u32,
    log: TaskCallLog,
}

/// A task that will come; it has gone when this is dropped.
pub(crate) struct ExpectedItem {
    batcher: Batcher,
    key: BatchKey,
}

impl Drop for ExpectedItem {
    fn drop(&mut self) {
        let mut all = self.batcher.lock();
        if let Some(queue) = all.get_mut(&self.key) {
            queue.expected -= 1;
            if queue.expected == 0 && !queue.has_flusher {
                all.remove(&self.key);
            }
        }
    }
}

/// What stands before a model for `blocks`.
pub(crate) fn delimit_sections<'a>(blocks: impl Iterator<Item = &'a str>) -> String {
    let fenced: Vec<_> = blocks
        .enumerate()
        .map(|(at, text)| delimit(&format!("Section {}", at + 1), text))
        .collect();
    fenced.join("\n\n")
}

impl Batcher {
    /// Says that a task will ask soon: packs wait for it a little.
    pub(crate) fn expect_item(&self, task: &TaskContext<'_, FilingFlow>) -> ExpectedItem {
        let key = (task.run.run.clone(), task.class);
        self.lock().entry(key.clone()).or_default().expected += 1;
        ExpectedItem {
            batcher: self.clone(),
            key,
        }
    }

    /// Asks `template` about `block`, the section at `position`, together with others; `None` where it is to be asked alone:
    /// it is too large, or there was no sound answer.
    ///
    /// # Errors
    /// What the call of its pack came to.
    pub(crate) async fn summarize(
        &self,
        task: &TaskContext<'_, FilingFlow>,
        announced: ExpectedItem,
        question: &LlmQuestion,
        position: u32,
        block: String,
    ) -> Result<Option<String>, Failure> {
        let (model, client) = question.model_client(task)?;
        let tokens = tokens::count(&block);
        let token_limit = MAX_TOKENS.min(
            model
                .max_prompt_tokens_for(question.purpose)
                .saturating_sub(PROMPT_OVERHEAD_TOKENS),
        );
        if tokens > token_limit {
            return Ok(None);
        }
        let env = task.env.clone();
        let client = Arc::clone(client);
        let log = TaskCallLog::for_task(task, question.stage);
        let question = question.build_request(task.settings, model, String::new());
        let call = BatchCall {
            env,
            client,
            template: question,
            class: task.class,
            token_limit,
            log,
        };
        let (reply_sender, answer) = oneshot::channel();
        self.push(
            &announced.key,
            BatchItem {
                position,
                block,
                tokens,
                reply_sender,
            },
            &call,
        );
        drop(announced);
        match answer.await {
            Ok(BatchReply::Summary(summary)) => Ok(Some(summary)),
            Ok(BatchReply::AskAlone) => Ok(None),
            Ok(BatchReply::Failed(failure)) => Err(failure),
            Err(_) => Err(Failure::transient(
                "engine.panic",
                "the call of a pack ended without a word",
            )),
        }
    }

    /// Puts a section into the fullest pack that has room for it.
    fn push(&self, key: &BatchKey, item: BatchItem, call: &BatchCall) {
        let mut all = self.lock();
        let Some(queue) = all.get_mut(key) else {
            return;
        };
        queue.arrivals += 1;
        match queue
            .batches
            .iter_mut()
            .filter(|batch: &&mut Vec<BatchItem>| {
                batch.len() < MAX_ITEMS && total_tokens(batch) + item.tokens <= call.token_limit
            })
            .max_by_key(|batch| total_tokens(batch))
        {
            Some(batch) => batch.push(item),
            None => queue.batches.push(vec![item]),
        }
        for batch in queue.batches.extract_if(.., |batch: &mut Vec<BatchItem>| {
            batch.len() == MAX_ITEMS || total_tokens(batch) >= FULL_TOKENS.min(call.token_limit)
        }) {
            call.env.spawn(call.clone().send(batch));
        }
        if !queue.batches.is_empty() && !queue.has_flusher {
            queue.has_flusher = true;
            call.env
                .spawn(self.clone().flush_when_idle(key.clone(), call.clone()));
        }
    }

    /// Sends the packs of a kind on their way when no one comes any more.
    async fn flush_when_idle(self, key: BatchKey, call: BatchCall) {
        let mut arrivals = 0;
        for _ in 0..MAX_FLUSH_DELAYS {
            call.env.sleep(FLUSH_DELAY).await;
            let all = self.lock();
            let Some(queue) = all.get(&key) else {
                return;
            };
            if queue.expected == 0 && queue.arrivals == arrivals {
                break;
            }
            arrivals = queue.arrivals;
        }
        let batches = {
            let mut all = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, HashMap<BatchKey, BatchQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn total_tokens(batch: &[BatchItem]) -> u32 {
    batch.iter().map(|item| item.tokens).sum()
}

impl BatchCall {
    /// Asks about a pack, and about its halves where the pack as a whole gets no answer.
    async fn send(self, batch: Vec<BatchItem>) {
        let mut batches = vec![batch];
        while let Some(mut batch) = batches.pop() {
            // In the order of the document, whoever came first; those that were cut off no one waits for.
            batch.retain(|item| !item.reply_sender.is_closed());
            batch.sort_by_key(|item| item.position);
            match self.call(&batch).await {
                Ok(replies) => batch.into_iter().zip(replies).for_each(send_reply),
                Err(BatchError::Items) => {
                    let other = batch.split_off(batch.len() / 2);
                    batches.extend([other, batch]);
                }
                Err(BatchError::Provider(failure)) => {
                    batch
                        .into_iter()
                        .for_each(|item| send_reply((item, BatchReply::Failed(failure.clone()))));
                }
            }
        }
    }

    /// One call: what each section of the pack is told.
    async fn call(&self, batch: &[BatchItem]) -> Result<Vec<BatchReply>, BatchError> {
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
        let answer = match complete_structured(
            &self.client,
            &request,
            self.class,
            &self.log,
            |written: SummaryBatch| match (1..=batch.len())
                .any(|number| written.summary_for(number).is_some())
            {
                true => Ok(written),
                false => Err("it holds no summary of any of the sections".into()),
            },
        )
        .await
        {
            Ok(answer) => answer,
            Err(failure) => return Err(classify_failure(self.log.handle_failure(failure).await)),
        };
        for reply in &answer.replies {
            self.log
                .write(&request, reply, true)
                .await
                .map_err(BatchError::Provider)?;
        }
        let summaries: Vec<_> = (1..=batch.len())
            .map(|number| answer.value.summary_for(number))
            .collect();
        Ok(summaries
            .into_iter()
            .map(|summary: Option<&str>| {
                summary.map_or(BatchReply::AskAlone, |summary| {
                    BatchReply::Summary(summary.into())
                })
            })
            .collect())
    }
}

/// Why a pack has no answer.
enum BatchError {
    /// Something about these sections together, or about one of them.
    Items,
    /// Something that holds for all calls.
    Provider(Failure),
}

fn classify_failure(failure: Failure) -> BatchError {
    match failure.code.as_str() {
        "model.refused" | "model.request_too_large" | "model.reply_unreadable" => BatchError::Items,
        _ => BatchError::Provider(failure),
    }
}

/// A task that was cut off hears nothing any more.
fn send_reply((item, reply): (BatchItem, BatchReply)) {
    drop(item.reply_sender.send(reply));
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bytes::Bytes;
    use stemma_document::DocumentVersion;
    use stemma_engine::{Ports, RunRef, TaskKey};
    use stemma_extract::{ExtractError, ExtractJob, Extractor};
    use stemma_llm::client::ModelClientSettings;
    use stemma_llm::request::{Llm, LlmError, LlmReply, TokenUsage};

    use super::*;
    use crate::WorkerDeps;
    use crate::settings::{ModelSettings, Purpose, RunSettings};
    use crate::sources::SourceStore;

    /// Says of each section how many it saw beside it, after a second.
    #[derive(Default)]
    struct BatchRecorder(Mutex<Vec<usize>>);

    #[async_trait]
    impl Llm for BatchRecorder {
        async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let sections = request.user.matches("Section ").count();
            self.0.lock().unwrap().push(sections);
            let one = |number| serde_json::json!({ "section": number, "summary": format!("one of {sections}") });
            let text =
                serde_json::json!({ "summaries": (1..=sections).map(one).collect::<Vec<_>>() })
                    .to_string();
            Ok(LlmReply::new(text, TokenUsage::default()))
        }
    }

    struct EmptyDeps;

    #[async_trait]
    impl SourceStore for EmptyDeps {
        async fn read(&self, _: &DocumentVersion, _: u64) -> Result<Bytes, Failure> {
            Ok(Bytes::new())
        }
    }

    #[async_trait]
    impl Extractor for EmptyDeps {
        async fn extract(&self, _: ExtractJob) -> Result<Vec<u8>, ExtractError> {
            Ok(Vec::new())
        }
    }

    static QUESTION: LlmQuestion = LlmQuestion {
        stage: "summarize",
        purpose: Purpose::Summaries,
        instructions: "Summarize.",
        properties: || serde_json::json!({}),
        max_tokens: |model| model.max_output_tokens,
    };

    /// A worker and what its model saw.
    struct BatchFixture {
        env: Env,
        ports: Ports,
        tools: WorkerDeps,
        settings: RunSettings,
        recorder: Arc<BatchRecorder>,
    }

    impl BatchFixture {
        fn new() -> Self {
            let env = Env::simulated(1);
            let ports = Ports::memory();
            let recorder = Arc::new(BatchRecorder::default());
            let settings = ModelClientSettings::unlimited("m", "h");
            let client = ModelClient::new(
                env.clone(),
                Arc::clone(&ports.limiter),
                Arc::<BatchRecorder>::clone(&recorder),
                settings,
            );
            let tools = WorkerDeps::new(Arc::new(EmptyDeps), Arc::new(EmptyDeps))
                .with_models([Arc::new(client)]);
            let model = Some(ModelSettings {
                name: "m".into(),
                ..ModelSettings::default()
            });
            Self {
                env,
                ports,
                tools,
                settings: RunSettings {
                    model,
                    ..RunSettings::default()
                },
                recorder: recorder,
            }
        }

        /// A section of about `tokens` in the document `run`.
        async fn section(
            &self,
            run: &str,
            class: Priority,
            place: u32,
            tokens: usize,
        ) -> Option<String> {
            let run = RunRef {
                run: RunId(run.into()),
                header: "c/a/d/b/versions/1".into(),
                scope: "c/a/d/b".into(),
            };
            let key = TaskKey::builder("t", place).finish();
            let Self {
                env,
                ports,
                tools,
                settings,
                ..
            } = self;
            let task = TaskContext {
                run: &run,
                key,
                class,
                attempt: 1,
                settings,
                tools,
                ports,
                env,
            };
            let announced = tools.batcher.expect_item(&task);
            env.sleep(Duration::from_millis(u64::from(place))).await;
            tools
                .batcher
                .summarize(&task, announced, &QUESTION, place, "word ".repeat(tokens))
                .await
                .unwrap()
        }

        fn recorder(&self) -> Vec<usize> {
            let mut sizes = self.recorder.0.lock().unwrap().clone();
            sizes.sort_unstable();
            sizes
        }
    }

    #[tokio::test(start_paused = true)]
    async fn batches_hold_eight_sections_of_one_run_and_class() {
        let fixture = BatchFixture::new();
        let all = (0..20).map(|place| fixture.section("a", Priority::Bulk, place, 10));
        let (a, b, c) = tokio::join!(
            futures::future::join_all(all),
            fixture.section("b", Priority::Bulk, 0, 10),
            fixture.section("a", Priority::Interactive, 0, 10),
        );
        assert!(
            a.iter().all(Option::is_some) && b.is_none() && c.is_none(),
            "alone in their kind"
        );
        assert_eq!(fixture.recorder(), [4, 8, 8]);
        assert!(
            fixture.tools.batcher.lock().is_empty(),
            "nothing is left behind"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn batches_hold_eight_thousand_tokens() {
        let fixture = BatchFixture::new();
        let sizes = [5_000, 9_000, 4_000, 2_500, 3_500];
        let all = (0..)
            .zip(sizes)
            .map(|(place, size)| fixture.section("a", Priority::Bulk, place, size));
        let summaries = futures::future::join_all(all).await;
        assert_eq!(
            summaries.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, true, true, true]
        );
        assert_eq!(fixture.recorder(), [2, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_items_do_not_block_others() {
        let fixture = BatchFixture::new();
        let cut = |after| {
            tokio::time::timeout(
                Duration::from_millis(after),
                fixture.section("a", Priority::Bulk, 0, 10),
            )
        };
        let (first, early, late, last) = tokio::join!(
            fixture.section("a", Priority::Bulk, 1, 10),
            cut(10),
            cut(500),
            fixture.section("a", Priority::Bulk, 2, 10),
        );
        assert!(early.is_err() && late.is_err());
        assert_eq!(
            (first.as_deref(), last.as_deref()),
            (Some("one of 3"), Some("one of 3"))
        );
        assert!(fixture.tools.batcher.lock().is_empty());
    }
}
