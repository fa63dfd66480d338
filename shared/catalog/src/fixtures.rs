//! Catalog entries for tests of this and other crates.

use stemma_document::{
    CatalogueEntry, Collection, Digest, DocId, DocumentVersion, Extent, Fact, FilingFacts, Method,
};

use crate::catalogue::{Catalogue, Current, Listed, Record, State};
use crate::open;

/// A published document at `path`.
pub fn entry(path: &str) -> CatalogueEntry {
    let uri = format!("file:///{path}");
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    let version = DocumentVersion {
        doc: DocId::of(&Collection::default(), &uri),
        seq: 1,
        uri,
        name,
        path: path.into(),
        source: Digest::of(b""),
        origin: Default::default(),
        size_bytes: 0,
        settings: String::new(),
        stated: Default::default(),
    };
    CatalogueEntry {
        version,
        extent: Extent::Pages(1),
        sections: 1,
        tokens: 1,
        method: Method::Layout,
        accuracy: 1.0,
        gaps: Vec::new(),
        facts: FilingFacts::default(),
        description: None,
    }
}

/// A document of this company.
pub fn of_company(path: &str, company: &str) -> CatalogueEntry {
    let mut entry = entry(path);
    entry.facts.issuer = Some(Fact::text(company, None));
    entry
}

/// Documents that were claimed and have no tree.
pub fn claimed(paths: &[&str]) -> Catalogue {
    let open = open::Open {
        documents: paths
            .iter()
            .map(|path: &&str| Listed {
                record: Record::Claimed(Box::new(entry(path).version)),
                state: State::Failed,
                failure: None,
                label: String::new(),
                published_ms: None,
            })
            .collect(),
        ..open::Open::default()
    };
    Catalogue::of(&Current::default(), &open)
}
