//! Replies that were paid for once: the same question is not asked twice, by any process that shares the store.
//!
//! A reply lies under the digest of its request, which holds model, prompt, shape and length (so also the texts that were
//! read, the strategy's instructions and the expert knowledge), under the month in which it came: what is older than two
//! months is not looked for.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use stemma_document::{Collection, blob_keys};
use stemma_engine::blobs::{Blobs, list_all};
use stemma_engine::env::Millis;
use stemma_engine::{Env, PortError};

use stemma_retrieval::cache::Cache;
use stemma_retrieval::usage::CallStore;

/// Replies held in memory: bytes, and for how long.
const CACHE_BYTES: usize = 16 << 20;
const CACHE_MS: Millis = 24 * 3_600_000;
/// A month, as the store counts them.
const MONTH_MS: Millis = 30 * 24 * 3_600_000;
/// Months that are looked through at once.
const MAX_MONTHS: usize = 1_000;

/// Replies by the digests of their requests.
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
            call_store: call_store,
        }
    }

    pub(super) fn call_store(&self) -> Option<&CallStore> {
        self.call_store.as_ref()
    }

    /// The reply to the request of this digest. A store that is away remembers nothing.
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

    /// Keeps a reply, in the store too.
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

/// Replies that are not looked for any more, and those that came before a document was removed, the last time at `removed_ms`:
/// they may quote it, and do not say of which documents they are.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn expired_replies(
    blobs: &dyn Blobs,
    collection: &Collection,
    removed_ms: Option<Millis>,
    now_ms: Millis,
) -> Result<Vec<String>, PortError> {
    let prefix = format!("{}replies/", blob_keys::collection_prefix(collection));
    let current_month = now_ms / MONTH_MS;
    let mut keys = Vec::new();
    for month in blobs.children(&prefix, None, MAX_MONTHS).await? {
        let number = month.trim_end_matches('/').parse::<u64>();
        let quotes =
            |number: u64| removed_ms.is_some_and(|removed_ms| number <= removed_ms / MONTH_MS);
        if number.is_ok_and(|number| number + 1 < current_month || quotes(number)) {
            keys.extend(list_all(blobs, &format!("{prefix}{month}")).await?);
        }
    }
    Ok(keys)
}
