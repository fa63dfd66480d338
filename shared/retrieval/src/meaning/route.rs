//! Which documents a question is for, by the sections near it.

use std::collections::{BTreeMap, HashMap, HashSet};

use stemma_document::DocId;
use stemma_engine::RunId;

use super::vectors::Near;
use super::{Meaning, MeaningError, Scored};
use crate::paid::Paid;

/// Where a question goes by meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Best first; after them those without vectors.
    pub documents: Vec<DocId>,
    /// What it cost.
    pub paid: Paid,
}

impl Meaning {
    /// The documents of `among` that fit a question best, by DocScore, best first; after them those without vectors, which
    /// no one can judge: a document that is new is never lost. `among` says which version of each counts; `run` is who
    /// asks, as the call log names it.
    ///
    /// # Errors
    /// [`MeaningError`] when the endpoint or the vectors could not say.
    pub async fn route(
        &self,
        question: &str,
        among: &HashMap<DocId, u64>,
        run: Option<&RunId>,
    ) -> Result<Routed, MeaningError> {
        let held = self.vectors.held().await?;
        let known: HashSet<DocId> = among
            .iter()
            .filter(|(doc, version)| held.get(*doc) == Some(*version))
            .map(|(doc, _)| *doc)
            .collect();
        let (vector, paid) = self.asked(question, run).await?;
        let all = known.len() == held.len();
        let near = self
            .vectors
            .nearest(&vector, (!all).then_some(&known), self.settings.nearest)
            .await?;
        let mut documents: Vec<DocId> = doc_scores(&near)
            .into_iter()
            .take(self.settings.documents)
            .map(|(doc, _)| doc)
            .collect();
        let mut unknown: Vec<DocId> = among
            .keys()
            .filter(|doc| !known.contains(*doc))
            .copied()
            .collect();
        unknown.sort_unstable();
        documents.extend(unknown);
        Ok(Routed { documents, paid })
    }

    /// Whether routing says anything about so many documents.
    pub fn narrows(&self, documents: usize) -> bool {
        documents > self.settings.documents
    }
}

/// DocScore (features F): `Σ scores / √(N + 1)` over the sections of a document among the nearest, N of them. Many sections
/// that fit speak for a document, but not each as much as the first.
pub fn doc_scores(near: &[Near]) -> Scored {
    let mut sums: BTreeMap<DocId, (f32, usize)> = BTreeMap::new();
    for one in near {
        let (sum, count) = sums.entry(one.doc).or_default();
        *sum += one.score.max(0.0);
        *count += 1;
    }
    let score = |(sum, count): (f32, usize)| sum / ((count + 1) as f32).sqrt();
    let mut scored: Scored = sums
        .into_iter()
        .map(|(doc, fits)| (doc, score(fits)))
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored
}
