//! Sections that a model named: where the rules see them, what the model says on a second look, and what both make of them.

use std::collections::BTreeMap;

use stemma_document::{DraftEntry, PageLabel, PageNo, Verdict, Witness};

use stemma_outline::structure::paper::{self, Named, Paper, Settled, Spot};

/// The deepest level that is taken from a model; trees are not deeper.
const DEEPEST: u16 = 32;

/// A section on its way into the outline.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) entry: DraftEntry,
    /// The page it is said, or by its label expected, to begin on.
    pub(crate) expected: Option<PageNo>,
    /// Where it is taken to begin.
    pub(crate) spot: Option<Spot>,
    /// Whether rules read its title there.
    pub(crate) seen: bool,
    /// What the model says about that place; `None`: it was not asked, or did not answer.
    pub(crate) looked: Option<Looked>,
}

/// Whether a title stands where it was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looked {
    pub(crate) stands: bool,
    pub(crate) starts_page: bool,
}

impl Entry {
    /// A section that someone names; `None`: its title has no letters.
    pub(crate) fn named(number: &str, title: &str, level: u16, witness: Witness) -> Option<Self> {
        let title = paper::title_of(number, title)?;
        let number = paper::number_of(&title);
        let entry = DraftEntry {
            number,
            title,
            label: None,
            target: None,
            level: level.clamp(1, DEEPEST),
            witness,
        };
        Some(Self {
            entry,
            expected: None,
            spot: None,
            seen: false,
            looked: None,
        })
    }

    /// The same with the page number printed beside it.
    #[must_use]
    pub(crate) fn labeled(mut self, label: &str) -> Self {
        let label: String = label.trim().chars().take(16).collect();
        self.entry.label = Some(label).filter(|label| !label.is_empty()).map(PageLabel);
        self
    }

    /// The same on the page it is said to begin on.
    #[must_use]
    pub(crate) fn on(mut self, page: PageNo) -> Self {
        self.expected = Some(page);
        self
    }

    /// As it is looked for; `labeled`: whether its printed label counts.
    pub(crate) fn wanted(&self, labeled: bool) -> Named {
        Named {
            title: self.entry.title.clone(),
            label: self
                .entry
                .label
                .as_ref()
                .filter(|_| labeled)
                .map(|label| label.0.clone()),
            level: self.entry.level,
            page: self.expected,
            witness: self.entry.witness,
        }
    }

    /// Puts it where its title was read.
    pub(crate) fn see(&mut self, spot: Spot, paper: &Paper<'_>) {
        (self.spot, self.seen, self.looked) = (Some(spot), true, None);
        self.entry.title = paper.printed(spot, &self.entry.title);
        self.entry.number = self
            .entry
            .number
            .take()
            .or_else(|| paper::number_of(&self.entry.title));
    }

    /// Whether nothing is left to doubt: it was read there, or the model saw it there, and the model does not reject it.
    pub(crate) fn is_good(&self) -> bool {
        self.spot.is_some() && self.looked.map_or(self.seen, |looked| looked.stands)
    }

    /// Whether rules read it where the model says that it does not stand.
    pub(crate) fn is_disputed(&self) -> bool {
        self.seen && self.looked.is_some_and(|looked| !looked.stands)
    }

    /// With its place and verdict; `None` where nothing but the model's word puts it anywhere. `believed`: whether a no of
    /// the model counts against what rules read.
    pub(crate) fn settled(&self, paper: &Paper<'_>, believed: bool) -> Option<Settled> {
        let spot = self.spot?;
        let starts_page = paper.starts_page(spot);
        let near = self
            .expected
            .is_some_and(|page| page.get().abs_diff(paper.page(spot).get()) <= 1);
        let verdict = match (self.seen, self.looked) {
            (true, Some(Looked { stands: false, .. })) if believed => {
                Verdict::Unconfirmed { starts_page }
            }
            (true, _) => Verdict::Found { starts_page },
            // The label and the model agree where no line reads like the title.
            (
                false,
                Some(Looked {
                    stands: true,
                    starts_page,
                }),
            ) if near && self.entry.label.is_some() => Verdict::Found { starts_page },
            (false, _) if near && self.entry.label.is_some() => {
                Verdict::Unconfirmed { starts_page }
            }
            (false, _) => return None,
        };
        Some(Settled {
            entry: self.entry.clone(),
            spot,
            verdict,
        })
    }
}

/// Whether the model's no counts: it says so of no more than half of the titles that rules read.
pub(crate) fn believed(entries: &[Entry]) -> bool {
    let seen = entries
        .iter()
        .filter(|entry| entry.seen && entry.looked.is_some())
        .count();
    entries.iter().filter(|entry| entry.is_disputed()).count() * 2 <= seen
}

/// Share of the entries that are good (0–1). Rows that group others and print no label count where they were found.
pub(crate) fn accuracy(entries: &[Entry]) -> f32 {
    let labeled = entries.iter().any(|entry| entry.entry.label.is_some());
    let counted = || {
        entries
            .iter()
            .filter(|entry| !labeled || entry.entry.label.is_some() || entry.spot.is_some())
    };
    let believed = believed(entries);
    match counted().count() {
        0 => 0.0,
        all => {
            counted()
                .filter(|entry: &&Entry| entry.is_good() || !believed && entry.seen)
                .count() as f32
                / all as f32
        }
    }
}

/// The entries in reading order, each line once, those without a place left out.
pub(crate) fn in_order(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.retain(|entry| entry.spot.is_some());
    entries.sort_by_key(|entry| entry.spot);
    entries
}

/// Which of the sections that rules found and the named entries lack are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// Those for which more speaks than their look, on the levels of which the naming follows at least half.
    Vouched,
    /// All.
    All,
}

/// Adds what `rules` found and the named entries lack, each on the level of its likes; and all of it on pages for which
/// `unheard` holds.
pub(crate) fn completed(
    entries: Vec<Entry>,
    rules: &[Entry],
    paper: &Paper<'_>,
    missed: Missed,
    unheard: impl Fn(PageNo) -> bool,
) -> Vec<Entry> {
    let twins: Vec<Option<usize>> = rules
        .iter()
        .map(|rule| twin(rule, &entries, paper))
        .collect();
    let mut followed: BTreeMap<u16, (usize, usize)> = BTreeMap::new();
    for (rule, twin) in rules.iter().zip(&twins) {
        let count = followed.entry(rule.entry.level).or_default();
        *count = (count.0 + usize::from(twin.is_some()), count.1 + 1);
    }
    let follows = |level: u16| {
        followed
            .get(&level)
            .is_some_and(|(named, all)| *named > 0 && named * 2 >= *all)
    };
    let wanted = |rule: &Entry| match missed {
        Missed::Vouched => rule.entry.witness != Witness::Layout && follows(rule.entry.level),
        Missed::All => true,
    };
    let mut levels = Levels::default();
    let mut added = Vec::new();
    for (rule, twin) in rules.iter().zip(twins) {
        let own = rule.entry.level;
        if let Some(twin) = twin {
            levels.learn(own, entries[twin].entry.level);
            continue;
        }
        let here = rule.spot.is_some_and(|spot| unheard(paper.page(spot)));
        if rule.seen && (here || wanted(rule)) {
            let mut one = rule.clone();
            one.entry.level = levels.of(own);
            added.push(one);
        }
    }
    in_order(entries.into_iter().chain(added).collect())
}

/// The named entry that is the same section as one that rules found.
fn twin(rule: &Entry, entries: &[Entry], paper: &Paper<'_>) -> Option<usize> {
    let spot = rule.spot?;
    let page = paper.page(spot).get();
    entries.iter().position(|entry: &Entry| {
        entry.spot.is_some_and(|other| {
            other.overlaps(spot)
                || paper.page(other).get().abs_diff(page) <= 1
                    && paper::likeness(&entry.entry.title, &rule.entry.title) > 0.85
        })
    })
}

/// Which level the naming gives to what rules have on a level, as far as twins tell.
#[derive(Default)]
struct Levels(BTreeMap<u16, u16>);

impl Levels {
    fn learn(&mut self, rules: u16, named: u16) {
        self.0.insert(rules, named);
    }

    fn of(&self, level: u16) -> u16 {
        let above = self
            .0
            .range(..level)
            .next_back()
            .map(|(rules, named)| named + (level - rules));
        self.0.get(&level).copied().or(above).unwrap_or(level)
    }
}
