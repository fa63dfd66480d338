//! Splits sections that are too large: at headings that the budget left out, otherwise into windows of pages.
//!
//! Leaf sections are the units that retrieval and prompts read. A leaf above both limits of the settings does not fit a
//! prompt, so it is split even where the author set no heading.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_document::{EvidenceSource, Gap, Page, PageNo, PageSpan};

use super::heading_style::{HeadingStyle, LayoutHeading};
use super::line_features::LineTable;
use super::outline_head::{OutlineHead, enclosing_heads};
use super::{StructureSettings, windows};

// Below every heading, so that a window always becomes a leaf of the section it splits.
const WINDOW_RANK: u32 = u32::MAX;
// A leaf above this many tokens is divided at its headings. Smaller limits add headings that are finer than what authors
// list in outlines (ablation in ADR 0008).
const DIVIDED_TOKENS: u64 = 8_000;
// A style whose parts are smaller on average labels paragraphs.
const PART_TOKENS: u64 = 100;
// Each style reads the headings of its section again; more than eight levels below a section are no division of it.
const MAX_STYLES: usize = 8;

/// Prefix sums: tokens before each row, and the total.
pub(super) struct RowTokens(Vec<u64>);

impl RowTokens {
    pub(super) fn new(lines: &LineTable<'_>, pages: &[Page]) -> Self {
        let mut sum = 0;
        let sums = lines.rows.iter().map(|row| {
            let line = &pages[row.page as usize].lines[row.line as usize];
            sum += u64::from(windows::tokens_of_line(line));
            sum
        });
        Self(std::iter::once(0).chain(sums).collect())
    }

    pub(super) fn total_in(&self, rows: &Range<usize>) -> u64 {
        self.0[rows.end] - self.0[rows.start]
    }
}

/// Rows of a section without sub-sections, from its heading to the next one.
pub(super) struct RowSpan {
    pub(super) rows: Range<usize>,
}

/// The spans between neighboring heads that are over both limits.
pub(super) fn large_spans(
    lines: &LineTable<'_>,
    tokens: &RowTokens,
    heads: &[OutlineHead],
    settings: &StructureSettings,
) -> Vec<RowSpan> {
    // The text before the first heading may be too large as well.
    let mut starts: Vec<usize> = std::iter::once(0)
        .chain(heads.iter().map(|head| head.rows.0))
        .collect();
    starts.push(lines.rows.len());
    large_ranges(lines, tokens, &starts, settings)
        .into_iter()
        .map(|rows| RowSpan { rows })
        .collect()
}

/// The rows between neighbors among `starts` that are over both limits.
pub(super) fn large_ranges(
    lines: &LineTable<'_>,
    tokens: &RowTokens,
    starts: &[usize],
    settings: &StructureSettings,
) -> Vec<Range<usize>> {
    let all = starts.windows(2).map(|pair| pair[0]..pair[1]);
    all.filter(|rows| is_large(lines, tokens, rows, settings))
        .collect()
}

// Both limits must be exceeded: many nearly empty pages fit a prompt, and a few dense pages are quick to read in full.
fn is_large(
    lines: &LineTable<'_>,
    tokens: &RowTokens,
    rows: &Range<usize>,
    settings: &StructureSettings,
) -> bool {
    if rows.is_empty() {
        return false;
    }
    let first = lines.rows[rows.start].page;
    let last = lines.rows[rows.end - 1].page;
    last - first + 1 > settings.max_pages_per_node
        && tokens.total_in(rows) > u64::from(settings.max_tokens_per_node)
}

/// Adds headings that the budget left out inside leaves above `DIVIDED_TOKENS`.
// A style is added to all of the section that encloses it: an added heading may be larger than headings of the next leaf,
// and these would belong to it for good if the next heading of its style were missing.
pub(super) fn divide_leaves(
    lines: &LineTable<'_>,
    tokens: &RowTokens,
    heads: &mut Vec<OutlineHead>,
    unused: &[LayoutHeading],
) {
    let mut starts: Vec<usize> = heads.iter().map(|head| head.rows.1).collect();
    starts.insert(0, 0);
    starts.push(lines.rows.len());
    let mut chosen = vec![false; unused.len()];
    for pair in starts.windows(2).filter(|pair| pair[0] < pair[1]) {
        divide(tokens, pair[0]..pair[1], unused, MAX_STYLES, &mut chosen);
    }
    let places = unused.iter().map(|heading| (heading.rows.0, heading.rank));
    let enclosing = enclosing_heads(heads, places);
    let key = |at: usize| (enclosing[at], unused[at].rank, unused[at].style);
    let styles: BTreeSet<_> = (0..unused.len())
        .filter(|at| chosen[*at])
        .map(key)
        .collect();
    let added = (0..unused.len()).filter(|at| styles.contains(&key(*at)));
    heads.extend(added.map(|at| OutlineHead::from_layout(&unused[at])));
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}

/// Divides `rows` at their headings of the highest style, and each part again while it is too large.
// A style is taken whole, so that the parts of one section have the same kind of heading.
fn divide(
    tokens: &RowTokens,
    rows: Range<usize>,
    unused: &[LayoutHeading],
    styles: usize,
    chosen: &mut [bool],
) {
    let total = tokens.total_in(&rows);
    if styles == 0 || total <= DIVIDED_TOKENS {
        return;
    }
    let from = unused.partition_point(|heading| heading.rows.0 <= rows.start);
    let to = unused.partition_point(|heading| heading.rows.0 < rows.end);
    let mut counts: BTreeMap<(u32, HeadingStyle), u64> = BTreeMap::new();
    for heading in unused.get(from..to).unwrap_or_default() {
        *counts.entry((heading.rank, heading.style)).or_default() += 1;
    }
    let Some((highest, _)) = counts
        .into_iter()
        .find(|(_, count)| total / (count + 1) >= PART_TOKENS)
    else {
        return;
    };
    let mut start = rows.start;
    for at in (from..to).filter(|at| (unused[*at].rank, unused[*at].style) == highest) {
        chosen[at] = true;
        divide(tokens, start..unused[at].rows.0, unused, styles - 1, chosen);
        start = unused[at].rows.1;
    }
    divide(tokens, start..rows.end, unused, styles - 1, chosen);
}

/// A window that stands in for a section.
pub(super) struct PageWindow {
    pub(super) head: OutlineHead,
    pub(super) gap: Gap,
}

/// Windows over the pages of a span; all but the first start at the top of their page.
pub(super) fn into_windows(
    lines: &LineTable<'_>,
    pages: &[Page],
    stretch: &RowSpan,
    settings: &StructureSettings,
) -> Vec<PageWindow> {
    let first = lines.rows[stretch.rows.start].page as usize;
    let last = lines.rows[stretch.rows.end - 1].page as usize;
    let cuts = windows::cut_windows(pages, first..last + 1, settings.window_tokens);
    cuts.iter()
        .filter(|cut| !lines.rows_on(cut.start).is_empty() || cut.start == first)
        .map(|cut| {
            let row = lines.rows_on(cut.start).start.max(stretch.rows.start);
            page_window(row, cut)
        })
        .collect()
}

fn page_window(row: usize, cut: &Range<usize>) -> PageWindow {
    let pages = PageSpan::between(
        PageNo::from_index(cut.start),
        PageNo::from_index(cut.end - 1),
    );
    let gap = Gap {
        code: super::WINDOWS.into(),
        pages: Some(pages),
        detail: "no headings were found here; a window of pages stands in for a section".into(),
    };
    let head = OutlineHead {
        rows: (row, row),
        title: windows::window_title(cut),
        number: None,
        printed: None,
        target: None,
        evidence: EvidenceSource::Window,
        unconfirmed: false,
        rank: WINDOW_RANK,
        leaf: false,
    };
    PageWindow { head, gap }
}

/// Adds windows where a span is still too large, or everywhere if there is no heading at all.
pub(super) fn add_windows(
    lines: &LineTable<'_>,
    (pages, tokens): (&[Page], &RowTokens),
    heads: &mut Vec<OutlineHead>,
    gaps: &mut Vec<Gap>,
    settings: &StructureSettings,
) {
    if lines.rows.is_empty() {
        return;
    }
    let whole = RowSpan {
        rows: 0..lines.rows.len(),
    };
    let stretches = if heads.is_empty() {
        vec![whole]
    } else {
        large_spans(lines, tokens, heads, settings)
    };
    for stretch in stretches {
        for window in into_windows(lines, pages, &stretch, settings) {
            heads.push(window.head);
            gaps.push(window.gap);
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}
