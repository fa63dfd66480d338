//! How what the ledger holds is written in Redis, and read back.

use std::str::FromStr;

use bytes::Bytes;
use serde::Deserialize;

use crate::env::Millis;
use crate::key::TaskKey;
use crate::ledger::{Entry, Lease, OpenTask, Retry};
use crate::queue::Lane;

/// Digits of a task key, which an entry of the log begins with.
const KEY_DIGITS: usize = 32;

/// What the scripts keep of a task without an outcome; times are strings there.
#[derive(Deserialize)]
pub(super) struct Task {
    stage: Option<String>,
    lane: Option<Lane>,
    published_ms: Option<String>,
    due_ms: Option<String>,
    attempts: u32,
    holder: Option<String>,
    until_ms: Option<String>,
    retry: Option<String>,
}

impl Task {
    /// The task as `why` shows it; `Ok(None)` while no one wants it.
    pub(super) fn open(self, key: TaskKey) -> Result<Option<OpenTask>, String> {
        let (Some(stage), Some(lane)) = (self.stage, self.lane) else {
            return Ok(None);
        };
        let time = |text: Option<String>| number::<Millis>(&text.unwrap_or_default());
        let lease = match self.holder {
            Some(holder) => Some((holder, time(self.until_ms)?)),
            None => None,
        };
        Ok(Some(OpenTask {
            key,
            stage,
            lane,
            published_ms: time(self.published_ms)?,
            due_ms: time(self.due_ms)?,
            attempts: self.attempts,
            lease,
            retry: self.retry.as_deref().map(read::<Retry>).transpose()?,
        }))
    }
}

/// A place in the log: how many entries are before it, and the first eight digits of the key of the last of them, by
/// which it is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) position: u64,
    mark: u32,
}

impl Cursor {
    /// The cursor as callers hold it.
    pub(super) fn of(number: u64) -> Self {
        Self {
            position: number & u64::from(u32::MAX),
            mark: (number >> 32) as u32,
        }
    }

    pub(super) fn number(self) -> u64 {
        u64::from(self.mark) << 32 | self.position
    }

    /// The digits that the entry at this place begins with.
    pub(super) fn mark(self) -> String {
        format!("{:08x}", self.mark)
    }

    /// The place behind `entries`, of which the first is at `position` + 1.
    pub(super) fn behind(position: u64, entries: &[(TaskKey, Entry)]) -> Option<Self> {
        let (key, _) = entries.last()?;
        let mark = u32::from_str_radix(&key.short(), 16).ok()?;
        Some(Self {
            position: position + entries.len() as u64,
            mark,
        })
    }
}

/// What became of a task, as it stands in the log behind its key.
pub(super) fn entry(entry: &Entry) -> Result<Vec<u8>, String> {
    match entry {
        Entry::Done(outcome) => Ok([b"d", outcome.as_ref()].concat()),
        Entry::Failed(record) => {
            let json = serde_json::to_vec(record).map_err(|error| error.to_string())?;
            Ok([b"f", json.as_slice()].concat())
        }
    }
}

/// An entry of the log.
pub(super) fn logged(line: Vec<u8>) -> Result<(TaskKey, Entry), String> {
    let (Some(key), Some(kind)) = (line.get(..KEY_DIGITS), line.get(KEY_DIGITS)) else {
        return Err(format!("an entry of {} bytes", line.len()));
    };
    let key = std::str::from_utf8(key)
        .map_err(|error| error.to_string())?
        .parse()?;
    let body = KEY_DIGITS + 1;
    match kind {
        b'd' => Ok((key, Entry::Done(Bytes::from(line).slice(body..)))),
        b'f' => Ok((
            key,
            Entry::Failed(
                serde_json::from_slice(&line[body..]).map_err(|error| error.to_string())?,
            ),
        )),
        kind => Err(format!("an entry of kind {kind}")),
    }
}

/// The answer to a request for a lease.
pub(super) fn lease(answer: &[String]) -> Result<Lease, String> {
    let words: Vec<&str> = answer.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ended"] => Ok(Lease::Ended),
        ["held", holder, until] => Ok(Lease::Held {
            holder: (*holder).into(),
            until_ms: number(until)?,
        }),
        ["granted", attempts, crashes, wanted] => {
            let attempts = number(attempts)?;
            let crashes = number(crashes)?;
            Ok(Lease::Granted {
                attempts,
                crashes,
                wanted: *wanted == "1",
            })
        }
        _ => Err(format!("a lease of {} words", words.len())),
    }
}

/// JSON.
pub(super) fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// A number in digits.
pub(super) fn number<T: FromStr>(digits: &str) -> Result<T, String> {
    digits
        .parse()
        .map_err(|_| format!("`{digits}` is not a number of that size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_knows_the_entry_it_stands_on() {
        let key = TaskKey::identity("form", 1).finish();
        let cursor = Cursor::behind(7, &[(key, Entry::Done(Bytes::new()))]).unwrap();
        assert_eq!((cursor.position, cursor.mark()), (8, key.short()));
        assert_eq!(Cursor::of(cursor.number()), cursor);
        assert_eq!((Cursor::of(0).position, Cursor::behind(7, &[])), (0, None));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let key = TaskKey::identity("form", 1).finish();
        let line = |rest: &str| format!("{key}{rest}").into_bytes();
        assert_eq!(
            logged(line("d{}")),
            Ok((key, Entry::Done(Bytes::from_static(b"{}"))))
        );
        for rest in ["", "x{}", "f{}", "f"] {
            assert!(logged(line(rest)).is_err(), "{rest}");
        }
        assert!(logged(b"short".to_vec()).is_err());
        for words in [vec!["held", "a"], vec!["granted", "1", "-1", "0"], vec![]] {
            assert!(
                lease(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).is_err(),
                "{words:?}"
            );
        }
    }
}
