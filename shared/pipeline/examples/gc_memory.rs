//! Measures the memory of a garbage collection over a generated collection.
//!
//! `cargo run -p stemma-pipeline --example gc_memory [documents]`. Each document was claimed and published once. Their change
//! records are made when they are read, so that the store takes no memory.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "ends with the message of what failed"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::{
    CatalogEntry, Change, ChangeKind, Collection, Digest, DocId, DocumentVersion, Extent, Method,
    Origin, PublishedTree, SectionTree, VerifiedOutline, blob_keys,
};
use stemma_pipeline::gc::GarbagePages;
use stemma_store::PortResult;
use stemma_store::blobs::{Blobs, PutOutcome};

// Documents whose changes one object records.
const GROUP: u64 = 100;
const DAY_MS: u64 = 24 * 3_600_000;

struct GeneratedChanges {
    documents: u64,
    collection: Collection,
}

impl GeneratedChanges {
    // One object a minute.
    fn key(&self, group: u64) -> String {
        blob_keys::change_key(&self.collection, group * 60_000, group)
    }

    fn group(&self, key: &str) -> Option<u64> {
        let minute = key.strip_prefix(&blob_keys::changes_prefix(&self.collection))?;
        minute.split('/').next()?.parse().ok()
    }

    fn changes(&self, group: u64) -> Vec<u8> {
        let mut lines = Vec::new();
        for document in group * GROUP..((group + 1) * GROUP).min(self.documents) {
            let entry = self.entry(document);
            let claimed = ChangeKind::Claimed(Box::new(entry.version.clone()));
            for kind in [claimed, ChangeKind::Published(Box::new(entry))] {
                let at_ms = group * 60_000;
                serde_json::to_writer(&mut lines, &Change { at_ms, kind }).unwrap();
                lines.push(b'\n');
            }
        }
        lines
    }

    fn entry(&self, document: u64) -> CatalogEntry {
        let path = format!("{document}.pdf");
        let outline = VerifiedOutline::new(Extent::Pages(1), Vec::new()).unwrap();
        let version = DocumentVersion {
            doc: DocId::new(&self.collection, &path),
            seq: 1,
            uri: format!("file:///{path}"),
            name: path.clone(),
            path,
            source: Digest::from_content(b""),
            origin: Origin::Content,
            size_bytes: 1,
            settings: "s".into(),
            sidecar_facts: BTreeMap::new(),
            filing_facts: BTreeMap::new(),
            correction: None,
            labels: None,
        };
        CatalogEntry::from_tree(&PublishedTree {
            version,
            text_artifact: String::new(),
            tree: SectionTree::build(&outline, Method::Layout, Vec::new()),
        })
    }
}

#[async_trait]
impl Blobs for GeneratedChanges {
    async fn put(&self, _: &str, _: Bytes) -> PortResult<PutOutcome> {
        Ok(PutOutcome::Created)
    }
    async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
        Ok(self.group(key).map(|group| self.changes(group).into()))
    }
    async fn get_range(&self, _: &str, _: Range<u64>) -> PortResult<Option<Bytes>> {
        Ok(None)
    }
    async fn size(&self, _: &str) -> PortResult<Option<u64>> {
        Ok(None)
    }
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        if prefix != blob_keys::changes_prefix(&self.collection) {
            return Ok(Vec::new());
        }
        let first = after
            .and_then(|key| self.group(key))
            .map_or(0, |group| group + 1);
        let groups = first..self.documents.div_ceil(GROUP);
        Ok(groups.take(limit).map(|group| self.key(group)).collect())
    }
    async fn children(&self, _: &str, _: Option<&str>, _: usize) -> PortResult<Vec<String>> {
        Ok(Vec::new())
    }
    async fn delete(&self, _: &str) -> PortResult<()> {
        Ok(())
    }
    async fn barrier(&self) -> PortResult<()> {
        Ok(())
    }
}

// The most memory that this process had, in MB.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.expect("VmHWM in kB") / 1_024
}

#[tokio::main]
async fn main() {
    let documents = std::env::args()
        .nth(1)
        .map_or(Ok(200_000), |count| count.parse());
    let collection = Collection::default();
    let blobs = GeneratedChanges {
        documents: documents.expect("usage: gc_memory [documents]"),
        collection: collection.clone(),
    };
    let before_mb = peak_mb();
    let began = Instant::now();
    let now_ms = 100_000 * DAY_MS;
    let pages = GarbagePages::start(&blobs, &collection, now_ms, 90 * DAY_MS);
    let mut pages = pages.await.unwrap();
    let read_mb = peak_mb();
    let mut count = 0;
    while pages.next_documents().await.unwrap().is_some() {
        count += 1;
    }
    println!(
        "{} documents in {count} pages, {:.1} s: {before_mb} MB at first, {read_mb} MB after reading changes, {} MB at most",
        blobs.documents,
        began.elapsed().as_secs_f64(),
        peak_mb()
    );
}
