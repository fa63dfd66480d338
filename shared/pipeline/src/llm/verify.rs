//! Verification: searches missing entries, checks each title where it was found, and repairs rejected ones
//! between their nearest good neighbors.

use std::collections::BTreeSet;

use stemma_document::{PageNo, PageSpan};

use super::entries::{OutlineEntry, TitleCheck};
use super::structure_queries::{QueryResult, StructureQueries, nth_page};
use stemma_outline::structure::verify_titles::{PageAnalysis, ProposedSection};

const MAX_REPAIR_ROUNDS: usize = 3;
// Most titles in one question.
const MAX_TITLES: usize = 40;
// A title is searched so many pages around the page of its label.
const LABEL_REACH: u32 = 2;
// In `auto` mode: around the page where rules placed it.
const AUTO_REACH: u32 = 1;
// Most pages that neighboring titles share in one question.
const MAX_GROUP_PAGES: usize = 12;
// Most windows in which one title is searched.
const MAX_WINDOWS: usize = 40;
// Most windows per repair.
const MAX_REPAIR_WINDOWS: usize = 4;

/// Searches entries that rules did not find, around the pages of their labels, else between their neighbors.
pub(crate) fn locate_missing(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    entries: &mut [OutlineEntry],
) -> QueryResult<()> {
    let mut groups: Vec<(PageSpan, Vec<usize>)> = Vec::new();
    for at in (0..entries.len()).filter(|at| entries[*at].spot.is_none()) {
        let Some(between) = pages_between(analysis, entries, at) else {
            continue;
        };
        match entries[at]
            .expected
            .and_then(|page| pages_around(page, between, LABEL_REACH))
        {
            Some(near) => add_to_last_group(&mut groups, near, at),
            None => {
                for window in analysis.windows(between).into_iter().take(MAX_WINDOWS) {
                    add_to_group(&mut groups, window, at);
                }
            }
        }
    }
    for (at, page) in query_title_pages(queries, entries, &groups)? {
        place_entry(analysis, &mut entries[at], page);
    }
    Ok(())
}

// Moves an entry to a page that the model names: to its title if it is there, else to the top of the page.
// Entries found by rules stay in place.
fn place_entry(analysis: &PageAnalysis<'_>, entry: &mut OutlineEntry, page: PageNo) {
    let proposed = entry.to_proposed(false);
    match analysis.locate_on_page(&[&proposed], page).pop().flatten() {
        Some(spot) if !entry.found_by_rules => entry.place_at(spot, analysis),
        None if entry.spot.is_none() => entry.spot = analysis.first_line(page),
        _ => {}
    }
}

/// Searches doubtful entries on and next to their expected pages. One that the model sees on its own page is
/// confirmed.
pub(crate) fn confirm_doubtful(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    entries: &mut [OutlineEntry],
    doubtful: impl Fn(&OutlineEntry) -> bool,
) -> QueryResult<()> {
    let mut groups: Vec<(PageSpan, Vec<usize>)> = Vec::new();
    for at in (0..entries.len()).filter(|at| doubtful(&entries[*at])) {
        let Some(own) = entries[at].spot.map(|spot| analysis.page(spot)) else {
            continue;
        };
        let near = analysis
            .all_pages()
            .and_then(|whole| pages_around(own, whole, AUTO_REACH));
        let near = near.and_then(|near| {
            readable_pages(
                analysis,
                &entries[at].to_proposed(false),
                near,
                &BTreeSet::new(),
            )
        });
        let pages = near.map_or(PageSpan::between(own, own), |near| {
            PageSpan::between(near.start().min(own), near.end().max(own))
        });
        add_to_last_group(&mut groups, pages, at);
    }
    for (at, page) in query_title_pages(queries, entries, &groups)? {
        let proposed = entries[at].to_proposed(false);
        match analysis.locate_on_page(&[&proposed], page).pop().flatten() {
            Some(spot) => entries[at].place_at(spot, analysis),
            None if entries[at]
                .spot
                .is_some_and(|spot| analysis.page(spot) == page) =>
            {
                let starts_page = entries[at]
                    .spot
                    .is_some_and(|spot| analysis.starts_page(spot));
                entries[at].check = Some(TitleCheck {
                    stands: true,
                    starts_page,
                });
            }
            None => {}
        }
    }
    Ok(())
}

// Entries and the pages on which the model sees them. Pages that were not shown are ignored.
fn query_title_pages(
    queries: &mut StructureQueries<'_>,
    entries: &[OutlineEntry],
    groups: &[(PageSpan, Vec<usize>)],
) -> QueryResult<Vec<(usize, PageNo)>> {
    let questions = groups.iter().map(|(pages, all)| {
        let titles = all.iter().map(|at| entries[*at].entry.title.clone());
        (titles.collect(), *pages)
    });
    let answers = queries.locate_titles(questions.collect())?;
    let mut places = Vec::new();
    for ((pages, all), title_pages) in groups.iter().zip(answers) {
        for (entry, page) in title_pages.unwrap_or_default() {
            let at = entry
                .checked_sub(1)
                .and_then(|index| all.get(index as usize))
                .copied();
            let place = at.zip(nth_page(*pages, page));
            queries.count_title(place.is_some());
            places.extend(place);
        }
    }
    Ok(places)
}

// Extends the last group if both fit on few pages, else opens a new one.
fn add_to_last_group(groups: &mut Vec<(PageSpan, Vec<usize>)>, pages: PageSpan, at: usize) {
    if let Some((shared, all)) = groups.last_mut() {
        let both = PageSpan::between(
            shared.start().min(pages.start()),
            shared.end().max(pages.end()),
        );
        if both.len() <= MAX_GROUP_PAGES && all.len() < MAX_TITLES && pages.start() <= shared.end()
        {
            *shared = both;
            all.push(at);
            return;
        }
    }
    groups.push((pages, vec![at]));
}

// Adds an entry to the group of exactly these pages.
fn add_to_group(groups: &mut Vec<(PageSpan, Vec<usize>)>, pages: PageSpan, at: usize) {
    match groups
        .iter_mut()
        .rev()
        .find(|(own, all)| *own == pages && all.len() < MAX_TITLES)
    {
        Some((_, all)) => all.push(at),
        None => groups.push((pages, vec![at])),
    }
}

// The pages around `page` that lie inside `between`.
fn pages_around(page: PageNo, between: PageSpan, reach: u32) -> Option<PageSpan> {
    let first = page.get().saturating_sub(reach).max(1);
    let last = page.get() + reach;
    PageSpan::new(
        first.max(between.start().get()),
        last.min(between.end().get()),
    )
}

// The pages from the nearest good entry before this one to the nearest after it.
fn pages_between(
    analysis: &PageAnalysis<'_>,
    entries: &[OutlineEntry],
    at: usize,
) -> Option<PageSpan> {
    let page = |entry: &OutlineEntry| {
        entry
            .spot
            .filter(|_| entry.is_good())
            .map(|spot| analysis.page(spot))
    };
    let whole = analysis.all_pages()?;
    let before = entries[..at]
        .iter()
        .rev()
        .find_map(page)
        .unwrap_or(whole.start());
    let after = entries[at + 1..]
        .iter()
        .find_map(page)
        .filter(|after| *after >= before)
        .unwrap_or(whole.end());
    Some(PageSpan::between(before, after))
}

/// Checks each title where it was found, and repairs rejected ones in a few rounds.
pub(crate) fn verify_and_repair(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    entries: &mut [OutlineEntry],
) -> QueryResult<()> {
    verify(queries, analysis, entries)?;
    // Pages are tried once per entry, so that the model cannot send an entry back and forth.
    let mut tried: Vec<BTreeSet<PageNo>> = vec![BTreeSet::new(); entries.len()];
    for _ in 0..MAX_REPAIR_ROUNDS {
        if !repair(queries, analysis, entries, &mut tried)? {
            break;
        }
        verify(queries, analysis, entries)?;
    }
    Ok(())
}

/// Asks about every located entry without a verdict.
pub(crate) fn verify(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    entries: &mut [OutlineEntry],
) -> QueryResult<()> {
    let open: Vec<(usize, _)> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.check.is_none())
        .filter_map(|(at, entry)| {
            Some((at, (entry.entry.title.clone(), analysis.place(entry.spot?))))
        })
        .collect();
    let (indices, titles): (Vec<_>, Vec<_>) = open.into_iter().unzip();
    for (at, check) in indices.into_iter().zip(queries.verify_titles(titles)?) {
        entries[at].check = check;
    }
    Ok(())
}

// Asks for the pages of rejected titles. Returns whether any entry moved.
fn repair(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    entries: &mut [OutlineEntry],
    tried: &mut [BTreeSet<PageNo>],
) -> QueryResult<bool> {
    let mut requests = Vec::new();
    for at in (0..entries.len()).filter(|at| entries[*at].has_failed()) {
        tried[at].extend(entries[at].spot.map(|spot| analysis.page(spot)));
        let Some(between) = pages_between(analysis, entries, at) else {
            continue;
        };
        let mut windows = analysis.windows(between);
        if let (true, Some(page)) = (windows.len() > 1, entries[at].expected) {
            windows = pages_around(page, between, LABEL_REACH)
                .into_iter()
                .collect();
        }
        let proposed = entries[at].to_proposed(false);
        requests.extend(
            windows
                .into_iter()
                .take(MAX_REPAIR_WINDOWS)
                .filter_map(|pages: PageSpan| {
                    readable_pages(analysis, &proposed, pages, &tried[at])
                })
                .map(|pages| (at, pages)),
        );
    }
    let answers = queries.relocate_titles(
        requests
            .iter()
            .map(|(at, pages)| (entries[*at].entry.title.clone(), *pages))
            .collect(),
    )?;
    let mut moved = false;
    for ((at, pages), page) in requests.into_iter().zip(answers) {
        let Some(page) = page
            .and_then(|page| nth_page(pages, page))
            .filter(|page| !tried[at].contains(page))
        else {
            continue;
        };
        tried[at].insert(page);
        let proposed = entries[at].to_proposed(false);
        if let Some(spot) = analysis.locate_on_page(&[&proposed], page).pop().flatten() {
            entries[at].place_at(spot, analysis);
            moved = true;
        }
    }
    Ok(moved)
}

// The smallest span of `pages` that holds every untried page with the title. Rules must find a title, so
// answers about other pages would be discarded.
fn readable_pages(
    analysis: &PageAnalysis<'_>,
    proposed: &ProposedSection,
    pages: PageSpan,
    tried: &BTreeSet<PageNo>,
) -> Option<PageSpan> {
    let reads = |page: &PageNo| {
        !tried.contains(page)
            && analysis
                .locate_on_page(&[proposed], *page)
                .iter()
                .any(Option::is_some)
    };
    let first = pages.pages().find(reads)?;
    Some(PageSpan::between(
        first,
        pages.pages().rfind(reads).unwrap_or(first),
    ))
}
