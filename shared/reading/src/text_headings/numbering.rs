//! Selects headings among candidates by their numbering, and assigns levels.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::Heading;

use super::candidates::{HeadingCandidate, HeadingKind, upper_letter, upper_roman};

// A line in capitals that repeats more often is a running head.
const MAX_REPEATS: usize = 5;
// Maximum gap in a worded series: `Item 1`, `Item 5`.
const MAX_WORDED_GAP: u32 = 10;

/// Selects the headings. `documents` are level-1 headings that contain them.
pub(super) fn select_headings(
    candidates: Vec<HeadingCandidate>,
    is_blank: &[bool],
    documents: &[Heading],
) -> Vec<Heading> {
    let ends: Vec<u32> = documents.iter().map(|document| document.line).collect();
    let candidates = drop_lists(candidates, is_blank);
    let accepted = drop_singletons(SeriesTracker::default().accept(candidates, &ends));
    assign_levels(accepted, documents)
}

// Drops tables of contents and lists: three or more candidates of one kind without text between them. Numbered ones are
// dropped if they repeat later in the text; bare numbers and capitals always.
fn drop_lists(candidates: Vec<HeadingCandidate>, is_blank: &[bool]) -> Vec<HeadingCandidate> {
    let mut text_before = vec![0u32; is_blank.len() + 1];
    for (at, blank) in is_blank.iter().enumerate() {
        text_before[at + 1] = text_before[at] + u32::from(!blank);
    }
    let mut last_seen: BTreeMap<(HeadingKind, Vec<u32>), usize> = BTreeMap::new();
    let mut repeats: BTreeMap<String, usize> = BTreeMap::new();
    for candidate in &candidates {
        last_seen.insert((candidate.kind, candidate.number.clone()), candidate.first);
        *repeats.entry(candidate.title.clone()).or_default() += 1;
    }
    let mut dropped = BTreeSet::new();
    let mut start = 0;
    for end in 1..=candidates.len() {
        // Only blank lines between two candidates: they are rows of one list.
        if let Some(next) = candidates.get(end) {
            let last = &candidates[end - 1];
            if !last.run_in && text_before[last.last + 1] == text_before[next.first] {
                continue;
            }
        }
        let run = &candidates[start..end];
        let mut counts: BTreeMap<HeadingKind, usize> = BTreeMap::new();
        run.iter()
            .for_each(|candidate| *counts.entry(candidate.kind).or_default() += 1);
        let run_ends = run.last().map_or(0, |candidate| candidate.last);
        for candidate in run.iter().filter(|candidate| counts[&candidate.kind] >= 3) {
            let again = last_seen
                .get(&(candidate.kind, candidate.number.clone()))
                .is_some_and(|at| *at > run_ends);
            if candidate.kind.is_bare()
                || candidate.kind == HeadingKind::Capitals
                || (again && candidate.kind.is_numbered())
            {
                dropped.insert(candidate.first);
            }
        }
        start = end;
    }
    let is_running_head =
        |c: &HeadingCandidate| c.kind == HeadingKind::Capitals && repeats[&c.title] > MAX_REPEATS;
    candidates
        .into_iter()
        .filter(|c| !dropped.contains(&c.first) && !is_running_head(c))
        .collect()
}

struct AcceptedHeading {
    candidate: HeadingCandidate,
    series: usize,
}

// Follows the numbered series through the text.
#[derive(Default)]
struct SeriesTracker {
    // Last number and series per kind.
    open: BTreeMap<HeadingKind, (Vec<u32>, usize)>,
    // Kinds that may restart at 1, since a higher heading has followed.
    may_restart: BTreeSet<HeadingKind>,
    series: usize,
}

impl SeriesTracker {
    fn accept(
        mut self,
        candidates: Vec<HeadingCandidate>,
        document_lines: &[u32],
    ) -> Vec<AcceptedHeading> {
        let mut accepted = Vec::new();
        let mut documents = document_lines.iter().peekable();
        for mut candidate in candidates {
            while documents
                .next_if(|line| **line as usize <= candidate.first + 1)
                .is_some()
            {
                self.open.clear();
            }
            self.disambiguate(&mut candidate);
            let Some(series) = self.find_series(&candidate) else {
                continue;
            };
            self.advance(&candidate, series);
            accepted.push(AcceptedHeading { candidate, series });
        }
        accepted
    }

    // `C.` continues `B.` or is a Roman numeral, `V.` continues `IV.` or is a letter: the open series decides.
    fn disambiguate(&self, candidate: &mut HeadingCandidate) {
        let label = candidate.title.split('.').next().unwrap_or_default();
        if !matches!(candidate.kind, HeadingKind::Roman | HeadingKind::Letter) {
            return;
        }
        for (kind, value) in [
            (HeadingKind::Letter, upper_letter(label)),
            (HeadingKind::Roman, upper_roman(label)),
        ] {
            if let Some(value) = value
                && self.last_number(kind).is_some_and(|last| last + 1 == value)
            {
                candidate.kind = kind;
                candidate.number = vec![value];
                return;
            }
        }
    }

    fn last_number(&self, kind: HeadingKind) -> Option<u32> {
        let (number, _) = self.open.get(&kind)?;
        number.first().copied()
    }

    // `None` if the number does not fit any series.
    fn find_series(&mut self, candidate: &HeadingCandidate) -> Option<usize> {
        let number = &candidate.number;
        if !candidate.kind.is_numbered() {
            return Some(0);
        }
        // A series of bare numbers must start at 1; `Item 7` may be the first item of an excerpt.
        let may_begin = !candidate.kind.is_bare() || number.last().is_some_and(|last| *last <= 1);
        match self.open.get(&candidate.kind) {
            Some((last, series))
                if follows(last, number, candidate.kind) && self.fits_parent(candidate) =>
            {
                Some(*series)
            }
            Some(_) if !self.may_restart.contains(&candidate.kind) => None,
            _ if may_begin && self.fits_parent(candidate) => {
                self.series += 1;
                Some(self.series)
            }
            _ => None,
        }
    }

    // `2.1` requires an open `2`.
    fn fits_parent(&self, candidate: &HeadingCandidate) -> bool {
        let HeadingKind::Decimal(depth @ 2..) = candidate.kind else {
            return true;
        };
        let parent = (1..depth)
            .rev()
            .find_map(|depth| self.open.get(&HeadingKind::Decimal(depth)));
        parent.is_none_or(|(number, _)| candidate.number.starts_with(number))
    }

    fn advance(&mut self, candidate: &HeadingCandidate, series: usize) {
        let kind = candidate.kind;
        if let HeadingKind::Decimal(depth) = kind {
            self.open
                .retain(|kind, _| !matches!(kind, HeadingKind::Decimal(other) if *other > depth));
        }
        // After a worded heading or an underline, all lower kinds may restart. After a bare number or capitals only
        // bare numbers may, and they may also continue.
        let restarted: Vec<HeadingKind> = self
            .open
            .keys()
            .copied()
            .filter(|other: &HeadingKind| {
                *other > kind
                    || (other.is_bare()
                        && *other != kind
                        && !matches!(kind, HeadingKind::Decimal(_)))
            })
            .chain(
                self.open
                    .keys()
                    .copied()
                    .filter(|other| kind == HeadingKind::Capitals && other.is_bare()),
            )
            .collect();
        self.may_restart.extend(restarted);
        self.may_restart.remove(&kind);
        if kind.is_numbered() {
            self.open.insert(kind, (candidate.number.clone(), series));
        }
    }
}

// Whether `next` continues `last`, allowing a few missing numbers.
fn follows(last: &[u32], next: &[u32], kind: HeadingKind) -> bool {
    let (Some(from), Some(to)) = (last.first(), next.first()) else {
        return false;
    };
    match kind {
        HeadingKind::Decimal(2..) => {
            next > last
                && next
                    .last()
                    .zip(last.last())
                    .is_some_and(|(to, from)| *to <= 2 || (from + 1..=from + 2).contains(to))
        }
        _ if kind.is_bare() => (from + 1..=from + 2).contains(to),
        _ => next > last && to - from <= MAX_WORDED_GAP,
    }
}

// A single `1. Something` is not a numbering. Deeper decimals stay if their parent does.
fn drop_singletons(accepted: Vec<AcceptedHeading>) -> Vec<AcceptedHeading> {
    let mut members: BTreeMap<usize, usize> = BTreeMap::new();
    accepted
        .iter()
        .for_each(|heading| *members.entry(heading.series).or_default() += 1);
    accepted
        .into_iter()
        .filter(|heading: &AcceptedHeading| {
            let alone = heading.candidate.kind.is_numbered() && members[&heading.series] < 2;
            let needs_company = (heading.candidate.kind.is_bare()
                && !matches!(heading.candidate.kind, HeadingKind::Decimal(2..)))
                || heading.candidate.run_in;
            !(alone && needs_company)
        })
        .collect()
}

// Each heading is nested under the nearest previous one of a higher rank.
fn assign_levels(accepted: Vec<AcceptedHeading>, documents: &[Heading]) -> Vec<Heading> {
    let ranks = KindRanks::from_headings(&accepted);
    let mut documents = documents.iter().peekable();
    let mut stack: Vec<u32> = Vec::new();
    let mut headings = Vec::new();
    for AcceptedHeading { candidate, .. } in accepted {
        let line = u32::try_from(candidate.first + 1).unwrap_or(u32::MAX);
        while let Some(document) = documents.next_if(|document| document.line <= line) {
            headings.push(document.clone());
            stack = vec![0];
        }
        let rank = ranks.rank(candidate.kind);
        while stack.last().is_some_and(|above| *above >= rank) {
            stack.pop();
        }
        stack.push(rank);
        headings.push(Heading {
            line,
            level: u16::try_from(stack.len()).unwrap_or(u16::MAX),
            title: candidate.title,
        });
    }
    headings.extend(documents.cloned());
    headings
}

// The nesting of kinds in one document.
struct KindRanks {
    // Bare kinds in order of first use: `I.` above `A.`, or `1.` above `A.`.
    bare: Vec<HeadingKind>,
    // Whether capitals are used inside numbered sections, not above them.
    capitals_below: bool,
}

impl KindRanks {
    fn from_headings(accepted: &[AcceptedHeading]) -> Self {
        let mut bare: Vec<HeadingKind> = Vec::new();
        let mut capitals_below = false;
        let mut inside: BTreeMap<usize, bool> = BTreeMap::new();
        for heading in accepted {
            let kind = base_kind(heading.candidate.kind);
            if kind.is_bare() && !bare.contains(&kind) {
                bare.push(kind);
            }
            if kind == HeadingKind::Capitals {
                inside
                    .values_mut()
                    .for_each(|has_capitals| *has_capitals = true);
            } else if kind.is_bare() && kind == heading.candidate.kind {
                capitals_below |= inside.insert(heading.series, false).unwrap_or(false);
            }
        }
        Self {
            bare,
            capitals_below,
        }
    }

    fn rank(&self, kind: HeadingKind) -> u32 {
        let order = self
            .bare
            .iter()
            .position(|bare| *bare == base_kind(kind))
            .unwrap_or(0) as u32;
        match kind {
            HeadingKind::Part | HeadingKind::Appendix => 10,
            HeadingKind::Chapter => 20,
            HeadingKind::Article => 30,
            HeadingKind::Item => 40,
            HeadingKind::Section => 50,
            HeadingKind::Note => 60,
            HeadingKind::DoubleUnderline => 70,
            HeadingKind::Underline => 80,
            HeadingKind::Capitals if self.capitals_below => 1_000,
            HeadingKind::Capitals => 90,
            HeadingKind::Decimal(depth) => 100 + 20 * order + u32::from(depth),
            HeadingKind::Roman | HeadingKind::Letter | HeadingKind::Han => 101 + 20 * order,
        }
    }
}

// Decimals of all depths form one numbering.
fn base_kind(kind: HeadingKind) -> HeadingKind {
    if let HeadingKind::Decimal(_) = kind {
        HeadingKind::Decimal(1)
    } else {
        kind
    }
}
