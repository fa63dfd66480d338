//! Facts about a document that do not come from its text: from a sidecar file, and from a path in EDGAR's
//! layout.
//!
//! They belong to a submission, not to the bytes, so no stage before publication reads them. The same text in
//! two places shares one tree, and a changed sidecar repeats the publication only.

use stemma_document::{DocumentVersion, Fact, FactSource, FilingFacts, Ticker};

use crate::filing_facts;
use crate::sources::{file_path, parse_object_uri};

/// Names of the facts that a sidecar may hold.
pub const FACT_NAMES: [&str; 12] = [
    "company",
    "form",
    "fiscal_year",
    "fiscal_period",
    "period_end",
    "filed",
    "file_number",
    "irs_number",
    "state",
    "ticker",
    "cik",
    "accession",
];

/// The canonical form of a fact's value; `None` if the value is not valid for that fact.
pub fn canonicalize(name: &str, value: &str) -> Option<String> {
    let value = value.trim();
    let is_valid = match name {
        "cik" => return FilingFacts::parse_cik(value),
        "accession" => return FilingFacts::parse_accession(value),
        "fiscal_year" => value.len() == 4 && value.bytes().all(|b| b.is_ascii_digit()),
        "fiscal_period" => matches!(value, "FY" | "Q1" | "Q2" | "Q3" | "Q4"),
        "period_end" | "filed" => is_date(value),
        _ => !value.is_empty() && value.len() <= 200 && !value.chars().any(char::is_control),
    };
    is_valid.then(|| value.to_owned())
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

/// Adds the facts of path, index files and sidecar to those of the text. A sidecar overrides everything, because the owner
/// of the archive wrote it. A path counts less than the header of a submission.
pub(crate) fn apply(facts: &mut FilingFacts, version: &DocumentVersion) {
    let (cik, accession) = path_facts(&version.uri);
    if facts.accession.is_none() {
        facts.accession = accession.map(|value| Fact::from_source(value, FactSource::Path));
    }
    if facts.cik.is_none() {
        facts.cik = cik.map(|value| Fact::from_source(value, FactSource::Path));
    }
    filing_facts::apply(facts, &version.filing_facts);
    for (name, value) in &version.sidecar_facts {
        let Some(value) = canonicalize(name, value) else {
            continue;
        };
        let fact = Fact::from_source(value, FactSource::Sidecar);
        match name.as_str() {
            "company" => facts.issuer = Some(fact),
            "form" => facts.form = Some(fact),
            "fiscal_year" => facts.fiscal_year = Some(fact),
            "fiscal_period" => facts.fiscal_period = Some(fact),
            "period_end" => facts.period_end = Some(fact),
            "filed" => facts.filed = Some(fact),
            "file_number" => facts.file_number = Some(fact),
            "irs_number" => facts.irs_number = Some(fact),
            "state" => facts.state = Some(fact),
            "ticker" => {
                facts.tickers = vec![Ticker {
                    symbol: fact,
                    exchange: None,
                }];
            }
            "cik" => facts.cik = Some(fact),
            "accession" => facts.accession = Some(fact),
            _ => {}
        }
    }
}

// CIK and accession number from `…/CIK/ACCESSION/…` or `…/CIK/ACCESSION.txt`; `ACCESSION.pdf` alone gives
// the accession number. The first ten digits of an accession number name the filing agent, so they are never
// used as the CIK.
fn path_facts(uri: &str) -> (Option<String>, Option<String>) {
    let path = file_path(uri).or_else(|| parse_object_uri(uri).map(|(_, key)| key.into()));
    let Some(path) = path else {
        return (None, None);
    };
    let names: Vec<String> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let last = names.len().saturating_sub(1);
    let accession = |at: usize| {
        let name = if at == last {
            names[at].split('.').next().unwrap_or_default()
        } else {
            names[at].as_str()
        };
        let name = name.strip_suffix("-index").unwrap_or(name);
        FilingFacts::parse_accession(name)
    };
    let Some((at, accession)) = (0..names.len())
        .rev()
        .find_map(|at| Some((at, accession(at)?)))
    else {
        return (None, None);
    };
    // Digits without hyphens are an EDGAR folder only if the folder above is a CIK.
    let above = at
        .checked_sub(1)
        .and_then(|above| FilingFacts::parse_cik(&names[above]));
    let hyphened = names[at].contains('-');
    (
        above.clone(),
        (hyphened || above.is_some()).then_some(accession),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edgar_paths_give_cik_and_accession() {
        for (uri, expected) in [
            (
                "file:///edgar/data/320193/000032019322000108/aapl.pdf",
                "320193 0000320193-22-000108",
            ),
            (
                "file:///a/320193/0000320193-22-000108.txt",
                "320193 0000320193-22-000108",
            ),
            (
                "file:///a/0000320193/0000320193-22-000108/10-K.pdf",
                "320193 0000320193-22-000108",
            ),
            (
                "file:///a/filings/0000320193-22-000108.pdf",
                " 0000320193-22-000108",
            ),
            ("file:///a/filings/000032019322000108.pdf", " "),
            ("file:///a/2022/AAPL_320193.pdf", " "),
            (
                "s3://bucket/320193/0000320193-22-000108.txt",
                "320193 0000320193-22-000108",
            ),
            ("https://host/320193/0000320193-22-000108.txt", " "),
        ] {
            let (cik, accession) = path_facts(uri);
            let facts = [cik.unwrap_or_default(), accession.unwrap_or_default()].join(" ");
            assert_eq!(facts, expected, "{uri}");
        }
    }

    #[test]
    fn values_are_canonicalized() {
        assert_eq!(
            canonicalize("cik", " 0000320193 ").as_deref(),
            Some("320193")
        );
        assert_eq!(
            canonicalize("filed", "2022-10-28").as_deref(),
            Some("2022-10-28")
        );
        for (name, value) in [
            ("filed", "10/28/2022"),
            ("fiscal_year", "FY22"),
            ("cik", "AAPL"),
            ("form", ""),
        ] {
            assert_eq!(canonicalize(name, value), None, "{name} {value}");
        }
    }
}
