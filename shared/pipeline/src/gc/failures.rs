//! Failures of runs that a later version superseded.

use std::collections::BTreeMap;

use super::history::{DocumentHistory, Horizon};
use super::{GarbageObject, MAX_CONCURRENT_READS};
use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::DocId;
use stemma_engine::PortResult;
use stemma_engine::blobs::{Blobs, list_all};

const PAGE: usize = 1_000;

/// Walks the runs that have failures: few beside the documents.
pub(super) async fn superseded(
    blobs: &dyn Blobs,
    histories: &BTreeMap<DocId, DocumentHistory>,
    horizon: Horizon,
) -> PortResult<Vec<GarbageObject>> {
    let mut garbage = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = blobs.children("runs/", after.as_deref(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(garbage);
        };
        after = Some(last);
        let runs = page
            .into_iter()
            .filter(|run| is_superseded(run.trim_end_matches('/'), histories, horizon));
        let mut keys = stream::iter(runs)
            .map(async |run: String| list_all(blobs, &format!("runs/{run}failed/")).await)
            .buffered(MAX_CONCURRENT_READS);
        while let Some(keys) = keys.try_next().await? {
            garbage.extend(keys.into_iter().map(|key| GarbageObject {
                key,
                reason: "superseded failure",
            }));
        }
    }
}

// Whether a later version of the run's document was published or removed some time ago, or two later ones ended.
fn is_superseded(
    run: &str,
    histories: &BTreeMap<DocId, DocumentHistory>,
    horizon: Horizon,
) -> bool {
    let parts = run
        .rsplit_once('-')
        .and_then(|(doc, seq)| Some((doc.parse::<DocId>().ok()?, seq.parse::<u64>().ok()?)));
    let Some((history, seq)) = parts.and_then(|(doc, seq)| Some((histories.get(&doc)?, seq)))
    else {
        return false;
    };
    let newer = history.trees_after(seq).next();
    newer.is_some_and(|(_, at_ms)| horizon.is_past(at_ms)) || history.is_settled(seq, horizon)
}
