//! Encoding of ledger data in Redis.

use std::str::FromStr;

use bytes::Bytes;
use serde::Deserialize;
use stemma_store::env::Millis;
use stemma_store::key::TaskKey;

use stemma_engine::ledger::{Lease, OpenTask, Retry, TaskOutcome};
use stemma_engine::queue::Lane;

// Length of a task key, which every log entry starts with.
const KEY_DIGITS: usize = 32;

// A task without an outcome, as the scripts store it. Times are strings there.
#[derive(Deserialize)]
pub(super) struct StoredTask {
    stage: Option<String>,
    lane: Option<Lane>,
    published_ms: Option<String>,
    due_ms: Option<String>,
    attempts: u32,
    holder: Option<String>,
    until_ms: Option<String>,
    retry: Option<String>,
}

impl StoredTask {
    /// `Ok(None)` if the task is leased but not requested.
    pub(super) fn into_open_task(self, key: TaskKey) -> Result<Option<OpenTask>, String> {
        let (Some(stage), Some(lane)) = (self.stage, self.lane) else {
            return Ok(None);
        };
        let lease = match self.holder {
            Some(holder) => Some((holder, parse_time(self.until_ms)?)),
            None => None,
        };
        Ok(Some(OpenTask {
            key,
            stage,
            lane,
            published_ms: parse_time(self.published_ms)?,
            due_ms: parse_time(self.due_ms)?,
            attempts: self.attempts,
            lease,
            retry: self.retry.as_deref().map(from_json::<Retry>).transpose()?,
        }))
    }
}

// A position in the log: the number of preceding entries, and the first eight digits of the last one's key. The digits
// reveal that the log was truncated and rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogCursor {
    pub(super) position: u64,
    mark: u32,
}

impl LogCursor {
    pub(super) fn from_number(number: u64) -> Self {
        Self {
            position: number & u64::from(u32::MAX),
            mark: (number >> 32) as u32,
        }
    }

    pub(super) fn number(self) -> u64 {
        u64::from(self.mark) << 32 | self.position
    }

    /// The digits that the entry at this position starts with.
    pub(super) fn mark(self) -> String {
        format!("{:08x}", self.mark)
    }

    /// The position after `entries`, the first of which is at `position` + 1.
    pub(super) fn after_entries(position: u64, entries: &[(TaskKey, TaskOutcome)]) -> Option<Self> {
        let (key, _) = entries.last()?;
        let mark = u32::from_str_radix(&key.short(), 16).ok()?;
        Some(Self {
            position: position + entries.len() as u64,
            mark,
        })
    }
}

pub(super) fn encode_outcome(entry: &TaskOutcome) -> Result<Vec<u8>, String> {
    match entry {
        TaskOutcome::Done(outcome) => Ok([b"d", outcome.as_ref()].concat()),
        TaskOutcome::Failed(record) => {
            let json = serde_json::to_vec(record).map_err(|error| error.to_string())?;
            Ok([b"f", json.as_slice()].concat())
        }
    }
}

pub(super) fn decode_log_entry(line: Vec<u8>) -> Result<(TaskKey, TaskOutcome), String> {
    let (Some(key), Some(kind)) = (line.get(..KEY_DIGITS), line.get(KEY_DIGITS)) else {
        return Err(format!("an entry of {} bytes", line.len()));
    };
    let key = std::str::from_utf8(key)
        .map_err(|error| error.to_string())?
        .parse()?;
    let body = KEY_DIGITS + 1;
    match kind {
        b'd' => Ok((key, TaskOutcome::Done(Bytes::from(line).slice(body..)))),
        b'f' => Ok((
            key,
            TaskOutcome::Failed(
                serde_json::from_slice(&line[body..]).map_err(|error| error.to_string())?,
            ),
        )),
        kind => Err(format!("an entry of kind {kind}")),
    }
}

pub(super) fn decode_lease(reply: &[String]) -> Result<Lease, String> {
    let words: Vec<&str> = reply.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ended"] => Ok(Lease::Ended),
        ["parked"] => Ok(Lease::Parked),
        ["outdated"] => Ok(Lease::Outdated),
        ["held", holder, until] => Ok(Lease::LeasedElsewhere {
            holder: (*holder).into(),
            until_ms: parse_number(until)?,
        }),
        ["granted", attempts, crashes, is_requested] => {
            let attempts = parse_number(attempts)?;
            let crashes = parse_number(crashes)?;
            Ok(Lease::Granted {
                attempts,
                crashes,
                is_requested: *is_requested == "1",
            })
        }
        _ => Err(format!("a lease of {} words", words.len())),
    }
}

pub(super) fn from_json<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

fn parse_time(text: Option<String>) -> Result<Millis, String> {
    parse_number(&text.unwrap_or_default())
}

pub(super) fn parse_number<T: FromStr>(digits: &str) -> Result<T, String> {
    digits
        .parse()
        .map_err(|_| format!("`{digits}` is not a number of that size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_round_trips_with_its_entry_mark() {
        let key = TaskKey::builder("form", 1).finish();
        let cursor =
            LogCursor::after_entries(7, &[(key, TaskOutcome::Done(Bytes::new()))]).unwrap();
        assert_eq!((cursor.position, cursor.mark()), (8, key.short()));
        assert_eq!(LogCursor::from_number(cursor.number()), cursor);
        assert_eq!(
            (
                LogCursor::from_number(0).position,
                LogCursor::after_entries(7, &[])
            ),
            (0, None)
        );
    }

    #[test]
    fn unreadable_values_are_errors() {
        let key = TaskKey::builder("form", 1).finish();
        let line = |rest: &str| format!("{key}{rest}").into_bytes();
        assert_eq!(
            decode_log_entry(line("d{}")),
            Ok((key, TaskOutcome::Done(Bytes::from_static(b"{}"))))
        );
        for rest in ["", "x{}", "f{}", "f"] {
            assert!(decode_log_entry(line(rest)).is_err(), "{rest}");
        }
        assert!(decode_log_entry(b"short".to_vec()).is_err());
        for words in [vec!["held", "a"], vec!["granted", "1", "-1", "0"], vec![]] {
            assert!(
                decode_lease(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).is_err(),
                "{words:?}"
            );
        }
    }
}
