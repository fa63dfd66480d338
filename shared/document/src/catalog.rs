//! Records of document versions, published trees and changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, DocId, Extent, FilingFacts, Method, SectionTree};

/// A claimed version of a document: the write-once first record of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentVersion {
    pub doc: DocId,
    /// 1-based per document.
    pub seq: u64,
    pub uri: String,
    /// File name, for display.
    pub name: String,
    /// `/`-separated path below the ingested folder, including the name. For display; not unique.
    pub path: String,
    /// Identifies the bytes as specified by `origin`.
    pub source: Digest,
    #[serde(skip_serializing_if = "Origin::is_content", default)]
    pub origin: Origin,
    pub size_bytes: u64,
    /// Shared, because all documents of a job have the same.
    #[serde(with = "shared_text")]
    pub settings: Arc<str>,
    /// Facts from a sidecar file, by their stable names; see [`FilingFacts`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[serde(rename = "stated")]
    pub sidecar_facts: BTreeMap<String, String>,
    /// What the index files of its filing say of the document, by the names of a submission's metadata.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[serde(rename = "filing")]
    pub filing_facts: BTreeMap<String, String>,
    /// The structure that a person gave the document. It is kept by later versions, also where it no longer applies.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub correction: Option<Box<CorrectionRef>>,
    /// The label linkbase of a filing, which lies next to its document.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub labels: Option<Box<CompanionFile>>,
}

/// A file in the folder of a document that is read with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompanionFile {
    pub name: String,
    /// Identifies the bytes as specified by `origin`.
    pub source: Digest,
    #[serde(skip_serializing_if = "Origin::is_content", default)]
    pub origin: Origin,
    pub size_bytes: u64,
}

mod shared_text {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}

impl DocumentVersion {
    /// The digest of the correction that makes the tree of this version: one for the same bytes. `content` is the digest of the
    /// bytes where [`source`](Self::source) is another.
    pub fn applied_correction(&self, content: Option<Digest>) -> Option<Digest> {
        let correction = self.correction.as_deref()?;
        let is_same =
            correction.source == self.source || content.is_some() && correction.content == content;
        is_same.then_some(correction.headings)
    }
}

/// A structure by a person: the headings, and the bytes in which they were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionRef {
    /// Digest of the object that lists the headings ([`correction_key`](crate::blob_keys::correction_key)).
    pub headings: Digest,
    /// [`DocumentVersion::source`] of the corrected version.
    pub source: Digest,
    /// Digest of its bytes, if `source` is the digest of an ETag: the same bytes may get another one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<Digest>,
}

/// How the bytes of a version are identified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    #[default]
    Content,
    /// By the ETag ([`Digest::from_object`]), so that submitting an object does not read it.
    Object {
        etag: String,
        /// The object's version in versioned buckets, to find it after a replacement. Not part of the identity, since
        /// listings omit it and notifications include it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<String>,
    },
    /// The document was removed at its origin.
    Removed,
}

impl Origin {
    fn is_content(&self) -> bool {
        *self == Self::Content
    }
}

/// The content of `trees/{seq}.json`: a published tree with its version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedTree {
    pub version: DocumentVersion,
    /// Key of the artifact with the extracted text (its blob `source`).
    pub text_artifact: String,
    pub tree: SectionTree,
}

/// The content of `trees/{seq}.json`. The highest number is the document's current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeObject {
    Published(Box<PublishedTree>),
    Removed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogEntry {
    pub version: DocumentVersion,
    pub extent: Extent,
    pub sections: u32,
    /// o200k tokens of the whole text.
    pub tokens: u32,
    pub method: Method,
    /// [`Doubt::score`](crate::Doubt::score); `None` if it was not assessed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub doubt: Option<f32>,
    /// Sorted, distinct gap codes.
    pub gaps: Vec<String>,
    pub facts: FilingFacts,
    pub description: Option<String>,
}

impl CatalogEntry {
    pub fn from_tree(published: &PublishedTree) -> Self {
        let tree = &published.tree;
        let mut gaps: Vec<String> = tree.gaps.iter().map(|gap| gap.code.clone()).collect();
        // Listings filter by code; how often a gap occurs is in the tree.
        gaps.sort();
        gaps.dedup();
        Self {
            version: published.version.clone(),
            extent: tree.extent,
            sections: u32::try_from(tree.walk().count()).unwrap_or(u32::MAX),
            tokens: tree.sections.iter().map(|section| section.tokens).sum(),
            method: tree.provenance.method,
            doubt: tree.provenance.doubt.as_ref().map(|doubt| doubt.score),
            gaps,
            facts: tree.facts.clone(),
            description: tree.description.clone(),
        }
    }
}

/// A change of a document. A write-once change record holds one or more, each in a line, and is tailed by readers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    pub kind: ChangeKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Published(Box<CatalogEntry>),
    /// A tombstone was published as version `seq`.
    Removed {
        doc: DocId,
        seq: u64,
    },
    /// A version was claimed: its run is open.
    Claimed(Box<DocumentVersion>),
    /// The run of a version ended without a tree.
    Failed {
        version: Box<DocumentVersion>,
        /// The record of its failure or cancellation, a type of the engine.
        failure: Value,
    },
}

impl Change {
    /// The content of a record.
    ///
    /// # Errors
    /// If a change cannot be encoded.
    pub fn encode_record(changes: &[Self]) -> serde_json::Result<Vec<u8>> {
        let mut record = Vec::new();
        for change in changes {
            serde_json::to_writer(&mut record, change)?;
            record.push(b'\n');
        }
        Ok(record)
    }

    /// The changes of a record. One that cannot be read does not hide the others.
    pub fn decode_record(record: &[u8]) -> impl Iterator<Item = serde_json::Result<Self>> {
        let lines = record.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(serde_json::from_slice)
    }
}

impl ChangeKind {
    /// The document, and the version that the change is about.
    pub fn version(&self) -> (DocId, u64) {
        match self {
            Self::Published(entry) => (entry.version.doc, entry.version.seq),
            Self::Removed { doc, seq } => (*doc, *seq),
            Self::Claimed(version) | Self::Failed { version, .. } => (version.doc, version.seq),
        }
    }
}
