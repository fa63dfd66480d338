//! The text that questions are about: read from packed sources, and kept for the next question about the same pages.
//!
//! A hundred questions about one document fetch its source once and unpack each chunk once. Kept text is bounded in
//! bytes; what was not used for longest goes first.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stemma_document::{
    Body, Extent, Page, PageNo, PageSpan, Position, Section, SectionSpan, TextLines, text,
};
use stemma_engine::stage::Task;
use stemma_engine::{Failure, TaskKey};
use stemma_extract::{PAGES_PER_CHUNK, PackError, Packed};
use tokio::sync::OnceCell;

use super::asks::{Ask, Shown};
use super::plan::DraftBlob;
use crate::Filings;

/// Bytes that are kept, where nothing else is said.
const KEPT_BYTES: usize = 256 << 20;
/// Lines below a heading that show whether it is one, in texts without pages.
const EXCERPT_LINES: u32 = 20;
/// What a line takes in memory beside its text, roughly.
const LINE_BYTES: usize = 160;

/// Texts and drafts at hand. One per worker.
pub struct Texts {
    budget_bytes: usize,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    kept: HashMap<String, Kept>,
    bytes: usize,
    /// Counts uses: the clock of who was used last.
    uses: u64,
}

/// Something that is made once, however many ask for it at the same time.
#[derive(Default)]
struct Kept {
    cell: Arc<OnceCell<Arc<dyn Any + Send + Sync>>>,
    /// 0 until it is made.
    bytes: usize,
    used: u64,
}

impl Default for Texts {
    fn default() -> Self {
        Self::bounded(KEPT_BYTES)
    }
}

impl Texts {
    /// Keeps at most about `budget_bytes`.
    pub fn bounded(budget_bytes: usize) -> Self {
        Self {
            budget_bytes,
            shelf: Mutex::default(),
        }
    }

    /// What a question about structure puts before the model.
    pub(crate) async fn prompt(
        &self,
        task: &Task<'_, Filings>,
        source: &TaskKey,
        question: &Ask,
    ) -> Result<String, Failure> {
        match question.pages() {
            Some(span) => {
                let pages = self.pages(task, source, span.start(), span.end()).await?;
                Ok(question.prompt(&Shown::Pages(span.start(), &pages)))
            }
            None => Ok(question.prompt(&Shown::Lines(&self.lines(task, source).await?))),
        }
    }

    /// The questions of a round, read once.
    pub(crate) async fn asks(
        &self,
        task: &Task<'_, Filings>,
        round: &TaskKey,
    ) -> Result<Arc<Vec<Ask>>, Failure> {
        let make = async {
            let json = task.blob(round, "asks").await?;
            let asks: Vec<Ask> = serde_json::from_slice(&json).map_err(|error| {
                Failure::permanent(
                    "model.asks",
                    format!("the questions cannot be read: {error}"),
                )
            })?;
            Ok((asks, 2 * json.len()))
        };
        self.take(name(task, round, "asks"), make).await
    }

    /// The text of a section: its own, or with its descendants'.
    pub(crate) async fn section(
        &self,
        task: &Task<'_, Filings>,
        source: &TaskKey,
        section: &Section,
        full: bool,
    ) -> Result<String, Failure> {
        match section.span {
            SectionSpan::Lines { .. } => {
                let lines = self.lines(task, source).await?;
                let body = Body::Lines(TextLines {
                    lines: lines.to_vec(),
                    ..TextLines::default()
                });
                Ok(text::text_in_part(section, &body, PageNo::FIRST, full))
            }
            SectionSpan::Pages { from, to, .. } => {
                let child = section
                    .children
                    .first()
                    .filter(|_| !full)
                    .and_then(|child| start(child.span));
                let end = match child.or(to) {
                    Some(end) => end.page,
                    None => last_page(self.packed(task, source).await?.extent()),
                };
                let pages = self.pages(task, source, from.page, end).await?;
                Ok(text::text_in_part(
                    section,
                    &Body::Pages(pages),
                    from.page,
                    full,
                ))
            }
        }
    }

    /// The draft of a document, read once.
    pub(crate) async fn draft(
        &self,
        task: &Task<'_, Filings>,
        draft: &TaskKey,
    ) -> Result<Arc<DraftBlob>, Failure> {
        let make = async {
            let json = task.blob(draft, "draft").await?;
            let draft: DraftBlob = serde_json::from_slice(&json).map_err(|error| {
                Failure::permanent(
                    "structure.draft",
                    format!("the draft cannot be read: {error}"),
                )
            })?;
            Ok((draft, 2 * json.len()))
        };
        self.take(name(task, draft, "draft"), make).await
    }

    /// Pages `first..=last`, without what only structure looks at.
    async fn pages(
        &self,
        task: &Task<'_, Filings>,
        source: &TaskKey,
        first: PageNo,
        last: PageNo,
    ) -> Result<Vec<Page>, Failure> {
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
        task: &Task<'_, Filings>,
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
                .map_err(|error| damaged(&error))?;
            for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
                (line.words, line.runs) = (Vec::new(), Vec::new());
            }
            let bytes = pages
                .iter()
                .flat_map(|page| &page.lines)
                .map(|line| line.text.len() + LINE_BYTES)
                .sum();
            Ok((pages, bytes))
        };
        self.take(name(task, source, &format!("pages-{index}")), make)
            .await
    }

    async fn lines(
        &self,
        task: &Task<'_, Filings>,
        source: &TaskKey,
    ) -> Result<Arc<Vec<String>>, Failure> {
        let make = async {
            let packed = self.packed(task, source).await?;
            let lines = match packed.extent() {
                Extent::Lines(count) if count > 0 => {
                    packed.lines(1, count).map_err(|error| damaged(&error))?
                }
                _ => Vec::new(),
            };
            let bytes = lines.iter().map(|line| line.len() + LINE_BYTES).sum();
            Ok((lines, bytes))
        };
        self.take(name(task, source, "lines"), make).await
    }

    async fn packed(
        &self,
        task: &Task<'_, Filings>,
        source: &TaskKey,
    ) -> Result<Arc<Packed>, Failure> {
        let make = async {
            let bytes = task.blob(source, "source").await?;
            let size = bytes.len();
            Ok((Packed::open(bytes).map_err(|error| damaged(&error))?, size))
        };
        self.take(name(task, source, "source"), make).await
    }

    /// What is kept under `name`; made first, by one of those who ask, where there is nothing yet.
    async fn take<T: Any + Send + Sync>(
        &self,
        name: String,
        make: impl Future<Output = Result<(T, usize), Failure>>,
    ) -> Result<Arc<T>, Failure> {
        let cell = self.shelf().cell(&name);
        let mut bytes = 0;
        let make = async {
            let (made, size) = make.await?;
            bytes = size.max(1);
            Ok::<_, Failure>(Arc::new(made) as Arc<dyn Any + Send + Sync>)
        };
        let made = cell.get_or_try_init(|| make).await.cloned();
        self.shelf()
            .made(&name, bytes, made.is_err(), self.budget_bytes);
        made?.downcast::<T>().map_err(|_| {
            Failure::permanent("model.texts", format!("{name} is kept as something else"))
        })
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn cell(&mut self, name: &str) -> Arc<OnceCell<Arc<dyn Any + Send + Sync>>> {
        self.uses += 1;
        let kept = self.kept.entry(name.into()).or_default();
        kept.used = self.uses;
        Arc::clone(&kept.cell)
    }

    /// Notes that it was made (or could not be), and lets go of what was not used for longest.
    fn made(&mut self, name: &str, bytes: usize, failed: bool, budget: usize) {
        if failed {
            self.forget(name);
        } else if let Some(kept) = self.kept.get_mut(name).filter(|_| bytes > 0) {
            self.bytes += bytes - kept.bytes.min(bytes);
            kept.bytes = bytes;
        }
        while self.bytes > budget {
            let made = self.kept.iter().filter(|(_, kept)| kept.bytes > 0);
            let Some(oldest) = made
                .min_by_key(|(_, kept)| kept.used)
                .map(|(name, _)| name.clone())
            else {
                return;
            };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, name: &str) {
        self.bytes -= self.kept.remove(name).map_or(0, |kept| kept.bytes);
    }
}

fn name(task: &Task<'_, Filings>, key: &TaskKey, part: &str) -> String {
    format!("{}/{key}/{part}", task.run.scope)
}

fn damaged(error: &PackError) -> Failure {
    Failure::permanent("structure.source", error.to_string())
}

/// The text of a page as questions read it: without running heads and feet, so that a page that moved reads the same; but
/// with line `kept` (an index), which someone takes for a heading.
pub(crate) fn page_text(page: &Page, kept: Option<u32>) -> String {
    let kept = kept.map(|line| line as usize);
    let lines = page
        .lines
        .iter()
        .enumerate()
        .filter(|(index, line)| !line.is_furniture() || Some(*index) == kept);
    lines
        .map(|(_, line)| line.text.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A line and the lines below it.
pub(super) fn entry_lines(lines: &[String], line: u32) -> String {
    let first = (line.saturating_sub(1) as usize).min(lines.len());
    let last = (first + EXCERPT_LINES as usize).min(lines.len());
    lines[first..last].join("\n")
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
