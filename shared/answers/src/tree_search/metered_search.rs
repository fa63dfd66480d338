//! A search service that charges the cost of its searches to a question.

use async_trait::async_trait;
use stemma_retrieval::search::{Query, SearchError, SearchResults, SearchService};

use super::llm_session::LlmSession;

pub(crate) struct MeteredSearch<'a> {
    pub(crate) search: &'a dyn SearchService,

    pub(crate) session: &'a LlmSession,
}

#[async_trait]
impl SearchService for MeteredSearch<'_> {
    async fn search(&self, query: &Query) -> Result<SearchResults, SearchError> {
        let query = Query {
            run: Some(self.session.id().clone()),
            ..query.clone()
        };
        let mut results = self.search.search(&query).await?;
        self.session.charge(std::mem::take(&mut results.usage));
        Ok(results)
    }
}
