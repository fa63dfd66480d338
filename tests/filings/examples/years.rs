//! Writes generated filings one year apart, with the changes of their sections: `cargo run -p stemma-filings
//! --example year_pair -- OUT_DIR [COUNT] [FIRST_SEED]`.
//!
//! Per pair: `pdf/NAME_before.pdf`, `pdf/NAME_after.pdf`, and `labels/NAME.json` for `tests/bench/align.py`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use stemma_filings::{ContentsMode, FilingKind, HeadingTruth, Spec, YearPair, year_pair};

// Kinds whose section titles may change.
const KINDS: [FilingKind; 3] = [
    FilingKind::TenK,
    FilingKind::TenQ,
    FilingKind::EarningsRelease,
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(out) = words.next().map(PathBuf::from) else {
        eprintln!("where to?");
        return ExitCode::FAILURE;
    };
    let mut number = |or: u64| {
        words
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(or)
    };
    let count = number(24);
    let first = number(500);
    match (first..first + count).try_for_each(|seed| write(&out, seed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", out.display());
            ExitCode::FAILURE
        }
    }
}

fn write(out: &Path, seed: u64) -> std::io::Result<()> {
    let kind = KINDS[(seed % 3) as usize];
    let contents = if seed.is_multiple_of(2) {
        ContentsMode::Outline
    } else {
        ContentsMode::Links
    };
    let pages = [20, 40, 80][(seed / 3 % 3) as usize];
    let generated = year_pair(
        &Spec {
            pages,
            contents,
            ..Spec::new(kind, seed)
        },
        seed,
    );
    let name = format!("{}_{seed}", kind.name());
    std::fs::create_dir_all(out.join("pdf"))?;
    std::fs::create_dir_all(out.join("labels"))?;
    std::fs::write(
        out.join(format!("pdf/{name}_before.pdf")),
        &generated.before.pdf,
    )?;
    std::fs::write(
        out.join(format!("pdf/{name}_after.pdf")),
        &generated.after.pdf,
    )?;
    std::fs::write(
        out.join(format!("labels/{name}.json")),
        labels(&name, &generated).to_string(),
    )
}

fn labels(name: &str, years: &YearPair) -> Value {
    let label_of =
        |node: &HeadingTruth| json!([node.title.chars().take(80).collect::<String>(), node.page]);
    let pairs: Vec<Value> = years
        .sections
        .iter()
        .map(|section: &stemma_filings::YearChange| {
            let mut label = json!({});
            if let Some(at) = section.before {
                label["left"] = label_of(&years.before.truth.nodes[at]);
            }
            if let Some(at) = section.after {
                label["right"] = label_of(&years.after.truth.nodes[at]);
            }
            if section.before.is_some() && section.after.is_some() {
                label["text"] = json!(if section.same_text {
                    "unchanged"
                } else {
                    "modified"
                });
                (label["renamed"], label["moved"]) = (json!(section.renamed), json!(section.moved));
            }
            label
        })
        .collect();
    json!({ "left": format!("{name}_before"), "right": format!("{name}_after"), "pairs": pairs })
}
