//! Adds layout headings to the primary outline, within a budget.
//!
//! The budget limits how deep layout headings go, since no cue of layout says where an author stopped (ADR 0008). Its
//! constants were fitted on the development filings.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::EvidenceSource;

use super::heading_style::{self, HeadingStyle, LayoutHeading};
use super::line_features::LineTable;
use super::outline_head::{LAYOUT_RANK, OutlineHead, RANK_STEP, enclosing_heads};
use super::primary_outline::PrimaryOutline;
use super::statements::names_report;
use super::titles;
use super::{StructureSettings, front_back_matter, numbering};

// A short document may have this many headings per page, up to the budget of one with `SHORT_PAGES` pages: the Items of a
// form and its notes do not get fewer with its pages.
const MAX_HEADINGS_PER_PAGE: f32 = 5.0;
const SHORT_PAGES: f32 = 100.0;
// More headings of one style per page are labels of paragraphs.
const MAX_STYLE_PER_PAGE: f32 = 2.0;
// A short document may have this many headings of one style in any case.
const MIN_STYLE: usize = 24;

/// Adds layout headings to the primary outline. Returns the heads in reading order and the headings left out.
// Styles are added whole: half of the headings of one style would give a tree with random holes. They are added from the
// highest down, so that a tight budget cuts off the deepest levels first.
pub(super) fn within_budget(
    lines: &LineTable<'_>,
    primary: &PrimaryOutline,
    mut free: Vec<LayoutHeading>,
    is_filing: bool,
    settings: &StructureSettings,
) -> (Vec<OutlineHead>, Vec<LayoutHeading>) {
    let mut heads = primary.heads.clone();
    rank_headings(lines, &heads, is_filing, &mut free);
    // Per style: headings, dense ones, ones above a paragraph. The key orders styles by rank.
    let mut counts: BTreeMap<(u32, HeadingStyle), (usize, usize, usize)> = BTreeMap::new();
    let mut titles: BTreeMap<HeadingStyle, Vec<&str>> = BTreeMap::new();
    for heading in free.iter().filter(|heading| heading.style.is_numbered()) {
        titles
            .entry(heading.style)
            .or_default()
            .push(&heading.title);
    }
    for heading in free.iter().filter(|heading| !heading.statement) {
        let count = counts.entry((heading.rank, heading.style)).or_default();
        let dense = usize::from(heading.dense);
        let over_text = usize::from(heading.over_text);
        *count = (count.0 + 1, count.1 + dense, count.2 + over_text);
    }
    let pages = lines.pages() as f32;
    let dense = (MAX_HEADINGS_PER_PAGE * pages).min(settings.nodes_per_page * SHORT_PAGES);
    let budget = (settings.nodes_per_page * pages).max(dense) as usize;
    // A style that stands above paragraphs throughout is surely one of headings, so it may exceed the budget by half.
    let roomy = budget.max((dense * 1.5) as usize);
    let overrun = (MAX_STYLE_PER_PAGE * pages) as usize;
    let listed = is_listed(&heads);
    // Clauses of exhibits take no room from the body.
    let mut used = heads
        .iter()
        .filter(|head| head.rows.0 < primary.main_end)
        .count();
    let mut accepted: BTreeMap<(u32, HeadingStyle), bool> = BTreeMap::new();
    for ((rank, style), (count, dense, over_text)) in counts {
        let fits = dense == 0 && used + count <= if over_text == count { roomy } else { budget };
        // Bold lines are headings by any account. Without their level, weaker ones would stand in for it.
        let fits = fits || dense == 0 && style.is_bold_line() && used < budget;
        // While less than half of the budget is used and no contents say how deep to go, one dense style may be the
        // level of sections that this document has. Numbers that go on counting mark sections however many there are:
        // without this exception, papers in two columns lost all of theirs.
        let opens = count <= overrun
            && ((used * 2 < budget && !listed && !style.sentence) || style.is_numbered())
            || style.is_numbered()
                && titles
                    .get(&style)
                    .is_some_and(|titles| numbering::are_sequential(titles));
        // The budget says how deep the authors of filings and long books go. Others set only headings apart from their text.
        let is_short = !is_filing
            && pages <= SHORT_PAGES
            && count <= overrun.max(MIN_STYLE)
            && !style.sentence;
        let is_accepted = fits || opens || is_short;
        used += if is_accepted { count } else { 0 };
        accepted.insert((rank, style), is_accepted);
    }
    let mut unused = Vec::new();
    for heading in free {
        let key = (heading.rank, heading.style);
        if heading.statement {
            heads.push(OutlineHead {
                rank: LAYOUT_RANK,
                leaf: true,
                ..OutlineHead::from_layout(&heading)
            });
        } else if accepted.get(&key).copied().unwrap_or(false) {
            heads.push(OutlineHead::from_layout(&heading));
        } else {
            unused.push(heading);
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
    lower_statements(lines, &mut heads);
    // Captions go before the front matter is judged: a company's name on the cover must not count as a title there.
    front_back_matter::drop_captions(lines, &mut heads);
    front_back_matter::drop_exhibit_lists(&mut heads);
    front_back_matter::filter_front_matter(lines, is_filing, &mut heads);
    front_back_matter::filter_back_matter(lines, &mut heads);
    (heads, unused)
}

// Statements rank highest among layout headings, unless a section titled `… Financial Statements` stands within two pages
// before them; then they are its children. Each statement moves the limit on, so a run of statements stays together.
fn lower_statements(lines: &LineTable<'_>, heads: &mut [OutlineHead]) {
    let mut above: Option<(u32, u32)> = None;
    for head in heads {
        let page = lines.rows[head.rows.0].page;
        let statement = head.leaf && head.rank == LAYOUT_RANK;
        match &mut above {
            Some((rank, last)) if statement && page <= *last + 2 => {
                (head.rank, *last) = (*rank + 1, page);
            }
            _ if statement => {}
            _ => {
                let key = titles::normalize_key(&head.title);
                // An index lists the statements, notes explain them and reports judge them; none contains them.
                let is_report = names_report(&head.title);
                if is_report && head.rank >= LAYOUT_RANK {
                    head.rank = LAYOUT_RANK;
                }
                let is_statement_list = key.ends_with("financialstatements")
                    && !is_report
                    && !key.starts_with("index")
                    && !key.starts_with("notes");
                let is_statement_list = is_statement_list && head.rank >= LAYOUT_RANK;
                above = is_statement_list.then_some((head.rank, page));
            }
        }
    }
}

// Contents or an outline with two or more levels already say how deep the author's sections go.
fn is_listed(heads: &[OutlineHead]) -> bool {
    let ranks: std::collections::BTreeSet<u32> = heads
        .iter()
        .filter(|head: &&OutlineHead| {
            !matches!(
                head.evidence,
                EvidenceSource::Grammar | EvidenceSource::Layout
            ) && !head.leaf
        })
        .map(|head| head.rank)
        .collect();
    ranks.len() >= 2
}

// A style that the author lists on one level of a section is set the same way where the list is silent, so the other
// headings of the style in this section take that level. Otherwise the rank is the place of the style among all styles.
fn rank_headings(
    lines: &LineTable<'_>,
    heads: &[OutlineHead],
    is_filing: bool,
    free: &mut [LayoutHeading],
) {
    let order: Vec<HeadingStyle> = free.iter().map(|heading| heading.style).collect();
    let mut styles = order.clone();
    styles.sort();
    let mut count: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for style in &styles {
        *count.entry(*style).or_default() += 1;
    }
    styles.dedup();
    let announced: Vec<(usize, HeadingStyle)> = heads
        .iter()
        .enumerate()
        .filter(|(_, head)| {
            head.evidence != EvidenceSource::Grammar && !head.unconfirmed && !head.leaf
        })
        .map(|(at, head)| (at, heading_style::style_of(lines, &lines.rows[head.rows.0])))
        .collect();
    let mut levels: BTreeMap<HeadingStyle, BTreeMap<u32, usize>> = BTreeMap::new();
    for (at, style) in &announced {
        *levels
            .entry(*style)
            .or_default()
            .entry(heads[*at].rank)
            .or_default() += 1;
    }
    let anchors: BTreeMap<HeadingStyle, u32> = levels
        .iter()
        .filter_map(|(style, levels)| {
            let count = count.get(style).copied().unwrap_or(0);
            Some((*style, anchored_rank(levels, count)?))
        })
        .collect();
    let mut own: BTreeMap<HeadingStyle, u32> = styles
        .iter()
        .map(|style| {
            let style_above = title_case_twin(&order, *style).unwrap_or(*style);
            (*style, rank_of(&styles, style_above))
        })
        .collect();
    if !is_filing {
        merge_levels(&styles, &count, &mut own);
    }
    let places = announced
        .iter()
        .map(|(at, _)| (heads[*at].rows.0, heads[*at].rank));
    let listed: BTreeSet<(HeadingStyle, u32, Option<usize>)> = announced
        .iter()
        .zip(enclosing_heads(heads, places))
        .map(|((at, style), above)| (*style, heads[*at].rank, above))
        .collect();
    for heading in free.iter_mut() {
        heading.rank = anchors.get(&heading.style).copied().unwrap_or(LAYOUT_RANK);
    }
    let places = free.iter().map(|heading| (heading.rows.0, heading.rank));
    let enclosing = enclosing_heads(heads, places);
    for (heading, above) in free.iter_mut().zip(enclosing) {
        if !listed.contains(&(heading.style, heading.rank, above)) {
            heading.rank = own[&heading.style];
        }
    }
}

/// Gives styles that hardly differ one rank, and a style with one heading the rank of the next style below.
// Outside filings, sizes and slant vary inside a level. A level of its own for each look would nest siblings in each other.
fn merge_levels(
    styles: &[HeadingStyle],
    count: &BTreeMap<HeadingStyle, usize>,
    own: &mut BTreeMap<HeadingStyle, u32>,
) {
    // Numbers say more than looks.
    let styles: Vec<&HeadingStyle> = styles.iter().filter(|style| !style.is_numbered()).collect();
    for (at, style) in styles.iter().enumerate() {
        let alike = styles[..at].iter().rfind(|other| other.is_level_of(style));
        if let Some(rank) = alike.and_then(|other| own.get(other).copied()) {
            own.insert(**style, rank);
        }
    }
    let mut members: BTreeMap<u32, usize> = BTreeMap::new();
    for style in &styles {
        *members.entry(own[*style]).or_default() += count.get(style).copied().unwrap_or(0);
    }
    let mut below = None;
    for style in styles.iter().rev() {
        if members[&own[*style]] > 1 {
            below = Some(own[*style]);
        } else if let Some(below) = below {
            own.insert(**style, below);
        }
    }
}

/// The rank of a style by its place among `styles` (sorted), below all announced ranks.
fn rank_of(styles: &[HeadingStyle], style: HeadingStyle) -> u32 {
    let place = styles.binary_search(&style).unwrap_or_else(|at| at);
    LAYOUT_RANK + 10 * u32::try_from(place).unwrap_or(u32::MAX / 20)
}

/// A rank below those of all `styles`.
pub(super) fn lowest_rank(styles: &[HeadingStyle]) -> u32 {
    LAYOUT_RANK + 10 * u32::try_from(styles.len()).unwrap_or(u32::MAX / 20)
}

// The level must be clear: at least two announced headings, most of them on one level, and not few beside the unannounced
// headings of the style. The top level never counts: chapter titles often share their style with headings inside them.
fn anchored_rank(levels: &BTreeMap<u32, usize>, unannounced: usize) -> Option<u32> {
    let total: usize = levels.values().sum();
    let (rank, most) = levels.iter().max_by_key(|(rank, n)| (**n, **rank))?;
    let is_clear = *most >= 2 && most * 2 > total && total * 10 >= unannounced * 4;
    (is_clear && *rank > RANK_STEP).then_some(*rank)
}

/// The style in title case that a lone title in capitals stands among.
// Capitals rank above title case of the same size. A single `OVERVIEW` between sections in title case is one of them,
// though, and must not become the parent of those that follow.
fn title_case_twin(order: &[HeadingStyle], style: HeadingStyle) -> Option<HeadingStyle> {
    let twin = style.uncapped()?;
    let at = order.iter().position(|other| *other == style)?;
    let lone = !order[at + 1..].contains(&style);
    (lone && order[..at].contains(&twin) && order[at + 1..].contains(&twin)).then_some(twin)
}
