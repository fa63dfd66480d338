//! Which failed documents to submit again.

use std::str::FromStr;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_archive::{Archive, FailureRow};
use stemma_engine::JobId;
use stemma_pipeline::Submission;

use crate::{Operations, OperationsError};

const READS_AT_ONCE: usize = 16;

/// A condition on failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureFilter {
    /// The failure code, or a prefix with `*`.
    Code(String),
    Stage(String),
    Doc(String),
}

impl FromStr for FailureFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("code", value)) => Ok(Self::Code(value.into())),
            Some(("stage", value)) => Ok(Self::Stage(value.into())),
            Some(("doc", value)) => Ok(Self::Doc(value.into())),
            _ => Err(format!(
                "invalid filter `{text}`; use code=…, stage=… or doc=…"
            )),
        }
    }
}

impl FailureFilter {
    fn matches(&self, row: &FailureRow) -> bool {
        match self {
            Self::Code(code) => match code.strip_suffix('*') {
                Some(beginning) => row.failure.code.starts_with(beginning),
                None => row.failure.code == *code,
            },
            Self::Stage(stage) => row.failure.stage == *stage,
            Self::Doc(doc) => [&row.doc_id, &row.locator, &row.path].contains(&doc),
        }
    }
}

/// A failed document that can be submitted again.
#[derive(Debug, Clone)]
pub struct RetryCandidate {
    pub locator: String,
    pub submission: Submission,
}

impl Operations {
    /// The failed documents that match all `filters` and, if a job is given, that it ran last.
    ///
    /// # Errors
    /// [`OperationsError`] when the store does not answer.
    pub async fn failed_documents_to_retry(
        &self,
        reader: &Archive,
        job: Option<&JobId>,
        filters: &[FailureFilter],
    ) -> Result<Vec<RetryCandidate>, OperationsError> {
        let rows = reader.failures("/", usize::MAX)?.failures.into_iter();
        let rows = rows.filter(|row| filters.iter().all(|filter| filter.matches(row)));
        let chosen: Vec<Option<RetryCandidate>> = stream::iter(rows)
            .map(|row: FailureRow| async move {
                let (doc, seq) = reader.latest_version(&row.doc_id).await?;
                let run = stemma_pipeline::run_id(doc, seq);
                let header = self.run_header(&run).await?;
                let header = header
                    .filter(|header| job.is_none_or(|job| header.opened_by.split().0 == *job));
                let submission = header.and_then(|header| Submission::resubmit(&header));
                Ok::<_, OperationsError>(submission.map(|submission| RetryCandidate {
                    locator: row.locator,
                    submission,
                }))
            })
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(chosen.into_iter().flatten().collect())
    }
}
