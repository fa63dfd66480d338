//! Who may read: bearer keys, kept as digests, each for some collections.

use serde::{Deserialize, Serialize};
use stemma_document::Collection;

use super::ServeError;

/// A key that may read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeySettings {
    /// Its name, for logs.
    pub name: String,
    /// BLAKE3 digest of the key, 64 hexadecimal digits; keys are long and random, so a plain digest does.
    pub blake3: String,
    /// The collections it may read; none: all.
    #[serde(default)]
    pub collections: Vec<String>,
}

/// All keys.
pub(super) struct Keys(Vec<(blake3::Hash, KeySettings)>);

/// What a request may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Every collection.
    All,
    /// These.
    Only(Vec<String>),
}

impl Keys {
    /// The keys as configured.
    pub(super) fn of(settings: &[KeySettings]) -> Result<Self, ServeError> {
        let key = |key: &KeySettings| match blake3::Hash::from_hex(&key.blake3) {
            Ok(digest) => Ok((digest, key.clone())),
            Err(_) => Err(ServeError::Key { name: key.name.clone() }),
        };
        settings.iter().map(key).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the bearer of `key` may read; `None` when it is no key. Digests are compared in constant time, all of them.
    pub(super) fn reach(&self, key: Option<&str>) -> Option<Reach> {
        if self.is_empty() {
            return Some(Reach::All);
        }
        let digest = blake3::hash(key?.as_bytes());
        let fitting = self.0.iter().filter(|(known, _)| *known == digest).collect::<Vec<_>>();
        let (_, key) = fitting.first()?;
        Some(if key.collections.is_empty() { Reach::All } else { Reach::Only(key.collections.clone()) })
    }
}

impl Reach {
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
        KeySettings { name: key.into(), blake3: blake3::hash(key.as_bytes()).to_string(), collections }
    }

    #[test]
    fn a_key_reaches_its_collections_and_no_others() {
        let keys = Keys::of(&[key("k-all", &[]), key("k-one", &["one"])]).unwrap();
        let (one, two): (Collection, Collection) = ("one".parse().unwrap(), "two".parse().unwrap());
        let reaches = |key| keys.reach(key).map(|reach| (reach.holds(&one), reach.holds(&two)));
        assert_eq!(reaches(Some("k-all")), Some((true, true)));
        assert_eq!(reaches(Some("k-one")), Some((true, false)));
        assert_eq!((reaches(Some("k-on")), reaches(None)), (None, None));
    }

    #[test]
    fn a_digest_that_is_none_is_refused() {
        let wrong = KeySettings { name: "typo".into(), blake3: "secret".into(), collections: vec![] };
        assert!(matches!(Keys::of(&[wrong]), Err(ServeError::Key { name }) if name == "typo"));
    }
}
