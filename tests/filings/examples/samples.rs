//! Rebuilds the PDF samples of `docs/samples`: `cargo run -p stemma-filings --example samples --
//! docs/samples`.
//!
//! `constitution.pdf` is the text of `constitution.md`, typeset; `generated-10-k.pdf` is a generated filing.

use std::path::Path;
use std::process::ExitCode;

use stemma_filings::{
    Block, ContentsMode, CoverFacts, Family, FilingKind, Manuscript, ManuscriptHeading, Numbering,
    PageFooter, Spec, TextStyle, Typography, generate, typeset,
};

fn main() -> ExitCode {
    let folder = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "docs/samples".into());
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("samples in {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the PDF files into `folder`, which must contain `constitution.md`.
pub(crate) fn write(folder: &Path) -> std::io::Result<()> {
    let text = std::fs::read_to_string(folder.join("constitution.md"))?;
    let spec = Spec {
        contents: ContentsMode::Links,
        labels: true,
        ..Spec::new(FilingKind::Manual, 0)
    };
    std::fs::write(
        folder.join("constitution.pdf"),
        typeset(&constitution(&text), &spec).pdf,
    )?;
    let filing = generate(&Spec {
        pages: 40,
        ..Spec::new(FilingKind::TenK, 42)
    });
    std::fs::write(folder.join("generated-10-k.pdf"), filing.pdf)
}

// Articles and amendments are sections of level 1, with their own sections below.
fn constitution(text: &str) -> Manuscript {
    const TITLE: &str = "The Constitution of the United States";
    let mut body = vec![
        Block::RunningHead(TITLE.into()),
        Block::Numbering(Numbering::Arabic(1)),
    ];
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
    {
        body.push(if let Some(title) = line.strip_prefix("### ") {
            Block::Heading(ManuscriptHeading::new(title, 2, TextStyle::bold(11.0)))
        } else if let Some(title) = line.strip_prefix("## ") {
            let heading = ManuscriptHeading::new(title, 1, TextStyle::bold(14.0).centered());
            let pages = title == "Preamble" || title == "Amendment I";
            Block::Heading(if pages {
                heading.with_new_page()
            } else {
                heading
            })
        } else {
            Block::Prose(line.to_owned().into())
        });
    }
    Manuscript {
        title: TITLE.into(),
        facts: CoverFacts {
            language: Some("en".into()),
            ..CoverFacts::default()
        },
        cover: vec![
            Block::Gap(220.0),
            Block::Line("The Constitution".into(), TextStyle::bold(30.0).centered()),
            Block::Line(
                "of the United States".into(),
                TextStyle::bold(22.0).centered(),
            ),
            Block::Gap(30.0),
            Block::Line(
                "with the Amendments".into(),
                TextStyle::italic(13.0).centered(),
            ),
        ],
        body,
        typography: Typography {
            family: Family::Times,
            size: 11.0,
            leading: 1.3,
            page: (612.0, 792.0),
            margin: 90.0,
            columns: 1,
            back_link: false,
            running_head: true,
            foot: PageFooter::Centered,
            contents_title: Some("CONTENTS"),
            contents_levels: 2,
            bare_parts: false,
            roman_front: true,
        },
    }
}
