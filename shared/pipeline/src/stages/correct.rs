//! `correct`: builds the section tree from the outline of a person.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, SectionTree, blob_keys};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageResult};
use stemma_outline::correction::{self, Correction};
use stemma_outline::structure;
use stemma_store::blobs::Blobs;
use stemma_store::{Failure, TaskKey, TaskKeyBuilder};

use super::codec::{EncodedText, parse_json, source_error};
use super::outline::{TreeOutcome, compute_tree, finish_draft};
use super::{Outline, StageUse, revisions};
use crate::settings::RunSettings;
use crate::{FilingFlow, FilingTask};

/// Replaces the outline of the rules or of a model. Key: the text, the headings of the person, and the settings and rules that
/// complete a tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Correct {
    pub(crate) text: Digest,
    /// The artifact whose blob `source` holds the text.
    pub(crate) artifact: TaskKey,
    /// Digest of the [`Correction`].
    pub(crate) headings: Digest,
}

#[async_trait]
impl Stage for Correct {
    type Work = FilingFlow;
    type Outcome = TreeOutcome;

    const NAME: &'static str = "correct";
    const REVISION: u32 = 3;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        let settings = (&settings.outline, &settings.sections);
        // The rules find page labels, facts, Items and references, so their revision counts too.
        identity
            .bytes(self.text.as_bytes())
            .bytes(self.headings.as_bytes())
            .number(u64::from(Outline::REVISION))
            .text(&serde_json::to_string(&settings).unwrap_or_default());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<TreeOutcome> {
        let key = blob_keys::correction_key(&task.run.scope, self.headings);
        let headings = task.ports.blobs.get(&key).await?.ok_or_else(|| {
            Failure::permanent(
                "correct.correction_missing",
                format!("{key} is not in the store"),
            )
            .with_next("remove the correction with `stemma outline reset`")
        })?;
        let correction: Correction = parse_json(&headings)?;
        let text = EncodedText::load(task, &self.artifact).await?;
        let settings = task.settings.clone();
        compute_tree(task, move || corrected_tree(text, &correction, &settings)).await
    }
}

// Pure (I-12).
fn corrected_tree(
    text: EncodedText,
    correction: &Correction,
    settings: &RunSettings,
) -> Result<SectionTree, Failure> {
    let (source, readings) = text.decode()?;
    let rules = structure::outline(&source, &settings.outline).map_err(source_error)?;
    let draft = correction::draft(&source, rules, correction).map_err(source_error)?;
    let mut tree = finish_draft(&draft, &source, &readings, settings);
    let uses = [StageUse::All, StageUse::Rules, StageUse::Person];
    tree.provenance.revisions = revisions(&source, &uses);
    Ok(tree)
}
