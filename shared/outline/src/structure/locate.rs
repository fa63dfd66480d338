//! Where claims stand: every claim is looked for as a heading, all of them together through the chain.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use super::chain::{self, Candidate};
use super::claims::Claim;
use super::grammar::{self, look};
use super::lines::{Row, Sheet};
use super::numbering;
use super::titles::{self, Prepared};

/// Likeness below which a line is not the claimed title.
const ALIKE: f32 = 0.74;
/// Bytes of a title by which lines are looked up.
const FRONT: usize = 6;
/// The same for titles with a number.
const NUMBERED_FRONT: usize = 10;
/// Candidates kept per claim: a title that recurs on every page must not fill memory. Lines that are the title itself are
/// counted apart, so that those only like it cannot crowd it out.
const CANDIDATES_PER_CLAIM: usize = 400;
/// Comparisons of lines with claims of the same front that are free. Thousands of titles may begin with the same letters;
/// behind this many comparisons a line is held against its [`NEIGHBORS`] among them only.
const FREE_COMPARISONS: usize = 1_000_000;
/// Claims on either side of where a line stands among them in order.
const NEIGHBORS: usize = 8;

/// A claim found on paper.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    /// First and last row of the heading.
    pub(super) rows: (usize, usize),
    /// The title is not there; only the witness's page is known.
    pub(super) unconfirmed: bool,
}

/// Looks for every claim in `rows`. Rows marked in `excluded` (contents rows) are no headings.
pub(super) fn locate(
    sheet: &Sheet<'_>,
    rows: Range<usize>,
    excluded: &[bool],
    claims: &[Claim],
) -> Vec<Option<Hit>> {
    let places = candidates(sheet, rows, excluded, claims);
    let all: Vec<Candidate> = places.iter().map(|(candidate, _)| *candidate).collect();
    let mut hits: Vec<Option<Hit>> = vec![None; claims.len()];
    for i in chain::best(&all) {
        let (candidate, last) = places[i];
        let rows = (candidate.at as usize, last);
        hits[candidate.keys.0 as usize] = Some(Hit {
            rows,
            unconfirmed: false,
        });
    }
    rescue(sheet, &places, claims, &mut hits);
    hits
}

/// All lines that read like a claim, with the last row of each.
fn candidates(
    sheet: &Sheet<'_>,
    rows: Range<usize>,
    excluded: &[bool],
    claims: &[Claim],
) -> Vec<(Candidate, usize)> {
    let fronts = Fronts::of(claims);
    let mut count = vec![[0usize; 2]; claims.len()];
    let mut compared = 0;
    let mut found = Vec::new();
    for at in rows {
        let row = &sheet.rows[at];
        if excluded[at] || row.key.is_empty() || row.words > 90 {
            continue;
        }
        let core = numbering::after_number(row.text)
            .map(titles::squash)
            .unwrap_or_default();
        let reach = if compared < FREE_COMPARISONS {
            claims.len()
        } else {
            NEIGHBORS
        };
        let by_full = fronts.near(&row.key, FRONT, reach);
        let by_number = fronts.near(&row.key, NUMBERED_FRONT, reach);
        let by_core = if core.is_empty() {
            &[]
        } else {
            fronts.near(&core, FRONT, reach)
        };
        let mut named: Vec<usize> = [by_full, by_number, by_core]
            .concat()
            .into_iter()
            .map(|(_, claim)| claim)
            .collect();
        named.sort_unstable();
        named.dedup();
        compared += named.len();
        let reading = Reading::of(sheet, at, core);
        for claim in named {
            if count[claim] == [CANDIDATES_PER_CLAIM; 2] {
                continue;
            }
            let (like, last) = reading.alike(&claims[claim]);
            let same = like >= 1.0 || reading.own.core == claims[claim].prepared.core;
            let kept = &mut count[claim][usize::from(same)];
            if like < ALIKE || *kept >= CANDIDATES_PER_CLAIM {
                continue;
            }
            *kept += 1;
            let score = like
                + look(sheet, at)
                + doubts(row, like)
                + grammar::near(
                    claims[claim].target_page(),
                    claims[claim].predicted,
                    row.page,
                );
            let candidate = Candidate {
                at: at as u32,
                keys: (claim as u32, claim as u32),
                score,
            };
            found.push((candidate, last));
        }
    }
    found
}

/// Claims by how their titles begin, each list in the order of the titles.
struct Fronts<'c>(HashMap<&'c [u8], Vec<(&'c str, usize)>>);

impl<'c> Fronts<'c> {
    fn of(claims: &'c [Claim]) -> Self {
        let mut fronts: HashMap<&[u8], Vec<(&str, usize)>> = HashMap::new();
        let mut add = |key: &'c str, bytes: usize, at: usize| {
            fronts.entry(front(key, bytes)).or_default().push((key, at));
        };
        for (at, claim) in claims.iter().enumerate() {
            let Prepared { full, core } = &claim.prepared;
            add(core, FRONT, at);
            // `SECTION 2.07 …`: many titles share the word, so the number counts as well.
            if core != full {
                add(full, NUMBERED_FRONT, at);
                // `ARTICLE I` alone on its line, the title on the next.
                add(
                    full.strip_suffix(core.as_str()).unwrap_or(full),
                    NUMBERED_FRONT,
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
    fn near(&self, key: &str, bytes: usize, reach: usize) -> &[(&'c str, usize)] {
        let Some(claims) = self.0.get(front(key, bytes)) else {
            return &[];
        };
        let from = claims
            .partition_point(|(title, _)| *title < key)
            .saturating_sub(reach);
        let to = claims
            .partition_point(|(title, _)| *title <= key)
            .saturating_add(reach);
        &claims[from..to.min(claims.len())]
    }
}

fn front(key: &str, bytes: usize) -> &[u8] {
    &key.as_bytes()[..key.len().min(bytes)]
}

/// What speaks against a line that reads like the title: it is a sentence, or a table row with figures.
fn doubts(row: &Row<'_>, like: f32) -> f32 {
    let prose = if row.prose && like < 0.97 { -0.35 } else { 0.0 };
    prose + if row.table && row.figures { -0.2 } else { 0.0 }
}

/// A line as it is held against claims: alone, and joined with those after it.
struct Reading<'s, 'a> {
    sheet: &'s Sheet<'a>,
    at: usize,
    own: Prepared,
    /// The line with one to four lines after it, as far as they may belong to one heading; made once, when first needed.
    joined: OnceCell<Vec<Prepared>>,
}

impl<'s, 'a> Reading<'s, 'a> {
    fn of(sheet: &'s Sheet<'a>, at: usize, core: String) -> Self {
        let full = sheet.rows[at].key.to_string();
        let core = if core.is_empty() { full.clone() } else { core };
        Self {
            sheet,
            at,
            own: Prepared { full, core },
            joined: OnceCell::new(),
        }
    }

    /// Likeness of the line (and those after it, while it rises) to a claim, and the last row.
    fn alike(&self, claim: &Claim) -> (f32, usize) {
        let mut best = (self.one_line(&claim.prepared), self.at);
        // Only a line shorter than the title can be its beginning.
        if self.own.full.len() >= claim.prepared.full.len() || best.0 > 0.98 {
            return best;
        }
        for (joined, last) in self
            .joined
            .get_or_init(|| self.join())
            .iter()
            .zip(self.at + 1..)
        {
            let like = titles::likeness(joined, &claim.prepared);
            if like > best.0 + 0.02 {
                best = (like, last);
            }
            if best.0 > 0.98 {
                break;
            }
        }
        best
    }

    fn join(&self) -> Vec<Prepared> {
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
            joined.push(Prepared::new(&text));
        }
        joined
    }

    fn one_line(&self, title: &Prepared) -> f32 {
        let key = &self.own.full;
        let core = &self.own.core;
        let whole = titles::likeness(&self.own, title);
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
fn rescue(
    sheet: &Sheet<'_>,
    places: &[(Candidate, usize)],
    claims: &[Claim],
    hits: &mut [Option<Hit>],
) {
    let mut taken: Vec<usize> = hits.iter().flatten().map(|hit| hit.rows.0).collect();
    taken.sort_unstable();
    let mut best: Vec<Option<(f32, usize, usize)>> = vec![None; claims.len()];
    for (candidate, last) in places {
        let claim = candidate.keys.0 as usize;
        let at = candidate.at as usize;
        let row = &sheet.rows[candidate.at as usize];
        let near = claims[claim]
            .page()
            .is_some_and(|page| page.abs_diff(row.page) <= 1);
        let free = taken.binary_search(&at).is_err();
        let better = best[claim].is_none_or(|(score, ..)| candidate.score > score);
        if hits[claim].is_none() && near && free && better && !row.running && candidate.score > 1.0
        {
            best[claim] = Some((candidate.score, at, *last));
        }
    }
    for (hit, found) in hits.iter_mut().zip(best) {
        if let Some((_, at, last)) = found {
            *hit = Some(Hit {
                rows: (at, last),
                unconfirmed: false,
            });
        }
    }
}

/// Share of the claims that were found; 0 when there are none. Group rows without a place of their own do not count.
pub(super) fn accuracy(claims: &[Claim], hits: &[Option<Hit>]) -> f32 {
    let placed = |claim: &Claim| {
        claim.target.is_some()
            || claim.printed.is_some()
            || claim.witness == stemma_document::Witness::EmbeddedOutline
    };
    let counted = claims
        .iter()
        .zip(hits)
        .filter(|(claim, hit)| placed(claim) || hit.is_some());
    let mut all = 0u32;
    let mut found = 0u32;
    for (_, hit) in counted {
        all += 1;
        found += u32::from(hit.as_ref().is_some_and(|hit| !hit.unconfirmed));
    }
    if all == 0 {
        0.0
    } else {
        found as f32 / all as f32
    }
}

/// Puts claims that were not found on the page their link or outline entry names, where that keeps the order of their
/// neighbours: unconfirmed, and no nearer than the claims around them.
pub(super) fn place_unfound(
    sheet: &Sheet<'_>,
    rows: Range<usize>,
    claims: &[Claim],
    hits: &mut [Option<Hit>],
    may: impl Fn(&Claim) -> bool,
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
        let Some(page) = claims[at].page().filter(|_| may(&claims[at])) else {
            continue;
        };
        let y = claims[at]
            .target
            .and_then(|target| target.y)
            .map_or(0.0, stemma_document::Pt::points);
        let on = sheet.on(page as usize);
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
            hits[at] = Some(Hit {
                rows: (row, row),
                unconfirmed: true,
            });
            before = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{OutlineItem, PageNo, Target};

    use super::super::claims;
    use super::super::fixture::{Doc, line};
    use super::*;

    fn found(doc: &Doc, listed: &[(&str, u32)]) -> Vec<Option<u32>> {
        let source = doc.source();
        let sheet = Sheet::new(doc.pages(&source));
        let outline: Vec<_> = listed
            .iter()
            .map(|(title, page)| {
                let target = PageNo::new(*page).map(|page| Target { page, y: None });
                OutlineItem {
                    title: (*title).to_string(),
                    level: 1,
                    target,
                }
            })
            .collect();
        let claims = claims::of_outline(&outline, None);
        let hits = locate(
            &sheet,
            0..sheet.rows.len(),
            &vec![false; sheet.rows.len()],
            &claims,
        );
        hits.iter()
            .map(|hit| hit.as_ref().map(|hit| sheet.rows[hit.rows.0].page + 1))
            .collect()
    }

    #[test]
    fn a_mention_before_the_heading_is_not_taken() {
        let mut doc = Doc::new(4);
        doc.add(0, line("Results"));
        doc.section(1, "Overview");
        doc.section(2, "Results");
        doc.section(3, "Outlook");
        assert_eq!(
            found(&doc, &[("Overview", 0), ("Results", 0), ("Outlook", 0)]),
            [Some(2), Some(3), Some(4)]
        );
    }

    #[test]
    fn the_target_decides_between_equal_headings() {
        let mut doc = Doc::new(4);
        doc.section(0, "Summary");
        doc.section(1, "Summary");
        doc.section(2, "Summary");
        assert_eq!(found(&doc, &[("Summary", 3)]), [Some(3)]);
    }

    #[test]
    fn of_thousands_of_titles_that_begin_alike_a_line_is_held_against_its_neighbors() {
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
        let claims = claims::of_outline(&outline, None);
        let fronts = Fronts::of(&claims);
        let near =
            |n: u32, reach: usize| fronts.near(&titles::squash(&title(n)), FRONT, reach).len();
        assert_eq!((near(300, 8), near(0, 8), near(999, 8)), (17, 9, 9));
        assert_eq!(
            (near(500, 8), near(500, claims.len())),
            (57, 1_040),
            "equal titles all count"
        );
    }

    #[test]
    fn titles_that_are_alike_do_not_crowd_out_the_last_one() {
        let title = |n: u32| format!("Statements of the {n:04} company");
        let mut doc = Doc::new(50);
        for n in 0..2_000 {
            doc.add(n as usize / 40, line(&title(n)).bold());
        }
        let source = doc.source();
        let sheet = Sheet::new(doc.pages(&source));
        let bookmark = OutlineItem {
            title: title(1_999),
            level: 1,
            target: None,
        };
        let claims = claims::of_outline(&[bookmark], None);
        let found = candidates(
            &sheet,
            0..sheet.rows.len(),
            &vec![false; sheet.rows.len()],
            &claims,
        );
        assert_eq!(found.len(), CANDIDATES_PER_CLAIM + 1);
        assert_eq!(
            sheet.rows[found[CANDIDATES_PER_CLAIM].0.at as usize].text,
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
        let sheet = Sheet::new(doc.pages(&source));
        let outline = [OutlineItem {
            title: "Changes in and Disagreements with Accountants on Disclosure".into(),
            level: 1,
            target: None,
        }];
        let hits = locate(
            &sheet,
            0..sheet.rows.len(),
            &vec![false; sheet.rows.len()],
            &claims::of_outline(&outline, None),
        );
        assert_eq!(hits[0].as_ref().unwrap().rows, (0, 1));
    }
}
