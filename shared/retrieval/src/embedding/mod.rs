//! Search by meaning: sections as vectors, and documents ranked by those near a question.
//!
//! - [`vector_index`]: the port: who keeps vectors and finds the nearest; an engine that does could stand there.
//! - [`flat_index`]: the adapter that is built: files beside the index, everything compared, no approximation.
//! - [`knn`]: the comparison itself.
//! - [`routing`]: which documents a question is for, by DocScore.
//! - [`embedder`]: the way to the endpoint: limits, prices, tries and the call log.
//! - [`embed`]: bringing vectors up to a catalogue, within a budget ([`budget`]).
//!
//! Off unless an endpoint for embeddings is configured. Vectors are a cache of this machine, made from published trees;
//! whatever is wrong with one is repaired by making it again. What it refuses to do: leave a document out because it has no
//! vectors yet, or pretend to search where the endpoint is away.

pub mod budget;
pub mod embed;
pub mod embedder;
pub mod flat_index;
pub mod knn;
pub mod routing;
#[cfg(test)]
mod tests;
pub mod vector_index;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::DocId;
use stemma_engine::{Env, Failure, PortError, RunId};
use stemma_llm::tokens;

use crate::cache::Cache;
use crate::usage::CallUsage;
use embedder::MeteredEmbedder;
use vector_index::VectorIndex;

/// Vectors of questions kept: bytes, and for how long.
const QUERY_CACHE_BYTES: usize = 4 << 20;
const QUERY_CACHE_MS: u64 = 60 * 60_000;

/// What is embedded, and how much of it counts; configuration of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingSettings {
    /// Tokens of a section that are embedded: its path, its summary, and the beginning of its own text.
    pub section_tokens: u32,
    /// Sections near a question from which documents are scored.
    pub nearest: usize,
    /// Documents that a question is routed to at most; in an archive with no more of them, nothing is routed.
    pub documents: usize,
}

impl Default for EmbeddingSettings {
    fn default() -> Self {
        Self {
            section_tokens: 400,
            nearest: 200,
            documents: 20,
        }
    }
}

/// Why there is no answer by meaning.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The endpoint did not answer.
    #[error("embeddings: {} ({})", .0.message, .0.code)]
    Endpoint(Failure),
    /// The store, or the disk, could not say.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Vectors of two lengths: another model answers under the same name.
    #[error("the vectors kept have {kept} numbers, and new ones {new}")]
    Dimensions {
        /// Of those kept.
        kept: usize,
        /// Of those that came.
        new: usize,
    },
    /// More vectors than exact search is for.
    #[error("{vectors} vectors are more than {most}, for which exact search is measured")]
    TooManyVectors {
        /// How many there would be.
        vectors: usize,
        /// How many there may be.
        most: usize,
    },
}

/// Search by meaning over one collection.
pub struct SemanticRouter {
    env: Env,
    embedder: MeteredEmbedder,
    vectors: Arc<dyn VectorIndex>,
    settings: EmbeddingSettings,
    query_cache: Cache<String, Arc<Vec<f32>>>,
}

impl SemanticRouter {
    /// Over what `vector_index` keeps, by what `embedder` says.
    pub fn new(
        env: Env,
        embedder: MeteredEmbedder,
        vectors: Arc<dyn VectorIndex>,
        settings: EmbeddingSettings,
    ) -> Self {
        Self {
            env,
            embedder: embedder,
            vectors,
            settings,
            query_cache: Cache::new(QUERY_CACHE_BYTES, QUERY_CACHE_MS),
        }
    }

    /// What is kept.
    pub fn vectors(&self) -> &dyn VectorIndex {
        self.vectors.as_ref()
    }

    /// The vector of a question, and what it cost; nothing, where it was asked lately.
    async fn query_cache(
        &self,
        question: &str,
        run: Option<&RunId>,
    ) -> Result<(Arc<Vec<f32>>, CallUsage), EmbeddingError> {
        let key = question.to_owned();
        let now_ms = self.env.now_ms();
        if let Some(cached) = self.query_cache.get(&key, now_ms) {
            return Ok((cached, CallUsage::default()));
        }
        let (vector, usage) = self.embedder.embed_query(question, run).await?;
        let vector = Arc::new(knn::normalize(vector));
        self.query_cache.put(
            key,
            Arc::clone(&vector),
            4 * vector.len() + question.len(),
            now_ms,
        );
        Ok((vector, usage))
    }
}

/// Documents with vectors, and the score each has for a question.
pub type DocumentScores = Vec<(DocId, f32)>;

/// The beginning of a text, of at most so many tokens, cut at a character.
fn truncate_to_tokens(text: &str, most: u32) -> &str {
    // No token of the vocabulary is longer than this on average over real text; a first cut that spares counting.
    const BYTES_PER_TOKEN: usize = 8;
    let mut cut = &text[..text.floor_char_boundary(most as usize * BYTES_PER_TOKEN)];
    loop {
        let count = tokens::count(cut);
        if count <= most {
            return cut;
        }
        let share = cut.len() as f64 * f64::from(most) / f64::from(count);
        cut = &cut[..cut.floor_char_boundary((share as usize).min(cut.len() - 1))];
    }
}

/// Work that keeps a core or the disk busy, off the threads that serve IO.
async fn run_cpu<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PortError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| PortError::permanent("vectors", "compute", error.to_string()))
}
