//! Writes change records, which readers of a collection follow.
//!
//! Readers poll the newest minutes, and do not return to minutes that are much older than the newest. A writer whose clock is
//! behind, or that was suspended, would write where nobody looks. So it looks for newer minutes after its record is in
//! place, and repeats the record there. A minute that appears after that look hides nothing: readers list all older ones
//! once more when they first see it. That holds for any clocks.

use std::collections::BTreeMap;
use std::error::Error;

use bytes::Bytes;
use futures::future;
use stemma_document::{Change, ChangeKind, Collection, DocumentVersion, blob_keys};
use stemma_engine::Ports;
use stemma_engine::flow::{RunRecord, RunState};
use stemma_store::blobs::Blobs;
use stemma_store::{PortError, PortResult};

use crate::notify;

// Readers read the newest three minutes at each poll, so a record may be this much older than the newest.
const LEAD_MINUTES: u64 = 1;
const LIST_PAGE: usize = 1_000;

/// Writes a change record and announces it. Called after the object that it describes is written: a record must never
/// refer to a missing object.
pub(crate) async fn write_change(
    ports: &Ports,
    collection: &Collection,
    kind: ChangeKind,
) -> PortResult<()> {
    let change = Change {
        at_ms: ports.env.now_ms(),
        kind,
    };
    write_record(ports, collection, std::slice::from_ref(&change)).await?;
    notify::notify_change(ports, collection, &change).await;
    Ok(())
}

// Changes that happened at the same time.
async fn write_record(
    ports: &Ports,
    collection: &Collection,
    changes: &[Change],
) -> PortResult<()> {
    let Some(first) = changes.first() else {
        return Ok(());
    };
    let record = Change::encode_record(changes)
        .map_err(|error| PortError::permanent("blobs.put", format!("change record: {error}")))?;
    let record = Bytes::from(record);
    let mut minute = first.at_ms / 60_000;
    loop {
        let key = blob_keys::change_key_in(collection, minute, first.at_ms, ports.env.random());
        ports.blobs.put(&key, record.clone()).await?;
        match newer_minute(ports, collection, minute).await? {
            Some(newer) => minute = newer,
            None => return Ok(()),
        }
    }
}

// The newest minute with records, if it is too new for readers to look into `minute`.
async fn newer_minute(
    ports: &Ports,
    collection: &Collection,
    minute: u64,
) -> PortResult<Option<u64>> {
    let prefix = blob_keys::changes_prefix(collection);
    let mut after = format!("{:010}", minute + LEAD_MINUTES + 1);
    let mut newest = None;
    loop {
        let page = ports
            .blobs
            .children(&prefix, Some(&after), LIST_PAGE)
            .await?;
        let minutes = page
            .iter()
            .filter_map(|name| name.trim_end_matches('/').parse().ok());
        newest = minutes.chain(newest).filter(|newer| *newer > minute).max();
        match page.last() {
            Some(last) if page.len() == LIST_PAGE => after.clone_from(last),
            _ => return Ok(newest),
        }
    }
}

/// Records states of runs that have no tree yet, in one record for each collection.
pub(crate) async fn record_states(ports: &Ports, records: &[RunRecord]) -> PortResult<()> {
    let at_ms = ports.env.now_ms();
    let mut changes: BTreeMap<Collection, Vec<Change>> = BTreeMap::new();
    for record in records {
        match state_change(record) {
            Ok((collection, kind)) => changes
                .entry(collection)
                .or_default()
                .push(Change { at_ms, kind }),
            // A header that cannot be described must not keep its run from ending.
            Err(error) => {
                tracing::warn!(run = %record.run.at.run, %error, "the state of a run is not recorded; lists lack it until its document is published");
            }
        }
    }
    let writes = changes
        .iter()
        .map(|(collection, changes)| write_record(ports, collection, changes));
    future::try_join_all(writes).await?;
    Ok(())
}

fn state_change(
    record: &RunRecord,
) -> Result<(Collection, ChangeKind), Box<dyn Error + Send + Sync>> {
    let collection = blob_keys::parse_collection(&record.run.at.scope)?;
    let version: DocumentVersion = serde_json::from_value(record.run.input.clone())?;
    let version = Box::new(version);
    let kind = match &record.state {
        RunState::Claimed => ChangeKind::Claimed(version),
        RunState::Failed(failure) => ChangeKind::Failed {
            version,
            failure: serde_json::to_value(failure)?,
        },
    };
    Ok((collection, kind))
}
