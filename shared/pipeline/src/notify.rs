//! Publishes change events to external listeners. Events are hints; the change records are the truth
//! (`docs/REINDEX.md`).

use serde::Serialize;
use stemma_document::{Change, ChangeKind, Collection, DocId};
use stemma_engine::Ports;
use stemma_engine::message::encode;

#[derive(Serialize)]
struct ChangeEvent<'a> {
    event: &'static str,
    collection: &'a Collection,
    doc: DocId,
    seq: u64,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gaps: Option<usize>,
}

/// Announces a change. A failed announcement is not repeated, because the change record already holds the
/// change.
pub(crate) async fn notify_change(ports: &Ports, collection: &Collection, change: &Change) {
    let event = change_event(collection, change);
    let sent = match encode(&event) {
        Ok(message) => ports.queue.raw().announce(event.event, message).await,
        Err(error) => Err(error),
    };
    if let Err(error) = sent {
        tracing::info!(event = event.event, doc = %event.doc, %error, "change event not published; its change record is complete");
    }
}

fn change_event<'a>(collection: &'a Collection, change: &'a Change) -> ChangeEvent<'a> {
    let at_ms = change.at_ms;
    match &change.kind {
        ChangeKind::Published(entry) => ChangeEvent {
            event: "document.published",
            collection,
            doc: entry.version.doc,
            seq: entry.version.seq,
            at_ms,
            uri: Some(&entry.version.uri),
            path: Some(&entry.version.path),
            gaps: Some(entry.gaps.len()),
        },
        ChangeKind::Removed { doc, seq } => ChangeEvent {
            event: "document.removed",
            collection,
            doc: *doc,
            seq: *seq,
            at_ms,
            uri: None,
            path: None,
            gaps: None,
        },
    }
}
