//! What is submitted: a document, where its bytes are, and how they are identified.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{CompanionFile, CorrectionRef, Digest, DocumentVersion, Origin};
use stemma_engine::flow::JobEntry;
use stemma_engine::objects::ObjectMeta;
use stemma_store::env::Millis;
use stemma_store::{PortError, PortResult, RunHeader};

use crate::filing_folders::PlannedObject;
use crate::sources::object_uri;

// Bytes per token when collections are weighed for fairness: most of a PDF is not text.
const BYTES_PER_TOKEN: u64 = 16;

/// A submitted document: the content of [`stemma_engine::jobs::JobEntry::input`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Canonical location of the bytes, e.g. `file:///archive/a.pdf` or `s3://filings/a%20b.pdf`.
    pub uri: String,
    /// File name, for display.
    pub name: String,
    /// Path relative to the submitted folder, including the name.
    pub path: String,
    /// Identifies the bytes as `origin` says. Another value is another version.
    pub source: Digest,
    /// How the bytes are identified: files by content, objects by their ETag.
    #[serde(skip_serializing_if = "is_content", default)]
    pub origin: Origin,
    pub size_bytes: u64,
    /// Facts of a sidecar, by the names of [`FactDefinition`](stemma_document::FactDefinition).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub stated: BTreeMap<String, String>,
    /// What index files say of the document: [`index_facts`](crate::filing_facts::index_facts).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub filing: BTreeMap<String, String>,
    /// The label linkbase next to the document. Another one is another version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub labels: Option<Box<CompanionFile>>,
    /// Tries a version again, as a new version, if it failed before or if a model left questions unanswered.
    pub retry_failed: bool,
    #[serde(skip_serializing_if = "CorrectionChange::is_keep", default)]
    pub correction: CorrectionChange,
    /// The object that was seen; `None` for what is not an object.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<SeenObject>,
}

/// When the state of an object was made, and whether a newer one is to be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SeenObject {
    /// Last modification, of the document or of what else its folder says about it; 0 if unknown.
    pub modified_ms: Millis,
    /// Set if the state at the time of the claim counts, instead of the one that was seen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub follow: Option<FollowedObject>,
}

/// An object whose current state is indexed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedObject {
    pub bucket: String,
    pub key: String,
    /// Prefix of the configured source; the path of the document starts below it.
    pub prefix: String,
}

/// What a submission does to the structure that a person gave the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CorrectionChange {
    /// Keeps it: every submission of a file.
    #[default]
    Keep,
    Set {
        correction: CorrectionRef,
        /// The correction that the person saw. If the document has another one by now, the submission is refused.
        replaces: Option<CorrectionRef>,
    },
    /// Removes it, so that rules or a model decide again.
    Reset,
}

impl CorrectionChange {
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

fn is_content(origin: &Origin) -> bool {
    *origin == Origin::Content
}

impl Submission {
    /// A document whose content has this digest and size, without stated facts. `path` is only displayed.
    pub fn from_content(uri: String, path: String, source: Digest, size_bytes: u64) -> Self {
        Self {
            name: path.rsplit('/').next().unwrap_or_default().into(),
            uri,
            path,
            source,
            origin: Origin::Content,
            size_bytes,
            stated: BTreeMap::new(),
            filing: BTreeMap::new(),
            labels: None,
            retry_failed: false,
            correction: CorrectionChange::Keep,
            object: None,
        }
    }

    /// Reports that the document at `uri` was removed. Its next version is a tombstone.
    pub fn for_removal(uri: String, path: String) -> Self {
        Self {
            origin: Origin::Removed,
            ..Self::from_content(uri, path, Digest::from_content(b""), 0)
        }
    }

    /// An object of a bucket, found under the prefix `below`.
    pub fn from_object(bucket: &str, below: &str, entry: &ObjectMeta) -> Self {
        let path = entry
            .key
            .strip_prefix(below)
            .unwrap_or(&entry.key)
            .trim_start_matches('/');
        let path = if path.is_empty() {
            entry.key.as_str()
        } else {
            path
        };
        let uri = object_uri(bucket, &entry.key);
        let source = Digest::from_object(&entry.etag, entry.size_bytes);
        Self {
            name: entry.key.rsplit('/').next().unwrap_or_default().into(),
            origin: Origin::Object {
                etag: entry.etag.clone(),
                version: entry.version.clone(),
            },
            object: Some(SeenObject {
                modified_ms: entry.modified_ms,
                follow: None,
            }),
            ..Self::from_content(uri, path.into(), source, entry.size_bytes)
        }
    }

    /// The state of a followed object: what is there, or its removal.
    pub fn from_followed(object: &FollowedObject, found: Option<&ObjectMeta>) -> Self {
        let seen = match found {
            Some(entry) => Self::from_object(&object.bucket, &object.prefix, entry),
            None => {
                let below = object.key.strip_prefix(&object.prefix);
                let path = below.unwrap_or(&object.key).trim_start_matches('/');
                let path = if path.is_empty() { &object.key } else { path };
                Self::for_removal(object_uri(&object.bucket, &object.key), path.into())
            }
        };
        Self {
            object: Some(SeenObject {
                modified_ms: found.map_or(0, |entry| entry.modified_ms),
                follow: Some(object.clone()),
            }),
            ..seen
        }
    }

    /// Adds what the folder of a filing says about the document. The state is as new as the newest file that it comes from.
    pub fn with_filing(self, planned: PlannedObject<'_>) -> Self {
        Self {
            filing: planned.filing,
            labels: planned.labels,
            object: self.object.map(|seen| SeenObject {
                modified_ms: seen.modified_ms.max(planned.modified_ms),
                ..seen
            }),
            ..self
        }
    }

    /// The entry of the document in a job.
    ///
    /// # Errors
    /// A permanent [`PortError`] when it cannot be encoded.
    pub fn job_entry(&self) -> PortResult<JobEntry> {
        let weight = self.size_bytes / BYTES_PER_TOKEN + 1;
        let input = serde_json::to_value(self).map_err(|error| {
            PortError::permanent("blobs.put", format!("{}: {error}", self.path))
        })?;
        Ok(JobEntry { weight, input })
    }

    /// The submission that repeats the document of a run; `None` if the run has no document.
    pub fn resubmit(run: &RunHeader) -> Option<Self> {
        let version: DocumentVersion = serde_json::from_value(run.input.clone()).ok()?;
        Some(Self::for_version(version))
    }

    /// The submission that repeats a version.
    pub(crate) fn for_version(version: DocumentVersion) -> Self {
        Self {
            uri: version.uri,
            name: version.name,
            path: version.path,
            source: version.source,
            origin: version.origin,
            size_bytes: version.size_bytes,
            stated: version.sidecar_facts,
            filing: version.filing_facts,
            labels: version.labels,
            retry_failed: true,
            correction: CorrectionChange::Keep,
            object: None,
        }
    }
}
