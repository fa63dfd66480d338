//! API keys: stored as digests, each with collections, scopes and a rate limit.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use serde::{Deserialize, Serialize};
use stemma_store::Env;

use crate::rights::{CollectionScope, Rights};

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
pub struct ApiKeys {
    keys: Vec<ApiKey>,
    clock: EnvClock,
}

struct ApiKey {
    digest: blake3::Hash,
    settings: KeySettings,
    // `None`: unlimited.
    rate_limiter: Option<KeyRateLimiter>,
}

// A burst of one minute's requests, refilled evenly.
type KeyRateLimiter = RateLimiter<NotKeyed, InMemoryState, EnvClock, NoOpMiddleware<Duration>>;

// Rate limits follow the clock of [`Env`], so that simulations can advance it.
#[derive(Clone)]
struct EnvClock(Env);

impl Clock for EnvClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.now_ms())
    }
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

/// The digest of a key, as the configuration holds it.
pub fn key_digest(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex().to_string()
}

impl ApiKeys {
    pub fn from_settings(settings: &[KeySettings], env: Env) -> Result<Self, InvalidKey> {
        let clock = EnvClock(env);
        let keys = settings
            .iter()
            .map(|settings| ApiKey::new(settings, &clock))
            .collect::<Result<_, _>>()?;
        Ok(Self { keys, clock })
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The rights of `key`; counts one request against its rate limit.
    ///
    /// Without configured keys, every client may read and ask, and may write if `open`.
    pub fn authorize(&self, key: Option<&str>, open: bool) -> Result<Rights, AuthError> {
        if self.is_empty() {
            return Ok(Rights {
                key: None,
                collections: CollectionScope::All,
                ask: true,
                write: open,
            });
        }
        let digest = blake3::hash(key.ok_or(AuthError::Unknown)?.as_bytes());
        // `blake3::Hash` compares in constant time. All keys are compared, so timing does not tell the position of a match.
        let matching = self
            .keys
            .iter()
            .enumerate()
            .filter(|(_, candidate)| candidate.digest == digest)
            .collect::<Vec<_>>();
        let (position, key) = *matching.first().ok_or(AuthError::Unknown)?;
        if !key.has_scope(KeyScope::Read) {
            return Err(AuthError::MissingScope);
        }
        if let Some(limiter) = &key.rate_limiter {
            limiter.check().map_err(|denied| {
                let wait = denied.wait_time_from(self.clock.now());
                AuthError::RateLimited(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
            })?;
        }
        let collections = &key.settings.collections;
        Ok(Rights {
            key: Some(position),
            collections: if collections.is_empty() {
                CollectionScope::All
            } else {
                CollectionScope::Only(collections.clone())
            },
            ask: key.has_scope(KeyScope::Ask),
            write: key.has_scope(KeyScope::Write),
        })
    }

    /// Whether keys are configured and none has the scope `ask`.
    pub fn is_asking_disabled(&self) -> bool {
        !self.is_empty() && !self.keys.iter().any(|key| key.has_scope(KeyScope::Ask))
    }
}

impl ApiKey {
    fn new(settings: &KeySettings, clock: &EnvClock) -> Result<Self, InvalidKey> {
        let digest = blake3::Hash::from_hex(&settings.blake3).map_err(|_| InvalidKey {
            name: settings.name.clone(),
        })?;
        let rate_limiter = NonZeroU32::new(settings.requests_per_minute)
            .map(|limit| RateLimiter::direct_with_clock(Quota::per_minute(limit), clock.clone()));
        Ok(Self {
            digest,
            settings: settings.clone(),
            rate_limiter,
        })
    }

    fn has_scope(&self, scope: KeyScope) -> bool {
        self.settings.scopes.contains(&scope)
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::Collection;

    use super::*;

    fn api_keys(settings: &[KeySettings]) -> ApiKeys {
        ApiKeys::from_settings(settings, Env::system()).unwrap()
    }

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
        let keys = api_keys(&[key("k-all", &[]), key("k-one", &["one"])]);
        let one: Collection = "one".parse().unwrap();
        let two: Collection = "two".parse().unwrap();
        let reaches = |key| {
            keys.authorize(key, true).map(|rights| {
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
        let keys = api_keys(&all);
        let may = |name| {
            keys.authorize(Some(name), true)
                .map(|rights| (rights.ask, rights.write))
        };
        assert_eq!(
            [may("unsaid"), may("asks"), may("writes")],
            [Ok((false, false)), Ok((true, false)), Ok((false, true))]
        );
        assert_eq!(may("only-asks"), Err(AuthError::MissingScope));
        assert!(!keys.is_asking_disabled() && api_keys(&all[..1]).is_asking_disabled());
        let none = api_keys(&[]);
        let open = |open| {
            none.authorize(None, open)
                .map(|rights| (rights.ask, rights.write))
        };
        assert_eq!(
            (open(true), open(false), none.is_asking_disabled()),
            (Ok((true, true)), Ok((true, false)), false)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn keys_enforce_scopes_and_rate_limits() {
        let idle = KeySettings {
            scopes: Vec::new(),
            ..key("idle", &[])
        };
        let slow = KeySettings {
            requests_per_minute: 6,
            ..key("slow", &[])
        };
        let env = Env::simulated(1);
        let keys = ApiKeys::from_settings(&[idle, slow], env.clone()).unwrap();
        assert_eq!(
            keys.authorize(Some("idle"), true),
            Err(AuthError::MissingScope)
        );
        let request = || keys.authorize(Some("slow"), true).map(drop);
        assert!((0..6).all(|_| request().is_ok()));
        assert_eq!(request(), Err(AuthError::RateLimited(10)));
        env.sleep(Duration::from_millis(2_500)).await;
        assert_eq!(request(), Err(AuthError::RateLimited(8)));
        env.sleep(Duration::from_millis(7_500)).await;
        assert_eq!(request(), Ok(()));
        assert_eq!(request(), Err(AuthError::RateLimited(10)));
        env.sleep(Duration::from_secs(7_990)).await;
        assert!((0..6).all(|_| request().is_ok()));
        assert_eq!(request(), Err(AuthError::RateLimited(10)));
    }

    #[test]
    fn invalid_key_digests_are_refused() {
        let wrong = KeySettings {
            name: "typo".into(),
            blake3: "secret".into(),
            ..KeySettings::default()
        };
        assert!(
            matches!(ApiKeys::from_settings(&[wrong], Env::system()), Err(InvalidKey { name }) if name == "typo")
        );
    }
}
