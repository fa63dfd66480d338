//! Reads the change records of a collection.
//!
//! Records lie in minutes by the clock of their writer, which looks for newer minutes after it has written and repeats its
//! record there (`shared/pipeline/src/changes.rs`). A reader therefore polls the newest minutes, and returns to no minute
//! that is much older than the newest which it has seen. Neither depends on anybody's clock being right.

use std::collections::BTreeSet;
use std::ops::Bound;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Change, Collection, DocId, blob_keys};
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::{PortError, PortResult};

use crate::store::{CatalogStore, StoreBatch};

// Programs before this protocol write by their clocks alone, which may differ by this much.
const SKEW_MINUTES: u64 = 10;
// The newest minutes are polled again. Writers leave a record in a minute that is one older than the newest.
const POLLED_MINUTES: usize = 3;
const READS_AT_ONCE: usize = 32;
const LISTS_AT_ONCE: usize = 8;
// Records of one transaction: some megabytes. A first load waits for the disk after each.
const RECORDS_AT_ONCE: usize = 2_000;
pub(crate) const LIST_PAGE: usize = 10_000;

/// The change records already applied: all before minute `floor`, and those in `names`.
#[derive(Debug, Default)]
pub(crate) struct ChangeCursor {
    pub(crate) floor: u64,
    // `{minute}/{record}`, in minute `floor` or later.
    pub(crate) names: BTreeSet<String>,
}

/// How much of the records behind a cursor is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All minutes from the floor on.
    All,
    /// Minutes without a known record, and the newest ones.
    New,
}

impl ChangeCursor {
    // Names must stay in the cursor as long as late records can still appear in their minute. A record of a clock that is
    // ahead does not raise the floor above the minutes in which older programs write now.
    pub(crate) fn trimmed(&self, now_ms: Millis) -> ChangeCursor {
        let now = now_ms / 60_000;
        let newest = self
            .names
            .iter()
            .rev()
            .filter_map(|name| minute(name))
            .find(|minute| *minute <= now)
            .unwrap_or(self.floor);
        let floor = newest.saturating_sub(SKEW_MINUTES).max(self.floor);
        let recent = self
            .names
            .iter()
            .filter(|name| minute(name).is_some_and(|minute| minute >= floor));
        ChangeCursor {
            floor,
            names: recent.cloned().collect(),
        }
    }

    /// The newest minute with a known record, or the floor.
    pub(crate) fn newest_minute(&self) -> u64 {
        let newest = self.names.last().and_then(|name| minute(name));
        newest.unwrap_or(self.floor)
    }

    fn has_record_in(&self, folder: &str) -> bool {
        let from = (Bound::Included(folder), Bound::Unbounded);
        let first = self.names.range::<str, _>(from).next();
        first.is_some_and(|name| name.starts_with(folder))
    }
}

fn minute(name: &str) -> Option<u64> {
    name.split('/').next()?.parse().ok()
}

/// Applies the records that `cursor` does not cover to a store, and adds them to it. Returns whether a document changed.
/// Unreadable ones are logged and count as applied, so that they are not read again.
pub(crate) async fn apply_new(
    blobs: &dyn Blobs,
    collection: &Collection,
    cursor: &mut ChangeCursor,
    extent: Extent,
    store: &CatalogStore,
) -> PortResult<bool> {
    let prefix = blob_keys::changes_prefix(collection);
    // Listing continues after this key; "{minute}" sorts right before "{minute}/".
    let after = format!("{:010}", cursor.floor);
    let mut folders = list_children(blobs, &prefix, Some(after)).await?;
    if extent == Extent::New {
        let newest = folders.split_off(folders.len().saturating_sub(POLLED_MINUTES));
        folders.retain(|folder| !cursor.has_record_in(folder));
        folders.extend(newest);
    }
    let mut has_changed = false;
    for folders in folders.chunks(LISTS_AT_ONCE) {
        let new = new_names(blobs, &prefix, folders, cursor).await?;
        for names in new.chunks(RECORDS_AT_ONCE) {
            let batch = read_batch(blobs, &prefix, names).await?;
            let read = batch.names.clone();
            has_changed |= !apply_batch(store, batch).await?.is_empty();
            cursor.names.extend(read);
        }
    }
    Ok(has_changed)
}

/// Applies a batch where waiting for the disk holds up nobody. Returns the documents that changed.
pub(crate) async fn apply_batch(store: &CatalogStore, batch: StoreBatch) -> PortResult<Vec<DocId>> {
    let store = store.clone();
    let applied = tokio::task::spawn_blocking(move || store.apply(batch)).await;
    applied.map_err(|error| PortError::transient("catalog.store", error.to_string()))?
}

// The records in some minutes that the cursor does not have.
async fn new_names(
    blobs: &dyn Blobs,
    prefix: &str,
    folders: &[String],
    cursor: &ChangeCursor,
) -> PortResult<Vec<String>> {
    // Owned: a future that borrows from its closure's argument cannot be sent.
    let keys: Vec<String> = folders
        .iter()
        .map(|folder| format!("{prefix}{folder}"))
        .collect();
    let lists = keys.into_iter().map(|key| list_keys(blobs, key));
    let mut lists = stream::iter(lists).buffered(LISTS_AT_ONCE);
    let mut new = Vec::new();
    while let Some(keys) = lists.try_next().await? {
        let names = keys
            .into_iter()
            .filter_map(|key| Some(key.strip_prefix(prefix)?.to_owned()));
        new.extend(names.filter(|name| !cursor.names.contains(name)));
    }
    Ok(new)
}

async fn read_batch(blobs: &dyn Blobs, prefix: &str, names: &[String]) -> PortResult<StoreBatch> {
    let records = names.iter().cloned().map(|name| {
        let key = format!("{prefix}{name}");
        read_record(blobs, key, name)
    });
    let mut records = stream::iter(records).buffered(READS_AT_ONCE);
    let mut batch = StoreBatch {
        is_durable: names.len() == RECORDS_AT_ONCE,
        ..StoreBatch::default()
    };
    while let Some(record) = records.try_next().await? {
        if let Some((name, changes)) = record {
            batch.names.push(name);
            batch.changes.extend(changes);
        }
    }
    Ok(batch)
}

async fn read_record(
    blobs: &dyn Blobs,
    key: String,
    name: String,
) -> PortResult<Option<(String, Vec<Change>)>> {
    let Some(bytes) = blobs.get(&key).await? else {
        return Ok(None);
    };
    let mut changes = Vec::new();
    for change in Change::decode_record(&bytes) {
        match change {
            Ok(change) => changes.push(change),
            Err(error) => {
                tracing::warn!(key, %error, "change record cannot be read; its document may be missing from the catalog");
            }
        }
    }
    Ok(Some((name, changes)))
}

pub(crate) async fn list_children(
    blobs: &dyn Blobs,
    prefix: &str,
    mut after: Option<String>,
) -> PortResult<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let page = blobs.children(prefix, after.as_deref(), LIST_PAGE).await?;
        let last_page = page.len() < LIST_PAGE;
        all.extend(page);
        if last_page {
            return Ok(all);
        }
        after = all.last().cloned();
    }
}

pub(crate) async fn list_keys(blobs: &dyn Blobs, prefix: String) -> PortResult<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let page = blobs
            .list(&prefix, all.last().map(String::as_str), LIST_PAGE)
            .await?;
        let last_page = page.len() < LIST_PAGE;
        all.extend(page);
        if last_page {
            return Ok(all);
        }
    }
}
