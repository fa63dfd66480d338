//! Who may read, ask and write: bearer keys, kept as digests, each for some collections, some work, and some requests a minute.

use std::sync::{Mutex, PoisonError};

use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use stemma_document::Collection;
use stemma_engine::env::Millis;

use crate::admission::RequestPermit;

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

/// A key of the configuration that is not the digest of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key `{name}` of query.keys has no BLAKE3 digest of 64 hexadecimal digits")]
pub struct InvalidKey {
    /// Its name in the configuration.
    pub name: String,
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
pub struct ApiKeys(Vec<ApiKey>);

struct ApiKey {
    digest: blake3::Hash,
    settings: KeySettings,
    rate_limit: Mutex<KeyRateLimit>,
}

/// Requests a key has left: a minute's worth at most, growing evenly.
struct KeyRateLimit {
    /// Thousandths of requests.
    remaining_milli: u64,
    refilled_at: Millis,
}

/// What a request may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// What it may read.
    pub collections: CollectionScope,
    /// Whether a model may be asked for it.
    pub ask: bool,
    /// Whether it may submit and remove documents.
    pub write: bool,
}

/// What a request may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionScope {
    /// Every collection.
    All,
    /// These.
    Only(Vec<String>),
}

/// Why a key does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthError {
    /// It is none, or there is none.
    Unknown,
    /// It may not read.
    MissingScope,
    /// It has asked often enough; so many seconds on it may again.
    RateLimited(u64),
}

impl ApiKeys {
    /// The keys as configured.
    pub fn from_settings(settings: &[KeySettings]) -> Result<Self, InvalidKey> {
        settings
            .iter()
            .map(
                |settings: &KeySettings| match blake3::Hash::from_hex(&settings.blake3) {
                    Ok(digest) => {
                        let rate_limit = KeyRateLimit {
                            remaining_milli: 1_000 * u64::from(settings.requests_per_minute),
                            refilled_at: 0,
                        };
                        Ok(ApiKey {
                            digest,
                            settings: settings.clone(),
                            rate_limit: Mutex::new(rate_limit),
                        })
                    }
                    Err(_) => Err(InvalidKey {
                        name: settings.name.clone(),
                    }),
                },
            )
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the bearer of `key` may do now. Digests are compared in constant time, all of them. Where no keys are, anyone
    /// who can connect reads and asks, and writes where `open`.
    pub fn authorize(
        &self,
        key: Option<&str>,
        open: bool,
        now_ms: Millis,
    ) -> Result<Rights, AuthError> {
        if self.is_empty() {
            return Ok(Rights {
                collections: CollectionScope::All,
                ask: true,
                write: open,
            });
        }
        let digest = blake3::hash(key.ok_or(AuthError::Unknown)?.as_bytes());
        let fitting = self
            .0
            .iter()
            .filter(|candidate| candidate.digest == digest)
            .collect::<Vec<_>>();
        let key = fitting.first().ok_or(AuthError::Unknown)?;
        let may = |scope| key.settings.scopes.contains(&scope);
        if !may(KeyScope::Read) {
            return Err(AuthError::MissingScope);
        }
        key.take_request(now_ms)?;
        let collections = &key.settings.collections;
        let reach = if collections.is_empty() {
            CollectionScope::All
        } else {
            CollectionScope::Only(collections.clone())
        };
        Ok(Rights {
            collections: reach,
            ask: may(KeyScope::Ask),
            write: may(KeyScope::Write),
        })
    }

    /// Whether no key may ask, though there are keys.
    pub fn is_asking_disabled(&self) -> bool {
        !self.is_empty()
            && !self
                .0
                .iter()
                .any(|key| key.settings.scopes.contains(&KeyScope::Ask))
    }
}

impl ApiKey {
    /// Takes one request from the purse.
    fn take_request(&self, now_ms: Millis) -> Result<(), AuthError> {
        let per_minute = u64::from(self.settings.requests_per_minute);
        if per_minute == 0 {
            return Ok(());
        }
        let mut rate_limit = self
            .rate_limit
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let grown = now_ms.saturating_sub(rate_limit.refilled_at).min(60_000) * per_minute / 60;
        // Less than a thousandth stays on the clock.
        if grown > 0 {
            rate_limit.remaining_milli =
                (rate_limit.remaining_milli + grown).min(1_000 * per_minute);
            rate_limit.refilled_at = now_ms;
        }
        match rate_limit.remaining_milli.checked_sub(1_000) {
            Some(remaining) => {
                rate_limit.remaining_milli = remaining;
                Ok(())
            }
            None => Err(AuthError::RateLimited(
                ((1_000 - rate_limit.remaining_milli) * 60)
                    .div_ceil(1_000 * per_minute)
                    .max(1),
            )),
        }
    }
}

impl CollectionScope {
    /// What a request may read, as the gate has noted it.
    pub fn from_parts(parts: &Parts) -> &Self {
        static NOTHING: CollectionScope = CollectionScope::Only(Vec::new());
        RequestPermit::from_parts(parts).map_or(&NOTHING, |permit| &permit.rights().collections)
    }

    /// Whether a collection may be read.
    pub fn allows(&self, collection: &Collection) -> bool {
        match self {
            CollectionScope::All => true,
            CollectionScope::Only(collections) => {
                collections.iter().any(|name| name == collection.as_str())
            }
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
    fn keys_open_only_their_collections() {
        let keys = ApiKeys::from_settings(&[key("k-all", &[]), key("k-one", &["one"])]).unwrap();
        let one: Collection = "one".parse().unwrap();
        let two: Collection = "two".parse().unwrap();
        let reaches = |key| {
            keys.authorize(key, true, 0).map(|rights| {
                (
                    rights.collections.allows(&one),
                    rights.collections.allows(&two),
                )
            })
        };
        assert_eq!(reaches(Some("k-all")), Ok((true, true)));
        assert_eq!(reaches(Some("k-one")), Ok((true, false)));
        assert_eq!(
            (reaches(Some("k-on")), reaches(None)),
            (Err(AuthError::Unknown), Err(AuthError::Unknown))
        );
    }

    #[test]
    fn asking_and_writing_need_their_own_scopes() {
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
        let keys = ApiKeys::from_settings(&all).unwrap();
        let may = |name| {
            keys.authorize(Some(name), true, 0)
                .map(|rights| (rights.ask, rights.write))
        };
        assert_eq!(
            [may("unsaid"), may("asks"), may("writes")],
            [Ok((false, false)), Ok((true, false)), Ok((false, true))]
        );
        assert_eq!(may("only-asks"), Err(AuthError::MissingScope));
        assert!(
            !keys.is_asking_disabled()
                && ApiKeys::from_settings(&all[..1])
                    .unwrap()
                    .is_asking_disabled()
        );
        let none = ApiKeys::from_settings(&[]).unwrap();
        let open = |open| {
            none.authorize(None, open, 0)
                .map(|rights| (rights.ask, rights.write))
        };
        assert_eq!(
            (open(true), open(false), none.is_asking_disabled()),
            (Ok((true, true)), Ok((true, false)), false)
        );
    }

    #[test]
    fn keys_enforce_scopes_and_rate_limits() {
        let idle = KeySettings {
            scopes: Vec::new(),
            ..key("idle", &[])
        };
        let slow = KeySettings {
            requests_per_minute: 6,
            ..key("slow", &[])
        };
        let keys = ApiKeys::from_settings(&[idle, slow]).unwrap();
        assert_eq!(
            keys.authorize(Some("idle"), true, 0),
            Err(AuthError::MissingScope)
        );
        let at = |now_ms| {
            keys.authorize(Some("slow"), true, now_ms)
                .map(|rights| rights.collections)
        };
        assert!((0..6).all(|_| at(1_000_000).is_ok()));
        assert_eq!(
            (at(1_000_000), at(1_002_500)),
            (
                Err(AuthError::RateLimited(10)),
                Err(AuthError::RateLimited(8))
            )
        );
        assert_eq!(
            (at(1_010_000), at(1_010_000)),
            (Ok(CollectionScope::All), Err(AuthError::RateLimited(10)))
        );
        assert!((0..6).all(|_| at(9_000_000).is_ok()));
        assert_eq!(at(9_000_000), Err(AuthError::RateLimited(10)));
    }

    #[test]
    fn invalid_key_digests_are_refused() {
        let wrong = KeySettings {
            name: "typo".into(),
            blake3: "secret".into(),
            ..KeySettings::default()
        };
        assert!(
            matches!(ApiKeys::from_settings(&[wrong]), Err(InvalidKey { name }) if name == "typo")
        );
    }
}
