//! Facts about a filing, and the table of their names.

use serde::{Deserialize, Serialize};

use crate::Fact;

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
    /// Name of the audit firm; only from a tag or sidecar.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub auditor: Option<Fact>,
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
        let facts = FactDefinition::ALL.iter();
        facts
            .flat_map(|fact| {
                let values = fact.values(self).into_iter();
                values.map(|value| (fact.name, value))
            })
            .collect()
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

/// A fact by its stable name: how it is read, checked and stated from outside. [`FactDefinition::ALL`] is the list of them.
#[derive(Debug)]
pub struct FactDefinition {
    pub name: &'static str,
    value_type: FactType,
    read: fn(&FilingFacts) -> Vec<&Fact>,
    // Sets a fact that a sidecar may state; `None` for others.
    set: Option<fn(&mut FilingFacts, Fact)>,
    /// What declares it in a filing with inline XBRL.
    pub tag: Option<FactTag>,
}

/// The tag of a fact that a filing states about itself.
#[derive(Debug, Clone, Copy)]
pub struct FactTag {
    /// Its name in the metadata of a source.
    pub key: &'static str,
    /// `dei:DocumentType`.
    pub concept: &'static str,
}

/// How the value of a fact is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FactType {
    /// One line of at most 200 bytes.
    Text,
    /// Four digits.
    Year,
    /// `FY`, `Q1` … `Q4`.
    FiscalPeriod,
    /// ISO 8601 date.
    Date,
    Cik,
    Accession,
}

// The values of a field. With a type it has one value, which a sidecar may state.
macro_rules! fact {
    ($name:literal, $field:ident) => {
        FactDefinition::new($name, |facts| facts.$field.iter().collect())
    };
    ($name:literal, $field:ident: $value_type:ident) => {
        FactDefinition {
            value_type: FactType::$value_type,
            set: Some(|facts, fact| facts.$field = Some(fact)),
            ..fact!($name, $field)
        }
    };
}

impl FactDefinition {
    /// In the order in which facts are listed.
    pub const ALL: &[FactDefinition] = &[
        fact!("company", issuer: Text).tagged("tags.company", "dei:EntityRegistrantName"),
        fact!("form", form: Text).tagged("tags.form", "dei:DocumentType"),
        fact!("fiscal_year", fiscal_year: Year)
            .tagged("tags.fiscal_year", "dei:DocumentFiscalYearFocus"),
        fact!("fiscal_period", fiscal_period: FiscalPeriod)
            .tagged("tags.fiscal_period", "dei:DocumentFiscalPeriodFocus"),
        fact!("period_end", period_end: Date).tagged("tags.period", "dei:DocumentPeriodEndDate"),
        fact!("filed", filed: Date),
        fact!("file_number", file_number: Text),
        fact!("irs_number", irs_number: Text),
        fact!("state", state: Text),
        Self::new("co_registrant", |facts| {
            facts
                .co_registrants
                .iter()
                .map(|other| &other.name)
                .collect()
        }),
        Self {
            set: Some(|facts, symbol| {
                let exchange = None;
                facts.tickers = vec![Ticker { symbol, exchange }];
            }),
            ..Self::new("ticker", |facts| facts.symbols().collect())
        },
        fact!("reported_item", reported_items),
        fact!("cik", cik: Cik).tagged("tags.cik", "dei:EntityCentralIndexKey"),
        fact!("accession", accession: Accession),
        fact!("sic", sic),
        fact!("document_type", document_type),
        fact!("sequence", sequence),
        fact!("document_description", document_description),
        fact!("auditor", auditor: Text).tagged("tags.auditor", "dei:AuditorName"),
        fact!("language", language),
        fact!("former_name", former_names),
    ];

    /// Number of facts that tags declare. A stage that reads the tags counts it into its revision.
    pub const TAGGED: u32 = {
        let mut tagged = 0;
        let mut at = 0;
        while at < Self::ALL.len() {
            tagged += Self::ALL[at].tag.is_some() as u32;
            at += 1;
        }
        tagged
    };

    const fn new(name: &'static str, read: fn(&FilingFacts) -> Vec<&Fact>) -> Self {
        Self {
            name,
            value_type: FactType::Text,
            read,
            set: None,
            tag: None,
        }
    }

    const fn tagged(self, key: &'static str, concept: &'static str) -> Self {
        Self {
            tag: Some(FactTag { key, concept }),
            ..self
        }
    }

    /// The facts that a sidecar may state.
    pub fn for_sidecars() -> impl Iterator<Item = &'static FactDefinition> {
        Self::ALL.iter().filter(|fact| fact.set.is_some())
    }

    /// A fact that a sidecar may state.
    pub fn from_sidecar_name(name: &str) -> Option<&'static FactDefinition> {
        Self::for_sidecars().find(|fact| fact.name == name)
    }

    pub fn values<'f>(&self, facts: &'f FilingFacts) -> Vec<&'f Fact> {
        (self.read)(facts)
    }

    /// Replaces the values of a fact that a sidecar or a tag states.
    pub fn set(&self, facts: &mut FilingFacts, fact: Fact) {
        if let Some(set) = self.set {
            set(facts, fact);
        }
    }

    /// Whether it is derived from other facts where none is stated: the fiscal year and period.
    pub fn is_derivable(&self) -> bool {
        matches!(self.value_type, FactType::Year | FactType::FiscalPeriod)
    }

    /// The canonical form of a value; `None` if the value is not valid for this fact.
    pub fn canonical(&self, value: &str) -> Option<String> {
        let value = value.trim();
        let is_valid = match self.value_type {
            FactType::Cik => return FilingFacts::parse_cik(value),
            FactType::Accession => return FilingFacts::parse_accession(value),
            FactType::Year => value.len() == 4 && value.bytes().all(|b| b.is_ascii_digit()),
            FactType::FiscalPeriod => matches!(value, "FY" | "Q1" | "Q2" | "Q3" | "Q4"),
            FactType::Date => is_date(value),
            FactType::Text => {
                !value.is_empty() && value.len() <= 200 && !value.chars().any(char::is_control)
            }
        };
        is_valid.then(|| value.to_owned())
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = parts
        .iter()
        .all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let number = |at: usize| {
        parts
            .get(at)
            .and_then(|part| part.parse::<u32>().ok())
            .unwrap_or(0)
    };
    digits
        && parts.iter().map(|part| part.len()).eq([4, 2, 2])
        && (1..=12).contains(&number(1))
        && (1..=31).contains(&number(2))
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
    fn values_are_canonicalized() {
        let canonical = |name, value| FactDefinition::from_sidecar_name(name)?.canonical(value);
        assert_eq!(canonical("cik", " 0000320193 ").as_deref(), Some("320193"));
        assert_eq!(
            canonical("filed", "2022-10-28").as_deref(),
            Some("2022-10-28")
        );
        for (name, value) in [
            ("filed", "10/28/2022"),
            ("fiscal_year", "FY22"),
            ("cik", "AAPL"),
            ("form", ""),
            ("sic", "3841"),
        ] {
            assert_eq!(canonical(name, value), None, "{name} {value}");
        }
    }

    #[test]
    fn tagged_facts_can_be_set() {
        for fact in FactDefinition::ALL {
            assert!(fact.set.is_some() || fact.tag.is_none(), "{}", fact.name);
        }
    }
}
