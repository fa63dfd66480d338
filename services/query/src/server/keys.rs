//! Who may read, ask and write: bearer keys, kept as digests, each for some collections, some work, and some requests a minute.

use std::sync::{Mutex, PoisonError};

use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use stemma_document::Collection;
use stemma_engine::env::Millis;

use super::ServeError;
use super::stay::Stay;

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
    /// What it may do: `read` where this is not said. Without `read` it opens nothing.
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
    /// List, read, search without a model, and read answers that were given.
    Read,
    /// Ask questions that a model is asked for: they cost money.
    Ask,
    /// Submit and remove documents, where the server has a way in.
    Write,
}

impl Default for KeySettings {
    fn default() -> Self {
        let name = String::new();
        let blake3 = String::new();
        let collections = Vec::new();
        Self {
            name,
            blake3,
            collections,
            scopes: read(),
            requests_per_minute: 0,
        }
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

/// What a request may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rights {
    /// What it may read.
    pub(super) reach: Reach,
    /// Whether a model may be asked for it.
    pub(super) ask: bool,
    /// Whether it may submit and remove documents.
    pub(super) write: bool,
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
        settings
            .iter()
            .map(
                |settings: &KeySettings| match blake3::Hash::from_hex(&settings.blake3) {
                    Ok(digest) => {
                        let purse = Purse {
                            left: 1_000 * u64::from(settings.requests_per_minute),
                            counted_at: 0,
                        };
                        Ok(Key {
                            digest,
                            settings: settings.clone(),
                            purse: Mutex::new(purse),
                        })
                    }
                    Err(_) => Err(ServeError::Key {
                        name: settings.name.clone(),
                    }),
                },
            )
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the bearer of `key` may do now. Digests are compared in constant time, all of them. Where no keys are, anyone
    /// who can connect reads and asks, and writes where `open`.
    pub(super) fn rights(
        &self,
        key: Option<&str>,
        open: bool,
        now_ms: Millis,
    ) -> Result<Rights, Closed> {
        if self.is_empty() {
            return Ok(Rights {
                reach: Reach::All,
                ask: true,
                write: open,
            });
        }
        let digest = blake3::hash(key.ok_or(Closed::Unknown)?.as_bytes());
        let fitting = self
            .0
            .iter()
            .filter(|known| known.digest == digest)
            .collect::<Vec<_>>();
        let key = fitting.first().ok_or(Closed::Unknown)?;
        let may = |scope| key.settings.scopes.contains(&scope);
        if !may(KeyScope::Read) {
            return Err(Closed::Scope);
        }
        key.spend(now_ms)?;
        let collections = &key.settings.collections;
        let reach = if collections.is_empty() {
            Reach::All
        } else {
            Reach::Only(collections.clone())
        };
        Ok(Rights {
            reach,
            ask: may(KeyScope::Ask),
            write: may(KeyScope::Write),
        })
    }

    /// Whether no key may ask, though there are keys.
    pub(super) fn ask_nothing(&self) -> bool {
        !self.is_empty()
            && !self
                .0
                .iter()
                .any(|key| key.settings.scopes.contains(&KeyScope::Ask))
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
            None => Err(Closed::Spent(
                ((1_000 - purse.left) * 60)
                    .div_ceil(1_000 * per_minute)
                    .max(1),
            )),
        }
    }
}

impl Reach {
    /// What a request may read, as the gate has noted it.
    pub(crate) fn of(parts: &Parts) -> &Self {
        static NOTHING: Reach = Reach::Only(Vec::new());
        Stay::of(parts).map_or(&NOTHING, |stay| &stay.rights().reach)
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
        KeySettings {
            name: key.into(),
            blake3,
            collections,
            ..KeySettings::default()
        }
    }

    #[test]
    fn a_key_reaches_its_collections_and_no_others() {
        let keys = Keys::of(&[key("k-all", &[]), key("k-one", &["one"])]).unwrap();
        let one: Collection = "one".parse().unwrap();
        let two: Collection = "two".parse().unwrap();
        let reaches = |key| {
            keys.rights(key, true, 0)
                .map(|rights| (rights.reach.holds(&one), rights.reach.holds(&two)))
        };
        assert_eq!(reaches(Some("k-all")), Ok((true, true)));
        assert_eq!(reaches(Some("k-one")), Ok((true, false)));
        assert_eq!(
            (reaches(Some("k-on")), reaches(None)),
            (Err(Closed::Unknown), Err(Closed::Unknown))
        );
    }

    #[test]
    fn asking_and_writing_are_rights_of_their_own() {
        let with = |name: &str, scopes: &[KeyScope]| KeySettings {
            scopes: scopes.to_vec(),
            ..key(name, &[])
        };
        let unsaid: KeySettings = serde_json::from_value(
            serde_json::json!({ "name": "unsaid", "blake3": key("unsaid", &[]).blake3 }),
        )
        .unwrap();
        let all = [
            unsaid,
            with("asks", &[KeyScope::Read, KeyScope::Ask]),
            with("writes", &[KeyScope::Read, KeyScope::Write]),
            with("only-asks", &[KeyScope::Ask]),
        ];
        let keys = Keys::of(&all).unwrap();
        let may = |name| {
            keys.rights(Some(name), true, 0)
                .map(|rights| (rights.ask, rights.write))
        };
        assert_eq!(
            [may("unsaid"), may("asks"), may("writes")],
            [Ok((false, false)), Ok((true, false)), Ok((false, true))]
        );
        assert_eq!(may("only-asks"), Err(Closed::Scope));
        assert!(!keys.ask_nothing() && Keys::of(&all[..1]).unwrap().ask_nothing());
        let none = Keys::of(&[]).unwrap();
        let open = |open| {
            none.rights(None, open, 0)
                .map(|rights| (rights.ask, rights.write))
        };
        assert_eq!(
            (open(true), open(false), none.ask_nothing()),
            (Ok((true, true)), Ok((true, false)), false)
        );
    }

    #[test]
    fn a_key_does_what_its_scopes_say_and_as_often_as_it_may() {
        let idle = KeySettings {
            scopes: Vec::new(),
            ..key("idle", &[])
        };
        let slow = KeySettings {
            requests_per_minute: 6,
            ..key("slow", &[])
        };
        let keys = Keys::of(&[idle, slow]).unwrap();
        assert_eq!(keys.rights(Some("idle"), true, 0), Err(Closed::Scope));
        let at = |now_ms| {
            keys.rights(Some("slow"), true, now_ms)
                .map(|rights| rights.reach)
        };
        assert!((0..6).all(|_| at(1_000_000).is_ok()));
        assert_eq!(
            (at(1_000_000), at(1_002_500)),
            (Err(Closed::Spent(10)), Err(Closed::Spent(8)))
        );
        assert_eq!(
            (at(1_010_000), at(1_010_000)),
            (Ok(Reach::All), Err(Closed::Spent(10)))
        );
        assert!((0..6).all(|_| at(9_000_000).is_ok()));
        assert_eq!(at(9_000_000), Err(Closed::Spent(10)));
    }

    #[test]
    fn a_digest_that_is_none_is_refused() {
        let wrong = KeySettings {
            name: "typo".into(),
            blake3: "secret".into(),
            ..KeySettings::default()
        };
        assert!(matches!(Keys::of(&[wrong]), Err(ServeError::Key { name }) if name == "typo"));
    }
}
