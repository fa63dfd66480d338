//! Where a collection that was interrupted goes on: a record of the last document that it had done with, and of its start.
//!
//! The next collection judges the other documents as of that start, so that it is the same as if it had not been interrupted.
//! A record of a week ago is too old: too much has become superfluous since, and all documents are looked at again.

use stemma_document::{Collection, DocId};
use stemma_store::PortResult;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::env::Millis;

use super::is_past_grace;

/// Prefix of the records.
pub(super) fn positions_prefix(collection: &Collection) -> String {
    format!("c/{collection}/gc/")
}

pub(super) struct Position {
    /// When the collection began.
    pub(super) started_ms: Millis,
    /// The last document that it had done with.
    pub(super) after: Option<DocId>,
    prefix: String,
    // The records that are valid.
    keys: Vec<String>,
}

impl Position {
    /// The position of an interrupted collection, or else of a new one.
    pub(super) async fn load(
        blobs: &dyn Blobs,
        collection: &Collection,
        now_ms: Millis,
    ) -> PortResult<Self> {
        let prefix = positions_prefix(collection);
        let keys = list_all(blobs, &prefix).await?;
        let newest = keys
            .iter()
            .filter_map(|key| {
                let (started_ms, doc) = key[prefix.len()..].split_once('~')?;
                Some((
                    started_ms.parse::<Millis>().ok()?,
                    doc.parse::<DocId>().ok()?,
                ))
            })
            .max();
        let newest = newest.filter(|(started_ms, _)| !is_past_grace(*started_ms, now_ms));
        Ok(Self {
            started_ms: newest.map_or(now_ms, |(started_ms, _)| started_ms),
            after: newest.map(|(_, doc)| doc),
            prefix,
            keys,
        })
    }

    /// Records that the documents up to `doc` are done with.
    pub(super) async fn save(&mut self, blobs: &dyn Blobs, doc: DocId) -> PortResult<()> {
        let key = format!("{}{:013}~{doc}", self.prefix, self.started_ms);
        blobs.put(&key, "done".into()).await?;
        self.forget(blobs).await?;
        self.keys.push(key);
        Ok(())
    }

    /// Removes all records.
    pub(super) async fn forget(&mut self, blobs: &dyn Blobs) -> PortResult<()> {
        for key in self.keys.drain(..) {
            blobs.delete(&key).await?;
        }
        Ok(())
    }
}
