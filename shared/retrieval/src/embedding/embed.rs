//! Embeds the sections of a catalog that have no vector yet.
//!
//! Each reply is stored before the next call, also within a long document. A run that continues after a crash pays again
//! only for the calls that were in flight.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::stream::{self, StreamExt};
use serde::Serialize;
use stemma_document::{Digest, Section, SectionId, SectionTree, SourceBody, text};
use stemma_llm::prices::CallBudget;
use stemma_llm::tokens;
use stemma_store::RunId;

use super::vector_file::SectionVector;
use super::{EmbeddingError, SemanticRouter, knn, run_cpu, truncate_to_tokens};
use crate::usage::CallUsage;
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;

/// Counts of an embedding run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EmbedReport {
    /// Documents embedded.
    pub documents: usize,
    /// Documents still without vectors.
    #[serde(rename = "left")]
    pub remaining: usize,
    /// Sections sent to the endpoint.
    pub sent: usize,
    /// Sections whose text was embedded before.
    pub reused: usize,
    /// Documents removed because they are no longer published.
    pub removed: usize,
    /// Calls to the endpoint.
    pub calls: u32,
    /// Tokens by the endpoint's count.
    pub tokens: u64,
    /// Cost in billionths of a dollar; `None` without a price.
    pub nanodollars: Option<u64>,
    /// Vectors stored after the run.
    pub vectors: usize,
}

/// Estimated cost of embedding all missing sections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EmbedEstimate {
    /// Documents without vectors.
    pub documents: usize,
    /// Sections that would be sent.
    pub sections: usize,
    /// Tokens by our own count.
    pub tokens: u64,
    /// Cost in billionths of a dollar; `None` without a price.
    pub nanodollars: Option<u64>,
}

/// How an embedding run ended.
#[derive(Debug)]
pub struct EmbedOutcome {
    pub report: EmbedReport,
    /// Why it ended early.
    pub error: Option<EmbeddingError>,
}

/// Progress callback, called after each document.
pub type OnEmbedProgress<'a> = &'a (dyn Fn(&EmbedReport) + Send + Sync);

// The texts of a document, and the vectors known for them by digest.
struct SectionTexts {
    texts: Vec<(SectionId, String)>,
    vectors: HashMap<u64, Vec<f32>>,
}

impl SectionTexts {
    fn missing_texts(&self) -> Vec<&str> {
        self.texts
            .iter()
            .filter(|(_, text): &&(SectionId, String)| {
                !self.vectors.contains_key(&text_digest(text))
            })
            .map(|(_, text)| text.as_str())
            .collect()
    }

    // Texts without a vector are left out.
    fn rows(&self) -> Vec<SectionVector> {
        self.texts
            .iter()
            .filter_map(|(section, text): &(SectionId, String)| {
                let digest = text_digest(text);
                Some(SectionVector {
                    section: *section,
                    digest,
                    vector: self.vectors.get(&digest)?.clone(),
                })
            })
            .collect()
    }
}

impl SemanticRouter {
    /// Embeds all sections of a catalog that have no vector. Unchanged sections of a new version cost nothing, and results
    /// so far are kept if the run ends early. Only one process at a time may embed; `None` if another one does.
    ///
    /// # Errors
    /// [`EmbeddingError`] if vectors cannot be stored. Failures of the endpoint or the budget are reported in the outcome.
    pub async fn sync(
        &self,
        catalog: &Catalog,
        store: &dyn DocumentStore,
        budget: &dyn CallBudget,
        on_progress: OnEmbedProgress<'_>,
    ) -> Result<Option<EmbedOutcome>, EmbeddingError> {
        let Some(_lock) = self.vectors.lock().await? else {
            return Ok(None);
        };
        let mut report = EmbedReport {
            nanodollars: Some(0),
            ..EmbedReport::default()
        };
        let versions = self
            .vectors
            .versions()
            .await?
            .into_keys()
            .chain(self.vectors.partial_documents().await?);
        for doc in versions {
            if catalog.tree_version(doc)?.is_none() {
                self.vectors.remove(doc).await?;
                report.removed += 1;
            }
        }
        let outdated = self.outdated(catalog).await?;
        report.remaining = outdated.len();
        let stop = AtomicBool::new(false);
        let report = Mutex::new(report);
        let work = outdated
            .iter()
            .map(|document| self.embed_document(document, store, budget, &stop, &report));
        let mut running = stream::iter(work)
            .buffer_unordered(self.embedder.settings().concurrent_documents.max(1));
        let mut stopped = None;
        // After a failure, calls in flight still finish and their vectors are stored, because they have been paid for.
        while let Some(result) = running.next().await {
            match result {
                Ok(()) => on_progress(&report.lock().unwrap_or_else(PoisonError::into_inner)),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    stopped.get_or_insert(error);
                }
            }
        }
        drop(running);
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.vectors = self.vectors.count().await?;
        Ok(Some(EmbedOutcome {
            report,
            error: stopped,
        }))
    }

    /// Estimates the cost of [`SemanticRouter::sync`] without calling the endpoint.
    ///
    /// # Errors
    /// [`EmbeddingError`] if documents or vectors cannot be read.
    pub async fn estimate(
        &self,
        catalog: &Catalog,
        store: &dyn DocumentStore,
    ) -> Result<EmbedEstimate, EmbeddingError> {
        let mut estimate = EmbedEstimate::default();
        for document in self.outdated(catalog).await? {
            let Some(texts) = self.section_texts(&document, store).await? else {
                continue;
            };
            let (sections, tokens) = run_cpu(move || {
                let new = texts.missing_texts();
                (
                    new.len(),
                    new.iter()
                        .map(|text| u64::from(tokens::count(text)))
                        .sum::<u64>(),
                )
            })
            .await?;
            estimate.documents += 1;
            estimate.sections += sections;
            estimate.tokens += tokens;
        }
        estimate.nanodollars = self.embedder.price(estimate.tokens);
        Ok(estimate)
    }

    async fn outdated(
        &self,
        catalog: &Catalog,
    ) -> Result<Vec<Arc<CatalogDocument>>, EmbeddingError> {
        let versions = self.vectors.versions().await?;
        let mut outdated = Vec::new();
        for document in catalog.documents() {
            let document = document?;
            let version = document.entry().map(|entry| entry.version.seq);
            if version.is_some() && versions.get(&document.doc()).copied() != version {
                outdated.push(document);
            }
        }
        Ok(outdated)
    }

    // `None` if the tree has been deleted.
    async fn section_texts(
        &self,
        document: &CatalogDocument,
        store: &dyn DocumentStore,
    ) -> Result<Option<SectionTexts>, EmbeddingError> {
        let Some(opened) = store.open(document).await? else {
            return Ok(None);
        };
        let most = self.settings.section_tokens;
        let texts =
            run_cpu(move || texts_to_embed(&opened.tree, opened.body.as_ref(), most)).await?;
        let finished = self.vectors.get(document.doc()).await?;
        let partial = self.vectors.partial(document.doc()).await?;
        let vectors = finished
            .into_iter()
            .chain(partial)
            .map(|row| (row.digest, row.vector))
            .collect();
        Ok(Some(SectionTexts { texts, vectors }))
    }

    // Embeds one document, unless the run is stopping.
    async fn embed_document(
        &self,
        document: &CatalogDocument,
        store: &dyn DocumentStore,
        budget: &dyn CallBudget,
        stop: &AtomicBool,
        report: &Mutex<EmbedReport>,
    ) -> Result<(), EmbeddingError> {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(mut texts) = self.section_texts(document, store).await? else {
            return Ok(());
        };
        let doc = document.doc();
        let seq = document.version().seq;
        let run = RunId(format!("{doc}-{seq}"));
        let new: Vec<String> = texts
            .missing_texts()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let new: Vec<&str> = new.iter().map(String::as_str).collect();
        let batches = self.embedder.batches(&new)?;
        let reused = texts.texts.len() - new.len();
        for (at, batch) in batches.iter().enumerate() {
            let (vectors, usage) = self.embedder.embed_batch(batch, &run, budget).await?;
            count_batch(report, batch.texts.len(), usage);
            let vectors = vectors.into_iter().map(knn::normalize);
            texts.vectors.extend(
                batch
                    .texts
                    .iter()
                    .map(|text| text_digest(text))
                    .zip(vectors),
            );
            if at + 1 < batches.len() {
                self.vectors.put_partial(doc, texts.rows()).await?;
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        self.vectors.put(doc, seq, texts.rows()).await?;
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        report.documents += 1;
        report.remaining = report.remaining.saturating_sub(1);
        report.reused += reused;
        Ok(())
    }
}

fn count_batch(report: &Mutex<EmbedReport>, texts: usize, usage: CallUsage) {
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    report.sent += texts;
    report.calls += usage.calls;
    report.tokens += usage.prompt_tokens;
    report.nanodollars = report
        .nanodollars
        .filter(|_| usage.unpriced_calls == 0)
        .map(|sum| sum + usage.nanodollars);
}

// The embedded text of a section: titles from the root, its summary and the start of its own text.
fn texts_to_embed(
    tree: &SectionTree,
    body: Option<&SourceBody>,
    most: u32,
) -> Vec<(SectionId, String)> {
    tree.walk()
        .map(|(_, section)| section_text(tree, section, body, most))
        .filter(|(_, text)| !text.trim().is_empty())
        .collect()
}

fn section_text(
    tree: &SectionTree,
    section: &Section,
    body: Option<&SourceBody>,
    most: u32,
) -> (SectionId, String) {
    let path: Vec<&str> = tree
        .path_to(section.id)
        .iter()
        .map(|section| section.title.as_str())
        .collect();
    let own = body
        .map(|body| text::own_text(section, body))
        .unwrap_or_default();
    let summary = section
        .summary
        .as_ref()
        .map(|summary| summary.text.as_str())
        .unwrap_or_default();
    let whole = [path.join(" > ").as_str(), summary, own.as_str()].join("\n");
    (
        section.id,
        truncate_to_tokens(whole.trim(), most).to_owned(),
    )
}

// Identifies a text within its document, across versions.
pub(super) fn text_digest(text: &str) -> u64 {
    let digest = Digest::from_content(text.as_bytes()).to_string();
    digest
        .get(..16)
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or_default()
}
