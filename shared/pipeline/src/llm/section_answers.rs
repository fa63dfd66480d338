//! The answers about sections. The flow reads them from its ledger, `assemble` from artifacts, and both must
//! get the same digest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, ModelAnswers};
use stemma_store::TaskKey;

use super::usage::StageUsage;

/// An answer, or the code of the failure.
pub(crate) type ReplyResult<T> = Result<T, String>;

/// Refers to a summary in the blob `summary`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryRef {
    /// Digest of title and summary, as far as the parent reads them.
    pub digest: Digest,
    #[serde(rename = "spent")]
    pub usage: StageUsage,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct SectionAnswers {
    /// Per section, with the task that made it.
    pub(crate) summaries: Vec<Option<(TaskKey, ReplyResult<SummaryRef>)>>,
    #[serde(rename = "described")]
    pub(crate) description: Option<(TaskKey, ReplyResult<SummaryRef>)>,
}

impl SectionAnswers {
    /// Digest of everything that a tree takes from them.
    pub(crate) fn digest(&self) -> Digest {
        // Plain data always serializes.
        Digest::from_content(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Token usage for the tree. Each task counts once, because sections with the same text share it.
    pub(crate) fn usage_totals(
        outline: &ModelAnswers,
        usage: &BTreeMap<TaskKey, StageUsage>,
    ) -> ModelAnswers {
        let mut totals = outline.clone();
        for task in usage.values() {
            totals.calls = totals.calls.saturating_add(1);
            totals.prompt_tokens += u64::from(task.prompt_tokens);
            totals.output_tokens += u64::from(task.output_tokens);
        }
        totals
    }
}
