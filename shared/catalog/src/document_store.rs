//! The port that reads trees and texts of documents.

use std::sync::Arc;

use async_trait::async_trait;
use stemma_document::{Page, PageNo, SectionId, SectionTree, SourceBody, TextLines, text};
use stemma_reading::document_reading::{DocumentReading, LineReadings};
use stemma_reading::tables::FigureTable;
use stemma_store::PortResult;
use stemma_xbrl::FactTable;

use crate::document::CatalogDocument;

pub struct OpenDocument {
    pub tree: SectionTree,
    /// `None` if the text is not stored, as for an imported tree.
    pub body: Option<SourceBody>,
    /// What the lines of the text are, if the store loads it with the text; see [`DocumentStore::readings`].
    pub readings: Option<LineReadings>,
    /// Tagged facts, if the store reads them along; see [`DocumentStore::facts`].
    pub facts: Option<FactTable>,
}

impl OpenDocument {
    /// A document whose text is read here.
    pub fn new(tree: SectionTree, body: Option<SourceBody>, facts: Option<FactTable>) -> Self {
        Self {
            tree,
            readings: body.as_ref().map(|body| DocumentReading::new(body).lines),
            body,
            facts,
        }
    }
}

/// Reads trees and texts of documents.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// Opens a document; `None` if its tree has been deleted.
    async fn open(&self, document: &CatalogDocument) -> PortResult<Option<OpenDocument>>;

    /// Reads the tree alone; `None` if it has been deleted.
    async fn tree(&self, document: &CatalogDocument) -> PortResult<Option<Arc<SectionTree>>> {
        Ok(self
            .open(document)
            .await?
            .map(|opened| Arc::new(opened.tree)))
    }

    /// The tagged facts of a filing with inline XBRL; `None` for other documents.
    async fn facts(&self, _document: &CatalogDocument) -> PortResult<Option<Arc<FactTable>>> {
        Ok(None)
    }

    /// Own texts of sections, without their descendants, each cut at `most_bytes` rounded down to a character boundary.
    /// Empty for a missing section or text.
    async fn section_texts(
        &self,
        document: &CatalogDocument,
        sections: &[SectionId],
        most_bytes: usize,
    ) -> PortResult<Vec<String>> {
        let opened = self.open(document).await?;
        Ok(sections
            .iter()
            .map(|id| {
                opened
                    .as_ref()
                    .and_then(|opened| own_text(opened, *id, most_bytes))
                    .unwrap_or_default()
            })
            .collect())
    }

    /// Pages by number (1-based). Missing pages are left out; empty if the text is not stored.
    async fn pages(
        &self,
        document: &CatalogDocument,
        numbers: &[u32],
    ) -> PortResult<Vec<(u32, Page)>> {
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

    /// What the lines of its text are; empty if the text is not stored.
    async fn readings(&self, document: &CatalogDocument) -> PortResult<LineReadings> {
        let opened = self.open(document).await?;
        Ok(opened
            .and_then(|opened| opened.readings)
            .unwrap_or_default())
    }

    /// Its tables; empty if the text is not stored.
    async fn tables(&self, document: &CatalogDocument) -> PortResult<Arc<Vec<FigureTable>>> {
        let body = self.open(document).await?.and_then(|opened| opened.body);
        let reading = body.as_ref().map(DocumentReading::new);
        Ok(Arc::new(
            reading.map(|reading| reading.tables).unwrap_or_default(),
        ))
    }

    /// Lines of a document without pages; `None` for a document with pages, or if the text is not stored.
    async fn lines(&self, document: &CatalogDocument) -> PortResult<Option<Arc<TextLines>>> {
        match self.open(document).await?.and_then(|opened| opened.body) {
            Some(SourceBody::Lines(lines)) => Ok(Some(Arc::new(lines))),
            _ => Ok(None),
        }
    }
}

fn own_text(opened: &OpenDocument, id: SectionId, most_bytes: usize) -> Option<String> {
    let text = text::own_text(opened.tree.section(id)?, opened.body.as_ref()?);
    Some(text[..text.floor_char_boundary(most_bytes)].to_owned())
}
