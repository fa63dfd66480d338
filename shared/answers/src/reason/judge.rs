//! How a model is asked about sections: one prompt for all strategies, one typed reply.

use serde::Deserialize;
use serde_json::{Value, json};
use stemma_document::Digest;
use stemma_llm::request::Schema;

use super::asker::{AskError, Consultation, Prompt};
use super::outline::{Outline, cut, one_line};
use super::walked::Analysis;

/// Sections a reply may name at most, and characters of its reasons.
const MAX_NAMED: usize = 200;
const REASON_CHARS: usize = 300;
const THINKING_CHARS: usize = 1_200;

/// A question as prompts show it: the same blocks before every listing of the same question, so that providers keep them.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    pub(super) question: String,
    pub(super) analysis: Option<Analysis>,
    /// Expert knowledge that was chosen, ours or the operator's.
    pub(super) knowledge: String,
    /// Words of titles of sections in which the answer is to be expected.
    pub(super) expected: Vec<String>,
}

/// A section as a model judged it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) at: usize,
    /// 0–1.
    pub(super) score: f32,
    pub(super) reason: String,
}

/// What one call said.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Said {
    pub(super) thinking: String,
    pub(super) verdicts: Vec<Verdict>,
    /// Ids that are none, or were not shown.
    pub(super) unknown: u32,
}

/// A kind of question about a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// The stage in the call log, and the name of the schema.
    pub(super) stage: &'static str,
    /// The property of the answer that holds the sections.
    property: &'static str,
    /// What the model is to do.
    task: &'static str,
}

impl Kind {
    /// Choose from a whole tree.
    pub(super) const SELECT: Kind = Kind {
        stage: "select_sections",
        property: "nodes",
        task: "The listing is the whole section tree of the document, deeper sections indented. Name the sections whose own \
               text most likely holds the answer, best first: at most ten, the narrowest that do. Leave out what merely \
               mentions the subject.",
    };
    /// The same where nothing was chosen.
    pub(super) const SELECT_WIDER: Kind = Kind {
        task: "The listing is the whole section tree of the document, deeper sections indented. No section answers the \
               question for certain. Name the five that come nearest: where a careful reader would look first.",
        ..Kind::SELECT
    };
    /// Value a few sections.
    pub(super) const VALUE: Kind = Kind {
        stage: "value_sections",
        property: "values",
        task: "The listing holds sections from different places of the document's tree. Value every one of them: how \
               likely it, or a section below it, holds the answer.",
    };
    /// Pick the ways down.
    pub(super) const DESCEND: Kind = Kind {
        stage: "descend_sections",
        property: "branches",
        task: "The listing holds the sections of one level of the document's tree. Name those below or in which the \
               answer most likely stands, best first.",
    };
    /// Rank in the end.
    pub(super) const RANK: Kind = Kind {
        stage: "rank_sections",
        property: "ranking",
        task: "The listing holds sections that may answer the question, each with its summary, and with words of its text \
               where there are some. Score every one by how likely its own text holds the answer.",
    };
    /// Value by the text itself.
    pub(super) const READ: Kind = Kind {
        stage: "read_sections",
        property: "readings",
        task: "The listing holds sections, each with the beginning or the best lines of its text. Value every one by what \
               the text says: how likely it holds the answer.",
    };

    fn system(self) -> String {
        format!(
            "You look for the sections of a document that answer a question. A line of the listing is: id | pages | title \
             | summary. {} Scores are from 0 (surely not) to 1 (surely); use the whole range. Copy ids as they stand. Give \
             each a reason of at most fifteen words. `thinking` is two sentences at most on where such an answer stands.",
            self.task
        )
    }

    fn schema(self) -> Schema {
        let node = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string" },
                "score": { "type": "number" },
                "reason": { "type": "string" },
            },
            "required": ["id", "score", "reason"],
            "additionalProperties": false,
        });
        let properties = json!({
            "thinking": { "type": "string" },
            self.property: { "type": "array", "items": node },
        });
        Schema::strict(self.stage, &properties)
    }
}

#[derive(Debug, Deserialize)]
struct Named {
    id: Value,
    score: f32,
    #[serde(default)]
    reason: String,
}

impl Asked {
    /// Parts of the question that may be answered in different places.
    pub(super) fn aspects(&self) -> usize {
        self.analysis
            .as_ref()
            .map_or(1, |analysis| analysis.aspects.len())
            .max(1)
    }

    /// Its parts, where it has several.
    pub(super) fn parts(&self) -> impl Iterator<Item = String> {
        let aspects = self.analysis.iter().flat_map(|analysis| &analysis.aspects);
        aspects.filter(|_| self.aspects() > 1).cloned()
    }

    /// Digest of all that a verdict depends on beside section and listing.
    pub(super) fn digest(&self, model: &str) -> Digest {
        let analysis = self.analysis.as_ref().map(described).unwrap_or_default();
        let parts = [model, &self.question, &analysis, &self.knowledge];
        Digest::of(
            parts
                .map(|part| format!("{}:{part}", part.len()))
                .concat()
                .as_bytes(),
        )
    }

    /// The prompt of a listing.
    pub(super) fn prompt(&self, kind: Kind, outline: &Outline, listing: &str) -> Prompt {
        let mut prompt = Prompt::new(kind.system(), kind.schema());
        if !self.knowledge.is_empty() {
            prompt = prompt.block("Expert knowledge", &self.knowledge);
        }
        prompt = prompt.block("Question", &self.question);
        if let Some(analysis) = &self.analysis {
            prompt = prompt.block("Analysis", described(analysis));
        }
        let about = format!(
            "{}\n{}",
            one_line(&outline.name),
            cut(&one_line(&outline.about), 300)
        );
        prompt
            .block("Document", about.trim_end())
            .block("Listing", listing)
    }

    /// Asks about a listing that shows the sections `shown`.
    ///
    /// # Errors
    /// [`AskError`] when there is no answer.
    pub(super) async fn judge(
        &self,
        consultation: &Consultation,
        kind: Kind,
        outline: &Outline,
        listing: &str,
        shown: &[usize],
    ) -> Result<Said, AskError> {
        let prompt = self.prompt(kind, outline, listing);
        consultation
            .ask(&prompt, |reply: Value| read(&reply, kind, outline, shown))
            .await
    }
}

/// Reads a reply: scores within 0–1, each section once, ids that were not shown dropped and counted.
fn read(reply: &Value, kind: Kind, outline: &Outline, shown: &[usize]) -> Result<Said, String> {
    let named = reply
        .get(kind.property)
        .and_then(Value::as_array)
        .ok_or(format!("{} is missing", kind.property))?;
    if named.len() > MAX_NAMED {
        return Err(format!("{} sections are too many", named.len()));
    }
    let thinking = reply
        .get("thinking")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut said = Said {
        thinking: cut(&one_line(thinking), THINKING_CHARS),
        ..Said::default()
    };
    for one in named {
        let named =
            Named::deserialize(one).map_err(|_| "a section lacks id or score".to_owned())?;
        if !named.score.is_finite() {
            return Err("a score is no number".into());
        }
        let id = named
            .id
            .as_str()
            .map_or_else(|| named.id.to_string(), str::to_owned);
        match outline.at(&id).filter(|at| shown.contains(at)) {
            None => said.unknown += 1,
            Some(at) if said.verdicts.iter().any(|known| known.at == at) => {}
            Some(at) => {
                let reason = cut(&one_line(&named.reason), REASON_CHARS);
                said.verdicts.push(Verdict {
                    at,
                    score: named.score.clamp(0.0, 1.0),
                    reason,
                });
            }
        }
    }
    Ok(said)
}

/// An analysis in a few lines.
fn described(analysis: &Analysis) -> String {
    let list = |name: &str, values: &[String]| {
        (!values.is_empty()).then(|| format!("{name}: {}", values.join("; ")))
    };
    let topic = (!analysis.topic.is_empty()).then(|| format!("topic: {}", analysis.topic));
    let lines = [
        topic,
        list("aspects", &analysis.aspects),
        list("expected in", &analysis.locations),
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}
