//! `outline`: builds the section tree of a text by rules.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, Gap, Method, PageSpan, SectionTree, Source};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_store::{Failure, TaskKey, TaskKeyBuilder};

use super::codec::{EncodedText, source_error, to_json};
use super::{StageUse, revisions};
use crate::settings::RunSettings;
use crate::{FilingFlow, FilingTask};
use stemma_outline::{finish_tree, structure};
use stemma_reading::document_reading::LineReadings;

/// Finds and enriches the sections of a text. Key: the text and the structure settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outline {
    pub(crate) text: Digest,
    /// The artifact whose blobs `source` and `reading` hold the text.
    pub(crate) artifact: TaskKey,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TreeOutcome {
    /// Digest of the blob `tree`.
    pub(crate) digest: Digest,
    pub(crate) sections: u32,
    pub(crate) method: Method,
    /// Score of the doubt about it (0–1).
    pub(crate) doubt: f32,
}

impl TreeOutcome {
    fn new(tree: &SectionTree, json: &[u8]) -> Self {
        Self {
            digest: Digest::from_content(json),
            sections: u32::try_from(tree.walk().count()).unwrap_or(u32::MAX),
            method: tree.provenance.method,
            doubt: (tree.provenance.doubt.as_ref()).map_or(0.0, |doubt| doubt.score),
        }
    }
}

#[async_trait]
impl Stage for Outline {
    type Work = FilingFlow;
    type Outcome = TreeOutcome;

    const NAME: &'static str = "outline";
    const REVISION: u32 = 36;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        let settings = (&settings.structure, &settings.outline, &settings.sections);
        identity
            .bytes(self.text.as_bytes())
            .text(&serde_json::to_string(&settings).unwrap_or_default());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<TreeOutcome> {
        let text = EncodedText::load(task, &self.artifact).await?;
        let settings = task.settings.clone();
        compute_tree(task, move || outline_tree(text, &settings)).await
    }
}

/// Builds a tree off the async threads, and stores it as the blob `tree`.
pub(super) async fn compute_tree(
    task: &FilingTask<'_>,
    build: impl FnOnce() -> Result<SectionTree, Failure> + Send + 'static,
) -> StageResult<TreeOutcome> {
    let tree = task.tools.compute(&task.ports.env, build).await;
    let tree = tree.map_err(|panic| Failure::transient("structure.crashed", panic))??;
    let json = to_json(&tree)?;
    let outcome = TreeOutcome::new(&tree, &json);
    Ok(StageOutput::new(outcome, vec![("tree", json)]))
}

// Pure (I-12).
fn outline_tree(text: EncodedText, settings: &RunSettings) -> Result<SectionTree, Failure> {
    let (source, readings) = text.decode()?;
    let draft = structure::outline(&source, &settings.outline).map_err(source_error)?;
    let mut tree = finish_draft(&draft, &source, &readings, settings);
    tree.provenance.revisions = revisions(&source, &[StageUse::All, StageUse::Rules]);
    Ok(tree)
}

/// The finished tree of a draft.
pub(super) fn finish_draft(
    draft: &structure::Draft,
    source: &Source,
    readings: &LineReadings,
    settings: &RunSettings,
) -> SectionTree {
    finish_tree(
        draft,
        source,
        readings,
        defect_gaps(source),
        &settings.sections,
    )
}

// Every defect of the source is a gap of the tree (I-10).
fn defect_gaps(source: &Source) -> impl Iterator<Item = Gap> {
    source.defects.iter().map(|defect| Gap {
        code: defect.code.clone(),
        pages: defect.page.map(|page| PageSpan::between(page, page)),
        detail: defect.detail.clone(),
    })
}
