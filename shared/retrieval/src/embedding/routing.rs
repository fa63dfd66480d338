//! Which documents a question is for, by the sections near it.

use std::collections::{BTreeMap, HashMap, HashSet};

use stemma_document::DocId;
use stemma_engine::RunId;

use super::vector_index::Neighbor;
use super::{DocumentScores, EmbeddingError, SemanticRouter};
use crate::usage::CallUsage;

/// Where a question goes by meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedDocuments {
    /// Best first; after them those without vectors.
    pub documents: Vec<DocId>,
    /// What it cost.
    pub usage: CallUsage,
}

impl SemanticRouter {
    /// The documents of `among` that fit a question best, by DocScore, best first; after them those without vectors, which
    /// no one can judge: a document that is new is never lost. `among` says which version of each counts; `run` is who
    /// asks, as the call log names it.
    ///
    /// # Errors
    /// [`EmbeddingError`] when the endpoint or the vectors could not say.
    pub async fn route(
        &self,
        question: &str,
        among: &HashMap<DocId, u64>,
        run: Option<&RunId>,
    ) -> Result<RoutedDocuments, EmbeddingError> {
        let versions = self.vectors.versions().await?;
        let with_vectors: HashSet<DocId> = among
            .iter()
            .filter(|(doc, version)| versions.get(*doc) == Some(*version))
            .map(|(doc, _)| *doc)
            .collect();
        let (vector, usage) = self.query_cache(question, run).await?;
        let all = with_vectors.len() == versions.len();
        let near = self
            .vectors
            .nearest(
                &vector,
                (!all).then_some(&with_vectors),
                self.settings.nearest,
            )
            .await?;
        let mut documents: Vec<DocId> = doc_scores(&near)
            .into_iter()
            .take(self.settings.documents)
            .map(|(doc, _)| doc)
            .collect();
        let mut unknown: Vec<DocId> = among
            .keys()
            .filter(|doc| !with_vectors.contains(*doc))
            .copied()
            .collect();
        unknown.sort_unstable();
        documents.extend(unknown);
        Ok(RoutedDocuments { documents, usage })
    }

    /// Whether routing says anything about so many documents.
    pub fn narrows(&self, documents: usize) -> bool {
        documents > self.settings.documents
    }
}

/// DocScore (features F): `Σ scores / √(N + 1)` over the sections of a document among the nearest, N of them. Many sections
/// that fit speak for a document, but not each as much as the first.
pub fn doc_scores(near: &[Neighbor]) -> DocumentScores {
    let mut sums: BTreeMap<DocId, (f32, usize)> = BTreeMap::new();
    for one in near {
        let (sum, count) = sums.entry(one.doc).or_default();
        *sum += one.score.max(0.0);
        *count += 1;
    }
    let score = |(sum, count): (f32, usize)| sum / ((count + 1) as f32).sqrt();
    let mut scored: DocumentScores = sums
        .into_iter()
        .map(|(doc, fits)| (doc, score(fits)))
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored
}
