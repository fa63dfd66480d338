//! Where trees and texts come from.

use std::sync::Arc;

use async_trait::async_trait;
use stemma_document::{Page, PageNo, SectionId, SectionTree, SourceBody, TextLines, text};
use stemma_engine::PortError;

use crate::catalog::CatalogDocument;

/// A document opened for search.
pub struct OpenDocument {
    /// Its tree.
    pub tree: SectionTree,
    /// Its text; `None` when it is not in the store (an imported tree).
    pub body: Option<SourceBody>,
}

/// Where trees and texts come from.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// Opens a document; `None` when its tree has gone meanwhile.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    async fn open(&self, document: &CatalogDocument) -> Result<Option<OpenDocument>, PortError>;

    /// The tree of a document alone; `None` when it has gone meanwhile.
    ///
    /// # Errors
    /// As [`DocumentStore::open`].
    async fn tree(
        &self,
        document: &CatalogDocument,
    ) -> Result<Option<Arc<SectionTree>>, PortError> {
        Ok(self
            .open(document)
            .await?
            .map(|opened| Arc::new(opened.tree)))
    }

    /// The own texts of sections, without their descendants', each cut at about `most_bytes`; empty where the text is not in
    /// the store, or there is no such section.
    ///
    /// # Errors
    /// As [`DocumentStore::open`].
    async fn section_texts(
        &self,
        document: &CatalogDocument,
        sections: &[SectionId],
        most_bytes: usize,
    ) -> Result<Vec<String>, PortError> {
        let opened = self.open(document).await?;
        let text = |id: &SectionId| {
            let opened = opened.as_ref()?;
            let text = text::own_text(opened.tree.section(*id)?, opened.body.as_ref()?);
            Some(text[..text.floor_char_boundary(most_bytes)].to_owned())
        };
        Ok(sections
            .iter()
            .map(|id| text(id).unwrap_or_default())
            .collect())
    }

    /// Pages by their numbers, those that are there; none where the text is not in the store.
    ///
    /// # Errors
    /// As [`DocumentStore::open`].
    async fn pages(
        &self,
        document: &CatalogDocument,
        numbers: &[u32],
    ) -> Result<Vec<(u32, Page)>, PortError> {
        let Some(SourceBody::Pages(pages)) =
            self.open(document).await?.and_then(|opened| opened.body)
        else {
            return Ok(Vec::new());
        };
        Ok(numbers
            .iter()
            .filter_map(|number: &u32| {
                Some((*number, pages.get(PageNo::new(*number)?.index())?.clone()))
            })
            .collect())
    }

    /// The lines of a text without pages; `None` for a document with pages, and where the text is not in the store.
    ///
    /// # Errors
    /// As [`DocumentStore::open`].
    async fn lines(&self, document: &CatalogDocument) -> Result<Option<Arc<TextLines>>, PortError> {
        match self.open(document).await?.and_then(|opened| opened.body) {
            Some(SourceBody::Lines(lines)) => Ok(Some(Arc::new(lines))),
            _ => Ok(None),
        }
    }
}
