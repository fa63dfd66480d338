//! Document lists and facet counts.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_archive::{ApiError, DocumentInfo, cursor};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::{FacetField, normalize_value, value_path};
use stemma_catalog::filter::Filter;
use stemma_document::DocId;
use stemma_gateway::extract::{ArchiveRequest, HandlerResult, json};
use stemma_gateway::problem::Problem;
use utoipa::ToSchema;

// The filters, which also bind the cursor.
struct DocumentSelection {
    scope: String,
    filter: Filter,
    // Lower case.
    words: Vec<String>,
    cursor_key: String,
}

/// A page of documents.
#[derive(Serialize, ToSchema)]
pub(crate) struct DocumentList {
    items: Vec<DocumentInfo>,
    /// Cursor of the next page; `null` on the last.
    next_cursor: Option<String>,
    /// Number of documents on all pages.
    total: usize,
}

/// Facet counts.
#[derive(Serialize, ToSchema)]
pub(crate) struct FacetList {
    /// Number of counted documents.
    total: usize,
    facets: Vec<Facet>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Facet {
    /// `form`, `fiscal_year` …
    field: &'static str,
    /// Distinct values.
    distinct: usize,
    /// Documents without a value.
    without: usize,
    /// Values by descending document count.
    values: Vec<FacetValue>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FacetValue {
    /// Spelled as in the first document.
    value: String,
    documents: usize,
    /// Path in the file-system view that lists the documents.
    locator: String,
}

/// List documents
///
/// Ordered by path, then id. Parameters named like a property filter the list.
#[utoipa::path(get, path = "/v1/documents", tag = "documents",
    params(
        ("collection" = Option<String>, Query, description = "defaults to the server's first collection"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "items per page, defaults to 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"),
        ("scope" = Option<String>, Query, description = "a folder, an axis path or a document"),
        ("where" = Option<String>, Query, description = "typed filter: `form=10-K and fiscal_year>=2020`, or JSON"),
        ("q" = Option<String>, Query, description = "words of name, path, issuer, form or description"),
        ("company" = Option<String>, Query), ("form" = Option<String>, Query), ("fiscal_year" = Option<String>, Query),
        ("fiscal_period" = Option<String>, Query), ("period" = Option<String>, Query), ("filed" = Option<String>, Query),
        ("ticker" = Option<String>, Query), ("cik" = Option<String>, Query), ("language" = Option<String>, Query),
        ("status" = Option<String>, Query), ("quality" = Option<String>, Query),
    ),
    responses((status = 200, body = DocumentList)))]
pub(crate) async fn documents(mut request: ArchiveRequest) -> HandlerResult {
    let limit = request.limit()?;
    let cursor = request.parameters.text("cursor");
    let selection = DocumentSelection::from_request(&mut request)?;
    request.parameters.reject_unknown()?;
    let after = cursor
        .map(|text| cursor::decode(&text, &selection.cursor_key))
        .transpose()?;
    let after = after
        .map(|place| cursor_position(&place).ok_or_else(cursor::invalid))
        .transpose()?;
    let selected = selection.documents(&request)?;
    let mut rest = selected.iter().filter(|listed: &&&CatalogDocument| {
        after.as_ref().is_none_or(|(doc, path)| {
            (listed.version().path.as_str(), listed.doc()) > (path.as_str(), *doc)
        })
    });
    let page: Vec<&CatalogDocument> = rest.by_ref().take(limit).copied().collect();
    let last = page.last().filter(|_| rest.next().is_some());
    let next_cursor = last.map(|last| {
        let position = format!("{}\n{}", last.doc(), last.version().path);
        cursor::encode(&selection.cursor_key, &position)
    });
    let items = page.into_iter().map(DocumentInfo::from_catalog).collect();
    json(DocumentList {
        items,
        next_cursor,
        total: selected.len(),
    })
    .await
}

/// Count documents by their properties
///
/// Accepts the filters of the document list.
#[utoipa::path(get, path = "/v1/facets", tag = "documents",
    params(
        ("fields" = String, Query, pattern = "^(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|language|status|quality)(,(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|language|status|quality))*$", description = "properties, with commas between: company, form, fiscal_year, fiscal_period, period, filed, ticker, cik, language, status, quality"),
        ("collection" = Option<String>, Query),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "values per property, defaults to 50"),
        ("scope" = Option<String>, Query), ("where" = Option<String>, Query), ("q" = Option<String>, Query),
        ("company" = Option<String>, Query), ("form" = Option<String>, Query), ("fiscal_year" = Option<String>, Query),
        ("fiscal_period" = Option<String>, Query), ("period" = Option<String>, Query), ("filed" = Option<String>, Query),
        ("ticker" = Option<String>, Query), ("cik" = Option<String>, Query), ("language" = Option<String>, Query),
        ("status" = Option<String>, Query), ("quality" = Option<String>, Query),
    ),
    responses((status = 200, body = FacetList)))]
pub(crate) async fn facets(mut request: ArchiveRequest) -> HandlerResult {
    let limit = request.limit()?;
    let fields = request.parameters.text("fields").unwrap_or_default();
    let selection = DocumentSelection::from_request(&mut request)?;
    request.parameters.reject_unknown()?;
    let axes: Option<Vec<FacetField>> = fields
        .split(',')
        .map(|field| FacetField::from_name(field.trim()))
        .collect();
    let Some(mut axes) = axes else {
        let all = FacetField::ALL.map(FacetField::as_str).join(", ");
        return Err(Problem::parameter(400, "fields", format!("fields are some of {all}")).into());
    };
    axes.sort_unstable();
    axes.dedup();
    let documents = selection.documents(&request)?;
    let facets = axes
        .into_iter()
        .map(|axis| facet(axis, &documents, limit))
        .collect();
    json(FacetList {
        total: documents.len(),
        facets,
    })
    .await
}

fn facet(axis: FacetField, documents: &[&CatalogDocument], limit: usize) -> Facet {
    let mut counted = BTreeMap::<String, (&str, usize)>::new();
    let mut without = 0;
    for listed in documents {
        let values = axis.values(listed);
        without += usize::from(values.is_empty());
        for value in values {
            counted
                .entry(normalize_value(axis, value))
                .or_insert((value, 0))
                .1 += 1;
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

impl DocumentSelection {
    fn from_request(request: &mut ArchiveRequest) -> Result<Self, Problem> {
        let mut scope = request.parameters.text("scope").unwrap_or_default();
        for axis in FacetField::ALL {
            if let Some(value) = request.parameters.text(axis.as_str()) {
                scope = format!(
                    "{}{}",
                    scope.trim_end_matches('/'),
                    value_path(axis, &value)
                );
            }
        }
        let typed = request.parameters.text("where");
        let words = request.parameters.text("q").unwrap_or_default();
        let filter = Filter::parse(typed.as_deref().unwrap_or_default()).map_err(ApiError::from)?;
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
            cursor_key: under,
        })
    }

    fn documents<'a>(
        &self,
        request: &'a ArchiveRequest,
    ) -> Result<Vec<&'a CatalogDocument>, ApiError> {
        let selected = match request.archive.documents_in_scope(&self.scope) {
            Err(error) if error.is_not_found() && self.scope.contains("/@") => Vec::new(), // no document has that value
            selected => selected?,
        };
        Ok(selected
            .into_iter()
            .filter(|listed: &&CatalogDocument| {
                self.filter.matches(listed) && self.matches_words(listed)
            })
            .collect())
    }

    // All words must occur in the name, path, issuer, form or description.
    fn matches_words(&self, listed: &CatalogDocument) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let description = listed
            .entry()
            .and_then(|entry| entry.description.as_deref());
        let facts = [FacetField::Company, FacetField::Form, FacetField::Ticker]
            .into_iter()
            .flat_map(|axis| axis.values(listed));
        let texts = [listed.version().path.as_str()]
            .into_iter()
            .chain(description)
            .chain(facts);
        let text = texts.collect::<Vec<_>>().join("\n").to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

fn cursor_position(place: &str) -> Option<(DocId, String)> {
    let (doc, path) = place.split_once('\n')?;
    Some((doc.parse().ok()?, path.to_owned()))
}
