//! The reply of a model to a question, before it is checked.

use serde::Deserialize;
use stemma_verify::StatedClaim;

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
    pub(super) claims: Vec<StatedClaim>,
    #[serde(default)]
    pub(super) confidence: f64,
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
