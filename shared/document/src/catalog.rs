//! What is listed, claimed and published: the records beside the trees.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, DocId, Extent, FilingFacts, Method, SectionTree};

/// A claimed version of a document: the first record of its run, create-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentVersion {
    /// The document.
    pub doc: DocId,
    /// Counts from 1 per document.
    pub seq: u64,
    /// Where the bytes are.
    pub uri: String,
    /// File name, for display.
    pub name: String,
    /// Folder path below the place it was ingested from and the name, `/`-separated; unique enough to show, not an id.
    pub path: String,
    /// Identifies the bytes, in the way that `origin` says.
    pub source: Digest,
    /// How they are identified.
    #[serde(skip_serializing_if = "Origin::is_content", default)]
    pub origin: Origin,
    /// Size of the bytes.
    pub size_bytes: u64,
    /// Digest of the settings the run works under.
    pub settings: String,
    /// Facts a sidecar states about it, by their stable names; see [`FilingFacts`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[serde(rename = "stated")]
    pub sidecar_facts: BTreeMap<String, String>,
}

/// How the bytes of a version are identified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// By their digest.
    #[default]
    Content,
    /// By what an object store says of them ([`Digest::of_object`]): no one reads a million objects to submit them.
    Object {
        /// The ETag, without quotes.
        etag: String,
        /// Where to find them after the object was replaced, in buckets that keep versions. No part of the identity:
        /// listings do not say it and notifications do.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<String>,
    },
    /// There are none: whoever keeps the document says that it was removed.
    Removed,
}

impl Origin {
    fn is_content(&self) -> bool {
        *self == Self::Content
    }
}

/// A published tree with what a reader needs to show it; the content of `trees/{seq}.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedTree {
    /// The version it is of.
    pub version: DocumentVersion,
    /// Key of the artifact that holds the text (its blob `source`).
    pub text_artifact: String,
    /// The tree.
    pub tree: SectionTree,
}

/// The content of `trees/{seq}.json`: a document's latest state is the one with the highest number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeObject {
    /// A tree.
    Published(Box<PublishedTree>),
    /// A tombstone: the document was removed.
    Removed,
}

/// One document in a listing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogEntry {
    /// The version that is listed.
    pub version: DocumentVersion,
    /// Pages or lines.
    pub extent: Extent,
    /// Number of sections.
    pub sections: u32,
    /// Tokens of the whole text (o200k).
    pub tokens: u32,
    /// How the tree was made.
    pub method: Method,
    /// Share of titles verified (0–1).
    pub accuracy: f32,
    /// Codes of the gaps in the tree, once each.
    pub gaps: Vec<String>,
    /// What the document says about itself.
    pub facts: FilingFacts,
    /// The tree's description.
    pub description: Option<String>,
}

impl CatalogEntry {
    /// The entry of a published tree.
    pub fn from_tree(published: &PublishedTree) -> Self {
        let tree = &published.tree;
        let mut gaps: Vec<String> = tree.gaps.iter().map(|gap| gap.code.clone()).collect();
        gaps.sort();
        gaps.dedup();
        Self {
            version: published.version.clone(),
            extent: tree.extent,
            sections: u32::try_from(tree.walk().count()).unwrap_or(u32::MAX),
            tokens: tree.sections.iter().map(|section| section.tokens).sum(),
            method: tree.provenance.method,
            accuracy: tree.provenance.accuracy,
            gaps,
            facts: tree.facts.clone(),
            description: tree.description.clone(),
        }
    }
}

/// A change record: written create-only after each publication; readers tail them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened to a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A tree was published.
    Published(Box<CatalogEntry>),
    /// The document was removed (a tombstone under this version number).
    Removed {
        /// The document.
        doc: DocId,
        /// The tombstone's version number.
        seq: u64,
    },
}
