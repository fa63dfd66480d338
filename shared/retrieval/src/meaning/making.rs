//! Bringing vectors up to a catalogue: what is lacking is made, once.
//!
//! Each reply is kept before the next one is asked for, that of a part of a long document too: whoever goes on after a kill
//! pays for no text again, but for the calls that were under way.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, StreamExt};
use serde::Serialize;
use stemma_document::{Body, Digest, Section, SectionId, SectionTree, text};
use stemma_engine::RunId;
use stemma_llm::prices::Purse;
use stemma_llm::tokens;

use super::vectors::Row;
use super::{Meaning, MeaningError, aside, beginning, nearest};
use crate::paid::Paid;
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::shelf::Shelf;

/// What bringing vectors up to a catalogue came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Embedded {
    /// Documents whose vectors were made.
    pub documents: usize,
    /// Documents that lack vectors still.
    pub left: usize,
    /// Sections whose texts were sent.
    pub sent: usize,
    /// Sections whose texts were known from before.
    pub reused: usize,
    /// Documents that left.
    pub removed: usize,
    /// Calls of the endpoint.
    pub calls: u32,
    /// Tokens, as the endpoint counts them.
    pub tokens: u64,
    /// Billionths of a dollar; `None` where there is no price.
    pub nanodollars: Option<u64>,
    /// Vectors kept now.
    pub vectors: usize,
}

/// What making all vectors would come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Documents that lack vectors.
    pub documents: usize,
    /// Sections whose texts would be sent.
    pub sections: usize,
    /// Their tokens, by our count.
    pub tokens: u64,
    /// Billionths of a dollar; `None` where there is no price.
    pub nanodollars: Option<u64>,
}

/// How making vectors ended.
#[derive(Debug)]
pub struct Ended {
    /// What was made.
    pub made: Embedded,
    /// Why not all of it was.
    pub stopped: Option<MeaningError>,
}

/// What is said on the way.
pub type Heard<'a> = &'a (dyn Fn(&Embedded) + Send + Sync);

/// The texts of a document, and what is known of them.
struct Wanted {
    texts: Vec<(SectionId, String)>,
    known: HashMap<u64, Vec<f32>>,
}

impl Wanted {
    /// Texts without a vector.
    fn unknown(&self) -> Vec<&str> {
        self.texts
            .iter()
            .filter(|(_, text): &&(SectionId, String)| !self.known.contains_key(&digest(text)))
            .map(|(_, text)| text.as_str())
            .collect()
    }

    /// A row for each text whose vector is known.
    fn rows(&self) -> Vec<Row> {
        self.texts
            .iter()
            .filter_map(|(section, text): &(SectionId, String)| {
                let digest = digest(text);
                Some(Row {
                    section: *section,
                    digest,
                    vector: self.known.get(&digest)?.clone(),
                })
            })
            .collect()
    }
}

impl Meaning {
    /// Makes what a catalogue has and the vectors lack; what was made stays when it ends early. Sections whose text did not
    /// change since an earlier version cost nothing. `heard` is told after each document. Only one process at a time makes
    /// vectors; `None`: another one does.
    ///
    /// # Errors
    /// [`MeaningError`] when the vectors cannot be kept; what the endpoint or the purse refuse ends it early.
    pub async fn bring_up_to(
        &self,
        catalogue: &Catalogue,
        shelf: &dyn Shelf,
        purse: &dyn Purse,
        heard: Heard<'_>,
    ) -> Result<Option<Ended>, MeaningError> {
        let Some(_lock) = self.vectors.lock().await? else {
            return Ok(None);
        };
        let mut made = Embedded {
            nanodollars: Some(0),
            ..Embedded::default()
        };
        let kept = self
            .vectors
            .held()
            .await?
            .into_keys()
            .chain(self.vectors.parts().await?);
        for doc in kept.filter(|doc: &stemma_document::DocId| {
            catalogue
                .get(*doc)
                .is_none_or(|listed| listed.entry().is_none())
        }) {
            self.vectors.remove(doc).await?;
            made.removed += 1;
        }
        let lacking = self.lacking(catalogue).await?;
        made.left = lacking.len();
        let stop = AtomicBool::new(false);
        let made = Mutex::new(made);
        let work = lacking
            .iter()
            .map(|listed| self.embed(listed, shelf, purse, &stop, &made));
        let mut working =
            stream::iter(work).buffer_unordered(self.vectorizer.settings().at_once.max(1));
        let mut stopped = None;
        // What is under way when one fails is paid for: it is waited for, and kept.
        while let Some(ended) = working.next().await {
            match ended {
                Ok(()) => heard(&made.lock().unwrap_or_else(PoisonError::into_inner)),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    stopped.get_or_insert(error);
                }
            }
        }
        drop(working);
        let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        made.vectors = self.vectors.count().await?;
        Ok(Some(Ended { made, stopped }))
    }

    /// What [`Meaning::bring_up_to`] would send: everything is read, and nothing sent.
    ///
    /// # Errors
    /// [`MeaningError`] when documents or vectors cannot be read.
    pub async fn estimate(
        &self,
        catalogue: &Catalogue,
        shelf: &dyn Shelf,
    ) -> Result<Estimate, MeaningError> {
        let mut estimate = Estimate::default();
        for listed in self.lacking(catalogue).await? {
            let Some(wanted) = self.wanted(listed, shelf).await? else {
                continue;
            };
            let (sections, tokens) = aside(move || {
                let new = wanted.unknown();
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
        estimate.nanodollars = self.vectorizer.price(estimate.tokens);
        Ok(estimate)
    }

    async fn lacking<'a>(&self, catalogue: &'a Catalogue) -> Result<Vec<&'a Listed>, MeaningError> {
        let held = self.vectors.held().await?;
        Ok(catalogue
            .documents()
            .iter()
            .filter(|listed: &&Listed| {
                listed
                    .entry()
                    .is_some_and(|entry| held.get(&listed.doc()) != Some(&entry.version.seq))
            })
            .collect())
    }

    /// The texts of a document; `None` where its tree has gone meanwhile.
    async fn wanted(
        &self,
        listed: &Listed,
        shelf: &dyn Shelf,
    ) -> Result<Option<Wanted>, MeaningError> {
        let Some(opened) = shelf.open(listed).await? else {
            return Ok(None);
        };
        let most = self.settings.section_tokens;
        let texts = aside(move || texts(&opened.tree, opened.body.as_ref(), most)).await?;
        let whole = self.vectors.of(listed.doc()).await?;
        let part = self.vectors.part(listed.doc()).await?;
        let known = whole
            .into_iter()
            .chain(part)
            .map(|row| (row.digest, row.vector))
            .collect();
        Ok(Some(Wanted { texts, known }))
    }

    /// Makes the vectors of one document, unless all is to stop.
    async fn embed(
        &self,
        listed: &Listed,
        shelf: &dyn Shelf,
        purse: &dyn Purse,
        stop: &AtomicBool,
        made: &Mutex<Embedded>,
    ) -> Result<(), MeaningError> {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(mut wanted) = self.wanted(listed, shelf).await? else {
            return Ok(());
        };
        let doc = listed.doc();
        let seq = listed.version().seq;
        let run = RunId(format!("{doc}-{seq}"));
        let new: Vec<String> = wanted.unknown().into_iter().map(str::to_owned).collect();
        let new: Vec<&str> = new.iter().map(String::as_str).collect();
        let batches = self.vectorizer.batches(&new)?;
        let reused = wanted.texts.len() - new.len();
        for (at, batch) in batches.iter().enumerate() {
            let (vectors, paid) = self.vectorizer.of_document(batch, &run, purse).await?;
            count(made, batch.texts.len(), paid);
            let vectors = vectors.into_iter().map(nearest::unit);
            wanted
                .known
                .extend(batch.texts.iter().map(|text| digest(text)).zip(vectors));
            if at + 1 < batches.len() {
                self.vectors.keep_part(doc, wanted.rows()).await?;
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        self.vectors.put(doc, seq, wanted.rows()).await?;
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        made.documents += 1;
        made.left = made.left.saturating_sub(1);
        made.reused += reused;
        Ok(())
    }
}

fn count(made: &Mutex<Embedded>, texts: usize, paid: Paid) {
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    made.sent += texts;
    made.calls += paid.calls;
    made.tokens += paid.prompt_tokens;
    made.nanodollars = made
        .nanodollars
        .filter(|_| paid.without_price == 0)
        .map(|sum| sum + paid.nanodollars);
}

/// What is embedded of each section: titles from the top, its summary, the beginning of its own text.
fn texts(tree: &SectionTree, body: Option<&Body>, most: u32) -> Vec<(SectionId, String)> {
    let of_section = |section: &Section| {
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
        (section.id, beginning(whole.trim(), most).to_owned())
    };
    tree.walk()
        .map(|(_, section)| of_section(section))
        .filter(|(_, text)| !text.trim().is_empty())
        .collect()
}

/// Tells a text from others of the same document.
pub(super) fn digest(text: &str) -> u64 {
    let digest = Digest::of(text.as_bytes()).to_string();
    digest
        .get(..16)
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or_default()
}
