//! Search over a large archive: `find scale STORE [DOCUMENTS] | soak STORE [SECONDS] [CLIENTS]`.
//!
//! `scale` writes the archive unless it exists, builds the index, and prints its speed and size, the latency of sequential
//! and concurrent searches, memory, the time until a new tree is found, and how
//! soon a killed server answers again. `soak` searches from many clients while trees are published. Both fail if a target is
//! missed.

mod archive;
mod load;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use stemma_cluster::{ServiceFleet, ServiceRole, binary};
use stemma_store::blobs::FolderBlobs;

use archive::{SECTIONS, SyntheticArchive};
use load::{LatencySamples, SearchClient, memory_mb};

const USAGE: &str = "usage: find scale STORE [DOCUMENTS] | soak STORE [SECONDS] [CLIENTS]";
/// Passed on to the processes of the fleet.
const SHARDS: &str = "STEMMA_LOCAL__INDEX_SHARDS";
/// Sequential searches, and seconds of concurrent searches.
const SEQUENTIAL_QUERIES: usize = 1_000;
const CONCURRENT_PERIOD: Duration = Duration::from_secs(20);
/// Concurrent clients.
const CLIENTS: usize = 4;
/// Trees published one after the other, and restarts.
const PUBLISHED_TREES: usize = 10;
const KILLS: usize = 3;
/// Time limit of an index build.
const BUILD: Duration = Duration::from_secs(3_600);
/// Targets: milliseconds, searches per second, megabytes, seconds, share of rejected searches.
const MAX_P50_MS: f64 = 5.0;
const MAX_P95_MS: f64 = 15.0;
const MIN_QUERY_RATE: f64 = 200.0;
const MAX_ANON_MB: f64 = 600.0;
const MAX_VISIBLE_MS: f64 = 2_000.0;
const MAX_READY_MS: f64 = 5_000.0;
const MAX_SHED_SHARE: f64 = 0.01;

fn main() -> ExitCode {
    match tokio::runtime::Runtime::new()
        .context("starting")
        .and_then(|runtime| runtime.block_on(run()))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("find: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| words.get(at).map_or(Ok(usual), |word| word.parse());
    let Some(store) = words.get(1).map(PathBuf::from) else {
        bail!(USAGE)
    };
    let mut bench = SearchBench::new(&store)?;
    match words[0].as_str() {
        "scale" => bench.scale(number(2, 10_000)?).await,
        "soak" => bench.soak(number(2, 300)?, number(3, 500)?).await,
        _ => bail!(USAGE),
    }
}

struct SearchBench {
    store: PathBuf,
    blobs: FolderBlobs,
    archive: SyntheticArchive,
    fleet: ServiceFleet,
    all_met: bool,
}

impl SearchBench {
    fn new(store: &Path) -> Result<Self> {
        std::fs::create_dir_all(store)?;
        let store = store.canonicalize()?;
        let blobs = FolderBlobs::open(&store)?;
        let shards = std::env::var(SHARDS).map(|shards| (SHARDS.to_owned(), shards));
        let settings = shards.into_iter().collect();
        let fleet = ServiceFleet::new(binary()?, &store.to_string_lossy(), settings)?;
        Ok(Self {
            store,
            blobs,
            archive: SyntheticArchive::new(),
            fleet,
            all_met: true,
        })
    }

    /// Prints a figure, and whether it meets its target.
    fn mark(&mut self, what: &str, figure: f64, unit: &str, right: bool, mark: &str) {
        println!(
            "{} {what}: {figure:.1} {unit} ({mark})",
            if right { "ok " } else { "NO " }
        );
        self.all_met &= right;
    }

    async fn scale(&mut self, documents: usize) -> Result<bool> {
        self.write(documents).await?;
        self.build(documents).await?;
        let server = self.fleet.spawn(ServiceRole::Query, &[])?;
        let server = self.wait_until_answering(server).await?.0;
        self.measure_sequential(&server, documents, "short", SyntheticArchive::question)
            .await?;
        let natural = SyntheticArchive::natural_question;
        self.measure_sequential(&server, documents, "natural", natural)
            .await?;
        self.measure_concurrent(&server, documents).await?;
        let (anon, file) = memory_mb(self.fleet.pid(&server)?)?;
        self.mark(
            "anonymous memory",
            anon,
            "MB",
            anon <= MAX_ANON_MB,
            "at most 600",
        );
        println!("    mapped files: {file:.0} MB");
        self.measure_visibility(&server, documents).await?;
        self.measure_restart(server).await?;
        Ok(self.all_met)
    }

    async fn write(&self, documents: usize) -> Result<()> {
        let there = self.store.join("bench-documents");
        let written: usize = std::fs::read_to_string(&there)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0);
        let began = Instant::now();
        self.archive
            .write(&self.blobs, written, documents.max(written))
            .await?;
        std::fs::write(&there, documents.max(written).to_string())?;
        let new = documents.saturating_sub(written);
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "    {documents} documents, {} sections; {new} written in {seconds:.0} s",
            documents * SECTIONS
        );
        Ok(())
    }

    async fn build(&self, documents: usize) -> Result<()> {
        let began = Instant::now();
        let mut child = self.fleet.launch("build", &["index", "build", "--json"])?;
        let pid = child.id().context("a process id")?;
        let mut most = 0.0_f64;
        let waited = child.wait();
        tokio::pin!(waited);
        let status = loop {
            tokio::select! {
                status = &mut waited => break status?,
                () = tokio::time::sleep(Duration::from_millis(500)) => {
                    most = memory_mb(pid).map_or(most, |(anon, _)| most.max(anon));
                    ensure!(began.elapsed() < BUILD, "the build timed out");
                }
            }
        };
        ensure!(status.success(), "the build failed");
        let seconds = began.elapsed().as_secs_f64();
        let bytes = size_of(&self.store.join("index"));
        println!(
            "    index built in {seconds:.0} s: {:.0} sections/s, {:.0} MB ({:.0} bytes per section), peak {most:.0} MB anonymous",
            (documents * SECTIONS) as f64 / seconds,
            bytes as f64 / 1e6,
            bytes as f64 / (documents * SECTIONS) as f64
        );
        Ok(())
    }

    /// Waits until a server answers a search; returns the server and the time in seconds.
    async fn wait_until_answering(&mut self, server: String) -> Result<(String, f64)> {
        let began = Instant::now();
        let mut client = SearchClient::new(self.fleet.address(&server)?);
        while !matches!(client.search("net sales", 1).await, Ok(reply) if reply.status == 200) {
            ensure!(
                began.elapsed() < Duration::from_secs(120),
                "no response:\n{}",
                self.fleet.log(&server)?
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok((server, began.elapsed().as_secs_f64() * 1_000.0))
    }

    async fn measure_sequential(
        &mut self,
        server: &str,
        documents: usize,
        kind: &str,
        question: fn(&SyntheticArchive, usize, usize) -> String,
    ) -> Result<()> {
        let mut client = SearchClient::new(self.fleet.address(server)?);
        let mut times = LatencySamples::default();
        let mut hit_count = 0;
        for number in 0..SEQUENTIAL_QUERIES + 100 {
            let question = question(&self.archive, number, documents);
            let began = Instant::now();
            let reply = client.search(&question, 10).await?;
            ensure!(
                reply.status == 200,
                "{question}: {}",
                String::from_utf8_lossy(&reply.body)
            );
            hit_count += usize::from(hits(&reply.body) > 0);
            // The first hundred searches read files into memory.
            if number >= 100 {
                times.add(began);
            }
        }
        println!(
            "    {SEQUENTIAL_QUERIES} distinct {kind} questions, one by one; {hit_count} of {} with hits",
            SEQUENTIAL_QUERIES + 100
        );
        let p50 = times.quantile(0.5);
        let p95 = times.quantile(0.95);
        let p99 = times.quantile(0.99);
        let what = format!("{kind} questions, p50");
        self.mark(&what, p50, "ms", p50 <= MAX_P50_MS, "at most 5");
        let what = format!("{kind} questions, p95");
        self.mark(&what, p95, "ms", p95 <= MAX_P95_MS, "at most 15");
        println!("    p99: {p99:.1} ms");
        Ok(())
    }

    async fn measure_concurrent(&mut self, server: &str, documents: usize) -> Result<()> {
        let address = self.fleet.address(server)?;
        let archive = &self.archive;
        let until = Instant::now() + CONCURRENT_PERIOD;
        let client = |index: usize| async move {
            let mut client = SearchClient::new(address);
            let mut times = LatencySamples::default();
            let mut number = 1_000_000 * (index + 1);
            while Instant::now() < until {
                let began = Instant::now();
                let reply = client
                    .search(&archive.question(number, documents), 10)
                    .await?;
                ensure!(reply.status == 200, "status {}", reply.status);
                times.add(began);
                number += 1;
            }
            anyhow::Ok(times)
        };
        let mut all = LatencySamples::default();
        for times in futures::future::try_join_all((0..CLIENTS).map(client)).await? {
            all.extend(times);
        }
        let rate = all.len() as f64 / CONCURRENT_PERIOD.as_secs_f64();
        self.mark(
            "concurrent searches",
            rate,
            "/s",
            rate >= MIN_QUERY_RATE,
            "at least 200, with the clients on the same cores",
        );
        println!(
            "    p50 {:.1} ms, p95 {:.1} ms with {CLIENTS} clients",
            all.quantile(0.5),
            all.quantile(0.95)
        );
        Ok(())
    }

    /// Publishes trees one by one, each with a unique word, and waits until search finds it.
    async fn measure_visibility(&mut self, server: &str, documents: usize) -> Result<()> {
        let mut client = SearchClient::new(self.fleet.address(server)?);
        let mut times = LatencySamples::default();
        for at in 0..PUBLISHED_TREES {
            let now_ms = now_ms()?;
            let word = format!("zyx{now_ms}");
            self.archive
                .publish(
                    &self.blobs,
                    documents + 1_000_000 + (now_ms as usize % 1_000_000_000),
                    now_ms,
                    &word,
                )
                .await?;
            let began = Instant::now();
            while hits(&client.search(&word, 1).await?.body) == 0 {
                ensure!(
                    began.elapsed() < Duration::from_secs(60),
                    "tree {at} is not found"
                );
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            times.add(began);
        }
        let p50 = times.quantile(0.5);
        let most = times.quantile(1.0);
        println!(
            "    {PUBLISHED_TREES} trees published one by one: found after {p50:.0} ms (median)"
        );
        self.mark(
            "a new tree is found after",
            most,
            "ms",
            most <= MAX_VISIBLE_MS,
            "at most 2,000",
        );
        Ok(())
    }

    async fn measure_restart(&mut self, mut server: String) -> Result<()> {
        let mut most = 0.0_f64;
        for _ in 0..KILLS {
            self.fleet.kill(&server)?;
            let (next, ready) = {
                let next = self.fleet.spawn(ServiceRole::Query, &[])?;
                self.wait_until_answering(next).await?
            };
            (server, most) = (next, most.max(ready));
        }
        self.mark(
            "recovery after kill -9",
            most,
            "ms",
            most <= MAX_READY_MS,
            "at most 5,000",
        );
        Ok(())
    }

    /// Runs many clients while trees are published.
    async fn soak(&mut self, seconds: usize, clients: usize) -> Result<bool> {
        let there = std::fs::read_to_string(self.store.join("bench-documents"))
            .context("run `find scale` first")?;
        let documents: usize = there.trim().parse()?;
        let server = self.fleet.spawn(ServiceRole::Query, &[])?;
        let server = self.wait_until_answering(server).await?.0;
        let address = self.fleet.address(&server)?;
        let archive = &self.archive;
        let blobs = &self.blobs;
        let until = Instant::now() + Duration::from_secs(seconds as u64);
        let asking = (0..clients).map(|index| async move {
            soak_client(archive, address, index, documents, until).await
        });
        let publishing = async {
            let mut published = 0_usize;
            // A thousand trees in five minutes.
            while Instant::now() < until {
                let now_ms = now_ms()?;
                archive
                    .publish(
                        blobs,
                        documents + 3_000_000 + (now_ms as usize % 1_000_000_000),
                        now_ms,
                        "",
                    )
                    .await?;
                published += 1;
                tokio::time::sleep(Duration::from_millis(290)).await;
            }
            anyhow::Ok(published)
        };
        let (results, published) = tokio::join!(futures::future::join_all(asking), publishing);
        let mut sum = SoakResult::default();
        results.into_iter().for_each(|one| sum.add(one));
        println!(
            "    {clients} clients, {seconds} s, {} trees published, {} answers",
            published?,
            sum.times.len()
        );
        println!(
            "    p50 {:.0} ms, p95 {:.0} ms, p99 {:.0} ms",
            sum.times.quantile(0.5),
            sum.times.quantile(0.95),
            sum.times.quantile(0.99)
        );
        let all = (sum.times.len() + sum.shed).max(1) as f64;
        self.mark(
            "shed",
            100.0 * sum.shed as f64 / all,
            "%",
            sum.shed as f64 / all < MAX_SHED_SHARE,
            "less than 1",
        );
        self.mark(
            "rejected without Retry-After",
            sum.shed_without_retry_after as f64,
            "",
            sum.shed_without_retry_after == 0,
            "none",
        );
        self.mark(
            "server errors",
            sum.errors as f64,
            "",
            sum.errors == 0,
            "none",
        );
        self.mark(
            "invalid bodies",
            sum.wrong as f64,
            "",
            sum.wrong == 0,
            "none",
        );
        self.mark(
            "timeouts and broken connections",
            sum.lost as f64,
            "",
            sum.lost == 0,
            "none",
        );
        if let Some(first) = &sum.first {
            println!("    first: {first}");
        }
        let (anon, _) = memory_mb(self.fleet.pid(&server)?)?;
        println!("    anonymous memory: {anon:.0} MB");
        Ok(self.all_met)
    }
}

/// Results of the clients of a soak test.
#[derive(Default)]
struct SoakResult {
    times: LatencySamples,
    shed: usize,
    shed_without_retry_after: usize,
    errors: usize,
    wrong: usize,
    lost: usize,
    first: Option<String>,
}

impl SoakResult {
    fn add(&mut self, other: SoakResult) {
        self.times.extend(other.times);
        self.shed += other.shed;
        self.shed_without_retry_after += other.shed_without_retry_after;
        self.errors += other.errors;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.first = self.first.take().or(other.first);
    }

    fn record_error(&mut self, what: String) {
        self.first.get_or_insert(what);
    }
}

async fn soak_client(
    archive: &SyntheticArchive,
    address: std::net::SocketAddr,
    index: usize,
    documents: usize,
    until: Instant,
) -> SoakResult {
    let mut result = SoakResult::default();
    let mut client = SearchClient::new(address);
    let mut number = index * 1_000_000;
    while Instant::now() < until {
        number += 1;
        let began = Instant::now();
        // Clients also read, and repeat searches of others.
        let response = match number % 3 {
            0 => client.get("/v1/documents?limit=5").await,
            1 => {
                client
                    .search(&archive.question(number % 200, documents), 5)
                    .await
            }
            _ => client.search(&archive.question(number, documents), 5).await,
        };
        match response {
            Ok(reply) if reply.status == 200 => {
                if serde_json::from_slice::<serde_json::Value>(&reply.body).is_err() {
                    result.wrong += 1;
                    result.record_error("a body that is not JSON".into());
                }
                result.times.add(began);
            }
            Ok(reply) if matches!(reply.status, 429 | 503) => {
                result.shed += 1;
                result.shed_without_retry_after += usize::from(!reply.retry_after);
                result.record_error(format!(
                    "{}: {}",
                    reply.status,
                    String::from_utf8_lossy(&reply.body)
                ));
            }
            Ok(reply) => {
                result.errors += 1;
                result.record_error(format!(
                    "{}: {}",
                    reply.status,
                    String::from_utf8_lossy(&reply.body)
                ));
            }
            Err(error) => {
                result.lost += 1;
                result.record_error(format!("{error:#}"));
            }
        }
        tokio::time::sleep(Duration::from_millis(2_000 + (number as u64 * 37) % 1_000)).await;
    }
    result
}

/// Number of hits in a response of `POST /v1/search`.
fn hits(body: &[u8]) -> usize {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    answer["hits"].as_array().map_or(0, Vec::len)
}

fn now_ms() -> Result<u64> {
    Ok(u64::try_from(
        SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis(),
    )?)
}

/// Total file size of a folder.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
