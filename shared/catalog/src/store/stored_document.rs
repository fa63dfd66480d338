//! A document as it is stored: the changes that lead to its state.

use serde::{Deserialize, Serialize};
use stemma_document::{Change, DocId};
use stemma_store::PortResult;

use super::tables::damaged;
use crate::document::CatalogDocument;
use crate::document_changes::DocumentChanges;

// Records have one to two kilobytes; higher levels save little of them.
const COMPRESSION_LEVEL: i32 = 1;
// An entry has some kilobytes. Guards against a damaged length.
const MAX_BYTES: usize = 64 << 20;

/// What a catalog stores about a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StoredDocument {
    pub(crate) changes: DocumentChanges,
    /// The version whose run is known to have begun.
    pub(crate) started: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Packed {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    started: Option<u64>,
    changes: Vec<Change>,
}

impl StoredDocument {
    /// The document as it is listed, without its label; `None` if it was removed.
    pub(crate) fn document(&self) -> Option<CatalogDocument> {
        let open = self.changes.open.as_ref();
        let has_started = open.is_some_and(|open| self.started == Some(open.claim.seq));
        CatalogDocument::from_changes(&self.changes, has_started)
    }

    pub(super) fn pack(&self, doc: DocId) -> PortResult<Vec<u8>> {
        let packed = Packed {
            started: self.started,
            changes: self.changes.to_changes(doc),
        };
        let json = serde_json::to_vec(&packed).map_err(damaged)?;
        zstd::bulk::compress(&json, COMPRESSION_LEVEL).map_err(damaged)
    }

    pub(super) fn unpack(bytes: &[u8]) -> PortResult<Self> {
        let length = zstd::zstd_safe::get_frame_content_size(bytes)
            .ok()
            .flatten();
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| *length <= MAX_BYTES);
        let length = length.ok_or_else(|| damaged("a stored document has no length"))?;
        let json = zstd::bulk::decompress(bytes, length).map_err(damaged)?;
        let packed: Packed = serde_json::from_slice(&json).map_err(damaged)?;
        let mut changes = DocumentChanges::default();
        for change in packed.changes {
            changes.apply(change);
        }
        Ok(Self {
            changes,
            started: packed.started,
        })
    }
}
