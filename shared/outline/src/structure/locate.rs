//! Locates candidates on the pages: all lines that may be their headings are scored, and one chain picks among them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use super::item_headings::{self, style_score};
use super::line_features::{LineFeatures, LineTable};
use super::monotone_chain::{self, Placement};
use super::numbering;
use super::section_candidate::SectionCandidate;
use super::titles::{self, TitleKeys};
use super::weights::{
    ANNOUNCED, FIGURES, JOINED_GAIN, NUMBERED_TITLE, PROSE, PROSE_TITLE, RIGHT_TITLE, TITLE_GAP,
    WHOLE_TITLE,
};

// Less similar lines are other titles. Contents shorten and reword titles a little, so the limit is well below 1.
const MIN_SIMILARITY: f32 = 0.74;
// Comparing each line with each candidate would be quadratic, so lines are looked up by the first bytes of their key.
const PREFIX_BYTES: usize = 6;
// Numbered titles share a word (`SECTION`, `NOTE`), so the prefix must reach the number: this made the search ten times
// as fast on agreements.
const NUMBERED_PREFIX_BYTES: usize = 10;
// A title over several lines begins with the same bytes as its first line.
const OPENING_BYTES: usize = 4;
// Run-in headings share a line with their paragraph, so the limit on words is generous.
const MAX_WORDS: u16 = 90;
// A title that recurs on every page must not fill memory. Exact matches are counted apart from similar lines, so that
// thousands of similar lines cannot push the title itself out.
const MAX_PLACEMENTS: usize = 400;
// Thousands of bookmarks may begin with the same letters. After this many comparisons a line is compared only with its
// `NEIGHBORS` in alphabetical order, which bounds the work on hostile files and leaves all others untouched.
const FREE_COMPARISONS: usize = 1_000_000;
const NEIGHBORS: usize = 8;

/// The place of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocatedTitle {
    /// First and last row of the heading.
    pub(super) rows: (usize, usize),
    /// The title was not found there; only the announced page is known.
    pub(super) unconfirmed: bool,
}

/// Locates each candidate in `rows`, except in rows marked in `excluded`.
pub(super) fn locate_titles(
    lines: &LineTable<'_>,
    rows: Range<usize>,
    excluded: &[bool],
    sections: &[SectionCandidate],
) -> Vec<Option<LocatedTitle>> {
    let places = find_placements(lines, rows, excluded, sections);
    // The index of a candidate is its key: candidates are listed in reading order, so the chain must rise in both.
    let all: Vec<Placement> = places.iter().map(|(placement, _)| *placement).collect();
    let mut hits: Vec<Option<LocatedTitle>> = vec![None; sections.len()];
    for i in monotone_chain::best_chain(&all) {
        let (placement, last) = places[i];
        let rows = (placement.at as usize, last);
        hits[placement.keys.0 as usize] = Some(LocatedTitle {
            rows,
            unconfirmed: false,
        });
    }
    recover_out_of_order(lines, &places, sections, &mut hits);
    hits
}

/// All lines similar to a candidate, with the last row of each.
fn find_placements(
    lines: &LineTable<'_>,
    rows: Range<usize>,
    excluded: &[bool],
    candidates: &[SectionCandidate],
) -> Vec<(Placement, usize)> {
    let fronts = PrefixIndex::new(candidates);
    let mut count = vec![[0usize; 2]; candidates.len()];
    let mut compared = 0;
    let mut placements = Vec::new();
    for at in rows {
        let row = &lines.rows[at];
        if excluded[at] || row.key.is_empty() || row.words > MAX_WORDS {
            continue;
        }
        let core = numbering::after_label(row.text)
            .map(titles::normalize_key)
            .unwrap_or_default();
        let reach = if compared < FREE_COMPARISONS {
            candidates.len()
        } else {
            NEIGHBORS
        };
        let by_full = fronts.neighbors(&row.key, PREFIX_BYTES, reach);
        let by_number = fronts.neighbors(&row.key, NUMBERED_PREFIX_BYTES, reach);
        let by_core = if core.is_empty() {
            &[]
        } else {
            fronts.neighbors(&core, PREFIX_BYTES, reach)
        };
        let mut indices: Vec<usize> = [by_full, by_number, by_core]
            .concat()
            .into_iter()
            .map(|(_, index)| index)
            .collect();
        indices.sort_unstable();
        indices.dedup();
        compared += indices.len();
        let matcher = LineMatcher::new(lines, at, core);
        for index in indices {
            if count[index] == [MAX_PLACEMENTS; 2] {
                continue;
            }
            let (like, last) = matcher.best_match(&candidates[index]);
            let is_same = like >= 1.0 || matcher.own.core == candidates[index].prepared.core;
            let slot = &mut count[index][usize::from(is_same)];
            if like < MIN_SIMILARITY || *slot >= MAX_PLACEMENTS {
                continue;
            }
            *slot += 1;
            let score = like
                + style_score(lines, at)
                + penalty(row, like)
                + item_headings::page_score(
                    candidates[index].target_page(),
                    candidates[index].predicted,
                    row.page,
                );
            placements.push((Placement::new(at, index, index, score), last));
        }
    }
    placements
}

/// The unassigned line among `rows` that is most like a title which may be reworded, with the last row of the heading.
// Every line is compared: the prefix index would miss a title whose first word differs.
pub(super) fn most_similar_line(
    lines: &LineTable<'_>,
    rows: Range<usize>,
    candidate: &SectionCandidate,
    is_free: impl Fn(usize) -> bool,
) -> Option<(usize, usize)> {
    let mut best: Option<(f32, usize, usize)> = None;
    for at in rows.filter(|at| is_free(*at)) {
        let row = &lines.rows[at];
        if row.running || row.key.is_empty() || row.words > MAX_WORDS {
            continue;
        }
        let core = numbering::after_label(row.text)
            .map(titles::normalize_key)
            .unwrap_or_default();
        let opens_title = [&candidate.prepared.full, &candidate.prepared.core]
            .iter()
            .any(|title| prefix(title, OPENING_BYTES) == prefix(&row.key, OPENING_BYTES));
        let matcher = LineMatcher::new(lines, at, core);
        // Joining lines is expensive, and hardly any line opens the title.
        let (like, last) = if opens_title {
            matcher.best_match(candidate)
        } else {
            (matcher.line_similarity(&candidate.prepared), at)
        };
        let score = like + style_score(lines, at) + penalty(row, like);
        if like >= MIN_SIMILARITY && best.is_none_or(|(most, ..)| score > most) {
            best = Some((score, at, last));
        }
    }
    best.map(|(_, at, last)| (at, last))
}

/// Candidates by the prefix of their keys; each list is sorted by key.
struct PrefixIndex<'c>(HashMap<&'c [u8], Vec<(&'c str, usize)>>);

impl<'c> PrefixIndex<'c> {
    fn new(candidates: &'c [SectionCandidate]) -> Self {
        let mut index = Self(HashMap::new());
        for (at, candidate) in candidates.iter().enumerate() {
            let TitleKeys { full, core } = &candidate.prepared;
            index.add(core, PREFIX_BYTES, at);
            if core != full {
                index.add(full, NUMBERED_PREFIX_BYTES, at);
                // `ARTICLE I` may be alone on its line, with the title on the next.
                let number = full.strip_suffix(core.as_str()).unwrap_or(full);
                index.add(number, NUMBERED_PREFIX_BYTES, at);
            }
        }
        index.0.values_mut().for_each(|list| list.sort_unstable());
        index
    }

    fn add(&mut self, key: &'c str, bytes: usize, at: usize) {
        let list = self.0.entry(prefix(key, bytes)).or_default();
        list.push((key, at));
    }

    /// The candidates with the prefix of `key`, at most `reach` places away from it in order, and all equal to it.
    fn neighbors(&self, key: &str, bytes: usize, reach: usize) -> &[(&'c str, usize)] {
        let Some(group) = self.0.get(prefix(key, bytes)) else {
            return &[];
        };
        let from = group
            .partition_point(|(title, _)| *title < key)
            .saturating_sub(reach);
        let to = group
            .partition_point(|(title, _)| *title <= key)
            .saturating_add(reach);
        &group[from..to.min(group.len())]
    }
}

fn prefix(key: &str, bytes: usize) -> &[u8] {
    &key.as_bytes()[..key.len().min(bytes)]
}

// A similar line inside a paragraph mentions the section, and a row with figures belongs to a table or an index. Both stay
// possible, since run-in headings look like prose: they lose only against a better line.
fn penalty(row: &LineFeatures<'_>, like: f32) -> f32 {
    let prose = if row.prose && like < PROSE_TITLE {
        PROSE
    } else {
        0.0
    };
    prose
        + if row.table && row.figures {
            FIGURES
        } else {
            0.0
        }
}

/// Compares a line, alone and joined with the lines after it, with candidates.
struct LineMatcher<'s, 'a> {
    lines: &'s LineTable<'a>,
    at: usize,
    own: TitleKeys,
    /// The line with one to four lines after it, as far as they may belong to one heading. Computed on first use, because
    /// most lines match no candidate.
    joined: OnceCell<Vec<TitleKeys>>,
}

impl<'s, 'a> LineMatcher<'s, 'a> {
    fn new(lines: &'s LineTable<'a>, at: usize, core: String) -> Self {
        let full = lines.rows[at].key.to_string();
        let core = if core.is_empty() { full.clone() } else { core };
        Self {
            lines,
            at,
            own: TitleKeys { full, core },
            joined: OnceCell::new(),
        }
    }

    /// The best similarity to a candidate, and the last row of the lines that give it.
    fn best_match(&self, candidate: &SectionCandidate) -> (f32, usize) {
        let mut best = (self.line_similarity(&candidate.prepared), self.at);
        // Only a line shorter than the title can be its start.
        if self.own.full.len() >= candidate.prepared.full.len() || best.0 > WHOLE_TITLE {
            return best;
        }
        for (joined, last) in self
            .joined
            .get_or_init(|| self.joined_lines())
            .iter()
            .zip(self.at + 1..)
        {
            let like = titles::title_similarity(joined, &candidate.prepared);
            if like > best.0 + JOINED_GAIN {
                best = (like, last);
            }
            if best.0 > WHOLE_TITLE {
                break;
            }
        }
        best
    }

    fn joined_lines(&self) -> Vec<TitleKeys> {
        let rows = &self.lines.rows;
        let row = &self.lines.rows[self.at];
        let mut text = row.text.to_string();
        let mut joined = Vec::new();
        for below in &rows[self.at + 1..(self.at + 5).min(rows.len())] {
            let goes_on = below.page == row.page
                && below.gap < TITLE_GAP
                && !below.running
                && below.words <= 30;
            if !goes_on || row.words > 30 || text.len() > 400 {
                break;
            }
            text.push(' ');
            text.push_str(below.text);
            joined.push(TitleKeys::new(&text));
        }
        joined
    }

    fn line_similarity(&self, title: &TitleKeys) -> f32 {
        let key = &self.own.full;
        let core = &self.own.core;
        let whole = titles::title_similarity(&self.own, title);
        // A run-in heading: its paragraph follows on the same line.
        let runs_in = title.full.len() >= 9
            && key.len() > title.full.len()
            && key.starts_with(title.full.as_str());
        let numbered = title.core.len() < title.full.len();
        let core_runs_in =
            !numbered && title.core.len() >= 12 && core.starts_with(title.core.as_str());
        match (runs_in, core_runs_in) {
            (true, _) => whole.max(if numbered {
                NUMBERED_TITLE
            } else {
                RIGHT_TITLE
            }),
            (_, true) => whole.max(RIGHT_TITLE),
            _ => whole,
        }
    }
}

/// Places candidates outside the chain that are on their announced page.
// A document may list its sections out of page order, and the chain has no room for those. They are recovered, but only
// with strong evidence: a line on or next to the announced page, with a score that no text alone can reach.
fn recover_out_of_order(
    lines: &LineTable<'_>,
    places: &[(Placement, usize)],
    candidates: &[SectionCandidate],
    hits: &mut [Option<LocatedTitle>],
) {
    let mut used_rows: Vec<usize> = hits.iter().flatten().map(|hit| hit.rows.0).collect();
    used_rows.sort_unstable();
    let mut best: Vec<Option<(f32, usize, usize)>> = vec![None; candidates.len()];
    for (placement, last) in places {
        let index = placement.keys.0 as usize;
        let at = placement.at as usize;
        let row = &lines.rows[placement.at as usize];
        let near = candidates[index]
            .page()
            .is_some_and(|page| page.abs_diff(row.page) <= 1);
        let unassigned = used_rows.binary_search(&at).is_err();
        let better = best[index].is_none_or(|(score, ..)| placement.score > score);
        if hits[index].is_none()
            && near
            && unassigned
            && better
            && !row.running
            && placement.score > ANNOUNCED
        {
            best[index] = Some((placement.score, at, *last));
        }
    }
    for (hit, recovered) in hits.iter_mut().zip(best) {
        if let Some((_, at, last)) = recovered {
            *hit = Some(LocatedTitle {
                rows: (at, last),
                unconfirmed: false,
            });
        }
    }
}

/// Share (0–1) of the candidates that were found; 0 if there are none. Group rows without a place do not count.
pub(super) fn located_share(candidates: &[SectionCandidate], hits: &[Option<LocatedTitle>]) -> f32 {
    let mut all = 0u32;
    let mut located = 0u32;
    for (candidate, hit) in candidates.iter().zip(hits) {
        let has_place = candidate.target.is_some()
            || candidate.printed.is_some()
            || candidate.evidence == stemma_document::EvidenceSource::EmbeddedOutline;
        if !has_place && hit.is_none() {
            continue;
        }
        all += 1;
        located += u32::from(hit.as_ref().is_some_and(|hit| !hit.unconfirmed));
    }
    located as f32 / all.max(1) as f32
}

/// Places candidates that were not found at the destination of their link or bookmark, unconfirmed, if `may` allows it
/// and the order of their neighbors is kept.
// The title of a section may be an image or split beyond recognition, and its destination is still right. A place that
// breaks the order of the neighbors contradicts them, and the neighbors were read on their pages.
pub(super) fn place_unlocated(
    lines: &LineTable<'_>,
    rows: Range<usize>,
    candidates: &[SectionCandidate],
    hits: &mut [Option<LocatedTitle>],
    may: impl Fn(&SectionCandidate) -> bool,
) {
    // The first row of the next located candidate, computed backwards so that the whole pass is linear.
    let mut after: Vec<Option<usize>> = vec![None; hits.len()];
    let mut next = None;
    for at in (0..hits.len()).rev() {
        after[at] = next;
        next = hits[at].as_ref().map(|hit| hit.rows.0).or(next);
    }
    let mut before = rows.start;
    for at in 0..hits.len() {
        if let Some(hit) = &hits[at] {
            before = hit.rows.1;
            continue;
        }
        let Some(page) = candidates[at].page().filter(|_| may(&candidates[at])) else {
            continue;
        };
        let y = candidates[at]
            .target
            .and_then(|target| target.y)
            .map_or(0.0, stemma_document::Pt::points);
        let on = lines.rows_on(page as usize);
        let Some(row) = on
            .clone()
            // Destinations point a little above the line they mean; four points of slack find it either way.
            .find(|row| lines.rows[*row].y0 >= y - 4.0 && !lines.rows[*row].running)
            .or(Some(on.start).filter(|row| on.contains(row)))
        else {
            continue;
        };
        // Several candidates may point to the top of one page; each takes the row after the previous one.
        let row = if row <= before && lines.rows[before].page == page {
            before + 1
        } else {
            row
        };
        let in_order = row > before
            && after[at].is_none_or(|after| row <= after)
            && rows.contains(&row)
            && on.contains(&row);
        if in_order {
            hits[at] = Some(LocatedTitle {
                rows: (row, row),
                unconfirmed: true,
            });
            before = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{Destination, OutlineItem, PageNo};

    use super::super::candidates;
    use super::super::fixture::{Doc, line};
    use super::*;

    fn locate_pages(doc: &Doc, listed: &[(&str, u32)]) -> Vec<Option<u32>> {
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let outline: Vec<_> = listed
            .iter()
            .map(|(title, page)| {
                let target = PageNo::new(*page).map(|page| Destination { page, y: None });
                OutlineItem {
                    title: (*title).to_string(),
                    level: 1,
                    target,
                }
            })
            .collect();
        let candidates = candidates::candidates_from_outline(&outline, None);
        let hits = locate_titles(
            &lines,
            0..lines.rows.len(),
            &vec![false; lines.rows.len()],
            &candidates,
        );
        hits.iter()
            .map(|hit| hit.as_ref().map(|hit| lines.rows[hit.rows.0].page + 1))
            .collect()
    }

    #[test]
    fn mention_before_heading_is_skipped() {
        let mut doc = Doc::new(4);
        doc.add(0, line("Results"));
        doc.section(1, "Overview");
        doc.section(2, "Results");
        doc.section(3, "Outlook");
        assert_eq!(
            locate_pages(&doc, &[("Overview", 0), ("Results", 0), ("Outlook", 0)]),
            [Some(2), Some(3), Some(4)]
        );
    }

    #[test]
    fn link_target_decides_between_equal_headings() {
        let mut doc = Doc::new(4);
        doc.section(0, "Summary");
        doc.section(1, "Summary");
        doc.section(2, "Summary");
        assert_eq!(locate_pages(&doc, &[("Summary", 3)]), [Some(3)]);
    }

    #[test]
    fn similar_titles_compare_only_neighbors() {
        let title = |n: u32| format!("Statements of the {n:04} company");
        let bookmark = |n: u32| OutlineItem {
            title: title(n),
            level: 1,
            target: None,
        };
        let outline: Vec<_> = (0..1_000)
            .map(bookmark)
            .chain((0..40).map(|_| bookmark(500)))
            .collect();
        let candidates = candidates::candidates_from_outline(&outline, None);
        let fronts = PrefixIndex::new(&candidates);
        let near = |n: u32, reach: usize| {
            fronts
                .neighbors(&titles::normalize_key(&title(n)), PREFIX_BYTES, reach)
                .len()
        };
        assert_eq!(near(300, 8), 17);
        assert_eq!(near(0, 8), 9);
        assert_eq!(near(999, 8), 9);
        assert_eq!(near(500, 8), 57, "all equal titles are included");
        assert_eq!(near(500, candidates.len()), 1_040);
    }

    #[test]
    fn similar_titles_do_not_evict_exact_match() {
        let title = |n: u32| format!("Statements of the {n:04} company");
        let mut doc = Doc::new(50);
        for n in 0..2_000 {
            doc.add(n as usize / 40, line(&title(n)).bold());
        }
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let bookmark = OutlineItem {
            title: title(1_999),
            level: 1,
            target: None,
        };
        let sections = candidates::candidates_from_outline(&[bookmark], None);
        let placements = find_placements(
            &lines,
            0..lines.rows.len(),
            &vec![false; lines.rows.len()],
            &sections,
        );
        assert_eq!(placements.len(), MAX_PLACEMENTS + 1);
        assert_eq!(
            lines.rows[placements[MAX_PLACEMENTS].0.at as usize].text,
            title(1_999)
        );
    }

    #[test]
    fn a_title_over_two_lines_is_one_heading() {
        let mut doc = Doc::new(2);
        doc.add(0, line("Changes in and Disagreements with").bold());
        doc.add(0, line("Accountants on Disclosure").bold());
        doc.prose(0, 10.0, 3);
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let outline = [OutlineItem {
            title: "Changes in and Disagreements with Accountants on Disclosure".into(),
            level: 1,
            target: None,
        }];
        let hits = locate_titles(
            &lines,
            0..lines.rows.len(),
            &vec![false; lines.rows.len()],
            &candidates::candidates_from_outline(&outline, None),
        );
        assert_eq!(hits[0].as_ref().unwrap().rows, (0, 1));
    }
}
