//! Why a document is in its state, and what failed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use stemma_catalog::catalog::{CatalogDocument, DocumentState};
use stemma_catalog::newest_claim;
use stemma_document::{DocId, Gap, blob_keys};
use stemma_store::PortResult;

use crate::error::shell_quoted;
use crate::{ApiError, Archive, DocumentInfo, FailureInfo};

// Largest number of artifacts to count.
const MAX_COUNTED: usize = 10_000;

/// Why a document is in its state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateExplanation {
    pub document: DocumentInfo,
    /// One sentence.
    pub cause: String,
    /// Number of stored stage results, which are not computed again.
    pub artifacts: usize,
    /// What is missing in its tree, and why.
    pub gaps: Vec<Gap>,
    /// A newer version that has no tree, and how its run failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_version: Option<u64>,
    /// What to do.
    pub next: Option<String>,
}

/// Documents whose newest run failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailureReport {
    pub total: usize,
    /// The listed ones grouped by code, most frequent first.
    pub reasons: Vec<ReasonRow>,
    /// The first of them by path, as many as were asked for.
    pub failures: Vec<FailureRow>,
}

/// Documents that failed for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonRow {
    /// Stable code.
    pub code: String,
    pub documents: usize,
    /// Locator of one of them.
    pub example: String,
    /// The message of its record.
    pub message: String,
    /// What to do.
    pub next: Option<String>,
}

/// A document that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureRow {
    pub doc_id: String,
    pub locator: String,
    /// Path as ingested.
    pub path: String,
    /// `failed`, or `done` if it has an earlier tree.
    pub state: DocumentState,
    #[serde(flatten)]
    pub failure: FailureInfo,
}

impl Archive {
    pub async fn why(&self, locator: &str) -> Result<StateExplanation, ApiError> {
        let listed = self.locate(locator)?.0;
        let artifacts = format!(
            "{}/a/",
            blob_keys::document_scope(&self.collection, listed.doc())
        );
        let blobs = &self.store.blobs;
        let artifacts = blobs.children(&artifacts, None, MAX_COUNTED).await?.len();
        let newer_version = self.newer_version(&listed).await?;
        let gaps = self
            .load_tree(&listed)
            .await?
            .map(|published| published.tree.gaps.clone())
            .unwrap_or_default();
        let (cause, next) = explain(&listed, artifacts, &gaps, newer_version);
        Ok(StateExplanation {
            document: DocumentInfo::from_catalog(&listed),
            cause,
            artifacts,
            gaps,
            newer_version,
            next,
        })
    }

    /// The newest claimed version of the document that a locator names, or else the version of its newest tree.
    pub async fn latest_version(&self, locator: &str) -> Result<(DocId, u64), ApiError> {
        let listed = self.locate(locator)?.0;
        let claimed = self.claimed_version(&listed).await?;
        Ok((listed.doc(), claimed.unwrap_or(listed.version().seq)))
    }

    // The claimed version, if it is newer than the listed tree or run.
    pub(crate) async fn newer_version(&self, listed: &CatalogDocument) -> PortResult<Option<u64>> {
        let claimed = self.claimed_version(listed).await?;
        Ok(claimed.filter(|seq| *seq > listed.version().seq))
    }

    async fn claimed_version(&self, listed: &CatalogDocument) -> PortResult<Option<u64>> {
        let blobs = self.store.blobs.as_ref();
        let newest = newest_claim(blobs, &self.collection, listed.doc()).await?;
        Ok(newest.map(|newest| newest.seq))
    }

    /// Documents in `scope` whose newest run failed.
    pub fn failures(&self, scope: &str, limit: usize) -> Result<FailureReport, ApiError> {
        let mut failures = Vec::new();
        let mut reasons: BTreeMap<String, ReasonRow> = BTreeMap::new();
        let failed = self.scope_set(scope)?.and(&self.catalog.with_failure()?);
        for listed in self.catalog.list(&failed).take(limit) {
            let listed = listed?;
            let Some(record) = listed.failure.as_deref() else {
                continue;
            };
            let failure = FailureInfo::from_record(record);
            let reason = reasons
                .entry(failure.code.clone())
                .or_insert_with(|| ReasonRow {
                    code: failure.code.clone(),
                    documents: 0,
                    example: listed.label.clone(),
                    message: failure.message.clone(),
                    next: failure.next.clone(),
                });
            reason.documents += 1;
            failures.push(FailureRow {
                doc_id: listed.doc().to_string(),
                locator: listed.label.clone(),
                path: listed.version().path.clone(),
                state: listed.state,
                failure,
            });
        }
        let mut reasons: Vec<ReasonRow> = reasons.into_values().collect();
        reasons.sort_by(|a, b| b.documents.cmp(&a.documents).then(a.code.cmp(&b.code)));
        Ok(FailureReport {
            total: failed.len(),
            reasons,
            failures,
        })
    }
}

// The reason that pages have no text: the worker lacked what reads them.
fn is_unread(gap: &Gap) -> bool {
    matches!(gap.code.as_str(), "ocr.no_engine" | "ocr.no_model")
}

fn explain(
    listed: &CatalogDocument,
    artifacts: usize,
    gaps: &[Gap],
    newer: Option<u64>,
) -> (String, Option<String>) {
    let ingest = "run the same `stemma ingest` again to resume; finished steps are saved";
    let ingest = Some(ingest.to_owned());
    if let Some(failure) = listed.failure.as_deref() {
        let tries = if failure.attempts == 1 {
            "1 try".into()
        } else {
            format!("{} tries", failure.attempts)
        };
        let before = if listed.entry().is_some() {
            "; the tree shown is of an earlier version"
        } else {
            ""
        };
        let cause = format!(
            "{}: {} (stage {}, {tries}){before}",
            failure.code, failure.message, failure.stage
        );
        return (cause, failure.next.clone());
    }
    let label = shell_quoted(&listed.label);
    match listed.state {
        DocumentState::Queued => ("queued, not started".into(), ingest),
        DocumentState::Running | DocumentState::Failed | DocumentState::Cancelled => (
            format!(
                "its run has not ended: {artifacts} results are kept, its tree is not published"
            ),
            ingest,
        ),
        _ if newer.is_some() => (
            "its tree is published; a newer version is claimed and has none yet".into(),
            ingest,
        ),
        DocumentState::DoneWithGaps => {
            let codes = gaps.iter().map(|gap| gap.code.as_str());
            let warnings: BTreeSet<&str> = codes.filter(|code| Gap::is_warning(code)).collect();
            let warnings = Vec::from_iter(warnings).join(", ");
            let mut cause = format!("its tree is published with warnings: {warnings}");
            if let Some(gap) = gaps.iter().find(|gap| is_unread(gap)) {
                cause += &format!("; {}: {}", gap.code, gap.detail);
            }
            (cause, Some(format!("stemma tree {label}")))
        }
        DocumentState::Done => ("its tree is published; nothing is missing".into(), None),
    }
}
