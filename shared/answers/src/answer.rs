//! A stored answer: claims, citations, what was read, and what it cost. Written once, never changed.

use serde::{Deserialize, Serialize};

use stemma_verify::ClaimState;

use super::citation::Citation;
use super::request::{AnswerMode, is_false};
use crate::tree_search::SessionUsage;
use stemma_retrieval::search::{AppliedFilter, MissingTerm, Snippet};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// `a-` and 16 hexadecimal digits: a digest of question, scope, trees, model, prompts and knowledge.
    pub id: String,
    pub question: String,
    pub outcome: AnswerOutcome,
    /// The final answer, then the claims, each with the numbers of its citations, then what is missing: `It was $1,749 million [1].`
    pub text: String,
    /// The final answer in short; `None` when the model gave none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[serde(rename = "answer")]
    pub final_answer: Option<FinalAnswer>,
    /// The reasons of the answer.
    pub claims: Vec<Claim>,
    /// Parts of the question that what was read does not answer, in the model's words.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub missing: Vec<String>,
    pub citations: Vec<Citation>,
    /// The pages whose pictures the model saw.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pictures: Vec<SeenPage>,
    /// The model's confidence (0–1), never more than the share of claims that are not unverified.
    pub confidence: Option<f64>,
    /// How it was found: `search`, or `agent` if tools were called.
    #[serde(default)]
    pub mode: AnswerMode,
    /// The model that answered; `None` when none did.
    pub model: Option<String>,
    /// Why the answer is incomplete.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[serde(rename = "degraded")]
    pub degradation: Option<Degradation>,
    pub searched: SearchSummary,
    /// Sections that were read, in order; without a model, what the search found.
    pub sections: Vec<ReadSection>,
    pub steps: Vec<AnswerStep>,
    /// Parts of the model's reply that failed the checks.
    #[serde(rename = "dropped")]
    pub rejected: RejectedCounts,
    pub usage: GenerationUsage,
    /// Whether this answer was read from the store and no LLM call was made. Never stored.
    #[serde(skip_serializing_if = "is_false", default)]
    #[serde(rename = "replayed")]
    pub is_replay: bool,
}

impl Answer {
    pub fn citation(&self, id: &str) -> Option<&Citation> {
        self.citations.iter().find(|citation| citation.id == id)
    }
}

/// A step on the way to an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerStep {
    pub kind: StepKind,
    /// A few words, without text of documents.
    pub what: String,
    /// The model's own reason; empty when no model was asked.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub thinking: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The question was split or rewritten.
    Plan,
    Search,
    /// Text was read.
    Read,
    Tool,
    /// A tool call was rejected: no such tool, or outside the scope of the question.
    Refused,
    /// The model was asked.
    Ask,
    /// Quotes and numbers were compared with pages.
    Check,
    /// The model was unavailable, or a limit was reached.
    Degrade,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    Answered,
    /// The documents that were searched do not say.
    NotInDocuments,
    /// No model answered: `sections` lists what a search without a model found.
    SearchOnly,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// `c1`, `c2` … in the order of the answer.
    pub id: String,
    /// Without citation marks. Figures, with unit and period, are printed as the cited pages have them.
    pub text: String,
    /// How far it can be relied on.
    pub state: ClaimState,
    /// Ids of its citations.
    pub citations: Vec<String>,
    /// The figures of the text, and those that they are computed from.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub figures: Vec<ClaimFigure>,
    /// Why it is not verified.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The pages from whose images the model says it read the claim. Nothing can check that, so it is never verified.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_sight: Vec<SeenPage>,
}

/// A figure of a claim: a cell or a number of a sentence, or computed from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimFigure {
    /// Its name in formulas.
    pub name: String,
    /// As shown, with its unit: `$1,749 million`.
    pub text: String,
    /// The exact value in whole units; `None` if the figure was not found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub unit: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub period: String,
    /// Label of its row on the page; empty in a sentence.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub row: String,
    /// Head of its column on the page.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub column: String,
    /// Id of its citation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub citation: Option<String>,
    /// How it is computed: `(a - b) / b`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub formula: String,
}

/// The final answer, without its reasons. Fields that do not apply are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalAnswer {
    /// A figure with its unit, or a few words: `12.3%`, `Yes`.
    pub value: String,
    /// The fiscal year, quarter or date that the value is of.
    pub period: String,
    /// What a judgement was measured by.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub criterion: String,
    /// Whether it gives figures, and all of them are those of claims that are verified or computed.
    pub verified: bool,
    /// Ids of the claims it rests on: those with its figures, or all for a judgement and for an answer in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
}

impl FinalAnswer {
    /// `12.3% (FY2022)`
    pub fn figure(&self) -> String {
        match self.period.as_str() {
            "" => self.value.clone(),
            period => format!("{} ({period})", self.value),
        }
    }

    /// The sentence that begins the text of an answer, without its full stop.
    pub fn sentence(&self) -> String {
        match self.criterion.as_str() {
            "" => self.figure(),
            criterion => format!("{}, measured by {criterion}", self.figure()),
        }
    }
}

/// The sentence that ends the text of an answer which leaves parts of its question open.
pub fn missing_sentence(missing: &[String]) -> Option<String> {
    let parts: Vec<&str> = missing
        .iter()
        .map(|part| part.trim_end_matches('.'))
        .collect();
    (!parts.is_empty()).then(|| format!("Not found in what was read: {}.", parts.join("; ")))
}

impl Claim {
    /// Whether code found each of its figures and quotes on the cited pages.
    pub fn is_supported(&self) -> bool {
        matches!(
            self.state,
            ClaimState::Verified | ClaimState::Computed | ClaimState::Quoted
        )
    }

    /// `from an image: 3M_2022_10K#p=47`; `None` for a claim in another state.
    pub fn image_note(&self) -> Option<String> {
        let locators = self.by_sight.iter().map(|page| page.locator.as_str());
        let locators: Vec<&str> = locators.collect();
        (self.state == ClaimState::FromImage).then(|| {
            let note = format!("from an image: {}", locators.join(", "));
            // Brackets could be taken for citation marks.
            note.replace('[', "(").replace(']', ")")
        })
    }

    /// Splits off the final full stop, so that citation marks can go between.
    pub fn split_final_stop(&self) -> (&str, &str) {
        match self.text.strip_suffix(['.', '!', '?', '。']) {
            Some(statement) => (statement, &self.text[statement.len()..]),
            None if self.citations.is_empty() => (&self.text, ""),
            None => (&self.text, "."),
        }
    }
}

/// A page whose picture a model saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPage {
    pub doc_id: String,
    /// The document's file name.
    pub name: String,
    /// Physical page (1-based).
    pub page: u32,
    /// `3M_2022_10K#p=47`.
    pub locator: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degradation {
    /// Stable code: `model.not_configured`, `model.breaker_open`, `answer.limit_reached` …
    pub code: String,
    pub message: String,
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchSummary {
    /// Documents that pass scope and filter.
    pub documents_in_scope: usize,
    pub documents: usize,
    /// Sections of all searched documents.
    pub sections: usize,
    /// Filters that were derived from the question itself.
    #[serde(rename = "routed")]
    pub applied_filters: Vec<AppliedFilter>,
    /// Documents in scope that were not indexed yet, so that they were not searched.
    pub documents_not_indexed: usize,
    /// Documents in scope that could not be read, so that they were not searched.
    pub documents_unreadable: usize,
    /// Words and names of the question that no document in scope has; `None` if some are not indexed.
    pub missing_terms: Option<Vec<MissingTerm>>,
    /// The share (0–1) of what the question asks about that one of the best passages has; `None` if unknown.
    pub evidence: Option<f64>,
    /// Whether the best passages have so little of what is asked that the answer is hardly there; `None` if unknown.
    pub low_evidence: Option<bool>,
    /// The question, then each sub-question that was searched for.
    pub queries: Vec<String>,
    /// Names of the documents that were read, at most ten.
    pub names: Vec<String>,
}

impl SearchSummary {
    /// The words and names that no document has, as far as that is known.
    pub fn known_missing_terms(&self) -> &[MissingTerm] {
        self.missing_terms.as_deref().unwrap_or_default()
    }

    // The state before anything was read, which the `route` event carries.
    pub(super) fn without_names(&self) -> Self {
        let queries = self.queries.iter().take(1).cloned().collect();
        Self {
            queries,
            names: Vec::new(),
            ..self.clone()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadSection {
    pub doc_id: String,
    pub name: String,
    pub section_id: String,
    /// Locator of the section.
    pub locator: String,
    /// Titles from the root down to the section.
    pub path: Vec<String>,
    /// Physical pages (1-based) that were read; empty in a document without pages.
    pub pages: Vec<u32>,
    /// First and last line (1-based, inclusive) that were read, in a document without pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines: Option<(u32, u32)>,
    /// Tokens of the text that was read (o200k).
    pub tokens: u32,
    /// Comparable within one answer only.
    pub score: f64,
    /// Why the section was read.
    pub why: String,
    /// The lines that the search found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub excerpt: Option<Snippet>,
    /// Whether a citation points into it.
    pub cited: bool,
    /// Index in [`Answer::steps`] of the step that read it.
    pub step: usize,
}

/// Counts of what a model said that is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RejectedCounts {
    /// Citations of passages, and mentions of pictures, that the model was not shown.
    pub unknown_passages: u32,
    /// Citations without a quote, and duplicates.
    pub empty_quotes: u32,
    /// Citations whose quote was not found, when only verified ones are kept.
    pub unverified: u32,
    /// Tool calls that are not allowed, or outside the scope of the question.
    pub tool_calls: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationUsage {
    pub calls: u32,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    /// Cost at current prices in billionths of a dollar, when prices are known. Never stored, since prices change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nanodollars: Option<u64>,
}

impl From<SessionUsage> for GenerationUsage {
    fn from(usage: SessionUsage) -> Self {
        Self {
            calls: usage.calls,
            prompt_tokens: usage.prompt_tokens,
            output_tokens: usage.output_tokens,
            nanodollars: usage.nanodollars,
        }
    }
}
