//! What a model client knows about batches. They pass neither limits nor breaker.

use stemma_store::model_status::ModelBatch;
use stemma_store::spend::SpendAmount;

use super::ModelClient;
use super::estimate::CallSize;
use crate::batch::BatchProvider;
use crate::metrics;
use crate::request::{LlmRequest, TokenUsage};

impl ModelClient {
    /// The provider's batch interface, if it has one.
    pub fn batches(&self) -> Option<&dyn BatchProvider> {
        self.client.batches()
    }

    /// Upper bound of the usage of a request, for budgets.
    pub fn most_usage(&self, request: &LlmRequest) -> TokenUsage {
        self.estimator.lock().max_usage(CallSize {
            stage: request.schema.name,
            prompt_tokens: request.prompt_tokens(),
            max_output_tokens: request.max_output_tokens,
        })
    }

    /// The cost of `usage` in a batch.
    pub fn batch_cost(&self, usage: TokenUsage) -> SpendAmount {
        self.settings.prices.for_batch().cost(usage)
    }

    /// Counts a reply that came in a batch.
    pub fn record_batch_reply(&self, usage: TokenUsage) {
        metrics::record_tokens(&self.settings.bucket, usage);
    }

    /// Reports the batches that this process looks after, for the heartbeat.
    pub fn report_batches(&self, batches: Vec<ModelBatch>) {
        *self.batches.lock() = batches;
    }
}
