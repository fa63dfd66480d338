//! What a filing states about itself.

use serde::{Deserialize, Serialize};

use crate::PageNo;

/// A value that is stated about a document, with where it is stated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The value in its canonical form.
    pub value: String,
    /// The page it stands on; `None` in texts without pages, and where the text is not what states it.
    pub page: Option<PageNo>,
    /// What states it.
    #[serde(skip_serializing_if = "FactSource::is_text", default)]
    pub source: FactSource,
}

impl Fact {
    /// A value that stands in the text.
    pub fn from_text(value: impl Into<String>, page: Option<PageNo>) -> Self {
        Self {
            value: value.into(),
            page,
            source: FactSource::Text,
        }
    }

    /// A value that something else than the text states.
    pub fn from_source(value: impl Into<String>, source: FactSource) -> Self {
        Self {
            value: value.into(),
            page: None,
            source,
        }
    }
}

/// What states a fact, surest last.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FactSource {
    /// A model read it in the text, where rules found nothing.
    Model,
    /// Follows from what the text states, by a rule: `fiscal_year` from the end of the period.
    Derived,
    /// The text of the document.
    #[default]
    Text,
    /// The path it was ingested from, where that has the layout of EDGAR archives: `…/CIK/ACCESSION/…`.
    Path,
    /// The header of an EDGAR submission.
    Header,
    /// A `metadata.csv` beside the file: the word of who keeps the archive.
    Sidecar,
}

impl FactSource {
    fn is_text(&self) -> bool {
        *self == FactSource::Text
    }
}

/// A symbol under which securities of the registrant are traded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticker {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: Fact,
    /// The exchange as named beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exchange: Option<String>,
}

/// What is stated about a filing; nothing is taken from the name of its file, and nothing is guessed.
///
/// `fiscal_year` is the year the document is about, `period_end` the day its period ends, `filed` the day it was filed;
/// a year in a file name is none of these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilingFacts {
    /// The registrant's exact name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub issuer: Option<Fact>,
    /// Form type with amendment mark: `10-K`, `10-Q/A`, `8-K`; `earnings_release`, `annual_report`,
    /// `interim_report` where it is no form.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub form: Option<Fact>,
    /// The fiscal year the document is about, four digits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fiscal_year: Option<Fact>,
    /// `FY`, `Q1` … `Q4`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fiscal_period: Option<Fact>,
    /// End of the period, ISO 8601 date; of a current report, the day of the earliest event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_end: Option<Fact>,
    /// The day it was filed, ISO 8601 date; only from a header or sidecar.
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
    /// Trading symbols, in the order of the cover.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tickers: Vec<Ticker>,
    /// Shares outstanding, digits only; one for each class the cover counts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub shares_outstanding: Vec<Fact>,
    /// The Items a current report reports (`5.02`), in order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reported_items: Vec<Fact>,
    /// Central Index Key, digits without leading zeros; only from a path, header or sidecar.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cik: Option<Fact>,
    /// Accession number, `0000320193-22-000108`; only from a path, header or sidecar.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accession: Option<Fact>,
    /// ISO 639-1 code of the main language.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub language: Option<Fact>,
}

impl FilingFacts {
    /// The facts that are there, by their stable names; a name with several values comes once for each.
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
        entries.extend(self.tickers.iter().map(|ticker| ("ticker", &ticker.symbol)));
        entries.extend(
            self.shares_outstanding
                .iter()
                .map(|shares| ("shares_outstanding", shares)),
        );
        entries.extend(
            self.reported_items
                .iter()
                .map(|item| ("reported_item", item)),
        );
        let last = [
            ("cik", &self.cik),
            ("accession", &self.accession),
            ("language", &self.language),
        ];
        entries.extend(
            last.into_iter()
                .filter_map(|(name, fact)| fact.as_ref().map(|fact| (name, fact))),
        );
        entries
    }
    /// A Central Index Key: up to ten digits, written without leading zeros.
    pub fn parse_cik(text: &str) -> Option<String> {
        let digits = text
            .trim()
            .trim_start_matches("CIK")
            .trim_start_matches('0');
        let sound = (1..=10).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        sound.then(|| digits.to_owned())
    }

    /// An accession number: 18 digits, with or without the two hyphens, written with them.
    pub fn parse_accession(text: &str) -> Option<String> {
        let text = text.trim();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let hyphens: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
        let sound =
            text.len() == 18 && hyphens.is_empty() || text.len() == 20 && hyphens == [10, 13];
        (sound && digits.len() == 18)
            .then(|| format!("{}-{}-{}", &digits[..10], &digits[10..12], &digits[12..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cik_and_accession_numbers_are_normalized() {
        let cik = |text| FilingFacts::parse_cik(text);
        assert_eq!(cik("0000320193").as_deref(), Some("320193"));
        assert_eq!(
            (cik("0"), cik("12a"), cik(""), cik("12345678901")),
            (None, None, None, None)
        );
        let accession = |text| FilingFacts::parse_accession(text);
        assert_eq!(
            accession("000032019322000108").as_deref(),
            Some("0000320193-22-000108")
        );
        assert_eq!(
            accession("0000320193-22-000108").as_deref(),
            Some("0000320193-22-000108")
        );
        assert_eq!(
            (
                accession("0000320193-2200-0108"),
                accession("1234"),
                accession("")
            ),
            (None, None, None)
        );
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
