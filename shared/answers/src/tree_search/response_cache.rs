//! Cache of LLM replies, in memory and in the store: no process that shares the store pays for the same request twice.
//!
//! The key holds the month and the digest of the request. The digest covers model, prompt, schema and output limit, and so the
//! passages, instructions and expert knowledge in the prompt. Replies older than two months are not looked up.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use stemma_document::{Collection, blob_keys};
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::env::Millis;
use stemma_store::{Env, PortResult};

use stemma_retrieval::usage::CallStore;
use stemma_store::cache::Cache;

const CACHE_BYTES: usize = 16 << 20;
const CACHE_MS: Millis = 24 * 3_600_000;
// Months of 30 days since the epoch. Part of the keys in the store.
const MONTH_MS: Millis = 30 * 24 * 3_600_000;
const MAX_MONTHS: usize = 1_000;

pub(super) struct ResponseCache {
    env: Env,
    cache: Cache<String, Arc<Value>>,
    call_store: Option<CallStore>,
}

impl ResponseCache {
    pub(super) fn new(env: &Env, call_store: Option<CallStore>) -> Self {
        Self {
            env: env.clone(),
            cache: Cache::new(CACHE_BYTES, CACHE_MS),
            call_store,
        }
    }

    pub(super) fn call_store(&self) -> Option<&CallStore> {
        self.call_store.as_ref()
    }

    // A store error is a cache miss.
    pub(super) async fn get(&self, request: &str) -> Option<Arc<Value>> {
        let now_ms = self.env.now_ms();
        if let Some(cached) = self.cache.get(&request.to_owned(), now_ms) {
            return Some(cached);
        }
        let call_store = self.call_store.as_ref()?;
        let month = now_ms / MONTH_MS;
        let this = call_store.reply_key(month, request);
        let last = call_store.reply_key(month.saturating_sub(1), request);
        let (this, last) = futures::join!(call_store.blobs.get(&this), call_store.blobs.get(&last));
        let bytes = this.ok().flatten().or(last.ok().flatten())?;
        let reply = Arc::new(serde_json::from_slice::<Value>(&bytes).ok()?);
        self.cache
            .put(request.to_owned(), Arc::clone(&reply), bytes.len(), now_ms);
        Some(reply)
    }

    pub(super) async fn put(&self, request: &str, reply: Value) {
        let now_ms = self.env.now_ms();
        let bytes = Bytes::from(reply.to_string());
        self.cache
            .put(request.to_owned(), Arc::new(reply), bytes.len(), now_ms);
        if let Some(call_store) = &self.call_store {
            call_store
                .put(
                    &self.env,
                    &call_store.reply_key(now_ms / MONTH_MS, request),
                    bytes,
                )
                .await;
        }
    }
}

/// Keys of replies that are not looked up any more, and of those written up to the month of `removed_ms`, the last removal of a
/// document: they may quote it, and do not say which documents they quote.
pub async fn expired_replies(
    blobs: &dyn Blobs,
    collection: &Collection,
    removed_ms: Option<Millis>,
    now_ms: Millis,
) -> PortResult<Vec<String>> {
    let prefix = format!("{}replies/", blob_keys::collection_prefix(collection));
    let current_month = now_ms / MONTH_MS;
    let mut keys = Vec::new();
    for month in blobs.children(&prefix, None, MAX_MONTHS).await? {
        let number = month.trim_end_matches('/').parse::<u64>();
        // The current and the previous month are looked up.
        let is_expired = number.is_ok_and(|number| {
            number + 1 < current_month
                || removed_ms.is_some_and(|removed_ms| number <= removed_ms / MONTH_MS)
        });
        if is_expired {
            keys.extend(list_all(blobs, &format!("{prefix}{month}")).await?);
        }
    }
    Ok(keys)
}
