//! Matches the sections of a tree to the Items of a form.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use stemma_document::text::normalize_key;
use stemma_document::{Section, SectionId, SectionKind, SectionTree};
use stemma_reading::vocabulary::{
    EXHIBIT_ENTRIES, EXHIBIT_INDEXES, PROPOSALS, SIGNATURE_TITLES, SUMMARY_SECTIONS,
};

use crate::structure::form_items;
use crate::structure::forms::SecForm;

const MAX_SECTIONS: usize = 50_000;
// A summary restates fewer sections.
const MAX_RESTATED: usize = 16;
const MAX_LOOKAHEAD: usize = 200;

#[derive(Debug, Clone, Copy)]
pub(super) struct ItemSection<'a> {
    pub(super) section: &'a Section,
    /// Whether its heading names several Items.
    pub(super) combined: bool,
    /// Whether its heading has the Item's number, not only the title.
    pub(super) numbered: bool,
    /// Whether other sections of the level have the name as well and it is not the bulk of them: each fund of a prospectus has
    /// an objective.
    pub(super) is_ambiguous: bool,
}

/// How a title names an Item.
// The derived order ranks the kinds, most certain first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchKind {
    /// `Item 7A`.
    ItemHeading,
    /// `7A Quantitative …`.
    NumberOnly,
    /// `Quantitative …`, as the form has it.
    TitleOnly,
}

/// The sections of all Items, by key. Among several for one Item the order is: kind of match, verified, higher level, first.
/// In a submission only the primary document, the first top section, has Items of the form.
pub(super) fn match_sections(
    tree: &SectionTree,
    form: SecForm,
    is_submission: bool,
) -> BTreeMap<usize, ItemSection<'_>> {
    let mut best: BTreeMap<usize, (Rank, ItemSection<'_>, u64)> = BTreeMap::new();
    let mut parts: Vec<Option<u8>> = Vec::new();
    // The names that the sections above have.
    let mut above: Vec<Option<&str>> = Vec::new();
    let mut documents = 0;
    let in_primary = tree.walk().take_while(|(depth, _)| {
        documents += u32::from(*depth == 1);
        !is_submission || documents <= 1
    });
    let sections: Vec<(usize, &Section)> = in_primary.take(MAX_SECTIONS).collect();
    let restated = restated_behind(form, &sections);
    for (depth, section) in sections {
        parts.truncate(depth - 1);
        let own = form_items::part_of(&section.title);
        let part = own.or_else(|| parts.iter().rev().flatten().next().copied());
        parts.push(own);
        above.truncate(depth - 1);
        above.push(None);
        if section.kind != SectionKind::Heading {
            continue;
        }
        let Some((naming, first, last)) = match_title(form, section, part, depth) else {
            continue;
        };
        let item = &form.items()[first];
        if item.is_named() {
            if is_named_again(&above, item.number) || restated.contains(&section.id) {
                continue;
            }
            above[depth - 1] = Some(item.number);
        }
        let place = ItemSection {
            section,
            combined: last > first,
            numbered: naming != MatchKind::TitleOnly,
            is_ambiguous: false,
        };
        // Nothing but the text tells sections of one name apart.
        let size = if item.is_named() {
            section.tokens.max(1)
        } else {
            0
        };
        let rank = Rank {
            level: (naming, !section.verified, depth),
            size: Reverse(size),
        };
        for key in first..=last {
            let is_end = key == first || key == last;
            if !is_end && !form.names_key(&section.title, key) {
                continue;
            }
            let known = best.get(&key);
            let same = known.filter(|(current, ..)| current.level == rank.level);
            let total = same.map_or(0, |(.., total)| *total) + u64::from(size);
            match best.get_mut(&key) {
                Some((current, _, all)) if *current <= rank => {
                    if current.level == rank.level {
                        *all = total;
                    }
                }
                _ => {
                    best.insert(key, (rank, place, total));
                }
            }
        }
    }
    best.into_iter()
        .map(|(key, (rank, place, total))| {
            let is_ambiguous = u64::from(rank.size.0) * 4 < total * 3;
            (
                key,
                ItemSection {
                    is_ambiguous,
                    ..place
                },
            )
        })
        .collect()
}

/// Which of several sections an Item is; the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    level: (MatchKind, bool, usize),
    size: Reverse<u32>,
}

/// Sections that belong to the summary before them although the tree has them as its siblings: those up to the first whose name
/// comes again.
fn restated_behind(form: SecForm, sections: &[(usize, &Section)]) -> BTreeSet<SectionId> {
    let mut restated = BTreeSet::new();
    if !form.has_names() {
        return restated;
    }
    let name_of = |section: &Section| {
        let key = form.item_with_title(&section.title)?;
        Some(form.items()[key].number)
    };
    for (at, (depth, summary)) in sections.iter().enumerate() {
        let Some(held) = name_of(summary).and_then(|name| SUMMARY_SECTIONS.get(name)) else {
            continue;
        };
        let siblings = sections[at + 1..]
            .iter()
            .take(MAX_LOOKAHEAD)
            .take_while(|(other, _)| other >= depth)
            .filter(|(other, _)| other == depth);
        let behind: Vec<(&str, SectionId)> = siblings
            .take(MAX_RESTATED)
            .filter_map(|(_, section)| Some((name_of(section)?, section.id)))
            .filter(|(name, _)| !held.split(' ').any(|held| held == *name))
            .collect();
        let again = (0..behind.len())
            .find(|at| behind[..*at].iter().any(|(name, _)| *name == behind[*at].0));
        restated.extend(behind[..again.unwrap_or(0)].iter().map(|(_, id)| *id));
    }
    restated
}

/// Whether a section above is a summary that names this one again.
fn is_named_again(above: &[Option<&str>], name: &str) -> bool {
    let summaries = above.iter().flatten();
    summaries
        .filter_map(|summary| SUMMARY_SECTIONS.get(summary))
        .any(|held| !held.split(' ').any(|held| held == name))
}

/// The section behind an Item that belongs to it although the tree has it as a sibling: the executive officers behind the last
/// Item of Part I, which the form allows there without a number, and the index of exhibits behind the Item of the exhibits.
// An Item ends where the next Item or PART begins, the last one at the signatures.
pub(super) fn section_behind<'a>(
    tree: &'a SectionTree,
    section: &Section,
    starts: &BTreeSet<SectionId>,
    is_list: bool,
) -> Option<&'a Section> {
    let next = tree.section(SectionId(last_id(section).0 + 1))?;
    let key = normalize_key(&next.title);
    let is_plain = !starts.contains(&next.id) && form_items::part_of(&next.title).is_none();
    let belongs = match is_list {
        true => EXHIBIT_INDEXES.starts(&key),
        false => key.contains("executiveofficers"),
    };
    (is_plain && belongs).then_some(next)
}

/// The section with its descendants in reading order. `starts` are the sections of all Items.
// The long heading of a combined Item is easily split into several headings, which then hold its text. Everything up to the
// next Item or PART therefore belongs to it.
pub(super) fn item_extent<'a>(
    tree: &'a SectionTree,
    section: &'a Section,
    combined: bool,
    starts: &BTreeSet<SectionId>,
) -> Vec<&'a Section> {
    let last = last_id(section);
    let behind = tree
        .walk()
        .map(|(_, section)| section)
        .skip_while(|other| other.id < section.id);
    behind
        .take_while(|other| {
            let is_next = !combined
                || other.id != section.id && starts.contains(&other.id)
                || form_items::item_title(&other.title).is_some()
                    && !form_items::name_same_item(&other.title, &section.title)
                || form_items::part_of(&other.title).is_some()
                || is_closing(&normalize_key(&other.title));
            other.id <= last || !is_next
        })
        .take(MAX_SECTIONS)
        .collect()
}

pub(super) fn last_id(section: &Section) -> SectionId {
    let mut last = section;
    while let Some(child) = last.children.last() {
        last = child;
    }
    last.id
}

/// The sub-section with which an Item ends although the tree goes on: signatures, consents and exhibits follow the last Item
/// of a form. In the list of exhibits, consents and certifications are entries.
pub(super) fn matter_after_items(section: &Section, is_list: bool) -> Option<&Section> {
    section.children.iter().find(|child| {
        let key = normalize_key(&child.title);
        let exhibit = key.strip_prefix("exhibit").is_some_and(|rest| {
            let is_caption = !rest.contains(|c: char| c.is_alphabetic());
            rest.starts_with(|c: char| c.is_ascii_digit()) && (is_caption || !is_list)
        });
        exhibit || is_closing(&key) || EXHIBIT_ENTRIES.starts(&key) && !is_list
    })
}

/// Whether a normalized title opens what follows the last Item.
fn is_closing(key: &str) -> bool {
    SIGNATURE_TITLES.starts(key)
}

/// Whether a title is a proposal to shareholders, which proxy statements also number as Items.
fn is_proposal(title: &str) -> bool {
    let Some(rest) = form_items::item_title(title) else {
        return false;
    };
    let key = normalize_key(&rest);
    PROPOSALS.starts(&key)
}

fn match_title(
    form: SecForm,
    section: &Section,
    part: Option<u8>,
    depth: usize,
) -> Option<(MatchKind, usize, usize)> {
    if is_proposal(&section.title) {
        return None;
    }
    if let Some((first, last)) = form.item_keys_of(&section.title, part) {
        let headed = form_items::item_title(&section.title).is_some();
        // Deeper in the tree, notes and lists have the same numbers.
        let naming = if headed {
            MatchKind::ItemHeading
        } else {
            MatchKind::NumberOnly
        };
        return (headed || depth <= 3).then_some((naming, first, last));
    }
    let key = form
        .item_with_title(&section.title)
        .filter(|_| depth <= 3)?;
    Some((MatchKind::TitleOnly, key, key))
}
