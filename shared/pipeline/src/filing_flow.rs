//! The flow of a document, from its bytes to a published tree.

use async_trait::async_trait;
use stemma_document::{Digest, Origin};
use stemma_engine::Ports;
use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest, RunRecord};
use stemma_engine::message::RunOutcome;
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Stage;
use stemma_store::{FailureRecord, PortResult, RunHeader, TaskKey};

use crate::FilingFlow;
use crate::settings::StructureMode;
use crate::stages::{Correct, Outline, Paginate, Publish, STAGES, StageUse, Withdraw};
use crate::{changes, llm_flow, ocr_flow, versions};

/// Raise it when the flow itself changes. Never lower it or the revision of a stage.
pub(crate) const FLOW_REVISION: u32 = 1;

#[async_trait]
impl Flow for FilingFlow {
    /// Rises with the flow and each stage, so that the next ingest rebuilds what older revisions published.
    const REVISION: u32 = FLOW_REVISION + sum(&STAGES);

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let version = versions::document_version(run)
            .map_err(|failure| FlowStop::Failed(FailureRecord::new(failure, "submit", 1, 0)))?;
        if version.origin == Origin::Removed {
            replay.outcome(&Withdraw {
                doc: version.doc,
                seq: version.seq,
            })?;
            return Ok(FlowOutput { gaps: 0 });
        }

        let paginate = Paginate::for_version(&version);
        let text = replay.outcome(&paginate)?;

        let (digest, source) = ocr_flow::recognized(replay, &paginate, &text)?;
        let mode = (replay.settings().structure, &replay.settings().model);
        let (tree, outline) = match (version.applied_correction(text.content), mode) {
            (Some(headings), _) => tree_by_person(replay, digest, source, headings)?,
            (None, (StructureMode::Layout, _) | (StructureMode::Auto, None)) => {
                tree_by_rules(replay, digest, source)?
            }
            (None, (StructureMode::Llm, _) | (StructureMode::Auto, Some(_))) => {
                llm_flow::tree_by_llm(replay, digest, source)?
            }
        };

        let publish = Publish {
            doc: version.doc,
            seq: version.seq,
            tree,
            outline,
            text: source,
        };
        let published = replay.outcome(&publish)?;
        Ok(FlowOutput {
            gaps: published.gaps,
        })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        versions::claim_version(ports, job, entry).await
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        versions::run_outcome(ports, run).await
    }

    async fn record_states(ports: &Ports, records: &[RunRecord]) -> PortResult<()> {
        changes::record_states(ports, records).await
    }
}

// Builds the tree of a text by rules. Returns its digest and the artifact whose blob `tree` holds it.
fn tree_by_rules(
    replay: &mut Replay<'_, FilingFlow>,
    text: Digest,
    source: TaskKey,
) -> Result<(Digest, TaskKey), FlowStop> {
    let outline = Outline {
        text,
        artifact: source,
    };
    let tree = replay.outcome(&outline)?;
    Ok((tree.digest, outline.key(replay.settings())))
}

// Builds the tree of a text from the headings of a person.
fn tree_by_person(
    replay: &mut Replay<'_, FilingFlow>,
    text: Digest,
    source: TaskKey,
    headings: Digest,
) -> Result<(Digest, TaskKey), FlowStop> {
    let correct = Correct {
        text,
        artifact: source,
        headings,
    };
    let tree = replay.outcome(&correct)?;
    Ok((tree.digest, correct.key(replay.settings())))
}

// A stage that came after the first ones adds its increments over the first revision: nothing was published with it before.
const fn sum(stages: &[(&str, u32, StageUse)]) -> u32 {
    match stages {
        [] => 0,
        [(_, revision, StageUse::All | StageUse::Rules), rest @ ..] => *revision + sum(rest),
        [(_, revision, _), rest @ ..] => *revision - 1 + sum(rest),
    }
}
