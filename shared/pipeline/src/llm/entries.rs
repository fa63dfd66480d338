//! Sections that a model named: where rules find them, what the model says on a second check, and the merge
//! of both.

use std::collections::BTreeMap;

use stemma_document::{DraftEntry, EntryVerdict, EvidenceSource, PageLabel, PageNo, VerifiedEntry};

use stemma_outline::structure::Draft;
use stemma_outline::structure::verify_titles::{
    self, HeadingRows, LocatedSection, PageAnalysis, ProposedSection,
};

// Deepest level accepted from a model. Trees are not deeper.
const MAX_LEVEL: u16 = 32;

/// A section that may become part of the outline.
#[derive(Debug, Clone)]
pub(crate) struct OutlineEntry {
    pub(crate) entry: DraftEntry,
    /// The page on which the model or the printed label expects it.
    pub(crate) expected: Option<PageNo>,
    /// Where it begins, as far as known.
    pub(crate) spot: Option<HeadingRows>,
    /// Whether rules found its title there.
    pub(crate) found_by_rules: bool,
    /// The model's verdict on that place; `None` if it was not asked or did not answer.
    pub(crate) check: Option<TitleCheck>,
}

/// Whether a title is a heading where it was located.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TitleCheck {
    pub(crate) stands: bool,
    pub(crate) starts_page: bool,
}

impl OutlineEntry {
    /// `None` if the title has no letters.
    pub(crate) fn new(
        number: &str,
        title: &str,
        level: u16,
        evidence: EvidenceSource,
    ) -> Option<Self> {
        let title = verify_titles::clean_title(number, title)?;
        let number = verify_titles::leading_number(&title);
        let entry = DraftEntry {
            number,
            title,
            label: None,
            target: None,
            level: level.clamp(1, MAX_LEVEL),
            evidence,
        };
        Some(Self {
            entry,
            expected: None,
            spot: None,
            found_by_rules: false,
            check: None,
        })
    }

    #[must_use]
    pub(crate) fn with_label(mut self, label: &str) -> Self {
        let label: String = label.trim().chars().take(16).collect();
        self.entry.label = Some(label).filter(|label| !label.is_empty()).map(PageLabel);
        self
    }

    #[must_use]
    pub(crate) fn with_expected_page(mut self, page: PageNo) -> Self {
        self.expected = Some(page);
        self
    }

    /// The search request for the entry. `labeled`: whether to use its printed label.
    pub(crate) fn to_proposed(&self, labeled: bool) -> ProposedSection {
        ProposedSection {
            title: self.entry.title.clone(),
            label: self
                .entry
                .label
                .as_ref()
                .filter(|_| labeled)
                .map(|label| label.0.clone()),
            level: self.entry.level,
            page: self.expected,
            evidence: self.entry.evidence,
        }
    }

    /// Moves the entry to where its title was found.
    pub(crate) fn place_at(&mut self, spot: HeadingRows, analysis: &PageAnalysis<'_>) {
        (self.spot, self.found_by_rules, self.check) = (Some(spot), true, None);
        self.entry.title = analysis.printed_title(spot, &self.entry.title);
        self.entry.number = self
            .entry
            .number
            .take()
            .or_else(|| verify_titles::leading_number(&self.entry.title));
    }

    /// Rules found it or the model confirmed it, and the model does not reject it.
    pub(crate) fn is_good(&self) -> bool {
        self.spot.is_some() && self.check.map_or(self.found_by_rules, |check| check.stands)
    }

    /// It was not found, or the model rejects its place.
    pub(crate) fn has_failed(&self) -> bool {
        self.spot.is_none() || self.check.is_some_and(|check| !check.stands)
    }

    /// Rules found it, but the model rejects it.
    pub(crate) fn is_disputed(&self) -> bool {
        self.found_by_rules && self.check.is_some_and(|check| !check.stands)
    }

    /// The entry with its place and verdict; `None` if only the model supports the place.
    /// `trusts_rejections`: whether a rejection overrides the rules.
    pub(crate) fn to_located(
        &self,
        analysis: &PageAnalysis<'_>,
        trusts_rejections: bool,
    ) -> Option<LocatedSection> {
        let spot = self.spot?;
        let starts_page = analysis.starts_page(spot);
        let near = self
            .expected
            .is_some_and(|page| page.get().abs_diff(analysis.page(spot).get()) <= 1);
        let verdict = match (self.found_by_rules, self.check) {
            (true, Some(TitleCheck { stands: false, .. })) if trusts_rejections => {
                EntryVerdict::Unconfirmed { starts_page }
            }
            (true, _) => EntryVerdict::Confirmed { starts_page },
            // Label and model agree, though no line matches the title.
            (
                false,
                Some(TitleCheck {
                    stands: true,
                    starts_page,
                }),
            ) if near && self.entry.label.is_some() => EntryVerdict::Confirmed { starts_page },
            (false, _) if near && self.entry.label.is_some() => {
                EntryVerdict::Unconfirmed { starts_page }
            }
            (false, _) => return None,
        };
        Some(LocatedSection {
            entry: self.entry.clone(),
            spot,
            verdict,
        })
    }
}

/// Whether rejections count: the model rejects no more than half of the titles that rules found. A model that
/// rejects more is probably wrong itself.
pub(crate) fn trusts_rejections(entries: &[OutlineEntry]) -> bool {
    let checked = entries
        .iter()
        .filter(|entry| entry.found_by_rules && entry.check.is_some())
        .count();
    entries.iter().filter(|entry| entry.is_disputed()).count() * 2 <= checked
}

/// Share of good entries (0–1). Entries without a label, in a table that prints labels, count only if they
/// were found: they group others.
pub(crate) fn accuracy(entries: &[OutlineEntry]) -> f32 {
    let labeled = entries.iter().any(|entry| entry.entry.label.is_some());
    let trusts_rejections = trusts_rejections(entries);
    let mut counted = 0_usize;
    let mut good = 0_usize;
    for entry in entries {
        if labeled && entry.entry.label.is_none() && entry.spot.is_none() {
            continue;
        }
        counted += 1;
        good += usize::from(entry.is_good() || !trusts_rejections && entry.found_by_rules);
    }
    if counted == 0 {
        return 0.0;
    }
    good as f32 / counted as f32
}

/// The located entries in reading order.
pub(crate) fn sort_entries(mut entries: Vec<OutlineEntry>) -> Vec<OutlineEntry> {
    entries.retain(|entry| entry.spot.is_some());
    entries.sort_by_key(|entry| entry.spot);
    entries
}

/// Which sections found by rules are added to the named ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergePolicy {
    /// Sections with more evidence than layout, on levels where the model named at least half of the rules'
    /// sections.
    Corroborated,
    All,
}

/// Adds sections that rules found and the model did not name, each on the level of its siblings. On pages for
/// which `is_unanswered` holds, all of them are added.
pub(crate) fn merge_rule_sections(
    entries: Vec<OutlineEntry>,
    rules: &[OutlineEntry],
    analysis: &PageAnalysis<'_>,
    policy: MergePolicy,
    is_unanswered: impl Fn(PageNo) -> bool,
) -> Vec<OutlineEntry> {
    // Rules and model use different level numbers. Sections that both name tell how the levels correspond.
    let matches: Vec<Option<usize>> = rules
        .iter()
        .map(|rule| find_match(rule, &entries, analysis))
        .collect();
    let mut followed: BTreeMap<u16, (usize, usize)> = BTreeMap::new();
    for (rule, matched_index) in rules.iter().zip(&matches) {
        let count = followed.entry(rule.entry.level).or_default();
        *count = (count.0 + usize::from(matched_index.is_some()), count.1 + 1);
    }
    let mut levels = LevelMap::default();
    let mut added = Vec::new();
    for (rule, matched_index) in rules.iter().zip(matches) {
        let own = rule.entry.level;
        if let Some(matched_index) = matched_index {
            levels.insert(own, entries[matched_index].entry.level);
            continue;
        }
        let here = rule
            .spot
            .is_some_and(|spot| is_unanswered(analysis.page(spot)));
        let is_added = match policy {
            MergePolicy::Corroborated => {
                let (matched, all) = followed[&own];
                rule.entry.evidence != EvidenceSource::Layout && matched > 0 && matched * 2 >= all
            }
            MergePolicy::All => true,
        };
        if rule.found_by_rules && (here || is_added) {
            let mut one = rule.clone();
            one.entry.level = levels.get(own);
            added.push(one);
        }
    }
    sort_entries(entries.into_iter().chain(added).collect())
}

// The named entry for the same section.
fn find_match(
    rule: &OutlineEntry,
    entries: &[OutlineEntry],
    analysis: &PageAnalysis<'_>,
) -> Option<usize> {
    let spot = rule.spot?;
    let page = analysis.page(spot).get();
    entries.iter().position(|entry: &OutlineEntry| {
        entry.spot.is_some_and(|other| {
            other.overlaps(spot)
                || analysis.page(other).get().abs_diff(page) <= 1
                    && verify_titles::title_similarity(&entry.entry.title, &rule.entry.title) > 0.85
        })
    })
}

// Maps levels of the rules to levels of the model, learned from sections that both name.
#[derive(Default)]
struct LevelMap(BTreeMap<u16, u16>);

impl LevelMap {
    fn insert(&mut self, rules: u16, outline_level: u16) {
        self.0.insert(rules, outline_level);
    }

    fn get(&self, level: u16) -> u16 {
        let above = self
            .0
            .range(..level)
            .next_back()
            .map(|(rules, outline_level)| outline_level + (level - rules));
        self.0.get(&level).copied().or(above).unwrap_or(level)
    }
}

/// Located sections of a draft made by rules, as entries.
pub(super) fn entries_from_rules(analysis: &PageAnalysis<'_>, rules: &Draft) -> Vec<OutlineEntry> {
    rules
        .outline
        .entries()
        .iter()
        .filter_map(|one: &VerifiedEntry| {
            let entry = one.located.entry.clone();
            let spot = analysis.heading_at(one.located.place)?;
            let claims =
                entry.evidence != EvidenceSource::Window && one.verdict != EntryVerdict::Declared;
            let found_by_rules = matches!(one.verdict, EntryVerdict::Confirmed { .. });
            claims.then_some(OutlineEntry {
                entry,
                expected: Some(analysis.page(spot)),
                spot: Some(spot),
                found_by_rules,
                check: None,
            })
        })
        .collect()
}
