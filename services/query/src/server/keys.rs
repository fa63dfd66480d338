//! Who may read: bearer keys, kept as digests, each for some collections, some work, and some requests a minute.

use std::sync::{Mutex, PoisonError};

use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use stemma_document::Collection;
use stemma_engine::env::Millis;

use super::ServeError;

/// A key that may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySettings {
    /// Its name, for logs.
    pub name: String,
    /// BLAKE3 digest of the key, 64 hexadecimal digits; keys are long and random, so a plain digest does.
    pub blake3: String,
    /// The collections it may read; none: all.
    #[serde(default)]
    pub collections: Vec<String>,
    /// What it may do.
    #[serde(default = "read")]
    pub scopes: Vec<KeyScope>,
    /// Requests it may make in a minute, of each server; 0: any number.
    #[serde(default)]
    pub requests_per_minute: u32,
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// List, read and search.
    Read,
    /// Submit and remove documents, where the server has a way in.
    Write,
}

impl Default for KeySettings {
    fn default() -> Self {
        let (name, blake3, collections) = (String::new(), String::new(), Vec::new());
        Self { name, blake3, collections, scopes: read(), requests_per_minute: 0 }
    }
}

fn read() -> Vec<KeyScope> {
    vec![KeyScope::Read]
}

/// All keys.
pub(super) struct Keys(Vec<Key>);

struct Key {
    digest: blake3::Hash,
    settings: KeySettings,
    purse: Mutex<Purse>,
}

/// Requests a key has left: a minute's worth at most, growing evenly.
struct Purse {
    /// Thousandths of requests.
    left: u64,
    counted_at: Millis,
}

/// What a request may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Every collection.
    All,
    /// These.
    Only(Vec<String>),
}

/// Why a key does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// It is none, or there is none.
    Unknown,
    /// It may not read.
    Scope,
    /// It has asked often enough; so many seconds on it may again.
    Spent(u64),
}

impl Keys {
    /// The keys as configured.
    pub(super) fn of(settings: &[KeySettings]) -> Result<Self, ServeError> {
        let key = |settings: &KeySettings| match blake3::Hash::from_hex(&settings.blake3) {
            Ok(digest) => {
                let purse = Purse { left: 1_000 * u64::from(settings.requests_per_minute), counted_at: 0 };
                Ok(Key { digest, settings: settings.clone(), purse: Mutex::new(purse) })
            }
            Err(_) => Err(ServeError::Key { name: settings.name.clone() }),
        };
        settings.iter().map(key).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the bearer of `key` may read now. Digests are compared in constant time, all of them.
    pub(super) fn reach(&self, key: Option<&str>, now_ms: Millis) -> Result<Reach, Closed> {
        if self.is_empty() {
            return Ok(Reach::All);
        }
        let digest = blake3::hash(key.ok_or(Closed::Unknown)?.as_bytes());
        let fitting = self.0.iter().filter(|known| known.digest == digest).collect::<Vec<_>>();
        let key = fitting.first().ok_or(Closed::Unknown)?;
        if !key.settings.scopes.contains(&KeyScope::Read) {
            return Err(Closed::Scope);
        }
        key.spend(now_ms)?;
        let collections = &key.settings.collections;
        Ok(if collections.is_empty() { Reach::All } else { Reach::Only(collections.clone()) })
    }

    /// Whether the bearer of `key` may write; where no keys are, that is not said here.
    pub(super) fn may_write(&self, key: Option<&str>) -> bool {
        let Some(digest) = key.map(|key| blake3::hash(key.as_bytes())) else { return false };
        let known = self.0.iter().find(|known| known.digest == digest);
        known.is_some_and(|key| key.settings.scopes.contains(&KeyScope::Write))
    }
}

impl Key {
    /// Takes one request from the purse.
    fn spend(&self, now_ms: Millis) -> Result<(), Closed> {
        let per_minute = u64::from(self.settings.requests_per_minute);
        if per_minute == 0 {
            return Ok(());
        }
        let mut purse = self.purse.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = now_ms.saturating_sub(purse.counted_at).min(60_000) * per_minute / 60;
        // Less than a thousandth stays on the clock.
        if grown > 0 {
            purse.left = (purse.left + grown).min(1_000 * per_minute);
            purse.counted_at = now_ms;
        }
        match purse.left.checked_sub(1_000) {
            Some(left) => {
                purse.left = left;
                Ok(())
            }
            None => Err(Closed::Spent(((1_000 - purse.left) * 60).div_ceil(1_000 * per_minute).max(1))),
        }
    }
}

impl Reach {
    /// What a request may read, as the gate has noted it.
    pub(super) fn of(parts: &Parts) -> &Self {
        static NOTHING: Reach = Reach::Only(Vec::new());
        parts.extensions.get().unwrap_or(&NOTHING)
    }

    /// Whether a collection may be read.
    pub(crate) fn holds(&self, collection: &Collection) -> bool {
        match self {
            Reach::All => true,
            Reach::Only(collections) => collections.iter().any(|name| name == collection.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, collections: &[&str]) -> KeySettings {
        let collections = collections.iter().map(ToString::to_string).collect();
        let blake3 = blake3::hash(key.as_bytes()).to_string();
        KeySettings { name: key.into(), blake3, collections, ..KeySettings::default() }
    }

    #[test]
    fn a_key_reaches_its_collections_and_no_others() {
        let keys = Keys::of(&[key("k-all", &[]), key("k-one", &["one"])]).unwrap();
        let (one, two): (Collection, Collection) = ("one".parse().unwrap(), "two".parse().unwrap());
        let reaches = |key| keys.reach(key, 0).map(|reach| (reach.holds(&one), reach.holds(&two)));
        assert_eq!(reaches(Some("k-all")), Ok((true, true)));
        assert_eq!(reaches(Some("k-one")), Ok((true, false)));
        assert_eq!((reaches(Some("k-on")), reaches(None)), (Err(Closed::Unknown), Err(Closed::Unknown)));
    }

    #[test]
    fn a_key_does_what_its_scopes_say_and_as_often_as_it_may() {
        let idle = KeySettings { scopes: Vec::new(), ..key("idle", &[]) };
        let slow = KeySettings { requests_per_minute: 6, ..key("slow", &[]) };
        let keys = Keys::of(&[idle, slow]).unwrap();
        assert_eq!(keys.reach(Some("idle"), 0), Err(Closed::Scope));
        let at = |now_ms| keys.reach(Some("slow"), now_ms);
        assert!((0..6).all(|_| at(1_000_000).is_ok()));
        assert_eq!((at(1_000_000), at(1_002_500)), (Err(Closed::Spent(10)), Err(Closed::Spent(8))));
        assert_eq!((at(1_010_000), at(1_010_000)), (Ok(Reach::All), Err(Closed::Spent(10))));
        assert!((0..6).all(|_| at(9_000_000).is_ok()));
        assert_eq!(at(9_000_000), Err(Closed::Spent(10)));
    }

    #[test]
    fn a_digest_that_is_none_is_refused() {
        let wrong = KeySettings { name: "typo".into(), blake3: "secret".into(), ..KeySettings::default() };
        assert!(matches!(Keys::of(&[wrong]), Err(ServeError::Key { name }) if name == "typo"));
    }
}
