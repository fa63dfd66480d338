//! What was paid for: where its lines and replies are kept, and who is charged for what a search had to pay.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use stemma_engine::blobs::Blobs;
use stemma_engine::jobs::SpendAmount;
use stemma_engine::port_error::with_retry;
use stemma_engine::{Env, PortError};
use stemma_llm::calls::CallRecord;
use stemma_llm::request::TokenUsage;

/// What calls came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallUsage {
    /// Calls.
    pub calls: u32,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Billionths of a dollar, of calls that have a price.
    pub nanodollars: u64,
    /// Calls without a price.
    pub unpriced_calls: u32,
}

impl CallUsage {
    /// Adds a call.
    pub fn add(&mut self, usage: TokenUsage, cost: SpendAmount) {
        self.calls += 1;
        self.prompt_tokens += u64::from(usage.prompt_tokens);
        self.nanodollars += cost.nanodollars.unwrap_or_default();
        self.unpriced_calls += u32::from(cost.nanodollars.is_none());
    }

    /// Adds what other calls came to.
    pub fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.prompt_tokens += other.prompt_tokens;
        self.nanodollars += other.nanodollars;
        self.unpriced_calls += other.unpriced_calls;
    }
}

/// Where a collection keeps what was paid for; what it refuses to keep is not tried again.
pub struct CallStore {
    pub blobs: Arc<dyn Blobs>,
    /// Blob prefix of the tenant, without a slash at its end.
    collection: String,
    is_read_only: AtomicBool,
}

impl CallStore {
    pub fn new(blobs: Arc<dyn Blobs>, collection: String) -> Self {
        Self {
            blobs,
            collection,
            is_read_only: AtomicBool::new(false),
        }
    }

    /// Writes a line of the call log.
    pub async fn log_call(&self, env: &Env, record: &CallRecord) {
        match serde_json::to_vec(record) {
            Ok(json) => {
                self.put(
                    env,
                    &record.key(&self.collection, env.random()),
                    json.into(),
                )
                .await
            }
            Err(error) => {
                tracing::error!(run = %record.run, %error, "a line of the call log could not be written")
            }
        }
    }

    /// Writes an object; where the store refuses for good, that is said once and nothing is tried again.
    pub async fn put(&self, env: &Env, key: &str, bytes: Bytes) {
        if self.is_read_only.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = with_retry(env, || self.blobs.put(key, bytes.clone())).await {
            self.on_write_error(&error);
        }
    }

    fn on_write_error(&self, error: &PortError) {
        if error.transient {
            tracing::warn!(collection = self.collection, %error, "a line of the call log, or a reply, was not kept");
        } else if !self.is_read_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                collection = self.collection, %error,
                "the store keeps no replies and no call log of this process: give it the right to write below calls/ and replies/"
            );
        }
    }

    pub fn reply_key(&self, month: u64, request: &str) -> String {
        format!("{}/replies/{month:06}/{request}.json", self.collection)
    }
}
