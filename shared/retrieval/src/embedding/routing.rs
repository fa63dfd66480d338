//! Which documents a question is for, by the sections near it.

use std::collections::{BTreeMap, HashMap, HashSet};

use stemma_document::DocId;
use stemma_store::RunId;

use super::flat_vectors::Neighbor;
use super::{DocumentScores, EmbeddingError, SemanticRouter};
use crate::usage::CallUsage;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedDocuments {
    /// Best first; documents without vectors come last.
    pub documents: Vec<DocId>,
    /// Cost of embedding the query.
    pub usage: CallUsage,
}

impl SemanticRouter {
    /// Ranks the documents of `among`, each in the given version, by DocScore, best first. Documents without vectors
    /// follow: they cannot be ranked, but a new document must not be lost. `run` is named in the call log.
    ///
    /// # Errors
    /// [`EmbeddingError`] if the endpoint or the vector store fails.
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
        let (vector, usage) = self.query_vector(question, run).await?;
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

    /// Whether routing leaves any of so many documents out.
    pub fn narrows(&self, documents: usize) -> bool {
        documents > self.settings.documents
    }
}

/// DocScore as in PageIndex: `Σ scores / √(N + 1)` over the N nearest sections of a document. Each further section adds to
/// the score, but less than the first, so that long documents do not win by length.
pub fn doc_scores(near: &[Neighbor]) -> DocumentScores {
    let mut sums: BTreeMap<DocId, (f32, usize)> = BTreeMap::new();
    for neighbor in near {
        let (sum, count) = sums.entry(neighbor.doc).or_default();
        *sum += neighbor.score.max(0.0);
        *count += 1;
    }
    let mut scored: DocumentScores = sums
        .into_iter()
        .map(|(doc, (sum, count))| (doc, sum / ((count + 1) as f32).sqrt()))
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored
}
