//! `search`: sections that match a query.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_answers::RetrievalStrategy;
use stemma_catalog::filter::{Condition, Filter};
use stemma_catalog::locator::{Fragment, page_locator, section_locator};
use stemma_document::rounding::rounded_share;
use stemma_document::{DocId, PageNo};
use stemma_retrieval::query_syntax::{self, SyntaxError};
use stemma_retrieval::search::{ItemRef, MissingTerm, SearchStats, TotalHits};
use stemma_retrieval::usage::CallAccount;
use stemma_retrieval::{
    AppliedFilter, DocumentScope, Query, SearchError, SearchHit, SearchNote, SearchResults,
    SearchService,
};
use stemma_store::{PortError, PortResult};
use utoipa::ToSchema;

use crate::facet_counts::SearchFacets;
use crate::request::{checked_limit, filter_schema, parse_filter};
use crate::{ApiError, Archive, CollectionCache, TreeSearchReport, cursor};

/// A search request: the JSON of `POST /v1/search`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, ToSchema)]
#[schema(example = json!({ "query": "hedging of foreign currency", "strategy": "best_first", "explain": true }))]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// A question or keywords, with operators: `"a phrase"`, `a OR b`, `-word`, `title:word`, `company:3M`, `year:2022`.
    pub query: String,
    /// Defaults to the server's first collection.
    pub collection: Option<String>,
    /// Documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths. Defaults to all documents.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Conditions on documents: text (`(form=10-K or form=10-Q) and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = filter_schema)]
    pub filter: Option<Value>,
    /// Limits the search to an Item: 1A, II.1A.
    pub item: Option<String>,
    /// Hits per page. Defaults to 10.
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<usize>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
    /// `ranked` (default); with a model: `single`, `best_first`, `beam`, `mcts`, `auto-with-model`.
    #[schema(pattern = "^(ranked|single|best_first|beam|mcts|auto-with-model)$")]
    pub strategy: Option<String>,
    /// Maximum model calls. Defaults to the configuration.
    #[schema(format = "uint32")]
    pub budget_calls: Option<u32>,
    /// Maximum prompt and reply tokens. Defaults to the configuration.
    #[schema(format = "uint64")]
    pub budget_tokens: Option<u64>,
    /// Include score components.
    #[serde(default)]
    pub explain: bool,
    /// Include match positions; reads the text of each hit.
    #[serde(default)]
    pub rectangles: bool,
    /// Only these documents, named by id, instead of `scopes`.
    #[serde(skip)]
    pub documents: Option<Vec<DocId>>,
    /// Hits to skip, for callers with cursors of their own.
    #[serde(skip)]
    pub skip: usize,
    /// Whether to avoid all paid calls, such as embedding the query.
    #[serde(skip)]
    pub free_only: bool,
}

/// A page of search results.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SearchResponse {
    pub query: String,
    /// Terms of the query, normalized.
    pub terms: Vec<String>,
    /// Conditions found in the query text.
    pub routed: Vec<AppliedFilter>,
    /// Words and names of the query that no document in scope has; `null` if the index lacks documents in scope.
    pub missing_terms: Option<Vec<MissingTerm>>,
    /// The share (0–1) of what the query asks about that one of the best passages has; `null` if unknown.
    pub evidence: Option<f64>,
    /// Whether that is so little that the answer is hardly in the results; `null` if the index lacks documents in scope.
    pub low_evidence: Option<bool>,
    /// Best first.
    pub hits: Vec<SearchHit>,
    pub total: TotalHits,
    /// Where something else was searched than the query says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<SearchNote>,
    /// The documents that match, by company, form and fiscal year.
    pub facets: SearchFacets,
    pub searched: SearchStats,
    /// How the model chose the sections, if the strategy asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<TreeSearchReport>,
    /// Cursor of the next page; `null` on the last.
    pub next_cursor: Option<String>,
}

// A query as its text and conditions say, over all documents.
pub(crate) struct RequestedQuery {
    pub(crate) query: Query,
    // The conditions on documents in the query text.
    pub(crate) applied_filters: Vec<AppliedFilter>,
    pub(crate) notes: Vec<SearchNote>,
}

impl SearchRequest {
    /// Resolves the strategy by its name.
    ///
    /// # Errors
    /// [`ApiError`] for an unknown name, or a budget for a strategy that asks no model.
    pub fn retrieval_strategy(&self) -> Result<RetrievalStrategy, ApiError> {
        let strategy = match self.strategy.as_deref() {
            Some(name) => RetrievalStrategy::from_name(name),
            None => Some(RetrievalStrategy::default()),
        };
        let has_budget = self.budget_calls.is_some() || self.budget_tokens.is_some();
        match strategy {
            Some(strategy @ RetrievalStrategy::TreeSearch(_)) => Ok(strategy),
            _ if has_budget => {
                let message = "a budget works only with strategies that ask a model";
                Err(ApiError::invalid_field("/budget_calls", message))
            }
            Some(strategy) => Ok(strategy),
            None => {
                let names = RetrievalStrategy::names().join(", ");
                let message = format!("strategies are {names}");
                Err(ApiError::invalid_field("/strategy", message))
            }
        }
    }

    // The cursor of a page is valid for the other pages of the same list only.
    fn cursor_key(&self) -> String {
        format!(
            "{}\n{:?}\n{:?}\n{:?}",
            self.query, self.scopes, self.filter, self.item
        )
    }
}

impl Archive {
    /// Sections that match a query: ranked by the index, or chosen by a model that reads the section trees.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchResponse, ApiError> {
        let strategy = request.retrieval_strategy()?;
        let cursor_key = request.cursor_key();
        let skip = match request.cursor.as_deref() {
            None => request.skip,
            cursor => cursor::decode_offset(cursor, &cursor_key)?,
        };
        let limit = checked_limit(request.limit)?;
        let next_skip = skip + limit;
        let parsed = self.parse_query(&request.query, request.filter.as_ref())?;
        let (scope, item) = self.resolve_scopes(&request.scopes, request.item.as_deref())?;
        let documents = request.documents.clone();
        let query = self.restricted_query(Query {
            within: documents.map_or(scope, DocumentScope::Documents),
            item,
            limit,
            skip,
            explain: request.explain,
            free_only: request.free_only,
            ..parsed.query
        })?;
        let (mut results, reasoning, first_rank) = match strategy {
            RetrievalStrategy::Ranked => {
                let results = self.indexed()?.search(&self.catalog, &query, None).await?;
                (results, None, skip + 1)
            }
            RetrievalStrategy::TreeSearch(strategy) => {
                let (results, report) = self.tree_search(request, &query, strategy).await?;
                (results, Some(report), 1)
            }
        };
        results.applied_filters.extend(parsed.applied_filters);
        results.notes.extend(parsed.notes);
        let facets = self.count_search_facets(&results.documents)?;
        let missing_terms = results.known_missing_terms();
        let evidence = results.rounded_evidence();
        let low_evidence = results.has_low_evidence();
        let mut hits = results.hits;
        for (hit, rank) in hits.iter_mut().zip(first_rank..) {
            self.complete_hit(hit, rank)?;
        }
        // A model chooses sections, not words on pages.
        let is_ranked = reasoning
            .as_ref()
            .is_none_or(|report| report.model.is_none());
        if request.rectangles && is_ranked {
            self.add_rectangles(&results.terms, &mut hits).await?;
        }
        Ok(SearchResponse {
            query: request.query.clone(),
            terms: results.terms,
            routed: results.applied_filters,
            missing_terms,
            evidence,
            low_evidence,
            hits,
            total: results.total,
            notes: results.notes,
            facets,
            searched: results.stats,
            reasoning,
            next_cursor: (results.total.at_least() > next_skip)
                .then(|| cursor::encode(&cursor_key, &next_skip.to_string())),
        })
    }

    // Splits a query into text, operators and filter; the filter includes `conditions`.
    pub(crate) fn parse_query(
        &self,
        text: &str,
        conditions: Option<&Value>,
    ) -> Result<RequestedQuery, ApiError> {
        let parsed = query_syntax::parse(text)?;
        let mut applied_filters = Vec::new();
        for condition in parsed.filter.conditions() {
            applied_filters.push(AppliedFilter {
                facet: condition.field.name().into(),
                value: condition.values.join(" | "),
                from: condition.to_string(),
                narrows: true,
                documents: Some(self.count_matches(condition)?),
                ..AppliedFilter::default()
            });
        }
        let filter = parse_filter(conditions)?.and(parsed.filter);
        let mut unmet = Vec::new();
        for condition in filter.conditions() {
            if self.count_matches(condition)? == 0 {
                let message = format!("no document has {condition}");
                unmet.push(SearchNote::new("search.filter_matches_nothing", message));
            }
        }
        Ok(RequestedQuery {
            query: Query {
                operators: parsed.operators,
                filter,
                ..Query::new(parsed.text)
            },
            applied_filters,
            notes: unmet,
        })
    }

    fn count_matches(&self, condition: &Condition) -> PortResult<usize> {
        let condition = Filter::Condition(condition.clone());
        Ok(self.catalog.matching(&condition)?.len())
    }

    // The documents and the Item that scopes name: documents, folders and axis paths, or one Item of a document.
    pub(crate) fn resolve_scopes(
        &self,
        scopes: &[String],
        item: Option<&str>,
    ) -> Result<(DocumentScope, Option<ItemRef>), ApiError> {
        let mut item: Option<ItemRef> = item.map(str::parse).transpose()?;
        if scopes.is_empty() {
            return Ok((DocumentScope::All, item));
        }
        let mut docs: Vec<DocId> = Vec::new();
        for scope in scopes {
            match self.locate(scope) {
                Ok((listed, None)) => docs.push(listed.doc()),
                Ok((listed, Some(Fragment::Item { part, number })))
                    if item.is_none() && scopes.len() == 1 =>
                {
                    docs.push(listed.doc());
                    item = Some(ItemRef { part, number });
                }
                Ok(_) => {
                    let message = format!(
                        "`{scope}` is a part of a document; a search goes through documents, or one Item"
                    );
                    let next = "stemma search … --in DOCUMENT --item 1A";
                    return Err(ApiError::new("search.scope_invalid", message, next));
                }
                Err(error) if error.code == "locator.folder" => {
                    docs.extend(self.catalog.ids(&self.scope_set(scope)?)?);
                }
                Err(error) => return Err(error),
            }
        }
        docs.sort_unstable();
        docs.dedup();
        Ok((DocumentScope::Documents(docs), item))
    }

    // Limits a query to the documents of this archive.
    pub(crate) fn restricted_query(&self, query: Query) -> PortResult<Query> {
        if !self.is_restricted {
            return Ok(query);
        }
        let within = match query.within {
            DocumentScope::All => self.catalog.all()?,
            DocumentScope::Documents(docs) => self.catalog.set_of(docs)?,
        };
        Ok(Query {
            within: DocumentScope::Documents(self.catalog.ids(&within)?),
            ..query
        })
    }

    // The caches with the index.
    pub(crate) fn indexed(&self) -> Result<&CollectionCache, SearchError> {
        self.cache.as_deref().ok_or_else(|| {
            let message = "the archive was opened without an index";
            PortError::permanent("index.search", message).into()
        })
    }

    // Adds what the catalog knows to a hit, and rounds its scores.
    pub(crate) fn complete_hit(&self, hit: &mut SearchHit, rank: usize) -> PortResult<()> {
        // A document that was removed meanwhile is named by its id.
        let label = self
            .catalog
            .get(hit.doc_id)?
            .map_or_else(|| hit.doc_id.to_string(), |listed| listed.label.clone());
        hit.rank = rank;
        hit.score = rounded_share(hit.score);
        hit.locator = section_locator(&label, hit.section_id);
        for page in &mut hit.best_pages {
            page.score = rounded_share(page.score);
            if let Some(number) = PageNo::new(page.page) {
                page.locator = page_locator(&label, number);
            }
        }
        Ok(())
    }
}

// How answers and tree search search: with a query whose names are resolved.
#[async_trait]
impl SearchService for Archive {
    async fn search(
        &self,
        query: &Query,
        account: Option<&dyn CallAccount>,
    ) -> Result<SearchResults, SearchError> {
        let query = self.restricted_query(query.clone())?;
        self.indexed()?.search(&self.catalog, &query, account).await
    }
}

impl From<SyntaxError> for ApiError {
    fn from(error: SyntaxError) -> Self {
        let code = match error {
            SyntaxError::NoWords => "search.no_words",
            SyntaxError::TooLong => "search.too_long",
            _ => "search.syntax_invalid",
        };
        Self::new(code, error.to_string(), error.next_step())
    }
}

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        let message = error.to_string();
        match error {
            SearchError::NoWords { .. } => Self::new(
                "search.no_words",
                message,
                "stemma grep finds any characters",
            ),
            SearchError::NoItem { .. } => {
                let next = "an Item is written 1A, II.1A, 2.02 or risk-factors";
                Self::new("search.item_unknown", message, next)
            }
            SearchError::SkipTooLarge => {
                let next = "ask a narrower question, or give a scope";
                Self::new("search.skip_too_large", message, next)
            }
            SearchError::Port(error) => error.into(),
        }
    }
}
