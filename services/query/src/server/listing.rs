//! Lists of documents, and what they have in common.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::axes::{Axis, fold, value_path};
use stemma_catalog::catalogue::Listed;
use stemma_catalog::filter::Filter;
use stemma_document::DocId;
use utoipa::ToSchema;

use super::asked::{Answer, Asked, json};
use super::cursor;
use super::problem::Problem;
use crate::{DocumentView, Refusal};

/// Which documents are meant; what a cursor stands under.
struct Choice {
    scope: String,
    filter: Filter,
    /// Words that name, issuer, form or description hold, lower case.
    words: Vec<String>,
    under: String,
}

/// Documents, a part of the list.
#[derive(Serialize, ToSchema)]
pub(super) struct DocumentList {
    items: Vec<DocumentView>,
    /// Asks for the next ones; `null` at the end.
    next_cursor: Option<String>,
    /// Documents of the whole list.
    total: usize,
}

/// What documents have in common.
#[derive(Serialize, ToSchema)]
pub(super) struct FacetList {
    /// Documents that were counted.
    total: usize,
    facets: Vec<Facet>,
}

/// The values of one property.
#[derive(Serialize, ToSchema)]
pub(super) struct Facet {
    /// `form`, `fiscal_year` …
    field: &'static str,
    /// Distinct values.
    distinct: usize,
    /// Documents that have none.
    without: usize,
    /// The values most documents have, first.
    values: Vec<FacetValue>,
}

/// A value and how many documents have it.
#[derive(Serialize, ToSchema)]
pub(super) struct FacetValue {
    /// As the first document spells it.
    value: String,
    documents: usize,
    /// To list them: a path of the file-system view.
    locator: String,
}

/// List documents
///
/// In the order of their paths, then ids. Each parameter that is named like a property narrows the list.
#[utoipa::path(get, path = "/v1/documents", tag = "documents",
    params(
        ("collection" = Option<String>, Query, description = "the collection; the first of the server's without"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "items of the answer, 50 without"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the answer before"),
        ("scope" = Option<String>, Query, description = "a folder, an axis path or a document"),
        ("where" = Option<String>, Query, description = "typed filter: `form=10-K and fiscal_year>=2020`, or JSON"),
        ("q" = Option<String>, Query, description = "words of name, path, issuer, form or description"),
        ("company" = Option<String>, Query), ("form" = Option<String>, Query), ("fiscal_year" = Option<String>, Query),
        ("fiscal_period" = Option<String>, Query), ("period" = Option<String>, Query), ("filed" = Option<String>, Query),
        ("ticker" = Option<String>, Query), ("cik" = Option<String>, Query), ("language" = Option<String>, Query),
        ("status" = Option<String>, Query), ("quality" = Option<String>, Query),
    ),
    responses((status = 200, body = DocumentList)))]
pub(super) async fn documents(mut asked: Asked) -> Answer {
    let limit = asked.limit()?;
    let cursor = asked.parameters.text("cursor");
    let choice = Choice::read(&mut asked)?;
    asked.parameters.none_left()?;
    let after = cursor
        .map(|text| cursor::read(&text, &choice.under))
        .transpose()?;
    let after = after
        .map(|place| after_document(&place).ok_or_else(cursor::invalid))
        .transpose()?;
    let found = choice.documents(&asked)?;
    let mut rest = found.iter().filter(|listed: &&&Listed| {
        after.as_ref().is_none_or(|(doc, path)| {
            (listed.version().path.as_str(), listed.doc()) > (path.as_str(), *doc)
        })
    });
    let page: Vec<&Listed> = rest.by_ref().take(limit).copied().collect();
    let last = page.last().filter(|_| rest.next().is_some());
    let place = |last: &&Listed| format!("{}\n{}", last.doc(), last.version().path);
    let next_cursor = last.map(|last| cursor::show(&choice.under, &place(last)));
    let items = page.into_iter().map(DocumentView::of).collect();
    json(DocumentList {
        items,
        next_cursor,
        total: found.len(),
    })
    .await
}

/// Count documents by their properties
///
/// Under the same filters as the list of documents.
#[utoipa::path(get, path = "/v1/facets", tag = "documents",
    params(
        ("fields" = String, Query, pattern = "^(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|language|status|quality)(,(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|language|status|quality))*$", description = "properties, with commas between: company, form, fiscal_year, fiscal_period, period, filed, ticker, cik, language, status, quality"),
        ("collection" = Option<String>, Query),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "values of each property, 50 without"),
        ("scope" = Option<String>, Query), ("where" = Option<String>, Query), ("q" = Option<String>, Query),
        ("company" = Option<String>, Query), ("form" = Option<String>, Query), ("fiscal_year" = Option<String>, Query),
        ("fiscal_period" = Option<String>, Query), ("period" = Option<String>, Query), ("filed" = Option<String>, Query),
        ("ticker" = Option<String>, Query), ("cik" = Option<String>, Query), ("language" = Option<String>, Query),
        ("status" = Option<String>, Query), ("quality" = Option<String>, Query),
    ),
    responses((status = 200, body = FacetList)))]
pub(super) async fn facets(mut asked: Asked) -> Answer {
    let limit = asked.limit()?;
    let fields = asked.parameters.text("fields").unwrap_or_default();
    let choice = Choice::read(&mut asked)?;
    asked.parameters.none_left()?;
    let axes: Option<Vec<Axis>> = fields
        .split(',')
        .map(|field| Axis::named(field.trim()))
        .collect();
    let Some(mut axes) = axes else {
        let all = Axis::ALL.map(Axis::as_str).join(", ");
        return Err(Problem::parameter(400, "fields", format!("fields are some of {all}")).into());
    };
    axes.sort_unstable();
    axes.dedup();
    let found = choice.documents(&asked)?;
    let facets = axes
        .into_iter()
        .map(|axis| facet(axis, &found, limit))
        .collect();
    json(FacetList {
        total: found.len(),
        facets,
    })
    .await
}

fn facet(axis: Axis, documents: &[&Listed], limit: usize) -> Facet {
    let mut counted = BTreeMap::<String, (&str, usize)>::new();
    let mut without = 0;
    for listed in documents {
        let values = axis.values(listed);
        without += usize::from(values.is_empty());
        for value in values {
            counted.entry(fold(axis, value)).or_insert((value, 0)).1 += 1;
        }
    }
    let distinct = counted.len();
    let mut values: Vec<(&str, usize)> = counted.into_values().collect();
    values.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    Facet {
        field: axis.as_str(),
        distinct,
        without,
        values: values
            .into_iter()
            .take(limit)
            .map(|(value, documents): (&str, usize)| FacetValue {
                value: value.into(),
                documents,
                locator: value_path(axis, value),
            })
            .collect(),
    }
}

impl Choice {
    fn read(asked: &mut Asked) -> Result<Self, Problem> {
        let mut scope = asked.parameters.text("scope").unwrap_or_default();
        for axis in Axis::ALL {
            if let Some(value) = asked.parameters.text(axis.as_str()) {
                scope = format!(
                    "{}{}",
                    scope.trim_end_matches('/'),
                    value_path(axis, &value)
                );
            }
        }
        let typed = asked.parameters.text("where");
        let words = asked.parameters.text("q").unwrap_or_default();
        let filter = Filter::parse(typed.as_deref().unwrap_or_default()).map_err(Refusal::from)?;
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let under = format!(
            "{scope}\n{}\n{}",
            typed.unwrap_or_default(),
            words.join(" ")
        );
        Ok(Self {
            scope,
            filter,
            words,
            under,
        })
    }

    fn documents<'a>(&self, asked: &'a Asked) -> Result<Vec<&'a Listed>, Refusal> {
        let found = match asked.reader.in_scope(&self.scope) {
            Err(refusal) if refusal.is_not_found() && self.scope.contains("/@") => Vec::new(), // nothing has that value
            found => found?,
        };
        Ok(found
            .into_iter()
            .filter(|listed: &&Listed| self.filter.holds(listed) && self.says(listed))
            .collect())
    }

    /// Whether all words are in what is known of a document.
    fn says(&self, listed: &Listed) -> bool {
        let about = || {
            let described = listed
                .entry()
                .and_then(|entry| entry.description.as_deref());
            let facts = [Axis::Company, Axis::Form, Axis::Ticker]
                .into_iter()
                .flat_map(|axis| axis.values(listed));
            let known = [listed.version().path.as_str()]
                .into_iter()
                .chain(described)
                .chain(facts);
            known.collect::<Vec<_>>().join("\n").to_lowercase()
        };
        self.words.is_empty() || {
            let about = about();
            self.words.iter().all(|word| about.contains(word.as_str()))
        }
    }
}

fn after_document(place: &str) -> Option<(DocId, String)> {
    let (doc, path) = place.split_once('\n')?;
    Some((doc.parse().ok()?, path.to_owned()))
}
