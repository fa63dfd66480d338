//! Seeds: small generated documents of every kind.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;
use stemma_document::{SectionTree, TreeObject, pageindex};
use stemma_extract::{EncodedSource, ExtractJob, Limits, extract};
use stemma_filings::{
    ContentsMode, Encryption, Filing, FilingKind, Spec, TextKind, generate, markdown, plain_text,
};
use stemma_outline::{enrich, structure};

use crate::{inputs, targets};

/// Writes seeds into a folder.
pub fn write(folder: &Path, inputs: &[Vec<u8>]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (at, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("seed-{at:03}")), input)?;
    }
    Ok(())
}

fn filings() -> Vec<Filing> {
    let modes = [
        ContentsMode::Outline,
        ContentsMode::Links,
        ContentsMode::PrintedOnly,
        ContentsMode::Nothing,
    ];
    let specs = FilingKind::ALL.into_iter().enumerate().map(|(n, kind)| {
        let contents = modes[n % modes.len()];
        Spec {
            pages: 6,
            contents,
            labels: n % 2 == 0,
            ..Spec::new(kind, n as u64)
        }
    });
    specs.map(|spec| generate(&spec)).collect()
}

/// Generated filings, plain and encrypted, and the uncompressed files of the other targets.
pub fn pdfs() -> Vec<Vec<u8>> {
    let encrypted = [Encryption::EmptyUserRc4, Encryption::EmptyUserAes256].map(|encryption| {
        generate(&Spec {
            pages: 4,
            encryption: Some(encryption),
            ..Spec::new(FilingKind::EarningsRelease, 3)
        })
        .pdf
    });
    let operators = operators()
        .into_iter()
        .map(|seed| inputs::pdf_from_operators(&seed));
    let graphs = graphs()
        .into_iter()
        .map(|seed| inputs::pdf_from_outline(&seed));
    filings()
        .into_iter()
        .map(|filing| filing.pdf)
        .chain(encrypted)
        .chain(operators)
        .chain(graphs)
        .collect()
}

/// Text operators of every kind.
pub fn operators() -> Vec<Vec<u8>> {
    let pages: [&[u8]; 8] = [
        b"BT /F1 12 Tf 72 700 Td (Item 1. Business) Tj 0 -20 Td (words and words) Tj ET",
        b"BT /F1 9 Tf 1 0 0 1 72 600 Tm [(Kern) -250 (ed) 20 (text)] TJ T* (next) ' 1 2 (last) \" ET",
        b"q 2 0 0 2 0 0 cm BT /F1 6 Tf 14 TL 3 Tr 2 Ts 90 Tz 1 Tc 2 Tw 30 300 TD (wide) Tj ET Q",
        b"BT /F1 10 Tf 0 1 -1 0 300 300 Tm (turned) Tj ET BT /F1 10 Tf 72 100 Td <48656C6C6F> Tj ET",
        b"/Span<</ActualText(real)>>BDC BT /F1 10 Tf 72 400 Td (fake) Tj ET EMC /Artifact BMC BT (x) Tj ET EMC",
        b"BT /F1 10 Tf 72 400 Td (a) Tj ET BI /W 2 /H 2 /BPC 8 /CS /G ID abcd EI BT (b) Tj ET",
        b"BT /F1 10 Tf 72 700 Td (left) Tj 250 0 Td (right) Tj -250 -12 Td (left) Tj 250 0 Td (right) Tj ET",
        b"q q Q Q Q BT ET BT /F9 1e9 Tf 1e30 -1e30 Td (far) Tj 0 0 0 0 0 0 Tm (flat) Tj ET",
    ];
    let mut seeds: Vec<Vec<u8>> = pages.iter().map(|page| page.to_vec()).collect();
    seeds.push(pages.join(&b'\x0c'));
    seeds
}

/// Outlines: flat, nested, with a cycle, with every kind of destination.
pub fn graphs() -> Vec<Vec<u8>> {
    let entry = |child: u8, next: u8, to: u8, how: u8, title: &str| {
        let mut bytes = vec![child, next, 0, to, how, title.len() as u8];
        bytes.extend(title.bytes());
        bytes
    };
    let flat = (0..6)
        .map(|n| entry(0, 1, 128 + n, n, "Heading"))
        .collect::<Vec<_>>()
        .concat();
    let nested = (0..6)
        .map(|n| entry(1, 0, 130 + n, 2, "Deeper"))
        .collect::<Vec<_>>()
        .concat();
    let cyclic = (0..3)
        .map(|n| entry(n, 3 - n, 200, 0, "Round"))
        .collect::<Vec<_>>()
        .concat();
    let aims = (0..8)
        .map(|n| entry(0, 1, n * 32 + 1, 1, "\0A\0i\0m"))
        .collect::<Vec<_>>()
        .concat();
    vec![flat, nested, cyclic, aims]
}

/// Texts of pages, among them tables of contents.
pub fn page_texts() -> Vec<Vec<u8>> {
    let contents = "^*TABLE OF CONTENTS\n\t*Page\n@\u{1}PART I\t1\n@\u{1}Item 1. Business\t1\n\tItem 1A. Risk Factors . . . . . 2\n\
        PART II\n\tItem 7. Management\u{2019}s Discussion ........ 3\n\t\tOverview\tF-4\n\x0c*PART I\n*Item 1. Business\nText of it.\n1\n\
        \x0c*Item 1A. Risk Factors\nText.\n2\n\x0c*PART II\n*Item 7. Management\u{2019}s Discussion\n/Overview\n3\n";
    let mut seeds = vec![contents.as_bytes().to_vec()];
    seeds.extend(
        filings()
            .iter()
            .map(|filing| filing.page_texts.join("\x0c").into_bytes()),
    );
    let marked = filings().into_iter().map(|filing| {
        let titles: Vec<&str> = filing
            .truth
            .nodes
            .iter()
            .map(|node| node.title.as_str())
            .collect();
        filing
            .page_texts
            .iter()
            .map(|text: &String| {
                text.lines()
                    .map(|line: &str| {
                        if titles.contains(&line) {
                            format!("^*{line}\n")
                        } else {
                            format!("{line}\n")
                        }
                    })
                    .collect::<String>()
            })
            .collect::<Vec<_>>()
            .join("\x0c")
            .into_bytes()
    });
    seeds.extend(marked);
    seeds
}

/// Markdown with all syntax elements.
pub fn markdowns() -> Vec<Vec<u8>> {
    let marks = "---\ntitle: \"a\"\n---\n# One\n\nTwo\n---\n\n```\n# no\n```\n> # quoted\n\n| a | b |\n|---|---|\n| # | 1 |\n\n\
        <h2>html</h2>\n\n<!-- # no -->\n\n- # item\n\n####### seven\n\n## *a* [b](c) `d` &amp; \\# ##\n";
    let mut seeds = vec![marks.as_bytes().to_vec(), utf16(marks)];
    seeds.extend((0..3).map(|seed| markdown(seed, 5).0.into_bytes()));
    seeds
}

/// Plain text and EDGAR submissions.
pub fn texts() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = TextKind::ALL
        .iter()
        .map(|(kind, _)| plain_text(5, *kind, 5).0.into_bytes())
        .collect();
    seeds.push(utf16("1. One\n\ntext\n\n2. Two\n"));
    seeds
}

fn utf16(text: &str) -> Vec<u8> {
    [0xFF, 0xFE]
        .into_iter()
        .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
        .collect()
}

fn built() -> Vec<SectionTree> {
    let markdown = (markdown(2, 4).0.into_bytes(), "a.md");
    let pdfs = filings()
        .into_iter()
        .take(2)
        .map(|filing| (filing.pdf, "a.pdf"));
    pdfs.chain([markdown])
        .filter_map(|(bytes, name): (Vec<u8>, &str)| {
            let source =
                extract(ExtractJob::new(name.into(), bytes, None, Limits::default())).ok()?;
            let draft =
                structure::outline(&source, &structure::StructureSettings::default()).ok()?;
            let tree = SectionTree::build(&draft.outline, draft.method, draft.gaps);
            Some(enrich::finish(
                tree,
                &source,
                &enrich::SectionSettings::default(),
                &draft.labels,
            ))
        })
        .collect()
}

/// Stored trees.
pub fn trees() -> Vec<Vec<u8>> {
    built()
        .into_iter()
        .filter_map(|tree| {
            serde_json::to_vec(&TreeObject::Published(Box::new(targets::published(tree)))).ok()
        })
        .collect()
}

/// Encoded sources.
pub fn encoded_sources() -> Vec<Vec<u8>> {
    let documents = [
        (filings().swap_remove(3).pdf, "a.pdf"),
        (markdown(1, 3).0.into_bytes(), "a.md"),
    ];
    documents
        .into_iter()
        .filter_map(|(bytes, name): (Vec<u8>, &str)| {
            let source =
                extract(ExtractJob::new(name.into(), bytes, None, Limits::default())).ok()?;
            stemma_extract::encode_source(&source)
                .ok()
                .filter(|bytes| EncodedSource::open(bytes.clone()).is_ok())
        })
        .collect()
}

/// PageIndex trees: nested, flat with codes, wrapped, malformed.
pub fn imports() -> Vec<Vec<u8>> {
    let others = [
        json!([{"structure": "1", "title": "a", "physical_index": "<physical_index_3>"}, {"structure": "1.1", "title": "b", "page": "4"}]),
        json!({"doc_name": "x", "structure": [{"title": "a", "start_index": 1, "end_index": 2, "nodes": [{"title": "b", "start_index": 2}]}]}),
        json!({"result": {"tree": [{"name": "a", "line_num": 9, "children": [{"heading": "b", "line_num": 3}]}]}}),
        json!([{"title": "a", "start_index": -5, "end_index": 99_999_999}, {"title": "b", "start_index": 1.5e300}]),
    ];
    let exported = built().into_iter().map(|tree| {
        pageindex::export(
            &targets::published(tree),
            pageindex::ExportOptions::default(),
        )
    });
    exported
        .chain(others)
        .map(|value| value.to_string().into_bytes())
        .collect()
}
