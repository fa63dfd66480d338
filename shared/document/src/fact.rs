//! A fact: a value, and where it was found.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::PageNo;

/// A value, and where it was found. Clones share their memory, because a catalog has the same facts in many documents.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fact(Arc<FactFields>);

/// What a [`Fact`] says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FactFields {
    pub value: String,
    /// The page of the value; `None` in texts without pages and for sources other than the text.
    pub page: Option<PageNo>,
    #[serde(skip_serializing_if = "FactSource::is_text", default)]
    pub source: FactSource,
    /// The words it rests on, at most 200 characters with single spaces; `None` for sources other than the text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<String>,
}

// Enough for two lines of a cover.
const MAX_EVIDENCE_CHARS: usize = 200;

impl Fact {
    pub fn from_text(value: impl Into<String>, page: Option<PageNo>) -> Self {
        Self::from(FactFields {
            value: value.into(),
            page,
            source: FactSource::Text,
            evidence: None,
        })
    }

    pub fn from_source(value: impl Into<String>, source: FactSource) -> Self {
        Self::from(FactFields {
            value: value.into(),
            page: None,
            source,
            evidence: None,
        })
    }

    /// The same fact with the words it rests on.
    #[must_use]
    pub fn with_evidence(self, words: &str) -> Self {
        let folded: Vec<&str> = words.split_whitespace().collect();
        let quote: String = folded
            .join(" ")
            .chars()
            .filter(|c| !c.is_control())
            .take(MAX_EVIDENCE_CHARS)
            .collect();
        Self::from(FactFields {
            evidence: (!quote.is_empty()).then_some(quote),
            ..self.into_fields()
        })
    }

    /// Another value from the same place.
    #[must_use]
    pub fn with_value(self, value: impl Into<String>) -> Self {
        Self::from(FactFields {
            value: value.into(),
            ..self.into_fields()
        })
    }

    #[must_use]
    pub fn with_source(self, source: FactSource) -> Self {
        Self::from(FactFields {
            source,
            ..self.into_fields()
        })
    }

    #[must_use]
    pub fn with_page(self, page: Option<PageNo>) -> Self {
        Self::from(FactFields {
            page,
            ..self.into_fields()
        })
    }

    fn into_fields(self) -> FactFields {
        Arc::unwrap_or_clone(self.0)
    }
}

impl From<FactFields> for Fact {
    fn from(fields: FactFields) -> Self {
        Self(Arc::new(fields))
    }
}

impl Deref for Fact {
    type Target = FactFields;

    fn deref(&self) -> &FactFields {
        &self.0
    }
}

impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FactFields::deserialize(deserializer).map(Self::from)
    }
}

/// The source of a fact, in order of increasing trust.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FactSource {
    /// Extracted by a model where rules found nothing.
    Model,
    /// Derived from other facts by a rule: `fiscal_year` from the end of the period.
    Derived,
    #[default]
    Text,
    /// The path, in the layout of EDGAR archives: `…/CIK/ACCESSION/…`.
    Path,
    /// Tags of inline XBRL on the cover, as the filer declared them.
    Tags,
    Header,
    /// A `metadata.csv` next to the file, maintained by the owner of the archive.
    Sidecar,
}

impl FactSource {
    fn is_text(&self) -> bool {
        *self == FactSource::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_folded_and_bounded() {
        let fact = Fact::from_text("2022", None).with_evidence("fiscal\n 2022");
        assert_eq!(fact.evidence.as_deref(), Some("fiscal 2022"));
        let long = Fact::from_text("x", None).with_evidence(&"word ".repeat(100));
        assert_eq!(
            long.evidence.as_ref().unwrap().chars().count(),
            MAX_EVIDENCE_CHARS
        );
        assert_eq!(Fact::from_text("x", None).with_evidence(" ").evidence, None);
    }

    #[test]
    fn text_facts_omit_their_source_in_json() {
        let json = |fact: Fact| serde_json::to_string(&fact).unwrap();
        assert_eq!(
            json(Fact::from_text("x", PageNo::new(1))),
            r#"{"value":"x","page":1}"#
        );
        assert_eq!(
            json(Fact::from_source("1", FactSource::Path)),
            r#"{"value":"1","page":null,"source":"path"}"#
        );
    }
}
