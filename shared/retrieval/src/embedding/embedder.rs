//! The one way in which texts become vectors: through the gate, with its limits and prices, on an account, with a line in the
//! call log for each reply (rule 12).

use std::sync::Arc;
use std::time::Duration;

use stemma_document::{Collection, Digest, blob_keys};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::{Env, Failure, FailureKind, Priority, RunId, TaskKey};
use stemma_llm::calls::CallRecord;
use stemma_llm::client::{EMBED_STAGE, ModelClient, ReplyStats};
use stemma_llm::embeddings::{Embedder, MAX_TEXT_TOKENS, MAX_TOKENS, TextBatch, batches};
use stemma_llm::prices::{CallBudget, UnlimitedBudget};

use super::EmbeddingError;
use crate::usage::{CallStore, CallUsage};

/// How often a call that came to no reply is made again for documents, and for a person who waits.
const MAX_ATTEMPTS: (u32, u32) = (6, 3);
/// The pause before the second try, in milliseconds; twice as long before each further one.
const RETRY_DELAY_MS: Millis = 400;
/// How long a person waits for the vector of a question: without it all documents are searched.
const QUERY_TIMEOUT_MS: Millis = 8_000;
/// What no pause of ours will mend.
const CONFIGURATION_CODE: &str = "model.configuration";

/// The way to the endpoint for one collection.
pub struct MeteredEmbedder {
    env: Env,
    model_client: Arc<ModelClient<dyn Embedder>>,
    call_store: Option<CallStore>,
    settings: EmbedderSettings,
}

/// How the endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbedderSettings {
    /// Tokens of one call at most, where texts are shorter than that.
    pub batch_tokens: u32,
    /// Documents whose texts are sent at once.
    pub concurrent_documents: usize,
    /// How long one call for documents may take with all its tries and waiting, in milliseconds.
    pub timeout_ms: Millis,
}

impl Default for EmbedderSettings {
    fn default() -> Self {
        Self {
            batch_tokens: MAX_TOKENS,
            concurrent_documents: 4,
            timeout_ms: 600_000,
        }
    }
}

impl MeteredEmbedder {
    /// Through `gate`, without a call log: for tests, and for stores that may not be written.
    pub fn new(
        env: Env,
        model_client: Arc<ModelClient<dyn Embedder>>,
        settings: EmbedderSettings,
    ) -> Self {
        Self {
            env,
            model_client: model_client,
            call_store: None,
            settings,
        }
    }

    /// The same with the call log of a collection.
    #[must_use]
    pub fn with_call_log(self, blobs: Arc<dyn Blobs>, collection: &Collection) -> Self {
        let prefix = blob_keys::collection_prefix(collection);
        Self {
            call_store: Some(CallStore::new(
                blobs,
                prefix.trim_end_matches('/').to_owned(),
            )),
            ..self
        }
    }

    /// How the endpoint is asked.
    pub fn settings(&self) -> EmbedderSettings {
        self.settings
    }

    /// What so many tokens cost, in billionths of a dollar; `None` where there is no price.
    pub fn price(&self, tokens: u64) -> Option<u64> {
        let usage = |prompt_tokens| stemma_llm::request::TokenUsage {
            prompt_tokens,
            ..Default::default()
        };
        let million = self.model_client.cost(usage(1_000_000)).nanodollars?;
        Some((u128::from(million) * u128::from(tokens) / 1_000_000) as u64)
    }

    /// The calls that texts take.
    ///
    /// # Errors
    /// [`EmbeddingError::Endpoint`] where one can never be embedded.
    pub fn batches<'a>(&self, texts: &'a [&'a str]) -> Result<Vec<TextBatch<'a>>, EmbeddingError> {
        batches(texts, self.settings.batch_tokens)
            .map_err(|error| EmbeddingError::Endpoint(error.failure()))
    }

    /// The vectors of a batch of a document's texts; `run` stands in the call log as who asked. Tried again where that may
    /// help, after the pause the provider asks for.
    ///
    /// # Errors
    /// [`EmbeddingError::Endpoint`]: what the last try failed of.
    pub async fn embed_batch(
        &self,
        batch: &TextBatch<'_>,
        run: &RunId,
        budget: &dyn CallBudget,
    ) -> Result<(Vec<Vec<f32>>, CallUsage), EmbeddingError> {
        self.embed_within_timeout(batch, Priority::Bulk, run, budget)
            .await
    }

    /// The vector of a question, for someone who waits. Questions are short: they are counted, and not held back by a budget.
    ///
    /// # Errors
    /// As [`MeteredEmbedder::embed_batch`].
    pub async fn embed_query(
        &self,
        text: &str,
        run: Option<&RunId>,
    ) -> Result<(Vec<f32>, CallUsage), EmbeddingError> {
        let run = run
            .cloned()
            .unwrap_or_else(|| RunId(format!("q-{:016x}", self.env.random())));
        let texts = [super::truncate_to_tokens(text, MAX_TEXT_TOKENS)];
        let batch = self.batches(&texts)?.into_iter().next();
        let (vectors, usage) = self
            .embed_within_timeout(
                &batch.ok_or_else(|| {
                    EmbeddingError::Endpoint(Failure::permanent(
                        "model.refused",
                        "there is no text to embed",
                    ))
                })?,
                Priority::Interactive,
                &run,
                &UnlimitedBudget,
            )
            .await?;
        Ok((vectors.into_iter().next().unwrap_or_default(), usage))
    }

    async fn embed_within_timeout(
        &self,
        batch: &TextBatch<'_>,
        class: Priority,
        run: &RunId,
        budget: &dyn CallBudget,
    ) -> Result<(Vec<Vec<f32>>, CallUsage), EmbeddingError> {
        let patience_ms = if class == Priority::Bulk {
            self.settings.timeout_ms
        } else {
            QUERY_TIMEOUT_MS
        };
        let trying =
            self.embed_with_retry(batch, class, run, budget, self.env.now_ms() + patience_ms);
        let late = || {
            Failure::transient(
                "model.task_timeout",
                format!("no vectors within {} s", patience_ms / 1_000),
            )
        };
        let result = tokio::time::timeout(Duration::from_millis(patience_ms), trying).await;
        result
            .unwrap_or_else(|_| Err(late()))
            .map_err(EmbeddingError::Endpoint)
    }

    async fn embed_with_retry(
        &self,
        batch: &TextBatch<'_>,
        class: Priority,
        run: &RunId,
        budget: &dyn CallBudget,
        until_ms: Millis,
    ) -> Result<(Vec<Vec<f32>>, CallUsage), Failure> {
        let most = if class == Priority::Bulk {
            MAX_ATTEMPTS.0
        } else {
            MAX_ATTEMPTS.1
        };
        let mut tries = 0;
        let mut usage = CallUsage::default();
        loop {
            tries += 1;
            let failure = match self.model_client.embed(batch, class, budget).await {
                Ok((made, replied)) => {
                    self.log_reply(batch, run, tries, &replied, true, &mut usage)
                        .await;
                    return Ok((made.vectors, usage));
                }
                Err(refusal) => {
                    if let Some(replied) = &refusal.stats {
                        self.log_reply(batch, run, tries, replied, false, &mut usage)
                            .await;
                    }
                    refusal.failure
                }
            };
            let pause_ms = match failure.kind {
                _ if failure.code == CONFIGURATION_CODE => return Err(failure),
                FailureKind::Throttled { after_ms } => {
                    tries -= 1; // no try was made
                    after_ms.max(1)
                }
                FailureKind::Transient if tries < most => RETRY_DELAY_MS << (tries - 1),
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
    async fn log_reply(
        &self,
        batch: &TextBatch<'_>,
        run: &RunId,
        attempt: u32,
        replied: &ReplyStats,
        useful: bool,
        call_usage: &mut CallUsage,
    ) {
        call_usage.add(replied.usage, self.model_client.cost(replied.usage));
        let Some(call_store) = &self.call_store else {
            return;
        };
        let texts = serde_json::to_vec(batch.texts).unwrap_or_default();
        let request: String = Digest::from_content(&texts)
            .to_string()
            .chars()
            .take(32)
            .collect();
        let record = CallRecord {
            at_ms: replied.at_ms,
            run: run.clone(),
            task: request
                .parse()
                .unwrap_or_else(|_| TaskKey::builder(EMBED_STAGE, 1).finish()),
            stage: EMBED_STAGE.into(),
            attempt,
            request,
            model: self.model_client.model().into(),
            usage: replied.usage,
            took_ms: replied.took_ms,
            useful,
            jobs: Vec::new(),
        };
        call_store.log_call(&self.env, &record).await;
    }
}
