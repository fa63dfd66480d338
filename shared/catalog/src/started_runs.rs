//! Which open runs have stored a result: their documents are listed as running instead of queued.
//!
//! No record says so, because it would cost an object for each document. Only the newest claims are looked up.

use std::collections::HashMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Collection, DocId, blob_keys};
use stemma_engine::PortResult;
use stemma_engine::blobs::Blobs;

use crate::latest_changes::LatestChanges;

// As many as a coordinator has open. Further ones count as queued.
const MAX_LOOKUPS: usize = 2_000;
const READS_AT_ONCE: usize = 16;

/// Open runs that have begun, as document and version.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartedRuns {
    seqs: HashMap<DocId, u64>,
}

impl StartedRuns {
    pub(crate) fn contains(&self, doc: DocId, seq: u64) -> bool {
        self.seqs.get(&doc) == Some(&seq)
    }

    /// Looks up the newest queued documents, and forgets runs that ended. Returns the documents that have begun since.
    pub(crate) async fn refresh(
        &mut self,
        blobs: &dyn Blobs,
        collection: &Collection,
        current: &LatestChanges,
    ) -> PortResult<Vec<DocId>> {
        self.seqs.retain(|doc, _| current.queued.contains(doc));
        let queued = current.queued.iter().filter_map(|doc| {
            let open = current.latest.get(doc)?.open.as_ref()?;
            let seq = open.claim.seq;
            (!self.contains(*doc, seq)).then_some((open.claimed_ms, *doc, seq))
        });
        let mut queued: Vec<_> = queued.collect();
        queued.sort_unstable_by(|a, b| b.cmp(a));
        queued.truncate(MAX_LOOKUPS);
        let lookups = queued.into_iter().map(|(_, doc, seq)| async move {
            let artifacts = format!("{}/a/", blob_keys::document_scope(collection, doc));
            let found = blobs.children(&artifacts, None, 1).await?;
            PortResult::Ok((!found.is_empty()).then_some((doc, seq)))
        });
        let started: Vec<(DocId, u64)> = stream::iter(lookups)
            .buffered(READS_AT_ONCE)
            .try_filter_map(|started| async move { Ok(started) })
            .try_collect()
            .await?;
        self.seqs.extend(started.iter().copied());
        Ok(started.into_iter().map(|(doc, _)| doc).collect())
    }
}
