//! The simulated provider as a program: `sim serve` answers until it is stopped, `sim pages` extracts
//! documents for it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use stemma_llm::tokens;
use stemma_sim::{Behavior, Gold, Library, Oracle, Provider, Setup, pages};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: sim serve [--port N] [--truth FOLDER]... [--texts FOLDER]... [--questions FILE]... [--record FILE] [--report FILE]
                 [--SETTING VALUE]...
       sim pages --out FOLDER PDF-OR-FOLDER...
       sim tokens FILE...

`serve` prints its address as a line of JSON, and a report when it ends (SIGTERM, SIGINT); the report is at /report, too.
`tokens` prints the o200k tokens of all \"text\" in files of JSON lines.
A truth folder holds {\"doc\",\"pages\",\"nodes\":[{\"title\",\"level\",\"page\"}]}, a folder of texts what `pages` writes.
Questions are lines of {\"question\",\"doc_name\",\"gold_pages\":[N]}: where each is answered.
Settings: --seed N --latency.median_ms N --latency.sigma F --lies F --noise F --gullible true --reads truth|reader
  --limits.requests_per_minute N --limits.tokens_per_minute N --limits.meter window|bucket --limits.headers all|pause|nothing
  --faults.rate F --faults.always F --faults.kinds '[\"error\",\"hang\",\"reset\",\"empty\",\"truncated\",\"malformed\",\"schema\"]'
  --outage.after_s F --outage.lasts_s F --outage.status N
  --batches.takes_ms N --batches.expires F --batches.rejects true --batches.loses_replies true";

fn main() -> ExitCode {
    match tokio::runtime::Runtime::new()
        .context("starting")
        .and_then(|runtime| runtime.block_on(run()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let flags = flags(words)?;
    match command.as_str() {
        "serve" => serve(&flags).await,
        "pages" => read_pages(&flags),
        "tokens" => count_tokens(&flags),
        _ => Err(anyhow!(USAGE)),
    }
}

// Flags with their values; words without a flag are under an empty name.
fn flags(mut words: impl Iterator<Item = String>) -> Result<Vec<(String, String)>> {
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--") else {
            flags.push((String::new(), word));
            continue;
        };
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        flags.push((name.to_string(), value));
    }
    Ok(flags)
}

fn paths(flags: &[(String, String)], flag: &str) -> Vec<PathBuf> {
    flags
        .iter()
        .filter(|(name, _)| name == flag)
        .map(|(_, value)| value.into())
        .collect()
}

async fn serve(flags: &[(String, String)]) -> Result<()> {
    const OWN: [&str; 6] = ["port", "truth", "texts", "questions", "record", "report"];
    let mut settings = json!({});
    for (name, value) in flags
        .iter()
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
    {
        let place = name
            .split('.')
            .fold(&mut settings, |place, part| &mut place[part]);
        *place = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
    }
    let behavior: Behavior = serde_json::from_value(settings).context(USAGE)?;
    let port = flags
        .iter()
        .find(|(name, _)| name == "port")
        .map_or(Ok(0), |(_, value)| value.parse())
        .context(USAGE)?;
    let record = paths(flags, "record")
        .first()
        .map(File::create)
        .transpose()
        .context("--record")?;
    let library = Library::load(&paths(flags, "truth"), &paths(flags, "texts"))?;
    for (doc, sections) in library.outline() {
        eprintln!("{doc}: {sections} sections");
    }
    let mut ends = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    ];
    let oracle = Oracle::new(library).with_golds(golds(&paths(flags, "questions"))?);
    let provider = Provider::start_with(Setup {
        behavior,
        oracle,
        port,
        record,
    })
    .await?;
    println!(
        "{}",
        json!({ "address": provider.address().to_string(), "base_url": provider.base_url("sim") })
    );
    let [terminated, interrupted] = &mut ends;
    tokio::select! { _ = terminated.recv() => {}, _ = interrupted.recv() => {} }
    let report = serde_json::to_string_pretty(&provider.report())?;
    match paths(flags, "report").first() {
        Some(path) => {
            fs::write(path, report).with_context(|| format!("cannot write {}", path.display()))
        }
        None => {
            println!("{report}");
            Ok(())
        }
    }
}

// Questions with known answers. Skips those without answer pages.
fn golds(files: &[PathBuf]) -> Result<Vec<Gold>> {
    let mut golds = Vec::new();
    for path in files {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line: Value = serde_json::from_str(line)
                .with_context(|| format!("{} is not valid JSON", path.display()))?;
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let numbers = line["gold_pages"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_u64);
            let pages: Vec<u32> = numbers
                .filter_map(|page| u32::try_from(page).ok())
                .collect();
            golds.push(Gold {
                question: text("question"),
                doc: text("doc_name"),
                pages,
            });
        }
    }
    golds.retain(|gold| !gold.pages.is_empty());
    Ok(golds)
}

fn read_pages(flags: &[(String, String)]) -> Result<()> {
    let out = paths(flags, "out");
    let Some(out) = out.first() else { bail!(USAGE) };
    for path in paths(flags, "") {
        pages::write(&pages::read(&path)?, out)?;
    }
    Ok(())
}

fn count_tokens(flags: &[(String, String)]) -> Result<()> {
    let mut sum = 0_u64;
    for path in paths(flags, "") {
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in text.lines() {
            let line: Value = serde_json::from_str(line)
                .with_context(|| format!("{} is not valid JSON", path.display()))?;
            sum += u64::from(tokens::count(line["text"].as_str().unwrap_or_default()));
        }
    }
    println!("{sum}");
    Ok(())
}
