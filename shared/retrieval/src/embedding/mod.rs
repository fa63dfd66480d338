//! Semantic routing: embeddings of sections, and documents ranked by the sections nearest to a query.
//!
//! - [`flat_index`]: the vectors, in files next to the full-text index ([`vector_file`]), with exact search ([`flat_vectors`]).
//! - [`knn`]: exact nearest neighbors.
//! - [`routing`]: ranks documents for a query by DocScore.
//! - [`embedder`]: calls the endpoint with rate limits, prices, retries and the call log.
//! - [`embed`]: embeds new sections of a catalog within a budget ([`budget`]).
//!
//! Off unless an embedding endpoint is configured. Vectors are a local cache of published trees; a damaged file is
//! deleted and computed again. A document without vectors is never left out of a search, and an unreachable endpoint is
//! an error.

pub mod budget;
pub mod embed;
pub mod embedder;
pub mod flat_index;
pub mod flat_vectors;
pub mod knn;
pub mod routing;
#[cfg(test)]
mod tests;
pub mod vector_file;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::DocId;
use stemma_llm::tokens;
use stemma_store::cache::Cache;
use stemma_store::work::compute;
use stemma_store::{Env, Failure, PortError, PortResult, RunId};

use crate::usage::CallUsage;
use embedder::MeteredEmbedder;
use flat_index::FlatIndex;

// Query vectors, kept for one hour.
const QUERY_CACHE_BYTES: usize = 4 << 20;
const QUERY_CACHE_MS: u64 = 60 * 60_000;

/// Which part of a section is embedded, and how documents are ranked. Process configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingSettings {
    /// Tokens embedded per section: its path, its summary and the start of its own text.
    pub section_tokens: u32,
    /// Nearest sections from which documents are scored.
    pub nearest: usize,
    /// Documents to route a query to. A collection with no more documents is not routed.
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

/// Why embedding or semantic routing failed.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The endpoint failed.
    #[error("embeddings: {} ({})", .0.message, .0.code)]
    Endpoint(Failure),
    /// The blob store or the disk failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The endpoint returned vectors of another length, so another model serves the same name.
    #[error("stored vectors have {stored} dimensions, new ones {new}")]
    Dimensions { stored: usize, new: usize },
    /// The flat index is full.
    #[error("{vectors} vectors exceed the limit of {most} for exact search")]
    TooManyVectors { vectors: usize, most: usize },
}

/// Semantic routing over one collection.
pub struct SemanticRouter {
    env: Env,
    embedder: MeteredEmbedder,
    vectors: Arc<FlatIndex>,
    settings: EmbeddingSettings,
    query_cache: Cache<String, Arc<Vec<f32>>>,
}

impl SemanticRouter {
    pub fn new(
        env: Env,
        embedder: MeteredEmbedder,
        vectors: Arc<FlatIndex>,
        settings: EmbeddingSettings,
    ) -> Self {
        Self {
            env,
            embedder,
            vectors,
            settings,
            query_cache: Cache::new(QUERY_CACHE_BYTES, QUERY_CACHE_MS),
        }
    }

    pub fn vectors(&self) -> &FlatIndex {
        &self.vectors
    }

    // Returns the cost, too; zero for a cached vector.
    async fn query_vector(
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

/// Documents with vectors, and their scores for a query.
pub type DocumentScores = Vec<(DocId, f32)>;

// Cuts a text to at most `most` tokens, at a character boundary.
fn truncate_to_tokens(text: &str, most: u32) -> &str {
    // Tokens of real text are shorter than this on average; a first cut saves counting long texts.
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

// Runs CPU-bound or disk work on the threads for computing.
async fn run_cpu<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> PortResult<T> {
    compute(|_| work())
        .await
        .map_err(|error| PortError::permanent("vectors.compute", error.to_string()))
}
