//! `assemble`: builds the finished tree from the draft and all answers.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_document::{
    Digest, Gap, ModelAnswers, PageSpan, Section, SectionId, SectionTree, Summary,
};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageResult};
use stemma_store::{Failure, TaskKey, TaskKeyBuilder};

use super::codec::{EncodedText, parse_json, source_error, tree_settings};
use super::outline::{TreeOutcome, compute_tree, finish_draft};
use super::replies::read_section_answers;
use super::{DescriptionBlob, Outline, StageUse, revisions};
use crate::llm::{DraftBlob, PlanPage, SectionAnswers, StageUsage, SummaryPlan};
use crate::settings::{ModelSettings, OnModelFailure, Purpose, RunSettings};
use crate::{FilingFlow, FilingTask};
use stemma_outline::enrich;

const MAX_CONCURRENT_READS: usize = 32;
// Further sections without a summary are only counted.
const MAX_LISTED_GAPS: usize = 20;

/// Builds the tree. Key: the text, the settings, and all answers (those about structure determine the draft).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assemble {
    pub(crate) text: Digest,
    /// The artifact whose blob `source` holds the text.
    pub(crate) source: TaskKey,
    /// The artifact of [`DraftOutline`](super::DraftOutline).
    pub(crate) draft: TaskKey,
    /// Digest of all answers about structure.
    pub(crate) drafted: Digest,
    /// Digest of all answers about sections.
    pub(crate) answers: Digest,
}

#[async_trait]
impl Stage for Assemble {
    type Work = FilingFlow;
    type Outcome = TreeOutcome;

    const NAME: &'static str = "assemble";
    const REVISION: u32 = 6;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        // The rules draft, and find facts, Items and references, so their revision counts too.
        identity
            .bytes(self.text.as_bytes())
            .bytes(self.drafted.as_bytes())
            .bytes(self.answers.as_bytes())
            .number(u64::from(Outline::REVISION));
        identity.text(&tree_settings(settings));
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<TreeOutcome> {
        let plan = self.plan(task).await?;
        let (answers, usage) = read_section_answers(task, &plan).await?;
        if answers.digest() != self.answers {
            let message = "the answers differ from those that the flow read";
            return Err(Failure::transient("model.answers_changed", message));
        }
        let summaries = load_summaries(task, &answers).await?;
        let text = EncodedText::load(task, &self.source).await?;
        let draft = task.tools.text_cache.draft(task, &self.draft).await?;
        let settings = task.settings.clone();
        let description = load_description(task, &answers).await?;
        // A section may have a summary although some of its stretches have none.
        let unanswered = plan.summaries.unanswered_stretches(&answers.summaries);
        let collected = CollectedAnswers {
            answers,
            summaries,
            unanswered,
            description,
        };
        compute_tree(task, move || {
            assemble_tree(text, &draft, collected, &usage, &settings)
        })
        .await
    }
}

impl Assemble {
    // The same plan as the flow has.
    async fn plan(&self, task: &FilingTask<'_>) -> Result<SummaryPlan, Failure> {
        let parts: Vec<PlanPage> = parse_json(&task.blob(&self.draft, "plan").await?)?;
        Ok(SummaryPlan::from_pages(self.draft, self.source, parts))
    }
}

// By section index.
async fn load_summaries(
    task: &FilingTask<'_>,
    answers: &SectionAnswers,
) -> Result<BTreeMap<usize, String>, Failure> {
    let answered = answers.summaries.iter().enumerate();
    let answered = answered.filter_map(|(index, answered)| {
        let (key, answer) = answered.as_ref()?;
        answer.is_ok().then_some((index, *key))
    });
    stream::iter(answered.collect::<Vec<_>>())
        .map(|(index, key): (usize, TaskKey)| async move {
            let text = task.blob(&key, "summary").await?;
            Ok::<_, Failure>((index, String::from_utf8_lossy(&text).into_owned()))
        })
        .buffered(MAX_CONCURRENT_READS)
        .try_collect()
        .await
}

async fn load_description(
    task: &FilingTask<'_>,
    answers: &SectionAnswers,
) -> Result<Option<DescriptionBlob>, Failure> {
    let Some((key, Ok(_))) = &answers.description else {
        return Ok(None);
    };
    let json = task.blob(key, "described").await?;
    parse_json(&json).map(Some)
}

struct CollectedAnswers {
    answers: SectionAnswers,
    // By section index.
    summaries: BTreeMap<usize, String>,
    // Sections with an unanswered stretch of their own text, and the code of the failure.
    unanswered: Vec<(usize, String)>,
    description: Option<DescriptionBlob>,
}

// Pure (I-12).
fn assemble_tree(
    text: EncodedText,
    blob: &DraftBlob,
    collected: CollectedAnswers,
    usage: &BTreeMap<TaskKey, StageUsage>,
    settings: &RunSettings,
) -> Result<SectionTree, Failure> {
    let answers = collected.answers;
    let mut summaries = collected.summaries;
    let (source, readings) = text.decode()?;
    let Some(model) = &settings.model else {
        return Err(source_error("the settings name no model"));
    };
    let draft = &blob.draft;
    let mut tree = finish_draft(draft, &source, &readings, settings);
    let mut missing = Vec::new();
    let sections = &mut tree.sections;
    apply_summaries(sections, model, &answers, &mut summaries, &mut missing);
    for (index, code) in collected.unanswered {
        let id = u32::try_from(index).ok().map(SectionId);
        if let Some(section) = id.and_then(|id| tree.section(id)) {
            let fallback = SummaryFallback::Partial;
            missing.push(MissingSummary::for_section(section, code, fallback));
        }
    }
    tree.gaps.extend(summary_gaps(&missing));
    tree.provenance.model.clone_from(&model.name);
    let mut summed = SectionAnswers::usage_totals(&blob.answers, usage);
    apply_description(&mut tree, collected.description, &answers, &mut summed);
    tree.provenance.answers = Some(summed);
    tree.provenance.revisions = revisions(&source, &[StageUse::All, StageUse::Model]);
    Ok(tree)
}

// A section whose model summary is missing, or covers a part of its text only.
struct MissingSummary {
    structure: String,
    pages: Option<PageSpan>,
    code: String,
    fallback: SummaryFallback,
}

// The summary that a section gets instead.
enum SummaryFallback {
    None,
    ByRules,
    Partial,
}

impl MissingSummary {
    fn for_section(section: &Section, code: String, fallback: SummaryFallback) -> Self {
        Self {
            structure: section.structure.clone(),
            pages: section.span.pages(),
            code,
            fallback,
        }
    }
}

// Replaces the summaries made by rules, in pre-order.
fn apply_summaries(
    sections: &mut [Section],
    model: &ModelSettings,
    answers: &SectionAnswers,
    summaries: &mut BTreeMap<usize, String>,
    missing: &mut Vec<MissingSummary>,
) {
    for section in sections {
        let index = section.id.0 as usize;
        match (summaries.remove(&index), answers.summaries.get(index)) {
            (Some(text), _) => {
                section.summary = Some(Summary {
                    text,
                    by: model.name_for(Purpose::Summaries).into(),
                });
            }
            (None, Some(Some((_, Err(code))))) => {
                let offline = model.on_failure == OnModelFailure::Offline;
                section.summary = section.summary.take().filter(|_| offline);
                let fallback = match offline {
                    true => SummaryFallback::ByRules,
                    false => SummaryFallback::None,
                };
                missing.push(MissingSummary::for_section(section, code.clone(), fallback));
            }
            // Too short to be summarized: its text is its summary.
            _ => {}
        }
        apply_summaries(&mut section.children, model, answers, summaries, missing);
    }
}

// Replaces the description made by rules. The model's facts only fill in those that rules did not find.
fn apply_description(
    tree: &mut SectionTree,
    described: Option<DescriptionBlob>,
    answers: &SectionAnswers,
    summed: &mut ModelAnswers,
) {
    if let Some(described) = described {
        tree.description = Some(described.description);
        summed.described = true;
        summed.facts_dropped = described.dropped;
        let unfit = enrich::fill_missing(&mut tree.facts, &described.facts);
        summed.facts_dropped.extend(unfit);
    }
    if let Some((_, Err(code))) = &answers.description {
        let detail =
            format!("the description was made by rules: the model did not answer ({code})");
        tree.gaps.push(Gap {
            code: "model.describe_failed".into(),
            pages: None,
            detail,
        });
    }
}

fn summary_gaps(missing: &[MissingSummary]) -> Vec<Gap> {
    let gap = |pages: Option<PageSpan>, detail: String| Gap {
        code: "model.summary_failed".into(),
        pages,
        detail,
    };
    let listed = missing.iter().take(MAX_LISTED_GAPS).map(|one| {
        let fallback = match one.fallback {
            SummaryFallback::None => "has no summary",
            SummaryFallback::ByRules => "has a summary made by rules",
            SummaryFallback::Partial => "has a summary of a part of its text",
        };
        let MissingSummary {
            structure, code, ..
        } = one;
        let detail = format!("section {structure} {fallback}: the model did not answer ({code})");
        gap(one.pages, detail)
    });
    let more = missing.len().saturating_sub(MAX_LISTED_GAPS);
    let more = (more > 0).then(|| {
        gap(
            None,
            format!("{more} more sections were not answered about"),
        )
    });
    listed.chain(more).collect()
}
