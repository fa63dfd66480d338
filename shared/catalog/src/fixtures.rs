//! Catalog entries for tests of this and other crates.

use stemma_document::{
    CatalogEntry, Collection, Digest, DocId, DocumentVersion, Extent, Fact, FilingFacts, Method,
};

use crate::catalog::{Catalog, CatalogDocument, DocumentRecord, DocumentState};
use crate::latest_changes::LatestChanges;
use crate::pending;

pub fn entry(path: &str) -> CatalogEntry {
    let uri = format!("file:///{path}");
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    let version = DocumentVersion {
        doc: DocId::new(&Collection::default(), &uri),
        seq: 1,
        uri,
        name,
        path: path.into(),
        source: Digest::from_content(b""),
        origin: Default::default(),
        size_bytes: 0,
        settings: String::new(),
        sidecar_facts: Default::default(),
        correction: None,
    };
    CatalogEntry {
        version,
        extent: Extent::Pages(1),
        sections: 1,
        tokens: 1,
        method: Method::Layout,
        doubt: Some(0.0),
        gaps: Vec::new(),
        facts: FilingFacts::default(),
        description: None,
    }
}

pub fn of_company(path: &str, company: &str) -> CatalogEntry {
    let mut entry = entry(path);
    entry.facts.issuer = Some(Fact::from_text(company, None));
    entry
}

/// A catalog of claimed documents without a tree.
pub fn claimed(paths: &[&str]) -> Catalog {
    let open = pending::PendingDocuments {
        documents: paths
            .iter()
            .map(|path: &&str| CatalogDocument {
                record: DocumentRecord::Claimed(Box::new(entry(path).version)),
                state: DocumentState::Failed,
                failure: None,
                label: String::new(),
                published_ms: None,
            })
            .collect(),
        ..pending::PendingDocuments::default()
    };
    Catalog::from_changes(&LatestChanges::default(), &open)
}
