//! Where claims stand: every claim is looked for as a heading, all of them together through the chain.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use super::candidates::SectionCandidate;
use super::item_headings::{self, style_score};
use super::line_features::{LineFeatures, LineTable};
use super::monotone_chain::{self, Placement};
use super::numbering;
use super::titles::{self, TitleKeys};

/// Likeness below which a line is not the claimed title.
const MIN_SIMILARITY: f32 = 0.74;
/// Bytes of a title by which lines are looked up.
const PREFIX_BYTES: usize = 6;
/// The same for titles with a number.
const NUMBERED_PREFIX_BYTES: usize = 10;
/// Candidates kept per claim: a title that recurs on every page must not fill memory. Lines that are the title itself are
/// counted apart, so that those only like it cannot crowd it out.
const MAX_PLACEMENTS: usize = 400;
/// Comparisons of lines with claims of the same front that are free. Thousands of titles may begin with the same letters;
/// behind this many comparisons a line is held against its [`NEIGHBORS`] among them only.
const FREE_COMPARISONS: usize = 1_000_000;
/// Claims on either side of where a line stands among them in order.
const NEIGHBORS: usize = 8;

/// A claim found on paper.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocatedTitle {
    /// First and last row of the heading.
    pub(super) rows: (usize, usize),
    /// The title is not there; only the witness's page is known.
    pub(super) unconfirmed: bool,
}

/// Looks for every claim in `rows`. Rows marked in `excluded` (contents rows) are no headings.
pub(super) fn locate_titles(
    sheet: &LineTable<'_>,
    rows: Range<usize>,
    excluded: &[bool],
    sections: &[SectionCandidate],
) -> Vec<Option<LocatedTitle>> {
    let places = find_placements(sheet, rows, excluded, sections);
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
    recover_out_of_order(sheet, &places, sections, &mut hits);
    hits
}

/// All lines that read like a claim, with the last row of each.
fn find_placements(
    sheet: &LineTable<'_>,
    rows: Range<usize>,
    excluded: &[bool],
    candidates: &[SectionCandidate],
) -> Vec<(Placement, usize)> {
    let fronts = PrefixIndex::new(candidates);
    let mut count = vec![[0usize; 2]; candidates.len()];
    let mut compared = 0;
    let mut placements = Vec::new();
    for at in rows {
        let row = &sheet.rows[at];
        if excluded[at] || row.key.is_empty() || row.words > 90 {
            continue;
        }
        let core = numbering::after_number(row.text)
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
        let matcher = LineMatcher::new(sheet, at, core);
        for index in indices {
            if count[index] == [MAX_PLACEMENTS; 2] {
                continue;
            }
            let (like, last) = matcher.best_match(&candidates[index]);
            let same = like >= 1.0 || matcher.own.core == candidates[index].prepared.core;
            let slot = &mut count[index][usize::from(same)];
            if like < MIN_SIMILARITY || *slot >= MAX_PLACEMENTS {
                continue;
            }
            *slot += 1;
            let score = like
                + style_score(sheet, at)
                + penalty(row, like)
                + item_headings::page_score(
                    candidates[index].target_page(),
                    candidates[index].predicted,
                    row.page,
                );
            let placement = Placement {
                at: at as u32,
                keys: (index as u32, index as u32),
                score,
            };
            placements.push((placement, last));
        }
    }
    placements
}

/// Claims by how their titles begin, each list in the order of the titles.
struct PrefixIndex<'c>(HashMap<&'c [u8], Vec<(&'c str, usize)>>);

impl<'c> PrefixIndex<'c> {
    fn new(claims: &'c [SectionCandidate]) -> Self {
        let mut fronts: HashMap<&[u8], Vec<(&str, usize)>> = HashMap::new();
        let mut add = |key: &'c str, bytes: usize, at: usize| {
            fronts
                .entry(prefix(key, bytes))
                .or_default()
                .push((key, at));
        };
        for (at, claim) in claims.iter().enumerate() {
            let TitleKeys { full, core } = &claim.prepared;
            add(core, PREFIX_BYTES, at);
            // `SECTION 2.07 …`: many titles share the word, so the number counts as well.
            if core != full {
                add(full, NUMBERED_PREFIX_BYTES, at);
                // `ARTICLE I` alone on its line, the title on the next.
                add(
                    full.strip_suffix(core.as_str()).unwrap_or(full),
                    NUMBERED_PREFIX_BYTES,
                    at,
                );
            }
        }
        fronts
            .values_mut()
            .for_each(|claims| claims.sort_unstable());
        Self(fronts)
    }

    /// The claims that begin as `key` does, at most `reach` away from it in order; all that are equal to it.
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

/// What speaks against a line that reads like the title: it is a sentence, or a table row with figures.
fn penalty(row: &LineFeatures<'_>, like: f32) -> f32 {
    let prose = if row.prose && like < 0.97 { -0.35 } else { 0.0 };
    prose + if row.table && row.figures { -0.2 } else { 0.0 }
}

/// A line as it is held against claims: alone, and joined with those after it.
struct LineMatcher<'s, 'a> {
    sheet: &'s LineTable<'a>,
    at: usize,
    own: TitleKeys,
    /// The line with one to four lines after it, as far as they may belong to one heading; made once, when first needed.
    joined: OnceCell<Vec<TitleKeys>>,
}

impl<'s, 'a> LineMatcher<'s, 'a> {
    fn new(sheet: &'s LineTable<'a>, at: usize, core: String) -> Self {
        let full = sheet.rows[at].key.to_string();
        let core = if core.is_empty() { full.clone() } else { core };
        Self {
            sheet,
            at,
            own: TitleKeys { full, core },
            joined: OnceCell::new(),
        }
    }

    /// Likeness of the line (and those after it, while it rises) to a claim, and the last row.
    fn best_match(&self, candidate: &SectionCandidate) -> (f32, usize) {
        let mut best = (self.line_similarity(&candidate.prepared), self.at);
        // Only a line shorter than the title can be its beginning.
        if self.own.full.len() >= candidate.prepared.full.len() || best.0 > 0.98 {
            return best;
        }
        for (joined, last) in self
            .joined
            .get_or_init(|| self.joined_lines())
            .iter()
            .zip(self.at + 1..)
        {
            let like = titles::title_similarity(joined, &candidate.prepared);
            if like > best.0 + 0.02 {
                best = (like, last);
            }
            if best.0 > 0.98 {
                break;
            }
        }
        best
    }

    fn joined_lines(&self) -> Vec<TitleKeys> {
        let rows = &self.sheet.rows;
        let row = &self.sheet.rows[self.at];
        let mut text = row.text.to_string();
        let mut joined = Vec::new();
        for below in &rows[self.at + 1..(self.at + 5).min(rows.len())] {
            let goes_on =
                below.page == row.page && below.gap < 2.2 && !below.running && below.words <= 30;
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
        // Run-in heading: the paragraph goes on behind the title.
        let runs_in = title.full.len() >= 9
            && key.len() > title.full.len()
            && key.starts_with(title.full.as_str());
        let numbered = title.core.len() < title.full.len();
        let core_runs_in =
            !numbered && title.core.len() >= 12 && core.starts_with(title.core.as_str());
        match (runs_in, core_runs_in) {
            (true, _) => whole.max(if numbered { 0.95 } else { 0.8 }),
            (_, true) => whole.max(0.8),
            _ => whole,
        }
    }
}

/// Claims the chain had no room for (a document may list its sections out of page order) are taken where a candidate
/// stands on the page their witness names.
fn recover_out_of_order(
    sheet: &LineTable<'_>,
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
        let row = &sheet.rows[placement.at as usize];
        let near = candidates[index]
            .page()
            .is_some_and(|page| page.abs_diff(row.page) <= 1);
        let free = used_rows.binary_search(&at).is_err();
        let better = best[index].is_none_or(|(score, ..)| placement.score > score);
        if hits[index].is_none() && near && free && better && !row.running && placement.score > 1.0
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

/// Share of the claims that were found; 0 when there are none. Group rows without a place of their own do not count.
pub(super) fn located_share(candidates: &[SectionCandidate], hits: &[Option<LocatedTitle>]) -> f32 {
    let placed = |candidate: &SectionCandidate| {
        candidate.target.is_some()
            || candidate.printed.is_some()
            || candidate.evidence == stemma_document::EvidenceSource::EmbeddedOutline
    };
    let counted = candidates
        .iter()
        .zip(hits)
        .filter(|(candidate, hit)| placed(candidate) || hit.is_some());
    let mut all = 0u32;
    let mut located = 0u32;
    for (_, hit) in counted {
        all += 1;
        located += u32::from(hit.as_ref().is_some_and(|hit| !hit.unconfirmed));
    }
    if all == 0 {
        0.0
    } else {
        located as f32 / all as f32
    }
}

/// Puts claims that were not found on the page their link or outline entry names, where that keeps the order of their
/// neighbours: unconfirmed, and no nearer than the claims around them.
pub(super) fn place_unlocated(
    sheet: &LineTable<'_>,
    rows: Range<usize>,
    candidates: &[SectionCandidate],
    hits: &mut [Option<LocatedTitle>],
    may: impl Fn(&SectionCandidate) -> bool,
) {
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
        let on = sheet.rows_on(page as usize);
        let Some(row) = on
            .clone()
            .find(|row: &usize| sheet.rows[*row].y0 >= y - 4.0 && !sheet.rows[*row].running)
            .or(Some(on.start).filter(|row| on.contains(row)))
        else {
            continue;
        };
        let row = if row <= before && sheet.rows[before].page == page {
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
        let sheet = LineTable::new(doc.pages(&source));
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
            &sheet,
            0..sheet.rows.len(),
            &vec![false; sheet.rows.len()],
            &candidates,
        );
        hits.iter()
            .map(|hit| hit.as_ref().map(|hit| sheet.rows[hit.rows.0].page + 1))
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
        assert_eq!((near(300, 8), near(0, 8), near(999, 8)), (17, 9, 9));
        assert_eq!(
            (near(500, 8), near(500, candidates.len())),
            (57, 1_040),
            "equal titles all count"
        );
    }

    #[test]
    fn similar_titles_do_not_evict_exact_match() {
        let title = |n: u32| format!("Statements of the {n:04} company");
        let mut doc = Doc::new(50);
        for n in 0..2_000 {
            doc.add(n as usize / 40, line(&title(n)).bold());
        }
        let source = doc.source();
        let sheet = LineTable::new(doc.pages(&source));
        let bookmark = OutlineItem {
            title: title(1_999),
            level: 1,
            target: None,
        };
        let sections = candidates::candidates_from_outline(&[bookmark], None);
        let placements = find_placements(
            &sheet,
            0..sheet.rows.len(),
            &vec![false; sheet.rows.len()],
            &sections,
        );
        assert_eq!(placements.len(), MAX_PLACEMENTS + 1);
        assert_eq!(
            sheet.rows[placements[MAX_PLACEMENTS].0.at as usize].text,
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
        let sheet = LineTable::new(doc.pages(&source));
        let outline = [OutlineItem {
            title: "Changes in and Disagreements with Accountants on Disclosure".into(),
            level: 1,
            target: None,
        }];
        let hits = locate_titles(
            &sheet,
            0..sheet.rows.len(),
            &vec![false; sheet.rows.len()],
            &candidates::candidates_from_outline(&outline, None),
        );
        assert_eq!(hits[0].as_ref().unwrap().rows, (0, 1));
    }
}
