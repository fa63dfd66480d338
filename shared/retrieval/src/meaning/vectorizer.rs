//! The one way in which texts become vectors: through the gate, with its limits and prices, on an account, with a line in the
//! call log for each reply (rule 12).

use std::sync::Arc;
use std::time::Duration;

use stemma_document::{Collection, Digest, layout};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::{Class, Env, Failure, FailureKind, RunId, TaskKey};
use stemma_llm::calls::CallRecord;
use stemma_llm::embeddings::{Batch, Embedder, MAX_TEXT_TOKENS, MAX_TOKENS, batches};
use stemma_llm::gate::{EMBED, Gate, Replied};
use stemma_llm::prices::{Free, Purse};

use super::MeaningError;
use crate::paid::{Paid, Shelf};

/// How often a call that came to no reply is made again for documents, and for a person who waits.
const TRIES: (u32, u32) = (6, 3);
/// The pause before the second try, in milliseconds; twice as long before each further one.
const PAUSE_MS: Millis = 400;
/// How long a person waits for the vector of a question: without it all documents are searched.
const QUESTION_MS: Millis = 8_000;
/// What no pause of ours will mend.
const CONFIGURATION: &str = "model.configuration";

/// The way to the endpoint for one collection.
pub struct Vectorizer {
    env: Env,
    gate: Arc<Gate<dyn Embedder>>,
    shelf: Option<Shelf>,
    settings: VectorizerSettings,
}

/// How the endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorizerSettings {
    /// Tokens of one call at most, where texts are shorter than that.
    pub batch_tokens: u32,
    /// Documents whose texts are sent at once.
    pub at_once: usize,
    /// How long one call for documents may take with all its tries and waiting, in milliseconds.
    pub patience_ms: Millis,
}

impl Default for VectorizerSettings {
    fn default() -> Self {
        Self {
            batch_tokens: MAX_TOKENS,
            at_once: 4,
            patience_ms: 600_000,
        }
    }
}

impl Vectorizer {
    /// Through `gate`, without a call log: for tests, and for stores that may not be written.
    pub fn new(env: Env, gate: Arc<Gate<dyn Embedder>>, settings: VectorizerSettings) -> Self {
        Self {
            env,
            gate,
            shelf: None,
            settings,
        }
    }

    /// The same with the call log of a collection.
    #[must_use]
    pub fn over(self, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = layout::collection_prefix(collection);
        Self {
            shelf: Some(Shelf::new(blobs, prefix.trim_end_matches('/').to_owned())),
            ..self
        }
    }

    /// How the endpoint is asked.
    pub fn settings(&self) -> VectorizerSettings {
        self.settings
    }

    /// What so many tokens cost, in billionths of a dollar; `None` where there is no price.
    pub fn price(&self, tokens: u64) -> Option<u64> {
        let usage = |prompt_tokens| stemma_llm::request::Usage {
            prompt_tokens,
            ..Default::default()
        };
        let million = self.gate.cost(usage(1_000_000)).nanodollars?;
        Some((u128::from(million) * u128::from(tokens) / 1_000_000) as u64)
    }

    /// The calls that texts take.
    ///
    /// # Errors
    /// [`MeaningError::Endpoint`] where one can never be embedded.
    pub fn batches<'a>(&self, texts: &'a [&'a str]) -> Result<Vec<Batch<'a>>, MeaningError> {
        batches(texts, self.settings.batch_tokens)
            .map_err(|error| MeaningError::Endpoint(error.failure()))
    }

    /// The vectors of a batch of a document's texts; `run` stands in the call log as who asked. Tried again where that may
    /// help, after the pause the provider asks for.
    ///
    /// # Errors
    /// [`MeaningError::Endpoint`]: what the last try failed of.
    pub async fn of_document(
        &self,
        batch: &Batch<'_>,
        run: &RunId,
        purse: &dyn Purse,
    ) -> Result<(Vec<Vec<f32>>, Paid), MeaningError> {
        self.until_made(batch, Class::Bulk, run, purse).await
    }

    /// The vector of a question, for someone who waits. Questions are short: they are counted, and not held back by a budget.
    ///
    /// # Errors
    /// As [`Vectorizer::of_document`].
    pub async fn of_question(
        &self,
        text: &str,
        run: Option<&RunId>,
    ) -> Result<(Vec<f32>, Paid), MeaningError> {
        let run = run
            .cloned()
            .unwrap_or_else(|| RunId(format!("q-{:016x}", self.env.random())));
        let texts = [super::beginning(text, MAX_TEXT_TOKENS)];
        let batch = self.batches(&texts)?.into_iter().next();
        let (vectors, paid) = self
            .until_made(
                &batch.ok_or_else(|| {
                    MeaningError::Endpoint(Failure::permanent(
                        "model.refused",
                        "there is no text to embed",
                    ))
                })?,
                Class::Interactive,
                &run,
                &Free,
            )
            .await?;
        Ok((vectors.into_iter().next().unwrap_or_default(), paid))
    }

    async fn until_made(
        &self,
        batch: &Batch<'_>,
        class: Class,
        run: &RunId,
        purse: &dyn Purse,
    ) -> Result<(Vec<Vec<f32>>, Paid), MeaningError> {
        let patience_ms = if class == Class::Bulk {
            self.settings.patience_ms
        } else {
            QUESTION_MS
        };
        let trying = self.tried(batch, class, run, purse, self.env.now_ms() + patience_ms);
        let late = || {
            Failure::transient(
                "model.task_timeout",
                format!("no vectors within {} s", patience_ms / 1_000),
            )
        };
        let made = tokio::time::timeout(Duration::from_millis(patience_ms), trying).await;
        made.unwrap_or_else(|_| Err(late()))
            .map_err(MeaningError::Endpoint)
    }

    async fn tried(
        &self,
        batch: &Batch<'_>,
        class: Class,
        run: &RunId,
        purse: &dyn Purse,
        until_ms: Millis,
    ) -> Result<(Vec<Vec<f32>>, Paid), Failure> {
        let most = if class == Class::Bulk {
            TRIES.0
        } else {
            TRIES.1
        };
        let mut tries = 0;
        let mut paid = Paid::default();
        loop {
            tries += 1;
            let failure = match self.gate.embed(batch, class, purse).await {
                Ok((made, replied)) => {
                    self.note(batch, run, tries, &replied, true, &mut paid)
                        .await;
                    return Ok((made.vectors, paid));
                }
                Err(refusal) => {
                    if let Some(replied) = &refusal.replied {
                        self.note(batch, run, tries, replied, false, &mut paid)
                            .await;
                    }
                    refusal.failure
                }
            };
            let pause_ms = match failure.kind {
                _ if failure.code == CONFIGURATION => return Err(failure),
                FailureKind::Throttled { after_ms } => {
                    tries -= 1; // no try was made
                    after_ms.max(1)
                }
                FailureKind::Transient if tries < most => PAUSE_MS << (tries - 1),
                _ => return Err(failure),
            };
            if self.env.now_ms() + pause_ms >= until_ms {
                return Err(failure);
            }
            tracing::info!(code = failure.code, pause_ms, "vectors are asked for again");
            self.env.sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    /// Counts a reply and writes its line; where the log cannot be written, the vectors count all the same.
    async fn note(
        &self,
        batch: &Batch<'_>,
        run: &RunId,
        attempt: u32,
        replied: &Replied,
        useful: bool,
        paid: &mut Paid,
    ) {
        paid.add(replied.usage, self.gate.cost(replied.usage));
        let Some(shelf) = &self.shelf else { return };
        let texts = serde_json::to_vec(batch.texts).unwrap_or_default();
        let request: String = Digest::of(&texts).to_string().chars().take(32).collect();
        let record = CallRecord {
            at_ms: replied.at_ms,
            run: run.clone(),
            task: request
                .parse()
                .unwrap_or_else(|_| TaskKey::identity(EMBED, 1).finish()),
            stage: EMBED.into(),
            attempt,
            request,
            model: self.gate.model().into(),
            usage: replied.usage,
            took_ms: replied.took_ms,
            useful,
            jobs: Vec::new(),
        };
        shelf.note(&self.env, &record).await;
    }
}
