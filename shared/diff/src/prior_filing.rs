//! Finds the filing to compare with when none is named: the issuer's previous one on the same form.

use std::sync::Arc;

use stemma_document::{CatalogEntry, Fact, FilingFacts};
use stemma_reading::companies::company_key;
use stemma_store::{PortError, PortResult};

use super::titles::form_family;
use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::filter::{Condition, Filter, FilterOp};
use stemma_catalog::property::Property;

// Filings listed in an error.
const MAX_CANDIDATES: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriorFilingError {
    /// The document lacks the facts that identify its predecessor.
    #[error(
        "`{document}` does not state its {missing}, so the filing before it is unknown; name it"
    )]
    NotAFiling {
        document: String,
        /// `issuer`, `form` or `period`.
        missing: &'static str,
        /// Labels of possible filings.
        candidates: Vec<String>,
    },
    /// The collection has no earlier filing.
    #[error("no {form} of {issuer} before {period} is in the collection")]
    None {
        form: String,
        issuer: String,
        /// Period of the document.
        period: String,
        /// Labels of the issuer's other filings, the nearest in time first.
        candidates: Vec<String>,
    },
    /// Several filings have the same period.
    #[error("{count} filings of {issuer} are for {period}")]
    Several {
        issuer: String,
        period: String,
        count: usize,
        candidates: Vec<String>,
    },
    /// The company has no filing for the year.
    #[error("no {form} of {issuer} for {year} is in the collection")]
    NoYear {
        /// `filing` when no form was given.
        form: String,
        issuer: String,
        year: String,
        /// Labels of its filings.
        candidates: Vec<String>,
    },
    /// The catalog cannot be read.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// The filing before `catalog_document`: same issuer and form, the latest period that ended before its own. For a quarter, the
/// same quarter of an earlier year if there is one. An amendment follows the filing it amends, and is never itself the
/// filing to compare with.
///
/// # Errors
/// [`PriorFilingError`] when there is no such filing or more than one, with candidates.
pub fn prior_filing(
    catalog: &Catalog,
    document: &CatalogDocument,
) -> Result<Arc<CatalogDocument>, PriorFilingError> {
    let lacking = |missing, candidates: &[Arc<CatalogDocument>]| PriorFilingError::NotAFiling {
        document: document.label.clone(),
        missing,
        candidates: labels(candidates),
    };
    let named = facts_of(document).and_then(|facts| Some((facts, fact_value(&facts.issuer)?)));
    let (facts, issuer) = named.ok_or_else(|| lacking("issuer", &[]))?;
    let mut same = Vec::new();
    for other in catalog.list(&may_be_issued_by(catalog, facts)?) {
        let other = other?;
        if other.doc() != document.doc() && is_issued_by(&other, facts) {
            same.push(other);
        }
    }
    let form = fact_value(&facts.form).ok_or_else(|| lacking("form", &same))?;
    let period = period_of(facts).ok_or_else(|| lacking("period", &same))?;
    let amends = form.ends_with("/A");
    let family = form_family(Some(form));
    let mut earlier = select(&same, |theirs| {
        let ended = period_of(theirs);
        fact_value(&theirs.form) == Some(family)
            && ended.is_some_and(|ended| ended < period || amends && ended == period)
    });
    // A quarter is compared with the same quarter of the year before: business is seasonal.
    let quarter = fact_value(&facts.fiscal_period);
    let same_quarter = select(&earlier, |theirs| {
        family == "10-Q" && quarter.is_some() && fact_value(&theirs.fiscal_period) == quarter
    });
    if !same_quarter.is_empty() {
        earlier = same_quarter;
    }
    let periods = earlier
        .iter()
        .filter_map(|other| period_of(facts_of(other)?));
    let latest = periods.max();
    let latest_filings = select(&earlier, |theirs| period_of(theirs) == latest);
    only_filing(&latest_filings, issuer, latest.unwrap_or_default())?.ok_or_else(|| {
        PriorFilingError::None {
            form: form.into(),
            issuer: issuer.into(),
            period: period.into(),
            candidates: nearest_labels(&same, period),
        }
    })
}

/// The filing of a fiscal year among `filings`, on `form` if given. Without a form an annual report is preferred; amendments count
/// only when `form` names them.
///
/// # Errors
/// [`PriorFilingError`] when there is no such filing or more than one.
pub fn filing_for_year(
    filings: &[Arc<CatalogDocument>],
    form: Option<&str>,
    year: &str,
) -> Result<Arc<CatalogDocument>, PriorFilingError> {
    let of_year = select(filings, |facts| {
        fact_value(&facts.fiscal_year) == Some(year)
    });
    let mut on_form = select(&of_year, |facts| {
        fact_value(&facts.form) == Some(form.unwrap_or("10-K"))
    });
    if form.is_none() && on_form.is_empty() {
        on_form.clone_from(&of_year);
    }
    let first = filings.first().and_then(|document| facts_of(document));
    let issuer = first.and_then(|facts| fact_value(&facts.issuer));
    let issuer = issuer.unwrap_or("the company");
    only_filing(&on_form, issuer, year)?.ok_or_else(|| PriorFilingError::NoYear {
        form: form.unwrap_or("filing").into(),
        issuer: issuer.into(),
        year: year.into(),
        candidates: labels(if of_year.is_empty() {
            filings
        } else {
            &of_year
        }),
    })
}

fn select(
    filings: &[Arc<CatalogDocument>],
    fits: impl Fn(&FilingFacts) -> bool,
) -> Vec<Arc<CatalogDocument>> {
    filings
        .iter()
        .filter(|document| facts_of(document).is_some_and(&fits))
        .cloned()
        .collect()
}

// `None` if there is no filing.
fn only_filing(
    filings: &[Arc<CatalogDocument>],
    issuer: &str,
    period: &str,
) -> Result<Option<Arc<CatalogDocument>>, PriorFilingError> {
    match filings {
        [] => Ok(None),
        [one] => Ok(Some(Arc::clone(one))),
        more => Err(PriorFilingError::Several {
            issuer: issuer.into(),
            period: period.into(),
            count: more.len(),
            candidates: labels(more),
        }),
    }
}

/// All filings of the issuers of `filings`, under any name: `ADOBE SYSTEMS INCORPORATED` and `ADOBE INC.` share a file number.
///
/// # Errors
/// `PortError` if the catalog cannot be read.
pub fn filings_of_issuers(
    catalog: &Catalog,
    filings: &[Arc<CatalogDocument>],
) -> PortResult<Vec<Arc<CatalogDocument>>> {
    let of_issuers = catalog.same_issuers(filings)?;
    catalog.list(&of_issuers).collect()
}

fn facts_of(document: &CatalogDocument) -> Option<&FilingFacts> {
    document.entry().map(|entry: &CatalogEntry| &entry.facts)
}

fn fact_value(fact: &Option<Fact>) -> Option<&str> {
    fact.as_ref().map(|fact| fact.value.as_str())
}

// Every document that `is_issued_by` accepts, and others: by the numbers and names that are stored.
fn may_be_issued_by(catalog: &Catalog, facts: &FilingFacts) -> PortResult<DocumentSet> {
    let mut documents = catalog.with_issuer_numbers(&facts.issuer_identity())?;
    // Short numbers do not identify an issuer, but a CIK of one or two digits is.
    if let Some(cik) = fact_value(&facts.cik) {
        let field = Property::Cik;
        let has_cik = Filter::Condition(Condition {
            field,
            op: FilterOp::In,
            values: vec![field.canonical(cik)],
        });
        documents = documents.or(&catalog.matching(&has_cik)?);
    }
    if let Some(issuer) = fact_value(&facts.issuer) {
        let name = company_key(issuer);
        let same = catalog.with_spelling(Property::Company, &|other| company_key(other) == name)?;
        documents = documents.or(&same);
    }
    Ok(documents)
}

// By CIK, else by file number, tax number, or name without its legal form.
fn is_issued_by(other: &CatalogDocument, facts: &FilingFacts) -> bool {
    let Some(theirs) = facts_of(other) else {
        return false;
    };
    same_number(&facts.cik, &theirs.cik)
        .or_else(|| same_number(&facts.file_number, &theirs.file_number).filter(|same| *same))
        .or_else(|| same_number(&facts.irs_number, &theirs.irs_number).filter(|same| *same))
        .unwrap_or_else(
            || match (fact_value(&facts.issuer), fact_value(&theirs.issuer)) {
                (Some(left), Some(right)) => company_key(left) == company_key(right),
                _ => false,
            },
        )
}

fn same_number(left: &Option<Fact>, right: &Option<Fact>) -> Option<bool> {
    let [left, right] = [fact_value(left)?, fact_value(right)?].map(FilingFacts::normalize_number);
    Some(left == right)
}

// End of the period, else the fiscal year. ISO dates and years compare as text.
fn period_of(facts: &FilingFacts) -> Option<&str> {
    fact_value(&facts.period_end).or_else(|| fact_value(&facts.fiscal_year))
}

fn labels(documents: &[Arc<CatalogDocument>]) -> Vec<String> {
    documents
        .iter()
        .take(MAX_CANDIDATES)
        .map(|document| document.label.clone())
        .collect()
}

fn leading_year(text: &str) -> i64 {
    let year = text.get(..4).and_then(|year| year.parse().ok());
    year.unwrap_or(0)
}

fn nearest_labels(documents: &[Arc<CatalogDocument>], period: &str) -> Vec<String> {
    let mut sorted = documents.to_vec();
    sorted.sort_by_key(|other| {
        let theirs = facts_of(other).and_then(period_of).unwrap_or_default();
        let distance = leading_year(theirs).abs_diff(leading_year(period));
        (distance, other.label.clone())
    });
    labels(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_catalog::fixtures::entry;

    fn filing(
        path: &str,
        issuer: &str,
        form: &str,
        end: &str,
        file_number: Option<&str>,
    ) -> CatalogEntry {
        let fact = |value: &str| Some(Fact::from_text(value, None));
        let mut entry = entry(path);
        entry.facts = FilingFacts {
            issuer: fact(issuer),
            form: fact(form),
            fiscal_year: fact(&end[..4]),
            fiscal_period: fact(if form.starts_with("10-Q") {
                &end[5..7]
            } else {
                "FY"
            }),
            period_end: fact(end),
            file_number: file_number.and_then(fact),
            ..FilingFacts::default()
        };
        entry
    }

    fn archive() -> Catalog {
        Catalog::from_entries([
            filing(
                "old.pdf",
                "ACME SYSTEMS CO",
                "10-K",
                "2019-12-31",
                Some("0-123"),
            ),
            filing(
                "k21.pdf",
                "ACME INC",
                "10-K",
                "2021-12-31",
                Some("000-00123"),
            ),
            filing("k22.pdf", "Acme, Inc.", "10-K", "2022-12-31", None),
            filing("k22a.pdf", "Acme, Inc.", "10-K/A", "2022-12-31", None),
            filing("q1.pdf", "ACME INC", "10-Q", "2022-03-31", None),
            filing("q2.pdf", "ACME INC", "10-Q", "2022-06-30", None),
            filing("q1-next.pdf", "ACME INC", "10-Q", "2023-03-31", None),
            filing(
                "other.pdf",
                "OTHER INC",
                "10-K",
                "2021-12-31",
                Some("0-999"),
            ),
        ])
    }

    #[test]
    fn prior_filing_has_same_issuer_form_and_quarter() {
        let archive = archive();
        let before = |name: &str| match prior_filing(&archive, &archive.resolve(name).unwrap()) {
            Ok(listed) => listed.label.clone(),
            Err(error) => error.to_string(),
        };
        for (name, expected) in [
            ("k22", "k21"),
            ("k21", "old"),
            ("k22a", "k22"),
            ("q1-next", "q1"),
            ("q2", "q1"),
            (
                "other",
                "no 10-K of OTHER INC before 2021-12-31 is in the collection",
            ),
            (
                "q1",
                "no 10-Q of ACME INC before 2022-03-31 is in the collection",
            ),
        ] {
            assert_eq!(before(name), expected, "{name}");
        }
    }

    #[test]
    fn fiscal_year_resolves_to_annual_report_across_renames() {
        let archive = archive();
        let acme: Vec<Arc<CatalogDocument>> = ["k21", "q1"]
            .map(|name| archive.resolve(name).unwrap())
            .into();
        let all = filings_of_issuers(&archive, &acme).unwrap();
        assert_eq!(
            all.iter()
                .map(|listed| listed.label.as_str())
                .collect::<Vec<_>>(),
            ["k21", "old", "q1"]
        );
        let of =
            |form, year| filing_for_year(&all, form, year).map(|document| document.label.clone());
        assert_eq!(of(None, "2019"), Ok("old".into()));
        assert_eq!(of(None, "2021"), Ok("k21".into()));
        assert_eq!(of(None, "2022"), Ok("q1".into()));
        assert!(matches!(
            of(Some("10-K"), "2022"),
            Err(PriorFilingError::NoYear { .. })
        ));
    }

    proptest::proptest! {
        // Each case has its own catalog.
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
        #[test]
        fn stored_numbers_and_names_find_what_a_walk_finds(
            filings in proptest::collection::vec((0..9_usize, 0..4_usize, 0..4_usize), 1..16)
        ) {
            const ISSUERS: [&str; 9] = [
                "", "O'Neil Inc", "O Neil", "Ford Motor Co of Canada", "Ford Motor Company of Canada", "The Gap",
                "GAP INC.", "3M.com", "3M com",
            ];
            const CIKS: [&str; 4] = ["", "20", "0000000020", "123456"];
            const FILE_NUMBERS: [&str; 4] = ["", "001-03285", "1-3285", "2-111"];
            let fact = |value: &str| (!value.is_empty()).then(|| Fact::from_text(value, None));
            let entries = filings.iter().enumerate().map(|(at, (issuer, cik, file))| {
                let mut entry = entry(&format!("{at}.pdf"));
                entry.facts.issuer = fact(ISSUERS[*issuer]);
                entry.facts.cik = fact(CIKS[*cik]);
                entry.facts.file_number = fact(FILE_NUMBERS[*file]);
                entry
            });
            let catalog = Catalog::from_entries(entries);
            let all: Vec<_> = catalog.documents().collect::<PortResult<_>>().unwrap();
            for facts in all.iter().filter_map(|document| facts_of(document)) {
                let walked: Vec<_> = all.iter().filter(|other| is_issued_by(other, facts)).cloned().collect();
                let may_be = may_be_issued_by(&catalog, facts).unwrap();
                let listed: Vec<_> = catalog.list(&may_be).collect::<PortResult<_>>().unwrap();
                let found: Vec<_> = listed.into_iter().filter(|other| is_issued_by(other, facts)).collect();
                proptest::prop_assert_eq!(found, walked);
            }
        }
    }
}
