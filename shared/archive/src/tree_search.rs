//! Search that asks a model: what was done and why, for people and programs.

use serde::Serialize;
use stemma_answers::tree_search::result::{
    Analysis, AppliedKnowledge, SectionRelation, TraceSection,
};
use stemma_answers::tree_search::{
    Note, QuestionBudget, SessionUsage, TreeSearchResult, TreeSearchSources, TreeSearchStrategy,
    TreeSearchTrace,
};
use stemma_catalog::locator::section_locator;
use stemma_document::DocId;
use stemma_retrieval::{Query, search};
use utoipa::ToSchema;

use crate::documents::rounded_share;
use crate::{ApiError, Archive};

/// How a question is to be answered with a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeSearchOptions {
    /// By which strategy.
    pub strategy: TreeSearchStrategy,
    /// Calls at most, where another number than configured.
    pub calls: Option<u32>,
    /// Tokens at most, where another number than configured.
    pub tokens: Option<u64>,
}

/// How sections were come to with a model, or why without.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TreeSearchReport {
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
    #[serde(rename = "spent")]
    pub usage: SessionUsage,
    /// What the question was understood as.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub analysis: Option<Analysis>,
    /// Expert knowledge that was used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub knowledge: Vec<AppliedKnowledge>,
    /// How the hits relate, by rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub relations: Vec<SectionRelation>,
    /// What was done, in order; where an explanation is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TreeSearchStep>,
    /// Every section that was looked at; where an explanation is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "looked_at")]
    pub visited: Vec<VisitedSection>,
    /// Sections the model named that are none.
    pub unknown_ids: u32,
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TreeSearchStep {
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
pub struct VisitedSection {
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

impl Archive {
    /// Sections by a strategy that asks a model. Without a model `auto-with-model` searches without one, and says so.
    pub(crate) async fn tree_search(
        &self,
        finder: &dyn search::SearchService,
        query: &Query,
        how: TreeSearchOptions,
    ) -> Result<TreeSearchResult, ApiError> {
        let Some(reasoner) = self.reasoner() else {
            if how.strategy != TreeSearchStrategy::Auto {
                return Err(no_model(how.strategy));
            }
            let response = finder.search(query).await?;
            let note = Note::new(
                "model.none",
                "no model is configured: the sections are those of a search without one",
            );
            return Ok(TreeSearchResult {
                results: response,
                trace: TreeSearchTrace {
                    notes: vec![note],
                    ..TreeSearchTrace::default()
                },
            });
        };
        let asker = reasoner.client();
        let usual = reasoner.settings().budget;
        let calls = how.calls.unwrap_or(usual.calls);
        let tokens = how.tokens.unwrap_or(usual.tokens);
        let budget = QuestionBudget {
            calls,
            tokens,
            ..usual
        };
        let consultation = asker.start_session(asker.new_run_id("s"), budget);
        let sources = TreeSearchSources {
            search: finder,
            store: self,
            catalog: self.catalog(),
        };
        Ok(reasoner
            .search(sources, query, how.strategy, &consultation)
            .await?)
    }

    /// What is told of it: all steps where an explanation is asked for.
    pub(crate) fn tree_search_report(
        &self,
        reasoning: &TreeSearchTrace,
        explain: bool,
    ) -> TreeSearchReport {
        let steps = reasoning
            .steps
            .iter()
            .filter(|_| explain)
            .map(|step| TreeSearchStep {
                document: step.doc.map(|doc| self.label(doc)),
                what: step.what,
                why: step.why.clone(),
                thinking: step.thinking.clone(),
            });
        let looked_at = reasoning
            .visited
            .iter()
            .filter(|_| explain)
            .map(|visited| self.visited_section(visited));
        TreeSearchReport {
            strategy: reasoning.strategy.as_str(),
            model: reasoning.model.clone(),
            confidence: rounded_share(reasoning.confidence),
            notes: reasoning.notes.clone(),
            usage: reasoning.usage,
            analysis: reasoning.analysis.clone(),
            knowledge: reasoning.knowledge.clone(),
            relations: reasoning.relations.clone(),
            steps: steps.collect(),
            visited: looked_at.collect(),
            unknown_ids: reasoning.unknown_ids,
        }
    }

    fn visited_section(&self, visited: &TraceSection) -> VisitedSection {
        VisitedSection {
            locator: section_locator(&self.label(visited.doc), visited.section),
            path: visited.path.clone(),
            score: rounded_share(visited.score),
            lexical: rounded_share(visited.lexical),
            reason: visited.reason.clone(),
            visits: visited.visits,
            chosen: visited.chosen,
        }
    }

    fn label(&self, doc: DocId) -> String {
        self.catalog()
            .get(doc)
            .map_or_else(|| doc.to_string(), |listed| listed.label.clone())
    }
}

fn no_model(strategy: TreeSearchStrategy) -> ApiError {
    let message = format!(
        "the strategy `{}` asks a model, and none is configured",
        strategy.as_str()
    );
    ApiError::new(
        "config.no_model",
        message,
        "set model.name and model.base_url, or search with strategy auto",
    )
}
