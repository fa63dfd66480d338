//! The health of a store and the services that work on it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join3;
use serde::Serialize;
use stemma_archive::{ApiError, Archive, IndexState};
use stemma_engine::dead_letter::{self, DeadLetter, ReplayOutcome};
use stemma_store::PortResult;

use crate::recent::ENTRY_BYTES;
use crate::{CheckReport, ClusterStatus, Operations, OperationsError, StoreWriter};

/// How long each part of the report is waited for.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);
// Letters that are read for a report; a page shows them all.
const DEAD_LETTERS: usize = 200;
// Letters among which one to replay is looked for, as `stemma dead-letters` does.
const MAX_LETTERS: usize = 10_000;

/// The health of a store and the services that work on it.
#[derive(Debug, Serialize)]
pub struct HealthReport {
    /// Whether queues and processes can be observed.
    pub live: bool,
    /// The process that writes to a folder store.
    pub writer: Option<StoreWriter>,
    #[serde(flatten)]
    pub cluster: ClusterStatus,
    /// Messages that could not be processed, latest first; at most 200. `null` when the store does not answer.
    pub dead_letters: Option<Vec<DeadLetter>>,
    /// Documents in the catalog.
    pub documents: u64,
    /// The index of this machine; `null` before it is opened.
    pub index: Option<IndexState>,
    /// Checks of the installation, at most a minute old; for those who may see all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<CheckReport>,
    /// Parts that could not be read in time.
    pub unreachable: Vec<UnreachablePart>,
}

/// A part of a report that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreachablePart {
    pub what: &'static str,
    pub error: String,
}

impl Operations {
    /// The health of the store, within two seconds. `all`: also dead letters of other collections and those that name no run,
    /// the tasks of processes, which do not say whose they are, and checks of the installation.
    pub async fn health(&self, archive: &Arc<Archive>, all: bool) -> HealthReport {
        let reader = Arc::clone(archive);
        let index = async move {
            let state = tokio::task::spawn_blocking(move || reader.index_state()).await;
            state
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())
        };
        let letters = async {
            let letters = self.known_dead_letters(all).await;
            letters.map_err(|error| error.to_string())
        };
        let (facts, letters, index) = join3(
            self.observe_at_once(),
            within("dead letters", letters),
            within("the index", index),
        )
        .await;
        let mut unreachable = Vec::new();
        let dead_letters = letters.map_err(|part| unreachable.push(part)).ok();
        let index = index.map_err(|part| unreachable.push(part)).ok().flatten();
        let mut cluster = ClusterStatus::new(facts, self.ports.env.now_ms());
        if !all {
            for process in &mut cluster.processes {
                process.tasks.clear();
            }
            for model in cluster.models.values_mut() {
                model
                    .batches
                    .retain(|batch| batch.collection == self.collection().as_str());
            }
        }
        HealthReport {
            live: self.is_live,
            writer: self.writer(),
            cluster,
            dead_letters,
            documents: archive.catalog().len() as u64,
            index,
            checks: all.then(|| self.latest_checks()).flatten(),
            unreachable,
        }
    }

    // The dead letters of a report. Those that were read less than a minute ago are not read again.
    async fn known_dead_letters(&self, all: bool) -> PortResult<Vec<DeadLetter>> {
        let known = &self.recent.letters;
        let now_ms = self.ports.env.now_ms();
        let mut letters = dead_letter::list_with(self.blobs(), DEAD_LETTERS, |key| async move {
            if let Some(letter) = known.get(&key, now_ms) {
                return Ok(Some(letter));
            }
            let letter = dead_letter::read(self.blobs(), &key).await?;
            if let Some(letter) = &letter {
                known.put(key, letter.clone(), ENTRY_BYTES, now_ms);
            }
            Ok(letter)
        })
        .await?;
        letters.retain(|letter| all || self.owns(letter));
        Ok(letters)
    }

    // The dead letters among the first `most` that a key may see, latest first.
    async fn dead_letters(&self, all: bool, most: usize) -> PortResult<Vec<DeadLetter>> {
        let mut letters = dead_letter::list(self.blobs(), most).await?;
        letters.retain(|letter| all || self.owns(letter));
        Ok(letters)
    }

    /// Queues the task of a dead letter again, and removes the letter.
    ///
    /// # Errors
    /// [`OperationsError`]: `dead_letter.unknown`, or a server does not answer.
    pub async fn replay_dead_letter(
        &self,
        id: &str,
        all: bool,
    ) -> Result<ReplayOutcome, OperationsError> {
        let letters = self.dead_letters(all, MAX_LETTERS).await?;
        let letter = letters.iter().find(|letter| letter.id == id);
        let letter = letter.ok_or_else(|| {
            let message = format!("unknown dead letter `{id}`");
            ApiError::new(
                "dead_letter.unknown",
                message,
                "list them with `stemma dead-letters list`",
            )
        })?;
        Ok(dead_letter::replay(&self.ports, letter).await?)
    }

    fn owns(&self, letter: &DeadLetter) -> bool {
        let scope = format!("c/{}/", self.collection());
        let run = letter.run.as_ref();
        run.is_some_and(|run| run.scope.starts_with(&scope))
    }
}

async fn within<T>(
    what: &'static str,
    reading: impl Future<Output = Result<T, String>>,
) -> Result<T, UnreachablePart> {
    let read = tokio::time::timeout(HEALTH_TIMEOUT, reading).await;
    let read = read.unwrap_or_else(|_| Err(format!("no answer within {HEALTH_TIMEOUT:?}")));
    read.map_err(|error| UnreachablePart { what, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_answer_in_time_says_so() {
        let silent = within::<()>("the index", std::future::pending());
        let part = silent.await.unwrap_err();
        assert_eq!(
            (part.what, part.error.as_str()),
            ("the index", "no answer within 2s")
        );
        assert_eq!(within("the index", async { Ok(1) }).await, Ok(1));
    }
}
