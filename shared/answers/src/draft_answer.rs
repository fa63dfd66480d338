//! The reply of a model to a question, before it is checked.

use serde::Deserialize;

use super::answer::FinalAnswer;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct DraftAnswer {
    pub(super) answerable: bool,
    #[serde(default, rename = "answer")]
    pub(super) final_answer: Option<FinalAnswer>,
    // Parts of the question that the passages do not answer.
    #[serde(default)]
    pub(super) missing: Vec<String>,
    #[serde(default)]
    pub(super) claims: Vec<DraftClaim>,
    #[serde(default)]
    pub(super) confidence: f64,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct DraftClaim {
    pub(super) statement: String,
    #[serde(default)]
    pub(super) citations: Vec<DraftCitation>,
    #[serde(default)]
    pub(super) computation: Option<DraftComputation>,
    // Numbers of the pictures that show it.
    #[serde(default)]
    pub(super) pictures: Vec<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DraftComputation {
    pub(super) formula: String,
    pub(super) operands: Vec<DraftOperand>,
    // The figure as the statement writes it.
    pub(super) result: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DraftOperand {
    pub(super) name: String,
    // Which citation of the claim, from 1.
    pub(super) citation: i64,
    pub(super) value: String,
    pub(super) row: String,
    pub(super) period: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct DraftCitation {
    pub(super) passage: i64,
    #[serde(default)]
    pub(super) quote: String,
}

impl DraftAnswer {
    // Whether nothing is left open.
    pub(super) fn is_complete(&self) -> bool {
        self.answerable && self.missing.is_empty()
    }

    // Indexes of the passages that it cites, each once.
    pub(super) fn cited_passages(&self) -> Vec<usize> {
        let mut cited = Vec::new();
        let citations = self.claims.iter().flat_map(|claim| &claim.citations);
        for at in citations.filter_map(|one| usize::try_from(one.passage - 1).ok()) {
            if !cited.contains(&at) {
                cited.push(at);
            }
        }
        cited
    }

    // A later draft replaces this one unless it says less.
    pub(super) fn improved_by(self, later: Self) -> Self {
        let open = |draft: &Self| {
            let claims = std::cmp::Reverse(draft.claims.len());
            (!draft.answerable, draft.missing.len(), claims)
        };
        if self.answerable && open(&later) > open(&self) {
            self
        } else {
            later
        }
    }
}
