//! Why a document is in its state, and what failed.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::catalogue::{Listed, State};
use stemma_catalog::newest_claim;
use stemma_document::{DocId, Gap, layout};

use crate::refusal::quoted;
use crate::{DocumentView, FailureView, Reader, Refusal};

/// Artifacts counted at most.
const MAX_COUNTED: usize = 10_000;

/// Why a document is in its state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhyView {
    /// The document.
    pub document: DocumentView,
    /// One sentence.
    pub cause: String,
    /// Results of its stages that are kept and will not be paid for again.
    pub artifacts: usize,
    /// What is missing in its tree, with reasons.
    pub gaps: Vec<Gap>,
    /// A newer version that has no tree, and how its run failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_version: Option<u64>,
    /// What to do.
    pub next: Option<String>,
}

/// Documents whose newest run failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailuresView {
    /// How many.
    pub total: usize,
    /// Grouped by code, most frequent first.
    pub reasons: Vec<ReasonRow>,
    /// One by one, in order of their paths.
    pub failures: Vec<FailureRow>,
}

/// Documents that failed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonRow {
    /// Stable code.
    pub code: String,
    /// Documents.
    pub documents: usize,
    /// One of them.
    pub example: String,
    /// What its record says.
    pub message: String,
    /// What to do.
    pub next: Option<String>,
}

/// A document that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureRow {
    /// The document.
    pub doc_id: String,
    /// To paste back.
    pub locator: String,
    /// Path as ingested.
    pub path: String,
    /// Its state: `failed`, or `done` with a tree from before.
    pub state: State,
    /// How it failed.
    #[serde(flatten)]
    pub failure: FailureView,
}

impl Reader {
    /// Why the document a locator names is in its state.
    ///
    /// # Errors
    /// [`Refusal`] when it names nothing, or two things.
    pub async fn why(&self, locator: &str) -> Result<WhyView, Refusal> {
        let listed = self.locate(locator)?.0;
        let artifacts = format!(
            "{}/a/",
            layout::document_scope(&self.collection, listed.doc())
        );
        let artifacts = self
            .blobs
            .children(&artifacts, None, MAX_COUNTED)
            .await?
            .len();
        let newest = newest_claim(self.blobs.as_ref(), &self.collection, listed.doc()).await?;
        let newer_version = newest
            .map(|newest| newest.seq)
            .filter(|seq| *seq > listed.version().seq);
        let gaps = self
            .tree_of(listed)
            .await?
            .map(|published| published.tree.gaps)
            .unwrap_or_default();
        let (cause, next) = explain(listed, artifacts, &gaps, newer_version);
        Ok(WhyView {
            document: DocumentView::of(listed),
            cause,
            artifacts,
            gaps,
            newer_version,
            next,
        })
    }

    /// The newest version that was claimed of the document a locator names, or else its newest tree's.
    ///
    /// # Errors
    /// [`Refusal`] when it names nothing, or two things.
    pub async fn newest(&self, locator: &str) -> Result<(DocId, u64), Refusal> {
        let listed = self.locate(locator)?.0;
        let claimed = newest_claim(self.blobs.as_ref(), &self.collection, listed.doc()).await?;
        Ok((
            listed.doc(),
            claimed.map_or(listed.version().seq, |claimed| claimed.seq),
        ))
    }

    /// Documents in `scope` whose newest run failed.
    ///
    /// # Errors
    /// [`Refusal`] when the scope names nothing, or two things.
    pub fn failures(&self, scope: &str) -> Result<FailuresView, Refusal> {
        let mut failures = Vec::new();
        let mut reasons: BTreeMap<String, ReasonRow> = BTreeMap::new();
        for listed in self.in_scope(scope)? {
            let Some(record) = listed.failure.as_deref() else {
                continue;
            };
            let failure = FailureView::of(record);
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
        Ok(FailuresView {
            total: failures.len(),
            reasons,
            failures,
        })
    }
}

fn explain(
    listed: &Listed,
    artifacts: usize,
    gaps: &[Gap],
    newer: Option<u64>,
) -> (String, Option<String>) {
    let ingest = || {
        Some(
            "go on with the `stemma ingest` it came from: what is there is not made again"
                .to_owned(),
        )
    };
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
    let label = quoted(&listed.label);
    match listed.state {
        State::Queued => ("claimed, and nothing was made of it yet".into(), ingest()),
        State::Running | State::Failed | State::Cancelled => (
            format!(
                "its run has not ended: {artifacts} results are kept, its tree is not published"
            ),
            ingest(),
        ),
        _ if newer.is_some() => (
            "its tree is published; a newer version is claimed and has none yet".into(),
            ingest(),
        ),
        State::DoneWithGaps => {
            let what = gaps
                .iter()
                .map(|gap| gap.code.as_str())
                .collect::<std::collections::BTreeSet<_>>();
            let what: Vec<&str> = what.into_iter().collect();
            (
                format!("its tree is published with gaps: {}", what.join(", ")),
                Some(format!("stemma tree {label}")),
            )
        }
        State::Done => ("its tree is published; nothing is missing".into(), None),
    }
}
