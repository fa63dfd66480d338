//! Images of pages. The renderer is replaced: it draws whatever it is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::body::Bytes;
use stemma_archive::{ApiError, PageImages, SourceFiles};
use stemma_document::DocumentVersion;
use stemma_extract::{ExtractError, ExtractJob, Extractor, Task};
use stemma_store::Env;

use super::test_server::{start, start_with};
use crate::ServerDeps;

#[derive(Default)]
struct FakeRenderer(AtomicUsize);

#[async_trait]
impl Extractor for FakeRenderer {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let Task::Image(request) = job.task else {
            panic!("text is not asked for");
        };
        match request.page.get() {
            3 => Err(ExtractError::new("pdf.not_a_pdf", "x", "y")),
            4 => Err(ExtractError::new("limits.time", "too slow", "y")),
            5 => Err(ExtractError::new("extract.killed", "killed", "y")),
            page => Ok(format!("image of page {page} {:?}", request.scale).into_bytes()),
        }
    }
}

// The digests of the sample store are those of the paths.
struct SampleFiles;

#[async_trait]
impl SourceFiles for SampleFiles {
    async fn read(&self, version: &DocumentVersion, _: u64) -> Result<Bytes, ApiError> {
        match version.name.as_str() {
            "ACME_2021.pdf" => Err(ApiError::new("source.not_available", "it is gone", "")),
            _ => Ok(version.path.clone().into_bytes().into()),
        }
    }
}

fn drawing(renderer: &Arc<FakeRenderer>) -> ServerDeps {
    let renderer = Arc::clone(renderer) as Arc<dyn Extractor>;
    let images = PageImages::new(Env::system(), renderer, Arc::new(SampleFiles), 1, 2);
    ServerDeps {
        page_images: Some(images),
        ..ServerDeps::default()
    }
}

#[tokio::test]
async fn images_are_drawn_once_and_have_a_tag() {
    let renderer = Arc::new(FakeRenderer::default());
    let server = start_with(drawing(&renderer)).await;
    let path = "/v1/documents/ACME_2022/pages/2/image?width=600";
    let image = server.get(path).await;
    assert_eq!(
        (image.status, image.header("content-type")),
        (200, Some("image/png"))
    );
    assert_eq!(image.body, "image of page 2 Width(600)");
    assert!(
        image
            .header("cache-control")
            .unwrap()
            .starts_with("private")
    );
    let tag = image.header("etag").unwrap();
    let again = format!("GET {path} HTTP/1.1\r\nIf-None-Match: {tag}\r\n");
    let again = server.request(&again).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(server.get(path).await.body, image.body);
    assert_eq!(renderer.0.load(Ordering::Relaxed), 1);
    let other = server.get("/v1/documents/ACME_2022/pages/2/image").await;
    assert_eq!(other.body, "image of page 2 Width(1000)");
    assert_ne!(other.header("etag"), Some(tag));
}

#[tokio::test]
async fn a_page_without_an_image_has_a_problem() {
    let server = start_with(drawing(&Arc::default())).await;
    for (path, status, code) in [
        ("ACME_2022/pages/9/image", 404, "locator.no_page"),
        ("ACME_2022/pages/0/image", 400, "request.invalid"),
        ("ACME_2022/pages/x/image", 400, "request.invalid"),
        ("ACME_2022/pages/2/image?width=49", 400, "request.invalid"),
        ("ACME_2022/pages/2/image?width=2001", 400, "request.invalid"),
        ("ACME_2022/pages/2/image?x=0.5&w=0", 400, "request.invalid"),
        ("ACME_2022/pages/3/image", 422, "image.not_a_pdf"),
        ("ACME_2022/pages/4/image", 422, "limits.time"),
        ("ACME_2022/pages/5/image", 503, "extract.killed"),
        ("ACME_2021/pages/1/image", 404, "source.not_available"),
        ("manual/pages/1/image", 422, "document.no_pages"),
        ("nothing/pages/1/image", 404, "locator.not_found"),
    ] {
        let refused = server.get(&format!("/v1/documents/{path}")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (status, code),
            "{path}"
        );
    }
    let queued = server.get("/v1/documents/QUEUED/pages/1/image").await;
    assert_eq!(queued.json()["ready"], false);
    let without = start()
        .await
        .get("/v1/documents/ACME_2022/pages/2/image")
        .await;
    assert_eq!(
        (without.status, without.code().as_str()),
        (501, "image.not_available")
    );
}

#[tokio::test]
async fn the_pages_show_text_where_there_is_no_image() {
    let with = start_with(drawing(&Arc::default())).await;
    let without = start().await;
    for (server, path, content_type) in [
        (&with, "ACME_2022/pages/2/image?width=200", "image/png"),
        (&with, "ACME_2022/pages/3/image", "image/svg+xml"),
        (&with, "ACME_2021/pages/1/image", "image/svg+xml"),
        (&without, "ACME_2022/pages/2/image", "image/svg+xml"),
    ] {
        let image = server.get(&format!("/documents/{path}")).await;
        assert_eq!(
            (image.status, image.header("content-type")),
            (200, Some(content_type)),
            "{path}"
        );
    }
    for (path, status) in [
        ("ACME_2022/pages/9/image", 404),
        ("ACME_2022/pages/2/image?width=9000", 400),
        ("manual/pages/1/image", 422),
    ] {
        let refused = with.get(&format!("/documents/{path}")).await;
        assert_eq!(refused.status, status, "{path}");
    }
}
