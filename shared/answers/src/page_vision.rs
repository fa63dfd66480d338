//! The pictures of pages that a model sees with a question.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use stemma_document::{DocId, PageNo};
use stemma_llm::image::PageImage;

use super::answer::{Degradation, SeenPage};
use super::context::AnswerContext;
use crate::tree_search::LlmClient;

/// Pages whose pictures go with a question. Each costs some 2,500 tokens, as much as half of the passages.
pub(super) const MAX_PICTURES: usize = 3;

/// Draws pages for a vision model.
#[async_trait]
pub trait PageViewer: Send + Sync {
    /// The picture of a page.
    ///
    /// # Errors
    /// Why there is none, with a code: the document is not a PDF, or its file is gone.
    async fn view(&self, doc: DocId, page: PageNo) -> Result<PageImage, Degradation>;

    /// Changes with the pixels of the pictures.
    fn revision(&self) -> u32;
}

/// A vision model, and what draws the pages for it.
#[derive(Clone, Copy)]
pub struct PageVision<'a> {
    pub client: &'a Arc<LlmClient>,
    pub viewer: &'a dyn PageViewer,
}

/// A picture that goes with the prompts of an answer.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    pub(super) page: SeenPage,
    pub(super) image: PageImage,
}

impl PageVision<'_> {
    /// The pictures of the pages of the best passages, and why some are lacking.
    pub(super) async fn view_pages(
        &self,
        context: &AnswerContext,
    ) -> (Vec<Picture>, Option<Degradation>) {
        let pages = context.best_pages(MAX_PICTURES);
        let views = pages
            .iter()
            .map(|(doc, page)| self.viewer.view(*doc, *page));
        let views = join_all(views).await;
        let mut pictures = Vec::new();
        let mut lacking = None;
        for ((doc, page), view) in pages.into_iter().zip(views) {
            match view {
                Ok(image) => pictures.push(Picture {
                    page: context.seen_page(doc, page),
                    image,
                }),
                Err(reason) => lacking = lacking.or(Some(reason)),
            }
        }
        (pictures, lacking)
    }
}
