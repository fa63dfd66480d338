//! Lists a long log by many requests at once. A store lists in order, so a part of the log that turns out to be long is
//! split by time, and the parts are listed concurrently.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use stemma_store::PortResult;
use stemma_store::blobs::Blobs;

use super::{CONCURRENT_READS, PAGE_SIZE};

// A part of the log: the names after `after`, up to a minute.
struct LogRange {
    after: String,
    end_minute: Option<u64>,
}

/// Calls `each` with the keys below `prefix` (`…/calls/`) from `since_minute` on, in pages of any order. `now_minute` divides the work;
/// later records are listed as well.
pub(super) async fn for_each_page(
    blobs: &dyn Blobs,
    prefix: &str,
    (since_minute, now_minute): (u64, u64),
    mut each: impl FnMut(Vec<String>) + Send,
) -> PortResult<()> {
    let next_minute = since_minute.max(now_minute) + 1;
    let mut ranges = vec![
        LogRange {
            after: minute_key(prefix, next_minute),
            end_minute: None,
        },
        LogRange {
            after: minute_key(prefix, since_minute),
            end_minute: Some(next_minute),
        },
    ];
    let mut pages = FuturesUnordered::new();
    loop {
        while pages.len() < CONCURRENT_READS
            && let Some(range) = ranges.pop()
        {
            pages.push(async move {
                let names = blobs.list(prefix, Some(&range.after), PAGE_SIZE).await?;
                PortResult::Ok((range, names))
            });
        }
        let Some(page) = pages.next().await else {
            return Ok(());
        };
        let (range, mut names) = page?;
        let mut is_last = names.len() < PAGE_SIZE;
        if let Some(end) = range.end_minute {
            let end = minute_key(prefix, end);
            let below = names.partition_point(|name| *name < end);
            is_last |= below < names.len();
            names.truncate(below);
        }
        if let (false, Some(last)) = (is_last, names.last()) {
            ranges.extend(rest(prefix, last, range.end_minute));
        }
        each(names);
    }
}

fn minute_key(prefix: &str, minute: u64) -> String {
    format!("{prefix}{minute:010}")
}

// What is left of a range after `last`, in two halves where it has several minutes.
fn rest(prefix: &str, last: &str, end_minute: Option<u64>) -> Vec<LogRange> {
    let minute = last
        .strip_prefix(prefix)
        .and_then(|name| name.split('/').next())
        .and_then(|minute| minute.parse::<u64>().ok());
    let middle = minute.zip(end_minute).map(|(minute, end)| {
        let next = minute + 1;
        next + end.saturating_sub(next) / 2
    });
    let after = last.to_string();
    match middle.filter(|middle| end_minute.is_some_and(|end| *middle < end)) {
        None => vec![LogRange { after, end_minute }],
        Some(middle) => vec![
            LogRange {
                after: minute_key(prefix, middle),
                end_minute,
            },
            LogRange {
                after,
                end_minute: Some(middle),
            },
        ],
    }
}
