//! Generated filings: their catalog, trees and jobs.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use stemma_catalog::fixtures;
use stemma_document::{
    CatalogEntry, Collection, DocId, Extent, Fact, Method, PublishedTree, SectionTree, TreeObject,
    VerifiedOutline, blob_keys,
};
use stemma_store::blobs::{Blobs, FolderBlobs, PutOutcome};
use stemma_store::{Env, PortResult};

use crate::{COMPANIES, Result};

// Documents of a job, as folders are submitted.
const JOB_DOCUMENTS: u64 = 100;
// Time between two jobs.
const JOB_INTERVAL_MS: u64 = 600_000;
const CONCURRENT_WRITES: usize = 8;
// Spreads the ids of successive numbers, as digests are.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

pub(crate) fn doc_id(number: u64) -> Result<DocId> {
    Ok(format!("{:016x}{number:016x}", number.wrapping_mul(SPREAD)).parse()?)
}

fn number_of(doc: DocId) -> u64 {
    let digits = doc.to_string();
    u64::from_str_radix(&digits[16..], 16).unwrap_or_default()
}

// A filing like those that take about a kilobyte in the catalog.
pub(crate) fn published_tree(number: u64) -> Result<PublishedTree> {
    let company = number % COMPANIES;
    let year = 2000 + (number / COMPANIES) % 25;
    let path = format!("archive/{company:05}/{year}/company-{company}-{number}-10-K.pdf");
    let mut version = fixtures::entry(&path).version;
    version.doc = doc_id(number)?;
    let outline = VerifiedOutline::new(Extent::Pages(90), Vec::new())?;
    let mut tree = SectionTree::build(&outline, Method::Layout, Vec::new());
    let fact = |value: String| Some(Fact::from_text(&value, None));
    tree.facts.issuer = fact(format!("Company {company} Holdings Inc"));
    tree.facts.form = fact("10-K".into());
    tree.facts.fiscal_year = fact(year.to_string());
    tree.facts.period_end = fact(format!("{year}-12-31"));
    tree.facts.cik = fact((100_000 + company).to_string());
    tree.facts.language = fact("en".into());
    tree.description = Some(format!(
        "Annual report of Company {company} Holdings Inc for {year}: business, risk factors, financial statements."
    ));
    Ok(PublishedTree {
        version,
        text_artifact: String::new(),
        tree,
    })
}

/// A store whose first documents are generated, with the latency of a remote one.
pub(crate) struct GeneratedBlobs {
    pub(crate) stored: FolderBlobs,
    pub(crate) generated: u64,
    pub(crate) latency_ms: AtomicU64,
    pub(crate) calls: AtomicU64,
}

impl GeneratedBlobs {
    async fn wait(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let latency_ms = self.latency_ms.load(Ordering::Relaxed);
        if latency_ms > 0 {
            tokio::time::sleep(Duration::from_millis(latency_ms)).await;
        }
    }

    fn generated_tree(&self, key: &str) -> Option<Bytes> {
        let doc: DocId = key.split('/').nth(3)?.parse().ok()?;
        let number = Some(number_of(doc)).filter(|number| *number < self.generated)?;
        let is_tree = key.ends_with("/trees/000000000001.json");
        let tree = TreeObject::Published(Box::new(published_tree(number).ok()?));
        serde_json::to_vec(&tree)
            .ok()
            .filter(|_| is_tree)
            .map(Into::into)
    }
}

#[async_trait]
impl Blobs for GeneratedBlobs {
    async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome> {
        self.wait().await;
        self.stored.put(key, bytes).await
    }
    async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.wait().await;
        match self.generated_tree(key) {
            Some(tree) => Ok(Some(tree)),
            None => self.stored.get(key).await,
        }
    }
    async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>> {
        self.wait().await;
        self.stored.get_range(key, range).await
    }
    async fn size(&self, key: &str) -> PortResult<Option<u64>> {
        self.wait().await;
        self.stored.size(key).await
    }
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        self.wait().await;
        self.stored.list(prefix, after, limit).await
    }
    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        self.wait().await;
        self.stored.children(prefix, after, limit).await
    }
    async fn delete(&self, key: &str) -> PortResult<()> {
        self.wait().await;
        self.stored.delete(key).await
    }
    async fn barrier(&self) -> PortResult<()> {
        self.stored.barrier().await
    }
}

/// Writes the snapshot, in a process of its own, whose memory is not measured.
pub(crate) async fn prepare(folder: &Path, documents: u64) -> Result<()> {
    let blobs = FolderBlobs::open(folder)?;
    let entries: Result<Vec<CatalogEntry>> = (0..documents)
        .map(|number| Ok(CatalogEntry::from_tree(&published_tree(number)?)))
        .collect();
    let now_ms = Env::system().now_ms();
    fixtures::write_snapshot(&blobs, &Collection::default(), entries?, now_ms).await?;
    Ok(())
}

/// Writes trees and ended jobs as files, beside the snapshot.
pub(crate) async fn write_objects(folder: &Path, documents: u64) -> Result<()> {
    let blobs = FolderBlobs::open(folder)?;
    let blobs = &blobs;
    let collection = Collection::default();
    let trees = stream::iter(0..documents).map(|number| async move {
        let tree = published_tree(number)?;
        let key = blob_keys::tree_key(&Collection::default(), tree.version.doc, 1);
        let json = serde_json::to_vec(&TreeObject::Published(Box::new(tree)))?;
        blobs.put(&key, json.into()).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    let mut trees = trees.buffer_unordered(CONCURRENT_WRITES);
    while trees.try_next().await?.is_some() {}
    let now_ms = Env::system().now_ms();
    for number in 0..documents / JOB_DOCUMENTS {
        let submitted_ms = now_ms - (number + 1) * JOB_INTERVAL_MS;
        let job = format!("j-{submitted_ms:011x}{number:016x}");
        let manifest = json!({
            "job": job, "collection": collection, "settings": "s", "class": "bulk", "entries": JOB_DOCUMENTS,
            "submitted_ms": submitted_ms, "label": format!("folder {number}"),
        });
        let counts =
            json!({ "done": JOB_DOCUMENTS, "done_with_gaps": 0, "unchanged": 0, "failed": 0 });
        let report = json!({
            "job": job, "counts": counts, "failures": [], "submitted_ms": submitted_ms, "ended_ms": submitted_ms + 60_000,
        });
        for (name, value) in [("manifest", manifest), ("report", report)] {
            let key = format!("jobs/{job}/{name}.json");
            blobs.put(&key, serde_json::to_vec(&value)?.into()).await?;
        }
        let marker = format!("jobs-ended/{job}");
        blobs.put(&marker, Bytes::new()).await?;
    }
    Ok(())
}
