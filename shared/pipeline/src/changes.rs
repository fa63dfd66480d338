//! Writes change records, which readers of a collection follow.
//!
//! Readers poll the newest minutes, and do not return to minutes that are much older than the newest. A writer whose clock is
//! behind, or that was suspended, would write where nobody looks. So it looks for newer minutes after its record is in
//! place, and repeats the record there. A minute that appears after that look hides nothing: readers list all older ones
//! once more when they first see it. That holds for any clocks.

use stemma_document::{Change, ChangeKind, Collection, DocumentVersion, blob_keys};
use stemma_engine::blobs::{Blobs, put_json};
use stemma_engine::flow::RunState;
use stemma_engine::{Env, PortError, PortResult, Ports, RunHeader};

use crate::notify;

// Readers read the newest three minutes at each poll, so a record may be this much older than the newest.
const LEAD_MINUTES: u64 = 1;
const LIST_PAGE: usize = 1_000;

/// Writes a change record and announces it. Called after the object that it describes is written: a record must never
/// refer to a missing object.
pub(crate) async fn write_change(
    env: &Env,
    ports: &Ports,
    collection: &Collection,
    kind: ChangeKind,
) -> PortResult<()> {
    let change = Change {
        at_ms: env.now_ms(),
        kind,
    };
    let mut minute = change.at_ms / 60_000;
    loop {
        let key = blob_keys::change_key_in(collection, minute, change.at_ms, env.random());
        put_json(&ports.blobs, &key, &change).await?;
        match newer_minute(ports, collection, minute).await? {
            Some(newer) => minute = newer,
            None => break,
        }
    }
    notify::notify_change(ports, collection, &change).await;
    Ok(())
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

/// Records the state of a run that has no tree yet.
pub(crate) async fn record_state(
    env: &Env,
    ports: &Ports,
    run: &RunHeader,
    state: RunState<'_>,
) -> PortResult<()> {
    let invalid = |error: &dyn std::fmt::Display| {
        PortError::permanent("blobs.put", format!("{}: {error}", run.at.header))
    };
    let collection = blob_keys::parse_collection(&run.at.scope).map_err(|error| invalid(&error))?;
    let version: DocumentVersion =
        serde_json::from_value(run.input.clone()).map_err(|error| invalid(&error))?;
    let version = Box::new(version);
    let kind = match state {
        RunState::Claimed => ChangeKind::Claimed(version),
        RunState::Failed(record) => ChangeKind::Failed {
            version,
            failure: serde_json::to_value(record).map_err(|error| invalid(&error))?,
        },
    };
    write_change(env, ports, &collection, kind).await
}
