//! Measures a query server over a generated catalog: `freshness FOLDER DOCUMENTS PUBLICATIONS [LATENCY_MS]`.
//! `prepare` writes the catalog, `objects` also trees and jobs as files, for the pages of the product.
//!
//! The catalog is a snapshot; trees are generated when they are read, so that only the reader is measured. Every call to the
//! store takes LATENCY_MS (25) once the index is complete. Documents are then published at random times: printed is how
//! long it takes until they are listed, and until a search covers them. `tests/bench/freshness` runs it.

mod generated;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stemma_archive::collections::Collections;
use stemma_archive::{Archive, ListRequest, SearchRequest};
use stemma_catalog::catalog::Catalog;
use stemma_catalog::facets::FacetField;
use stemma_document::{CatalogEntry, Change, ChangeKind, Collection, DocId, TreeObject, blob_keys};
use stemma_retrieval::index::local_index::IndexSettings;
use stemma_store::Env;
use stemma_store::blobs::{Blobs, FolderBlobs};
use tokio_util::sync::CancellationToken;

use generated::{GeneratedBlobs, doc_id, prepare, published_tree, write_objects};

// As the server has it: how much memory a process keeps depends on the allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const POLL: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(60);
const COMPANIES: u64 = 5_000;
// Filings of a company that are older than the one whose predecessor is looked for.
const FILINGS_BEFORE: u64 = 3;
struct Bench {
    env: Env,
    blobs: Arc<GeneratedBlobs>,
    collections: Arc<Collections>,
}

impl Bench {
    async fn publish(&self, number: u64) -> Result<DocId> {
        let tree = published_tree(number)?;
        let collection = Collection::default();
        let doc = tree.version.doc;
        let entry = CatalogEntry::from_tree(&tree);
        let key = blob_keys::tree_key(&collection, doc, 1);
        let json = serde_json::to_vec(&TreeObject::Published(Box::new(tree)))?;
        self.blobs.put(&key, json.into()).await?;
        let change = Change {
            at_ms: self.env.now_ms(),
            kind: ChangeKind::Published(Box::new(entry)),
        };
        let key = blob_keys::change_key(&collection, change.at_ms, number);
        self.blobs
            .put(&key, serde_json::to_vec(&change)?.into())
            .await?;
        Ok(doc)
    }

    // How long it takes until it is listed, and until a search covers it.
    async fn follow(&self, number: u64, doc: DocId) -> Result<(Duration, Duration)> {
        let began = Instant::now();
        let mut listed = None;
        while began.elapsed() < LIMIT {
            let archive = self.collections.get(&Collection::default());
            let archive =
                archive.filter(|archive| matches!(archive.catalog().get(doc), Ok(Some(_))));
            if let Some(archive) = archive {
                listed.get_or_insert_with(|| began.elapsed());
                // A search says how many listed documents its commit lacks. No two have the same text, so none is cached.
                let request = SearchRequest {
                    query: format!("annual report {number} {}", began.elapsed().as_micros()),
                    ..SearchRequest::default()
                };
                let found = archive.search(&request).await;
                if found.is_ok_and(|found| found.searched.documents_not_indexed == 0) {
                    let found = began.elapsed();
                    return Ok((listed.unwrap_or(found), found));
                }
            }
            tokio::time::sleep(POLL).await;
        }
        Err(format!("document {number} is not searched after {LIMIT:?}").into())
    }

    async fn wait_until_indexed(&self, cache: &Path) -> Result<()> {
        let request = SearchRequest {
            query: "annual report".into(),
            ..SearchRequest::default()
        };
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let archive = self.collections.get(&Collection::default());
            let archive = archive.ok_or("no archive")?;
            let found = archive.search(&request).await;
            if found.is_ok_and(|found| found.searched.documents_not_indexed == 0) {
                let documents = archive.catalog().len();
                let megabytes = folder_bytes(cache)? as f64 / 1e6;
                println!("{documents} documents, index of {megabytes:.1} MB");
                return Ok(());
            }
        }
    }

    fn time_lists(&self) -> Result<()> {
        let archive = self.collections.get(&Collection::default());
        time_lists(archive.as_deref().ok_or("no archive")?)
    }
}

fn time_lists(archive: &Archive) -> Result<()> {
    let timed = |name: &str, list: &dyn Fn() -> Result<usize>| -> Result<()> {
        let began = Instant::now();
        let count = list()?;
        println!("{name}: {:.1} ms ({count})", millis(began.elapsed()));
        Ok(())
    };
    let all = ListRequest::default();
    timed("first page of all documents", &|| {
        Ok(archive.list_documents(&all, 50, None)?.total)
    })?;
    let one = ListRequest {
        filter: Some("company = \"Company 7 Holdings Inc\"".into()),
        ..ListRequest::default()
    };
    timed("documents of one company", &|| {
        Ok(archive.list_documents(&one, 50, None)?.total)
    })?;
    timed("facet counts of form and year", &|| {
        let fields = [FacetField::Form, FacetField::FiscalYear];
        Ok(archive.count_facets(&all, &fields, 10)?.total)
    })?;
    timed("facet counts of company", &|| {
        Ok(archive
            .count_facets(&all, &[FacetField::Company], 10)?
            .total)
    })?;
    for words in ["annual", "10-k", "company-77-", "absent"] {
        let named = ListRequest {
            words: Some(words.into()),
            ..ListRequest::default()
        };
        timed(&format!("documents with `{words}`"), &|| {
            Ok(archive.list_documents(&named, 50, None)?.total)
        })?;
    }
    let catalog = archive.catalog();
    timed("the filing before one", &|| {
        let newest = catalog.get(doc_id(FILINGS_BEFORE * COMPANIES)?)?;
        let newest = newest.ok_or("no such document")?;
        let prior = stemma_diff::prior_filing(catalog, &newest);
        Ok(prior.iter().count())
    })?;
    timed("names of issuers", &|| {
        Ok(catalog.distinct_values(FacetField::Company)?.len())
    })?;
    timed("100 locators", &|| {
        let found = (0..100).filter(|number| {
            let name = format!("company-{number}-{number}-10-K");
            catalog.resolve(&name).is_ok()
        });
        Ok(found.count())
    })?;
    timed("a name that no document has", &|| {
        Ok(usize::from(catalog.resolve("compamy_7").is_ok()))
    })
}

fn folder_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut folders = vec![folder.to_path_buf()];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += metadata.len();
            }
        }
    }
    Ok(bytes)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn print_times(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| millis(times[(times.len() * share / 100).min(times.len() - 1)]);
    println!(
        "{name}: p50 {:.0} ms, p95 {:.0} ms, max {:.0} ms",
        at(50),
        at(95),
        at(100)
    );
}

// Anonymous memory: without the page cache.
fn print_memory(when: &str) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let lines = status.lines();
    let memory: Vec<String> = lines
        .filter(|line| line.starts_with("RssAnon") || line.starts_with("VmHWM"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    println!("memory {when}: {}", memory.join(", "));
    Ok(())
}

async fn run(folder: &Path, documents: u64, publications: u64, latency_ms: u64) -> Result<()> {
    let env = Env::system();
    print_memory("at the start")?;
    let blobs = Arc::new(GeneratedBlobs {
        stored: FolderBlobs::open(folder)?,
        generated: documents,
        latency_ms: AtomicU64::new(0),
        calls: AtomicU64::new(0),
    });
    let began = Instant::now();
    let stop = CancellationToken::new();
    let store: Arc<dyn Blobs> = Arc::clone(&blobs) as Arc<dyn Blobs>;
    let named = vec![Collection::default()];
    let cache = folder.with_extension("index");
    let collections = Collections::start(
        &env,
        &store,
        named,
        &[],
        &IndexSettings::for_folder(&cache),
        None,
        &stop,
    );
    let bench = Bench {
        env,
        blobs,
        collections,
    };
    while bench.collections.get(&Collection::default()).is_none() {
        tokio::time::sleep(POLL).await;
    }
    println!(
        "catalog of {documents} documents loaded after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    print_memory("with the catalog")?;
    bench.wait_until_indexed(&cache).await?;
    println!(
        "index complete after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    print_memory("with the index")?;
    bench.time_lists()?;
    bench.blobs.latency_ms.store(latency_ms, Ordering::Relaxed);
    let (mut listed, mut found) = (Vec::new(), Vec::new());
    let calls = bench.blobs.calls.load(Ordering::Relaxed);
    let began = Instant::now();
    for at in 0..publications {
        // Not in step with the polls.
        let pause = bench.env.random() % 1_500;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        // Numbers of an earlier run over the same folder are not taken again.
        let number = documents + bench.env.now_ms() * 1_000 + at;
        let doc = bench.publish(number).await?;
        let (until_listed, until_found) = bench.follow(number, doc).await?;
        listed.push(until_listed);
        found.push(until_found);
    }
    let calls = bench.blobs.calls.load(Ordering::Relaxed) - calls;
    let rate = calls as f64 / began.elapsed().as_secs_f64();
    println!("{publications} publications with {latency_ms} ms a call, {rate:.1} calls per second");
    print_times("published until listed", &mut listed);
    print_times("published until searched", &mut found);
    print_memory("at the end")?;
    stop.cancel();
    Ok(())
}

// The catalog alone: how long it takes to load and to reopen, its memory, and the time of lists.
async fn run_lists(folder: &Path, documents: u64) -> Result<()> {
    let blobs: Arc<dyn Blobs> = Arc::new(FolderBlobs::open(folder)?);
    let cache = folder.with_extension("catalog");
    print_memory("at the start")?;
    for what in ["loaded", "reopened"] {
        let began = Instant::now();
        let now_ms = Env::system().now_ms();
        let collection = Collection::default();
        let catalog = Catalog::load_from(&cache, blobs.as_ref(), &collection, now_ms).await?;
        let seconds = began.elapsed().as_secs_f64();
        println!("catalog of {documents} documents {what} after {seconds:.2} s");
        print_memory(&format!("with the catalog {what}"))?;
        time_lists(&Archive::new(Arc::clone(&blobs), collection, catalog))?;
    }
    print_memory("at the end")?;
    println!("catalog of {:.1} MB", folder_bytes(&cache)? as f64 / 1e6);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, documents, rest @ ..] = args.as_slice() else {
        return Err(
            "usage: freshness FOLDER DOCUMENTS (prepare | objects | lists | PUBLICATIONS [LATENCY_MS])"
                .into(),
        );
    };
    let folder = PathBuf::from(folder);
    let documents = documents.parse()?;
    match rest {
        [word] if word == "prepare" => prepare(&folder, documents).await,
        [word] if word == "objects" => write_objects(&folder, documents).await,
        [word] if word == "lists" => run_lists(&folder, documents).await,
        [publications, rest @ ..] => {
            let latency_ms = rest.first().map_or(Ok(25), |text| text.parse())?;
            run(&folder, documents, publications.parse()?, latency_ms).await
        }
        [] => Err("the number of publications is missing".into()),
    }
}
