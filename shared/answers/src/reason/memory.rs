//! Replies that were paid for once: the same question is not asked twice, by any process that shares the store.
//!
//! A reply lies under the digest of its request, which holds model, prompt, shape and length (so also the texts that were
//! read, the strategy's instructions and the expert knowledge), under the month in which it came: what is older than two
//! months is not looked for.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use stemma_document::{Collection, layout};
use stemma_engine::blobs::{Blobs, list_all};
use stemma_engine::env::Millis;
use stemma_engine::{Env, PortError};

use stemma_retrieval::cache::Cache;
use stemma_retrieval::paid::Shelf;

/// Replies held in memory: bytes, and for how long.
const HELD_BYTES: usize = 16 << 20;
const HELD_MS: Millis = 24 * 3_600_000;
/// A month, as the store counts them.
const MONTH_MS: Millis = 30 * 24 * 3_600_000;
/// Months that are looked through at once.
const MONTHS: usize = 1_000;

/// Replies by the digests of their requests.
pub(super) struct Memory {
    env: Env,
    held: Cache<String, Arc<Value>>,
    shelf: Option<Shelf>,
}

impl Memory {
    pub(super) fn new(env: &Env, shelf: Option<Shelf>) -> Self {
        Self {
            env: env.clone(),
            held: Cache::new(HELD_BYTES, HELD_MS),
            shelf,
        }
    }

    pub(super) fn shelf(&self) -> Option<&Shelf> {
        self.shelf.as_ref()
    }

    /// The reply to the request of this digest. A store that is away remembers nothing.
    pub(super) async fn recall(&self, request: &str) -> Option<Arc<Value>> {
        let now_ms = self.env.now_ms();
        if let Some(held) = self.held.get(&request.to_owned(), now_ms) {
            return Some(held);
        }
        let shelf = self.shelf.as_ref()?;
        let month = now_ms / MONTH_MS;
        let this = shelf.reply(month, request);
        let last = shelf.reply(month.saturating_sub(1), request);
        let (this, last) = futures::join!(shelf.blobs.get(&this), shelf.blobs.get(&last));
        let bytes = this.ok().flatten().or(last.ok().flatten())?;
        let reply = Arc::new(serde_json::from_slice::<Value>(&bytes).ok()?);
        self.held
            .put(request.to_owned(), Arc::clone(&reply), bytes.len(), now_ms);
        Some(reply)
    }

    /// Keeps a reply, in the store too.
    pub(super) async fn keep(&self, request: &str, reply: Value) {
        let now_ms = self.env.now_ms();
        let bytes = Bytes::from(reply.to_string());
        self.held
            .put(request.to_owned(), Arc::new(reply), bytes.len(), now_ms);
        if let Some(shelf) = &self.shelf {
            shelf
                .put(&self.env, &shelf.reply(now_ms / MONTH_MS, request), bytes)
                .await;
        }
    }
}

/// Replies that are not looked for any more, and those that came before a document was removed, the last time at `removed_ms`:
/// they may quote it, and do not say of which documents they are.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn forgotten(
    blobs: &dyn Blobs,
    collection: &Collection,
    removed_ms: Option<Millis>,
    now_ms: Millis,
) -> Result<Vec<String>, PortError> {
    let prefix = format!("{}replies/", layout::collection_prefix(collection));
    let kept = now_ms / MONTH_MS;
    let mut keys = Vec::new();
    for month in blobs.children(&prefix, None, MONTHS).await? {
        let number = month.trim_end_matches('/').parse::<u64>();
        let quotes =
            |number: u64| removed_ms.is_some_and(|removed_ms| number <= removed_ms / MONTH_MS);
        if number.is_ok_and(|number| number + 1 < kept || quotes(number)) {
            keys.extend(list_all(blobs, &format!("{prefix}{month}")).await?);
        }
    }
    Ok(keys)
}
