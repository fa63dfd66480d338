//! What a model reads: tables of contents, and stretches of pages where there are none. Titles that are not printed where
//! it says are dropped, whoever wrote them.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{PageNo, PageSpan, Witness};

use super::asks::Begun;
use super::desk::{Desk, Step, nth};
use super::entries::Entry;
use crate::settings::StructureMode;
use stemma_outline::structure::paper::{self, Paper};

/// Tables of contents at the front of a document.
#[derive(Debug, Clone, Default)]
pub(crate) struct Front {
    /// The pages that are one, in order.
    pub(crate) pages: Vec<PageNo>,
    /// The table to go by.
    pub(crate) table: Option<PageSpan>,
}

/// A page of contents: whether it prints page numbers, and what rules say about it.
#[derive(Debug, Clone, Copy)]
struct Verdict {
    page: PageNo,
    numbered: bool,
    sure: Option<bool>,
}

/// Looks for tables of contents, page by page; in `auto` only pages that rules are not sure about are asked about. Where
/// the model does not answer, rules do.
pub(crate) fn front(desk: &mut Desk<'_>, paper: &Paper<'_>, mode: StructureMode) -> Step<Front> {
    let front = paper.front();
    let open = |sure: &Option<bool>| mode == StructureMode::Llm || sure.is_none();
    let asked: Vec<PageNo> = front
        .iter()
        .filter(|(_, sure)| open(sure))
        .map(|(page, _)| *page)
        .collect();
    let said: BTreeMap<PageNo, Option<(bool, bool)>> =
        asked.iter().copied().zip(desk.contents(&asked)?).collect();
    let verdicts: Vec<Verdict> = front
        .iter()
        .filter_map(|(page, sure)| {
            let said = said.get(page).copied().flatten();
            let (is, numbered) = said.unwrap_or((*sure == Some(true), true));
            is.then_some(Verdict {
                page: *page,
                numbered,
                sure: *sure,
            })
        })
        .collect();
    Ok(Front {
        pages: verdicts.iter().map(|verdict| verdict.page).collect(),
        table: table(&verdicts),
    })
}

/// Consecutive pages joined, and of the tables the first that prints page numbers, rather one that rules are sure of; none
/// that they surely deny.
fn table(verdicts: &[Verdict]) -> Option<PageSpan> {
    let runs = verdicts.chunk_by(|a, b| a.page.get() + 1 == b.page.get());
    let runs: Vec<&[Verdict]> = runs
        .filter(|run| run.iter().any(|verdict| verdict.sure != Some(false)))
        .collect();
    let numbered = |run: &&&[Verdict]| run.iter().any(|verdict| verdict.numbered);
    let best = runs
        .iter()
        .filter(|run: &&&[Verdict]| run.iter().any(|verdict| verdict.sure == Some(true)))
        .find(numbered)
        .or_else(|| runs.iter().find(numbered))
        .or_else(|| runs.first());
    best.and_then(|run| Some(PageSpan::between(run.first()?.page, run.last()?.page)))
}

/// The entries of a table of contents, as the model reads them.
pub(crate) fn listed(desk: &mut Desk<'_>, paper: &Paper<'_>, table: PageSpan) -> Step<Vec<Entry>> {
    let chunks = paper.windows(table);
    let mut entries = Vec::new();
    for (chunk, listed) in chunks.iter().zip(desk.listed(chunks.clone())?) {
        for one in listed.unwrap_or_default() {
            let entry = Entry::named(&one.number, &one.title, one.level, Witness::PrintedContents);
            let entry = entry.filter(|entry| paper.lists(&entry.entry.title, *chunk));
            desk.count(entry.is_some());
            entries.extend(entry.map(|entry| entry.labeled(&one.label)));
        }
    }
    Ok(entries)
}

/// Sections that begin on stretches of pages, as the model reads them, in reading order; and the stretches it did not
/// answer about.
pub(crate) fn begun(
    desk: &mut Desk<'_>,
    paper: &Paper<'_>,
    pages: PageSpan,
) -> Step<(Vec<Entry>, Vec<PageSpan>)> {
    let windows = paper.windows(pages);
    let before = |at: usize| at.checked_sub(1).map(|before| windows[before].end());
    let shown: Vec<_> = windows
        .iter()
        .enumerate()
        .map(|(at, window)| (before(at), *window))
        .collect();
    let mut entries = Vec::new();
    let mut unheard = Vec::new();
    for (window, begun) in windows.iter().zip(desk.begun(&shown)?) {
        match begun {
            Some(begun) => entries.extend(on_paper(desk, paper, *window, &begun)),
            None => unheard.push(*window),
        }
    }
    Ok((entries, unheard))
}

/// The sections of one window that stand on paper: on the page they are said to begin on, or right beside it.
fn on_paper(
    desk: &mut Desk<'_>,
    paper: &Paper<'_>,
    window: PageSpan,
    begun: &[Begun],
) -> Vec<Entry> {
    let entry = |one: &Begun| {
        let page = nth(window, one.page)?;
        Some(Entry::named(&one.number, &one.title, one.level, Witness::Model)?.on(page))
    };
    let mut entries: Vec<Entry> = begun.iter().filter_map(entry).collect();
    for shift in [0i64, 1, -1] {
        see(&mut entries, paper, window, shift);
    }
    let mut taken = BTreeSet::new();
    entries.retain(|entry| entry.spot.is_some());
    (0..begun.len()).for_each(|at| desk.count(at < entries.len()));
    entries.retain(|entry| entry.spot.is_some_and(|spot| taken.insert(spot)));
    entries.sort_by_key(|entry| entry.spot);
    entries
}

/// Looks for the entries that are not seen yet, `shift` pages behind where they are said to begin.
fn see(entries: &mut [Entry], paper: &Paper<'_>, window: PageSpan, shift: i64) {
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
        let wanted: Vec<_> = indices
            .iter()
            .map(|at| entries[*at].wanted(false))
            .collect();
        let spots = paper.on_page(&wanted.iter().collect::<Vec<_>>(), page);
        for (at, spot) in indices.into_iter().zip(spots) {
            if let Some(spot) = spot {
                entries[at].see(spot, paper);
            }
        }
    }
}

/// Leaves out what was read off the pages of a table of contents and begins elsewhere too.
pub(crate) fn without_listings(
    entries: &[Entry],
    contents: &[PageNo],
    paper: &Paper<'_>,
) -> Vec<Entry> {
    let page = |entry: &Entry| entry.spot.map(|spot| paper.page(spot));
    let is_listed = |entry: &Entry| page(entry).is_some_and(|page| contents.contains(&page));
    let bodies: Vec<String> = entries
        .iter()
        .filter(|entry| !is_listed(entry))
        .map(|entry| entry.entry.title.clone())
        .collect();
    let elsewhere = |entry: &Entry| {
        bodies
            .iter()
            .any(|title| paper::likeness(title, &entry.entry.title) > 0.9)
    };
    entries
        .iter()
        .filter(|entry| !(is_listed(entry) && elsewhere(entry)))
        .cloned()
        .collect()
}
