//! Which open runs have stored a result: their documents are listed as running instead of queued.
//!
//! No record says so, because it would cost an object for each document. Only the newest claims are looked up.

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Collection, DocId, blob_keys};
use stemma_store::PortResult;
use stemma_store::blobs::Blobs;

// As many as a coordinator has open. Further ones count as queued.
pub(crate) const MAX_LOOKUPS: usize = 2_000;
const READS_AT_ONCE: usize = 16;

/// The queued documents whose runs have begun, with their versions.
pub(crate) async fn started_runs(
    blobs: &dyn Blobs,
    collection: &Collection,
    queued: Vec<(DocId, u64)>,
) -> PortResult<Vec<(DocId, u64)>> {
    let lookups = queued.into_iter().map(|(doc, seq)| async move {
        let artifacts = format!("{}/a/", blob_keys::document_scope(collection, doc));
        let found = blobs.children(&artifacts, None, 1).await?;
        PortResult::Ok((!found.is_empty()).then_some((doc, seq)))
    });
    stream::iter(lookups)
        .buffered(READS_AT_ONCE)
        .try_filter_map(|started| async move { Ok(started) })
        .try_collect()
        .await
}
