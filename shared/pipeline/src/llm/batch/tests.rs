use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::DocumentVersion;
use stemma_engine::Ports;
use stemma_extract::{ExtractError, ExtractJob, Extractor};
use stemma_llm::client::ModelClientSettings;
use stemma_llm::request::{FinishReason, Llm, LlmError, LlmReply, TokenUsage};
use stemma_store::{RunRef, TaskKey};

use super::*;
use crate::WorkerDeps;
use crate::settings::{ModelSettings, Purpose, RunSettings};
use crate::sources::SourceStore;

// Replies after a second with the number of sections in the call. The model thinks too long about more than so many.
struct BatchRecorder(Mutex<Vec<usize>>, usize);

#[async_trait]
impl Llm for BatchRecorder {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let sections = request.user.matches("Section ").count();
        self.0.lock().push(sections);
        if sections > self.1 {
            return Ok(LlmReply {
                finish: FinishReason::Length,
                has_thought: true,
                ..LlmReply::new("", TokenUsage::default())
            });
        }
        let one = |number| serde_json::json!({ "section": number, "summary": format!("one of {sections}") });
        let text = serde_json::json!({ "summaries": (1..=sections).map(one).collect::<Vec<_>>() })
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
    urgency: 6,
};

struct BatchFixture {
    ports: Ports,
    tools: WorkerDeps,
    settings: RunSettings,
    recorder: Arc<BatchRecorder>,
}

impl BatchFixture {
    fn new() -> Self {
        Self::with_replies_up_to(MAX_ITEMS)
    }

    fn with_replies_up_to(sections: usize) -> Self {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let recorder = Arc::new(BatchRecorder(Mutex::default(), sections));
        let settings = ModelClientSettings::unlimited("m", "h");
        let client = ModelClient::new(
            env,
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
            ports,
            tools,
            settings: RunSettings {
                model,
                ..RunSettings::default()
            },
            recorder,
        }
    }

    // A section of about `tokens` in the document `run`.
    async fn section(
        &self,
        run: &str,
        priority: Priority,
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
            ports,
            tools,
            settings,
            ..
        } = self;
        let task = FilingTask {
            run: &run,
            key,
            message: &Bytes::new(),
            priority,
            attempt: 1,
            began_ms: ports.env.now_ms(),
            settings,
            tools,
            ports,
        };
        let expected = tools.batcher.expect_item(&task);
        ports
            .env
            .sleep(Duration::from_millis(u64::from(place)))
            .await;
        tools
            .batcher
            .summarize(&task, expected, &QUESTION, place, "word ".repeat(tokens))
            .await
            .unwrap()
    }

    fn recorder(&self) -> Vec<usize> {
        let mut sizes = self.recorder.0.lock().clone();
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
        fixture.tools.batcher.0.lock().is_empty(),
        "nothing is left behind"
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_reply_is_cut_off_is_halved() {
    let fixture = BatchFixture::with_replies_up_to(4);
    let all = (0..8).map(|place| fixture.section("a", Priority::Bulk, place, 10));
    let summaries = futures::future::join_all(all).await;
    assert_eq!(summaries, vec![Some("one of 4".to_owned()); 8]);
    assert_eq!(fixture.recorder(), [4, 4, 8, 8], "once with more room");
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
    assert!(fixture.tools.batcher.0.lock().is_empty());
}
