//! An answer: what is said, what it rests on, what was looked at and what it cost. Stored once, never changed.

use serde::{Deserialize, Serialize};

use super::citation::Citation;
use super::event::{AnswerEvent, AnswerStep, EventSink};
use stemma_retrieval::search::AppliedFilter;

/// Characters of a text that are told at once, about.
const CHUNK_CHARS: usize = 80;

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// `a-` and 16 hexadecimal digits: a digest of question, scope, trees, model, prompts and knowledge.
    pub id: String,
    /// The question.
    pub question: String,
    /// What came of it.
    pub outcome: AnswerOutcome,
    /// The claims as one text, each with the numbers of its citations: `It was $1,749 million [1].`
    pub text: String,
    /// What is claimed, in order.
    pub claims: Vec<Claim>,
    /// What the claims rest on, in order of their ids.
    pub citations: Vec<Citation>,
    /// How sure the model says it is (0–1), never more than the share of claims that is verified.
    pub confidence: Option<f64>,
    /// The model that answered; `None` where none did.
    pub model: Option<String>,
    /// Why the answer is less than it could be; `None` where nothing was left out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[serde(rename = "degraded")]
    pub degradation: Option<Degradation>,
    /// Where was looked.
    pub searched: SearchSummary,
    /// Sections that were put before the model, in order; without a model, what was found.
    pub sections: Vec<ReadSection>,
    /// How it came to be, in order.
    pub steps: Vec<AnswerStep>,
    /// What the model said that is not shown.
    #[serde(rename = "dropped")]
    pub rejected: RejectedCounts,
    /// What it took to make.
    pub usage: GenerationUsage,
    /// Whether it was made before and only read again: no call was made for it now. Never stored.
    #[serde(skip_serializing_if = "is_false", default)]
    #[serde(rename = "replayed")]
    pub is_replay: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Answer {
    /// All that is told of it, in the order in which it was told first: the position of an event in a stream never changes.
    pub fn events(&self) -> Vec<AnswerEvent> {
        let mut events = Vec::new();
        self.replay(&mut events);
        events
    }

    /// Tells the whole of it again.
    pub(super) fn replay(&self, events: &mut dyn EventSink) {
        events.send(AnswerEvent::Route(self.searched.without_names()));
        for (index, step) in self.steps.iter().enumerate() {
            events.send(AnswerEvent::Step(step.clone()));
            for section in self.sections.iter().filter(|section| section.step == index) {
                events.send(AnswerEvent::Section(ReadSection {
                    cited: false,
                    ..section.clone()
                }));
            }
        }
        self.send_content(events);
    }

    /// Tells what is part of the answer, as it is stored: its text, piece by piece, each citation before the piece that
    /// names it first, what it took, and the whole.
    pub(super) fn send_content(&self, events: &mut dyn EventSink) {
        let mut sent_citations: Vec<&str> = Vec::new();
        for piece in text_chunks(&self.text) {
            for citation in &self.citations {
                if piece.contains(&format!("[{}]", citation.id))
                    && !sent_citations.contains(&citation.id.as_str())
                {
                    sent_citations.push(&citation.id);
                    events.send(AnswerEvent::Citation(citation.clone()));
                }
            }
            events.send(AnswerEvent::Delta {
                text: piece.to_owned(),
            });
        }
        let untold = self
            .citations
            .iter()
            .filter(|citation| !sent_citations.contains(&citation.id.as_str()));
        untold.for_each(|citation| events.send(AnswerEvent::Citation(citation.clone())));
        events.send(AnswerEvent::Usage(self.usage));
        events.send(AnswerEvent::Done(Box::new(self.clone())));
    }

    /// The citation of this id.
    pub fn citation(&self, id: &str) -> Option<&Citation> {
        self.citations.iter().find(|citation| citation.id == id)
    }
}

/// A text as it is told: in pieces that end behind a space; together they are the text.
pub fn text_chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let far = rest
            .char_indices()
            .nth(CHUNK_CHARS)
            .map_or(rest.len(), |(at, _)| at);
        let end = rest[far..]
            .find(' ')
            .map_or(rest.len(), |space| far + space + 1);
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// It is answered.
    Answered,
    /// The documents that were searched do not say.
    NotInDocuments,
    /// No model answered: `sections` are what a search without a model found.
    SearchOnly,
}

/// One thing that is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The statement, without marks of citations.
    pub text: String,
    /// Ids of the citations it rests on.
    pub citations: Vec<String>,
    /// Whether the quote of each of its citations stands on the cited page, and every number of the statement in the cited text; a
    /// claim without a citation never is.
    pub verified: bool,
    /// Numbers of the statement that stand in none of the cited texts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[serde(rename = "unfounded")]
    pub unsupported_numbers: Vec<String>,
}

impl Claim {
    /// The statement, and the stop that ends it in a text: what is said of it, marks of citations above all, stands between them.
    pub fn split_final_stop(&self) -> (&str, &str) {
        match self.text.strip_suffix(['.', '!', '?', '。']) {
            Some(statement) => (statement, &self.text[statement.len()..]),
            None if self.citations.is_empty() => (&self.text, ""),
            None => (&self.text, "."),
        }
    }
}

/// Why an answer is less than it could be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degradation {
    /// Stable code: `model.absent`, `model.breaker_open`, `answer.limit` …
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub next: Option<String>,
}

/// Where was looked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchSummary {
    /// Documents that scope and filter allow.
    pub documents_in_scope: usize,
    /// Documents that were searched.
    pub documents: usize,
    /// Sections of all documents searched.
    pub sections: usize,
    /// What the question itself said about where to look.
    #[serde(rename = "routed")]
    pub applied_filters: Vec<AppliedFilter>,
    /// What was searched for: the question, and each part of it that was looked for by itself.
    pub queries: Vec<String>,
    /// Names of the documents that were read, at most ten.
    pub names: Vec<String>,
}

impl SearchSummary {
    /// What was known before anything was read.
    pub(super) fn without_names(&self) -> Self {
        let queries = self.queries.iter().take(1).cloned().collect();
        Self {
            queries,
            names: Vec::new(),
            ..self.clone()
        }
    }
}

/// A section that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadSection {
    /// The document's id.
    pub doc_id: String,
    /// The document's file name.
    pub name: String,
    /// The section.
    pub section_id: String,
    /// The section, to paste back.
    pub locator: String,
    /// Titles from the top down to it.
    pub path: Vec<String>,
    /// Physical pages of it that were read; empty in a text without pages.
    pub pages: Vec<u32>,
    /// First and last line that were read, in a text without pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines: Option<(u32, u32)>,
    /// Tokens of what was read (o200k).
    pub tokens: u32,
    /// How well it fits; comparable within one answer.
    pub score: f64,
    /// Why it was read.
    pub why: String,
    /// Whether a citation names it.
    pub cited: bool,
    /// The step that read it: index in [`Answer::steps`].
    pub step: usize,
}

/// What a model said that is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectedCounts {
    /// Citations of passages it was not shown.
    pub unknown_passages: u32,
    /// Citations without a quote, or further ones of what is cited already.
    pub empty_quotes: u32,
    /// Citations that stand nowhere, where only verified ones are kept.
    pub unverified: u32,
    /// Calls of tools that are not allowed, or beyond the scope of the question.
    pub tool_calls: u32,
}

/// What an answer took to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationUsage {
    /// Calls of a model.
    pub calls: u32,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Tokens of their replies.
    pub output_tokens: u64,
    /// What that costs now, in billionths of a dollar, where prices are known. Never stored: prices change no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanodollars: Option<u64>,
}
