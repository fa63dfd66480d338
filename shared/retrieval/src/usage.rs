//! Cost accounting of paid calls: totals, the call log and the store of replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use stemma_llm::calls::CallRecord;
use stemma_llm::request::TokenUsage;
use stemma_store::blobs::Blobs;
use stemma_store::port_retry::with_retry;
use stemma_store::spend::SpendAmount;
use stemma_store::{Env, PortError, RunId};

/// Totals of paid calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallUsage {
    pub calls: u32,
    pub prompt_tokens: u64,
    /// Sum over calls with a known price, in billionths of a dollar.
    pub nanodollars: u64,
    pub unpriced_calls: u32,
}

impl CallUsage {
    pub fn add(&mut self, usage: TokenUsage, cost: SpendAmount) {
        self.calls += 1;
        self.prompt_tokens += u64::from(usage.prompt_tokens);
        self.nanodollars += cost.nanodollars.unwrap_or_default();
        self.unpriced_calls += u32::from(cost.nanodollars.is_none());
    }

    pub fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.prompt_tokens += other.prompt_tokens;
        self.nanodollars += other.nanodollars;
        self.unpriced_calls += other.unpriced_calls;
    }
}

/// Who pays for the paid calls of a search.
pub trait CallAccount: Send + Sync {
    /// The run, as named in the call log.
    fn run(&self) -> &RunId;
    fn charge(&self, usage: CallUsage);
}

/// The call log and the stored replies of a collection. After a permanent write error, nothing more is written.
pub struct CallStore {
    pub blobs: Arc<dyn Blobs>,
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

    pub async fn log_call(&self, env: &Env, record: &CallRecord) {
        // Only the records of jobs are summed by their names.
        let cost = SpendAmount {
            nanodollars: None,
            tokens: record.usage.total().into(),
        };
        match serde_json::to_vec(record) {
            Ok(json) => {
                self.put(
                    env,
                    &record.key(&self.collection, env.random(), Some(cost)),
                    json.into(),
                )
                .await;
            }
            Err(error) => {
                tracing::error!(run = %record.run, %error, "call log record was not encoded");
            }
        }
    }

    pub async fn put(&self, env: &Env, key: &str, bytes: Bytes) {
        if self.is_read_only.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = with_retry(env, || self.blobs.put(key, bytes.clone())).await {
            self.on_write_error(&error);
        }
    }

    fn on_write_error(&self, error: &PortError) {
        if error.is_transient() {
            tracing::warn!(collection = self.collection, %error, "call log record or reply was not written");
        } else if !self.is_read_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                collection = self.collection, %error,
                "call log and replies are not stored: grant write access below calls/ and replies/"
            );
        }
    }

    pub fn reply_key(&self, month: u64, request: &str) -> String {
        format!("{}/replies/{month:06}/{request}.json", self.collection)
    }
}
