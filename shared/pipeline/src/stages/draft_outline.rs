//! Draft_outline: what rules find, what a model is to be asked about it, and, once nothing is left to ask, the outline.
//!
//! One round of the method (see [`crate::model::outline`]): it is walked anew with all answers so far, as far as they go.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, SectionTree};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};
use stemma_extract::Packed;

use crate::Filings;
use crate::model::{
    DraftBlob, Known, Outlined, PER_PART, Part, QuestionId, nothing_said, outline, plan, replies,
};
use crate::settings::Settings;
use stemma_outline::sections;

/// Drafts the outline of a text, as far as the answers go. Key: the text, the settings of structure, sections and model,
/// and all answers so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DraftOutline {
    /// Digest of the text.
    pub text: Digest,
    /// The artifact whose blob `source` holds it.
    pub source: TaskKey,
    /// The round before; `None`: this is the first.
    pub before: Option<TaskKey>,
    /// Digest of all answers so far.
    pub answers: Digest,
}

/// What was drafted. A round that asks leaves the blobs `asks` and `known`, the last one `draft`; all parts are the blob
/// `plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drafted {
    /// Whether nothing is left to ask about the structure: the parts plan the sections.
    pub done: bool,
    /// Digest of the blob `plan`.
    pub plan: Digest,
    /// Parts of the plan.
    pub parts: u32,
    /// The first of them; mostly there is no other.
    pub first: Part,
}

#[async_trait]
impl Stage for DraftOutline {
    type Work = Filings;
    type Outcome = Drafted;

    const NAME: &'static str = "draft_outline";
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
            .bytes(self.answers.as_bytes());
        identity.text(&serde_json::to_string(&settings).unwrap_or_default());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Drafted>, Failure> {
        let known = self.known(task).await?;
        let packed = task.blob(&self.source, "source").await?;
        let settings = task.settings.clone();
        let drafted = task
            .env
            .compute(move || draft(packed, &known, &settings))
            .await;
        drafted.map_err(|panic| Failure::transient("structure.crashed", panic))?
    }
}

impl DraftOutline {
    /// The first round.
    pub(crate) fn first(text: Digest, source: TaskKey) -> Self {
        Self {
            text,
            source,
            before: None,
            answers: nothing_said(),
        }
    }

    /// The answers of all rounds before, as the flow had them.
    async fn known(&self, task: &Task<'_, Filings>) -> Result<Known, Failure> {
        let Some(before) = self.before else {
            return Ok(Known::default());
        };
        let mut known: Known = read(&task.blob(&before, "known").await?)?;
        let parts: Vec<Part> = read(&task.blob(&before, "plan").await?)?;
        let asked: Vec<QuestionId> = parts.into_iter().flat_map(|part| part.asked).collect();
        known.extend(replies(task, self.source, before, asked).await?);
        if known.digest() != self.answers {
            let message =
                "answers are not those that the flow read; someone changed them meanwhile";
            return Err(Failure::transient("model.answers_changed", message));
        }
        Ok(known)
    }
}

fn read<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json)
        .map_err(|error| Failure::permanent("structure.json", error.to_string()))
}

fn written<T: Serialize>(value: &T) -> Result<Bytes, Failure> {
    let json = serde_json::to_vec(value);
    json.map(Bytes::from)
        .map_err(|error| Failure::permanent("structure.json", error.to_string()))
}

/// One round over a packed source: pure (I-12).
fn draft(packed: Bytes, known: &Known, settings: &Settings) -> Result<Output<Drafted>, Failure> {
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::permanent("structure.source", error.to_string());
    let source = Packed::open(packed)
        .and_then(Packed::source)
        .map_err(|error| unreadable(&error))?;
    match outline(&source, settings, known).map_err(|error| unreadable(&error))? {
        Outlined::Asks(wanted) => {
            let (asked, asks): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
            let parts = asked.chunks(PER_PART).map(|some| Part {
                asked: some.to_vec(),
                ..Part::default()
            });
            output(
                false,
                parts.collect(),
                vec![("asks", written(&asks)?), ("known", written(known)?)],
            )
        }
        Outlined::Done(draft, answers) => {
            let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
            let tree = sections::measured(tree, &source);
            let parts = plan(&source, &tree, settings);
            let blob = DraftBlob {
                tree,
                draft: *draft,
                answers,
            };
            output(true, parts, vec![("draft", written(&blob)?)])
        }
    }
}

fn output(
    done: bool,
    parts: Vec<Part>,
    mut blobs: Vec<(&'static str, Bytes)>,
) -> Result<Output<Drafted>, Failure> {
    let plan = written(&parts)?;
    let outcome = Drafted {
        done,
        plan: Digest::of(&plan),
        parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        first: parts.into_iter().next().unwrap_or_default(),
    };
    blobs.push(("plan", plan));
    Ok(Output::new(outcome, blobs))
}
