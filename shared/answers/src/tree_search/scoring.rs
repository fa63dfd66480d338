//! How a model is asked about sections: one prompt for all strategies, one typed reply.

use serde::Deserialize;
use serde_json::{Value, json};
use stemma_document::Digest;
use stemma_llm::request::OutputSchema;

use super::llm_session::{LlmSession, Prompt, SessionError};
use super::result::Analysis;
use super::search_tree::{SearchTree, one_line, truncate};

/// Sections a reply may name at most, and characters of its reasons.
const MAX_SECTIONS_PER_REPLY: usize = 200;
const REASON_CHARS: usize = 300;
const THINKING_CHARS: usize = 1_200;

/// A question as prompts show it: the same blocks before every listing of the same question, so that providers keep them.
#[derive(Debug, Clone, Default)]
pub(super) struct ScoringQuestion {
    pub(super) question: String,
    pub(super) analysis: Option<Analysis>,
    /// Expert knowledge that was chosen, ours or the operator's.
    pub(super) knowledge: String,
    /// Words of titles of sections in which the answer is to be expected.
    pub(super) expected_titles: Vec<String>,
}

/// A section as a model judged it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SectionScore {
    pub(super) at: usize,
    /// 0–1.
    pub(super) score: f32,
    pub(super) reason: String,
}

/// What one call said.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ScoringReply {
    pub(super) thinking: String,
    pub(super) scores: Vec<SectionScore>,
    /// Ids that are none, or were not shown.
    pub(super) unknown_ids: u32,
}

/// A kind of question about a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScoringTask {
    /// The stage in the call log, and the name of the schema.
    pub(super) stage: &'static str,
    /// The property of the answer that holds the sections.
    reply_property: &'static str,
    /// What the model is to do.
    instructions: &'static str,
}

impl ScoringTask {
    /// Choose from a whole tree.
    pub(super) const SELECT: ScoringTask = ScoringTask {
        stage: "select_sections",
        reply_property: "nodes",
        instructions: "The listing is the whole section tree of the document, deeper sections indented. Name the sections whose own \
               text most likely holds the answer, best first: at most ten, the narrowest that do. Leave out what merely \
               mentions the subject.",
    };
    /// The same where nothing was chosen.
    pub(super) const SELECT_WIDER: ScoringTask = ScoringTask {
        instructions: "The listing is the whole section tree of the document, deeper sections indented. No section answers the \
               question for certain. Name the five that come nearest: where a careful reader would look first.",
        ..ScoringTask::SELECT
    };
    /// Value a few sections.
    pub(super) const SCORE: ScoringTask = ScoringTask {
        stage: "value_sections",
        reply_property: "values",
        instructions: "The listing holds sections from different places of the document's tree. Value every one of them: how \
               likely it, or a section below it, holds the answer.",
    };
    /// Pick the ways down.
    pub(super) const DESCEND: ScoringTask = ScoringTask {
        stage: "descend_sections",
        reply_property: "branches",
        instructions: "The listing holds the sections of one level of the document's tree. Name those below or in which the \
               answer most likely stands, best first.",
    };
    /// Rank in the end.
    pub(super) const RANK: ScoringTask = ScoringTask {
        stage: "rank_sections",
        reply_property: "ranking",
        instructions: "The listing holds sections that may answer the question, each with its summary, and with words of its text \
               where there are some. Score every one by how likely its own text holds the answer.",
    };
    /// Value by the text itself.
    pub(super) const SCORE_TEXT: ScoringTask = ScoringTask {
        stage: "read_sections",
        reply_property: "readings",
        instructions: "The listing holds sections, each with the beginning or the best lines of its text. Value every one by what \
               the text says: how likely it holds the answer.",
    };

    fn system(self) -> String {
        format!(
            "You look for the sections of a document that answer a question. A line of the listing is: id | pages | title \
             | summary. {} Scores are from 0 (surely not) to 1 (surely); use the whole range. Copy ids as they stand. Give \
             each a reason of at most fifteen words. `thinking` is two sentences at most on where such an answer stands.",
            self.instructions
        )
    }

    fn schema(self) -> OutputSchema {
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
            self.reply_property: { "type": "array", "items": node },
        });
        OutputSchema::strict(self.stage, &properties)
    }
}

#[derive(Debug, Deserialize)]
struct ScoredId {
    id: Value,
    score: f32,
    #[serde(default)]
    reason: String,
}

impl ScoringQuestion {
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
        let analysis = self
            .analysis
            .as_ref()
            .map(describe_analysis)
            .unwrap_or_default();
        let parts = [model, &self.question, &analysis, &self.knowledge];
        Digest::from_content(
            parts
                .map(|part| format!("{}:{part}", part.len()))
                .concat()
                .as_bytes(),
        )
    }

    /// The prompt of a listing.
    pub(super) fn prompt(&self, kind: ScoringTask, tree: &SearchTree, listing: &str) -> Prompt {
        let mut prompt = Prompt::new(kind.system(), kind.schema());
        if !self.knowledge.is_empty() {
            prompt = prompt.with_block("Expert knowledge", &self.knowledge);
        }
        prompt = prompt.with_block("Question", &self.question);
        if let Some(analysis) = &self.analysis {
            prompt = prompt.with_block("Analysis", describe_analysis(analysis));
        }
        let about = format!(
            "{}\n{}",
            one_line(&tree.name),
            truncate(&one_line(&tree.description), 300)
        );
        prompt
            .with_block("Document", about.trim_end())
            .with_block("Listing", listing)
    }

    /// Asks about a listing that shows the sections `shown`.
    ///
    /// # Errors
    /// [`SessionError`] when there is no answer.
    pub(super) async fn score_sections(
        &self,
        session: &LlmSession,
        kind: ScoringTask,
        tree: &SearchTree,
        listing: &str,
        listed_sections: &[usize],
    ) -> Result<ScoringReply, SessionError> {
        let prompt = self.prompt(kind, tree, listing);
        session
            .complete(&prompt, |reply: Value| {
                parse_reply(&reply, kind, tree, listed_sections)
            })
            .await
    }
}

/// Reads a reply: scores within 0–1, each section once, ids that were not shown dropped and counted.
fn parse_reply(
    reply: &Value,
    kind: ScoringTask,
    tree: &SearchTree,
    listed_sections: &[usize],
) -> Result<ScoringReply, String> {
    let entries = reply
        .get(kind.reply_property)
        .and_then(Value::as_array)
        .ok_or(format!("{} is missing", kind.reply_property))?;
    if entries.len() > MAX_SECTIONS_PER_REPLY {
        return Err(format!("{} sections are too many", entries.len()));
    }
    let thinking = reply
        .get("thinking")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut parsed = ScoringReply {
        thinking: truncate(&one_line(thinking), THINKING_CHARS),
        ..ScoringReply::default()
    };
    for one in entries {
        let entries =
            ScoredId::deserialize(one).map_err(|_| "a section lacks id or score".to_owned())?;
        if !entries.score.is_finite() {
            return Err("a score is no number".into());
        }
        let id = entries
            .id
            .as_str()
            .map_or_else(|| entries.id.to_string(), str::to_owned);
        match tree.index_of(&id).filter(|at| listed_sections.contains(at)) {
            None => parsed.unknown_ids += 1,
            Some(at) if parsed.scores.iter().any(|existing| existing.at == at) => {}
            Some(at) => {
                let reason = truncate(&one_line(&entries.reason), REASON_CHARS);
                parsed.scores.push(SectionScore {
                    at,
                    score: entries.score.clamp(0.0, 1.0),
                    reason,
                });
            }
        }
    }
    Ok(parsed)
}

/// An analysis in a few lines.
fn describe_analysis(analysis: &Analysis) -> String {
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
