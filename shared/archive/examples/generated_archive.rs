//! Writes an archive of generated filings, for measuring pages over many documents: `generated_archive FOLDER DOCUMENTS`.
//!
//! Each document has a tree with facts and no text; each hundred of them an ended job. `tests/bench/run web` serves it.

use std::path::Path;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use stemma_catalog::fixtures;
use stemma_document::{
    CatalogEntry, Collection, DocId, Extent, Fact, Method, PublishedTree, SectionTree, TreeObject,
    VerifiedOutline, blob_keys,
};
use stemma_store::Env;
use stemma_store::blobs::{Blobs, FolderBlobs};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const COMPANIES: u64 = 5_000;
// Documents of a job, as folders are submitted.
const JOB_DOCUMENTS: u64 = 100;
// Time between two jobs.
const JOB_INTERVAL_MS: u64 = 600_000;
const CONCURRENT_WRITES: usize = 8;
// Spreads the ids of successive numbers, as digests are.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn doc_id(number: u64) -> Result<DocId> {
    Ok(format!("{:016x}{number:016x}", number.wrapping_mul(SPREAD)).parse()?)
}

// A filing like those that take about a kilobyte in the catalog.
fn published_tree(number: u64) -> Result<PublishedTree> {
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

async fn write_snapshot(blobs: &FolderBlobs, documents: u64) -> Result<()> {
    let entries: Result<Vec<CatalogEntry>> = (0..documents)
        .map(|number| Ok(CatalogEntry::from_tree(&published_tree(number)?)))
        .collect();
    let now_ms = Env::system().now_ms();
    fixtures::write_snapshot(blobs, &Collection::default(), entries?, now_ms).await?;
    Ok(())
}

async fn write_objects(blobs: &FolderBlobs, documents: u64) -> Result<()> {
    let collection = Collection::default();
    let trees = stream::iter(0..documents).map(|number| async move {
        let tree = published_tree(number)?;
        let key = blob_keys::tree_key(&Collection::default(), tree.version.doc, 1);
        let json = serde_json::to_vec(&TreeObject::Published(Box::new(tree)))?;
        blobs.put(&key, json.into()).await?;
        Result::Ok(())
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

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, documents] = args.as_slice() else {
        return Err("usage: generated_archive FOLDER DOCUMENTS".into());
    };
    let blobs = FolderBlobs::open(Path::new(folder))?;
    let documents = documents.parse()?;
    write_snapshot(&blobs, documents).await?;
    write_objects(&blobs, documents).await
}
