//! The walk of a document on one screen.

use async_trait::async_trait;
use stemma_document::{Digest, DocumentVersion, Origin};
use stemma_engine::flow::{Claim, Finish, Flow, JobEntry, Manifest};
use stemma_engine::message::Ending;
use stemma_engine::replay::{Replay, Stop};
use stemma_engine::stage::Stage;
use stemma_engine::{Env, Failure, FailureRecord, PortError, Ports, RunHeader, TaskKey};

use crate::Filings;
use crate::settings::StructureMode;
use crate::stages::{MODEL_REVISIONS, Outline, Paginate, Publish, REVISIONS, Withdraw};
use crate::{claim, model};

/// Raised when the flow itself changes. Neither it nor the revision of a stage ever falls.
pub(crate) const FLOW: u32 = 1;

#[async_trait]
impl Flow for Filings {
    /// Rises with the flow and with each of its stages, so that the next ingest makes anew what older ones published.
    const REVISION: u32 = FLOW + sum(&REVISIONS) + raised(&MODEL_REVISIONS);

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<Finish, Stop> {
        let version = version(run)
            .map_err(|failure| Stop::Failed(FailureRecord::of(failure, "submit", 1, 0)))?;
        if version.origin == Origin::Removed {
            replay.one(&Withdraw {
                doc: version.doc,
                seq: version.seq,
            })?;
            return Ok(Finish { gaps: 0 });
        }

        let paginate = Paginate::of(&version);
        let text = replay.one(&paginate)?;

        let source = paginate.key(replay.settings());
        let (tree, outline) = match (replay.settings().structure, &replay.settings().model) {
            (StructureMode::Layout, _) | (StructureMode::Auto, None) => {
                by_rules(replay, text.digest, source)?
            }
            (StructureMode::Llm, _) | (StructureMode::Auto, Some(_)) => {
                model::tree(replay, text.digest, source)?
            }
        };

        let publish = Publish {
            doc: version.doc,
            seq: version.seq,
            tree,
            outline,
            text: source,
        };
        let published = replay.one(&publish)?;
        Ok(Finish {
            gaps: published.gaps,
        })
    }

    async fn claim(
        env: &Env,
        ports: &Ports,
        job: &Manifest,
        entry: &JobEntry,
    ) -> Result<Claim, PortError> {
        claim::claim(env, ports, job, entry).await
    }

    async fn ending(
        env: &Env,
        ports: &Ports,
        run: &RunHeader,
    ) -> Result<Option<Ending>, PortError> {
        claim::ending(env, ports, run).await
    }
}

/// The tree of a text under `source`, found by rules: its digest, and the artifact whose blob `tree` holds it.
fn by_rules(
    replay: &mut Replay<'_, Filings>,
    text: Digest,
    source: TaskKey,
) -> Result<(Digest, TaskKey), Stop> {
    let outline = Outline {
        text,
        artifact: source,
    };
    let tree = replay.one(&outline)?;
    Ok((tree.digest, outline.key(replay.settings())))
}

const fn sum(stages: &[(&str, u32)]) -> u32 {
    match stages {
        [] => 0,
        [(_, revision), rest @ ..] => *revision + sum(rest),
    }
}

/// By how much stages rose above their first revision: one that is new raises nothing, for nothing was published under it.
const fn raised(stages: &[(&str, u32)]) -> u32 {
    match stages {
        [] => 0,
        [(_, revision), rest @ ..] => *revision - 1 + raised(rest),
    }
}

/// The version a run is about.
pub(crate) fn version(run: &RunHeader) -> Result<DocumentVersion, Failure> {
    serde_json::from_value(run.input.clone()).map_err(|error| {
        Failure::permanent(
            "engine.header_invalid",
            format!("{}: {error}", run.at.header),
        )
    })
}
