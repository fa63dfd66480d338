//! Search by meaning: sections as vectors, and documents ranked by those near a question.
//!
//! - [`vectors`]: the port: who keeps vectors and finds the nearest; an engine that does could stand there.
//! - [`exact`]: the adapter that is built: files beside the index, everything compared, no approximation.
//! - [`nearest`]: the comparison itself.
//! - [`route`]: which documents a question is for, by DocScore.
//!
//! Off unless an endpoint for embeddings is configured. Vectors are a cache of this machine, made from published trees;
//! whatever is wrong with one is repaired by making it again. What it refuses to do: leave a document out because it has no
//! vectors yet, or pretend to search where the endpoint is away.

pub mod exact;
pub mod nearest;
pub mod route;
#[cfg(test)]
mod tests;
pub mod vectors;

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::{Body, DocId, Section, SectionTree, text};
use stemma_engine::{Env, PortError};
use stemma_llm::embeddings::Embedder;
use stemma_llm::request::LlmError;
use stemma_llm::tokens;

use crate::cache::Cache;
use crate::catalogue::{Catalogue, Listed};
use crate::shelf::Shelf;
use vectors::{Row, Vectors};

/// Vectors of questions kept: bytes, and for how long.
const ASKED_BYTES: usize = 4 << 20;
const ASKED_MS: u64 = 60 * 60_000;

/// What is embedded, and how much of it counts; configuration of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeaningSettings {
    /// Tokens of a section that are embedded: its path, its summary, and the beginning of its own text.
    pub section_tokens: u32,
    /// Sections near a question from which documents are scored.
    pub nearest: usize,
    /// Documents that a question is routed to at most; in an archive with no more of them, nothing is routed.
    pub documents: usize,
}

impl Default for MeaningSettings {
    fn default() -> Self {
        Self { section_tokens: 400, nearest: 200, documents: 20 }
    }
}

/// Why there is no answer by meaning.
#[derive(Debug, thiserror::Error)]
pub enum MeaningError {
    /// The endpoint did not answer.
    #[error("embeddings: {0}")]
    Endpoint(#[from] LlmError),
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
    TooMany {
        /// How many there would be.
        vectors: usize,
        /// How many there may be.
        most: usize,
    },
}

/// What bringing vectors up to a catalogue came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Embedded {
    /// Documents whose vectors were made.
    pub documents: usize,
    /// Sections whose texts were sent.
    pub sent: usize,
    /// Sections whose texts were known from an earlier version.
    pub reused: usize,
    /// Documents that left.
    pub removed: usize,
    /// Tokens, as the endpoint counts them.
    pub tokens: u64,
    /// Vectors kept now.
    pub vectors: usize,
}

/// Search by meaning over one collection.
pub struct Meaning {
    env: Env,
    embedder: Arc<dyn Embedder>,
    vectors: Arc<dyn Vectors>,
    settings: MeaningSettings,
    asked: Cache<String, Arc<Vec<f32>>>,
}

impl Meaning {
    /// Over what `vectors` keeps, by what `embedder` says.
    pub fn new(env: Env, embedder: Arc<dyn Embedder>, vectors: Arc<dyn Vectors>, settings: MeaningSettings) -> Self {
        Self { env, embedder, vectors, settings, asked: Cache::new(ASKED_BYTES, ASKED_MS) }
    }

    /// What is kept.
    pub fn vectors(&self) -> &dyn Vectors {
        self.vectors.as_ref()
    }

    /// Makes what a catalogue has and the vectors lack, document by document: what was made stays when it ends early.
    /// Sections whose text did not change since an earlier version cost nothing. `heard` is told how many are left.
    ///
    /// # Errors
    /// [`MeaningError`] of the first document that failed.
    pub async fn bring_up_to(
        &self,
        catalogue: &Catalogue,
        shelf: &dyn Shelf,
        heard: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<Embedded, MeaningError> {
        let held = self.vectors.held().await?;
        let mut done = Embedded::default();
        let gone = held.keys().filter(|doc| catalogue.get(**doc).is_none_or(|listed| listed.entry().is_none()));
        for doc in gone {
            self.vectors.remove(*doc).await?;
            done.removed += 1;
        }
        let lacks =
            |listed: &&Listed| listed.entry().is_some_and(|entry| held.get(&listed.doc()) != Some(&entry.version.seq));
        let lacking: Vec<&Listed> = catalogue.documents().iter().filter(lacks).collect();
        for (at, listed) in lacking.iter().enumerate() {
            heard(lacking.len() - at);
            if self.embed(listed, shelf, &mut done).await? {
                done.documents += 1;
            }
        }
        done.vectors = self.vectors.count().await?;
        Ok(done)
    }

    /// Makes the vectors of one document; false where its tree has gone meanwhile.
    async fn embed(&self, listed: &Listed, shelf: &dyn Shelf, done: &mut Embedded) -> Result<bool, MeaningError> {
        let Some(opened) = shelf.open(listed).await? else { return Ok(false) };
        let most = self.settings.section_tokens;
        let texts = aside(move || texts(&opened.tree, opened.body.as_ref(), most)).await?;
        let known: HashMap<u64, Vec<f32>> =
            self.vectors.of(listed.doc()).await?.into_iter().map(|row| (row.digest, row.vector)).collect();
        let new: Vec<&str> = texts
            .iter()
            .filter(|(_, text)| !known.contains_key(&digest(text)))
            .map(|(_, text)| text.as_str())
            .collect();
        let embedded = if new.is_empty() { Default::default() } else { self.embedder.embed(&new).await? };
        done.sent += new.len();
        done.reused += texts.len() - new.len();
        done.tokens += u64::from(embedded.usage.prompt_tokens);
        let mut made = embedded.vectors.into_iter();
        let row = |(section, text): &(stemma_document::SectionId, String)| {
            let digest = digest(text);
            let vector = known.get(&digest).cloned().or_else(|| made.next()).unwrap_or_default();
            Row { section: *section, digest, vector: nearest::unit(vector) }
        };
        let rows: Vec<Row> = texts.iter().map(row).collect();
        self.vectors.put(listed.doc(), listed.version().seq, rows).await?;
        Ok(true)
    }

    /// The vector of a question.
    async fn asked(&self, question: &str) -> Result<Arc<Vec<f32>>, MeaningError> {
        let (key, now_ms) = (question.to_owned(), self.env.now_ms());
        if let Some(known) = self.asked.get(&key, now_ms) {
            return Ok(known);
        }
        let cut = beginning(question, stemma_llm::embeddings::MAX_TEXT_TOKENS);
        let embedded = self.embedder.embed(&[cut]).await?;
        let vector = Arc::new(nearest::unit(embedded.vectors.into_iter().next().unwrap_or_default()));
        self.asked.put(key, Arc::clone(&vector), 4 * vector.len() + question.len(), now_ms);
        Ok(vector)
    }
}

/// Documents with vectors, and the score each has for a question.
pub type Scored = Vec<(DocId, f32)>;

/// What is embedded of each section: titles from the top, its summary, the beginning of its own text.
fn texts(tree: &SectionTree, body: Option<&Body>, most: u32) -> Vec<(stemma_document::SectionId, String)> {
    let of_section = |section: &Section| {
        let path: Vec<&str> = tree.path_to(section.id).iter().map(|section| section.title.as_str()).collect();
        let own = body.map(|body| text::own_text(section, body)).unwrap_or_default();
        let summary = section.summary.as_ref().map(|summary| summary.text.as_str()).unwrap_or_default();
        let whole = [path.join(" > ").as_str(), summary, own.as_str()].join("\n");
        (section.id, beginning(whole.trim(), most).to_owned())
    };
    tree.walk().map(|(_, section)| of_section(section)).filter(|(_, text)| !text.trim().is_empty()).collect()
}

/// The beginning of a text, of at most so many tokens, cut at a character.
fn beginning(text: &str, most: u32) -> &str {
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
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PortError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| PortError::lasting("vectors", "compute", error.to_string()))
}

/// Tells a text from others of the same document.
fn digest(text: &str) -> u64 {
    let digest = stemma_document::Digest::of(text.as_bytes()).to_string();
    digest.get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or_default()
}
