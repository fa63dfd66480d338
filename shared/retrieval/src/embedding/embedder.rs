//! Embeds texts through the rate-limited, budgeted model client, with retries. Each reply gets a record in the call log.

use std::sync::Arc;
use std::time::Duration;

use stemma_document::{Collection, Digest, blob_keys};
use stemma_llm::calls::CallRecord;
use stemma_llm::client::{EMBED_STAGE, ModelClient, ReplyStats};
use stemma_llm::embeddings::{Embedder, MAX_TEXT_TOKENS, MAX_TOKENS, TextBatch, batches};
use stemma_llm::prices::{CallBudget, UnlimitedBudget};
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::{Env, Failure, FailureKind, Priority, RunId, TaskKey};

use super::EmbeddingError;
use crate::usage::{CallStore, CallUsage};

// For documents, and for queries, where a user waits.
const MAX_ATTEMPTS: (u32, u32) = (6, 3);
// Before the second attempt; doubles for each further one.
const RETRY_DELAY_MS: Millis = 400;
// A query without a vector is not routed and searches all documents, so that waiting longer is not worth it.
const QUERY_TIMEOUT_MS: Millis = 8_000;
// No retry helps against a wrong configuration.
const CONFIGURATION_CODE: &str = "model.configuration";

/// Embeds texts for one collection.
pub struct MeteredEmbedder {
    env: Env,
    model_client: Arc<ModelClient<dyn Embedder>>,
    call_store: Option<CallStore>,
    settings: EmbedderSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbedderSettings {
    /// Largest size of a call in tokens.
    pub batch_tokens: u32,
    /// Documents embedded concurrently.
    pub concurrent_documents: usize,
    /// Time limit of a call for documents, with all attempts and pauses, in milliseconds.
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
    /// An embedder without a call log, for tests and read-only stores.
    pub fn new(
        env: Env,
        model_client: Arc<ModelClient<dyn Embedder>>,
        settings: EmbedderSettings,
    ) -> Self {
        Self {
            env,
            model_client,
            call_store: None,
            settings,
        }
    }

    /// Adds the call log of a collection.
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

    pub fn settings(&self) -> EmbedderSettings {
        self.settings
    }

    /// Price of `tokens` in billionths of a dollar; `None` without a price.
    pub fn price(&self, tokens: u64) -> Option<u64> {
        let million = self
            .model_client
            .cost(stemma_llm::request::TokenUsage {
                prompt_tokens: 1_000_000,
                ..Default::default()
            })
            .nanodollars?;
        Some((u128::from(million) * u128::from(tokens) / 1_000_000) as u64)
    }

    /// Groups texts into calls.
    ///
    /// # Errors
    /// [`EmbeddingError::Endpoint`] if a text can never be embedded.
    pub fn batches<'a>(&self, texts: &'a [&'a str]) -> Result<Vec<TextBatch<'a>>, EmbeddingError> {
        batches(texts, self.settings.batch_tokens)
            .map_err(|error| EmbeddingError::Endpoint(error.failure()))
    }

    /// Embeds a batch of a document's texts. `run` is named in the call log. Retries transient errors, after the pause the
    /// provider asks for.
    ///
    /// # Errors
    /// [`EmbeddingError::Endpoint`] with the failure of the last attempt.
    pub async fn embed_batch(
        &self,
        batch: &TextBatch<'_>,
        run: &RunId,
        budget: &dyn CallBudget,
    ) -> Result<(Vec<Vec<f32>>, CallUsage), EmbeddingError> {
        self.embed_within_timeout(batch, Priority::Bulk, run, budget)
            .await
    }

    /// Embeds a query while a user waits. Queries are short, so they are logged but not limited by a budget.
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
                        "no text to embed",
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
        priority: Priority,
        run: &RunId,
        budget: &dyn CallBudget,
    ) -> Result<(Vec<Vec<f32>>, CallUsage), EmbeddingError> {
        let timeout_ms = if priority == Priority::Bulk {
            self.settings.timeout_ms
        } else {
            QUERY_TIMEOUT_MS
        };
        let attempts =
            self.embed_with_retry(batch, priority, run, budget, self.env.now_ms() + timeout_ms);
        let result = tokio::time::timeout(Duration::from_millis(timeout_ms), attempts).await;
        result
            .unwrap_or_else(|_| {
                Err(Failure::transient(
                    "model.task_timeout",
                    format!("no vectors within {} s", timeout_ms / 1_000),
                ))
            })
            .map_err(EmbeddingError::Endpoint)
    }

    async fn embed_with_retry(
        &self,
        batch: &TextBatch<'_>,
        priority: Priority,
        run: &RunId,
        budget: &dyn CallBudget,
        until_ms: Millis,
    ) -> Result<(Vec<Vec<f32>>, CallUsage), Failure> {
        let most = if priority == Priority::Bulk {
            MAX_ATTEMPTS.0
        } else {
            MAX_ATTEMPTS.1
        };
        let mut attempt = 0;
        let mut usage = CallUsage::default();
        loop {
            attempt += 1;
            let failure = match self.model_client.embed(batch, priority, budget).await {
                Ok((embedded, replied)) => {
                    self.log_reply(batch, run, attempt, &replied, true, &mut usage)
                        .await;
                    return Ok((embedded.vectors, usage));
                }
                Err(refusal) => {
                    if let Some(replied) = &refusal.stats {
                        self.log_reply(batch, run, attempt, replied, false, &mut usage)
                            .await;
                    }
                    refusal.failure
                }
            };
            let pause_ms = match failure.kind {
                _ if failure.code == CONFIGURATION_CODE => return Err(failure),
                FailureKind::Throttled { after_ms } => {
                    // The limiter refused before a request was sent, so this does not count as an attempt.
                    attempt -= 1;
                    after_ms.max(1)
                }
                FailureKind::Transient if attempt < most => RETRY_DELAY_MS << (attempt - 1),
                _ => return Err(failure),
            };
            if self.env.now_ms() + pause_ms >= until_ms {
                return Err(failure);
            }
            tracing::info!(code = failure.code, pause_ms, "retrying embedding call");
            self.env.sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    // A reply counts even if its record cannot be written: it was paid for.
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
            batch: false,
        };
        call_store.log_call(&self.env, &record).await;
    }
}
