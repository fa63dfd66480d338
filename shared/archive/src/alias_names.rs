//! Further names of issuers, from the file `aliases.toml` of a collection.

use std::sync::Arc;

use parking_lot::RwLock;
use stemma_document::{Collection, Digest, blob_keys};
use stemma_retrieval::alias_file::AliasFile;
use stemma_store::blobs::Blobs;
use stemma_store::{Env, PortError, PortResult};

// A changed file is in effect after this time.
const REREAD_MS: u64 = 10_000;

/// The names as last read.
#[derive(Clone)]
pub(crate) struct AliasNames {
    read_at_ms: u64,
    pub(crate) digest: Digest,
    pub(crate) names: Arc<AliasFile>,
}

/// Reads the file when it is needed, and again when some time has passed.
pub(crate) struct AliasReader {
    env: Env,
    blobs: Arc<dyn Blobs>,
    key: String,
    last: RwLock<Option<AliasNames>>,
}

impl AliasReader {
    pub(crate) fn new(env: Env, blobs: &Arc<dyn Blobs>, collection: &Collection) -> Self {
        Self {
            env,
            blobs: Arc::clone(blobs),
            key: blob_keys::aliases_key(collection),
            last: RwLock::new(None),
        }
    }

    /// The names. A file that cannot be read any more leaves the names as they were.
    ///
    /// # Errors
    /// The error of the first reading: of the store, or with the file and the line.
    pub(crate) async fn names(&self) -> PortResult<AliasNames> {
        let last = self.last.read().clone();
        let now_ms = self.env.now_ms();
        if let Some(last) = last
            .as_ref()
            .filter(|last| now_ms < last.read_at_ms + REREAD_MS)
        {
            return Ok(last.clone());
        }
        let names = match (self.read(now_ms).await, last) {
            (Ok(names), _) => names,
            (Err(error), None) => return Err(error),
            (Err(error), Some(last)) => {
                tracing::warn!(%error, "aliases cannot be read; the earlier ones stay in use");
                AliasNames {
                    read_at_ms: now_ms,
                    ..last
                }
            }
        };
        *self.last.write() = Some(names.clone());
        Ok(names)
    }

    async fn read(&self, read_at_ms: u64) -> PortResult<AliasNames> {
        let bytes = self.blobs.get(&self.key).await?.unwrap_or_default();
        let invalid = |message: String| PortError::permanent("aliases.invalid", message);
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| invalid(format!("{}: {error}", self.key)))?;
        let names =
            AliasFile::parse(text, &self.key).map_err(|error| invalid(error.to_string()))?;
        Ok(AliasNames {
            read_at_ms,
            digest: Digest::from_content(&bytes),
            names: Arc::new(names),
        })
    }
}
