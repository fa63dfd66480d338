//! API keys: stored as digests, each with collections, scopes and a rate limit.

use std::sync::{Mutex, PoisonError};

use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use stemma_document::Collection;
use stemma_engine::env::Millis;

use crate::admission::RequestPermit;

/// One entry of `query.keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySettings {
    /// Name for logs.
    pub name: String,
    /// BLAKE3 digest of the key, 64 hexadecimal digits. Keys are long and random, so an unsalted digest is enough.
    pub blake3: String,
    /// Readable collections; empty means all.
    #[serde(default)]
    pub collections: Vec<String>,
    /// Defaults to `read`. A key without `read` is refused.
    #[serde(default = "read")]
    pub scopes: Vec<KeyScope>,
    /// Rate limit per server process; 0 means unlimited.
    #[serde(default)]
    pub requests_per_minute: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// List, read, search without a model, and read stored answers.
    Read,
    /// Call a model, which costs money.
    Ask,
    /// Submit and remove documents, if the server has an [`UploadPort`](crate::uploads::UploadPort).
    Write,
}

/// A configured key whose digest cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key `{name}` of query.keys has no BLAKE3 digest of 64 hexadecimal digits")]
pub struct InvalidKey {
    pub name: String,
}

impl Default for KeySettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            blake3: String::new(),
            collections: Vec::new(),
            scopes: read(),
            requests_per_minute: 0,
        }
    }
}

fn read() -> Vec<KeyScope> {
    vec![KeyScope::Read]
}

/// The configured keys. Without keys, every client that can connect may read and ask.
pub struct ApiKeys(Vec<ApiKey>);

struct ApiKey {
    digest: blake3::Hash,
    settings: KeySettings,
    rate_limit: Mutex<KeyRateLimit>,
}

// Token bucket: refills evenly, holds at most one minute's requests.
struct KeyRateLimit {
    // Thousandths of requests, so that slow rates refill without rounding to zero.
    remaining_milli: u64,
    refilled_at: Millis,
}

/// The permissions of an authorized request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    pub collections: CollectionScope,
    pub ask: bool,
    pub write: bool,
}

/// The collections a request may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionScope {
    All,
    Only(Vec<String>),
}

/// Why a key is not authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthError {
    /// The key is missing or not configured.
    Unknown,
    /// The key lacks the scope `read`.
    MissingScope,
    /// The rate limit is exhausted; retry after this many seconds.
    RateLimited(u64),
}

impl ApiKeys {
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

    /// The rights of `key` at `now_ms`; counts one request against its rate limit.
    ///
    /// Without configured keys, every client may read and ask, and may write if `open`.
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
        // `blake3::Hash` compares in constant time. All keys are compared, so timing does not tell the position of a match.
        let matching = self
            .0
            .iter()
            .filter(|candidate| candidate.digest == digest)
            .collect::<Vec<_>>();
        let key = matching.first().ok_or(AuthError::Unknown)?;
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

    /// Whether keys are configured and none has the scope `ask`.
    pub fn is_asking_disabled(&self) -> bool {
        !self.is_empty()
            && !self
                .0
                .iter()
                .any(|key| key.settings.scopes.contains(&KeyScope::Ask))
    }
}

impl ApiKey {
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
        // Keep the refill time when the growth rounds to zero, so that frequent requests cannot stop the refill.
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
    /// The collections of an admitted request; none if it passed no access control.
    pub fn from_parts(parts: &Parts) -> &Self {
        static NOTHING: CollectionScope = CollectionScope::Only(Vec::new());
        RequestPermit::from_parts(parts).map_or(&NOTHING, |permit| &permit.rights().collections)
    }

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
