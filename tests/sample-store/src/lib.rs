//! A hand-made store for tests: two filings, a text, a failed document and a queued one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test support")]

mod inline_xbrl;
pub mod model;
mod pdf;

pub use inline_xbrl::InlineFiling;
pub use pdf::{pdf, publish_file, publish_pdf, publish_scan};

use std::sync::Arc;

use stemma_document::{
    CatalogEntry, Change, ChangeKind, Collection, Digest, DocId, DocumentVersion, DraftEntry,
    EntryVerdict, EvidenceSource, Extent, Fact, FilingFacts, Line, LocatedEntry, Method, Page,
    PageLabel, PageNo, Position, Pt, PublishedTree, Rect, SectionStart, SectionTree, Source,
    SourceBody, SourceFormat, StyleRun, TextLines, TreeObject, VerifiedOutline, blob_keys,
};
use stemma_reading::document_reading::DocumentReading;
use stemma_store::artifact::Artifact;
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::{Failure, FailureRecord, TaskKey};
use stemma_xbrl::FactTable;

pub const ANNUAL: [&str; 5] = [
    "ACME INC\nAnnual report",
    "PART I\nItem 1. Business\nWe make anvils and rockets.\nOur R&D spending was $1,577 million.",
    "Item 1A. Risk Factors\nForeign currency may move against us.",
    "Hedging reduces but does not remove currency risk.",
    "PART II\nItem 7. Management's Discussion\nLiquidity was ample at year-end.",
];

pub fn version(path: &str, seq: u64) -> DocumentVersion {
    let uri = format!("file:///archive/{path}");
    DocumentVersion {
        doc: DocId::new(&Collection::default(), &uri),
        seq,
        uri,
        name: path.rsplit('/').next().unwrap().into(),
        path: path.into(),
        source: Digest::from_content(path.as_bytes()),
        origin: Default::default(),
        size_bytes: 1_000,
        settings: Digest::from_content(b"settings").to_string().into(),
        sidecar_facts: Default::default(),
        filing_facts: Default::default(),
        correction: None,
        labels: None,
    }
}

fn line(text: &str) -> Line {
    let runs = vec![StyleRun {
        end: text.len() as u32,
        ..StyleRun::default()
    }];
    let tokens = text.split_whitespace().count() as u32;
    Line {
        text: text.into(),
        rect: Rect::default(),
        runs,
        words: vec![],
        tokens,
        ..Line::default()
    }
}

pub fn pages(texts: &[&str]) -> SourceBody {
    SourceBody::Pages(
        texts
            .iter()
            .enumerate()
            .map(|(at, text): (usize, &&str)| Page {
                width: Pt::new(612.0),
                height: Pt::new(792.0),
                label: Some(PageLabel(if at == 0 { "i".into() } else { at.to_string() })),
                lines: text.lines().map(line).collect(),
                ..Page::default()
            })
            .collect(),
    )
}

// A tree with a section for every line that starts with PART, Item or `#`; sections have no own tokens.
fn tree(body: &SourceBody) -> SectionTree {
    let mut judged = Vec::new();
    for line in stemma_document::text::all_lines(body) {
        let level = match line.text.split_whitespace().next() {
            Some("PART" | "#") => 1,
            Some("Item" | "##") => 2,
            _ => continue,
        };
        let place = match line.page {
            Some(page) => SectionStart::Page(Position {
                page,
                line: line.number - 1,
                y: Pt(0),
            }),
            None => SectionStart::Line(line.number),
        };
        let title = line.text.trim_start_matches(['#', ' ']).to_owned();
        let number = None;
        let label = None;
        let target = None;
        let evidence_source = EvidenceSource::Layout;
        let entry = DraftEntry {
            number,
            title,
            label,
            target,
            level,
            evidence: evidence_source,
        };
        judged.push((
            LocatedEntry { entry, place },
            EntryVerdict::Confirmed {
                starts_page: line.number == 1,
            },
        ));
    }
    let extent = match body {
        SourceBody::Pages(pages) => Extent::Pages(pages.len() as u32),
        SourceBody::Lines(text) => Extent::Lines(text.lines.len() as u32),
    };
    SectionTree::build(
        &VerifiedOutline::new(extent, judged).unwrap(),
        Method::Layout,
        Vec::new(),
    )
}

pub async fn publish(blobs: &dyn Blobs, path: &str, body: SourceBody, facts: FilingFacts) {
    publish_with_facts(blobs, path, body, facts, None).await;
}

/// Publishes a document, with tagged facts and its text.
pub async fn publish_with_facts(
    blobs: &dyn Blobs,
    path: &str,
    body: SourceBody,
    facts: FilingFacts,
    tagged: Option<&FactTable>,
) {
    publish_version(blobs, version(path, 1), body, facts, tagged).await;
}

async fn publish_version(
    blobs: &dyn Blobs,
    version: DocumentVersion,
    body: SourceBody,
    facts: FilingFacts,
    tagged: Option<&FactTable>,
) {
    let collection = Collection::default();
    let path = &version.path;
    let scope = blob_keys::document_scope(&collection, version.doc);
    let key = TaskKey::builder("paginate", 1).text(path).finish();
    let mut tree = tree(&body);
    tree.facts = facts;
    tree.description = Some(format!("About {path}"));
    let outline = vec![];
    let links = vec![];
    let metadata = Default::default();
    let defects = vec![];
    let source = Source {
        format: SourceFormat::Pdf,
        body,
        outline,
        links,
        metadata,
        defects,
        hidden: Vec::new(),
        encrypted: false,
    };
    let packed = stemma_extract::encode_source(&source).unwrap();
    let reading = DocumentReading::new(&source.body).encode().unwrap();
    let mut parts = vec![("source", packed.into()), ("reading", reading.into())];
    parts.extend(tagged.map(|table| ("facts", stemma_xbrl::encode_facts(table).unwrap().into())));
    Artifact::new(b"{}", &parts)
        .unwrap()
        .store(blobs, &scope, &key)
        .await
        .unwrap();
    let published = PublishedTree {
        version: version.clone(),
        text_artifact: key.to_string(),
        tree,
    };
    let entry = CatalogEntry::from_tree(&published);
    put(
        blobs,
        &blob_keys::version_key(&collection, version.doc, 1),
        &claim(&version),
    )
    .await;
    put(
        blobs,
        &blob_keys::tree_key(&collection, version.doc, 1),
        &TreeObject::Published(Box::new(published)),
    )
    .await;
    change(
        blobs,
        ChangeKind::Published(Box::new(entry)),
        version.doc.as_bytes()[0],
    )
    .await;
}

/// Publishes a document with these texts as pages.
pub async fn publish_pages(blobs: &dyn Blobs, path: &str, texts: &[&str]) {
    publish(blobs, path, pages(texts), FilingFacts::default()).await;
}

/// Publishes a filing, with a change record at `at_ms`.
pub async fn publish_now(blobs: &dyn Blobs, path: &str, at_ms: u64) -> DocId {
    publish(blobs, path, pages(&ANNUAL[..2]), FilingFacts::default()).await;
    announce(blobs, path, at_ms).await
}

/// Writes a change record of a published document at `at_ms`, which readers that are open follow.
pub async fn announce(blobs: &dyn Blobs, path: &str, at_ms: u64) -> DocId {
    let tree = blob_keys::tree_key(&Collection::default(), version(path, 1).doc, 1);
    let published: TreeObject =
        serde_json::from_slice(&blobs.get(&tree).await.unwrap().unwrap()).unwrap();
    let TreeObject::Published(published) = published else {
        panic!("just published")
    };
    let kind = ChangeKind::Published(Box::new(CatalogEntry::from_tree(&published)));
    put(
        blobs,
        &blob_keys::change_key(&Collection::default(), at_ms, at_ms),
        &Change { at_ms, kind },
    )
    .await;
    version(path, 1).doc
}

/// Removes a document, with a change record at `at_ms`.
pub async fn remove_now(blobs: &dyn Blobs, collection: &Collection, doc: DocId, at_ms: u64) {
    put(
        blobs,
        &blob_keys::tree_key(collection, doc, 2),
        &TreeObject::Removed,
    )
    .await;
    let kind = ChangeKind::Removed { doc, seq: 2 };
    put(
        blobs,
        &blob_keys::change_key(collection, at_ms, at_ms),
        &Change { at_ms, kind },
    )
    .await;
}

pub async fn change(blobs: &dyn Blobs, kind: ChangeKind, random: u8) {
    let change = Change {
        at_ms: 1_700_000_000_000,
        kind,
    };
    put(
        blobs,
        &blob_keys::change_key(&Collection::default(), change.at_ms, u64::from(random)),
        &change,
    )
    .await;
}

/// The header of the run of a claimed version.
pub fn claim(version: &DocumentVersion) -> stemma_store::RunHeader {
    let collection = Collection::default();
    stemma_store::RunHeader {
        at: stemma_store::RunRef {
            run: stemma_store::RunId(format!("{}-{}", version.doc, version.seq)),
            header: blob_keys::version_key(&collection, version.doc, version.seq),
            scope: blob_keys::document_scope(&collection, version.doc),
        },
        settings: version.settings.to_string(),
        flow_revision: 1,
        priority: stemma_store::Priority::Bulk,
        opened_by: stemma_store::JobId("j-1".into()),
        input: serde_json::to_value(version).unwrap(),
    }
}

pub async fn put<T: serde::Serialize>(blobs: &dyn Blobs, key: &str, value: &T) {
    blobs
        .put(key, serde_json::to_vec(value).unwrap().into())
        .await
        .unwrap();
}

pub fn fact(value: &str) -> Option<Fact> {
    Some(Fact::from_text(value, PageNo::new(1)))
}

pub async fn store() -> Arc<MemoryBlobs> {
    let blobs = Arc::new(MemoryBlobs::default());
    let acme = |year: &str| FilingFacts {
        issuer: fact("ACME INC"),
        form: fact("10-K"),
        fiscal_year: fact(year),
        ..FilingFacts::default()
    };
    publish(
        blobs.as_ref(),
        "10-K/ACME_2022.pdf",
        pages(&ANNUAL),
        acme("2022"),
    )
    .await;
    publish(
        blobs.as_ref(),
        "10-K/ACME_2021.pdf",
        pages(&ANNUAL[..2]),
        acme("2021"),
    )
    .await;
    let lines: Vec<String> = "# 手册\n营业收入增长\n## Setup\nplug it in"
        .lines()
        .map(Into::into)
        .collect();
    let text = TextLines {
        lines,
        tokens: vec![],
        headings: vec![],
    };
    publish(
        blobs.as_ref(),
        "manual.md",
        SourceBody::Lines(text),
        FilingFacts::default(),
    )
    .await;
    let broken = version("8-K/BROKEN.pdf", 1);
    put(
        blobs.as_ref(),
        &blob_keys::version_key(&Collection::default(), broken.doc, 1),
        &claim(&broken),
    )
    .await;
    let failure = Failure::permanent("pdf.truncated", "ends after page 3 of 12")
        .with_next("get the whole file");
    let record = FailureRecord::new(failure, "paginate", 1, 7);
    put(
        blobs.as_ref(),
        &format!("runs/{}-1/failed/document.json", broken.doc),
        &record,
    )
    .await;
    let queued = version("8-K/QUEUED.pdf", 1);
    put(
        blobs.as_ref(),
        &blob_keys::version_key(&Collection::default(), queued.doc, 1),
        &claim(&queued),
    )
    .await;
    blobs
}
