//! Assemble: draft and answers become the finished tree.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_document::{
    Digest, Gap, ModelAnswers, PageSpan, Section, SectionId, SectionTree, Summary,
};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};
use stemma_extract::Packed;

use super::outline::{Tree, defects};
use super::{Described, MODEL_REVISIONS, Outline, REVISIONS};
use crate::Filings;
use crate::model::{Answers, DraftBlob, Part, Plan, Spent, gather};
use crate::settings::{ModelSettings, OnModelFailure, Purpose, Settings};
use stemma_outline::{items, sections};

/// Summaries that are read at once.
const AT_ONCE: usize = 32;
/// Sections without a summary that are named one by one.
const NAMED: usize = 20;

/// Makes the tree. Key: the text, the settings, and all answers (those about structure settle the draft).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assemble {
    /// Digest of the text.
    pub text: Digest,
    /// The artifact whose blob `source` holds it.
    pub source: TaskKey,
    /// The artifact of [`DraftOutline`](super::DraftOutline).
    pub draft: TaskKey,
    /// Digest of all answers about structure.
    pub drafted: Digest,
    /// Digest of all answers about sections.
    pub answers: Digest,
}

#[async_trait]
impl Stage for Assemble {
    type Work = Filings;
    type Outcome = Tree;

    const NAME: &'static str = "assemble";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        let settings = (
            &settings.structure,
            &settings.outline,
            &settings.sections,
            &settings.model,
        );
        identity
            .bytes(self.text.as_bytes())
            .bytes(self.drafted.as_bytes())
            .bytes(self.answers.as_bytes());
        identity.text(&serde_json::to_string(&settings).unwrap_or_default());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Tree>, Failure> {
        let plan = self.plan(task).await?;
        let (answers, spent) = gather(task, &plan).await?;
        if answers.digest() != self.answers {
            let message =
                "answers are not those that the flow read; someone changed them meanwhile";
            return Err(Failure::transient("model.answers_changed", message));
        }
        let summaries = summaries(task, &answers).await?;
        let packed = task.blob(&self.source, "source").await?;
        let draft = task.tools.texts.draft(task, &self.draft).await?;
        let settings = task.settings.clone();
        let described = described(task, &answers).await?;
        let unread = plan.summaries.unread(&answers.summaries);
        let told = Told {
            answers,
            summaries,
            unread,
            described,
        };
        let tree = task
            .env
            .compute(move || assemble(packed, &draft, told, &spent, &settings))
            .await;
        let tree = tree.map_err(|panic| Failure::transient("structure.crashed", panic))??;
        let json = serde_json::to_vec(&tree).map_err(|error| json_error(&error))?;
        Ok(Output::new(
            Tree::of(&tree, &json),
            vec![("tree", json.into())],
        ))
    }
}

impl Assemble {
    /// The plan as the flow had it.
    async fn plan(&self, task: &Task<'_, Filings>) -> Result<Plan, Failure> {
        let parts: Vec<Part> = serde_json::from_slice(&task.blob(&self.draft, "plan").await?)
            .map_err(|error| json_error(&error))?;
        Ok(Plan::of(self.draft, self.source, parts))
    }
}

fn json_error(error: &serde_json::Error) -> Failure {
    Failure::permanent("structure.json", error.to_string())
}

/// The texts of all summaries, by the index of the section.
async fn summaries(
    task: &Task<'_, Filings>,
    answers: &Answers,
) -> Result<BTreeMap<usize, String>, Failure> {
    let told = answers
        .summaries
        .iter()
        .enumerate()
        .filter_map(|(index, told)| {
            let (key, answer) = told.as_ref()?;
            answer.is_ok().then_some((index, *key))
        });
    stream::iter(told.collect::<Vec<_>>())
        .map(|(index, key): (usize, TaskKey)| async move {
            let text = task.blob(&key, "summary").await?;
            Ok::<_, Failure>((index, String::from_utf8_lossy(&text).into_owned()))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

/// What was written about the document as a whole.
async fn described(
    task: &Task<'_, Filings>,
    answers: &Answers,
) -> Result<Option<Described>, Failure> {
    let Some((key, Ok(_))) = &answers.described else {
        return Ok(None);
    };
    let json = task.blob(key, "described").await?;
    serde_json::from_slice(&json)
        .map(Some)
        .map_err(|error| json_error(&error))
}

/// What the model told about a document.
struct Told {
    answers: Answers,
    /// Texts of summaries, by the index of the section.
    summaries: BTreeMap<usize, String>,
    /// Sections of whose own text a stretch was not answered about, with the code of the failure.
    unread: Vec<(usize, String)>,
    /// About the document as a whole.
    described: Option<Described>,
}

/// The finished tree: pure (I-12).
fn assemble(
    packed: Bytes,
    blob: &DraftBlob,
    told: Told,
    spent: &BTreeMap<TaskKey, Spent>,
    settings: &Settings,
) -> Result<SectionTree, Failure> {
    let Told {
        answers,
        mut summaries,
        unread,
        described,
    } = told;
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::permanent("structure.source", error.to_string());
    let source = Packed::open(packed)
        .and_then(Packed::source)
        .map_err(|error| unreadable(&error))?;
    let Some(model) = &settings.model else {
        return Err(unreadable(&"the settings name no model"));
    };
    let draft = &blob.draft;
    let mut gaps = draft.gaps.clone();
    gaps.extend(defects(&source));
    let tree = SectionTree::build(&draft.outline, draft.method, gaps);
    let mut tree = sections::finish(tree, &source, &settings.sections, &draft.labels);
    items::attach(&mut tree, &source, &draft.cross_index);
    let mut without = Vec::new();
    tell(
        &mut tree.sections,
        model,
        &answers,
        &mut summaries,
        &mut without,
    );
    for (index, code) in unread {
        let section = u32::try_from(index)
            .ok()
            .and_then(|index| tree.section(SectionId(index)));
        without.extend(section.map(|section: &Section| Without::of(section, code, Instead::Part)));
    }
    tree.gaps.extend(unsummarized(&without));
    tree.provenance.model.clone_from(&model.name);
    let mut summed = Answers::summed(&blob.answers, spent);
    describe(&mut tree, described, &answers, &mut summed);
    tree.provenance.answers = Some(summed);
    let stages = REVISIONS
        .into_iter()
        .filter(|(name, _)| *name != Outline::NAME)
        .chain(MODEL_REVISIONS);
    tree.provenance.revisions = stages
        .map(|(name, revision)| (name.to_string(), revision))
        .collect();
    Ok(tree)
}

/// A section without a summary from the model, or with one of a part of it: its structure number, pages, and why.
struct Without {
    structure: String,
    pages: Option<PageSpan>,
    code: String,
    instead: Instead,
}

/// What there is instead of a summary from the model.
enum Instead {
    Nothing,
    /// One that rules made.
    Offline,
    /// One that does not say what stands in a part of its text.
    Part,
}

impl Without {
    fn of(section: &Section, code: String, instead: Instead) -> Self {
        Self {
            structure: section.structure.clone(),
            pages: section.span.pages(),
            code,
            instead,
        }
    }
}

/// Puts the model's summaries in the place of those that rules made, in pre-order.
fn tell(
    sections: &mut [Section],
    model: &ModelSettings,
    answers: &Answers,
    summaries: &mut BTreeMap<usize, String>,
    without: &mut Vec<Without>,
) {
    for section in sections {
        let index = section.id.0 as usize;
        match (summaries.remove(&index), answers.summaries.get(index)) {
            (Some(text), _) => {
                section.summary = Some(Summary {
                    text,
                    by: model.name_for(Purpose::Summaries).into(),
                })
            }
            (None, Some(Some((_, Err(code))))) => {
                let offline = model.on_failure == OnModelFailure::Offline;
                section.summary = section.summary.take().filter(|_| offline);
                let instead = if offline {
                    Instead::Offline
                } else {
                    Instead::Nothing
                };
                without.push(Without::of(section, code.clone(), instead));
            }
            // Small: it is its own summary.
            _ => {}
        }
        tell(&mut section.children, model, answers, summaries, without);
    }
}

/// Puts the model's description in the place of the one that rules made, and its facts where rules found none.
fn describe(
    tree: &mut SectionTree,
    described: Option<Described>,
    answers: &Answers,
    summed: &mut ModelAnswers,
) {
    if let Some(Described {
        description,
        facts,
        mut dropped,
    }) = described
    {
        tree.description = Some(description);
        dropped.extend(sections::fill(&mut tree.facts, &facts));
        (summed.described, summed.facts_dropped) = (true, dropped);
    }
    if let Some((_, Err(code))) = &answers.described {
        let detail =
            format!("the description was made by rules: the model did not answer ({code})");
        tree.gaps.push(Gap {
            code: "model.describe_failed".into(),
            pages: None,
            detail,
        });
    }
}

fn unsummarized(without: &[Without]) -> Vec<Gap> {
    const CODE: &str = "model.summary_failed";
    let mut gaps: Vec<Gap> = without
        .iter()
        .take(NAMED)
        .map(|one: &Without| {
            let instead = match one.instead {
                Instead::Nothing => "has no summary",
                Instead::Offline => "has a summary made by rules",
                Instead::Part => "has a summary of a part of its text",
            };
            let detail = format!(
                "section {} {instead}: the model did not answer ({})",
                one.structure, one.code
            );
            Gap {
                code: CODE.into(),
                pages: one.pages,
                detail,
            }
        })
        .collect();
    if without.len() > NAMED {
        let detail = format!(
            "{} more sections were not answered about",
            without.len() - NAMED
        );
        gaps.push(Gap {
            code: CODE.into(),
            pages: None,
            detail,
        });
    }
    gaps
}
