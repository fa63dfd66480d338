//! A finder that charges what its searches cost to a question.

use async_trait::async_trait;
use stemma_retrieval::search::{Query, SearchError, SearchResults, SearchService};

use super::llm_session::LlmSession;

/// A finder whose searches are on the account of a question.
pub(crate) struct Accounted<'a> {
    pub(crate) finder: &'a dyn SearchService,
    pub(crate) consultation: &'a LlmSession,
}

#[async_trait]
impl SearchService for Accounted<'_> {
    async fn search(&self, query: &Query) -> Result<SearchResults, SearchError> {
        let named = Query {
            run: Some(self.consultation.id().clone()),
            ..query.clone()
        };
        let mut found = self.finder.search(&named).await?;
        self.consultation.charge(std::mem::take(&mut found.usage));
        Ok(found)
    }
}
