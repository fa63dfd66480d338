//! Sections that a model reads: from tables of contents, or from windows of pages. Titles that are not
//! printed where it says are dropped.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{EvidenceSource, PageNo, PageSpan};

use super::entries::OutlineEntry;
use super::questions::WindowSection;
use super::structure_queries::{QueryResult, StructureQueries, nth_page};
use crate::settings::StructureMode;
use stemma_outline::structure::verify_titles::{self, PageAnalysis};

/// Tables of contents at the front of a document.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrontToc {
    /// All contents pages, in order.
    pub(crate) pages: Vec<PageNo>,
    /// The table to use.
    pub(crate) table: Option<PageSpan>,
}

// A contents page: whether it prints page numbers, and the verdict of the rules.
#[derive(Debug, Clone, Copy)]
struct TocPage {
    page: PageNo,
    numbered: bool,
    by_rules: Option<bool>,
}

/// Looks for tables of contents page by page. In `auto` mode, only pages on which the rules are unsure are
/// asked about. Rules decide where the model does not answer.
pub(crate) fn find_toc(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    mode: StructureMode,
) -> QueryResult<FrontToc> {
    let front = analysis.front_pages();
    let pages: Vec<PageNo> = front
        .iter()
        .filter(|(_, by_rules)| mode == StructureMode::Llm || by_rules.is_none())
        .map(|(page, _)| *page)
        .collect();
    let answers: BTreeMap<PageNo, Option<(bool, bool)>> = pages
        .iter()
        .copied()
        .zip(queries.detect_toc(&pages)?)
        .collect();
    let verdicts: Vec<TocPage> = front
        .iter()
        .filter_map(|(page, by_rules)| {
            let answers = answers.get(page).copied().flatten();
            let (is, numbered) = answers.unwrap_or((*by_rules == Some(true), true));
            is.then_some(TocPage {
                page: *page,
                numbered,
                by_rules: *by_rules,
            })
        })
        .collect();
    Ok(FrontToc {
        pages: verdicts.iter().map(|verdict| verdict.page).collect(),
        table: choose_table(&verdicts),
    })
}

// Consecutive pages are one table. Prefers one that the rules confirm and that prints page numbers, else the
// first. A table that the rules exclude is never used.
fn choose_table(verdicts: &[TocPage]) -> Option<PageSpan> {
    let runs = verdicts.chunk_by(|a, b| a.page.get() + 1 == b.page.get());
    let runs: Vec<&[TocPage]> = runs
        .filter(|run| run.iter().any(|verdict| verdict.by_rules != Some(false)))
        .collect();
    let best = runs
        .iter()
        .filter(|run: &&&[TocPage]| run.iter().any(|verdict| verdict.by_rules == Some(true)))
        .find(|run| is_numbered(run))
        .or_else(|| runs.iter().find(|run| is_numbered(run)))
        .or_else(|| runs.first());
    best.and_then(|run| Some(PageSpan::between(run.first()?.page, run.last()?.page)))
}

fn is_numbered(run: &[TocPage]) -> bool {
    run.iter().any(|verdict| verdict.numbered)
}

/// The entries of a table of contents.
pub(crate) fn read_toc(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    table: PageSpan,
) -> QueryResult<Vec<OutlineEntry>> {
    let chunks = analysis.windows(table);
    let mut entries = Vec::new();
    for (chunk, listed) in chunks.iter().zip(queries.read_toc(chunks.clone())?) {
        for one in listed.unwrap_or_default() {
            let entry = OutlineEntry::new(
                &one.number,
                &one.title,
                one.level,
                EvidenceSource::PrintedContents,
            );
            let entry = entry.filter(|entry| analysis.contains_title(&entry.entry.title, *chunk));
            queries.count_title(entry.is_some());
            entries.extend(entry.map(|entry| entry.with_label(&one.label)));
        }
    }
    Ok(entries)
}

/// The sections that begin on `pages`, in reading order, and the windows without an answer.
pub(crate) fn read_windows(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    pages: PageSpan,
) -> QueryResult<(Vec<OutlineEntry>, Vec<PageSpan>)> {
    let windows = analysis.windows(pages);
    let requests: Vec<_> = windows
        .iter()
        .enumerate()
        .map(|(at, window)| {
            let before = at.checked_sub(1).map(|before| windows[before].end());
            (before, *window)
        })
        .collect();
    let mut entries = Vec::new();
    let mut unanswered = Vec::new();
    for (window, sections) in windows.iter().zip(queries.read_windows(&requests)?) {
        match sections {
            Some(sections) => {
                entries.extend(locate_sections(queries, analysis, *window, &sections));
            }
            None => unanswered.push(*window),
        }
    }
    Ok((entries, unanswered))
}

// Sections of one window whose titles are on the named page, or on a page next to it.
fn locate_sections(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    window: PageSpan,
    sections: &[WindowSection],
) -> Vec<OutlineEntry> {
    let mut entries: Vec<OutlineEntry> = sections
        .iter()
        .filter_map(|one| {
            let page = nth_page(window, one.page)?;
            let entry =
                OutlineEntry::new(&one.number, &one.title, one.level, EvidenceSource::Model)?;
            Some(entry.with_expected_page(page))
        })
        .collect();
    // A model may be off by one page, so each title is also searched on the pages next to the named one.
    for shift in [0i64, 1, -1] {
        place_entries(&mut entries, analysis, window, shift);
    }
    let mut used = BTreeSet::new();
    entries.retain(|entry| entry.spot.is_some());
    (0..sections.len()).for_each(|at| queries.count_title(at < entries.len()));
    entries.retain(|entry| entry.spot.is_some_and(|spot| used.insert(spot)));
    entries.sort_by_key(|entry| entry.spot);
    entries
}

// Searches open entries `shift` pages after their expected page.
fn place_entries(
    entries: &mut [OutlineEntry],
    analysis: &PageAnalysis<'_>,
    window: PageSpan,
    shift: i64,
) {
    let mut by_page: BTreeMap<PageNo, Vec<usize>> = BTreeMap::new();
    for (at, entry) in entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.spot.is_none())
    {
        let page = entry
            .expected
            .and_then(|page| u32::try_from(i64::from(page.get()) + shift).ok());
        if let Some(page) = page
            .and_then(PageNo::new)
            .filter(|page| window.contains(*page))
        {
            by_page.entry(page).or_default().push(at);
        }
    }
    for (page, indices) in by_page {
        let proposed: Vec<_> = indices
            .iter()
            .map(|at| entries[*at].to_proposed(false))
            .collect();
        let spots = analysis.locate_on_page(&proposed.iter().collect::<Vec<_>>(), page);
        for (at, spot) in indices.into_iter().zip(spots) {
            if let Some(spot) = spot {
                entries[at].place_at(spot, analysis);
            }
        }
    }
}

/// Drops entries read from contents pages if the same title also begins elsewhere.
pub(crate) fn drop_toc_copies(
    entries: &[OutlineEntry],
    contents: &[PageNo],
    analysis: &PageAnalysis<'_>,
) -> Vec<OutlineEntry> {
    let page = |entry: &OutlineEntry| entry.spot.map(|spot| analysis.page(spot));
    let is_listed = |entry: &OutlineEntry| page(entry).is_some_and(|page| contents.contains(&page));
    let bodies: Vec<String> = entries
        .iter()
        .filter(|entry| !is_listed(entry))
        .map(|entry| entry.entry.title.clone())
        .collect();
    let elsewhere = |entry: &OutlineEntry| {
        bodies
            .iter()
            .any(|title| verify_titles::title_similarity(title, &entry.entry.title) > 0.9)
    };
    entries
        .iter()
        .filter(|entry| !(is_listed(entry) && elsewhere(entry)))
        .cloned()
        .collect()
}
