//! Sections that a model named: where the rules see them, what the model says on a second look, and what both make of them.

use std::collections::BTreeMap;

use stemma_document::{DraftEntry, EntryVerdict, EvidenceSource, PageLabel, PageNo};

use stemma_outline::structure::verify_titles::{
    self, HeadingRows, LocatedSection, PageAnalysis, ProposedSection,
};

/// The deepest level that is taken from a model; trees are not deeper.
const MAX_LEVEL: u16 = 32;

/// A section on its way into the outline.
#[derive(Debug, Clone)]
pub(crate) struct OutlineEntry {
    pub(crate) entry: DraftEntry,
    /// The page it is said, or by its label expected, to begin on.
    pub(crate) expected: Option<PageNo>,
    /// Where it is taken to begin.
    pub(crate) spot: Option<HeadingRows>,
    /// Whether rules read its title there.
    pub(crate) found_by_rules: bool,
    /// What the model says about that place; `None`: it was not asked, or did not answer.
    pub(crate) check: Option<TitleCheck>,
}

/// Whether a title stands where it was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TitleCheck {
    pub(crate) stands: bool,
    pub(crate) starts_page: bool,
}

impl OutlineEntry {
    /// A section that someone names; `None`: its title has no letters.
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

    /// The same with the page number printed beside it.
    #[must_use]
    pub(crate) fn with_label(mut self, label: &str) -> Self {
        let label: String = label.trim().chars().take(16).collect();
        self.entry.label = Some(label).filter(|label| !label.is_empty()).map(PageLabel);
        self
    }

    /// The same on the page it is said to begin on.
    #[must_use]
    pub(crate) fn with_expected_page(mut self, page: PageNo) -> Self {
        self.expected = Some(page);
        self
    }

    /// As it is looked for; `with_label`: whether its printed label counts.
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

    /// Puts it where its title was read.
    pub(crate) fn place_at(&mut self, spot: HeadingRows, analysis: &PageAnalysis<'_>) {
        (self.spot, self.found_by_rules, self.check) = (Some(spot), true, None);
        self.entry.title = analysis.printed_title(spot, &self.entry.title);
        self.entry.number = self
            .entry
            .number
            .take()
            .or_else(|| verify_titles::leading_number(&self.entry.title));
    }

    /// Whether nothing is left to doubt: it was read there, or the model saw it there, and the model does not reject it.
    pub(crate) fn is_good(&self) -> bool {
        self.spot.is_some() && self.check.map_or(self.found_by_rules, |check| check.stands)
    }

    /// Whether rules read it where the model says that it does not stand.
    pub(crate) fn is_disputed(&self) -> bool {
        self.found_by_rules && self.check.is_some_and(|check| !check.stands)
    }

    /// With its place and verdict; `None` where nothing but the model's word puts it anywhere. `trusts_rejections`: whether a no of
    /// the model counts against what rules read.
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
            // The label and the model agree where no line reads like the title.
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

/// Whether the model's no counts: it says so of no more than half of the titles that rules read.
pub(crate) fn trusts_rejections(entries: &[OutlineEntry]) -> bool {
    let checked = entries
        .iter()
        .filter(|entry| entry.found_by_rules && entry.check.is_some())
        .count();
    entries.iter().filter(|entry| entry.is_disputed()).count() * 2 <= checked
}

/// Share of the entries that are good (0–1). Rows that group others and print no label count where they were found.
pub(crate) fn accuracy(entries: &[OutlineEntry]) -> f32 {
    let labeled = entries.iter().any(|entry| entry.entry.label.is_some());
    let counted = || {
        entries
            .iter()
            .filter(|entry| !labeled || entry.entry.label.is_some() || entry.spot.is_some())
    };
    let trusts_rejections = trusts_rejections(entries);
    match counted().count() {
        0 => 0.0,
        all => {
            counted()
                .filter(|entry: &&OutlineEntry| {
                    entry.is_good() || !trusts_rejections && entry.found_by_rules
                })
                .count() as f32
                / all as f32
        }
    }
}

/// The entries in reading order, each line once, those without a place left out.
pub(crate) fn sort_entries(mut entries: Vec<OutlineEntry>) -> Vec<OutlineEntry> {
    entries.retain(|entry| entry.spot.is_some());
    entries.sort_by_key(|entry| entry.spot);
    entries
}

/// Which of the sections that rules found and the named entries lack are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergePolicy {
    /// Those for which more speaks than their look, on the levels of which the naming follows at least half.
    Corroborated,
    /// All.
    All,
}

/// Adds what `rules` found and the named entries lack, each on the level of its likes; and all of it on pages for which
/// `unheard` holds.
pub(crate) fn merge_rule_sections(
    entries: Vec<OutlineEntry>,
    rules: &[OutlineEntry],
    analysis: &PageAnalysis<'_>,
    policy: MergePolicy,
    is_unanswered: impl Fn(PageNo) -> bool,
) -> Vec<OutlineEntry> {
    let matches: Vec<Option<usize>> = rules
        .iter()
        .map(|rule| find_match(rule, &entries, analysis))
        .collect();
    let mut followed: BTreeMap<u16, (usize, usize)> = BTreeMap::new();
    for (rule, matched_index) in rules.iter().zip(&matches) {
        let count = followed.entry(rule.entry.level).or_default();
        *count = (count.0 + usize::from(matched_index.is_some()), count.1 + 1);
    }
    let follows = |level: u16| {
        followed
            .get(&level)
            .is_some_and(|(matched, all)| *matched > 0 && matched * 2 >= *all)
    };
    let is_added = |rule: &OutlineEntry| match policy {
        MergePolicy::Corroborated => {
            rule.entry.evidence != EvidenceSource::Layout && follows(rule.entry.level)
        }
        MergePolicy::All => true,
    };
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
        if rule.found_by_rules && (here || is_added(rule)) {
            let mut one = rule.clone();
            one.entry.level = levels.get(own);
            added.push(one);
        }
    }
    sort_entries(entries.into_iter().chain(added).collect())
}

/// The named entry that is the same section as one that rules found.
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

/// Which level the naming gives to what rules have on a level, as far as twins tell.
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
