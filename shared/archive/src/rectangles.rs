//! Positions of matched terms on the pages of search hits.

use std::collections::BTreeMap;

use stemma_document::{DocId, PageNo, PageSpan};
use stemma_extract::EncodedSource;
use stemma_retrieval::search::PageRect;
use stemma_retrieval::snippet::{WordWeights, highlight_rects};

use crate::archive::spawn_cpu;
use crate::{ApiError, Archive, SearchHit};

// Pages of one response for which positions are computed; each document costs a read of its text.
const MAX_LOCATED_PAGES: usize = 30;

impl Archive {
    // Adds the positions of `terms` to the best pages of the hits. Documents without stored text get none.
    pub(crate) async fn add_rectangles(
        &self,
        terms: &[String],
        hits: &mut [SearchHit],
    ) -> Result<(), ApiError> {
        let weights: WordWeights = terms.iter().map(|term| (term.clone(), 1.0)).collect();
        let pages = hits
            .iter_mut()
            .flat_map(|hit| {
                let doc = hit.doc_id;
                hit.best_pages.iter_mut().map(move |page| (doc, page))
            })
            .take(MAX_LOCATED_PAGES);
        let mut by_document: BTreeMap<DocId, Vec<_>> = BTreeMap::new();
        for (doc, page) in pages {
            by_document.entry(doc).or_default().push(page);
        }
        for (doc, pages) in by_document {
            let Some(listed) = self.catalog.get(doc)? else {
                continue;
            };
            let Some(published) = self.load_tree(&listed).await? else {
                continue;
            };
            let Some(source) = self.load_source(&published).await? else {
                continue;
            };
            let numbers: Vec<u32> = pages.iter().map(|page| page.page).collect();
            let weights = weights.clone();
            let rectangles = spawn_cpu(move || {
                let rectangles = numbers
                    .into_iter()
                    .map(|number| term_rectangles(&source, number, &weights));
                rectangles.collect::<Vec<_>>()
            })
            .await?;
            for (page, rectangles) in pages.into_iter().zip(rectangles) {
                page.rectangles = rectangles;
            }
        }
        Ok(())
    }
}

// Rectangles of one page; none if the page cannot be read.
fn term_rectangles(source: &EncodedSource, number: u32, weights: &WordWeights) -> Vec<PageRect> {
    let Some(number) = PageNo::new(number) else {
        return Vec::new();
    };
    match source.pages(PageSpan::between(number, number)) {
        Ok(pages) => pages
            .first()
            .map(|page| highlight_rects(page, weights))
            .unwrap_or_default(),
        Err(error) => {
            tracing::debug!(%error, %number, "a page has no term positions");
            Vec::new()
        }
    }
}
