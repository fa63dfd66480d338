//! Prints facts and Item maps of filings, one JSON object per file.
//!
//! `cargo run --example filing -- FILE.pdf …`

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;
use stemma_document::SectionTree;
use stemma_extract::{Limits, pdf};
use stemma_outline::enrich::{SectionSettings, finish};
use stemma_outline::items::attach;
use stemma_outline::structure::{StructureSettings, outline};

fn main() -> Result<()> {
    for file in std::env::args().skip(1) {
        let bytes = std::fs::read(&file).with_context(|| format!("reading {file}"))?;
        let source = pdf::read(&bytes, None, &Limits::default(), 1)
            .with_context(|| format!("reading {file}"))?;
        let draft = outline(&source, &StructureSettings::default())?;
        let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
        let mut tree = finish(tree, &source, &SectionSettings::default(), &draft.labels);
        attach(&mut tree, &source, &draft.cross_index);
        let name = Path::new(&file)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        println!(
            "{}",
            json!({ "doc": name, "facts": tree.facts, "items": tree.items })
        );
    }
    Ok(())
}
