//! Facts about a filing, with their sources.

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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticker {
    #[serde(flatten)]
    pub symbol: Fact,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exchange: Option<String>,
}

/// A further registrant of a combined filing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoRegistrant {
    /// Its name, exactly as printed.
    #[serde(flatten)]
    pub name: Fact,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub irs_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
}

/// Facts about a filing. File names are never used as a source.
///
/// `fiscal_year` is the year covered by the document, `period_end` the last day of its period, `filed` the filing date.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilingFacts {
    /// The registrant's name, exactly as printed; the first of several registrants.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub issuer: Option<Fact>,
    /// The registrants after the first, in the order of the cover page.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub co_registrants: Vec<CoRegistrant>,
    /// Form type with amendment mark: `10-K`, `10-Q/A`, `8-K`. Documents without a form have `earnings_release`,
    /// `annual_report` or `interim_report`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub form: Option<Fact>,
    /// Four digits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fiscal_year: Option<Fact>,
    /// `FY`, `Q1` … `Q4`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fiscal_period: Option<Fact>,
    /// ISO 8601 date; for a current report, the date of the earliest event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_end: Option<Fact>,
    /// ISO 8601 date; only from a header or sidecar.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub filed: Option<Fact>,
    /// Commission file number, as printed (`1-3285`, `001-03285`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file_number: Option<Fact>,
    /// Employer identification number of the Internal Revenue Service: `41-0417775`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub irs_number: Option<Fact>,
    /// State or other jurisdiction of incorporation, as printed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<Fact>,
    /// In the order of the cover page.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tickers: Vec<Ticker>,
    /// Items of a current report (`5.02`), in order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reported_items: Vec<Fact>,
    /// Central Index Key, digits without leading zeros; only from a path, header or sidecar.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cik: Option<Fact>,
    /// Accession number, `0000320193-22-000108`; only from a path, header or sidecar.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accession: Option<Fact>,
    /// Code of the Standard Industrial Classification, four digits; only from a header.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sic: Option<Fact>,
    /// Type of the document in its filing (`10-K`, `EX-21.1`); only from an index file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub document_type: Option<Fact>,
    /// Number of the document in its filing; only from an index file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sequence: Option<Fact>,
    /// What the filer calls the document; only from an index file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub document_description: Option<Fact>,
    /// Earlier names of the registrant, as the header lists them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub former_names: Vec<Fact>,
    /// ISO 639-1 code of the main language.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub language: Option<Fact>,
}

impl FilingFacts {
    /// The trading symbols, each once; a class may be listed on several exchanges.
    pub fn symbols(&self) -> impl Iterator<Item = &Fact> {
        let distinct = self.tickers.iter().enumerate().filter(|(at, ticker)| {
            let earlier = &self.tickers[..*at];
            !earlier
                .iter()
                .any(|other| other.symbol.value == ticker.symbol.value)
        });
        distinct.map(|(_, ticker)| &ticker.symbol)
    }

    /// All facts by their stable names. A name with several values occurs once per value.
    pub fn entries(&self) -> Vec<(&'static str, &Fact)> {
        let mut entries: Vec<(&'static str, &Fact)> = [
            ("company", &self.issuer),
            ("form", &self.form),
            ("fiscal_year", &self.fiscal_year),
            ("fiscal_period", &self.fiscal_period),
            ("period_end", &self.period_end),
            ("filed", &self.filed),
            ("file_number", &self.file_number),
            ("irs_number", &self.irs_number),
            ("state", &self.state),
        ]
        .into_iter()
        .filter_map(|(name, fact)| fact.as_ref().map(|fact| (name, fact)))
        .collect();
        entries.extend(
            self.co_registrants
                .iter()
                .map(|registrant| ("co_registrant", &registrant.name)),
        );
        entries.extend(self.symbols().map(|symbol| ("ticker", symbol)));
        entries.extend(
            self.reported_items
                .iter()
                .map(|item| ("reported_item", item)),
        );
        let last = [
            ("cik", &self.cik),
            ("accession", &self.accession),
            ("sic", &self.sic),
            ("document_type", &self.document_type),
            ("sequence", &self.sequence),
            ("document_description", &self.document_description),
            ("language", &self.language),
        ];
        entries.extend(
            last.into_iter()
                .filter_map(|(name, fact)| fact.as_ref().map(|fact| (name, fact))),
        );
        entries.extend(self.former_names.iter().map(|name| ("former_name", name)));
        entries
    }

    /// Identifiers that an issuer keeps when its name changes: CIK, SEC file number and IRS number, without leading
    /// zeros.
    pub fn issuer_identity(&self) -> Vec<String> {
        let numbers = [
            ("cik", &self.cik),
            ("file", &self.file_number),
            ("irs", &self.irs_number),
        ];
        let identified = numbers
            .into_iter()
            .filter_map(|(kind, fact)| Some((kind, Self::normalize_number(&fact.as_ref()?.value))));
        identified
            // Shorter numbers would merge unrelated issuers.
            .filter(|(_, number)| number.len() >= 3)
            .map(|(kind, number)| format!("{kind}:{number}"))
            .collect()
    }

    /// The parts of an official number without leading zeros, joined by hyphens.
    pub fn normalize_number(number: &str) -> String {
        let parts = number
            .split(|c: char| !c.is_ascii_alphanumeric())
            .map(|part| part.trim_start_matches('0'));
        parts
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("-")
            .to_lowercase()
    }

    /// Normalizes a Central Index Key: up to ten digits, without leading zeros.
    pub fn parse_cik(text: &str) -> Option<String> {
        let digits = text
            .trim()
            .trim_start_matches("CIK")
            .trim_start_matches('0');
        let is_valid =
            (1..=10).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        is_valid.then(|| digits.to_owned())
    }

    /// Normalizes an accession number: 18 digits, with hyphens.
    pub fn parse_accession(text: &str) -> Option<String> {
        let text = text.trim();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let hyphens: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
        let is_valid =
            // Both forms are common: with hyphens in headers, without in paths.
            text.len() == 18 && hyphens.is_empty() || text.len() == 20 && hyphens == [10, 13];
        (is_valid && digits.len() == 18)
            .then(|| format!("{}-{}-{}", &digits[..10], &digits[10..12], &digits[12..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_on_two_exchanges_is_one_symbol() {
        let on = |symbol: &str, exchange: &str| Ticker {
            symbol: Fact::from_text(symbol, None),
            exchange: Some(exchange.into()),
        };
        let facts = FilingFacts {
            tickers: vec![on("ACM", "East"), on("ACM", "West"), on("ACM26", "East")],
            ..FilingFacts::default()
        };
        let symbols: Vec<&str> = facts
            .symbols()
            .map(|symbol| symbol.value.as_str())
            .collect();
        assert_eq!(symbols, ["ACM", "ACM26"]);
        assert_eq!(facts.entries().len(), 2);
    }

    #[test]
    fn issuer_identity_normalizes_numbers() {
        let numbered = |number| FilingFacts {
            file_number: Some(Fact::from_text(number, None)),
            ..FilingFacts::default()
        };
        for number in ["001-03285", "1-3285"] {
            assert_eq!(numbered(number).issuer_identity(), ["file:1-3285"]);
        }
        assert!(FilingFacts::default().issuer_identity().is_empty());
    }

    #[test]
    fn cik_and_accession_numbers_are_normalized() {
        assert_eq!(
            FilingFacts::parse_cik("0000320193").as_deref(),
            Some("320193")
        );
        for invalid in ["0", "12a", "", "12345678901"] {
            assert_eq!(FilingFacts::parse_cik(invalid), None, "{invalid}");
        }
        for valid in ["000032019322000108", "0000320193-22-000108"] {
            assert_eq!(
                FilingFacts::parse_accession(valid).as_deref(),
                Some("0000320193-22-000108")
            );
        }
        for invalid in ["0000320193-2200-0108", "1234", ""] {
            assert_eq!(FilingFacts::parse_accession(invalid), None, "{invalid}");
        }
    }

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
