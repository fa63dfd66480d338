//! Looking twice: entries that were not found are looked for, each title is looked at where it was found, and what failed
//! is repaired between its nearest good neighbors.

use std::collections::BTreeSet;

use stemma_document::{PageNo, PageSpan};

use super::desk::{Desk, Step, nth};
use super::entries::{Entry, Looked};
use stemma_outline::structure::paper::{Named, Paper};

/// Rounds of repair.
const ROUNDS: usize = 3;
/// Titles of one question.
const TITLES: usize = 40;
/// Pages to either side of the one that a label means on which its title is looked for.
const REACH: u32 = 2;
/// The same in `auto`, where rules put it.
const BESIDE: u32 = 1;
/// Pages that questions about neighboring titles share.
const SHARED: usize = 12;
/// Stretches of pages on which one title is looked for.
const STRETCHES: usize = 40;
/// The same for a repair.
const REPAIR_STRETCHES: usize = 4;

/// Looks for the entries that rules did not see, on the pages their labels mean, else between their neighbors.
pub(crate) fn located(desk: &mut Desk<'_>, paper: &Paper<'_>, entries: &mut [Entry]) -> Step<()> {
    let mut groups: Vec<(PageSpan, Vec<usize>)> = Vec::new();
    for at in (0..entries.len()).filter(|at| entries[*at].spot.is_none()) {
        let Some(between) = between(paper, entries, at) else {
            continue;
        };
        match entries[at]
            .expected
            .and_then(|page| around(page, between, REACH))
        {
            Some(near) => share(&mut groups, near, at),
            None => {
                for window in paper.windows(between).into_iter().take(STRETCHES) {
                    join(&mut groups, window, at);
                }
            }
        }
    }
    for (at, page) in asked_for(desk, entries, &groups)? {
        put(paper, &mut entries[at], page);
    }
    Ok(())
}

/// Puts an entry on a page the model names: where its title reads there, else at the top, unseen. What was read stays.
fn put(paper: &Paper<'_>, entry: &mut Entry, page: PageNo) {
    let wanted = entry.wanted(false);
    match paper.on_page(&[&wanted], page).pop().flatten() {
        Some(spot) if !entry.seen => entry.see(spot, paper),
        None if entry.spot.is_none() => entry.spot = paper.top(page),
        _ => {}
    }
}

/// Looks for doubtful entries on and beside the pages where they should begin: one that the model sees on its own page
/// stands there.
pub(crate) fn confirmed(
    desk: &mut Desk<'_>,
    paper: &Paper<'_>,
    entries: &mut [Entry],
    doubtful: impl Fn(&Entry) -> bool,
) -> Step<()> {
    let mut groups: Vec<(PageSpan, Vec<usize>)> = Vec::new();
    for at in (0..entries.len()).filter(|at| doubtful(&entries[*at])) {
        let Some(own) = entries[at].spot.map(|spot| paper.page(spot)) else {
            continue;
        };
        let near = paper.whole().and_then(|whole| around(own, whole, BESIDE));
        let near = near
            .and_then(|near| readable(paper, &entries[at].wanted(false), near, &BTreeSet::new()));
        let pages = near.map_or(PageSpan::between(own, own), |near| {
            PageSpan::between(near.start().min(own), near.end().max(own))
        });
        share(&mut groups, pages, at);
    }
    for (at, page) in asked_for(desk, entries, &groups)? {
        let wanted = entries[at].wanted(false);
        match paper.on_page(&[&wanted], page).pop().flatten() {
            Some(spot) => entries[at].see(spot, paper),
            None if entries[at]
                .spot
                .is_some_and(|spot| paper.page(spot) == page) =>
            {
                let starts_page = entries[at].spot.is_some_and(|spot| paper.starts_page(spot));
                entries[at].looked = Some(Looked {
                    stands: true,
                    starts_page,
                });
            }
            None => {}
        }
    }
    Ok(())
}

/// Where the model sees the entries of each group, by their indices; pages that were not shown are none.
fn asked_for(
    desk: &mut Desk<'_>,
    entries: &[Entry],
    groups: &[(PageSpan, Vec<usize>)],
) -> Step<Vec<(usize, PageNo)>> {
    let titles = |all: &[usize]| {
        all.iter()
            .map(|at| entries[*at].entry.title.clone())
            .collect()
    };
    let answers = desk.found(
        groups
            .iter()
            .map(|(pages, all)| (titles(all), *pages))
            .collect(),
    )?;
    let mut places = Vec::new();
    for ((pages, all), found) in groups.iter().zip(answers) {
        for (entry, page) in found.unwrap_or_default() {
            let at = entry
                .checked_sub(1)
                .and_then(|index| all.get(index as usize))
                .copied();
            let place = at.zip(nth(*pages, page));
            desk.count(place.is_some());
            places.extend(place);
        }
    }
    Ok(places)
}

/// Adds an entry to the last group, where both fit on few pages; else opens one.
fn share(groups: &mut Vec<(PageSpan, Vec<usize>)>, pages: PageSpan, at: usize) {
    if let Some((shared, all)) = groups.last_mut() {
        let both = PageSpan::between(
            shared.start().min(pages.start()),
            shared.end().max(pages.end()),
        );
        if both.len() <= SHARED && all.len() < TITLES && pages.start() <= shared.end() {
            *shared = both;
            all.push(at);
            return;
        }
    }
    groups.push((pages, vec![at]));
}

/// Adds an entry to the group about exactly these pages.
fn join(groups: &mut Vec<(PageSpan, Vec<usize>)>, pages: PageSpan, at: usize) {
    match groups
        .iter_mut()
        .rev()
        .find(|(own, all)| *own == pages && all.len() < TITLES)
    {
        Some((_, all)) => all.push(at),
        None => groups.push((pages, vec![at])),
    }
}

/// The pages beside `page`, as far as they lie inside `between`.
fn around(page: PageNo, between: PageSpan, reach: u32) -> Option<PageSpan> {
    let first = page.get().saturating_sub(reach).max(1);
    let last = page.get() + reach;
    PageSpan::new(
        first.max(between.start().get()),
        last.min(between.end().get()),
    )
}

/// The pages from the nearest good entry before one to the nearest behind it.
fn between(paper: &Paper<'_>, entries: &[Entry], at: usize) -> Option<PageSpan> {
    let page = |entry: &Entry| {
        entry
            .spot
            .filter(|_| entry.is_good())
            .map(|spot| paper.page(spot))
    };
    let whole = paper.whole()?;
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

/// Looks at each title where it was found, and repairs what failed, a few times.
pub(crate) fn checked(desk: &mut Desk<'_>, paper: &Paper<'_>, entries: &mut [Entry]) -> Step<()> {
    verify(desk, paper, entries)?;
    let mut tried: Vec<BTreeSet<PageNo>> = vec![BTreeSet::new(); entries.len()];
    for _ in 0..ROUNDS {
        if !repair(desk, paper, entries, &mut tried)? {
            break;
        }
        verify(desk, paper, entries)?;
    }
    Ok(())
}

/// Asks about every entry that has a place and no verdict.
pub(crate) fn verify(desk: &mut Desk<'_>, paper: &Paper<'_>, entries: &mut [Entry]) -> Step<()> {
    let open: Vec<(usize, _)> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.looked.is_none())
        .filter_map(|(at, entry)| Some((at, (entry.entry.title.clone(), paper.place(entry.spot?)))))
        .collect();
    let (indices, asked): (Vec<_>, Vec<_>) = open.into_iter().unzip();
    for (at, looked) in indices.into_iter().zip(desk.looked(asked)?) {
        entries[at].looked = looked;
    }
    Ok(())
}

/// Asks where the titles stand that failed; whether any was put somewhere new.
fn repair(
    desk: &mut Desk<'_>,
    paper: &Paper<'_>,
    entries: &mut [Entry],
    tried: &mut [BTreeSet<PageNo>],
) -> Step<bool> {
    let failed =
        |entry: &Entry| entry.spot.is_none() || entry.looked.is_some_and(|looked| !looked.stands);
    let mut asked = Vec::new();
    for at in (0..entries.len()).filter(|at| failed(&entries[*at])) {
        tried[at].extend(entries[at].spot.map(|spot| paper.page(spot)));
        let Some(between) = between(paper, entries, at) else {
            continue;
        };
        let mut windows = paper.windows(between);
        if let (true, Some(page)) = (windows.len() > 1, entries[at].expected) {
            windows = around(page, between, REACH).into_iter().collect();
        }
        let wanted = entries[at].wanted(false);
        asked.extend(
            windows
                .into_iter()
                .take(REPAIR_STRETCHES)
                .filter_map(|pages: PageSpan| readable(paper, &wanted, pages, &tried[at]))
                .map(|pages| (at, pages)),
        );
    }
    let answers = desk.repaired(
        asked
            .iter()
            .map(|(at, pages)| (entries[*at].entry.title.clone(), *pages))
            .collect(),
    )?;
    let mut moved = false;
    for ((at, pages), page) in asked.into_iter().zip(answers) {
        let Some(page) = page
            .and_then(|page| nth(pages, page))
            .filter(|page| !tried[at].contains(page))
        else {
            continue;
        };
        tried[at].insert(page);
        let wanted = entries[at].wanted(false);
        if let Some(spot) = paper.on_page(&[&wanted], page).pop().flatten() {
            entries[at].see(spot, paper);
            moved = true;
        }
    }
    Ok(moved)
}

/// The least stretch of `pages` with all those on which the title can be read, and was not tried yet: an answer about any
/// other page would count for nothing.
fn readable(
    paper: &Paper<'_>,
    wanted: &Named,
    pages: PageSpan,
    tried: &BTreeSet<PageNo>,
) -> Option<PageSpan> {
    let reads = |page: &PageNo| {
        !tried.contains(page) && paper.on_page(&[wanted], *page).iter().any(Option::is_some)
    };
    let first = pages.pages().find(reads)?;
    Some(PageSpan::between(
        first,
        pages.pages().rfind(reads).unwrap_or(first),
    ))
}
