//! Comparable values of a concept over periods and companies, from the facts of filings.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use rust_decimal::Decimal;
use serde::Serialize;
use serde_json::Value;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::page_locator;
use stemma_store::{PortResult, work};
use stemma_xbrl::{Date, Decimals, FactTable, FactValue, Period, TaggedFact};
use utoipa::ToSchema;

use super::query::ConceptQuery;
use crate::archive::spawn_cpu;
use crate::{ApiError, Archive, ListRequest};

// Filings that one request reads. A company files some 30 in ten years.
const MAX_DOCUMENTS: usize = 2_000;
// Facts are small: reading waits for the store.
const READS_AT_ONCE: usize = 16;
// Names to choose from where a concept has no values.
const MAX_SIMILAR: usize = 10;

/// What to compare.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeriesRequest {
    /// A folder, an axis path or a document; empty for all.
    pub scope: String,
    /// A concept, or several with commas between; each period shows the first that has a value.
    pub concept: String,
    /// Typed filter, as text or JSON.
    pub filter: Option<Value>,
    /// `annual` (default), `quarterly` or `all`.
    pub frequency: Option<String>,
}

/// Values of a concept by company.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SeriesResponse {
    /// `annual`, `quarterly` or `all`.
    pub frequency: String,
    /// One for each company and unit.
    pub series: Vec<EntitySeries>,
    /// Documents in the scope.
    pub documents: usize,
    /// The documents that have tagged facts.
    pub documents_with_facts: usize,
    /// Names of concepts like the one asked for, if no company has values of it.
    pub similar: Vec<String>,
}

/// The values of one company in one unit, in the order of their periods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EntitySeries {
    /// Identifier of the company: a CIK of ten digits.
    pub entity: String,
    /// Its name, as its newest filing states it.
    pub name: Option<String>,
    /// `USD`, `USD/shares`, `pure`.
    pub unit: String,
    pub points: Vec<SeriesPoint>,
}

/// The value of a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SeriesPoint {
    /// Concept with its prefix.
    pub concept: String,
    /// First day; `null` for a value at the end of a day.
    pub from: Option<String>,
    /// Last day.
    pub to: String,
    /// What the newest filing with it reports.
    #[serde(flatten)]
    pub reported: ReportedValue,
    /// Whether an earlier filing reports another value.
    pub restated: bool,
    /// Other values of earlier filings, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<ReportedValue>,
}

/// A value and the filing that reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReportedValue {
    /// The exact number.
    pub value: String,
    /// Decimal places to which it is rounded; `INF` if exact.
    pub decimals: Option<String>,
    /// Locator of the filing, or of the page.
    pub locator: String,
    pub doc_id: String,
    /// The last day of the period that the filing is about.
    pub filing_period: Option<String>,
    /// Offset of the tag in the file.
    pub byte: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frequency {
    Annual,
    Quarterly,
    All,
}

impl Frequency {
    fn parse(text: Option<&str>) -> Result<Self, ApiError> {
        let name = text.unwrap_or("annual");
        let all = [Self::Annual, Self::Quarterly, Self::All];
        let named = all.into_iter().find(|frequency| frequency.as_str() == name);
        named.ok_or_else(|| {
            let message = "frequency must be annual, quarterly or all";
            ApiError::invalid_field("/frequency", message)
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Annual => "annual",
            Self::Quarterly => "quarterly",
            Self::All => "all",
        }
    }

    // Fiscal years have 52 or 53 weeks, quarters 12 to 14.
    fn has(self, period: Period, year_ends: &BTreeSet<Date>) -> bool {
        match (self, period) {
            (Self::All, _) => true,
            (_, Period::Forever) => false,
            (Self::Annual, Period::Instant(day)) => {
                year_ends.is_empty() || year_ends.contains(&day)
            }
            (Self::Annual, Period::Duration { .. }) => is_year(period),
            (Self::Quarterly, Period::Instant(_)) => true,
            (Self::Quarterly, Period::Duration { .. }) => {
                period.days().is_some_and(|days| (80..=100).contains(&days))
            }
        }
    }
}

fn is_year(period: Period) -> bool {
    period
        .days()
        .is_some_and(|days| (350..=380).contains(&days))
}

// What one filing says about the concepts.
struct FilingValues {
    label: String,
    doc_id: String,
    // The end of its period, and when it was filed: later filings restate earlier ones.
    order: (Option<Date>, String, u64),
    names: BTreeMap<String, String>,
    year_ends: BTreeMap<String, BTreeSet<Date>>,
    values: Vec<FiledValue>,
    similar: BTreeSet<String>,
}

struct FiledValue {
    entity: String,
    unit: String,
    // Place of its concept in the request.
    rank: usize,
    concept: String,
    period: Period,
    number: Decimal,
    decimals: Option<Decimals>,
    page: Option<stemma_document::PageNo>,
    byte: u32,
}

impl Archive {
    /// Values of a concept over the filings in a scope, from facts of the whole company.
    pub async fn series(&self, request: &SeriesRequest) -> Result<SeriesResponse, ApiError> {
        let frequency = Frequency::parse(request.frequency.as_deref())?;
        let names = request
            .concept
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() {
            let message = "concept must name a concept, such as Revenues";
            return Err(ApiError::invalid_field("/concept", message));
        }
        let list = ListRequest {
            filter: request.filter.clone(),
            ..ListRequest::new(request.scope.clone())
        };
        let documents = self.select(&list)?;
        if documents.len() > MAX_DOCUMENTS {
            let message = format!(
                "the scope has {} documents, and a series reads at most {MAX_DOCUMENTS}",
                documents.len()
            );
            let next = "narrow the scope or add a filter: form=10-K";
            return Err(ApiError::new("series.too_many", message, next));
        }
        let documents = self
            .catalog
            .list(&documents)
            .collect::<PortResult<Vec<_>>>()?;
        let reads: Vec<_> = documents
            .iter()
            .map(|listed| self.filing_values(listed, &names))
            .collect();
        let read: Vec<Option<FilingValues>> = stream::iter(reads)
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        let mut filings: Vec<FilingValues> = read.into_iter().flatten().collect();
        filings.sort_by(|left, right| left.order.cmp(&right.order));
        let series = series(&filings, frequency);
        let mut similar: BTreeSet<&String> = filings.iter().flat_map(|it| &it.similar).collect();
        if !series.is_empty() {
            similar.clear();
        }
        Ok(SeriesResponse {
            frequency: frequency.as_str().to_owned(),
            series,
            documents: documents.len(),
            documents_with_facts: filings.len(),
            similar: similar.into_iter().take(MAX_SIMILAR).cloned().collect(),
        })
    }

    // `None` for a document without facts.
    async fn filing_values(
        &self,
        listed: &CatalogDocument,
        names: &[String],
    ) -> Result<Option<FilingValues>, ApiError> {
        let Some(published) = self.load_tree(listed).await? else {
            return Ok(None);
        };
        let filed = published.tree.facts.filed.as_ref();
        let filed = filed.map(|filed| filed.value.clone());
        let label = listed.label.clone();
        let version = &published.version;
        let doc_id = version.doc.to_string();
        let seq = version.seq;
        let names = names.to_vec();
        // Tables of several documents are in memory at once.
        let read = async {
            let Some(table) = self.load_facts(&published).await? else {
                return Ok(None);
            };
            let order = (filed.unwrap_or_default(), seq);
            spawn_cpu(move || read_values(&table, &names, label, doc_id, order))
                .await
                .map(Some)
        };
        Ok(work::part(read).await?)
    }
}

fn read_values(
    table: &FactTable,
    names: &[String],
    label: String,
    doc_id: String,
    (filed, seq): (String, u64),
) -> FilingValues {
    let queries: Vec<ConceptQuery> = names.iter().map(|name| ConceptQuery::new(name)).collect();
    let mut filing = FilingValues {
        label,
        doc_id,
        order: (None, filed, seq),
        names: BTreeMap::new(),
        year_ends: BTreeMap::new(),
        values: Vec::new(),
        similar: BTreeSet::new(),
    };
    for fact in table.facts().filter(|fact| fact.dimensions.is_empty()) {
        filing.read_cover(&fact);
        let Some(number) = fact.number() else {
            continue;
        };
        let rank = queries.iter().position(|query| query.is_named(&fact));
        let Some(rank) = rank else {
            if queries.iter().any(|query| query.has_words(&fact)) {
                filing.similar.insert(fact.concept.to_owned());
            }
            continue;
        };
        filing.values.push(FiledValue {
            entity: fact.entity.to_owned(),
            unit: fact.short_unit().unwrap_or_default(),
            rank,
            concept: fact.concept.to_owned(),
            period: fact.period,
            number,
            decimals: fact.decimals,
            page: fact.page,
            byte: fact.byte,
        });
    }
    filing
}

impl FilingValues {
    // Name, the end of the period, and the ends of fiscal years.
    fn read_cover(&mut self, fact: &TaggedFact<'_>) {
        if is_year(fact.period) && fact.number().is_some() {
            let ends = self.year_ends.entry(fact.entity.to_owned()).or_default();
            ends.extend(fact.period.end());
        }
        match (fact.concept, fact.value) {
            ("dei:EntityRegistrantName", FactValue::Text(name)) => {
                self.names.insert(fact.entity.to_owned(), name.to_owned());
            }
            ("dei:DocumentPeriodEndDate", FactValue::Text(day)) => {
                self.order.0 = self.order.0.or(day.parse().ok());
            }
            _ => {}
        }
    }

    fn reported(&self, value: &FiledValue) -> ReportedValue {
        ReportedValue {
            value: value.number.normalize().to_string(),
            decimals: value.decimals.map(|decimals| decimals.to_string()),
            locator: value.page.map_or_else(
                || self.label.clone(),
                |page| page_locator(&self.label, page),
            ),
            doc_id: self.doc_id.clone(),
            filing_period: self.order.0.map(|day| day.to_string()),
            byte: value.byte,
        }
    }
}

// The values of each period and the filings that report them, by the end and the start of the period.
type ReportedPeriods<'a> =
    BTreeMap<(Option<Date>, Period), Vec<(&'a FilingValues, &'a FiledValue)>>;

// Filings are in the order in which they were filed.
fn series(filings: &[FilingValues], frequency: Frequency) -> Vec<EntitySeries> {
    let mut year_ends: BTreeMap<&str, BTreeSet<Date>> = BTreeMap::new();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for filing in filings {
        names.extend(
            filing
                .names
                .iter()
                .map(|(entity, name)| (entity.as_str(), name.as_str())),
        );
        for (entity, ends) in &filing.year_ends {
            year_ends.entry(entity).or_default().extend(ends);
        }
    }
    let none = BTreeSet::new();
    // By company and unit.
    let mut periods: BTreeMap<(&str, &str), ReportedPeriods<'_>> = BTreeMap::new();
    for filing in filings {
        for value in &filing.values {
            let ends = year_ends.get(value.entity.as_str()).unwrap_or(&none);
            if frequency.has(value.period, ends) {
                let company = periods
                    .entry((value.entity.as_str(), value.unit.as_str()))
                    .or_default();
                company
                    .entry((value.period.end(), value.period))
                    .or_default()
                    .push((filing, value));
            }
        }
    }
    periods
        .into_iter()
        .map(|((entity, unit), periods)| EntitySeries {
            entity: entity.to_owned(),
            name: names.get(entity).map(|name| (*name).to_owned()),
            unit: unit.to_owned(),
            points: periods
                .into_iter()
                .filter_map(|((_, period), values)| point(period, &values))
                .collect(),
        })
        .collect()
}

fn point(period: Period, values: &[(&FilingValues, &FiledValue)]) -> Option<SeriesPoint> {
    // The first requested concept that has a value.
    let rank = values.iter().map(|(_, value)| value.rank).min()?;
    let mut by_filing: Vec<(&FilingValues, &FiledValue)> = Vec::new();
    for (filing, value) in values.iter().filter(|(_, value)| value.rank == rank) {
        match by_filing.last_mut() {
            // A filing repeats a value, in text mostly rounded: the most exact one counts.
            Some((last, kept)) if last.doc_id == filing.doc_id => {
                if exactness(value) < exactness(kept) {
                    *kept = value;
                }
            }
            _ => by_filing.push((filing, value)),
        }
    }
    let (filing, value) = by_filing.pop()?;
    let mut earlier: Vec<(&FilingValues, &FiledValue)> = Vec::new();
    for (filing, other) in by_filing.into_iter().rev() {
        let seen = earlier.last().map_or(value, |(_, seen)| *seen);
        if differs(seen, other) {
            earlier.push((filing, other));
        }
    }
    Some(SeriesPoint {
        concept: value.concept.clone(),
        from: match period {
            Period::Duration { from, .. } => Some(from.to_string()),
            Period::Instant(_) | Period::Forever => None,
        },
        to: period.end()?.to_string(),
        reported: filing.reported(value),
        restated: !earlier.is_empty(),
        earlier: earlier
            .into_iter()
            .map(|(filing, value)| filing.reported(value))
            .collect(),
    })
}

fn exactness(value: &FiledValue) -> Decimal {
    value.decimals.map_or(Decimal::ZERO, Decimals::half_unit)
}

fn differs(left: &FiledValue, right: &FiledValue) -> bool {
    (left.number - right.number).abs() > exactness(left).max(exactness(right))
}
