//! The collections a server answers from: a snapshot of each, replaced as documents are published.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use stemma_document::Collection;
use stemma_engine::blobs::Blobs;
use stemma_engine::{Env, PortError};
use stemma_search::follow::Follower;
use tokio_util::sync::CancellationToken;

use crate::Reader;

/// How often new change records are looked for: what is published shows within two seconds.
const GLANCE_EVERY: Duration = Duration::from_secs(1);
/// Glances after which everything is looked at: late records, documents in work.
const LOOK_AFTER: u32 = 30;
/// Making a catalogue anew may take up to this part of the time.
const SHARE: u32 = 2;

/// Readers by collection; those not read yet are missing.
pub(crate) struct Archive {
    collections: Vec<Collection>,
    readers: RwLock<HashMap<Collection, Arc<Reader>>>,
}

impl Archive {
    /// Reads the collections and keeps them up to date until `stop`, beside the caller.
    pub(crate) fn follow(
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collections: Vec<Collection>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let archive = Arc::new(Self { collections: collections.clone(), readers: RwLock::default() });
        for collection in collections {
            let (env, blobs, archive) = (env.clone(), Arc::clone(blobs), Arc::clone(&archive));
            let (stop, world) = (stop.clone(), env.clone());
            let following = async move { archive.keep_up(&env, &blobs, &collection, &stop).await };
            drop(world.spawn(following)); // ends with `stop`
        }
        archive
    }

    /// The collections there are.
    pub(crate) fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// The newest snapshot of a collection; `None` before it was read the first time.
    pub(crate) fn reader(&self, collection: &Collection) -> Option<Arc<Reader>> {
        self.readers.read().unwrap_or_else(PoisonError::into_inner).get(collection).cloned()
    }

    async fn keep_up(&self, env: &Env, blobs: &Arc<dyn Blobs>, collection: &Collection, stop: &CancellationToken) {
        let (mut follower, mut glances, mut heard) = (None, 0, true);
        loop {
            let began = Instant::now();
            glances += 1;
            let kept = self.refresh(env, blobs, collection, &mut follower, &mut glances).await;
            match &kept {
                Err(error) if heard => {
                    tracing::warn!(%collection, %error, "the catalogue cannot be read; answering from what is known");
                }
                Ok(()) if !heard => tracing::info!(%collection, "the catalogue can be read again"),
                _ => {}
            }
            heard = kept.is_ok();
            let pause = GLANCE_EVERY.saturating_sub(began.elapsed()).max(began.elapsed() * SHARE);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = env.sleep(pause.min(30 * GLANCE_EVERY)) => {}
            }
        }
    }

    async fn refresh(
        &self,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        follower: &mut Option<Follower>,
        glances: &mut u32,
    ) -> Result<(), PortError> {
        let changed = match follower {
            None => {
                let (new, catalogue) = Follower::begin(blobs.as_ref(), collection.clone()).await?;
                *follower = Some(new);
                Some(catalogue)
            }
            Some(follower) if *glances >= LOOK_AFTER => {
                *glances = 0;
                follower.look(blobs.as_ref()).await?
            }
            Some(follower) => follower.glance(blobs.as_ref(), env.now_ms()).await?,
        };
        if let Some(catalogue) = changed {
            let reader = Arc::new(Reader::over(Arc::clone(blobs), collection.clone(), catalogue));
            self.readers.write().unwrap_or_else(PoisonError::into_inner).insert(collection.clone(), reader);
        }
        Ok(())
    }
}
