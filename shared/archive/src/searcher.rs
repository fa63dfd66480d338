//! Search over an archive: semantic routing, the index, and highlight rectangles on pages.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use stemma_document::{DocId, PageNo, PageSpan};
use stemma_engine::PortError;
use stemma_retrieval::embedding::routing::RoutedDocuments;
use stemma_retrieval::snippet::{WordWeights, highlight_rects};
use stemma_retrieval::{
    AppliedFilter, DocumentScope, Query, SearchError, SearchResults, SearchService,
};

use crate::archive::spawn_cpu;
use crate::{Archive, CollectionCache};

// Pages of one result for which highlight rectangles are computed; each document costs a read of its text.
const MAX_LOCATED_PAGES: usize = 30;

#[async_trait]
impl SearchService for Archive {
    async fn search(&self, query: &Query) -> Result<SearchResults, SearchError> {
        let Some(cache) = &self.cache else {
            return Err(PortError::permanent(
                "index",
                "search",
                "this reader was opened without an index",
            )
            .into());
        };
        let narrowed = self.only.as_ref().map(|only| restricted_query(query, only));
        let query = narrowed.as_ref().unwrap_or(query);
        let mut response = self.search_routed(cache, query).await?;
        if query.rectangles {
            self.add_rectangles(&mut response).await?;
        }
        Ok(response)
    }
}

impl Archive {
    // Searches the whole scope first, because the applied filters of that search tell whether the query names a company.
    // If it names none and the scope is large, searches again within the documents nearest by embedding. If routing fails
    // or must not cost anything, the first result is returned with a filter that says so.
    async fn search_routed(
        &self,
        cache: &CollectionCache,
        query: &Query,
    ) -> Result<SearchResults, SearchError> {
        let mut response = cache.search(&self.catalog, query).await?;
        let Some(meaning) = cache.semantic_router() else {
            return Ok(response);
        };
        let among = self.versions_in_scope(query);
        if !meaning.narrows(among.len())
            || response
                .applied_filters
                .iter()
                .any(|chip| chip.facet == "company")
        {
            return Ok(response);
        }
        let chip = |value: &str, documents| AppliedFilter {
            facet: "meaning".into(),
            value: value.into(),
            from: query.text.chars().take(80).collect(),
            documents,
        };
        if query.free_only {
            response
                .applied_filters
                .push(chip("not_paid_for", among.len()));
            return Ok(response);
        }
        match meaning.route(&query.text, &among, query.run.as_ref()).await {
            Ok(RoutedDocuments {
                documents: routed,
                usage: paid,
            }) => {
                let documents = routed.len();
                let all = response.stats.documents_in_scope;
                let nearest = Query {
                    within: DocumentScope::Documents(routed),
                    ..query.clone()
                };
                response = SearchResults {
                    usage: paid,
                    ..cache.search(&self.catalog, &nearest).await?
                };
                (response.stats.documents, response.stats.documents_in_scope) = (documents, all);
                response.applied_filters.push(chip("nearest", documents));
            }
            Err(error) => {
                tracing::warn!(%error, "a question is not routed by meaning");
                response
                    .applied_filters
                    .push(chip("unavailable", among.len()));
            }
        }
        Ok(response)
    }

    // The documents in scope, each with the version of its tree.
    fn versions_in_scope(&self, query: &Query) -> HashMap<DocId, u64> {
        let within: Option<HashSet<DocId>> = match &query.within {
            DocumentScope::All => None,
            DocumentScope::Documents(docs) => Some(docs.iter().copied().collect()),
        };
        self.catalog
            .documents()
            .iter()
            .filter(|listed| {
                within
                    .as_ref()
                    .is_none_or(|docs| docs.contains(&listed.doc()))
                    && query.filter.matches(listed)
            })
            .filter_map(|listed| Some((listed.doc(), listed.entry()?.version.seq)))
            .collect()
    }

    // Adds highlight rectangles to the best pages; documents without stored text get none.
    async fn add_rectangles(&self, response: &mut SearchResults) -> Result<(), PortError> {
        let weights: WordWeights = response
            .terms
            .iter()
            .map(|term| (term.clone(), 1.0))
            .collect();
        let mut by_document: BTreeMap<DocId, Vec<(usize, usize)>> = BTreeMap::new();
        let pages = response
            .hits
            .iter()
            .enumerate()
            .flat_map(|(at, hit)| (0..hit.best_pages.len()).map(move |page| (at, page)));
        for (at, page) in pages.take(MAX_LOCATED_PAGES) {
            by_document
                .entry(response.hits[at].doc)
                .or_default()
                .push((at, page));
        }
        for (doc, places) in by_document {
            let Some(listed) = self.catalog.get(doc) else {
                continue;
            };
            let Some(published) = self.load_tree(listed).await? else {
                continue;
            };
            let Some(packed) = self.load_source(&published).await? else {
                continue;
            };
            let numbers: Vec<u32> = places
                .iter()
                .map(|(at, page)| response.hits[*at].best_pages[*page].page)
                .collect();
            let weights = weights.clone();
            for ((at, page), rectangles) in places.into_iter().zip(
                spawn_cpu(move || {
                    numbers
                        .into_iter()
                        .map(|number| word_rectangles(&packed, number, &weights))
                        .collect::<Vec<_>>()
                })
                .await?,
            ) {
                response.hits[at].best_pages[page].rectangles = rectangles;
            }
        }
        Ok(())
    }
}

// Limits the scope of a query to `only`.
fn restricted_query(query: &Query, only: &BTreeSet<DocId>) -> Query {
    let docs = match &query.within {
        DocumentScope::All => only.iter().copied().collect(),
        DocumentScope::Documents(docs) => docs
            .iter()
            .copied()
            .filter(|doc| only.contains(doc))
            .collect(),
    };
    Query {
        within: DocumentScope::Documents(docs),
        ..query.clone()
    }
}

// Highlight rectangles of one page; none when the page cannot be read.
fn word_rectangles(
    packed: &stemma_extract::EncodedSource,
    number: u32,
    weights: &WordWeights,
) -> Vec<stemma_retrieval::search::PageRect> {
    let Some(number) = PageNo::new(number) else {
        return Vec::new();
    };
    match packed.pages(PageSpan::between(number, number)) {
        Ok(pages) => pages
            .first()
            .map(|page| highlight_rects(page, weights))
            .unwrap_or_default(),
        Err(error) => {
            tracing::debug!(%error, %number, "words of a page have no places");
            Vec::new()
        }
    }
}
