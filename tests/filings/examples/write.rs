//! Writes generated filings with their truth:
//! `cargo run -p stemma-filings --example write -- OUT_DIR [--count N] [--pages P] [--seed S] [--kind NAME|all]
//! [--contents MODE|mixed] [--encryption none|rc4|aes|mixed] [--password WORD] [--scanned PAGE] [--labels] [--pdf-only] [--texts N]`.
//!
//! Per document: `NAME.pdf`, `NAME.json` (structure, for the scoring tool), `NAME.txt` (pages, separated by form feeds)
//! and `NAME.facts.json` (cover facts, questions, references). `--pdf-only` writes the first two. `--texts N` adds N
//! Markdown documents and N plain texts of each sort, with their truth.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use stemma_filings::{
    ContentsMode, Encryption, Filing, FilingKind, GeneratedTextTruth, Spec, TextKind, generate,
    markdown, plain_text,
};

struct WriteOptions {
    out: PathBuf,
    count: u64,
    pages: u32,
    seed: u64,
    kinds: Vec<FilingKind>,
    contents: Vec<ContentsMode>,
    encryption: String,
    password: Option<String>,
    scanned: Option<u32>,
    labels: bool,
    pdf_only: bool,
    texts: u64,
}

fn main() -> ExitCode {
    let written = parse_options(std::env::args().skip(1).collect())
        .and_then(|order| write(&order).map_err(|e| e.to_string()));
    match written {
        Ok((documents, bytes)) => {
            println!("{documents} documents, {bytes} bytes of PDF");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn parse_options(words: Vec<String>) -> Result<WriteOptions, String> {
    let mut order = WriteOptions {
        out: PathBuf::new(),
        count: 1,
        pages: 20,
        seed: 0,
        kinds: FilingKind::ALL.into(),
        contents: ContentsMode::ALL.into(),
        encryption: "none".into(),
        password: None,
        scanned: None,
        labels: false,
        pdf_only: false,
        texts: 0,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if !word.starts_with("--") {
            order.out = word.into();
            continue;
        }
        match word.as_str() {
            "--labels" => order.labels = true,
            "--pdf-only" => order.pdf_only = true,
            _ => parse_option(
                &mut order,
                &word,
                &words.next().ok_or(format!("{word} needs a value"))?,
            )?,
        }
    }
    if order.out.as_os_str().is_empty() {
        Err("missing output folder".into())
    } else {
        Ok(order)
    }
}

fn parse_option(order: &mut WriteOptions, word: &str, value: &str) -> Result<(), String> {
    let wrong = || format!("{word} cannot be {value}");
    match word {
        "--count" => order.count = value.parse().map_err(|_| wrong())?,
        "--pages" => order.pages = value.parse().map_err(|_| wrong())?,
        "--password" => order.password = Some(value.to_owned()),
        "--scanned" => order.scanned = Some(value.parse().map_err(|_| wrong())?),
        "--texts" => order.texts = value.parse().map_err(|_| wrong())?,
        "--seed" => order.seed = value.parse().map_err(|_| wrong())?,
        "--kind" if value != "all" => {
            order.kinds = vec![FilingKind::from_name(value).ok_or_else(wrong)?];
        }
        "--contents" if value != "mixed" => {
            order.contents = vec![ContentsMode::from_name(value).ok_or_else(wrong)?];
        }
        "--encryption" => order.encryption = value.to_owned(),
        "--kind" | "--contents" => {}
        _ => return Err(format!("unknown option {word}")),
    }
    Ok(())
}

// Writes `count` documents, cycling through kinds and contents modes.
fn write(order: &WriteOptions) -> std::io::Result<(u64, usize)> {
    std::fs::create_dir_all(&order.out)?;
    let mut bytes = 0;
    for n in 0..order.count {
        let seed = order.seed + n;
        let kind = order.kinds[n as usize % order.kinds.len()];
        let contents = order.contents[n as usize / order.kinds.len() % order.contents.len()];
        let encryption = match (order.encryption.as_str(), n % 4) {
            ("rc4", _) | ("mixed", 1) => Some(Encryption::EmptyUserRc4),
            ("aes", _) | ("mixed", 3) => Some(Encryption::EmptyUserAes256),
            _ => order.password.clone().map(Encryption::Password),
        };
        let pages = order.pages;
        let labels = order.labels;
        let scanned_page = order.scanned;
        let spec = Spec {
            pages,
            contents,
            encryption,
            labels,
            scanned_page,
            ..Spec::new(kind, seed)
        };
        let filing = generate(&spec);
        bytes += filing.pdf.len();
        save(
            order,
            &format!("{}-{seed:05}-{}", kind.name(), contents.name()),
            &filing,
        )?;
    }
    for seed in order.seed..order.seed + order.texts {
        save_text(
            order,
            &format!("markdown-{seed:05}.md"),
            markdown(seed, order.pages * 2),
        )?;
        for (kind, name) in TextKind::ALL {
            save_text(
                order,
                &format!("{name}-{seed:05}.txt"),
                plain_text(seed, kind, order.pages * 2),
            )?;
        }
    }
    Ok((order.count, bytes))
}

fn save_text(
    order: &WriteOptions,
    name: &str,
    (text, truth): (String, GeneratedTextTruth),
) -> std::io::Result<()> {
    let path = order.out.join(name);
    std::fs::write(&path, text)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    std::fs::write(
        path.with_extension("json"),
        format!("{:#}\n", truth.to_json(&stem)),
    )
}

fn save(order: &WriteOptions, name: &str, filing: &Filing) -> std::io::Result<()> {
    let path = |suffix: &str| order.out.join(format!("{name}.{suffix}"));
    std::fs::write(path("pdf"), &filing.pdf)?;
    std::fs::write(path("json"), format!("{:#}\n", filing.truth.to_json(name)))?;
    if order.pdf_only {
        return Ok(());
    }
    std::fs::write(path("txt"), filing.page_texts.join("\u{c}"))?;
    let answers: Vec<Value> = filing
        .answers
        .iter()
        .map(
            |a| json!({"question": a.question, "answer": a.answer, "page": a.page, "node": a.node}),
        )
        .collect();
    let references: Vec<Value> = filing
        .truth
        .references
        .iter()
        .map(|r| json!({"text": r.text, "page": r.page, "target": r.target}))
        .collect();
    let facts = json!({
        "facts": filing.facts.to_json(), "answers": answers, "references": references, "printed": filing.truth.printed,
    });
    std::fs::write(path("facts.json"), format!("{facts:#}\n"))
}
