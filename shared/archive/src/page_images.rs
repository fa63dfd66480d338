//! Images of pages: drawn in a child process, drawn once for all who ask meanwhile, and cached.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::Fragment;
use stemma_document::{Digest, DocumentVersion, Origin, PageNo};
use stemma_extract::{ExtractError, ExtractJob, Extractor, ImageRequest, Limits, Task};
use stemma_store::Env;
use stemma_store::cache::Cache;
use tokio::sync::Semaphore;

use crate::document_store::BlobDocumentStore;
use crate::error::shell_quoted;
use crate::read::page_number;
use crate::{ApiError, Archive};

// Some hundred pages of text.
const CACHE_BYTES: usize = 64 << 20;
const CACHE_MS: u64 = 60 * 60_000;
// A drawing has the whole file in memory, here and in the child.
const MAX_FILE_BYTES: u64 = 128 << 20;
// CPU time for one page. Nobody waits longer for a picture.
const MAX_SECONDS: u32 = 10;
// Drawings that wait for each one that runs. A reader who scrolls asks for some pages at once.
const QUEUED_PER_PLACE: usize = 16;

type Drawing = Shared<BoxFuture<'static, Result<Bytes, ApiError>>>;

/// Draws pages of documents and caches the images.
pub struct PageImages {
    env: Env,
    extractor: Arc<dyn Extractor>,
    files: Arc<dyn SourceFiles>,
    revision: u32,
    places: Semaphore,
    // One permit for each drawing that runs or waits.
    admitted: Arc<Semaphore>,
    images: Cache<Digest, Bytes>,
    in_flight: Mutex<HashMap<Digest, Drawing>>,
}

/// Reads files that the store does not have.
#[async_trait]
pub trait SourceFiles: Send + Sync {
    /// The bytes of a version, at most `max_bytes`. The caller checks their digest.
    async fn read(&self, version: &DocumentVersion, max_bytes: u64) -> Result<Bytes, ApiError>;
}

impl PageImages {
    /// Draws up to `places` pages at once with `extractor`. `revision` changes with the pixels that it makes.
    pub fn new(
        env: Env,
        extractor: Arc<dyn Extractor>,
        files: Arc<dyn SourceFiles>,
        revision: u32,
        places: usize,
    ) -> Arc<Self> {
        let places = places.max(1);
        Arc::new(Self {
            env,
            extractor,
            files,
            revision,
            places: Semaphore::new(places),
            admitted: Arc::new(Semaphore::new(places * (1 + QUEUED_PER_PLACE))),
            images: Cache::new(CACHE_BYTES, CACHE_MS),
            in_flight: Mutex::default(),
        })
    }

    /// Changes with the pixels that are drawn.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// Identifies an image, also before it is drawn.
    pub fn image_id(
        &self,
        archive: &Archive,
        listed: &CatalogDocument,
        request: &ImageRequest,
    ) -> Digest {
        let source = listed.version().source;
        let collection = &archive.collection;
        let revision = self.revision;
        let text = format!("{collection} {source} {revision} {request:?}");
        Digest::from_content(text.as_bytes())
    }

    /// The image of a page as PNG. It is finished and cached even if the caller leaves.
    ///
    /// # Errors
    /// [`ApiError`]: `document.no_tree`, `document.no_pages`; `image.busy` if too many drawings wait; `source.not_available` and `source.changed` if the file is gone; `image.not_a_pdf`;
    /// `locator.no_page`; `image.not_drawable`, `limits.*`, `pdf.*` and `extract.*` if drawing fails.
    pub async fn image(
        self: &Arc<Self>,
        archive: &Archive,
        listed: &CatalogDocument,
        request: &ImageRequest,
    ) -> Result<Bytes, ApiError> {
        let label = &listed.label;
        let extent = archive.require_tree(listed).await?.tree.extent;
        page_number(label, extent, request.page.get())?;
        let id = self.image_id(archive, listed, request);
        if let Some(image) = self.images.get(&id, self.env.now_ms()) {
            return Ok(image);
        }
        let drawing = self.join_or_start(id, archive, listed, request)?;
        drawing.await.map_err(|error| error.with_document(label))
    }

    fn join_or_start(
        self: &Arc<Self>,
        id: Digest,
        archive: &Archive,
        listed: &CatalogDocument,
        request: &ImageRequest,
    ) -> Result<Drawing, ApiError> {
        let mut in_flight = self.in_flight.lock();
        if let Some(drawing) = in_flight.get(&id) {
            return Ok(drawing.clone());
        }
        let admitted = Arc::clone(&self.admitted).try_acquire_owned();
        let admitted = admitted.map_err(|_| {
            let message = "too many pages are being drawn";
            ApiError::new("image.busy", message, "try again in a moment")
        })?;
        let images = Arc::clone(self);
        let store = archive.store.clone();
        let version = listed.version().clone();
        let request = *request;
        let task = self.env.spawn(async move {
            let _entry = InFlightEntry {
                images: &images,
                id,
            };
            let drawn = images.draw(&store, &version, &request).await;
            if let Ok(image) = &drawn {
                let now_ms = images.env.now_ms();
                images.images.put(id, image.clone(), image.len(), now_ms);
            }
            drop(admitted);
            drawn
        });
        let drawing = task
            .map(|ended| ended.unwrap_or_else(|error| Err(interrupted(&error.to_string()))))
            .boxed()
            .shared();
        in_flight.insert(id, drawing.clone());
        Ok(drawing)
    }

    async fn draw(
        &self,
        store: &BlobDocumentStore,
        version: &DocumentVersion,
        request: &ImageRequest,
    ) -> Result<Bytes, ApiError> {
        let _place = self
            .places
            .acquire()
            .await
            .map_err(|error| interrupted(&error.to_string()))?;
        let bytes = self.read(store, version).await?;
        let limits = Limits {
            max_bytes: MAX_FILE_BYTES,
            max_seconds: MAX_SECONDS,
            ..Limits::default()
        };
        let job = ExtractJob {
            task: Task::Image(*request),
            ..ExtractJob::new(version.name.clone(), bytes.into(), None, limits)
        };
        let drawn = self.extractor.extract(job).await;
        drawn.map(Bytes::from).map_err(drawing_error)
    }

    // The file from the store, else from where it was.
    async fn read(
        &self,
        store: &BlobDocumentStore,
        version: &DocumentVersion,
    ) -> Result<Bytes, ApiError> {
        if version.size_bytes > MAX_FILE_BYTES {
            let size = version.size_bytes;
            let message = format!(
                "the file has {size} bytes; pages of at most {MAX_FILE_BYTES} bytes are drawn"
            );
            return Err(ApiError::new("limits.bytes", message, "split the file"));
        }
        if let Some(original) = store.original(version).await?
            && let Some(bytes) = original.read(0..original.size_bytes).await?
        {
            return Ok(bytes);
        }
        let bytes = self.files.read(version, MAX_FILE_BYTES).await?;
        if version.origin == Origin::Content && Digest::from_content(&bytes) != version.source {
            let message = "the file has changed since it was ingested";
            return Err(ApiError::new("source.changed", message, "ingest it again"));
        }
        Ok(bytes)
    }
}

// Ends with the drawing, also if that panics.
struct InFlightEntry<'i> {
    images: &'i PageImages,
    id: Digest,
}

impl Drop for InFlightEntry<'_> {
    fn drop(&mut self) {
        self.images.in_flight.lock().remove(&self.id);
    }
}

impl Archive {
    /// The document and the page of a locator that names one page: `3M_2022_10K#p=5`.
    pub fn one_page(&self, locator: &str) -> Result<(Arc<CatalogDocument>, PageNo), ApiError> {
        let (listed, fragment) = self.locate(locator)?;
        if let Some(Fragment::Pages(spans)) = &fragment
            && let [span] = spans[..]
            && span.len() == 1
        {
            return Ok((listed, span.start()));
        }
        let label = &listed.label;
        let message = format!("an image shows one page, but `{locator}` names none or several");
        let next = format!(
            "stemma cat {} --image",
            shell_quoted(&format!("{label}#p=1"))
        );
        Err(ApiError::new("image.one_page_only", message, next).with_document(label))
    }
}

// The process is shutting down.
fn interrupted(error: &str) -> ApiError {
    let message = format!("drawing the page was interrupted: {error}");
    ApiError::new("image.interrupted", message, "try again")
}

fn drawing_error(error: ExtractError) -> ApiError {
    match error.code {
        "pdf.not_a_pdf" => {
            let message = "only pages of a PDF have images, and the file is not a PDF";
            ApiError::new("image.not_a_pdf", message, "read its text")
        }
        "image.no_page" => ApiError::new("locator.no_page", error.message, error.next),
        code => ApiError::new(code, error.message, error.next),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::join_all;
    use stemma_document::Collection;
    use tokio::sync::Notify;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    // Draws when it is told to.
    #[derive(Default)]
    struct SlowRenderer {
        begun: AtomicUsize,
        go: Notify,
    }

    #[async_trait]
    impl Extractor for SlowRenderer {
        async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.go.notified().await;
            Ok(format!("{:?}", job.task).into_bytes())
        }
    }

    // The sample store has the digests of paths.
    struct Files(&'static str);

    #[async_trait]
    impl SourceFiles for Files {
        async fn read(&self, version: &DocumentVersion, _: u64) -> Result<Bytes, ApiError> {
            Ok(format!("{}{}", version.path, self.0).into())
        }
    }

    async fn sample() -> (Arc<Archive>, Arc<CatalogDocument>) {
        let blobs = crate::tests::store().await;
        let env = Env::system();
        let archive = Archive::open(&env, blobs, Collection::default()).await;
        let archive = archive.unwrap();
        let (listed, page) = archive.one_page("ACME_2022#p=2").unwrap();
        assert_eq!(page.get(), 2);
        (Arc::new(archive), listed)
    }

    fn images(renderer: &Arc<SlowRenderer>, files: Files, places: usize) -> Arc<PageImages> {
        let renderer = Arc::clone(renderer) as Arc<dyn Extractor>;
        PageImages::new(Env::system(), renderer, Arc::new(files), 1, places)
    }

    fn request(width: u32) -> ImageRequest {
        ImageRequest::for_page(PageNo::FIRST, width)
    }

    async fn until_begun(renderer: &SlowRenderer, count: usize) {
        let begun = async {
            while renderer.begun.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, begun).await.unwrap();
    }

    #[tokio::test]
    async fn a_page_that_many_ask_for_is_drawn_once() {
        let (archive, listed) = sample().await;
        let renderer = Arc::new(SlowRenderer::default());
        let images = images(&renderer, Files(""), 2);
        let request = request(100);
        let asked = (0..20).map(|_| images.image(&archive, &listed, &request));
        let (drawn, ()) = tokio::join!(join_all(asked), async {
            until_begun(&renderer, 1).await;
            renderer.go.notify_one();
        });
        assert!(
            drawn
                .iter()
                .all(|image| image == &drawn[0] && image.is_ok())
        );
        let cached = images.image(&archive, &listed, &request).await;
        assert_eq!(cached, drawn[0]);
        assert_eq!(renderer.begun.load(Ordering::SeqCst), 1);
        assert!(images.in_flight.lock().is_empty());
    }

    #[tokio::test]
    async fn a_drawing_is_finished_after_its_caller_left() {
        let (archive, listed) = sample().await;
        let renderer = Arc::new(SlowRenderer::default());
        let images = images(&renderer, Files(""), 1);
        let request = request(100);
        tokio::select! {
            _ = images.image(&archive, &listed, &request) => panic!("it is not drawn yet"),
            () = until_begun(&renderer, 1) => {}
        }
        renderer.go.notify_one();
        images.image(&archive, &listed, &request).await.unwrap();
        assert_eq!(renderer.begun.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn drawings_are_bounded() {
        let (archive, listed) = sample().await;
        let renderer = Arc::new(SlowRenderer::default());
        let images = images(&renderer, Files(""), 1);
        let admitted: Vec<_> = (0..=QUEUED_PER_PLACE)
            .map(|at| {
                let archive = Arc::clone(&archive);
                let listed = Arc::clone(&listed);
                let images = Arc::clone(&images);
                let request = request(100 + at as u32);
                tokio::spawn(async move { images.image(&archive, &listed, &request).await })
            })
            .collect();
        let is_full = async {
            while images.admitted.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, is_full).await.unwrap();
        until_begun(&renderer, 1).await;
        let refused = images.image(&archive, &listed, &request(50)).await;
        assert_eq!(refused.unwrap_err().code, "image.busy");
        for at in 1..=admitted.len() {
            until_begun(&renderer, at).await;
            assert_eq!(renderer.begun.load(Ordering::SeqCst), at, "one at a time");
            renderer.go.notify_one();
        }
        for image in join_all(admitted).await {
            assert!(image.unwrap().is_ok());
        }
    }

    #[tokio::test]
    async fn files_that_changed_are_not_drawn() {
        let (archive, listed) = sample().await;
        let images = images(&Arc::default(), Files(" and more"), 1);
        let refused = images.image(&archive, &listed, &request(100)).await;
        assert_eq!(refused.unwrap_err().code, "source.changed");
    }

    #[tokio::test]
    async fn only_locators_of_one_page_have_an_image() {
        let (archive, _) = sample().await;
        for locator in [
            "ACME_2022",
            "ACME_2022#p=1-2",
            "ACME_2022#p=1,2",
            "ACME_2022#0001",
        ] {
            let refused = archive.one_page(locator).unwrap_err();
            assert_eq!(refused.code, "image.one_page_only", "{locator}");
        }
    }
}
