//! Search that asks a model: what was done and why, for people and programs.

use serde::Serialize;
use stemma_answers::reason::walked::{Analysis, Applied, LookedAt, Related};
use stemma_answers::reason::{Budget, Note, Reasoning, Sources, Spent, Strategy, Walked};
use stemma_catalog::locator::section_locator;
use stemma_document::DocId;
use stemma_retrieval::{Query, find};
use utoipa::ToSchema;

use crate::{Reader, Refusal};

/// How a question is to be answered with a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reasoned {
    /// By which strategy.
    pub strategy: Strategy,
    /// Calls at most, where another number than configured.
    pub calls: Option<u32>,
    /// Tokens at most, where another number than configured.
    pub tokens: Option<u64>,
}

/// How sections were come to with a model, or why without.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReasoningView {
    /// The strategy that was asked for.
    pub strategy: &'static str,
    /// The model; `None` where none was asked.
    pub model: Option<String>,
    /// How sure the answer is, 0–1.
    pub confidence: f64,
    /// Where less was done than asked, or other than asked: to be told.
    #[schema(value_type = Vec<Object>)]
    pub notes: Vec<Note>,
    /// What it cost.
    #[schema(value_type = Object)]
    pub spent: Spent,
    /// What the question was understood as.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub analysis: Option<Analysis>,
    /// Expert knowledge that was used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub knowledge: Vec<Applied>,
    /// How the hits relate, by rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub relations: Vec<Related>,
    /// What was done, in order; where an explanation is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
    /// Every section that was looked at; where an explanation is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub looked_at: Vec<LookedAtView>,
    /// Sections the model named that are none.
    pub unknown_ids: u32,
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StepView {
    /// The document, to paste back; `None` for what concerns several.
    pub document: Option<String>,
    /// `analysis`, `routing`, a strategy, `references`.
    pub what: &'static str,
    /// Why.
    pub why: String,
    /// What the model said that it thinks, call by call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<String>,
}

/// A section that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LookedAtView {
    /// To paste back.
    pub locator: String,
    /// Titles from the top down to it.
    pub path: Vec<String>,
    /// The model's score, 0–1.
    pub score: f64,
    /// The score of the search without a model, 0–1.
    pub lexical: f64,
    /// Why, as the model says.
    pub reason: String,
    /// How often it was valued.
    pub visits: u32,
    /// Whether it is among the hits.
    pub chosen: bool,
}

impl Reader {
    /// Sections by a strategy that asks a model. Without a model `auto-with-model` searches without one, and says so.
    pub(crate) async fn reason(
        &self,
        finder: &dyn find::Finder,
        query: &Query,
        how: Reasoned,
    ) -> Result<Walked, Refusal> {
        let Some(reasoner) = self.reasoner() else {
            if how.strategy != Strategy::Auto {
                return Err(no_model(how.strategy));
            }
            let found = finder.find(query).await?;
            let note = Note::new(
                "model.none",
                "no model is configured: the sections are those of a search without one",
            );
            return Ok(Walked {
                found,
                reasoning: Reasoning {
                    notes: vec![note],
                    ..Reasoning::default()
                },
            });
        };
        let asker = reasoner.asker();
        let usual = reasoner.settings().budget;
        let calls = how.calls.unwrap_or(usual.calls);
        let tokens = how.tokens.unwrap_or(usual.tokens);
        let budget = Budget {
            calls,
            tokens,
            ..usual
        };
        let consultation = asker.begin(asker.name("s"), budget);
        let sources = Sources {
            finder,
            shelf: self,
            catalogue: self.catalogue(),
        };
        Ok(reasoner
            .walk(sources, query, how.strategy, &consultation)
            .await?)
    }

    /// What is told of it: all steps where an explanation is asked for.
    pub(crate) fn reasoning(&self, reasoning: &Reasoning, explain: bool) -> ReasoningView {
        let steps = reasoning
            .steps
            .iter()
            .filter(|_| explain)
            .map(|step| StepView {
                document: step.doc.map(|doc| self.label(doc)),
                what: step.what,
                why: step.why.clone(),
                thinking: step.thinking.clone(),
            });
        let looked_at = reasoning
            .looked_at
            .iter()
            .filter(|_| explain)
            .map(|looked| self.looked_at(looked));
        ReasoningView {
            strategy: reasoning.strategy.as_str(),
            model: reasoning.model.clone(),
            confidence: rounded(reasoning.confidence),
            notes: reasoning.notes.clone(),
            spent: reasoning.spent,
            analysis: reasoning.analysis.clone(),
            knowledge: reasoning.knowledge.clone(),
            relations: reasoning.relations.clone(),
            steps: steps.collect(),
            looked_at: looked_at.collect(),
            unknown_ids: reasoning.unknown_ids,
        }
    }

    fn looked_at(&self, looked: &LookedAt) -> LookedAtView {
        LookedAtView {
            locator: section_locator(&self.label(looked.doc), looked.section),
            path: looked.path.clone(),
            score: rounded(looked.score),
            lexical: rounded(looked.lexical),
            reason: looked.reason.clone(),
            visits: looked.visits,
            chosen: looked.chosen,
        }
    }

    fn label(&self, doc: DocId) -> String {
        self.catalogue()
            .get(doc)
            .map_or_else(|| doc.to_string(), |listed| listed.label.clone())
    }
}

fn no_model(strategy: Strategy) -> Refusal {
    let message = format!(
        "the strategy `{}` asks a model, and none is configured",
        strategy.as_str()
    );
    Refusal::new(
        "config.no_model",
        message,
        "set model.name and model.base_url, or search with strategy auto",
    )
}

fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1_000.0).round() / 1_000.0
}
