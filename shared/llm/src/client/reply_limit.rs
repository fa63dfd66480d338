//! Output limits of requests to models that think: thoughts are output.

use super::ModelClient;
use crate::request::LlmRequest;

impl ModelClient {
    /// The output limit that a request begins with: its own, or more where replies of its stage were found to need it.
    pub(crate) fn reply_limit(&self, request: &LlmRequest) -> u32 {
        let limits = self.reply_limits.lock();
        let learned = limits.get(request.schema.name).copied().unwrap_or(0);
        request.max_output_tokens.max(learned)
    }

    /// The output limit that is tried after a reply that ended too early; `None` if `tokens` is as much.
    pub(crate) fn raised_reply_limit(&self, tokens: u32) -> Option<u32> {
        Some(self.settings.max_reply_tokens).filter(|most| *most > tokens)
    }

    /// A reply of `stage` took so many tokens, with thoughts: later requests begin with twice as many.
    pub(crate) fn learn_reply_limit(&self, stage: &'static str, tokens: u32) {
        let limit = tokens.saturating_mul(2).min(self.settings.max_reply_tokens);
        let mut limits = self.reply_limits.lock();
        let learned = limits.entry(stage).or_default();
        if *learned < limit {
            *learned = limit;
            tracing::info!(
                bucket = self.settings.bucket,
                stage,
                limit,
                "the model needs a higher output limit; using it from now on"
            );
        }
    }

    /// More than `tokens` did not fit: later requests of `stage` begin with no more.
    pub(crate) fn lower_reply_limit(&self, stage: &'static str, tokens: u32) {
        if let Some(learned) = self.reply_limits.lock().get_mut(stage) {
            *learned = tokens.min(*learned);
        }
    }
}
