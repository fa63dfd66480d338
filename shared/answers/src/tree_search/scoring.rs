//! Prompts that ask a model to score sections, and their replies.

use serde::Deserialize;
use serde_json::{Value, json};
use stemma_llm::request::OutputSchema;

use super::llm_session::LlmSession;
use super::prompt::Prompt;
use super::result::Analysis;
use super::search_tree::{SearchTree, one_line, truncate};
use super::session_error::SessionError;

const MAX_SECTIONS_PER_REPLY: usize = 200;
const REASON_CHARS: usize = 300;
const THINKING_CHARS: usize = 1_200;

// The same blocks precede every listing of a question, so that providers can cache the prefix of the prompt.
#[derive(Debug, Clone, Default)]
pub(super) struct ScoringQuestion {
    pub(super) question: String,
    pub(super) analysis: Option<Analysis>,
    // Selected expert knowledge, built in or the operator's.
    pub(super) knowledge: String,
    // Titles of sections in which the answer is expected.
    pub(super) expected_titles: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SectionScore {
    pub(super) at: usize,
    // 0–1.
    pub(super) score: f32,
    pub(super) reason: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ScoringReply {
    pub(super) thinking: String,
    pub(super) scores: Vec<SectionScore>,
    // Ids that do not exist, or were not listed.
    pub(super) unknown_ids: u32,
}

// What a listing shows of the text of a section, with the most characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excerpt {
    None,
    // Where the words of the question occur.
    Snippet(usize),
    // The beginning.
    Text(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScoringTask {
    // Stage in the call log, and name of the schema.
    pub(super) stage: &'static str,
    // Property of the reply that holds the sections.
    reply_property: &'static str,
    instructions: &'static str,
    // Whether the listing is the whole tree, so that the reply names only the best sections.
    pub(super) shows_tree: bool,
    pub(super) summary_chars: usize,
    pub(super) excerpt: Excerpt,
}

impl ScoringTask {
    pub(super) const SELECT: ScoringTask = ScoringTask {
        stage: "select_sections",
        reply_property: "nodes",
        instructions: "The listing is the whole section tree of the document, deeper sections indented. Name the sections whose own \
               text most likely holds the answer, best first: at most ten, the narrowest that do. Leave out what merely \
               mentions the subject.",
        shows_tree: true,
        summary_chars: 240,
        excerpt: Excerpt::None,
    };
    // Second try after `SELECT` chose nothing.
    pub(super) const SELECT_WIDER: ScoringTask = ScoringTask {
        instructions: "The listing is the whole section tree of the document, deeper sections indented. No section answers the \
               question for certain. Name the five that come nearest: where a careful reader would look first.",
        ..ScoringTask::SELECT
    };
    pub(super) const SCORE: ScoringTask = ScoringTask {
        stage: "value_sections",
        reply_property: "values",
        instructions: "The listing holds sections from different places of the document's tree. Value every one of them: how \
               likely it, or a section below it, holds the answer.",
        shows_tree: false,
        summary_chars: 160,
        excerpt: Excerpt::None,
    };
    pub(super) const DESCEND: ScoringTask = ScoringTask {
        stage: "descend_sections",
        reply_property: "branches",
        instructions: "The listing holds the sections of one level of the document's tree. Name those below or in which the \
               answer most likely stands, best first.",
        shows_tree: false,
        summary_chars: 90,
        excerpt: Excerpt::None,
    };
    pub(super) const RANK: ScoringTask = ScoringTask {
        stage: "rank_sections",
        reply_property: "ranking",
        instructions: "The listing holds sections that may answer the question, each with its summary, and with words of its text \
               where there are some. Score every one by how likely its own text holds the answer.",
        shows_tree: false,
        summary_chars: 90,
        excerpt: Excerpt::Snippet(120),
    };
    pub(super) const SCORE_TEXT: ScoringTask = ScoringTask {
        stage: "read_sections",
        reply_property: "readings",
        instructions: "The listing holds sections, each with the beginning or the best lines of its text. Value every one by what \
               the text says: how likely it holds the answer.",
        shows_tree: false,
        summary_chars: 0,
        excerpt: Excerpt::Text(600),
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
    pub(super) fn aspects(&self) -> usize {
        self.analysis
            .as_ref()
            .map_or(1, |analysis| analysis.aspects.len())
            .max(1)
    }

    // Empty unless there are several.
    pub(super) fn parts(&self) -> impl Iterator<Item = String> {
        let aspects = self.analysis.iter().flat_map(|analysis| &analysis.aspects);
        aspects.filter(|_| self.aspects() > 1).cloned()
    }

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
            one_line(tree.name()),
            truncate(&one_line(&tree.description), 300)
        );
        prompt
            .with_block("Document", about.trim_end())
            .with_block("Listing", listing)
    }

    // `listed_sections`: the sections that `listing` shows.
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

// Scores are clamped to 0–1, each section counts once, ids that were not listed are dropped and counted.
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
    for entry in entries {
        let entry =
            ScoredId::deserialize(entry).map_err(|_| "a section lacks id or score".to_owned())?;
        if !entry.score.is_finite() {
            return Err("a score is no number".into());
        }
        let id = entry
            .id
            .as_str()
            .map_or_else(|| entry.id.to_string(), str::to_owned);
        match tree.index_of(&id).filter(|at| listed_sections.contains(at)) {
            None => parsed.unknown_ids += 1,
            Some(at) if parsed.scores.iter().any(|existing| existing.at == at) => {}
            Some(at) => {
                let reason = truncate(&one_line(&entry.reason), REASON_CHARS);
                parsed.scores.push(SectionScore {
                    at,
                    score: entry.score.clamp(0.0, 1.0),
                    reason,
                });
            }
        }
    }
    Ok(parsed)
}

fn describe_analysis(analysis: &Analysis) -> String {
    let topic = (!analysis.topic.is_empty()).then(|| format!("topic: {}", analysis.topic));
    let lines = [
        topic,
        labeled_list("aspects", &analysis.aspects),
        labeled_list("expected in", &analysis.locations),
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn labeled_list(name: &str, values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| format!("{name}: {}", values.join("; ")))
}
