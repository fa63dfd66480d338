//! The targets: functions that process the bytes of an input.

use serde_json::Value;
use stemma_catalog::items;
use stemma_document::{
    CatalogEntry, PageNo, PageSpan, PublishedTree, SectionTree, Source, SourceBody, TextLines,
    TreeObject, pageindex, text,
};
use stemma_edgar::{FilingFolder, FilingIndex, FolderPlan, IndexKind};
use stemma_extract::{EncodedSource, ExtractJob, Limits, pdf};
use stemma_outline::{enrich, structure};
use stemma_pipeline::filing_facts::index_facts;
use stemma_pipeline::stages;
use stemma_reading::document_reading::DocumentReading;
use stemma_verify::{ClaimState, Evidence, QuoteTarget, check_quote, print_figures, verify_claim};
use stemma_xbrl::FactTable;

use crate::{inputs, invariants, seeds};

pub struct Target {
    /// The value of `STEMMA_FUZZ`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const ALL: [Target; 16] = [
    Target {
        name: "pdf",
        run: pdf,
        seeds: seeds::pdfs,
    },
    Target {
        name: "lines",
        run: lines,
        seeds: seeds::operators,
    },
    Target {
        name: "outline",
        run: outline,
        seeds: seeds::graphs,
    },
    Target {
        name: "contents",
        run: contents,
        seeds: seeds::page_texts,
    },
    Target {
        name: "markdown",
        run: markdown,
        seeds: seeds::markdowns,
    },
    Target {
        name: "text",
        run: plain_text,
        seeds: seeds::texts,
    },
    Target {
        name: "html",
        run: html,
        seeds: seeds::pages_of_html,
    },
    Target {
        name: "xml",
        run: xml,
        seeds: seeds::xml_documents,
    },
    Target {
        name: "submission",
        run: submission,
        seeds: seeds::submissions,
    },
    Target {
        name: "index",
        run: index,
        seeds: seeds::index_files,
    },
    Target {
        name: "facts",
        run: facts,
        seeds: seeds::encoded_facts,
    },
    Target {
        name: "labels",
        run: labels,
        seeds: seeds::linkbases,
    },
    Target {
        name: "tree",
        run: tree,
        seeds: seeds::trees,
    },
    Target {
        name: "pack",
        run: pack,
        seeds: seeds::encoded_sources,
    },
    Target {
        name: "import",
        run: import,
        seeds: seeds::imports,
    },
    Target {
        name: "claim",
        run: claim,
        seeds: seeds::claims,
    },
];

pub fn named(name: &str) -> Option<Target> {
    ALL.into_iter().find(|target| target.name == name)
}

pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|target| target.name).collect()
}

/// A PDF through all cpu stages.
fn pdf(bytes: &[u8]) {
    document("a.pdf", bytes.to_vec());
}

/// Content streams, one per page, in an otherwise valid PDF.
fn lines(bytes: &[u8]) {
    document("a.pdf", inputs::pdf_from_operators(bytes));
}

/// An outline with arbitrary destinations, in an otherwise valid PDF.
fn outline(bytes: &[u8]) {
    let file = inputs::pdf_from_outline(bytes);
    let read = pdf::read(&file, None, &Limits::default(), 1).expect("the pages are valid");
    let limits = Limits::default();
    assert!(
        read.outline.len() <= limits.max_outline_items as usize,
        "{} entries",
        read.outline.len()
    );
    assert!(
        read.outline
            .iter()
            .all(|item| u32::from(item.level) <= limits.max_outline_depth)
    );
    finish(&read);
}

/// Structure alone, from pages of lines with links.
fn contents(bytes: &[u8]) {
    finish(&inputs::source_from_text(bytes));
}

fn markdown(bytes: &[u8]) {
    document("a.md", bytes.to_vec());
}

fn plain_text(bytes: &[u8]) {
    document("a.txt", bytes.to_vec());
}

/// A page of HTML: text, structure, tables and tagged facts.
fn html(bytes: &[u8]) {
    document("a.htm", bytes.to_vec());
}

/// An XML document of a submission.
fn xml(bytes: &[u8]) {
    document("a.xml", bytes.to_vec());
}

/// A full submission of EDGAR, whose documents are text, HTML or XML.
fn submission(bytes: &[u8]) {
    document("a.txt", [b"<SEC-DOCUMENT>a.txt\n", bytes].concat());
}

/// An index file of a mirrored folder. The first byte selects its kind.
fn index(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let kinds = [
        IndexKind::Headers,
        IndexKind::HeaderOnly,
        IndexKind::Page,
        IndexKind::Names,
    ];
    let index = FilingIndex::parse(kinds[usize::from(*kind) % kinds.len()], bytes);
    let folder = FilingFolder::from_path("data/77/000000007723000012").expect("a folder");
    let names: Vec<String> = index
        .entries
        .iter()
        .filter_map(|entry| entry.filename.clone())
        .collect();
    let plan = FolderPlan::new(&folder, &names, &index);
    assert!(
        plan.documents
            .iter()
            .all(|document| names.contains(&document.name)),
        "a document that is not a file of the folder"
    );
    let _ = index_facts(&folder, &index, index.entries.first());
}

/// Stored facts.
fn facts(bytes: &[u8]) {
    if let Ok(table) = stemma_xbrl::decode_facts(bytes) {
        check_facts(&table);
    }
}

/// Facts can be read one by one, and survive a round trip.
fn check_facts(table: &FactTable) {
    assert_eq!(table.facts().count(), table.len());
    let encoded = stemma_xbrl::encode_facts(table).expect("it was decoded");
    assert!(
        stemma_xbrl::decode_facts(&encoded).is_ok_and(|again| again == *table),
        "encoding changes the facts"
    );
}

/// The label linkbase of a filing. The labels replace those of its facts.
fn labels(bytes: &[u8]) {
    let labels = stemma_xbrl::read_labels(bytes);
    assert!(
        labels
            .by_concept
            .values()
            .all(|label| !label.is_empty() && label.len() <= 500),
        "an empty or a long label"
    );
    let mut table = stemma_xbrl::read_facts(seeds::TAGGED_FILING.as_bytes());
    table.set_labels(&labels.by_concept);
    check_facts(&table);
}

/// A stored tree. Readers must not panic, whatever it contains.
fn tree(bytes: &[u8]) {
    let Ok(object) = serde_json::from_slice::<TreeObject>(bytes) else {
        return;
    };
    let TreeObject::Published(published) = object else {
        return;
    };
    let json = serde_json::to_vec(&TreeObject::Published(published.clone())).expect("it was JSON");
    assert!(
        serde_json::from_slice::<TreeObject>(&json).is_ok(),
        "a written tree cannot be read"
    );
    let _ = CatalogEntry::from_tree(&published);
    let tree = &published.tree;
    let _ = (
        items::section_items(tree),
        pageindex::export(&published, pageindex::ExportOptions::default()),
    );
    let bodies = [
        SourceBody::Pages(Vec::new()),
        SourceBody::Lines(TextLines::default()),
    ];
    for (_, section) in tree.walk().take(50) {
        let _ = tree.path_to(section.id);
        bodies.iter().for_each(|body| {
            drop((
                text::own_text(section, body),
                text::full_text(section, body),
            ))
        });
    }
}

/// An encoded source, as received from a child process or a store.
fn pack(bytes: &[u8]) {
    let Ok(encoded) = EncodedSource::open(bytes.to_vec()) else {
        return;
    };
    let first = PageSpan::between(PageNo::FIRST, PageNo::FIRST);
    let _ = (encoded.pages(first), encoded.lines(1, 1));
    let extent = encoded.extent();
    if let Ok(source) = encoded.decode()
        && source.extent() == extent
    {
        let again = stemma_extract::encode_source(&source)
            .ok()
            .and_then(|bytes| EncodedSource::open(bytes).ok()?.decode().ok());
        assert_eq!(again.as_ref(), Some(&source), "encoding changes the source");
    }
}

/// A PageIndex tree.
fn import(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let Ok(tree) = pageindex::import(&value, "x") else {
        return;
    };
    invariants::check_tree(&tree);
    let published = published(tree);
    let exported = pageindex::export(&published, pageindex::ExportOptions::default());
    let again = pageindex::import(&exported, "x").expect("an exported tree can be imported");
    assert_eq!(
        again.walk().count(),
        published.tree.walk().count(),
        "the round trip lost sections"
    );
}

/// A claim of a reply, over a page and the facts of a filing.
fn claim(bytes: &[u8]) {
    let (claim, text) = inputs::claim_and_page(bytes);
    let page = stemma_filings::monospaced_page(&text);
    let reading = DocumentReading::new(&SourceBody::Pages(vec![page.clone()]));
    let facts = stemma_xbrl::read_facts(seeds::TAGGED_FILING.as_bytes());
    let targets = [QuoteTarget::page(1, &page)];
    let evidence: Vec<Option<Evidence<'_>>> = claim
        .citations
        .iter()
        .map(|citation| {
            (citation.passage == 1).then(|| Evidence {
                quote: check_quote(&citation.quote, &targets),
                targets: &targets,
                tables: reading.tables.iter().collect(),
                facts: Some(&facts),
                year_shift: 0,
                location: "Item 8\nACME_2022_10K.pdf",
            })
        })
        .collect();
    let verified = verify_claim(&claim, &evidence, &[]);
    let is_shown = verified.state != ClaimState::Unverified;
    assert_eq!(is_shown, verified.reason.is_none(), "{verified:?}");
    if is_shown {
        assert!(!verified.text.contains('{'), "a placeholder is left");
        assert_eq!(verified.figures.len(), claim.figures.len());
        let quotes = evidence.iter().flatten();
        assert!(
            quotes.clone().count() == evidence.len()
                && quotes.clone().all(|one| one.quote.matched.is_verbatim()),
            "a quote is not on its page"
        );
        let _ = print_figures(&claim.statement, &verified.figures);
    }
}

/// Extraction and outline of one file.
fn document(name: &str, bytes: Vec<u8>) {
    let job = ExtractJob::new(name.into(), bytes, None, Limits::default());
    let reply = match stages::extract_document(job) {
        Ok(reply) => reply,
        Err(error) => return invariants::check_error(&error),
    };
    let blobs = stages::split_extracted(reply.into()).expect("it was just joined");
    let source = EncodedSource::open(blobs.source)
        .and_then(EncodedSource::decode)
        .expect("it was just encoded");
    if let Some(facts) = blobs.facts {
        check_facts(&stemma_xbrl::decode_facts(&facts).expect("they were just encoded"));
    }
    let tables = DocumentReading::decode_tables(&blobs.reading).expect("it was just encoded");
    let reading = DocumentReading::new(&source.body);
    assert_eq!(reading.tables, tables, "a stored source reads otherwise");
    finish(&source);
}

fn finish(source: &Source) {
    let draft = structure::outline(source, &structure::StructureSettings::default())
        .expect("it is a source");
    let tree = SectionTree::build(&draft.outline, draft.method, draft.gaps);
    let tree = enrich::finish(
        tree,
        source,
        &DocumentReading::new(&source.body).lines,
        &enrich::SectionSettings::default(),
        &draft.labels,
    );
    assert!(
        tree.extent.size() == 0 || !tree.sections.is_empty(),
        "a document without a section"
    );
    invariants::check_tree(&tree);
    check_round_trip(&tree);
}

/// A tree survives a round trip through JSON.
fn check_round_trip(tree: &SectionTree) {
    let json = serde_json::to_vec(tree).expect("it is JSON");
    assert!(
        serde_json::from_slice::<SectionTree>(&json).is_ok_and(|read| read == *tree),
        "JSON changes the tree"
    );
}

/// A published tree.
pub fn published(tree: SectionTree) -> PublishedTree {
    let collection: stemma_document::Collection = "default".parse().expect("a name");
    let version = stemma_document::DocumentVersion {
        doc: stemma_document::DocId::new(&collection, "file:///a.pdf"),
        seq: 1,
        uri: "file:///a.pdf".into(),
        name: "a.pdf".into(),
        path: "a.pdf".into(),
        source: stemma_document::Digest::from_content(b""),
        origin: Default::default(),
        size_bytes: 1,
        settings: "s".into(),
        sidecar_facts: std::collections::BTreeMap::new(),
        filing_facts: std::collections::BTreeMap::new(),
        correction: None,
        labels: None,
    };
    PublishedTree {
        version,
        text_artifact: "t".into(),
        tree,
    }
}
