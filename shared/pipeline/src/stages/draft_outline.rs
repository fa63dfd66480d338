//! `draft_outline`: plans the windows that a model reads, and drafts the outline from its replies.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, SectionTree};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_store::{Failure, TaskKey, TaskKeyBuilder};

use super::Outline;
use super::codec::{decode_source, parse_json, source_error, to_json, tree_settings};
use super::replies::read_replies;
use crate::llm::{
    DraftBlob, ITEMS_PER_PAGE, PlanPage, WindowReplies, outline_with_replies, plan_pages,
    plan_windows, replies_digest,
};
use crate::settings::RunSettings;
use crate::{FilingFlow, FilingTask};
use stemma_outline::enrich;

/// Drafts the outline of a text. Key: the text, the settings of structure, sections and model, and the replies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DraftOutline {
    pub(crate) text: Digest,
    /// The artifact whose blob `source` holds the text.
    pub(crate) source: TaskKey,
    /// `None` while the windows are planned.
    pub(crate) read: Option<ReadWindows>,
}

/// Windows with their replies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReadWindows {
    /// The artifact of the [`DraftOutline`] that planned them.
    pub(crate) plan: TaskKey,
    /// Digest of the replies.
    pub(crate) replies: Digest,
}

/// A plan of windows leaves the blob `asks`, the outline the blob `draft`. The blob `plan` holds all pages of
/// the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DraftOutcome {
    /// Whether the structure is final: the pages then plan sections, else windows.
    pub(crate) done: bool,
    /// Digest of the blob `plan`.
    pub(crate) plan: Digest,
    /// Number of pages of the plan.
    pub(crate) parts: u32,
    /// The first page. Most plans have no other.
    pub(crate) first: PlanPage,
}

#[async_trait]
impl Stage for DraftOutline {
    type Work = FilingFlow;
    type Outcome = DraftOutcome;

    const NAME: &'static str = "draft_outline";
    // The sum over all stages never falls: this includes the stages that are gone.
    const REVISION: u32 = 12;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        // The rules draft, so their revision counts too.
        let replies = self.replies_digest();
        identity
            .bytes(self.text.as_bytes())
            .bytes(replies.as_bytes())
            .number(u64::from(Outline::REVISION));
        identity.text(&tree_settings(settings));
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<DraftOutcome> {
        let replies = self.load_replies(task).await?;
        let packed = task.blob(&self.source, "source").await?;
        let settings = task.settings.clone();
        let outcome = task.tools.compute(&task.ports.env, move || {
            draft_outline(packed, replies, &settings)
        });
        outcome
            .await
            .map_err(|panic| Failure::transient("structure.crashed", panic))?
    }
}

impl DraftOutline {
    /// Digest of the replies; of no bytes while the windows are planned.
    pub(crate) fn replies_digest(&self) -> Digest {
        match &self.read {
            Some(read) => read.replies,
            None => Digest::from_content(&[]),
        }
    }

    // The replies, as the flow has them; `None` while the windows are planned.
    async fn load_replies(&self, task: &FilingTask<'_>) -> Result<Option<WindowReplies>, Failure> {
        let Some(read) = &self.read else {
            return Ok(None);
        };
        let parts: Vec<PlanPage> = parse_json(&task.blob(&read.plan, "plan").await?)?;
        let windows = parts.into_iter().flat_map(|part| part.windows).collect();
        let replies = read_replies(task, self.source, read.plan, windows).await?;
        if replies_digest(&replies) != read.replies {
            let message = "the answers differ from those that the flow read";
            return Err(Failure::transient("model.answers_changed", message));
        }
        Ok(Some(replies))
    }
}

// Pure (I-12).
fn draft_outline(
    packed: Bytes,
    replies: Option<WindowReplies>,
    settings: &RunSettings,
) -> StageResult<DraftOutcome> {
    let source = decode_source(packed)?;
    let replies = match replies {
        Some(replies) => replies,
        None => {
            let planned = plan_windows(&source, settings).map_err(source_error)?;
            if !planned.is_empty() {
                let (digests, windows): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
                let parts = digests.chunks(ITEMS_PER_PAGE).map(|some| PlanPage {
                    windows: some.to_vec(),
                    ..PlanPage::default()
                });
                let asks = ("asks", to_json(&windows)?);
                return draft_output(false, parts.collect(), vec![asks]);
            }
            WindowReplies::new()
        }
    };
    let (draft, answers) =
        outline_with_replies(&source, settings, &replies).map_err(source_error)?;
    let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
    let tree = enrich::measure_tree(tree, &source);
    let parts = plan_pages(&source, &tree, settings);
    let blob = DraftBlob {
        tree,
        draft,
        answers,
    };
    draft_output(true, parts, vec![("draft", to_json(&blob)?)])
}

fn draft_output(
    done: bool,
    parts: Vec<PlanPage>,
    mut blobs: Vec<(&'static str, Bytes)>,
) -> StageResult<DraftOutcome> {
    let plan = to_json(&parts)?;
    let outcome = DraftOutcome {
        done,
        plan: Digest::from_content(&plan),
        parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        first: parts.into_iter().next().unwrap_or_default(),
    };
    blobs.push(("plan", plan));
    Ok(StageOutput::new(outcome, blobs))
}
