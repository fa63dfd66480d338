//! Long text without sections of its own: read by the model in windows inside its own span, again where what it found
//! there is still long; by rules where it found nothing.

use std::collections::BTreeSet;

use stemma_document::{DraftEntry, OutlineError, PageNo, Verdict, Witness};

use super::checking;
use super::desk::{Desk, Step};
use super::entries::{Entry, in_order};
use super::outline::of_rules;
use super::reading;
use stemma_outline::structure::paper::{Long, Paper, Settled};
use stemma_outline::structure::{Draft, WINDOWS};

/// How often what was found inside a long section is split again.
const DEPTH: usize = 3;

/// Splits what is too long; every title is looked at where it was found.
pub(super) fn split(
    desk: &mut Desk<'_>,
    paper: &Paper<'_>,
    entries: Vec<Entry>,
    rules: &[Entry],
) -> Step<Vec<Entry>> {
    let mut entries = in_order(entries);
    let mut read: BTreeSet<PageNo> = BTreeSet::new();
    for _ in 0..DEPTH {
        let (mut added, open) = inside(desk, paper, &entries, &mut read)?;
        checking::verify(desk, paper, &mut added)?;
        added.retain(|entry| !entry.is_disputed());
        if added.is_empty() && open.is_empty() {
            break;
        }
        let by_rules = open
            .iter()
            .flat_map(|long| of_rules_inside(long, &entries, rules))
            .collect::<Vec<_>>();
        entries = in_order(entries.into_iter().chain(added).chain(by_rules).collect());
    }
    Ok(entries)
}

/// What the model reads inside long text, each on a level below the section that holds it; and the long text in which it
/// read nothing. Text that was read before is left alone.
fn inside(
    desk: &mut Desk<'_>,
    paper: &Paper<'_>,
    entries: &[Entry],
    read: &mut BTreeSet<PageNo>,
) -> Step<(Vec<Entry>, Vec<Long>)> {
    let spots: Vec<_> = entries.iter().filter_map(|entry| entry.spot).collect();
    let long: Vec<Long> = paper
        .long(&spots)
        .into_iter()
        .filter(|long| read.insert(long.pages.start()))
        .collect();
    let mut added = Vec::new();
    let mut open = Vec::new();
    let mut missing = None;
    for one in long {
        match reading::begun(desk, paper, one.pages) {
            Ok((begun, _)) => {
                let found = below(&one, entries, begun);
                if found.is_empty() {
                    open.push(one)
                } else {
                    added.extend(found)
                }
            }
            Err(stop) => missing = Some(stop),
        }
    }
    missing.map_or(Ok((added, open)), Err)
}

/// Entries inside long text. Where the section that opens it was named too, that says how far the levels differ; else they
/// are below it.
fn below(long: &Long, entries: &[Entry], begun: Vec<Entry>) -> Vec<Entry> {
    let above = parent(long, entries);
    let level = above.map_or(0, |above| above.entry.level);
    let named = begun
        .iter()
        .find(|entry| entry.spot.is_some_and(|spot| long.opens_with(spot)));
    let own = named.map(|named| named.entry.level);
    let mut inside: Vec<Entry> = begun
        .into_iter()
        .filter(|entry| entry.spot.is_some_and(|spot| long.holds(spot)))
        .collect();
    let highest = inside
        .iter()
        .map(|entry| entry.entry.level)
        .min()
        .unwrap_or(1);
    let (shift, least) = match own {
        Some(own) => (i32::from(level) - i32::from(own), 1),
        None if highest <= 1 => (i32::from(level), i32::from(level) + 1),
        None => (0, i32::from(level) + 1),
    };
    for entry in &mut inside {
        let moved = i32::from(entry.entry.level) + shift;
        entry.entry.level = u16::try_from(moved.max(least)).unwrap_or(u16::MAX);
    }
    inside
}

/// What rules found inside long text, on levels below the section that opens it.
fn of_rules_inside(long: &Long, entries: &[Entry], rules: &[Entry]) -> Vec<Entry> {
    let level = parent(long, entries).map_or(0, |above| above.entry.level);
    let mut inside: Vec<Entry> = rules
        .iter()
        .filter(|entry| entry.seen && entry.spot.is_some_and(|spot| long.holds(spot)))
        .cloned()
        .collect();
    let highest = inside
        .iter()
        .map(|entry| entry.entry.level)
        .min()
        .unwrap_or(1);
    inside
        .iter_mut()
        .for_each(|entry| entry.entry.level = level + 1 + (entry.entry.level - highest));
    inside
}

/// The section that long text belongs to.
fn parent<'e>(long: &Long, entries: &'e [Entry]) -> Option<&'e Entry> {
    entries
        .iter()
        .rev()
        .find(|entry| entry.spot.is_some_and(|spot| long.opens_with(spot)))
}

/// A draft of rules that holds, with what the model says about what they left open: titles that they did not find where
/// they should stand, and long text in which they found nothing.
pub(super) fn mended(
    desk: &mut Desk<'_>,
    paper: &Paper<'_>,
    rules: &Draft,
) -> Step<Result<Draft, OutlineError>> {
    let before = of_rules(paper, rules);
    let mut entries = before.clone();
    let looked = checking::confirmed(desk, paper, &mut entries, is_open);
    let added = inside(desk, paper, &before, &mut BTreeSet::new());
    looked?;
    let (added, _) = added?;
    let stands = |entry: &Entry| entry.looked.is_some_and(|looked| looked.stands);
    let changed = entries
        .iter()
        .zip(&before)
        .any(|(entry, before)| entry.spot != before.spot || stands(entry));
    if !changed && added.is_empty() {
        return Ok(Ok(rules.clone()));
    }
    entries.extend(added);
    let settled = entries
        .iter()
        .filter_map(|entry| confirmed(entry, paper))
        .collect();
    let gaps = rules
        .gaps
        .iter()
        .filter(|gap| gap.code != WINDOWS)
        .cloned()
        .collect();
    Ok(paper.draft(
        settled,
        rules.outline.rejected().to_vec(),
        gaps,
        rules.method,
        rules,
    ))
}

/// Whether rules did not find the title that an entry claims; a PART that they supply claims none.
fn is_open(entry: &Entry) -> bool {
    let DraftEntry {
        witness,
        label,
        target,
        ..
    } = &entry.entry;
    !entry.seen && (*witness != Witness::Grammar || label.is_some() || target.is_some())
}

/// What a witness in the document announces, and the model sees where it is announced, is found.
fn confirmed(entry: &Entry, paper: &Paper<'_>) -> Option<Settled> {
    let spot = entry.spot?;
    let starts_page = paper.starts_page(spot);
    let verdict = match (entry.seen, entry.looked) {
        (true, _) => Verdict::Found { starts_page },
        (false, Some(looked)) if looked.stands => Verdict::Found {
            starts_page: looked.starts_page,
        },
        (false, _) => Verdict::Unconfirmed { starts_page },
    };
    Some(Settled {
        entry: entry.entry.clone(),
        spot,
        verdict,
    })
}
