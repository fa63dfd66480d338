//! Limits how deep headings go that are known only by their layout, since no cue of layout says where an author stopped
//! (ADR 0008).

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::EvidenceSource;

use super::counts::counts;
use super::heading_candidate::{Document, HeadingCandidate, Verdict};
use super::heading_style::{HeadingStyle, style_of};
use super::outline_head::{LAYOUT_RANK, OutlineHead, RANK_STEP, enclosing_heads};
use super::statements::names_report;
use super::titles;
use super::weights::{
    MAX_HEADINGS_PER_PAGE, MAX_STYLE_PER_PAGE, MIN_STYLE, ROOM_OVER_TEXT, SHORT_PAGES,
};
use super::{StructureSettings, numbering};

/// Ranks the candidates that are kept, and leaves out those beyond the budget. `main_end` is the row behind the first of the
/// bound documents.
// Styles are taken whole: half of the headings of one style would give a tree with random holes. They are taken from the
// highest down, so that a tight budget cuts off the deepest levels first.
pub(super) fn keep_within_budget(
    document: &Document<'_>,
    main_end: usize,
    candidates: &mut [HeadingCandidate],
    settings: &StructureSettings,
) {
    let mut headings: Vec<&mut HeadingCandidate> = candidates
        .iter_mut()
        .filter(|candidate| candidate.is_kept())
        .collect();
    rank_candidates(document, &mut headings);
    let mut budget = Budget::new(document, main_end, settings);
    let mut looks: BTreeMap<(u32, HeadingStyle), Look> = BTreeMap::new();
    for heading in headings.iter().filter(|heading| !heading.statement) {
        let look = looks.entry((heading.rank, heading.style)).or_default();
        look.count += 1;
        look.dense |= heading.dense;
        look.over_text += usize::from(heading.over_text);
    }
    // Numbers go on counting in all ranks of a style.
    let mut numbered: BTreeMap<HeadingStyle, Vec<&str>> = BTreeMap::new();
    for heading in headings
        .iter()
        .filter(|heading| heading.style.is_numbered())
    {
        numbered
            .entry(heading.style)
            .or_default()
            .push(&heading.title);
    }
    let left_out: BTreeSet<(u32, HeadingStyle)> = looks
        .into_iter()
        .filter(|((_, style), look)| {
            let titles = numbered.get(style).map_or(&[][..], Vec::as_slice);
            !budget.admits(style, look, titles)
        })
        .map(|(key, _)| key)
        .collect();
    for heading in headings {
        if !heading.statement && left_out.contains(&(heading.rank, heading.style)) {
            heading.verdict = Verdict::OverBudget;
        }
    }
}

/// The headings of one style and rank.
#[derive(Default)]
struct Look {
    count: usize,
    dense: bool,
    /// How many are above paragraphs.
    over_text: usize,
}

/// How many headings fit.
struct Budget {
    pages: f32,
    most: usize,
    /// For a style that is always above paragraphs, as headings are.
    most_over_text: usize,
    /// Headings of one style.
    most_of_style: usize,
    used: usize,
    is_listed: bool,
    is_filing: bool,
}

impl Budget {
    fn new(document: &Document<'_>, main_end: usize, settings: &StructureSettings) -> Self {
        let pages = document.lines.pages() as f32;
        let short = (MAX_HEADINGS_PER_PAGE * pages).min(settings.nodes_per_page * SHORT_PAGES);
        let most = (settings.nodes_per_page * pages).max(short) as usize;
        Self {
            pages,
            most,
            most_over_text: most.max((short * ROOM_OVER_TEXT) as usize),
            most_of_style: (MAX_STYLE_PER_PAGE * pages) as usize,
            // Clauses of exhibits take no room from the body.
            used: document
                .announced
                .iter()
                .filter(|head| head.rows.0 < main_end)
                .count(),
            is_listed: is_listed(document.announced),
            is_filing: document.is_filing,
        }
    }

    /// Whether the headings of a look are taken. They then use the budget.
    fn admits(&mut self, style: &HeadingStyle, look: &Look, numbered: &[&str]) -> bool {
        let most = if look.over_text == look.count {
            self.most_over_text
        } else {
            self.most
        };
        // Bold lines are headings by any account. Without their level, weaker ones would replace it.
        let fits = !look.dense
            && (self.used + look.count <= most || style.is_bold_line() && self.used < self.most);
        // While less than half of the budget is used and no contents say how deep to go, one dense style may be the
        // level of sections that this document has. Numbers that go on counting mark sections however many there are:
        // without this exception, papers in two columns lost all of theirs.
        let is_free = self.used * 2 < self.most && !self.is_listed && !style.sentence;
        let opens = look.count <= self.most_of_style && (is_free || style.is_numbered())
            || numbering::are_sequential(numbered);
        // The budget says how deep the authors of filings and long books go. Others set only headings apart from their text.
        let is_short = !self.is_filing
            && self.pages <= SHORT_PAGES
            && look.count <= self.most_of_style.max(MIN_STYLE)
            && !style.sentence;
        let admits = fits || opens || is_short;
        self.used += if admits { look.count } else { 0 };
        admits
    }
}

// Statements rank highest among layout headings, unless a section titled `… Financial Statements` is within two pages
// before them; then they are its children. Each statement moves the limit on, so a run of statements stays together.
pub(super) fn lower_statements(heads: &mut [OutlineHead], document: &Document<'_>) {
    let mut above: Option<(u32, u32)> = None;
    for head in heads {
        let page = document.lines.rows[head.rows.0].page;
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
    let ranks: BTreeSet<u32> = heads
        .iter()
        .filter(|head| {
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
fn rank_candidates(document: &Document<'_>, headings: &mut [&mut HeadingCandidate]) {
    let heads = document.announced;
    let order: Vec<HeadingStyle> = headings.iter().map(|heading| heading.style).collect();
    let mut styles = order.clone();
    styles.sort();
    let count = counts(styles.iter().copied());
    styles.dedup();
    let announced: Vec<(usize, HeadingStyle)> = heads
        .iter()
        .enumerate()
        .filter(|(_, head)| {
            head.evidence != EvidenceSource::Grammar && !head.unconfirmed && !head.leaf
        })
        .map(|(at, head)| {
            (
                at,
                style_of(document.lines, &document.lines.rows[head.rows.0]),
            )
        })
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
    if !document.is_filing {
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
    for heading in headings.iter_mut() {
        heading.rank = anchors.get(&heading.style).copied().unwrap_or(LAYOUT_RANK);
    }
    let places = headings
        .iter()
        .map(|heading| (heading.rows.0, heading.rank));
    let enclosing = enclosing_heads(heads, places);
    for (heading, above) in headings.iter_mut().zip(enclosing) {
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

// The level must be clear: at least two announced headings, most of them on one level, and not few compared with the unannounced
// headings of the style. The top level never counts: chapter titles often share their style with headings inside them.
fn anchored_rank(levels: &BTreeMap<u32, usize>, unannounced: usize) -> Option<u32> {
    let total: usize = levels.values().sum();
    let (rank, most) = levels.iter().max_by_key(|(rank, n)| (**n, **rank))?;
    let is_clear = *most >= 2 && most * 2 > total && total * 10 >= unannounced * 4;
    (is_clear && *rank > RANK_STEP).then_some(*rank)
}

/// The style in title case of the headings around a lone title in capitals.
// Capitals rank above title case of the same size. A single `OVERVIEW` between sections in title case is one of them,
// though, and must not become the parent of those that follow.
fn title_case_twin(order: &[HeadingStyle], style: HeadingStyle) -> Option<HeadingStyle> {
    let twin = style.uncapped()?;
    let at = order.iter().position(|other| *other == style)?;
    let lone = !order[at + 1..].contains(&style);
    (lone && order[..at].contains(&twin) && order[at + 1..].contains(&twin)).then_some(twin)
}
