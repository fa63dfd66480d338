//! Settings of runs: frozen under their digest at submission, and loaded by digest everywhere else.

use std::collections::BTreeMap;
use std::sync::Arc;
use stemma_store::RetryingBlobs;
use stemma_store::blobs::Blobs;
use stemma_store::port_error::{PortError, PortResult};

use crate::stage::Work;
use parking_lot::Mutex;

fn settings_key(digest: &str) -> String {
    format!("settings/{digest}")
}

/// Stores settings and returns their digest.
pub async fn freeze<W: Work>(blobs: &RetryingBlobs, settings: &W::Settings) -> PortResult<String> {
    let json = serde_json::to_vec(settings).map_err(|error| {
        PortError::permanent("blobs.put", format!("settings cannot be written: {error}"))
    })?;
    let digest = settings_digest(&json);
    let key = settings_key(&digest);
    blobs.put(&key, json.into()).await?;
    Ok(digest)
}

fn settings_digest(json: &[u8]) -> String {
    blake3::hash(json).to_hex().as_str()[..32].to_string()
}

/// Caches settings by digest.
pub struct SettingsCache<W: Work>(Mutex<BTreeMap<String, Arc<W::Settings>>>);

impl<W: Work> Default for SettingsCache<W> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<W: Work> SettingsCache<W> {
    /// The settings with this digest; `None` when they are missing or this version cannot read them.
    pub async fn load(
        &self,
        blobs: &dyn Blobs,
        digest: &str,
    ) -> PortResult<Option<Arc<W::Settings>>> {
        // Not locked while the store is read: a slow read of one digest must not block the others.
        let cached = self.0.lock().get(digest).cloned();
        if cached.is_some() {
            return Ok(cached);
        }
        let key = settings_key(digest);
        let Some(json) = blobs.get(&key).await? else {
            return Ok(None);
        };
        // Submitters write them, too, and a message or a job names them.
        if settings_digest(&json) != digest {
            tracing::error!(digest, "settings do not have the digest that names them");
            return Ok(None);
        }
        match serde_json::from_slice::<W::Settings>(&json) {
            Ok(settings) => {
                let settings = Arc::new(settings);
                self.0.lock().insert(digest.into(), Arc::clone(&settings));
                Ok(Some(settings))
            }
            Err(error) => {
                tracing::warn!(digest, %error, "cannot read settings, probably of another version; leaving the task to others");
                Ok(None)
            }
        }
    }
}
