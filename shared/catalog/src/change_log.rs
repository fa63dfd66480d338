//! Reads the change records of a collection.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Change, Collection, blob_keys};
use stemma_engine::PortResult;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;

// Clocks of assemblers may differ by this much; records written late are still found.
const SKEW_MINUTES: u64 = 10;
const READS_AT_ONCE: usize = 32;
const LIST_PAGE: usize = 10_000;

/// The change records already applied: all before minute `floor`, and those in `names`.
#[derive(Debug, Default)]
pub(crate) struct ChangeCursor {
    pub(crate) floor: u64,
    // `{minute}/{record}`, in minute `floor` or later.
    pub(crate) names: BTreeSet<String>,
}

impl ChangeCursor {
    pub(crate) fn add(&mut self, name: String) {
        self.names.insert(name);
    }

    // Names must stay in the cursor as long as late records can still appear in their minute. Neither a record of a
    // clock that is ahead nor a reader whose clock is ahead may raise the floor above the minutes that others write.
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
}

fn minute(name: &str) -> Option<u64> {
    name.split('/').next()?.parse().ok()
}

/// Reads records of minute `from` and later that `mark` does not cover, with their names. Unreadable records are logged
/// and returned as `None`, so that they are not read again.
pub(crate) async fn read_since(
    blobs: &dyn Blobs,
    collection: &Collection,
    mark: &ChangeCursor,
    from: u64,
) -> PortResult<Vec<(String, Option<Change>)>> {
    let prefix = blob_keys::changes_prefix(collection);
    let mut names = Vec::new();
    // Listing continues after this key; "{minute}" sorts right before "{minute}/".
    for folder in list_children(
        blobs,
        &prefix,
        Some(format!("{:010}", mark.floor.max(from))),
    )
    .await?
    {
        let keys = list_keys(blobs, &format!("{prefix}{folder}")).await?;
        let names_in_folder = keys
            .into_iter()
            .filter_map(|key| Some(key.strip_prefix(&prefix)?.to_owned()));
        names.extend(names_in_folder.filter(|name| !mark.names.contains(name)));
    }
    let read = names
        .into_iter()
        .map(|name| read_change(blobs, format!("{prefix}{name}"), name));
    stream::iter(read)
        .buffered(READS_AT_ONCE)
        .try_filter_map(|change| async { Ok(change) })
        .try_collect()
        .await
}

async fn read_change(
    blobs: &dyn Blobs,
    key: String,
    name: String,
) -> PortResult<Option<(String, Option<Change>)>> {
    let Some(bytes) = blobs.get(&key).await? else {
        return Ok(None);
    };
    match serde_json::from_slice::<Change>(&bytes) {
        Ok(change) => Ok(Some((name, Some(change)))),
        Err(error) => {
            tracing::warn!(key, %error, "change record cannot be read; its document may be missing from the catalog");
            Ok(Some((name, None)))
        }
    }
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

async fn list_keys(blobs: &dyn Blobs, prefix: &str) -> PortResult<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let page = blobs
            .list(prefix, all.last().map(String::as_str), LIST_PAGE)
            .await?;
        let last_page = page.len() < LIST_PAGE;
        all.extend(page);
        if last_page {
            return Ok(all);
        }
    }
}
