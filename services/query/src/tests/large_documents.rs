//! Documents with more sections, Items and facts than a person writes: pages show a bounded part, and read each object once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::body::Bytes;
use stemma_engine_testing::wait::wait_until;
use stemma_sample_store as store;
use stemma_store::PortResult;
use stemma_store::blobs::{Blobs, MemoryBlobs, PutOutcome};

use super::test_server::{TestServer, start_over};
use super::web::browse;
use crate::ServerDeps;

/// Counts what is read of trees and artifacts.
#[derive(Default)]
struct CountingBlobs {
    inner: MemoryBlobs,
    trees: AtomicUsize,
    artifacts: AtomicUsize,
}

impl CountingBlobs {
    fn reset(&self) {
        self.trees.store(0, Ordering::Relaxed);
        self.artifacts.store(0, Ordering::Relaxed);
    }

    fn count(&self, key: &str) {
        if key.contains("/trees/") {
            self.trees.fetch_add(1, Ordering::Relaxed);
        } else if key.contains("/a/") {
            self.artifacts.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Blobs for CountingBlobs {
    async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome> {
        self.inner.put(key, bytes).await
    }
    async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.count(key);
        self.inner.get(key).await
    }
    async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>> {
        self.count(key);
        self.inner.get_range(key, range).await
    }
    async fn size(&self, key: &str) -> PortResult<Option<u64>> {
        self.inner.size(key).await
    }
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        self.inner.list(prefix, after, limit).await
    }
    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        self.inner.children(prefix, after, limit).await
    }
    async fn delete(&self, key: &str) -> PortResult<()> {
        self.inner.delete(key).await
    }
    async fn barrier(&self) -> PortResult<()> {
        self.inner.barrier().await
    }
}

/// A server that has indexed `documents`: it then reads them for requests only.
async fn start_indexed(blobs: &Arc<CountingBlobs>, documents: usize) -> TestServer {
    let server = start_over(Arc::clone(blobs) as Arc<dyn Blobs>, ServerDeps::default()).await;
    wait_until("the index is complete", async || {
        let found = server.post("/v1/search", r#"{"query": "text"}"#).await;
        found.json()["searched"]["documents_in_scope"] == documents
    })
    .await;
    server
}

/// A chapter for each tenth of the sections, whose titles name Items.
async fn publish_sections(blobs: &dyn Blobs, path: &str, sections: usize, title: &str) {
    let text: String = (0..sections)
        .map(|number| match number % (sections / 10) {
            0 => format!("# Chapter {number} {title}\n"),
            _ => format!("## Item {}. {title}\ntext\n", number % 90 + 1),
        })
        .collect();
    store::publish_pages(blobs, path, &[&text]).await;
}

#[tokio::test]
async fn pages_of_a_document_do_not_grow_with_its_sections() {
    let blobs = Arc::new(CountingBlobs::default());
    let markup = "<script>alert(1)</script>";
    publish_sections(blobs.as_ref(), "few.pdf", 4_000, markup).await;
    publish_sections(blobs.as_ref(), "many.pdf", 12_000, markup).await;
    let server = start_indexed(&blobs, 2).await;
    for part in [
        "",
        "?at=0001",
        "?at=2100",
        "?view=items",
        "?view=about",
        "?view=tables",
    ] {
        let few = browse(&server, &format!("/documents/few{part}"), "").await;
        let many = browse(&server, &format!("/documents/many{part}"), "").await;
        assert_eq!((few.status, many.status), (200, 200), "{part}");
        assert!(!many.body.contains("<script>alert"), "{part}");
        let links = [&few, &many].map(|page| page.body.matches("href=").count());
        assert!(
            links[1] <= links[0] + 2 && links[1] < 1_500,
            "{part}: {links:?}"
        );
        let bytes = [&few, &many].map(|page| page.body.len());
        assert!(
            bytes[1] < bytes[0] + bytes[0] / 20 + 1_000,
            "{part}: {bytes:?}"
        );
    }
}

#[tokio::test]
async fn the_pages_of_a_large_tree_read_it_once() {
    let blobs = Arc::new(CountingBlobs::default());
    let long = "W".repeat(40_000);
    publish_sections(blobs.as_ref(), "long.pdf", 300, &long).await;
    let server = start_indexed(&blobs, 1).await;
    blobs.reset();
    for part in [
        "",
        "?at=0001",
        "?page=1",
        "?view=items",
        "?view=tables",
        "?view=about",
    ] {
        let page = browse(&server, &format!("/documents/long{part}"), "").await;
        assert_eq!(page.status, 200, "{part}");
        assert_eq!(blobs.trees.load(Ordering::Relaxed), 1, "{part}");
    }
}

#[tokio::test]
async fn a_comparison_of_too_many_sections_is_refused_before_a_tree_is_read() {
    let blobs = Arc::new(CountingBlobs::default());
    publish_sections(blobs.as_ref(), "few.pdf", 10, "").await;
    publish_sections(blobs.as_ref(), "many.pdf", 50_010, "").await;
    let server = start_indexed(&blobs, 2).await;
    for body in [
        r#"{"left": "few", "right": "many"}"#,
        r#"{"left": "many", "right": "few"}"#,
        r#"{"left": "few", "right": "many#0002"}"#,
        r#"{"left": "few", "right": "many", "item": "2"}"#,
    ] {
        blobs.reset();
        let reply = server.post("/v1/comparisons", body).await;
        assert_eq!(reply.code(), "comparison.too_large", "{body}");
        assert_eq!(blobs.trees.load(Ordering::Relaxed), 0, "{body}");
    }
    let parts = r#"{"left": "few#0002", "right": "many#0002"}"#;
    let reply = server.post("/v1/comparisons", parts).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[tokio::test]
async fn pages_of_a_large_tree_are_bounded() {
    let blobs = Arc::new(CountingBlobs::default());
    publish_sections(blobs.as_ref(), "many.pdf", 4_000, "").await;
    let server = start_indexed(&blobs, 1).await;
    let mut ids = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/documents/many/tree?limit=1500{cursor}");
        let page = server.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.body);
        assert_eq!(page.json()["total"], 4_000);
        let sections = page.column("sections", "section_id");
        assert!(sections.len() <= 1_500);
        ids.extend(sections);
        match page.json()["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let whole = server.get("/v1/documents/many/tree").await;
    assert_eq!(ids, whole.column("sections", "section_id"));
    let outline = server
        .get("/v1/documents/many/tree?limit=10&format=outline")
        .await;
    assert_eq!(outline.body.lines().count(), 10);
}

#[tokio::test]
async fn all_facts_are_downloaded_in_one_reading() {
    let blobs = Arc::new(CountingBlobs::default());
    let displayed: Vec<String> = (0..1_200).map(|number| format!("1{number:04}")).collect();
    let figures: Vec<(&str, &str, &str, &str)> = displayed
        .iter()
        .map(|displayed| {
            let from = "2021-01-01";
            let to = "2021-12-31";
            ("us-gaap:Revenues", from, to, displayed.as_str())
        })
        .collect();
    let mut reads = Vec::new();
    for (path, count) in [("few.htm", 3), ("many.htm", figures.len())] {
        let filing = store::InlineFiling {
            cik: "0000000001",
            company: "ACME INC",
            period_end: "2021-12-31",
            figures: &figures[..count],
        };
        filing
            .publish(blobs.as_ref(), path, &["Item 8. Statements"])
            .await;
    }
    let server = start_indexed(&blobs, 2).await;
    for (name, count) in [("few", 3), ("many", figures.len())] {
        blobs.reset();
        let file = server.get(&format!("/documents/{name}/facts.csv")).await;
        let rows = file
            .body
            .lines()
            .filter(|row| row.starts_with("us-gaap:Revenues"));
        // With the figure of a segment.
        assert_eq!(rows.count(), count + 1, "{}", file.head);
        reads.push(blobs.artifacts.load(Ordering::Relaxed));
    }
    assert!(reads[0] > 0);
    assert_eq!(reads[0], reads[1]);
}
