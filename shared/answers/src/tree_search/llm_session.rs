//! LLM calls on behalf of questions.
//!
//! ```text
//! LlmClient (one per process and collection)  ──start_session(budget)──▶  LlmSession (one per question)  ──complete──▶  a typed reply
//!   model client · call log · response cache                                 account of calls and tokens               or a SessionError
//! ```
//!
//! Text written by documents or by a model goes into [`Prompt::with_block`]: it is delimited, and the model is told that it
//! is data. Replies are typed and validated. The caller gets a value or one of four errors, goes on without the model, and
//! says so.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use stemma_document::{Collection, blob_keys};
use stemma_llm::calls::CallRecord;
use stemma_llm::client::{ModelClient, ReplyStats};
use stemma_llm::prices::CallBudget;
use stemma_llm::request::{LlmRequest, TokenUsage};
use stemma_llm::structured::{CallLog, complete_structured};
use stemma_retrieval::usage::{CallAccount, CallStore, CallUsage};
use stemma_store::blobs::Blobs;
use stemma_store::spend::{CallReservation, SpendAmount};
use stemma_store::{Env, Failure, FailureKind, Priority, RunId, TaskKey};

use super::budget::{QuestionBudget, SessionBudget, SessionUsage};
use super::in_flight::InFlightRequests;
use super::prompt::Prompt;
use super::response_cache::ResponseCache;
use super::session_error::SessionError;

// Attempts of a call that got no reply.
const MAX_RETRIES: u32 = 3;
// Pause before the second attempt; twice as long before the third.
const RETRY_DELAY_MS: u64 = 400;

// Not retried while a person waits: either someone must fix it, or the circuit breaker says the provider is down.
const OUTAGE_CODES: [&str; 4] = [
    "model.configuration",
    "model.breaker_open",
    "model.unreachable",
    "model.server_error",
];

/// Limits of LLM calls for questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LlmClientSettings {
    /// Tokens of a prompt.
    pub max_prompt_tokens: u32,
    /// Tokens of a reply, when the prompt does not set its own limit.
    pub max_output_tokens: u32,
    /// Seconds for one call with all retries and waiting; at least what one call may take (`model.timeout_seconds`).
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

/// LLM client for questions about one collection. One per process and collection, shared by all questions.
pub struct LlmClient {
    env: Env,
    model_client: Arc<ModelClient>,
    settings: LlmClientSettings,
    response_cache: ResponseCache,
    in_flight: InFlightRequests,
}

impl LlmClient {
    /// A client with an in-memory cache and no call log: for tests, and for stores without write permission.
    pub fn new(env: Env, model_client: Arc<ModelClient>, settings: LlmClientSettings) -> Self {
        let response_cache = ResponseCache::new(&env, None);
        Self {
            env,
            model_client,
            settings,
            response_cache,
            in_flight: InFlightRequests::default(),
        }
    }

    /// Adds the call log and the cached replies of a collection.
    #[must_use]
    pub fn with_store(self, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = blob_keys::collection_prefix(collection);
        let call_store = CallStore::new(blobs, prefix.trim_end_matches('/').to_owned());
        Self {
            response_cache: ResponseCache::new(&self.env, Some(call_store)),
            ..self
        }
    }

    pub fn model(&self) -> &str {
        self.model_client.model()
    }

    pub fn settings(&self) -> LlmClientSettings {
        self.settings
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Whether the price of a call is known. A budget in money needs it.
    pub fn has_prices(&self) -> bool {
        self.model_client
            .cost(TokenUsage::default())
            .nanodollars
            .is_some()
    }

    /// A unique id for a question: `{kind}-` and 16 hexadecimal digits.
    pub fn new_run_id(&self, kind: &str) -> RunId {
        RunId(format!("{kind}-{:016x}", self.env.random()))
    }

    /// Starts a session. The call log lists its calls under the run `id`, which must not be the run of a document.
    pub fn start_session(self: &Arc<Self>, id: RunId, budget: QuestionBudget) -> LlmSession {
        LlmSession {
            client: Arc::clone(self),
            id,
            account: Arc::new(SessionBudget::new(budget)),
        }
    }
}

/// The LLM calls of one question. Clones share its budget.
#[derive(Clone)]
pub struct LlmSession {
    client: Arc<LlmClient>,
    id: RunId,
    account: Arc<SessionBudget>,
}

// Searches for a question are paid from its session.
impl CallAccount for LlmSession {
    fn run(&self) -> &RunId {
        &self.id
    }

    fn charge(&self, usage: CallUsage) {
        self.account.charge(usage);
    }
}

impl LlmSession {
    pub fn usage(&self) -> SessionUsage {
        self.account.usage()
    }

    pub fn budget(&self) -> QuestionBudget {
        self.account.budget()
    }

    pub fn client(&self) -> &Arc<LlmClient> {
        &self.client
    }

    /// The same session, with its budget, for another model.
    #[must_use]
    pub fn with_client(&self, client: &Arc<LlmClient>) -> Self {
        Self {
            client: Arc::clone(client),
            ..self.clone()
        }
    }

    fn request(&self, prompt: &Prompt) -> LlmRequest {
        prompt.request(self.client.model(), self.client.settings.max_output_tokens)
    }

    pub fn tokens(&self, prompt: &Prompt) -> u32 {
        self.request(prompt).prompt_tokens()
    }

    pub fn calls_left(&self) -> u32 {
        self.budget().calls.saturating_sub(self.usage().calls)
    }

    /// Whether the budget has room for one more call with a prompt of this size.
    pub fn can_afford(&self, prompt_tokens: u32) -> bool {
        self.account.can_afford(
            u64::from(prompt_tokens) + u64::from(self.client.settings.max_output_tokens),
        )
    }

    /// Calls the model until a reply passes `check`, whose errors are shown to the model. A cached reply to the same request costs
    /// nothing; an identical request in flight in this process is waited for.
    ///
    /// # Errors
    /// [`SessionError`]; the caller degrades and says so.
    pub async fn complete<T: DeserializeOwned, U>(
        &self,
        prompt: &Prompt,
        check: impl Fn(T) -> Result<U, String>,
    ) -> Result<U, SessionError> {
        let request = self.request(prompt);
        let digest = request.digest();
        // Identical requests wait for the first. When that one fails, each calls for itself.
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
        let (raw, answer) = result
            .unwrap_or_else(|_| {
                Err(Failure::transient(
                    "model.task_timeout",
                    format!("{stage} took longer than {} s", patience.as_secs()),
                )
                .with_next("raise model.timeout_seconds if the model is slow"))
            })
            .map_err(SessionError::from_failure)?;
        self.client.response_cache.put(&digest, raw).await;
        Ok(answer)
    }

    // Retries while a later reply is still useful to a waiting person.
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
            let code = failure.code.as_str();
            let pause_ms = match failure.kind {
                // A call that took too long would do so again.
                _ if matches!(code, "model.timeout" | "model.task_timeout") => return Err(failure),
                FailureKind::Throttled { .. } if OUTAGE_CODES.contains(&code) => {
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

// Writes the calls of a session to the call log, and reserves and settles its budget.
struct SessionLog<'a> {
    session: &'a LlmSession,
    digest: &'a str,
}

impl SessionLog<'_> {
    // A call log that cannot be written must not fail the question.
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
            batch: false,
        };
        call_store.log_call(&client.env, &record).await;
    }
}

#[async_trait]
impl CallBudget for SessionLog<'_> {
    async fn reserve(&self, call: &CallReservation) -> Result<(), Failure> {
        self.session.account.reserve(call.max).await
    }

    async fn settle(&self, call: &CallReservation, used: SpendAmount) {
        self.session.account.settle(call.max, used);
    }

    fn abandon(&self, call: &CallReservation) {
        self.session
            .account
            .settle(call.max, SpendAmount::default());
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
    use stemma_llm::request::OutputSchema;
    use stemma_llm::untrusted::DATA_ONLY;
    use stemma_store::blobs::{MemoryBlobs, get_json, list_all};

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
        assert_eq!(script.requests().len(), 1);
        assert_eq!(session.usage().calls, 1);
        assert_eq!(session.usage().cached_replies, 1);
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
        assert_eq!(script.requests().len(), 0);
        assert_eq!(session.usage().cached_replies, 1);
        assert!(matches!(
            ask(&session, "y").await,
            Err(SessionError::BudgetExhausted { .. })
        ));
        let mut log: Vec<CallRecord> = Vec::new();
        for key in list_all(blobs.as_ref(), "c/default/calls/").await.unwrap() {
            log.extend(get_json::<CallRecord>(blobs.as_ref(), &key).await.unwrap());
        }
        assert_eq!(log.len(), 1);
        assert_eq!(log[0].run.0, "a-1");
        assert_eq!(log[0].stage, "tell");
        assert!(log[0].useful);
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
        assert_eq!(script.requests().len(), 3, "invalid replies are retried");
        assert_eq!(session.usage().calls, 3, "retries are charged");
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

        assert_eq!(script.requests().len(), 5);
        assert_eq!(session.usage().calls, 2);
    }
}
