//! `browse`: documents of a folder, ranked by a query.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_catalog::catalog::DocumentSet;
use stemma_catalog::path::ResolvedPath;
use stemma_document::DocId;
use stemma_document::rounding::rounded_share;
use stemma_retrieval::{AppliedFilter, DocumentScope, Query, SearchNote};
use utoipa::ToSchema;

use crate::request::{MAX_LIMIT, checked_limit, filter_schema};
use crate::{ApiError, Archive, DocumentInfo, SearchHit};

/// Which documents to rank: the JSON of `POST /v1/browse`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BrowseRequest {
    /// A question or keywords, with operators as in a search.
    pub query: String,
    /// Defaults to the server's first collection.
    pub collection: Option<String>,
    /// A folder or axis path. Defaults to all documents.
    #[serde(default)]
    pub scope: String,
    /// Conditions on documents: text (`(form=10-K or form=10-Q) and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = filter_schema)]
    pub filter: Option<Value>,
    /// Include subfolders.
    #[serde(default)]
    pub recursive: bool,
    /// Number of documents. Defaults to 10.
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<usize>,
    /// Whether to avoid all paid calls, such as embedding the query.
    #[serde(skip)]
    pub free_only: bool,
}

/// Documents that match a query, best first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BrowseResponse {
    pub query: String,
    /// The folder or axis path.
    pub scope: String,
    /// Documents in the scope that match the filter.
    pub documents_in_scope: usize,
    /// Conditions found in the query text.
    pub routed: Vec<AppliedFilter>,
    /// Where something else was searched than the query says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<SearchNote>,
    /// Best first.
    pub documents: Vec<BrowseHit>,
}

/// A document that matches a query.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BrowseHit {
    /// From 1.
    pub rank: usize,
    /// `Σ scores of its sections / √(matching sections + 1)`. Larger is better; only comparable within one response.
    pub score: f64,
    pub document: DocumentInfo,
    /// Its best section.
    pub best: SearchHit,
}

// The matching sections of a document.
struct SectionScores {
    sum: f64,
    sections: usize,
    best: usize,
}

impl SectionScores {
    // DocScore of PageIndex: more matching sections raise the score with diminishing returns.
    fn doc_score(&self) -> f64 {
        self.sum / ((self.sections + 1) as f64).sqrt()
    }
}

impl Archive {
    /// Ranks the documents of a folder by a query; without `recursive`, those directly in it.
    pub async fn browse(&self, request: &BrowseRequest) -> Result<BrowseResponse, ApiError> {
        let limit = checked_limit(request.limit)?;
        let parsed = self.parse_query(&request.query, request.filter.as_ref())?;
        let in_folder = self.documents_in_folder(&request.scope, request.recursive)?;
        let documents_in_scope = in_folder
            .and(&self.catalog.matching(&parsed.query.filter)?)
            .len();
        let within = if in_folder.len() == self.catalog.len() {
            DocumentScope::All
        } else {
            DocumentScope::Documents(self.catalog.ids(&in_folder)?)
        };
        let query = self.restricted_query(Query {
            within,
            limit: MAX_LIMIT,
            free_only: request.free_only,
            ..parsed.query
        })?;
        let mut results = self.indexed()?.search(&self.catalog, &query, None).await?;
        results.applied_filters.extend(parsed.applied_filters);
        results.notes.extend(parsed.notes);
        let mut by_document: BTreeMap<DocId, SectionScores> = BTreeMap::new();
        for (at, hit) in results.hits.iter().enumerate() {
            let scores = by_document.entry(hit.doc_id).or_insert(SectionScores {
                sum: 0.0,
                sections: 0,
                best: at,
            });
            scores.sum += hit.score;
            scores.sections += 1;
        }
        let mut ranked: Vec<SectionScores> = by_document.into_values().collect();
        ranked.sort_by(|a, b| {
            b.doc_score()
                .total_cmp(&a.doc_score())
                .then(a.best.cmp(&b.best))
        });
        let mut documents = Vec::new();
        for (at, scores) in ranked.iter().take(limit).enumerate() {
            let mut best = results.hits[scores.best].clone();
            self.complete_hit(&mut best, at + 1)?;
            if let Some(listed) = self.catalog.get(best.doc_id)? {
                documents.push(BrowseHit {
                    rank: at + 1,
                    score: rounded_share(scores.doc_score()),
                    document: DocumentInfo::from_catalog(&listed),
                    best,
                });
            }
        }
        Ok(BrowseResponse {
            query: request.query.clone(),
            scope: request.scope.clone(),
            documents_in_scope,
            routed: results.applied_filters,
            notes: results.notes,
            documents,
        })
    }

    // Documents of a folder; those of subfolders only with `recursive`. Axis paths have no subfolders.
    fn documents_in_folder(&self, scope: &str, recursive: bool) -> Result<DocumentSet, ApiError> {
        match self.catalog.resolve_path(scope)? {
            ResolvedPath::Folder(folder)
                if folder.values_of.is_none() && folder.filters.is_empty() && !recursive =>
            {
                let level = self.catalog.folder_level(&folder.folder)?;
                let docs = level.documents.iter().map(|listed| listed.doc());
                Ok(self.catalog.set_of(docs)?)
            }
            _ => self.scope_set(scope),
        }
    }
}
