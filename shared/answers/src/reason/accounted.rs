//! A finder that charges what its searches cost to a question.

use async_trait::async_trait;
use stemma_retrieval::find::{FindError, Finder, Found, Query};

use super::asker::Consultation;

/// A finder whose searches are on the account of a question.
pub(crate) struct Accounted<'a> {
    pub(crate) finder: &'a dyn Finder,
    pub(crate) consultation: &'a Consultation,
}

#[async_trait]
impl Finder for Accounted<'_> {
    async fn find(&self, query: &Query) -> Result<Found, FindError> {
        let named = Query {
            on_behalf: Some(self.consultation.id().clone()),
            ..query.clone()
        };
        let mut found = self.finder.find(&named).await?;
        self.consultation.charge(std::mem::take(&mut found.paid));
        Ok(found)
    }
}
