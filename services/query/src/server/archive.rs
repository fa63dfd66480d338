//! The collections a server answers from: a snapshot of each, replaced as documents are published.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use stemma_answers::reason::AnswerModel;
use stemma_catalog::follow::Follower;
use stemma_document::Collection;
use stemma_engine::blobs::Blobs;
use stemma_engine::{Env, PortError};
use stemma_retrieval::meaning::Meaning;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{Kept, Reader};

/// How often new change records are looked for: what is published shows within two seconds.
const GLANCE_EVERY: Duration = Duration::from_millis(700);
/// Glances after which everything is looked at: late records, documents in work.
const LOOK_AFTER: u32 = 40;
/// Making a catalogue anew may take up to this part of the time.
const SHARE: u32 = 2;

/// Readers by collection; those not read yet are missing.
pub(crate) struct Archive {
    collections: Vec<Collection>,
    kept: HashMap<Collection, Arc<Kept>>,
    /// Wakes who follows a collection.
    wakes: HashMap<Collection, Notify>,
    readers: RwLock<HashMap<Collection, Arc<Reader>>>,
}

impl Archive {
    /// Reads the collections and keeps them up to date until `stop`, beside the caller.
    pub(crate) fn follow(
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collections: Vec<Collection>,
        meaning: &[(Collection, Arc<Meaning>)],
        cache: &Path,
        model: Option<&AnswerModel>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let kept = |collection: &Collection| {
            let meaning = meaning
                .iter()
                .find(|(of, _)| of == collection)
                .map(|(_, meaning)| Arc::clone(meaning));
            Kept::equipped(env.clone(), cache, blobs, collection, meaning, model)
        };
        let kept = collections
            .iter()
            .map(|collection| (collection.clone(), kept(collection)))
            .collect();
        let wakes = collections
            .iter()
            .map(|collection| (collection.clone(), Notify::new()))
            .collect();
        let archive = Arc::new(Self {
            collections: collections.clone(),
            kept,
            wakes,
            readers: RwLock::default(),
        });
        for collection in collections {
            let world = env.clone();
            let followed = watch::Sender::new(());
            let changed = followed.subscribe();
            let ended = stop.clone();
            let readers = Arc::clone(&archive);
            let of = collection.clone();
            let clock = env.clone();
            let indexing = async move { readers.keep_index(&clock, &of, changed, &ended).await };
            drop(world.spawn(indexing)); // ends with `stop`
            let env = env.clone();
            let blobs = Arc::clone(blobs);
            let archive = Arc::clone(&archive);
            let stop = stop.clone();
            let following = async move {
                archive
                    .keep_up(&env, &blobs, &collection, &followed, &stop)
                    .await
            };
            drop(world.spawn(following)); // ends with `stop`
        }
        archive
    }

    /// Brings the index up to the newest catalogue whenever there is one. Answers about documents do not wait for it.
    async fn keep_index(
        &self,
        env: &Env,
        collection: &Collection,
        mut changed: watch::Receiver<()>,
        stop: &CancellationToken,
    ) {
        let Some(kept) = self.kept.get(collection) else {
            return;
        };
        if let Err(error) = kept.corpus().open().await {
            tracing::warn!(%collection, %error, "the index cannot be opened");
        }
        loop {
            let mut again = false;
            if let Some(reader) = self.reader(collection) {
                let began = Instant::now();
                match kept.corpus().bring_up_to(reader.catalogue(), &|_| {}).await {
                    Ok(brought) if brought.behind > 0 => again = true, // another process of this machine is at it
                    Ok(brought) if brought.entered + brought.removed > 0 => {
                        let entered = brought.entered;
                        let removed = brought.removed;
                        let millis = began.elapsed().as_millis();
                        tracing::info!(%collection, entered, removed, millis, "index brought up to date");
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%collection, %error, "the index cannot be brought up to date; answering from what it has");
                        again = true;
                    }
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = env.sleep(GLANCE_EVERY), if again => {}
                heard = changed.changed() => if heard.is_err() { return },
            }
        }
    }

    /// The collections there are.
    pub(crate) fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// The newest snapshot of a collection; `None` before it was read the first time.
    pub(crate) fn reader(&self, collection: &Collection) -> Option<Arc<Reader>> {
        self.readers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(collection)
            .cloned()
    }

    /// Has a collection looked through soon: something was done to it from here.
    pub(crate) fn look_soon(&self, collection: &Collection) {
        if let Some(wake) = self.wakes.get(collection) {
            wake.notify_one();
        }
    }

    async fn woken(&self, collection: &Collection) {
        match self.wakes.get(collection) {
            Some(wake) => wake.notified().await,
            None => std::future::pending().await,
        }
    }

    async fn keep_up(
        &self,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        followed: &watch::Sender<()>,
        stop: &CancellationToken,
    ) {
        let mut follower = None;
        let mut glances = 0;
        let mut heard = true;
        loop {
            let began = Instant::now();
            glances += 1;
            let kept = self
                .refresh(env, blobs, collection, &mut follower, &mut glances)
                .await;
            if let Ok(true) = kept {
                followed.send_replace(());
            }
            match &kept {
                Err(error) if heard => {
                    tracing::warn!(%collection, %error, "the catalogue cannot be read; answering from what is known");
                }
                Ok(_) if !heard => tracing::info!(%collection, "the catalogue can be read again"),
                _ => {}
            }
            heard = kept.is_ok();
            let pause = GLANCE_EVERY
                .saturating_sub(began.elapsed())
                .max(began.elapsed() * SHARE);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.woken(collection) => glances = LOOK_AFTER,
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
    ) -> Result<bool, PortError> {
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
        let Some(catalogue) = changed else {
            return Ok(false);
        };
        let mut reader = Reader::over(Arc::clone(blobs), collection.clone(), catalogue);
        if let Some(kept) = self.kept.get(collection) {
            reader = reader.keeping(Arc::clone(kept));
        }
        self.readers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(collection.clone(), Arc::new(reader));
        Ok(true)
    }
}
