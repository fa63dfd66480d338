//! The one way in which questions of people ask a model.
//!
//! ```text
//! Asker (one per process and collection)  ──begin(budget)──▶  Consultation (one per question)  ──ask──▶  a typed answer
//!   gate · call log · remembered replies                        account of calls and tokens             or an AskError
//! ```
//!
//! Everything a document or another model wrote goes into [`Prompt::with_block`]: it is fenced, and the model is told that what
//! stands there is data. A reply is typed and checked; the caller sees a value or one of four reasons why there is none, and
//! goes on without the model, saying so.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use stemma_document::{Collection, blob_keys};
use stemma_engine::blobs::Blobs;
use stemma_engine::jobs::SpendAmount;
use stemma_engine::{Env, Failure, FailureKind, Priority, RunId, TaskKey};
use stemma_llm::calls::CallRecord;
use stemma_llm::client::{ModelClient, ReplyStats};
use stemma_llm::prices::CallBudget;
use stemma_llm::request::{LlmRequest, OutputSchema, TokenUsage};
use stemma_llm::structured::{CallLog, complete_structured};
use stemma_llm::untrusted::{DATA_ONLY, delimit};
use tokio::sync::watch;

use super::budget::{BUDGET_EXHAUSTED, QuestionBudget, SessionBudget, SessionUsage};
use super::response_cache::ResponseCache;
use stemma_retrieval::usage::{CallStore, CallUsage};

/// How often a call that came to no reply is made again.
const MAX_RETRIES: u32 = 3;
/// The pause before the second try, in milliseconds; twice as long before the third.
const RETRY_DELAY_MS: u64 = 400;

/// What is not waited for where a person waits: someone has to mend it, or the breaker says that the provider is gone.
const UNRETRYABLE_CODES: [&str; 5] = [
    "model.configuration",
    "model.breaker_open",
    "model.unreachable",
    "model.timeout",
    "model.server_error",
];

/// How a model is asked on behalf of a person; configuration of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LlmClientSettings {
    /// Tokens of a prompt at most.
    pub max_prompt_tokens: u32,
    /// Tokens of a reply at most, where a prompt does not say.
    pub max_output_tokens: u32,
    /// How long one call may take with all its tries and waiting, in seconds: a person waits.
    pub patience_seconds: u64,
}

impl Default for LlmClientSettings {
    fn default() -> Self {
        Self {
            max_prompt_tokens: 110_000,
            max_output_tokens: 2_000,
            patience_seconds: 60,
        }
    }
}

/// The way to the model for questions about one collection. One per process and collection, shared by all questions.
pub struct LlmClient {
    env: Env,
    model_client: Arc<ModelClient>,
    settings: LlmClientSettings,
    response_cache: ResponseCache,
    in_flight: InFlightRequests,
}

impl LlmClient {
    /// An asker that remembers in memory alone and keeps no call log: for tests, and for stores that may not be written.
    pub fn new(env: Env, model_client: Arc<ModelClient>, settings: LlmClientSettings) -> Self {
        let response_cache = ResponseCache::new(&env, None);
        Self {
            env,
            model_client: model_client,
            settings,
            response_cache,
            in_flight: InFlightRequests::default(),
        }
    }

    /// The same with the call log of a collection, and with the replies it remembers.
    #[must_use]
    pub fn with_store(self, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = blob_keys::collection_prefix(collection);
        let call_store = CallStore::new(blobs, prefix.trim_end_matches('/').to_owned());
        Self {
            response_cache: ResponseCache::new(&self.env, Some(call_store)),
            ..self
        }
    }

    /// The model that is asked.
    pub fn model(&self) -> &str {
        self.model_client.model()
    }

    /// The configuration.
    pub fn settings(&self) -> LlmClientSettings {
        self.settings
    }

    /// The world it runs in.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Whether it is known what a call costs: without that no budget in money can be kept.
    pub fn has_prices(&self) -> bool {
        self.model_client
            .cost(TokenUsage::default())
            .nanodollars
            .is_some()
    }

    /// A name for a question that no other has: `{kind}-` and sixteen hexadecimal digits.
    pub fn new_run_id(&self, kind: &str) -> RunId {
        RunId(format!("{kind}-{:016x}", self.env.random()))
    }

    /// Begins to ask for the question `id`, which stands in the call log as the run that asked: never the name of a
    /// document's run.
    pub fn start_session(self: &Arc<Self>, id: RunId, budget: QuestionBudget) -> LlmSession {
        LlmSession {
            client: Arc::clone(self),
            id,
            account: Arc::new(SessionBudget::new(budget)),
        }
    }
}

/// All that a model is asked for one question. Clones share its budget.
#[derive(Clone)]
pub struct LlmSession {
    client: Arc<LlmClient>,
    id: RunId,
    account: Arc<SessionBudget>,
}

/// What a model is told and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    system: String,
    blocks: Vec<(String, String)>,
    schema: OutputSchema,
    max_output_tokens: Option<u32>,
}

impl Prompt {
    /// A prompt with instructions, which are ours and hold nothing of anyone else's, and the shape of the answer; the name of
    /// the shape is that of the stage in the call log.
    pub fn new(system: impl Into<String>, schema: OutputSchema) -> Self {
        Self {
            system: system.into(),
            blocks: Vec::new(),
            schema,
            max_output_tokens: None,
        }
    }

    /// Adds a text under a name (`Question`, `Section 3`): fenced, as data.
    #[must_use]
    pub fn with_block(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.blocks.push((name.into(), text.into()));
        self
    }

    /// Allows a longer or shorter reply than usual, in tokens.
    #[must_use]
    pub fn with_max_output_tokens(self, tokens: u32) -> Self {
        Self {
            max_output_tokens: Some(tokens),
            ..self
        }
    }

    fn request(&self, client: &LlmClient) -> LlmRequest {
        let blocks: Vec<String> = self
            .blocks
            .iter()
            .map(|(name, text)| delimit(name, text))
            .collect();
        LlmRequest {
            model: client.model_client.model().into(),
            system: format!("{}\n\n{DATA_ONLY}", self.system),
            user: blocks.join("\n\n"),
            schema: self.schema.clone(),
            max_output_tokens: self
                .max_output_tokens
                .unwrap_or(client.settings.max_output_tokens),
            follow_up: None,
            urgency: 0,
        }
    }
}

/// Why there is no answer. Every caller goes on without it, and says which of these it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The question has used up what it may cost.
    #[error("{message}")]
    BudgetExhausted {
        /// Which part of it.
        message: String,
    },
    /// The model did not reply: away, throttled beyond patience, or it serves no one.
    #[error("the model is away: {} ({})", .0.message, .0.code)]
    Unavailable(Failure),
    /// The model replied, and nothing could be made of it, or it refused.
    #[error("the model's replies cannot be used: {} ({})", .0.message, .0.code)]
    Unusable(Failure),
    /// The prompt is larger than prompts may be: nothing was asked.
    #[error("{stage} would read {tokens} tokens at once, more than {most}")]
    TooLong {
        /// Who would ask.
        stage: &'static str,
        /// Tokens of the prompt.
        tokens: u32,
        /// Tokens of a prompt at most.
        most: u32,
    },
}

impl SessionError {
    /// The codes of what a question may not ask for any more.
    pub const LIMITS: [&str; 2] = ["budget.used_up", "prompt.too_long"];
    /// All codes.
    pub const CODES: [&str; 4] = [
        Self::LIMITS[0],
        Self::LIMITS[1],
        "model.away",
        "model.unusable",
    ];

    /// A stable code: `budget.used_up`, `model.away`, `model.unusable`, `prompt.too_long`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BudgetExhausted { .. } => Self::CODES[0],
            Self::TooLong { .. } => Self::CODES[1],
            Self::Unavailable(_) => Self::CODES[2],
            Self::Unusable(_) => Self::CODES[3],
        }
    }

    fn from_failure(failure: Failure) -> Self {
        match failure.code.as_str() {
            BUDGET_EXHAUSTED => Self::BudgetExhausted {
                message: failure.message,
            },
            "model.reply_unreadable" | "model.refused" => Self::Unusable(failure),
            _ => Self::Unavailable(failure),
        }
    }
}

impl LlmSession {
    /// The question, as the call log names it.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// What it came to so far.
    pub fn usage(&self) -> SessionUsage {
        self.account.usage()
    }

    /// What it may cost.
    pub fn budget(&self) -> QuestionBudget {
        self.account.budget()
    }

    /// Charges what a search had to pay for this question.
    pub(crate) fn charge(&self, usage: CallUsage) {
        self.account.charge(usage);
    }

    /// The way to the model.
    pub fn client(&self) -> &Arc<LlmClient> {
        &self.client
    }

    /// Tokens of a prompt.
    pub fn tokens(&self, prompt: &Prompt) -> u32 {
        prompt.request(&self.client).prompt_tokens()
    }

    /// Calls that the budget still allows.
    pub fn calls_left(&self) -> u32 {
        self.budget().calls.saturating_sub(self.usage().calls)
    }

    /// Whether the budget has room for a further call whose prompt has so many tokens.
    pub fn can_afford(&self, prompt_tokens: u32) -> bool {
        self.account.can_afford(
            u64::from(prompt_tokens) + u64::from(self.client.settings.max_output_tokens),
        )
    }

    /// Asks until a reply is an answer that `check` lets pass; the words of its error are shown to the model. What was
    /// answered before, to anyone who asked the same of this collection, is taken from there and costs nothing; so is what
    /// this process is asking for already.
    ///
    /// # Errors
    /// [`SessionError`]: the caller degrades and says so.
    pub async fn complete<T: DeserializeOwned, U>(
        &self,
        prompt: &Prompt,
        check: impl Fn(T) -> Result<U, String>,
    ) -> Result<U, SessionError> {
        let request = prompt.request(&self.client);
        let digest = request.digest();
        // Who asks the same meanwhile waits for that reply; where none came, each asks for itself.
        let _in_flight = self.client.in_flight.acquire(&digest).await;
        if let Some(reply) = self.client.response_cache.get(&digest).await
            && let Ok(cached) = T::deserialize(reply.as_ref())
            && let Ok(answer) = check(cached)
        {
            self.account.record_cached_reply();
            return Ok(answer);
        }
        let stage = request.schema.name;
        let tokens = request.prompt_tokens();
        let most = self.client.settings.max_prompt_tokens;
        if tokens > most {
            return Err(SessionError::TooLong {
                stage,
                tokens,
                most,
            });
        }
        let patience = Duration::from_secs(self.client.settings.patience_seconds.max(1));
        let result = tokio::time::timeout(
            patience,
            self.complete_with_retry(&request, &digest, &check),
        )
        .await;
        let late = || {
            Failure::transient(
                "model.task_timeout",
                format!("{stage} took longer than {patience:?}"),
            )
        };
        let (raw, answer) = result
            .unwrap_or_else(|_| Err(late()))
            .map_err(SessionError::from_failure)?;
        self.client.response_cache.put(&digest, raw).await;
        Ok(answer)
    }

    /// Asks again where there was no reply, for as long as that may help.
    async fn complete_with_retry<T: DeserializeOwned, U>(
        &self,
        request: &LlmRequest,
        digest: &str,
        check: &impl Fn(T) -> Result<U, String>,
    ) -> Result<(Value, U), Failure> {
        let env = &self.client.env;
        let model_client = &self.client.model_client;
        let log = SessionLog {
            session: self,
            digest,
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match complete_structured(
                model_client,
                request,
                Priority::Interactive,
                &log,
                |parsed: ReplyWithJson<T>| Ok((parsed.json, check(parsed.value)?)),
            )
            .await
            {
                Ok(answer) => {
                    for reply in &answer.replies {
                        log.write_call(request, reply, true).await;
                    }
                    return Ok(answer.value);
                }
                Err(failure) => failure,
            };
            let pause_ms = match failure.kind {
                _ if UNRETRYABLE_CODES.contains(&failure.code.as_str())
                    && is_throttled(&failure) =>
                {
                    return Err(failure);
                }
                FailureKind::Throttled { after_ms } => after_ms.max(1),
                FailureKind::Transient if tries < MAX_RETRIES => RETRY_DELAY_MS << (tries - 1),
                _ => return Err(failure),
            };
            if pause_ms >= 1_000 * self.client.settings.patience_seconds {
                return Err(failure);
            }
            env.sleep(Duration::from_millis(pause_ms)).await;
        }
    }
}

/// Requests that are being asked for, by their digests: the same is not paid for twice because two ask at once.
#[derive(Default)]
struct InFlightRequests(Mutex<HashMap<String, watch::Sender<()>>>);

/// A request that is being asked for; it ends when this is dropped, however that comes about.
struct RequestGuard<'a> {
    requests: &'a InFlightRequests,
    digest: String,
}

impl InFlightRequests {
    /// Begins to ask. `None`: someone else did, and has ended by now; what came of it is in memory, or nothing came.
    async fn acquire(&self, digest: &str) -> Option<RequestGuard<'_>> {
        let mut other = match lock(&self.0).entry(digest.to_owned()) {
            Entry::Occupied(other) => other.get().subscribe(),
            Entry::Vacant(free) => {
                free.insert(watch::Sender::new(()));
                return Some(RequestGuard {
                    requests: self,
                    digest: digest.to_owned(),
                });
            }
        };
        // Nothing is ever sent: it ends when the sender is dropped.
        while other.changed().await.is_ok() {}
        None
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        lock(&self.requests.0).remove(&self.digest);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_throttled(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Throttled { .. })
}

/// A reply as it came, beside what it says.
struct ReplyWithJson<T> {
    json: Value,
    value: T,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ReplyWithJson<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let value = T::deserialize(&raw).map_err(D::Error::custom)?;
        Ok(Self { json: raw, value })
    }
}

/// The call log of a question, and its purse.
struct SessionLog<'a> {
    session: &'a LlmSession,
    digest: &'a str,
}

impl SessionLog<'_> {
    /// Writes the line of a reply; where the log cannot be written the person is answered all the same.
    async fn write_call(&self, request: &LlmRequest, reply: &ReplyStats, useful: bool) {
        let LlmSession {
            client,
            id,
            account,
        } = self.session;
        account.record_reply(reply.usage, client.model_client.cost(reply.usage));
        let Some(call_store) = client.response_cache.call_store() else {
            return;
        };
        let record = CallRecord {
            at_ms: reply.at_ms,
            run: id.clone(),
            task: self
                .digest
                .parse()
                .unwrap_or_else(|_| TaskKey::builder(request.schema.name, 1).finish()),
            stage: request.schema.name.into(),
            attempt: 1,
            request: self.digest.into(),
            model: request.model.clone(),
            usage: reply.usage,
            took_ms: reply.took_ms,
            useful,
            jobs: Vec::new(),
        };
        call_store.log_call(&client.env, &record).await;
    }
}

#[async_trait]
impl CallBudget for SessionLog<'_> {
    async fn reserve(&self, most: SpendAmount) -> Result<(), Failure> {
        self.session.account.reserve(most).await
    }

    async fn settle(&self, most: SpendAmount, used: SpendAmount) {
        self.session.account.settle(most, used);
    }
}

#[async_trait]
impl CallLog for SessionLog<'_> {
    async fn record_rejected(
        &self,
        request: &LlmRequest,
        reply: &ReplyStats,
    ) -> Result<(), Failure> {
        self.write_call(request, reply, false).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stemma_engine::blobs::MemoryBlobs;
    use stemma_llm::calls;

    use super::*;
    use crate::tree_search::scripted::ScriptedModel;

    #[derive(Debug, Deserialize)]
    struct TitleAnswer {
        title: String,
    }

    fn prompt(text: &str) -> Prompt {
        Prompt::new(
            "Say the title.",
            OutputSchema::strict("tell", &json!({ "title": { "type": "string" } })),
        )
        .with_block("Text", text)
    }

    async fn ask(session: &LlmSession, text: &str) -> Result<String, SessionError> {
        session
            .complete(&prompt(text), |reply: TitleAnswer| {
                if reply.title.is_empty() {
                    Err("it is empty".into())
                } else {
                    Ok(reply.title)
                }
            })
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn identical_prompts_are_sent_once_per_store() {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let client = || {
            let (script, client) = ScriptedModel::with_replies(&[r#"{"title":"A"}"#]);
            (
                script,
                Arc::new(client.with_store(Arc::clone(&blobs), &Collection::default())),
            )
        };
        let (script, first) = client();
        let session = first.start_session(RunId("a-1".into()), QuestionBudget::default());
        assert_eq!(ask(&session, "x").await, Ok("A".into()));
        assert_eq!(ask(&session, "x").await, Ok("A".into()));
        assert_eq!(
            (
                script.requests().len(),
                session.usage().calls,
                session.usage().cached_replies
            ),
            (1, 1, 1)
        );
        assert!(
            script.requests()[0].system.ends_with(DATA_ONLY)
                && script.requests()[0].user.starts_with("Text:\n[")
        );
        // Another process.
        let (script, second) = client();
        let session = second.start_session(
            RunId("a-2".into()),
            QuestionBudget {
                calls: 0,
                tokens: 0,
                nanodollars: None,
            },
        );
        assert_eq!(ask(&session, "x").await, Ok("A".into()));
        assert_eq!(
            (script.requests().len(), session.usage().cached_replies),
            (0, 1)
        );
        assert!(matches!(
            ask(&session, "y").await,
            Err(SessionError::BudgetExhausted { .. })
        ));
        let mut log = Vec::new();
        calls::read(blobs.as_ref(), "c/default", 0, |record| log.push(record))
            .await
            .unwrap();
        assert_eq!(log.len(), 1);
        assert_eq!(
            (log[0].run.0.as_str(), log[0].stage.as_str(), log[0].useful),
            ("a-1", "tell", true)
        );
    }

    #[tokio::test]
    async fn identical_concurrent_requests_wait_for_the_first() {
        let asking = InFlightRequests::default();
        let first = asking.acquire("x").await;
        assert!(
            first.is_some() && asking.acquire("y").await.is_some(),
            "others do not wait"
        );
        let mut second = std::pin::pin!(asking.acquire("x"));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first); // as where its asker went away
        assert!(second.await.is_none() && asking.acquire("x").await.is_some());
        assert!(lock(&asking.0).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn session_errors_have_stable_codes() {
        let (_, client) = ScriptedModel::with_replies(&[]);
        let session = Arc::new(client).start_session(RunId("a".into()), QuestionBudget::default());
        assert!(matches!(
            ask(&session, "x").await,
            Err(SessionError::Unavailable(_))
        ));
        let (script, client) = ScriptedModel::new(|_| Ok(json!({ "title": "" })));
        let client = Arc::new(client);
        let session = client.start_session(RunId("a".into()), QuestionBudget::default());
        assert!(matches!(
            ask(&session, "x").await,
            Err(SessionError::Unusable(_))
        ));
        assert_eq!(
            (script.requests().len(), session.usage().calls),
            (3, 3),
            "asked again, and paid for"
        );
        let session = client.start_session(
            RunId("a".into()),
            QuestionBudget {
                calls: 2,
                tokens: 100_000,
                nanodollars: None,
            },
        );
        assert!(matches!(
            ask(&session, "x").await,
            Err(SessionError::BudgetExhausted { .. })
        ));
        assert!(matches!(
            ask(&session, &"word ".repeat(200_000)).await,
            Err(SessionError::TooLong { .. })
        ));
        assert_eq!((script.requests().len(), session.usage().calls), (5, 2));
    }
}
