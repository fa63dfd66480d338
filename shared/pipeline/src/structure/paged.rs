//! Documents with pages: skeleton, headings by look within the budget, large sections split, levels, verdicts.

use std::collections::BTreeMap;

use stemma_document::{
    DraftEntry, Extent, Gap, LocatedEntry, Method, OutlineError, Page, PageLabel, PageNo, Place, Position, Source,
    Verdict, VerifiedOutline, Witness,
};

use super::claims::Claim;
use super::labels::Labels;
use super::layout::{self, Heading, Style};
use super::lines::Sheet;
use super::skeleton::{self, Head, LAYOUT, LEVEL, Skeleton};
use super::titles::{self, Prepared};
use super::{Draft, StructureSettings, levels, split};

/// Headings by look that any document may have on top of its share per page: short documents are dense.
const ALLOWANCE: f32 = 24.0;
/// Distinct gaps of one kind that are kept.
const GAPS: usize = 200;

/// The outline of a document with pages.
pub(super) fn outline(source: &Source, pages: &[Page], settings: &StructureSettings) -> Result<Draft, OutlineError> {
    let sheet = Sheet::new(pages);
    let labels = Labels::read(&sheet, pages);
    let mut skeleton = skeleton::build(source, &sheet, &labels, settings);
    let (free, dense) = skeleton::free_headings(&sheet, &skeleton);
    let (mut heads, mut left) = within_budget(&sheet, &skeleton, free, settings);
    left.extend(dense);
    left.sort_by_key(|heading| heading.rows.0);
    split_large(&sheet, pages, &mut heads, &left, settings);
    fold_repeats(&mut heads);
    let mut gaps = std::mem::take(&mut skeleton.gaps);
    add_windows(&sheet, pages, &mut heads, &mut gaps, settings);
    gaps.truncate(GAPS);
    let method = if heads.iter().all(|head| head.witness == Witness::Window) { Method::Windows } else { skeleton.method };
    let judged = judge(&sheet, &heads, skeleton.rejected);
    let extent = Extent::Pages(u32::try_from(pages.len()).unwrap_or(u32::MAX));
    Ok(Draft { outline: VerifiedOutline::new(extent, judged)?, method, labels: labels.printed(), gaps })
}

/// Adds headings by look to the skeleton: whole styles, highest first, until the nodes per page are spent. Gives the
/// heads in reading order and the headings left out.
fn within_budget(
    sheet: &Sheet<'_>,
    skeleton: &Skeleton,
    free: Vec<Heading>,
    settings: &StructureSettings,
) -> (Vec<Head>, Vec<Heading>) {
    let mut heads = skeleton.heads.clone();
    let ranks = ranks(sheet, &heads, &free);
    let mut counts: BTreeMap<(u32, Style), usize> = BTreeMap::new();
    for heading in free.iter().filter(|heading| !heading.statement) {
        *counts.entry((ranks[&heading.style], heading.style)).or_default() += 1;
    }
    let budget = (settings.nodes_per_page * sheet.pages() as f32 + ALLOWANCE) as usize;
    let mut spent = heads.len();
    let mut taken: BTreeMap<Style, bool> = BTreeMap::new();
    for ((_, style), count) in counts {
        let fits = spent + count <= budget;
        spent += if fits { count } else { 0 };
        taken.insert(style, fits);
    }
    let mut left = Vec::new();
    for heading in free {
        if heading.statement {
            heads.push(Head { leaf: true, ..by_look(&heading, LAYOUT) });
        } else if taken.get(&heading.style).copied().unwrap_or(false) {
            let rank = ranks[&heading.style];
            heads.push(by_look(&heading, rank));
        } else {
            left.push(heading);
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
    close_front(sheet, &mut heads);
    (heads, left)
}

/// What stands before the first paragraph (the title of a report, lines of a cover) opens no level of its own: a title
/// over everything would only add a root. A heading whose look recurs is a section all the same.
fn close_front(sheet: &Sheet<'_>, heads: &mut [Head]) {
    let Some(first) = sheet.rows.iter().position(|row| row.prose && !row.running) else { return };
    let style = |head: &Head| layout::style(&sheet.rows[head.rows.0]);
    let is_front = |head: &Head| head.rows.0 < first && sheet.rows[head.rows.0].page == 0 && head.witness == Witness::Layout;
    let cover = heads.iter().filter(|head| is_front(head)).count() >= 3;
    for at in 0..heads.len() {
        let head = &heads[at];
        let front = is_front(head);
        let own = style(head);
        let alone = heads.iter().filter(|other| style(other) == own).all(|other| other.rows.0 < first);
        if front && (alone || cover) && super::numbering::readings(&head.title).is_empty() {
            heads[at].leaf = true;
        }
    }
}

/// The rank of each style: by its place among the styles, or the level of the skeleton where most headings of the
/// style belong to the skeleton.
fn ranks(sheet: &Sheet<'_>, heads: &[Head], free: &[Heading]) -> BTreeMap<Style, u32> {
    let mut styles: Vec<Style> = free.iter().map(|heading| heading.style).collect();
    styles.sort();
    let mut count: BTreeMap<Style, usize> = BTreeMap::new();
    for style in &styles {
        *count.entry(*style).or_default() += 1;
    }
    styles.dedup();
    let mut anchored: BTreeMap<Style, BTreeMap<u32, usize>> = BTreeMap::new();
    for head in heads.iter().filter(|head| head.witness != Witness::Grammar && !head.unconfirmed && !head.leaf) {
        let style = layout::style(&sheet.rows[head.rows.0]);
        *anchored.entry(style).or_default().entry(head.rank).or_default() += 1;
    }
    let rank = |style: &Style| {
        let own = split::rank_of(&styles, *style);
        let Some(levels) = anchored.get(style) else { return own };
        let total: usize = levels.values().sum();
        let (level, most) = levels.iter().max_by_key(|(level, n)| (**n, **level)).map_or((own, 0), |(l, n)| (*l, *n));
        let carries = most >= 2 && most * 2 > total && total * 10 >= count.get(style).copied().unwrap_or(0) * 4;
        if carries && level > LEVEL { level } else { own }
    };
    styles.iter().map(|style| (*style, rank(style))).collect()
}

fn by_look(heading: &Heading, rank: u32) -> Head {
    let number = super::numbering::readings(&heading.title).first().map(|number| number.text.to_string());
    Head {
        rows: heading.rows,
        title: heading.title.clone(),
        number,
        printed: None,
        target: None,
        witness: Witness::Layout,
        unconfirmed: false,
        rank,
        leaf: false,
    }
}

/// Adds headings of lower styles inside stretches that are too large.
fn split_large(sheet: &Sheet<'_>, pages: &[Page], heads: &mut Vec<Head>, left: &[Heading], settings: &StructureSettings) {
    let mut styles: Vec<Style> = left.iter().map(|heading| heading.style).collect();
    styles.sort();
    styles.dedup();
    // Behind the styles that were taken.
    let below = heads.iter().map(|head| head.rank).filter(|rank| *rank >= LAYOUT).max().unwrap_or(LAYOUT) - LAYOUT + 10;
    let mut added = Vec::new();
    for stretch in split::large(sheet, pages, heads, settings) {
        let inside = split::headings_inside(sheet, pages, &stretch, left, settings);
        added.extend(inside.into_iter().map(|heading| by_look(heading, split::rank_of(&styles, heading.style) + below)));
    }
    heads.extend(added);
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}

/// A first sub-section that repeats the title of the section it opens is folded into it.
fn fold_repeats(heads: &mut Vec<Head>) {
    let mut kept: Vec<Head> = Vec::with_capacity(heads.len());
    for head in heads.drain(..) {
        let repeats = kept.last().is_some_and(|above| {
            let near = head.rows.0.saturating_sub(above.rows.1) <= 3 && above.rank < head.rank;
            near && titles::likeness(&Prepared::new(&above.title), &Prepared::new(&head.title)) > 0.9
        });
        if !repeats {
            kept.push(head);
        }
    }
    *heads = kept;
}

/// Windows where a stretch is still too large, or where there is no heading at all.
fn add_windows(sheet: &Sheet<'_>, pages: &[Page], heads: &mut Vec<Head>, gaps: &mut Vec<Gap>, settings: &StructureSettings) {
    if sheet.rows.is_empty() {
        return;
    }
    let whole = split::Stretch { rows: 0..sheet.rows.len() };
    let stretches = if heads.is_empty() { vec![whole] } else { split::large(sheet, pages, heads, settings) };
    for stretch in stretches {
        for window in split::into_windows(sheet, pages, &stretch, settings) {
            heads.push(window.head);
            gaps.push(window.gap);
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}

/// Every head with its level, place and verdict; then what was rejected.
fn judge(sheet: &Sheet<'_>, heads: &[Head], rejected: Vec<Claim>) -> Vec<(LocatedEntry, Verdict)> {
    let levels = levels::of(heads);
    let found = heads.iter().zip(levels).map(|(head, level)| {
        let entry = DraftEntry {
            number: head.number.clone(),
            title: head.title.clone(),
            label: head.printed.clone().map(PageLabel),
            target: head.target,
            level,
            witness: head.witness,
        };
        let starts_page = sheet.starts_page(head.rows.0);
        let verdict = match head.witness {
            Witness::Window => Verdict::Declared,
            _ if head.unconfirmed => Verdict::Unconfirmed { starts_page },
            _ => Verdict::Found { starts_page },
        };
        (LocatedEntry { entry, place: place(sheet, head.rows.0) }, verdict)
    });
    let dropped = rejected.into_iter().map(|claim| {
        let entry = DraftEntry {
            number: claim.number,
            title: claim.title,
            label: claim.printed.map(PageLabel),
            target: claim.target,
            level: claim.level,
            witness: claim.witness,
        };
        (LocatedEntry { entry, place: place(sheet, 0) }, Verdict::Rejected)
    });
    found.chain(dropped).collect()
}

fn place(sheet: &Sheet<'_>, row: usize) -> Place {
    let row = &sheet.rows[row];
    let y = stemma_document::Pt::new(row.y0);
    Place::Page(Position { page: PageNo::from_index(row.page as usize), line: row.line, y })
}
