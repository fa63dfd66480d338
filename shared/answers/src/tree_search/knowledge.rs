//! Expert knowledge about where answers of a kind are, shown to the model before a tree.
//!
//! A TOML file holds *rules* (a condition and guidance) and *preferences* (a pattern and preferred sections). They are
//! selected for a question by keyword, by similarity or by the model; the result lists what was used.
//!
//! ```toml
//! [[rules]]
//! name = "capital expenditure"
//! domain = "sec"
//! when = ["capital expenditure", "capex"]
//! guidance = "It is a line of investing activities in the cash flow statement."
//! weight = 1.0
//!
//! [[preferences]]
//! name = "litigation"
//! pattern = ["lawsuit", "legal proceedings"]
//! sections = ["Legal Proceedings", "Commitments and Contingencies"]
//! reason = "Item 3 often only refers to the note."
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;
use stemma_llm::request::OutputSchema;

use super::llm_session::{LlmSession, Prompt, SessionError};
use super::result::AppliedKnowledge;
use stemma_reading::tokenizer::content_words;

const BUILT_IN: &str = include_str!("sec.toml");
const MAX_CHOSEN: usize = 4;
const MAX_BYTES: usize = 256 << 10;
const MAX_RULES: usize = 1_000;
const MAX_CANDIDATES: usize = 40;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knowledge {
    pub rules: Vec<Rule>,
    pub preferences: Vec<Preference>,
}

/// Guidance for questions of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Shown in results.
    pub name: String,
    /// Subject of the rule: `built_in`, `manuals`.
    #[serde(default)]
    pub domain: String,
    /// Words or phrases, one of which the question must contain.
    pub when: Vec<String>,
    /// Text shown to the model.
    pub guidance: String,
    /// Of several matches, those with more weight are shown; 0–1.
    #[serde(default = "one")]
    pub weight: f32,
}

/// Preferred sections for questions of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preference {
    /// Shown in results.
    pub name: String,
    /// Words or phrases, one of which the question must contain.
    pub pattern: Vec<String>,
    /// Words in the titles of preferred sections.
    pub sections: Vec<String>,
    /// Text shown to the model.
    #[serde(default)]
    pub reason: String,
    /// As for a [`Rule`].
    #[serde(default = "one")]
    pub weight: f32,
}

/// How knowledge is selected for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectionMethod {
    /// A phrase of the condition is in the question.
    #[default]
    Keyword,
    /// The question shares words with condition and guidance.
    Similarity,
    /// The model picks from the nearest: one call.
    Model,
}

/// Why a knowledge file is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnowledgeError {
    #[error("the knowledge has {0} bytes, more than {MAX_BYTES}")]
    TooLarge(usize),
    #[error("the knowledge cannot be read: {0}")]
    Unreadable(String),
    #[error("the knowledge has {0} rules and preferences, more than {MAX_RULES}")]
    TooMany(usize),
    // A rule or preference without condition or text.
    #[error("`{0}` has no condition, or nothing to say")]
    Empty(String),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ChosenKnowledge {
    pub(super) applied: Vec<AppliedKnowledge>,
    pub(super) text: String,
    // Words in the titles of preferred sections.
    pub(super) sections: Vec<String>,
}

fn one() -> f32 {
    1.0
}

impl Knowledge {
    /// The built-in rules about SEC filings.
    pub fn built_in() -> Self {
        // A test parses it.
        Self::parse(BUILT_IN).unwrap_or_default()
    }

    /// Parses a TOML file.
    ///
    /// # Errors
    /// [`KnowledgeError`], which names the line or the rule.
    pub fn parse(text: &str) -> Result<Self, KnowledgeError> {
        if text.len() > MAX_BYTES {
            return Err(KnowledgeError::TooLarge(text.len()));
        }
        let read: Self =
            toml::from_str(text).map_err(|error| KnowledgeError::Unreadable(error.to_string()))?;
        let count = read.rules.len() + read.preferences.len();
        if count > MAX_RULES {
            return Err(KnowledgeError::TooMany(count));
        }
        let empty = read
            .entries()
            .find(|entry: &KnowledgeEntry<'_>| {
                entry.when.iter().all(|when| when.trim().is_empty()) || entry.text().is_empty()
            })
            .map(|entry| entry.name.to_owned());
        match empty {
            Some(name) => Err(KnowledgeError::Empty(name)),
            None => Ok(read),
        }
    }

    /// Adds the entries of `more`, which come first among equal weights.
    #[must_use]
    pub fn merged_with(mut self, more: Self) -> Self {
        self.rules.splice(0..0, more.rules);
        self.preferences.splice(0..0, more.preferences);
        self
    }

    fn entries(&self) -> impl Iterator<Item = KnowledgeEntry<'_>> {
        let rules = self.rules.iter().map(|rule| KnowledgeEntry {
            name: &rule.name,
            when: &rule.when,
            guidance: Some(&rule.guidance),
            sections: &[],
            weight: rule.weight,
        });
        let preferences = self.preferences.iter().map(|preference| KnowledgeEntry {
            name: &preference.name,
            when: &preference.pattern,
            guidance: Some(&preference.reason).filter(|reason| !reason.is_empty()),
            sections: &preference.sections,
            weight: preference.weight,
        });
        rules.chain(preferences)
    }

    // When the model fails, keywords select; the error is returned beside them.
    pub(super) async fn choose(
        &self,
        question: &str,
        by: SelectionMethod,
        similarity: f32,
        llm_session: &LlmSession,
    ) -> (ChosenKnowledge, Option<SessionError>) {
        let entries: Vec<KnowledgeEntry<'_>> = self.entries().collect();
        let mut failure = None;
        let matches = match by {
            SelectionMethod::Similarity => by_similarity(&entries, question, similarity),
            SelectionMethod::Model if !entries.is_empty() => {
                match by_model(&entries, question, llm_session).await {
                    Ok(found) => found,
                    Err(error) => {
                        failure = Some(error);
                        by_keyword(&entries, question)
                    }
                }
            }
            SelectionMethod::Keyword | SelectionMethod::Model => by_keyword(&entries, question),
        };
        (choose_matches(&entries, matches), failure)
    }
}

struct KnowledgeEntry<'a> {
    name: &'a str,
    when: &'a [String],
    guidance: Option<&'a String>,
    sections: &'a [String],
    weight: f32,
}

impl KnowledgeEntry<'_> {
    fn text(&self) -> String {
        let prefer = (!self.sections.is_empty())
            .then(|| format!("prefer the sections {}", self.sections.join("; ")));
        let parts = [prefer.as_deref(), self.guidance.map(String::as_str)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    }
}

// Indexes of entries, with the reason.
type EntryMatches = Vec<(usize, String)>;

// Entries with a condition whose words occur in the question, in order.
fn by_keyword(entries: &[KnowledgeEntry<'_>], question: &str) -> EntryMatches {
    let words = content_words(question);
    entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry): (usize, &KnowledgeEntry<'_>)| {
            let keyword = entry.when.iter().find(|when| {
                let phrase = content_words(when);
                !phrase.is_empty() && words.windows(phrase.len()).any(|window| window == phrase)
            })?;
            Some((at, format!("keyword “{keyword}”")))
        })
        .collect()
}

// Cosine similarity of word sets, as binary vectors.
fn by_similarity(entries: &[KnowledgeEntry<'_>], question: &str, least: f32) -> EntryMatches {
    let question_words: BTreeSet<String> = content_words(question).into_iter().collect();
    let mut matches: Vec<(usize, f32)> = entries
        .iter()
        .map(|entry: &KnowledgeEntry<'_>| {
            let text = format!("{} {}", entry.when.join(" "), entry.text());
            let words: BTreeSet<String> = content_words(&text).into_iter().collect();
            let both = question_words.intersection(&words).count() as f32;
            both / ((question_words.len() * words.len()) as f32)
                .sqrt()
                .max(1.0)
        })
        .enumerate()
        .filter(|(_, value)| *value >= least)
        .collect();
    matches.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    matches
        .into_iter()
        .map(|(at, value)| (at, format!("similarity {value:.2}")))
        .collect()
}

// The model picks from the nearest entries.
async fn by_model(
    entries: &[KnowledgeEntry<'_>],
    question: &str,
    session: &LlmSession,
) -> Result<EntryMatches, SessionError> {
    let mut nearest: Vec<usize> = by_similarity(entries, question, 0.0)
        .into_iter()
        .map(|(at, _)| at)
        .collect();
    nearest.truncate(MAX_CANDIDATES);
    let system = "Rules of experts may help to find where a document answers a question. Name by their numbers those that \
                  fit the question, most helpful first, at most four; none where none does.";
    let properties = json!({ "rules": { "type": "array", "items": { "type": "integer" } } });
    let mut prompt = Prompt::new(system, OutputSchema::strict("choose_rules", &properties))
        .with_block("Question", question);
    for (number, at) in nearest.iter().enumerate() {
        let entry = &entries[*at];
        prompt = prompt.with_block(
            format!("Rule {}", number + 1),
            format!("{}: {}", entry.when.join(", "), entry.text()),
        );
    }
    #[derive(Deserialize)]

    struct ChosenEntry {
        rules: Vec<u64>,
    }
    let choices = session
        .complete(&prompt, |reply: ChosenEntry| Ok::<_, String>(reply.rules))
        .await?;
    // Numbers that were not shown are ignored.
    Ok(choices
        .iter()
        .filter_map(|number: &u64| {
            nearest
                .get(usize::try_from(number.checked_sub(1)?).ok()?)
                .copied()
        })
        .map(|at| (at, "model".into()))
        .collect())
}

fn choose_matches(entries: &[KnowledgeEntry<'_>], mut matches: EntryMatches) -> ChosenKnowledge {
    matches.sort_by(|a, b| entries[b.0].weight.total_cmp(&entries[a.0].weight));
    let mut chosen = ChosenKnowledge::default();
    for (at, by) in matches {
        let entry = &entries[at];
        if chosen.applied.len() < MAX_CHOSEN
            && !chosen
                .applied
                .iter()
                .any(|applied| applied.name == entry.name)
        {
            chosen.applied.push(AppliedKnowledge {
                name: entry.name.into(),
                by,
                text: entry.text(),
            });
            chosen.sections.extend(entry.sections.iter().cloned());
        }
    }
    chosen.text = chosen
        .applied
        .iter()
        .map(|applied| format!("- {}", applied.text))
        .collect::<Vec<_>>()
        .join("\n");
    chosen
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_store::RunId;

    use super::*;
    use crate::tree_search::budget::QuestionBudget;
    use crate::tree_search::scripted::ScriptedModel;

    async fn choose(
        question: &str,
        by: SelectionMethod,
        replies: &[&str],
    ) -> (Vec<String>, Option<SessionError>) {
        let (_, client) = ScriptedModel::with_replies(replies);
        let session = Arc::new(client).start_session(RunId("s".into()), QuestionBudget::default());
        let (chosen, error) = Knowledge::built_in()
            .choose(question, by, 0.2, &session)
            .await;
        (
            chosen
                .applied
                .into_iter()
                .map(|applied| format!("{} by {}", applied.name, applied.by))
                .collect(),
            error,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn knowledge_is_chosen_by_keyword_similarity_or_model() {
        let (chosen, _) = choose(
            "How large was capex in 2022?",
            SelectionMethod::Keyword,
            &[],
        )
        .await;
        assert_eq!(chosen, ["capital expenditure by keyword “capex”"]);
        assert!(
            choose("What is the weather?", SelectionMethod::Keyword, &[])
                .await
                .0
                .is_empty()
        );
        let (chosen, _) = choose(
            "purchases of property, plant and equipment",
            SelectionMethod::Similarity,
            &[],
        )
        .await;
        assert!(
            chosen[0].starts_with("capital expenditure by similarity"),
            "{chosen:?}"
        );
        let (chosen, _) = choose(
            "How large was capex?",
            SelectionMethod::Model,
            &[r#"{"rules":[0,1,999]}"#],
        )
        .await;
        assert_eq!(chosen.len(), 1, "numbers that were not shown are no rules");
        let (chosen, error) = choose("How large was capex?", SelectionMethod::Model, &[]).await;
        assert_eq!(chosen.len(), 1, "keywords stand in for the model");
        assert!(error.is_some());
    }

    #[test]
    fn built_in_knowledge_parses_and_invalid_files_are_rejected() {
        let built_in = Knowledge::parse(BUILT_IN).unwrap();
        assert!(built_in.rules.len() >= 10 && built_in.preferences.len() >= 6);
        let names: BTreeSet<&str> = built_in.entries().map(|entry| entry.name).collect();
        assert_eq!(
            names.len(),
            built_in.entries().count(),
            "each has a name of its own"
        );
        for wrong in [
            "rules = 1",
            "[[rules]]\nname = \"x\"\nwhen = []\nguidance = \"y\"",
            "[[rules]]\nwhat = 1",
        ] {
            assert!(Knowledge::parse(wrong).is_err(), "{wrong}");
        }
    }
}
