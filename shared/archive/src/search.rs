//! What a search found, with locators that can be pasted back.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::filter::Filter;
use stemma_catalog::locator::{Fragment, page_locator, section_locator};
use stemma_document::{DocId, PageNo};
use stemma_retrieval::search::{ItemRef, PageRect, RankingFeature, SearchStats};
use stemma_retrieval::{
    AppliedFilter, DocumentScope, Query, RankingStrategy, SearchError, SearchResults, SectionHit,
    search,
};
use utoipa::ToSchema;

use crate::documents::rounded_share;
use crate::{ApiError, Archive, DocumentInfo, TreeSearchOptions, TreeSearchReport};

/// Hits from which documents are ranked.
const MAX_RANKED_HITS: usize = 500;

/// A question as people and programs put it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchRequest {
    /// A question, or key words.
    pub text: String,
    /// Only in these: documents, Items of one, folders, axis paths; empty for all.
    pub scopes: Vec<String>,
    /// Conditions on documents: `form=10-K and fiscal_year>=2020`.
    pub filter: Filter,
    /// Only in this Item: `1A`, `II.1A`.
    pub item: Option<String>,
    /// Hits to return.
    pub limit: usize,
    /// Hits to pass over.
    pub skip: usize,
    /// How to rank.
    pub strategy: RankingStrategy,
    /// Whether hits say where their words stand on the page.
    pub rectangles: bool,
    /// Whether hits say what their scores are made of.
    pub explain: bool,
    /// Ingredients of the ranking to leave out, to see what each is worth.
    pub disabled_features: Vec<RankingFeature>,
    /// How a model is asked; `None`: no model is.
    pub tree_search: Option<TreeSearchOptions>,
    /// Whether nothing may be paid for it, not even the vector of its words.
    pub free_only: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SearchResponse {
    /// The question.
    pub query: String,
    /// Its words as they are compared.
    pub terms: Vec<String>,
    /// What the question itself said about where to look.
    #[schema(value_type = Vec<Object>)]
    pub routed: Vec<AppliedFilter>,
    /// Best first.
    pub hits: Vec<SearchHit>,
    /// How many there are.
    pub total: HitCount,
    /// What was looked at.
    #[schema(value_type = Object)]
    pub searched: SearchStats,
    /// How a model came to the hits, where one was to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<TreeSearchReport>,
}

/// A number of things: `12`, or `{"at_least": 500}` where nobody counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum HitCount {
    /// This many.
    Exact(usize),
    /// So many were looked at; there may be more.
    AtLeast {
        /// How many.
        at_least: usize,
    },
}

/// A section that fits.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SearchHit {
    /// From 1.
    pub rank: usize,
    /// Larger is better; comparable within one answer.
    pub score: f64,
    /// Why it is here, in a few words.
    pub why: String,
    /// What the score is made of, where asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub parts: BTreeMap<&'static str, f32>,
    /// The document.
    pub doc_id: String,
    /// Its file name.
    pub name: String,
    /// The version of the tree that was searched.
    pub version: u64,
    /// The section, to paste back.
    pub locator: String,
    /// The section.
    pub section_id: String,
    /// Its title.
    pub title: String,
    /// Titles from the top down to it.
    pub path: Vec<String>,
    /// First and last physical page of the section.
    pub pages: Option<(u32, u32)>,
    /// First and last line of the section, in a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u32, u32)>,
    /// The pages of its own text that fit best, best first.
    pub best_pages: Vec<SearchHitPage>,
    /// The words that fit, where they stand.
    pub excerpt: SearchSnippet,
}

/// A page that fits.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SearchHitPage {
    /// Physical page, from 1.
    pub page: u32,
    /// What is printed on it, where that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// To paste back.
    pub locator: String,
    /// Larger is better; comparable within one answer.
    pub score: f64,
    /// Where the words stand: `{x, y, w, h}`, 0–1 of the page, origin at the top left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub rectangles: Vec<PageRect>,
}

/// Words of a section around those of the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchSnippet {
    /// At most 240 characters, white space folded.
    pub text: String,
    /// Bytes of `text` that are words of the question.
    pub marks: Vec<(usize, usize)>,
}

/// Documents that fit a question, best first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BrowseResponse {
    /// The question.
    pub query: String,
    /// Where was looked.
    pub scope: String,
    /// Documents in the scope that fulfill the filter.
    pub documents_in_scope: usize,
    /// What the question itself said about where to look.
    #[schema(value_type = Vec<Object>)]
    pub routed: Vec<AppliedFilter>,
    /// Best first.
    pub documents: Vec<BrowseHit>,
}

/// A document that fits.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BrowseHit {
    /// From 1.
    pub rank: usize,
    /// `Σ scores of its sections / √(sections that fit + 1)`, larger is better; comparable within one answer.
    pub score: f64,
    /// The document.
    pub document: DocumentInfo,
    /// Its section that fits best.
    pub best: SearchHit,
}

impl Archive {
    /// Sections that fit a question, by any finder, or by a model that walks the trees where the question says so.
    ///
    /// # Errors
    /// [`ApiError`] when a scope or Item names nothing, the question has no words, or the finder could not say.
    pub async fn search(
        &self,
        finder: &dyn search::SearchService,
        question: &SearchRequest,
    ) -> Result<(SearchResponse, Option<usize>), ApiError> {
        let query = self.build_query(question)?;
        let Some(how) = question.tree_search else {
            let response = finder.search(&query).await?;
            return Ok((
                self.search_response(&question.text, question.skip, &response),
                response.next_skip,
            ));
        };
        let walked = self.tree_search(finder, &query, how).await?;
        let mut view = self.search_response(&question.text, 0, &walked.results);
        view.reasoning = Some(self.tree_search_report(&walked.trace, question.explain));
        Ok((view, walked.results.next_skip))
    }

    /// A question in words, as an answerer takes it.
    ///
    /// # Errors
    /// [`ApiError`] when a scope or Item names nothing.
    pub fn ask_request(
        &self,
        question: &SearchRequest,
    ) -> Result<stemma_answers::AskRequest, ApiError> {
        let Query {
            within,
            filter,
            item,
            ..
        } = self.build_query(question)?;
        let text = question.text.clone();
        Ok(stemma_answers::AskRequest {
            text,
            within,
            filter,
            item,
            ..stemma_answers::AskRequest::default()
        })
    }

    /// Documents in `scope` that fit a question, best first; without `recursive`, those directly in the folder.
    ///
    /// # Errors
    /// As [`Archive::search`].
    pub async fn browse(
        &self,
        finder: &dyn search::SearchService,
        scope: &str,
        question: &SearchRequest,
        recursive: bool,
    ) -> Result<BrowseResponse, ApiError> {
        let inside: Vec<DocId> = self.documents_in_folder(scope, recursive)?;
        let fits = |doc: &&DocId| {
            self.catalog
                .get(**doc)
                .is_some_and(|listed| question.filter.matches(listed))
        };
        let documents_in_scope = inside.iter().filter(fits).count();
        let whole = inside.len() == self.catalog.documents().len();
        let within = if whole {
            DocumentScope::All
        } else {
            DocumentScope::Documents(inside)
        };
        let query = Query {
            within,
            limit: MAX_RANKED_HITS,
            skip: 0,
            ..self.build_query(question)?
        };
        let response = finder.search(&query).await?;
        let mut by_document: BTreeMap<DocId, (f64, usize, usize)> = BTreeMap::new();
        for (at, hit) in response.hits.iter().enumerate() {
            let (sum, sections, _) = by_document.entry(hit.doc).or_insert((0.0, 0, at));
            *sum += f64::from(hit.score);
            *sections += 1;
        }
        // DocScore = sum of scores / sqrt(n + 1) over the n matching sections of a document (PageIndex): more matching
        // sections raise the score with diminishing returns.
        let score = |(sum, sections, _): (f64, usize, usize)| sum / ((sections + 1) as f64).sqrt();
        let mut ranked: Vec<(f64, usize)> = by_document
            .into_values()
            .map(|fits| (score(fits), fits.2))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let documents = ranked
            .into_iter()
            .take(question.limit.max(1))
            .enumerate()
            .filter_map(|(at, (score, best)): (usize, (f64, usize))| {
                let hit = &response.hits[best];
                let document = DocumentInfo::from_catalog(self.catalog.get(hit.doc)?);
                Some(BrowseHit {
                    rank: at + 1,
                    score: rounded_share(score),
                    document,
                    best: self.search_hit(hit, at + 1),
                })
            })
            .collect();
        let query = question.text.clone();
        let scope = scope.to_owned();
        Ok(BrowseResponse {
            query,
            scope,
            documents_in_scope,
            routed: response.applied_filters,
            documents,
        })
    }

    pub fn build_query(&self, question: &SearchRequest) -> Result<Query, ApiError> {
        let mut item: Option<ItemRef> = question.item.as_deref().map(str::parse).transpose()?;
        let mut docs: Vec<DocId> = Vec::new();
        for scope in &question.scopes {
            match self.locate(scope) {
                Ok((listed, None)) => docs.push(listed.doc()),
                Ok((listed, Some(Fragment::Item { part, number })))
                    if item.is_none() && question.scopes.len() == 1 =>
                {
                    docs.push(listed.doc());
                    item = Some(ItemRef { part, number });
                }
                Ok(_) => {
                    let message = format!(
                        "`{scope}` is a part of a document; a search goes through documents, or one Item"
                    );
                    return Err(ApiError::new(
                        "search.scope",
                        message,
                        "stemma search … --in DOCUMENT --item 1A",
                    ));
                }
                Err(refusal) if refusal.code == "locator.folder" => {
                    docs.extend(
                        self.documents_in_scope(scope)?
                            .iter()
                            .map(|listed| listed.doc()),
                    );
                }
                Err(refusal) => return Err(refusal),
            }
        }
        docs.sort_unstable();
        docs.dedup();
        Ok(Query {
            text: question.text.clone(),
            within: if question.scopes.is_empty() {
                DocumentScope::All
            } else {
                DocumentScope::Documents(docs)
            },
            filter: question.filter.clone(),
            item,
            limit: question.limit,
            skip: question.skip,
            strategy: question.strategy,
            rectangles: question.rectangles,
            explain: question.explain,
            disabled_features: question.disabled_features.clone(),
            free_only: question.free_only,
            run: None,
        })
    }

    fn search_response(
        &self,
        query: &str,
        skip: usize,
        response: &SearchResults,
    ) -> SearchResponse {
        let total = match response.total {
            search::TotalHits::Exact(total) => HitCount::Exact(total),
            search::TotalHits::AtLeast(at_least) => HitCount::AtLeast { at_least },
        };
        SearchResponse {
            query: query.into(),
            terms: response.terms.clone(),
            routed: response.applied_filters.clone(),
            hits: response
                .hits
                .iter()
                .enumerate()
                .map(|(at, hit)| self.search_hit(hit, skip + at + 1))
                .collect(),
            total,
            searched: response.stats.clone(),
            reasoning: None,
        }
    }

    fn search_hit(&self, hit: &SectionHit, rank: usize) -> SearchHit {
        // One that was removed meanwhile has its id.
        let label = self
            .catalog
            .get(hit.doc)
            .map_or_else(|| hit.doc.to_string(), |listed| listed.label.clone());
        SearchHit {
            rank,
            score: rounded_share(hit.score),
            why: hit.why.clone(),
            parts: hit.score_parts.clone(),
            doc_id: hit.doc.to_string(),
            name: hit.name.clone(),
            version: hit.version,
            locator: section_locator(&label, hit.section),
            section_id: hit.section.to_string(),
            title: hit.path.last().cloned().unwrap_or_default(),
            path: hit.path.clone(),
            pages: hit.pages,
            lines: hit.lines,
            best_pages: hit
                .best_pages
                .iter()
                .filter_map(|page: &search::PageHit| {
                    let locator = page_locator(&label, PageNo::new(page.page)?);
                    let label = page.label.clone();
                    let rectangles = page.rectangles.clone();
                    Some(SearchHitPage {
                        page: page.page,
                        label,
                        locator,
                        score: rounded_share(page.score),
                        rectangles,
                    })
                })
                .collect(),
            excerpt: SearchSnippet {
                text: hit.snippet.text.clone(),
                marks: hit.snippet.highlights.clone(),
            },
        }
    }

    /// Documents of a folder; those of folders below it only with `recursive`. Axis paths have no folders below.
    fn documents_in_folder(&self, scope: &str, recursive: bool) -> Result<Vec<DocId>, ApiError> {
        use stemma_catalog::path::ResolvedPath;
        match self.catalog.resolve_path(scope)? {
            ResolvedPath::Folder(scope) if scope.values_of.is_none() => Ok(self
                .folder_contents(&scope, recursive)
                .documents
                .iter()
                .map(|listed| listed.doc())
                .collect()),
            _ => Ok(self
                .documents_in_scope(scope)?
                .iter()
                .map(|listed| listed.doc())
                .collect()),
        }
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
            SearchError::NoItem { .. } => Self::new(
                "search.item",
                message,
                "an Item is written 1A, II.1A or 2.02",
            ),
            SearchError::SkipTooLarge => Self::new(
                "search.too_far",
                message,
                "ask a narrower question, or give a scope",
            ),
            SearchError::Port(error) => error.into(),
        }
    }
}
