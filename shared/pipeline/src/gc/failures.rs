//! Failures of runs that a later version superseded.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::DocId;
use stemma_store::PortResult;
use stemma_store::blobs::{Blobs, list_all};

use super::history::{DocumentHistory, Horizon};
use super::listed_keys::ListedKeys;
use super::{GarbageObject, MAX_CONCURRENT_READS};

/// The runs that have failures, by document: few compared with the documents.
pub(super) struct FailedRuns(ListedKeys);

impl FailedRuns {
    pub(super) fn new() -> Self {
        Self(ListedKeys::children_of("runs/"))
    }

    /// The superseded failures of the documents of a page. Pages come in the order of documents.
    pub(super) async fn superseded(
        &mut self,
        blobs: &dyn Blobs,
        histories: &BTreeMap<DocId, DocumentHistory>,
        horizon: Horizon,
    ) -> PortResult<Vec<GarbageObject>> {
        let Some((last, _)) = histories.last_key_value() else {
            return Ok(Vec::new());
        };
        let mut runs = Vec::new();
        while let Some(name) = self.0.peek(blobs).await? {
            let run = document_and_version(name);
            if run.is_some_and(|(doc, _)| doc > *last) {
                break;
            }
            let history = run.and_then(|(doc, seq)| Some((histories.get(&doc)?, seq)));
            if history.is_some_and(|(history, seq)| is_superseded(history, seq, horizon)) {
                runs.push(name.to_string());
            }
            self.0.next(blobs).await?;
        }
        let keys = stream::iter(runs)
            .map(async |run: String| list_all(blobs, &format!("runs/{run}failed/")).await)
            .buffered(MAX_CONCURRENT_READS);
        let keys: Vec<Vec<String>> = keys.try_collect().await?;
        let garbage = keys
            .into_iter()
            .flatten()
            .map(|key| GarbageObject::new(key, "superseded failure"));
        Ok(garbage.collect())
    }
}

fn document_and_version(run: &str) -> Option<(DocId, u64)> {
    let (doc, seq) = run.trim_end_matches('/').rsplit_once('-')?;
    Some((doc.parse().ok()?, seq.parse().ok()?))
}

// Whether a later version of the run's document was published or removed some time ago, or two later ones ended.
fn is_superseded(history: &DocumentHistory, seq: u64, horizon: Horizon) -> bool {
    let newer = history.trees_after(seq).next();
    newer.is_some_and(|(_, at_ms)| horizon.is_past(at_ms)) || history.is_settled(seq, horizon)
}
