//! Pages as a model sees them: their pictures for questions, and descriptions of their figures.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use stemma_answers::tree_search::{LlmClient, QuestionBudget, SessionError, VisionModel};
use stemma_answers::{
    Degradation, FigureDescription, GenerationUsage, PageImage, PageViewer, PageVision,
    describe_page,
};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::page_locator;
use stemma_document::{Collection, DocId, PageNo};
use stemma_extract::{ImageColor, ImageRequest, ImageScale};
use stemma_store::Env;
use utoipa::ToSchema;

use crate::{ApiError, Archive, PageImages};

// A description may be asked for again twice if a reply cannot be used, and continued once.
const DESCRIPTION_CALLS: u32 = 4;
// Token limit of a description: 2,500 for the picture and 4,000 for the reply, each time.
const DESCRIPTION_TOKENS: u64 = 40_000;
// Where a picture in color has too many bytes: photographs compress badly.
const SMALL_SIDE: u32 = 1_000;

/// A vision model, and what draws pages for it.
pub struct Vision {
    env: Env,
    model: VisionModel,
    images: Arc<PageImages>,
    clients: Mutex<HashMap<Collection, Arc<LlmClient>>>,
}

/// What the figures of a page show, as a model reads them from its picture. Nothing of it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DescribedPage {
    pub doc_id: String,
    /// `3M_2022_10K#p=5`.
    pub locator: String,
    /// Physical page, from 1.
    pub page: u32,
    /// Always true: every statement is what a model says it sees.
    pub by_sight: bool,
    /// `title`, `kind`, `shows`, and `values` with `label` and `value`; `~` before a value that is read off an axis.
    #[schema(value_type = Vec<Object>)]
    pub figures: Vec<FigureDescription>,
    pub model: String,
    /// Whether the page was described before, so that this cost nothing.
    pub cached: bool,
    /// `calls`, `prompt_tokens`, `output_tokens`, `nanodollars` where prices are known.
    #[schema(value_type = Object)]
    pub usage: GenerationUsage,
}

impl Vision {
    pub fn new(env: Env, model: VisionModel, images: Arc<PageImages>) -> Arc<Self> {
        Arc::new(Self {
            env,
            model,
            images,
            clients: Mutex::default(),
        })
    }

    /// The provider's name of the model.
    pub fn model(&self) -> &str {
        self.model.model_client.model()
    }

    /// Whether the price of a call is known. A budget in money needs it.
    pub fn has_prices(&self, archive: &Archive) -> bool {
        self.client(archive).has_prices()
    }

    /// The error of surfaces without a vision model.
    pub fn not_configured() -> ApiError {
        let message = "no vision model is configured: vision.model is not set";
        let next = "set vision.model to the name of a model that takes images (see `stemma config vision`)";
        ApiError::new("vision.no_model", message, next)
    }

    fn client(&self, archive: &Archive) -> Arc<LlmClient> {
        let mut clients = self.clients.lock();
        let collection = &archive.collection;
        let client = clients.entry(collection.clone()).or_insert_with(|| {
            self.model
                .client(&self.env, &archive.store.blobs, collection)
        });
        Arc::clone(client)
    }

    /// What the figures of a page show, for at most `nanodollars`. A page is described once: another description of the same
    /// picture by the same model is read from the store.
    ///
    /// # Errors
    /// [`ApiError`]: those of [`PageImages::image`]; `vision.limit_reached` and the model's own codes if it did not answer.
    pub async fn describe(
        &self,
        archive: &Archive,
        listed: &CatalogDocument,
        page: PageNo,
        nanodollars: Option<u64>,
    ) -> Result<DescribedPage, ApiError> {
        let image = self.picture(archive, listed, page).await?;
        let client = self.client(archive);
        let budget = QuestionBudget {
            calls: DESCRIPTION_CALLS,
            tokens: DESCRIPTION_TOKENS,
            nanodollars,
        };
        let session = client.start_session(client.new_run_id("describe"), budget);
        let described = describe_page(&session, image).await;
        let usage = session.usage();
        let described = described.map_err(|error| match error {
            SessionError::BudgetExhausted { .. } if usage.calls >= DESCRIPTION_CALLS => {
                unreadable_replies()
            }
            error => session_error(&error),
        })?;
        Ok(DescribedPage {
            doc_id: listed.doc().to_string(),
            locator: page_locator(&listed.label, page),
            page: page.get(),
            by_sight: true,
            figures: described.figures,
            model: client.model().to_owned(),
            cached: usage.calls == 0,
            usage: usage.into(),
        })
    }

    // As large as models read it.
    async fn picture(
        &self,
        archive: &Archive,
        listed: &CatalogDocument,
        page: PageNo,
    ) -> Result<PageImage, ApiError> {
        let request = |side, color| ImageRequest {
            scale: ImageScale::LongSide(side),
            color,
            ..ImageRequest::for_page(page, side)
        };
        let whole = request(PageImage::MAX_SIDE, ImageColor::Color);
        let mut png = self.images.image(archive, listed, &whole).await?;
        if png.len() > PageImage::MAX_BYTES {
            let smaller = request(SMALL_SIDE, ImageColor::Gray);
            png = self.images.image(archive, listed, &smaller).await?;
        }
        page_image(png).map_err(|error| error.with_document(&listed.label))
    }
}

fn page_image(png: Bytes) -> Result<PageImage, ApiError> {
    PageImage::from_png(png).map_err(|error| {
        let next = "read its text";
        ApiError::new("image.not_drawable", error.to_string(), next)
    })
}

// The replies, not the limit on spending, are the reason: more money would not help.
fn unreadable_replies() -> ApiError {
    let message =
        format!("none of {DESCRIPTION_CALLS} replies of the model was a valid description");
    let next = "ask again later, or set vision.model to another model";
    ApiError::new("model.reply_unreadable", message, next)
}

fn session_error(error: &SessionError) -> ApiError {
    let message = error.to_string();
    match error {
        SessionError::BudgetExhausted { .. } | SessionError::TooLong { .. } => {
            ApiError::new("vision.limit_reached", message, "allow more money")
        }
        SessionError::Unavailable(failure) | SessionError::Unusable(failure) => {
            let next = error.next().unwrap_or("ask again later");
            ApiError::new(model_code(&failure.code), message, next)
        }
    }
}

// Codes of the model that a person can act on; others are one.
fn model_code(code: &str) -> &'static str {
    const CODES: [&str; 7] = [
        "model.no_images",
        "model.configuration",
        "model.refused",
        "model.throttled",
        "model.reply_unreadable",
        "model.reply_cut_off",
        "model.context_exceeded",
    ];
    CODES
        .into_iter()
        .find(|known| *known == code)
        .unwrap_or("model.unavailable")
}

/// Draws the pages of one archive for questions.
pub(crate) struct ArchiveViewer {
    vision: Arc<Vision>,
    archive: Arc<Archive>,
    client: Arc<LlmClient>,
}

impl ArchiveViewer {
    pub(crate) fn new(vision: &Arc<Vision>, archive: &Arc<Archive>) -> Self {
        Self {
            client: vision.client(archive),
            vision: Arc::clone(vision),
            archive: Arc::clone(archive),
        }
    }

    pub(crate) fn vision(&self) -> PageVision<'_> {
        PageVision {
            client: &self.client,
            viewer: self,
        }
    }
}

#[async_trait]
impl PageViewer for ArchiveViewer {
    async fn view(&self, doc: DocId, page: PageNo) -> Result<PageImage, Degradation> {
        let picture = async {
            let listed = self.archive.catalog().get(doc)?;
            let listed = listed.ok_or_else(|| {
                ApiError::new("document.unknown", "the document was removed", "stemma ls")
            })?;
            self.vision.picture(&self.archive, &listed, page).await
        };
        picture.await.map_err(|error: ApiError| Degradation {
            code: error.code.into(),
            message: error.message,
            next: error.next,
        })
    }

    fn revision(&self) -> u32 {
        self.vision.images.revision()
    }
}
