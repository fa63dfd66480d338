//! Identifiers as newtypes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: {rule}")]
pub struct ParseIdError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

impl ParseIdError {
    fn new(text: &str, what: &'static str, rule: &'static str) -> Self {
        Self {
            text: text.chars().take(80).collect(),
            what,
            rule,
        }
    }
}

/// A collection, which is the tenant boundary: nothing is read across collections.
///
/// 1 to 64 characters of `a-z 0-9 - _ .`, starting with a letter or digit, so that it is safe as a path segment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Collection(String);

impl Collection {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Collection {
    fn default() -> Self {
        Self("default".into())
    }
}

impl FromStr for Collection {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.chars().all(|c: char| {
                c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.')
            })
        {
            Ok(Self(text.into()))
        } else {
            Err(ParseIdError::new(
                text,
                "collection name",
                "use 1 to 64 of a-z 0-9 - _ . and start with a letter or digit",
            ))
        }
    }
}

impl TryFrom<String> for Collection {
    type Error = ParseIdError;
    fn try_from(text: String) -> Result<Self, ParseIdError> {
        text.parse()
    }
}

impl From<Collection> for String {
    fn from(collection: Collection) -> Self {
        collection.0
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// `N` bytes as lower-case hexadecimal digits.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower_hex = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 2 * N || !is_lower_hex {
        return None;
    }
    let mut bytes = [0; N];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $what:literal, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; $bytes]);

        impl $name {
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }

            /// The first eight hexadecimal digits, for display.
            pub fn short(&self) -> String {
                self.to_string().chars().take(8).collect()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse_hex(text)
                    .map(Self)
                    .ok_or_else(|| ParseIdError::new(text, $what, $rule))
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseIdError;
            fn try_from(text: String) -> Result<Self, ParseIdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

hex_id!(
    /// A document: the first 128 bits of `blake3(collection, canonical source URI)`. Independent of the content.
    DocId, 16, "document id", "32 lower-case hexadecimal digits"
);
hex_id!(
    /// A 256-bit BLAKE3 digest of content.
    Digest, 32, "digest", "64 lower-case hexadecimal digits"
);

impl DocId {
    /// The id of the document at `uri`, which must be canonical (absolute, no `..`).
    pub fn new(collection: &Collection, uri: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(collection.as_str().as_bytes())
            // The separator keeps the pairs `ab`, `c` and `a`, `bc` apart.
            .update(&[0])
            .update(uri.as_bytes());
        let mut id = [0u8; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(id)
    }

    /// The id as a number that sorts as the id does.
    pub fn to_u128(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// The inverse of [`DocId::to_u128`].
    pub fn from_u128(number: u128) -> Self {
        Self(number.to_be_bytes())
    }
}

impl Digest {
    pub fn from_content(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// A substitute digest for an object that is not read, from its ETag (without quotes) and size.
    // The derived key keeps it from ever matching a content digest.
    pub fn from_object(etag: &str, size_bytes: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("stemma 2026 etag and size of an object");
        hasher
            .update(etag.as_bytes())
            .update(&[0])
            .update(&size_bytes.to_le_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

/// A section's index in its tree: pre-order, from 0, printed with at least four digits (`0007`).
///
/// It is only valid within one version of a tree, so it is never part of a task key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SectionId(pub u32);

impl fmt::Display for SectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}", self.0)
    }
}

impl FromStr for SectionId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Some(text)
            .filter(|text| text.len() >= 4 && text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .map(Self)
            .ok_or_else(|| {
                ParseIdError::new(
                    text,
                    "section id",
                    "at least four digits, as trees print it",
                )
            })
    }
}

impl TryFrom<String> for SectionId {
    type Error = ParseIdError;
    fn try_from(text: String) -> Result<Self, ParseIdError> {
        text.parse()
    }
}

impl From<SectionId> for String {
    fn from(id: SectionId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_ids_are_stable_and_per_collection() {
        let a: Collection = "a".parse().unwrap();
        let b: Collection = "b".parse().unwrap();
        assert_eq!(
            DocId::new(&a, "file:///x.pdf"),
            DocId::new(&a, "file:///x.pdf")
        );
        assert_ne!(
            DocId::new(&a, "file:///x.pdf"),
            DocId::new(&b, "file:///x.pdf")
        );
        // The separator keeps ("ab", "c") and ("a", "bc") apart.
        let ab: Collection = "ab".parse().unwrap();
        assert_ne!(DocId::new(&ab, "c"), DocId::new(&a, "bc"));
    }

    #[test]
    fn unsafe_collection_names_are_rejected() {
        for bad in ["", "..", ".", "a/b", "A", "-x", "a b", "é", &"x".repeat(65)] {
            assert!(bad.parse::<Collection>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ids_round_trip_through_their_printed_form() {
        let digest = Digest::from_content(b"x");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        let object = Digest::from_object("e", 1);
        assert!(
            object == Digest::from_object("e", 1)
                && object != Digest::from_object("e", 2)
                && object != digest
        );
        assert_eq!("0007".parse::<SectionId>().unwrap(), SectionId(7));
        assert_eq!(SectionId(12345).to_string(), "12345");
        assert!("7".parse::<SectionId>().is_err());
        assert!("ABCD".repeat(16).parse::<Digest>().is_err());
    }
}
