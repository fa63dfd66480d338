//! Splits long text without sections. The model reads it in windows, repeatedly while the parts are still
//! long; rules split what the model leaves whole.

use std::collections::BTreeSet;

use stemma_document::{DraftEntry, EntryVerdict, EvidenceSource, OutlineError, PageNo};

use super::entries::{OutlineEntry, entries_from_rules, sort_entries};
use super::structure_queries::{QueryResult, StructureQueries};
use super::toc;
use super::verify;
use stemma_outline::structure::verify_titles::{LocatedSection, LongSpan, PageAnalysis};
use stemma_outline::structure::{Draft, WINDOWS};

// How often parts are split again.
const MAX_DEPTH: usize = 3;

/// Splits long sections, and verifies every title that the model finds in them.
pub(super) fn split_long_sections(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    entries: Vec<OutlineEntry>,
    rules: &[OutlineEntry],
) -> QueryResult<Vec<OutlineEntry>> {
    let mut entries = sort_entries(entries);
    let mut read: BTreeSet<PageNo> = BTreeSet::new();
    for _ in 0..MAX_DEPTH {
        let (mut added, open) = read_inside(queries, analysis, &entries, &mut read)?;
        verify::verify(queries, analysis, &mut added)?;
        added.retain(|entry| !entry.is_disputed());
        if added.is_empty() && open.is_empty() {
            break;
        }
        let by_rules = open
            .iter()
            .flat_map(|long| rule_sections_inside(long, &entries, rules))
            .collect::<Vec<_>>();
        entries = sort_entries(entries.into_iter().chain(added).chain(by_rules).collect());
    }
    Ok(entries)
}

// Sections that the model finds inside long text, below the enclosing section, and the text in which it found
// none. Text that was read before is skipped.
fn read_inside(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    entries: &[OutlineEntry],
    read: &mut BTreeSet<PageNo>,
) -> QueryResult<(Vec<OutlineEntry>, Vec<LongSpan>)> {
    let spots: Vec<_> = entries.iter().filter_map(|entry| entry.spot).collect();
    let long: Vec<LongSpan> = analysis
        .long_spans(&spots)
        .into_iter()
        .filter(|long| read.insert(long.pages.start()))
        .collect();
    let mut added = Vec::new();
    let mut open = Vec::new();
    let mut missing = None;
    for one in long {
        match toc::read_windows(queries, analysis, one.pages) {
            Ok((sections, _)) => {
                let nested = nest_below(&one, entries, sections);
                if nested.is_empty() {
                    open.push(one);
                } else {
                    added.extend(nested);
                }
            }
            // Asks about the other spans too, so that all questions go into the same round.
            Err(stop) => missing = Some(stop),
        }
    }
    missing.map_or(Ok((added, open)), Err)
}

// If the model also names the section that opens the text, the difference to its known level shifts all
// levels. Otherwise all entries go below it.
fn nest_below(
    long: &LongSpan,
    entries: &[OutlineEntry],
    sections: Vec<OutlineEntry>,
) -> Vec<OutlineEntry> {
    let above = enclosing_section(long, entries);
    let level = above.map_or(0, |above| above.entry.level);
    let opening = sections
        .iter()
        .find(|entry| entry.spot.is_some_and(|spot| long.opens_with(spot)));
    let own = opening.map(|opening| opening.entry.level);
    let mut inside: Vec<OutlineEntry> = sections
        .into_iter()
        .filter(|entry| entry.spot.is_some_and(|spot| long.contains(spot)))
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

// Sections found by rules, below the section that opens the text.
fn rule_sections_inside(
    long: &LongSpan,
    entries: &[OutlineEntry],
    rules: &[OutlineEntry],
) -> Vec<OutlineEntry> {
    let level = enclosing_section(long, entries).map_or(0, |above| above.entry.level);
    let mut inside: Vec<OutlineEntry> = rules
        .iter()
        .filter(|entry| entry.found_by_rules && entry.spot.is_some_and(|spot| long.contains(spot)))
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

fn enclosing_section<'e>(long: &LongSpan, entries: &'e [OutlineEntry]) -> Option<&'e OutlineEntry> {
    entries
        .iter()
        .rev()
        .find(|entry| entry.spot.is_some_and(|spot| long.opens_with(spot)))
}

/// Completes a reliable draft made by rules: asks about titles that were not found where they should be, and
/// about long text without sections.
pub(super) fn fill_open_entries(
    queries: &mut StructureQueries<'_>,
    analysis: &PageAnalysis<'_>,
    rules: &Draft,
) -> QueryResult<Result<Draft, OutlineError>> {
    let before = entries_from_rules(analysis, rules);
    let mut entries = before.clone();
    let check = verify::confirm_doubtful(queries, analysis, &mut entries, is_unresolved);
    // Both questions are asked before the first `?`, so that they go into the same round.
    let added = read_inside(queries, analysis, &before, &mut BTreeSet::new());
    check?;
    let (added, _) = added?;
    let changed = entries.iter().zip(&before).any(|(entry, before)| {
        entry.spot != before.spot || entry.check.is_some_and(|check| check.stands)
    });
    if !changed && added.is_empty() {
        return Ok(Ok(rules.clone()));
    }
    entries.extend(added);
    let located = entries
        .iter()
        .filter_map(|entry| to_confirmed(entry, analysis))
        .collect();
    let gaps = rules
        .gaps
        .iter()
        .filter(|gap| gap.code != WINDOWS)
        .cloned()
        .collect();
    Ok(analysis.draft(
        located,
        rules.outline.rejected().to_vec(),
        gaps,
        rules.method,
        rules,
    ))
}

// Whether the title of an entry was not found. A PART heading that rules insert has no title to find.
fn is_unresolved(entry: &OutlineEntry) -> bool {
    let DraftEntry {
        evidence,
        label,
        target,
        ..
    } = &entry.entry;
    !entry.found_by_rules
        && (*evidence != EvidenceSource::Grammar || label.is_some() || target.is_some())
}

// A title counts as found if the document announces it and the model sees it there.
fn to_confirmed(entry: &OutlineEntry, analysis: &PageAnalysis<'_>) -> Option<LocatedSection> {
    let spot = entry.spot?;
    let starts_page = analysis.starts_page(spot);
    let verdict = match (entry.found_by_rules, entry.check) {
        (true, _) => EntryVerdict::Confirmed { starts_page },
        (false, Some(check)) if check.stands => EntryVerdict::Confirmed {
            starts_page: check.starts_page,
        },
        (false, _) => EntryVerdict::Unconfirmed { starts_page },
    };
    Some(LocatedSection {
        entry: entry.entry.clone(),
        spot,
        verdict,
    })
}
