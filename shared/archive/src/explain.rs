//! Why the lines of a page are sections or not.

use serde::Serialize;
use stemma_catalog::locator::page_locator;
use stemma_document::Method;
use stemma_outline::structure::{HeadingReport, StructureSettings, explain_page};

use crate::archive::{no_text, spawn_cpu};
use crate::read::page_number;
use crate::{ApiError, Archive};

/// The lines of a page that may be headings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageHeadings {
    /// The document's id.
    pub doc_id: String,
    pub locator: String,
    /// What decided the tree: rules do not decide alone if it is a model or a person.
    pub method: Method,
    /// Physical page, from 1.
    pub page: u32,
    /// In reading order.
    pub headings: Vec<HeadingReport>,
}

impl Archive {
    /// What the rules decide about the lines of page `number` of the document that a locator names.
    // Computed from the stored text: the rules take a fraction of a second a document, and the features of all its lines would
    // take more room than the tree.
    pub async fn explain_headings(
        &self,
        locator: &str,
        number: u32,
        settings: &StructureSettings,
    ) -> Result<PageHeadings, ApiError> {
        let (listed, published, _) = self.load_published(locator).await?;
        let page = page_number(&listed.label, published.tree.extent, number)?;
        let source = self.store.decode_source(&published).await?;
        let source = source.ok_or_else(|| no_text(&listed))?;
        let settings = settings.clone();
        let headings = spawn_cpu(move || explain_page(&source, &settings, page)).await?;
        Ok(PageHeadings {
            doc_id: listed.doc().to_string(),
            locator: page_locator(&listed.label, page),
            method: published.tree.provenance.method,
            page: number,
            headings: headings.unwrap_or_default(),
        })
    }
}
