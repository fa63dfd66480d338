//! Publishes change events to external listeners. Events are hints; the change records are the truth
//! (`docs/OPERATING.md`).

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
    let Some(event) = change_event(collection, change) else {
        return;
    };
    let sent = match encode(&event) {
        Ok(message) => ports.queue.raw().announce(event.event, message).await,
        Err(error) => Err(error),
    };
    if let Err(error) = sent {
        tracing::info!(event = event.event, doc = %event.doc, %error, "change event not published; its change record is complete");
    }
}

// `None` for changes that listeners are not told: the states of open runs.
fn change_event<'a>(collection: &'a Collection, change: &'a Change) -> Option<ChangeEvent<'a>> {
    let (event, entry) = match &change.kind {
        ChangeKind::Published(entry) => ("document.published", Some(entry)),
        ChangeKind::Removed { .. } => ("document.removed", None),
        ChangeKind::Claimed(_) | ChangeKind::Failed { .. } => return None,
    };
    let (doc, seq) = change.kind.version();
    Some(ChangeEvent {
        event,
        collection,
        doc,
        seq,
        at_ms: change.at_ms,
        uri: entry.map(|entry| entry.version.uri.as_str()),
        path: entry.map(|entry| entry.version.path.as_str()),
        gaps: entry.map(|entry| entry.gaps.len()),
    })
}
