//! Prints the outline of PDF and HTML files and writes it as PageIndex-compatible JSON.
//!
//! `cargo run --example outline -- [--json DIR] FILE.pdf FILE.htm …`; `FILE.source.json` (a serialized `Source`) is read as well.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use stemma_document::{EntryVerdict, Extent, SectionStart, Source, VerifiedEntry};
use stemma_extract::{Limits, pdf};
use stemma_outline::structure::{Draft, StructureSettings, outline};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut directory: Option<PathBuf> = None;
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => directory = arguments.next().map(PathBuf::from),
            file => files.push(file.into()),
        }
    }
    for file in files {
        let source = read(&file)?;
        let start = Instant::now();
        let draft = outline(&source, &StructureSettings::default())?;
        let elapsed = start.elapsed();
        let pages = match source.extent() {
            Extent::Pages(n) | Extent::Lines(n) => n,
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name
            .trim_end_matches(".pdf")
            .trim_end_matches(".source.json");
        println!(
            "== {name}: {pages} pages, {:?}, accuracy {:.2}, {} entries, {} gaps, {:.2} ms/page",
            draft.method,
            draft.outline.accuracy(),
            draft.outline.entries().len(),
            draft.gaps.len(),
            elapsed.as_secs_f64() * 1e3 / f64::from(pages.max(1))
        );
        match &directory {
            Some(directory) => {
                std::fs::create_dir_all(directory)?;
                let tree = json!({ "structure": tree(&draft, pages) });
                std::fs::write(
                    directory.join(format!("{name}.json")),
                    serde_json::to_string_pretty(&tree)?,
                )?;
            }
            None => print(&draft),
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Source> {
    let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    if file.extension().is_some_and(|extension| extension == "pdf") {
        return pdf::read(&bytes, None, &Limits::default(), 1)
            .with_context(|| format!("reading {}", file.display()));
    }
    if file.extension().is_some_and(|extension| extension == "htm") {
        return stemma_extract::html::read(&bytes, &Limits::default())
            .with_context(|| format!("reading {}", file.display()));
    }
    serde_json::from_slice(&bytes).with_context(|| format!("parsing {}", file.display()))
}

fn print(draft: &Draft) {
    for entry in draft.outline.entries() {
        let at = entry.located.place.reading_order();
        let entry_of = &entry.located.entry;
        let indent = "  ".repeat(usize::from(entry_of.level));
        println!(
            "{:>4}.{:<3}{indent}{}  [{:?} {:?}]",
            at.0, at.1, entry_of.title, entry_of.evidence, entry.verdict
        );
    }
    for gap in &draft.gaps {
        println!("   gap {} {:?} {}", gap.code, gap.pages, gap.detail);
    }
}

fn start(entry: &VerifiedEntry) -> (u32, bool) {
    let page = match entry.located.place {
        SectionStart::Page(position) => position.page.get(),
        SectionStart::Line(line) => line,
    };
    let starts = matches!(
        entry.verdict,
        EntryVerdict::Confirmed { starts_page: true }
            | EntryVerdict::Unconfirmed { starts_page: true }
    );
    (page, starts || entry.verdict == EntryVerdict::Declared)
}

// Nested nodes. A section ends before the next one of its level or higher, or on the same page if that one
// does not start it.
fn tree(draft: &Draft, pages: u32) -> Value {
    let entries = draft.outline.entries();
    let mut top: Vec<Value> = Vec::new();
    let mut open: Vec<(u16, Value)> = Vec::new();
    let close = |open: &mut Vec<(u16, Value)>, top: &mut Vec<Value>, level: u16| {
        while open.last().is_some_and(|(last, _)| *last >= level) {
            let Some((_, node)) = open.pop() else { break };
            match open
                .last_mut()
                .and_then(|(_, parent)| parent["nodes"].as_array_mut())
            {
                Some(siblings) => siblings.push(node),
                None => top.push(node),
            }
        }
    };
    for (at, entry) in entries.iter().enumerate() {
        let level = entry.located.entry.level;
        close(&mut open, &mut top, level);
        let (page, _) = start(entry);
        let next = entries[at + 1..]
            .iter()
            .find(|next| next.located.entry.level <= level)
            .map(start);
        let end = next
            .map_or(pages, |(next, starts)| if starts { next - 1 } else { next })
            .max(page);
        let title = &entry.located.entry.title;
        open.push((
            level,
            json!({"title": title, "node_id": format!("{at:04}"), "start_index": page, "end_index": end, "nodes": []}),
        ));
    }
    close(&mut open, &mut top, 0);
    Value::Array(top)
}
