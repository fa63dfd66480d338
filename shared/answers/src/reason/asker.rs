//! The one way in which questions of people ask a model.
//!
//! ```text
//! Asker (one per process and collection)  ──begin(budget)──▶  Consultation (one per question)  ──ask──▶  a typed answer
//!   gate · call log · remembered replies                        account of calls and tokens             or an AskError
//! ```
//!
//! Everything a document or another model wrote goes into [`Prompt::block`]: it is fenced, and the model is told that what
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
use stemma_document::{Collection, layout};
use stemma_engine::blobs::Blobs;
use stemma_engine::jobs::Amount;
use stemma_engine::{Class, Env, Failure, FailureKind, RunId, TaskKey};
use stemma_llm::calls::CallRecord;
use stemma_llm::fence::{DATA_ONLY, fenced};
use stemma_llm::gate::{Gate, Replied};
use stemma_llm::inquiry::{Journal, inquire};
use stemma_llm::prices::Purse;
use stemma_llm::request::{Request, Schema, Usage};
use tokio::sync::watch;

use super::budget::{Account, Budget, Spent, USED_UP};
use super::memory::Memory;
use stemma_retrieval::paid::{Paid, Shelf};

/// How often a call that came to no reply is made again.
const TRIES: u32 = 3;
/// The pause before the second try, in milliseconds; twice as long before the third.
const PAUSE_MS: u64 = 400;

/// What is not waited for where a person waits: someone has to mend it, or the breaker says that the provider is gone.
const AWAY: [&str; 5] = [
    "model.configuration",
    "model.breaker_open",
    "model.unreachable",
    "model.timeout",
    "model.server_error",
];

/// How a model is asked on behalf of a person; configuration of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AskerSettings {
    /// Tokens of a prompt at most.
    pub max_prompt_tokens: u32,
    /// Tokens of a reply at most, where a prompt does not say.
    pub max_output_tokens: u32,
    /// How long one call may take with all its tries and waiting, in seconds: a person waits.
    pub patience_seconds: u64,
}

impl Default for AskerSettings {
    fn default() -> Self {
        Self {
            max_prompt_tokens: 110_000,
            max_output_tokens: 2_000,
            patience_seconds: 60,
        }
    }
}

/// The way to the model for questions about one collection. One per process and collection, shared by all questions.
pub struct Asker {
    env: Env,
    gate: Arc<Gate>,
    settings: AskerSettings,
    memory: Memory,
    asking: Asking,
}

impl Asker {
    /// An asker that remembers in memory alone and keeps no call log: for tests, and for stores that may not be written.
    pub fn new(env: Env, gate: Arc<Gate>, settings: AskerSettings) -> Self {
        let memory = Memory::new(&env, None);
        Self {
            env,
            gate,
            settings,
            memory,
            asking: Asking::default(),
        }
    }

    /// The same with the call log of a collection, and with the replies it remembers.
    #[must_use]
    pub fn over(self, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = layout::collection_prefix(collection);
        let shelf = Shelf::new(blobs, prefix.trim_end_matches('/').to_owned());
        Self {
            memory: Memory::new(&self.env, Some(shelf)),
            ..self
        }
    }

    /// The model that is asked.
    pub fn model(&self) -> &str {
        self.gate.model()
    }

    /// The configuration.
    pub fn settings(&self) -> AskerSettings {
        self.settings
    }

    /// The world it runs in.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Whether it is known what a call costs: without that no budget in money can be kept.
    pub fn knows_prices(&self) -> bool {
        self.gate.cost(Usage::default()).nanodollars.is_some()
    }

    /// A name for a question that no other has: `{kind}-` and sixteen hexadecimal digits.
    pub fn name(&self, kind: &str) -> RunId {
        RunId(format!("{kind}-{:016x}", self.env.random()))
    }

    /// Begins to ask for the question `id`, which stands in the call log as the run that asked: never the name of a
    /// document's run.
    pub fn begin(self: &Arc<Self>, id: RunId, budget: Budget) -> Consultation {
        Consultation {
            asker: Arc::clone(self),
            id,
            account: Arc::new(Account::new(budget)),
        }
    }
}

/// All that a model is asked for one question. Clones share its budget.
#[derive(Clone)]
pub struct Consultation {
    asker: Arc<Asker>,
    id: RunId,
    account: Arc<Account>,
}

/// What a model is told and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    system: String,
    blocks: Vec<(String, String)>,
    schema: Schema,
    max_output_tokens: Option<u32>,
}

impl Prompt {
    /// A prompt with instructions, which are ours and hold nothing of anyone else's, and the shape of the answer; the name of
    /// the shape is that of the stage in the call log.
    pub fn new(system: impl Into<String>, schema: Schema) -> Self {
        Self {
            system: system.into(),
            blocks: Vec::new(),
            schema,
            max_output_tokens: None,
        }
    }

    /// Adds a text under a name (`Question`, `Section 3`): fenced, as data.
    #[must_use]
    pub fn block(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.blocks.push((name.into(), text.into()));
        self
    }

    /// Allows a longer or shorter reply than usual, in tokens.
    #[must_use]
    pub fn at_most(self, tokens: u32) -> Self {
        Self {
            max_output_tokens: Some(tokens),
            ..self
        }
    }

    fn request(&self, asker: &Asker) -> Request {
        let blocks: Vec<String> = self
            .blocks
            .iter()
            .map(|(name, text)| fenced(name, text))
            .collect();
        Request {
            model: asker.gate.model().into(),
            system: format!("{}\n\n{DATA_ONLY}", self.system),
            user: blocks.join("\n\n"),
            schema: self.schema.clone(),
            max_output_tokens: self
                .max_output_tokens
                .unwrap_or(asker.settings.max_output_tokens),
            follow_up: None,
            urgency: 0,
        }
    }
}

/// Why there is no answer. Every caller goes on without it, and says which of these it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The question has used up what it may cost.
    #[error("{message}")]
    Budget {
        /// Which part of it.
        message: String,
    },
    /// The model did not reply: away, throttled beyond patience, or it serves no one.
    #[error("the model is away: {} ({})", .0.message, .0.code)]
    Away(Failure),
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

impl AskError {
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
            Self::Budget { .. } => Self::CODES[0],
            Self::TooLong { .. } => Self::CODES[1],
            Self::Away(_) => Self::CODES[2],
            Self::Unusable(_) => Self::CODES[3],
        }
    }

    fn of(failure: Failure) -> Self {
        match failure.code.as_str() {
            USED_UP => Self::Budget {
                message: failure.message,
            },
            "model.reply_unreadable" | "model.refused" => Self::Unusable(failure),
            _ => Self::Away(failure),
        }
    }
}

impl Consultation {
    /// The question, as the call log names it.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// What it came to so far.
    pub fn spent(&self) -> Spent {
        self.account.spent()
    }

    /// What it may cost.
    pub fn budget(&self) -> Budget {
        self.account.budget()
    }

    /// Charges what a search had to pay for this question.
    pub(crate) fn charge(&self, paid: Paid) {
        self.account.charge(paid);
    }

    /// The way to the model.
    pub fn asker(&self) -> &Arc<Asker> {
        &self.asker
    }

    /// Tokens of a prompt.
    pub fn tokens(&self, prompt: &Prompt) -> u32 {
        prompt.request(&self.asker).prompt_tokens()
    }

    /// Calls that the budget still allows.
    pub fn calls_left(&self) -> u32 {
        self.budget().calls.saturating_sub(self.spent().calls)
    }

    /// Whether the budget has room for a further call whose prompt has so many tokens.
    pub fn allows(&self, prompt_tokens: u32) -> bool {
        self.account
            .allows(u64::from(prompt_tokens) + u64::from(self.asker.settings.max_output_tokens))
    }

    /// Asks until a reply is an answer that `check` lets pass; the words of its error are shown to the model. What was
    /// answered before, to anyone who asked the same of this collection, is taken from there and costs nothing; so is what
    /// this process is asking for already.
    ///
    /// # Errors
    /// [`AskError`]: the caller degrades and says so.
    pub async fn ask<T: DeserializeOwned, U>(
        &self,
        prompt: &Prompt,
        check: impl Fn(T) -> Result<U, String>,
    ) -> Result<U, AskError> {
        let request = prompt.request(&self.asker);
        let digest = request.digest();
        // Who asks the same meanwhile waits for that reply; where none came, each asks for itself.
        let _asked = self.asker.asking.begin(&digest).await;
        if let Some(reply) = self.asker.memory.recall(&digest).await
            && let Ok(known) = T::deserialize(reply.as_ref())
            && let Ok(answer) = check(known)
        {
            self.account.remembered();
            return Ok(answer);
        }
        let stage = request.schema.name;
        let tokens = request.prompt_tokens();
        let most = self.asker.settings.max_prompt_tokens;
        if tokens > most {
            return Err(AskError::TooLong {
                stage,
                tokens,
                most,
            });
        }
        let patience = Duration::from_secs(self.asker.settings.patience_seconds.max(1));
        let asked =
            tokio::time::timeout(patience, self.until_replied(&request, &digest, &check)).await;
        let late = || {
            Failure::transient(
                "model.task_timeout",
                format!("{stage} took longer than {patience:?}"),
            )
        };
        let (raw, answer) = asked
            .unwrap_or_else(|_| Err(late()))
            .map_err(AskError::of)?;
        self.asker.memory.keep(&digest, raw).await;
        Ok(answer)
    }

    /// Asks again where there was no reply, for as long as that may help.
    async fn until_replied<T: DeserializeOwned, U>(
        &self,
        request: &Request,
        digest: &str,
        check: &impl Fn(T) -> Result<U, String>,
    ) -> Result<(Value, U), Failure> {
        let env = &self.asker.env;
        let gate = &self.asker.gate;
        let log = Log {
            consultation: self,
            digest,
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match inquire(gate, request, Class::Interactive, &log, |kept: Raw<T>| {
                Ok((kept.raw, check(kept.value)?))
            })
            .await
            {
                Ok(answer) => {
                    for reply in &answer.replies {
                        log.write(request, reply, true).await;
                    }
                    return Ok(answer.value);
                }
                Err(failure) => failure,
            };
            let pause_ms = match failure.kind {
                _ if AWAY.contains(&failure.code.as_str()) && is_throttled(&failure) => {
                    return Err(failure);
                }
                FailureKind::Throttled { after_ms } => after_ms.max(1),
                FailureKind::Transient if tries < TRIES => PAUSE_MS << (tries - 1),
                _ => return Err(failure),
            };
            if pause_ms >= 1_000 * self.asker.settings.patience_seconds {
                return Err(failure);
            }
            env.sleep(Duration::from_millis(pause_ms)).await;
        }
    }
}

/// Requests that are being asked for, by their digests: the same is not paid for twice because two ask at once.
#[derive(Default)]
struct Asking(Mutex<HashMap<String, watch::Sender<()>>>);

/// A request that is being asked for; it ends when this is dropped, however that comes about.
struct Begun<'a> {
    asking: &'a Asking,
    digest: String,
}

impl Asking {
    /// Begins to ask. `None`: someone else did, and has ended by now; what came of it is in memory, or nothing came.
    async fn begin(&self, digest: &str) -> Option<Begun<'_>> {
        let mut other = match locked(&self.0).entry(digest.to_owned()) {
            Entry::Occupied(other) => other.get().subscribe(),
            Entry::Vacant(free) => {
                free.insert(watch::Sender::new(()));
                return Some(Begun {
                    asking: self,
                    digest: digest.to_owned(),
                });
            }
        };
        // Nothing is ever sent: it ends when the sender is dropped.
        while other.changed().await.is_ok() {}
        None
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        locked(&self.asking.0).remove(&self.digest);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_throttled(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Throttled { .. })
}

/// A reply as it came, beside what it says.
struct Raw<T> {
    raw: Value,
    value: T,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Raw<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let value = T::deserialize(&raw).map_err(D::Error::custom)?;
        Ok(Self { raw, value })
    }
}

/// The call log of a question, and its purse.
struct Log<'a> {
    consultation: &'a Consultation,
    digest: &'a str,
}

impl Log<'_> {
    /// Writes the line of a reply; where the log cannot be written the person is answered all the same.
    async fn write(&self, request: &Request, reply: &Replied, useful: bool) {
        let Consultation { asker, id, account } = self.consultation;
        account.replied(reply.usage, asker.gate.cost(reply.usage));
        let Some(shelf) = asker.memory.shelf() else {
            return;
        };
        let record = CallRecord {
            at_ms: reply.at_ms,
            run: id.clone(),
            task: self
                .digest
                .parse()
                .unwrap_or_else(|_| TaskKey::identity(request.schema.name, 1).finish()),
            stage: request.schema.name.into(),
            attempt: 1,
            request: self.digest.into(),
            model: request.model.clone(),
            usage: reply.usage,
            took_ms: reply.took_ms,
            useful,
            jobs: Vec::new(),
        };
        shelf.note(&asker.env, &record).await;
    }
}

#[async_trait]
impl Purse for Log<'_> {
    async fn reserve(&self, most: Amount) -> Result<(), Failure> {
        self.consultation.account.reserve(most).await
    }

    async fn settle(&self, most: Amount, used: Amount) {
        self.consultation.account.settle(most, used);
    }
}

#[async_trait]
impl Journal for Log<'_> {
    async fn useless(&self, request: &Request, reply: &Replied) -> Result<(), Failure> {
        self.write(request, reply, false).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stemma_engine::blobs::MemoryBlobs;
    use stemma_llm::calls;

    use super::*;
    use crate::reason::scripted::Scripted;

    #[derive(Debug, Deserialize)]
    struct Told {
        title: String,
    }

    fn prompt(text: &str) -> Prompt {
        Prompt::new(
            "Say the title.",
            Schema::strict("tell", &json!({ "title": { "type": "string" } })),
        )
        .block("Text", text)
    }

    async fn ask(consultation: &Consultation, text: &str) -> Result<String, AskError> {
        consultation
            .ask(&prompt(text), |told: Told| {
                if told.title.is_empty() {
                    Err("it is empty".into())
                } else {
                    Ok(told.title)
                }
            })
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_is_asked_once_by_all_who_share_a_store() {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let asker = || {
            let (script, asker) = Scripted::lines(&[r#"{"title":"A"}"#]);
            (
                script,
                Arc::new(asker.over(Arc::clone(&blobs), &Collection::default())),
            )
        };
        let (script, first) = asker();
        let begun = first.begin(RunId("a-1".into()), Budget::default());
        assert_eq!(ask(&begun, "x").await, Ok("A".into()));
        assert_eq!(ask(&begun, "x").await, Ok("A".into()));
        assert_eq!(
            (
                script.asked().len(),
                begun.spent().calls,
                begun.spent().remembered
            ),
            (1, 1, 1)
        );
        assert!(
            script.asked()[0].system.ends_with(DATA_ONLY)
                && script.asked()[0].user.starts_with("Text:\n[")
        );
        // Another process.
        let (script, second) = asker();
        let begun = second.begin(
            RunId("a-2".into()),
            Budget {
                calls: 0,
                tokens: 0,
                nanodollars: None,
            },
        );
        assert_eq!(ask(&begun, "x").await, Ok("A".into()));
        assert_eq!((script.asked().len(), begun.spent().remembered), (0, 1));
        assert!(matches!(
            ask(&begun, "y").await,
            Err(AskError::Budget { .. })
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
    async fn who_asks_the_same_meanwhile_waits_for_its_end_whatever_that_is() {
        let asking = Asking::default();
        let first = asking.begin("x").await;
        assert!(
            first.is_some() && asking.begin("y").await.is_some(),
            "others do not wait"
        );
        let mut second = std::pin::pin!(asking.begin("x"));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first); // as where its asker went away
        assert!(second.await.is_none() && asking.begin("x").await.is_some());
        assert!(locked(&asking.0).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_are_told_what_is_wrong() {
        let (_, asker) = Scripted::lines(&[]);
        let begun = Arc::new(asker).begin(RunId("a".into()), Budget::default());
        assert!(matches!(ask(&begun, "x").await, Err(AskError::Away(_))));
        let (script, asker) = Scripted::asker(|_| Ok(json!({ "title": "" })));
        let asker = Arc::new(asker);
        let begun = asker.begin(RunId("a".into()), Budget::default());
        assert!(matches!(ask(&begun, "x").await, Err(AskError::Unusable(_))));
        assert_eq!(
            (script.asked().len(), begun.spent().calls),
            (3, 3),
            "asked again, and paid for"
        );
        let begun = asker.begin(
            RunId("a".into()),
            Budget {
                calls: 2,
                tokens: 100_000,
                nanodollars: None,
            },
        );
        assert!(matches!(
            ask(&begun, "x").await,
            Err(AskError::Budget { .. })
        ));
        assert!(matches!(
            ask(&begun, &"word ".repeat(200_000)).await,
            Err(AskError::TooLong { .. })
        ));
        assert_eq!((script.asked().len(), begun.spent().calls), (5, 2));
    }
}
