//! The targets: what is done with the bytes of an input.

use serde_json::Value;
use stemma_document::{
    SourceBody, CatalogEntry, PageNo, PageSpan, PublishedTree, SectionTree, Source, TextLines, TreeObject,
    pageindex, text,
};
use stemma_extract::{EncodedSource, ExtractJob, Limits, pdf};
use stemma_outline::{sections, structure};
use stemma_pipeline::stages;
use stemma_catalog::items;

use crate::{paper, rules, seeds};

/// A target.
pub struct Target {
    /// What `STEMMA_FUZZ` calls it.
    pub name: &'static str,
    /// What is done with an input.
    pub run: fn(&[u8]),
    /// The inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const ALL: [Target; 9] = [
    Target { name: "pdf", run: pdf, seeds: seeds::pdfs },
    Target { name: "lines", run: lines, seeds: seeds::operators },
    Target { name: "outline", run: outline, seeds: seeds::graphs },
    Target { name: "contents", run: contents, seeds: seeds::page_texts },
    Target { name: "markdown", run: markdown, seeds: seeds::markdowns },
    Target { name: "text", run: plain_text, seeds: seeds::texts },
    Target { name: "tree", run: tree, seeds: seeds::trees },
    Target { name: "pack", run: pack, seeds: seeds::packs },
    Target { name: "import", run: import, seeds: seeds::imports },
];

/// The target called `name`.
pub fn named(name: &str) -> Option<Target> {
    ALL.into_iter().find(|target| target.name == name)
}

/// The names of all targets.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|target| target.name).collect()
}

/// A file named `.pdf`, through everything that CPU stages do.
fn pdf(bytes: &[u8]) {
    document("a.pdf", bytes.to_vec());
}

/// Content streams, one per page, in an otherwise sound PDF.
fn lines(bytes: &[u8]) {
    document("a.pdf", paper::of_operators(bytes));
}

/// An outline whose entries point anywhere, in an otherwise sound PDF.
fn outline(bytes: &[u8]) {
    let file = paper::of_outline(bytes);
    let read = pdf::read(&file, None, &Limits::default(), 1).expect("the pages are sound");
    let limits = Limits::default();
    assert!(read.outline.len() <= limits.max_outline_items as usize, "{} entries", read.outline.len());
    assert!(read.outline.iter().all(|item| u32::from(item.level) <= limits.max_outline_depth));
    finish(&read);
}

/// Pages of lines as a contents page has them, with links: structure alone.
fn contents(bytes: &[u8]) {
    finish(&paper::source(bytes));
}

fn markdown(bytes: &[u8]) {
    document("a.md", bytes.to_vec());
}

fn plain_text(bytes: &[u8]) {
    document("a.txt", bytes.to_vec());
}

/// A tree as a store holds it: whoever reads it must not fall over what it says.
fn tree(bytes: &[u8]) {
    let Ok(object) = serde_json::from_slice::<TreeObject>(bytes) else { return };
    let TreeObject::Published(published) = object else { return };
    let json = serde_json::to_vec(&TreeObject::Published(published.clone())).expect("it was JSON");
    assert!(serde_json::from_slice::<TreeObject>(&json).is_ok(), "what was written is not read");
    let _ = CatalogEntry::from_tree(&published);
    let tree = &published.tree;
    let _ = (items::items(tree), pageindex::export(&published, pageindex::ExportOptions::default()));
    let bodies = [SourceBody::Pages(Vec::new()), SourceBody::Lines(TextLines::default())];
    for (_, section) in tree.walk().take(50) {
        let _ = tree.path_to(section.id);
        bodies.iter().for_each(|body| drop((text::own_text(section, body), text::full_text(section, body))));
    }
}

/// A packed source, as a child process sends it and a store holds it.
fn pack(bytes: &[u8]) {
    let Ok(packed) = EncodedSource::open(bytes.to_vec()) else { return };
    let first = PageSpan::between(PageNo::FIRST, PageNo::FIRST);
    let _ = (packed.pages(first), packed.lines(1, 1));
    let extent = packed.extent();
    if let Ok(source) = packed.decode()
        && source.extent() == extent
    {
        let again = stemma_extract::encode_source(&source).ok().and_then(|bytes| EncodedSource::open(bytes).ok()?.decode().ok());
        assert_eq!(again.as_ref(), Some(&source), "it does not survive packing");
    }
}

/// The JSON of another program.
fn import(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let Ok(tree) = pageindex::import(&value, "x") else { return };
    rules::check(&tree);
    let published = published(tree);
    let exported = pageindex::export(&published, pageindex::ExportOptions::default());
    let again = pageindex::import(&exported, "x").expect("what was exported is imported");
    assert_eq!(again.walk().count(), published.tree.walk().count(), "sections were lost on the way");
}

/// What the extraction child and the outline stage do with a file.
fn document(name: &str, bytes: Vec<u8>) {
    let job = ExtractJob::new(name.into(), bytes, None, Limits::default());
    let packed = match stages::read(job) {
        Ok(packed) => packed,
        Err(error) => return rules::check_error(&error),
    };
    let source = EncodedSource::open(packed).and_then(|packed| packed.decode()).expect("it was just packed");
    finish(&source);
}

fn finish(source: &Source) {
    let draft = structure::outline(source, &structure::StructureSettings::default()).expect("it is a source");
    let tree = SectionTree::build(&draft.outline, draft.method, draft.gaps);
    let tree = sections::finish(tree, source, &sections::SectionSettings::default(), &draft.labels);
    assert!(tree.extent.size() == 0 || !tree.sections.is_empty(), "a document without a section");
    rules::check(&tree);
    tree_of_json(&tree);
}

/// What is published is read back, as it is.
fn tree_of_json(tree: &SectionTree) {
    let json = serde_json::to_vec(tree).expect("it is JSON");
    assert!(serde_json::from_slice::<SectionTree>(&json).is_ok_and(|read| read == *tree), "JSON loses something");
}

/// A tree as it would be published.
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
    };
    PublishedTree { version, text_artifact: "t".into(), tree }
}
