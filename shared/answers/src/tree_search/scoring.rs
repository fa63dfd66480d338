//! The scorer: shows sections of a document to a model, and reads the scores that it gives them.

use serde::Deserialize;
use serde_json::{Value, json};
use stemma_catalog::document_store::DocumentStore;
use stemma_llm::request::OutputSchema;

use super::llm_session::LlmSession;
use super::prompt::Prompt;
use super::result::Analysis;
use super::search_tree::{SearchTree, one_line, truncate};
use super::session_error::SessionError;

const MAX_SECTIONS_PER_REPLY: usize = 200;
const REASON_CHARS: usize = 300;
const THINKING_CHARS: usize = 1_200;
const DESCRIPTION_CHARS: usize = 300;
// Characters of the parent's title in a listing that is not a tree.
const ABOVE_CHARS: usize = 40;

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
}

// What a listing shows of the text of a section, with the most characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excerpt {
    None,
    // Where the words of the question occur.
    Snippet(usize),
    // The beginning.
    Text(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScoringTask {
    // Stage in the call log, and name of the schema.
    stage: &'static str,
    instructions: &'static str,
    // Whether the listing is the whole tree, so that the reply names only the best sections.
    shows_tree: bool,
    summary_chars: usize,
    excerpt: Excerpt,
}

impl ScoringTask {
    pub(super) const SELECT: ScoringTask = ScoringTask {
        stage: "select_sections",
        instructions: "The listing is the whole section tree of the document, deeper sections indented. Name the sections whose own \
               text most likely holds the answer, best first: at most ten, the narrowest that do. Leave out what merely \
               mentions the subject.",
        shows_tree: true,
        summary_chars: 240,
        excerpt: Excerpt::None,
    };
    pub(super) const SCORE: ScoringTask = ScoringTask {
        stage: "value_sections",
        instructions: "The listing holds sections from different places of the document's tree. Value every one of them: how \
               likely it, or a section below it, holds the answer.",
        shows_tree: false,
        summary_chars: 160,
        excerpt: Excerpt::None,
    };
    pub(super) const DESCEND: ScoringTask = ScoringTask {
        stage: "descend_sections",
        instructions: "The listing holds the sections of one level of the document's tree. Name those below or in which the \
               answer most likely is, best first.",
        shows_tree: false,
        summary_chars: 90,
        excerpt: Excerpt::None,
    };
    pub(super) const RANK: ScoringTask = ScoringTask {
        stage: "rank_sections",
        instructions: "The listing holds sections that may answer the question, each with its summary, and with words of its text \
               where there are some. Score every one by how likely its own text holds the answer.",
        shows_tree: false,
        summary_chars: 90,
        excerpt: Excerpt::Snippet(120),
    };
    pub(super) const SCORE_TEXT: ScoringTask = ScoringTask {
        stage: "read_sections",
        instructions: "The listing holds sections, each with the beginning or the best lines of its text. Value every one by what \
               the text says: how likely it holds the answer.",
        shows_tree: false,
        summary_chars: 0,
        excerpt: Excerpt::Text(600),
    };

    fn system(self) -> String {
        format!(
            "You look for the sections of a document that answer a question. A line of the listing is: id | pages | title \
             | summary. {} Scores are from 0 (surely not) to 1 (surely); use the whole range. Copy ids unchanged. Give \
             each a reason of at most fifteen words. `thinking` is two sentences at most on where such an answer is.",
            self.instructions
        )
    }

    fn schema(self) -> OutputSchema {
        let section = json!({
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
            "sections": { "type": "array", "items": section },
        });
        OutputSchema::strict(self.stage, &properties)
    }
}

/// Scores sections of one document for one question.
pub(super) struct Scorer<'a> {
    pub(super) tree: &'a SearchTree,
    pub(super) session: &'a LlmSession,
    pub(super) question: &'a ScoringQuestion,
    pub(super) store: &'a dyn DocumentStore,
}

impl Scorer<'_> {
    /// Scores sections in one call.
    pub(super) async fn score(
        &self,
        task: ScoringTask,
        sections: &[usize],
    ) -> Result<ScoringReply, SessionError> {
        let excerpts = self.excerpts(task, sections).await;
        let prompt = self.prompt(task, &self.listing(task, sections, &excerpts));
        self.session
            .complete(&prompt, |reply: RawReply| reply.check(self.tree, sections))
            .await
    }

    // Tokens of a tree that `SELECT` shows, without and with the rest of the prompt.
    pub(super) fn tree_tokens(&self, sections: &[usize]) -> (u32, u32) {
        let listing = self.listing(ScoringTask::SELECT, sections, &[]);
        let prompt = self.prompt(ScoringTask::SELECT, &listing);
        (
            stemma_llm::tokens::count(&listing),
            self.session.tokens(&prompt),
        )
    }

    fn prompt(&self, task: ScoringTask, listing: &str) -> Prompt {
        let ScoringQuestion {
            question,
            analysis,
            knowledge,
            ..
        } = self.question;
        let mut prompt = Prompt::new(task.system(), task.schema());
        if !knowledge.is_empty() {
            prompt = prompt.with_block("Expert knowledge", knowledge);
        }
        prompt = prompt.with_block("Question", question);
        if let Some(analysis) = analysis {
            let locations = analysis.locations.join("; ");
            let text = format!("topic: {}\nexpected in: {locations}", analysis.topic);
            prompt = prompt.with_block("Analysis", text);
        }
        let about = format!(
            "{}\n{}",
            one_line(self.tree.name()),
            truncate(&one_line(&self.tree.description), DESCRIPTION_CHARS)
        );
        prompt
            .with_block("Document", about.trim_end())
            .with_block("Listing", listing)
    }

    // One section a line: as a tree, or each with its parent's title and what `excerpts` has of its text.
    fn listing(&self, task: ScoringTask, sections: &[usize], excerpts: &[String]) -> String {
        let nodes = &self.tree.nodes;
        let lines = sections.iter().enumerate().map(|(n, at)| {
            if task.shows_tree {
                let indent = "  ".repeat(nodes[*at].depth.saturating_sub(1));
                let entry = self.tree.format_entry(*at, None, task.summary_chars);
                return format!("{indent}{entry}");
            }
            let above = nodes[*at]
                .parent
                .map(|above| truncate(&nodes[above].title, ABOVE_CHARS));
            let entry = self
                .tree
                .format_entry(*at, above.as_deref(), task.summary_chars);
            match excerpts.get(n).filter(|excerpt| !excerpt.is_empty()) {
                Some(excerpt) => format!("{entry}\n    “{excerpt}”"),
                None => entry,
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    async fn excerpts(&self, task: ScoringTask, sections: &[usize]) -> Vec<String> {
        let (texts, most_chars) = match task.excerpt {
            Excerpt::None => return Vec::new(),
            Excerpt::Snippet(most_chars) => (Vec::new(), most_chars),
            Excerpt::Text(most_chars) => {
                let texts = self.tree.texts(self.store, sections, 4 * most_chars);
                (texts.await, most_chars)
            }
        };
        sections
            .iter()
            .enumerate()
            .map(|(n, at)| {
                let text = texts.get(n).map(String::as_str);
                // Also where the store has no text.
                let text = text.filter(|text| !text.is_empty()).or_else(|| {
                    let hit = self.tree.hits.get(&self.tree.nodes[*at].id);
                    hit.map(|hit| hit.excerpt.text.as_str())
                });
                truncate(&one_line(text.unwrap_or_default()), most_chars)
            })
            .collect()
    }
}

#[derive(Debug, Deserialize)]
struct RawReply {
    // Some models write null.
    thinking: Option<String>,
    sections: Vec<RawScore>,
}

#[derive(Debug, Deserialize)]
struct RawScore {
    // Some models write a number.
    id: Value,
    score: f32,
    #[serde(default)]
    reason: String,
}

impl RawReply {
    // Scores are clamped to 0–1, each section counts once, ids that were not listed are dropped.
    fn check(self, tree: &SearchTree, listed: &[usize]) -> Result<ScoringReply, String> {
        if self.sections.len() > MAX_SECTIONS_PER_REPLY {
            return Err(format!("{} sections are too many", self.sections.len()));
        }
        let mut scores: Vec<SectionScore> = Vec::new();
        for RawScore { id, score, reason } in self.sections {
            let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            if let Some(at) = tree.index_of(&id)
                && listed.contains(&at)
                && scores.iter().all(|existing| existing.at != at)
            {
                scores.push(SectionScore {
                    at,
                    score: score.clamp(0.0, 1.0),
                    reason: truncate(&one_line(&reason), REASON_CHARS),
                });
            }
        }
        Ok(ScoringReply {
            thinking: truncate(
                &one_line(&self.thinking.unwrap_or_default()),
                THINKING_CHARS,
            ),
            scores,
        })
    }
}
