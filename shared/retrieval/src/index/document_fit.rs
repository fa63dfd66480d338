//! How well a document fits the period and the form that a query names.
//!
//! The filing of a period comes before later filings that repeat the period in comparative columns. "Latest" is relative
//! to the documents in scope: the one whose period ends last, for each issuer.

use std::collections::{BTreeMap, BTreeSet};

use stemma_reading::query_period::LatestPeriod;
use tantivy::Term;

use super::passage_set::PassageSet;
use super::schema::{DocumentKind, Fields};
use crate::parsed_query::ParsedQuery;

// Documents of the requested year, quarter and form.
const SAME_YEAR_WEIGHT: f32 = 12.0;
const SAME_QUARTER_WEIGHT: f32 = 12.0;
const SAME_FORM_WEIGHT: f32 = 12.0;
// An annual report shows up to two earlier years with its own.
const LATER_YEAR_WEIGHTS: [f32; 2] = [6.0, 5.0];
const NEAR_YEAR_WEIGHT: f32 = 4.0;
// Without a requested quarter, annual reports are preferred, and the newest without a year.
const ANNUAL_WEIGHT: f32 = 2.0;
const NEWEST_ANNUAL_WEIGHT: f32 = 2.0;
// Fiscal years of 52 weeks end some days before or after the month does.
const PERIOD_END_DAYS: u64 = 10;
// Without a named issuer, the newest filings of this many documents are found.
const MAX_DOCUMENTS: usize = 5_000;

// The dates and the kind of a document.
struct DocumentDates {
    doc_key: u64,
    fiscal_year: u64,
    /// 1 to 4; 0 for a whole year, or if unknown.
    quarter: u64,
    /// [`DocumentKind`].
    sort: u64,
    /// As a number: 20221231; 0 if unknown.
    period_end: u64,
    /// Count of the requested years among the years of its name and dates.
    near_years: usize,
}

/// Scores documents for one query.
pub(super) struct DocumentFit<'q> {
    parsed: &'q ParsedQuery,
    // Keys of the newest documents of their issuers.
    newest: BTreeSet<u64>,
}

impl<'q> DocumentFit<'q> {
    /// `documents` are those in scope. `is_one_issuer` says that they are all of one issuer, under whatever name they were
    /// filed.
    pub(super) fn new(
        parsed: &'q ParsedQuery,
        documents: &PassageSet<'_>,
        is_one_issuer: bool,
    ) -> tantivy::Result<Self> {
        let mut newest = BTreeMap::new();
        if parsed.period.years.is_empty() && documents.len() <= MAX_DOCUMENTS {
            newest = newest_documents(parsed, documents, is_one_issuer)?;
        }
        Ok(Self {
            parsed,
            newest: newest.into_values().map(|(_, doc_key)| doc_key).collect(),
        })
    }

    fn score(&self, document: &DocumentDates) -> f32 {
        let is_annual = document.sort == DocumentKind::Annual as u64;
        let mut fit = self.period_fit(document, is_annual);
        match self.parsed.period.quarter.map(u64::from) {
            Some(quarter) if document.quarter == quarter && !is_annual => {
                fit += SAME_QUARTER_WEIGHT;
            }
            // Annual reports often have a table of quarters, and the fourth has no report of its own.
            Some(4) if is_annual => fit += SAME_QUARTER_WEIGHT / 2.0,
            None if is_annual => fit += ANNUAL_WEIGHT,
            _ => {}
        }
        if let Some(form) = &self.parsed.form
            && DocumentKind::from_form(form) as u64 == document.sort
        {
            fit += SAME_FORM_WEIGHT;
        }
        fit
    }

    /// How well the document of each passage, or each document, fits; 0 for what is not a filing.
    pub(super) fn scores(
        &self,
        passages: &PassageSet<'_>,
        fields: &Fields,
    ) -> tantivy::Result<Vec<f32>> {
        let doc_keys = passages.column("doc_key")?;
        let years = passages.column("fiscal_year")?;
        let quarters = passages.column("quarter")?;
        let kinds = passages.column("sort")?;
        let ends = passages.column("period_end")?;
        let mut near_years = vec![0; passages.len()];
        for year in &self.parsed.period.years {
            let term = Term::from_field_text(fields.near_years, &year.to_string());
            for (count, has) in near_years.iter_mut().zip(passages.having(&term)?) {
                *count += usize::from(has);
            }
        }
        let scores = (0..passages.len()).map(|at| {
            if kinds[at] == DocumentKind::Other as u64 {
                return 0.0;
            }
            self.score(&DocumentDates {
                doc_key: doc_keys[at],
                fiscal_year: years[at],
                quarter: quarters[at],
                sort: kinds[at],
                period_end: ends[at],
                near_years: near_years[at],
            })
        });
        Ok(scores.collect())
    }

    /// Keys of the documents that fit best, if the query names a period or form and they have it.
    pub(super) fn requested_documents(
        &self,
        documents: &PassageSet<'_>,
        fields: &Fields,
    ) -> tantivy::Result<Vec<u64>> {
        let period = &self.parsed.period;
        let is_named = !period.years.is_empty()
            || period.quarter.is_some()
            || period.latest.is_some()
            || period.end.is_some()
            || self.parsed.form.is_some();
        if !is_named {
            return Ok(Vec::new());
        }
        let scores = self.scores(documents, fields)?;
        let best = scores.iter().copied().fold(SAME_YEAR_WEIGHT, f32::max);
        let keys = documents.column("doc_key")?.into_iter().zip(scores);
        Ok(keys
            .filter(|(_, score)| *score >= best)
            .map(|(key, _)| key)
            .collect())
    }

    fn period_fit(&self, document: &DocumentDates, is_annual: bool) -> f32 {
        let period = &self.parsed.period;
        if period
            .end
            .is_some_and(|end| is_same_day(end, document.period_end))
        {
            return SAME_YEAR_WEIGHT + SAME_QUARTER_WEIGHT;
        }
        // Only the latest year counts: a comparison of years is found in the filing for the last one.
        let Some(last) = period.years.last().copied().map(u64::from) else {
            return match period.latest {
                _ if !self.newest.contains(&document.doc_key) => 0.0,
                Some(_) => SAME_YEAR_WEIGHT,
                None => NEWEST_ANNUAL_WEIGHT,
            };
        };
        let later = document.fiscal_year.checked_sub(last);
        let later = later
            .and_then(|years| usize::try_from(years).ok())
            .unwrap_or(usize::MAX);
        match later {
            0 => SAME_YEAR_WEIGHT,
            1 | 2 if is_annual => LATER_YEAR_WEIGHTS[later - 1],
            _ if document.near_years > 0 => NEAR_YEAR_WEIGHT,
            _ => 0.0,
        }
    }
}

// The document of the requested kind whose period ends last, with that end, by issuer.
fn newest_documents(
    parsed: &ParsedQuery,
    documents: &PassageSet<'_>,
    is_one_issuer: bool,
) -> tantivy::Result<BTreeMap<u64, (u64, u64)>> {
    let companies = documents.column("company_key")?;
    let ends = documents.column("period_end")?;
    let years = documents.column("fiscal_year")?;
    let sorts = documents.column("sort")?;
    let quarters = documents.column("quarter")?;
    let mut newest: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (at, doc_key) in documents.column("doc_key")?.into_iter().enumerate() {
        let issuer = if is_one_issuer { 1 } else { companies[at] };
        let end = match ends[at] {
            0 => years[at] * 10_000,
            end => end,
        };
        if issuer == 0 || end == 0 || !is_requested_kind(parsed, sorts[at], quarters[at]) {
            continue;
        }
        let best = newest.entry(issuer).or_default();
        *best = (end, doc_key).max(*best);
    }
    Ok(newest)
}

fn is_requested_kind(parsed: &ParsedQuery, sort: u64, quarter: u64) -> bool {
    let is = |kind: DocumentKind| kind as u64 == sort;
    let is_quarterly = is(DocumentKind::Quarterly) || is(DocumentKind::Release);
    if let Some(form) = &parsed.form {
        return is(DocumentKind::from_form(form));
    }
    match (parsed.period.quarter, parsed.period.latest) {
        (Some(requested), _) => is_quarterly && u64::from(requested) == quarter,
        (None, Some(LatestPeriod::Quarter)) => is_quarterly,
        (None, Some(LatestPeriod::Any)) => is_quarterly || is(DocumentKind::Annual),
        (None, Some(LatestPeriod::Year) | None) => is(DocumentKind::Annual),
    }
}

fn is_same_day(a: u64, b: u64) -> bool {
    approximate_days(a).abs_diff(approximate_days(b)) <= PERIOD_END_DAYS
}

// Months of 31 days are exact enough for a distance of some days.
fn approximate_days(date: u64) -> u64 {
    date / 10_000 * 372 + date / 100 % 100 * 31 + date % 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(query: &str, document: &DocumentDates) -> f32 {
        let parsed = ParsedQuery::parse(query);
        let fit = DocumentFit {
            parsed: &parsed,
            newest: BTreeSet::from([3]),
        };
        fit.score(document)
    }

    fn annual(year: u64) -> DocumentDates {
        DocumentDates {
            doc_key: year % 10,
            fiscal_year: year,
            quarter: 0,
            sort: DocumentKind::Annual as u64,
            period_end: year * 10_000 + 1231,
            near_years: 0,
        }
    }

    fn quarterly(year: u64, quarter: u64) -> DocumentDates {
        DocumentDates {
            quarter,
            sort: DocumentKind::Quarterly as u64,
            period_end: year * 10_000 + quarter * 300 + 30,
            ..annual(year)
        }
    }

    #[test]
    fn filing_of_the_period_comes_before_later_and_earlier_ones() {
        let fits = [2022, 2023, 2024, 2021].map(|year| score("sales in FY22", &annual(year)));
        assert!(fits.is_sorted_by(|a, b| a > b), "{fits:?}");
        assert!(
            score("change from 2021 to 2022", &annual(2022))
                > score("change from 2021 to 2022", &annual(2021))
        );
    }

    #[test]
    fn quarters_and_dates_choose_the_filing_that_ends_then() {
        for query in [
            "sales in 2Q22",
            "cash as of June 30, 2022",
            "the quarter ended July 2, 2022",
        ] {
            let fits = [
                quarterly(2022, 2),
                quarterly(2022, 1),
                quarterly(2021, 2),
                annual(2022),
            ];
            let fits = fits.map(|document| score(query, &document));
            assert!(
                fits[1..].iter().all(|fit| *fit < fits[0]),
                "{query}: {fits:?}"
            );
        }
    }

    #[test]
    fn latest_is_relative_to_the_documents() {
        for query in ["sales last year", "sales"] {
            let other = score(query, &annual(2022));
            assert!(score(query, &annual(2023)) > other, "{query}");
        }
        assert_eq!(
            score("sales in 2022", &annual(2023)),
            LATER_YEAR_WEIGHTS[0] + ANNUAL_WEIGHT
        );
    }
}
