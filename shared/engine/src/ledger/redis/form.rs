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
        let (Some(stage), Some(lane)) = (self.stage, self.lane) else { return Ok(None) };
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
    let key = std::str::from_utf8(key).map_err(|error| error.to_string())?.parse()?;
    let body = KEY_DIGITS + 1;
    match kind {
        b'd' => Ok((key, Entry::Done(Bytes::from(line).slice(body..)))),
        b'f' => Ok((key, Entry::Failed(serde_json::from_slice(&line[body..]).map_err(|error| error.to_string())?))),
        kind => Err(format!("an entry of kind {kind}")),
    }
}

/// The answer to a request for a lease.
pub(super) fn lease(answer: &[String]) -> Result<Lease, String> {
    let words: Vec<&str> = answer.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ended"] => Ok(Lease::Ended),
        ["held", holder, until] => Ok(Lease::Held { holder: (*holder).into(), until_ms: number(until)? }),
        ["granted", attempts, crashes, wanted] => {
            let (attempts, crashes) = (number(attempts)?, number(crashes)?);
            Ok(Lease::Granted { attempts, crashes, wanted: *wanted == "1" })
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
    digits.parse().map_err(|_| format!("`{digits}` is not a number of that size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let key = TaskKey::identity("form", 1).finish();
        let line = |rest: &str| format!("{key}{rest}").into_bytes();
        assert_eq!(logged(line("d{}")), Ok((key, Entry::Done(Bytes::from_static(b"{}")))));
        for rest in ["", "x{}", "f{}", "f"] {
            assert!(logged(line(rest)).is_err(), "{rest}");
        }
        assert!(logged(b"short".to_vec()).is_err());
        for words in [vec!["held", "a"], vec!["granted", "1", "-1", "0"], vec![]] {
            assert!(lease(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).is_err(), "{words:?}");
        }
    }
}
