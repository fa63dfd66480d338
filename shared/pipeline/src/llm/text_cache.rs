//! Cache of text, windows and drafts for questions about the same document.
//!
//! A hundred questions about one document fetch its source once and decode each chunk once. The cache is
//! bounded in bytes, and evicts the least recently used entry.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use stemma_document::{
    Extent, Page, PageNo, PageSpan, Position, Section, SectionSpan, SourceBody, TextLines, text,
};
use stemma_extract::{CodecError, EncodedSource, PAGES_PER_CHUNK};
use stemma_outline::structure::ReadingWindow;
use stemma_store::{Failure, TaskKey};
use tokio::sync::OnceCell;

use super::summary_plan::DraftBlob;
use crate::FilingTask;

const DEFAULT_BUDGET_BYTES: usize = 256 << 20;
// Approximate memory of a line in addition to its text.
const LINE_BYTES: usize = 160;

/// Cached texts and drafts. One per worker.
pub struct TextCache {
    budget_bytes: usize,
    state: Mutex<TextCacheState>,
}

#[derive(Default)]
struct TextCacheState {
    entries: HashMap<String, CachedText>,
    bytes: usize,
    // Serves as the clock of `last_use`.
    uses: u64,
}

// Loaded once, even if several tasks ask at the same time.
#[derive(Default)]
struct CachedText {
    cell: Arc<OnceCell<Arc<dyn Any + Send + Sync>>>,
    // 0 until it is loaded.
    bytes: usize,
    last_use: u64,
}

impl Default for TextCache {
    fn default() -> Self {
        Self {
            budget_bytes: DEFAULT_BUDGET_BYTES,
            state: Mutex::default(),
        }
    }
}

impl TextCache {
    /// The windows of a plan.
    pub(crate) async fn windows(
        &self,
        task: &FilingTask<'_>,
        plan: &TaskKey,
    ) -> Result<Arc<Vec<ReadingWindow>>, Failure> {
        self.json(task, plan, "asks", |error| {
            let message = format!("the windows cannot be read: {error}");
            Failure::permanent("model.windows_unreadable", message)
        })
        .await
    }

    /// The own text of a section; with `full`, the text of its descendants too.
    pub(crate) async fn section(
        &self,
        task: &FilingTask<'_>,
        source: &TaskKey,
        section: &Section,
        full: bool,
    ) -> Result<String, Failure> {
        match section.span {
            SectionSpan::Lines { .. } => {
                let lines = self.lines(task, source).await?;
                let body = SourceBody::Lines(TextLines {
                    lines: lines.to_vec(),
                    ..TextLines::default()
                });
                Ok(text::text_in_excerpt(section, &body, PageNo::FIRST, full))
            }
            SectionSpan::Pages { from, to, .. } => {
                let child = section.children.first().filter(|_| !full);
                let end = match child.and_then(|child| start(child.span)).or(to) {
                    Some(end) => end.page,
                    None => last_page(self.packed(task, source).await?.extent()),
                };
                let span = PageSpan::between(from.page, end);
                let body = SourceBody::Pages(self.pages(task, source, span).await?);
                Ok(text::text_in_excerpt(section, &body, from.page, full))
            }
        }
    }

    /// The draft of a document.
    pub(crate) async fn draft(
        &self,
        task: &FilingTask<'_>,
        draft: &TaskKey,
    ) -> Result<Arc<DraftBlob>, Failure> {
        self.json(task, draft, "draft", |error| {
            let message = format!("the draft cannot be read: {error}");
            Failure::permanent("structure.draft", message)
        })
        .await
    }

    // The value of a JSON blob.
    async fn json<T: DeserializeOwned + Send + Sync + 'static>(
        &self,
        task: &FilingTask<'_>,
        key: &TaskKey,
        part: &str,
        unreadable: impl Fn(serde_json::Error) -> Failure,
    ) -> Result<Arc<T>, Failure> {
        let make = async {
            let json = task.blob(key, part).await?;
            let value: T = serde_json::from_slice(&json).map_err(unreadable)?;
            Ok((value, 2 * json.len()))
        };
        self.get_or_load(cache_key(task, key, part), make).await
    }

    /// Pages without words and runs, which only the structure rules need.
    pub(crate) async fn pages(
        &self,
        task: &FilingTask<'_>,
        source: &TaskKey,
        span: PageSpan,
    ) -> Result<Vec<Page>, Failure> {
        let first = span.start();
        let last = span.end();
        let mut pages = Vec::new();
        for index in first.index() / PAGES_PER_CHUNK..=last.index() / PAGES_PER_CHUNK {
            let chunk = self.chunk(task, source, index).await?;
            let start = index * PAGES_PER_CHUNK;
            let within =
                first.index().saturating_sub(start)..(last.index() + 1 - start).min(chunk.len());
            pages.extend(chunk.get(within).unwrap_or_default().iter().cloned());
        }
        Ok(pages)
    }

    async fn chunk(
        &self,
        task: &FilingTask<'_>,
        source: &TaskKey,
        index: usize,
    ) -> Result<Arc<Vec<Page>>, Failure> {
        let make = async {
            let packed = self.packed(task, source).await?;
            let first = PageNo::from_index(index * PAGES_PER_CHUNK);
            let last = PageNo::from_index((index + 1) * PAGES_PER_CHUNK - 1)
                .min(last_page(packed.extent()));
            let mut pages = packed
                .pages(PageSpan::between(first, last))
                .map_err(|error| source_error(&error))?;
            for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
                (line.words, line.runs) = (Vec::new(), Vec::new());
            }
            let lines = pages.iter().flat_map(|page| &page.lines);
            let bytes = lines.map(|line| line.text.len() + LINE_BYTES).sum();
            Ok((pages, bytes))
        };
        let name = cache_key(task, source, &format!("pages-{index}"));
        self.get_or_load(name, make).await
    }

    async fn lines(
        &self,
        task: &FilingTask<'_>,
        source: &TaskKey,
    ) -> Result<Arc<Vec<String>>, Failure> {
        let make = async {
            let packed = self.packed(task, source).await?;
            let lines = match packed.extent() {
                Extent::Lines(count @ 1..) => packed.lines(1, count),
                _ => Ok(Vec::new()),
            };
            let lines = lines.map_err(|error| source_error(&error))?;
            let bytes = lines.iter().map(|line| line.len() + LINE_BYTES).sum();
            Ok((lines, bytes))
        };
        self.get_or_load(cache_key(task, source, "lines"), make)
            .await
    }

    async fn packed(
        &self,
        task: &FilingTask<'_>,
        source: &TaskKey,
    ) -> Result<Arc<EncodedSource>, Failure> {
        let make = async {
            let bytes = task.blob(source, "source").await?;
            let size = bytes.len();
            let source = EncodedSource::open(bytes).map_err(|error| source_error(&error))?;
            Ok((source, size))
        };
        self.get_or_load(cache_key(task, source, "source"), make)
            .await
    }

    // The cached value of `name`. One caller loads it, the others wait.
    async fn get_or_load<T: Any + Send + Sync>(
        &self,
        name: String,
        make: impl Future<Output = Result<(T, usize), Failure>>,
    ) -> Result<Arc<T>, Failure> {
        // The lock is not held while loading. The cell makes sure that only one caller loads the value.
        let cell = self.state.lock().cell(&name);
        let mut bytes = 0;
        let make = async {
            let (loaded, size) = make.await?;
            bytes = size.max(1);
            Ok::<_, Failure>(Arc::new(loaded) as Arc<dyn Any + Send + Sync>)
        };
        let loaded = cell.get_or_try_init(|| make).await.cloned();
        let failed = loaded.is_err();
        self.state
            .lock()
            .record_size(&name, bytes, failed, self.budget_bytes);
        loaded?.downcast::<T>().map_err(|_| {
            Failure::permanent("model.texts", format!("{name} is cached with another type"))
        })
    }
}

impl TextCacheState {
    fn cell(&mut self, name: &str) -> Arc<OnceCell<Arc<dyn Any + Send + Sync>>> {
        self.uses += 1;
        let entry = self.entries.entry(name.into()).or_default();
        entry.last_use = self.uses;
        Arc::clone(&entry.cell)
    }

    // Records the size of a loaded value (a failed one is removed), then evicts the least recently used ones.
    fn record_size(&mut self, name: &str, bytes: usize, failed: bool, budget: usize) {
        if failed {
            self.evict(name);
        } else if let Some(entry) = self.entries.get_mut(name).filter(|_| bytes > 0) {
            // The entry may have been evicted and loaded again meanwhile: only the difference is added.
            self.bytes += bytes - entry.bytes.min(bytes);
            entry.bytes = bytes;
        }
        while self.bytes > budget {
            let loaded = self.entries.iter().filter(|(_, entry)| entry.bytes > 0);
            let oldest = loaded.min_by_key(|(_, entry)| entry.last_use);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            self.evict(&oldest);
        }
    }

    fn evict(&mut self, name: &str) {
        self.bytes -= self.entries.remove(name).map_or(0, |entry| entry.bytes);
    }
}

fn cache_key(task: &FilingTask<'_>, key: &TaskKey, part: &str) -> String {
    format!("{}/{key}/{part}", task.run.scope)
}

fn source_error(error: &CodecError) -> Failure {
    Failure::permanent("structure.source", error.to_string())
}

fn start(span: SectionSpan) -> Option<Position> {
    match span {
        SectionSpan::Pages { from, .. } => Some(from),
        SectionSpan::Lines { .. } => None,
    }
}

fn last_page(extent: Extent) -> PageNo {
    match extent {
        Extent::Pages(count) => PageNo::new(count).unwrap_or(PageNo::FIRST),
        Extent::Lines(_) => PageNo::FIRST,
    }
}
