//! `draft_part`: loads a further page of a plan that is too long for one outcome.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::Digest;
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_store::{Failure, TaskKey, TaskKeyBuilder};

use crate::llm::PlanPage;
use crate::settings::RunSettings;
use crate::{FilingFlow, FilingTask};

/// Loads one page of a plan. Key: the plan and the page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LoadPlanPage {
    pub(crate) plan: Digest,
    /// The artifact whose blob `plan` holds it.
    pub(crate) draft: TaskKey,
    /// Counts from 0. Page 0 is part of the outcome of `draft_outline`.
    pub(crate) part: u32,
}

#[async_trait]
impl Stage for LoadPlanPage {
    type Work = FilingFlow;
    type Outcome = PlanPage;

    const NAME: &'static str = "draft_part";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, _settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identity
            .bytes(self.plan.as_bytes())
            .number(u64::from(self.part));
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<PlanPage> {
        let json = task.blob(&self.draft, "plan").await?;
        let unreadable = |error: String| Failure::permanent("structure.plan", error);
        let parts: Vec<PlanPage> =
            serde_json::from_slice(&json).map_err(|error| unreadable(error.to_string()))?;
        let part = parts
            .into_iter()
            .nth(self.part as usize)
            .map(StageOutput::from);
        part.ok_or_else(|| unreadable(format!("the plan has no part {}", self.part)))
    }
}
