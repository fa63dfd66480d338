//! The open generation of each shard of an index in this process, and the current commit.

use std::sync::{Arc, PoisonError, RwLock};

use tantivy::schema::Schema;
use tokio::sync::watch;

use super::commit::{IndexCommit, ShardCommit};
use super::folder::IndexGeneration;
use super::searcher::IndexSearcher;
use super::shard::{ShardCount, ShardId};

type OpenShard = (IndexGeneration, Arc<ShardCommit>);

/// The open generation of each shard with its current commit. Each commit has a number of its own, whatever its shard.
pub(super) struct OpenShards {
    count: ShardCount,
    schema: Schema,
    // Numbers are given under the lock, so that two states of the shards never have the same newest number.
    shards: RwLock<Vec<Option<OpenShard>>>,
    newest: watch::Sender<u64>,
}

impl OpenShards {
    pub(super) fn new(count: ShardCount, schema: Schema) -> Self {
        Self {
            count,
            schema,
            shards: RwLock::new(count.shards().map(|_| None).collect()),
            newest: watch::Sender::new(0),
        }
    }

    pub(super) fn get(&self, shard: ShardId) -> Option<OpenShard> {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        shards[shard.number()].clone()
    }

    /// The commits of all shards; `None` before the first one.
    pub(super) fn current_commit(&self) -> Option<IndexCommit> {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        let commits: Vec<Option<Arc<ShardCommit>>> = shards
            .iter()
            .map(|open| Some(Arc::clone(&open.as_ref()?.1)))
            .collect();
        let searchers: Vec<_> = commits
            .iter()
            .flatten()
            .map(|commit| commit.searcher.clone())
            .collect();
        (!searchers.is_empty()).then(|| IndexCommit {
            searcher: IndexSearcher::new(self.schema.clone(), searchers),
            count: self.count,
            shards: commits,
            number: *self.newest.borrow(),
        })
    }

    /// Receives the number of each new commit.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Makes a commit of `generation` the current one of its shard, and gives it a number. Returns the current one, which is
    /// another one if a newer commit was published meanwhile.
    pub(super) fn publish(
        &self,
        shard: ShardId,
        generation: IndexGeneration,
        mut commit: ShardCommit,
    ) -> Arc<ShardCommit> {
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        let open = &mut shards[shard.number()];
        if let Some((current, newer)) = open
            && current.path == generation.path
            && newer.opstamp > commit.opstamp
        {
            return Arc::clone(newer);
        }
        commit.number = *self.newest.borrow() + 1;
        let commit = Arc::new(commit);
        *open = Some((generation, Arc::clone(&commit)));
        self.newest.send_replace(commit.number);
        commit
    }
}
