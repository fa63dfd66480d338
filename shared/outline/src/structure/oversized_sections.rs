//! Sections that are too large: headings of lower styles inside their own span, else windows of pages.

use std::collections::BTreeMap;
use std::ops::Range;

use stemma_document::{EvidenceSource, Gap, Page, PageNo, PageSpan};

use super::heading_style::{HeadingStyle, LayoutHeading};
use super::line_features::LineTable;
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::{StructureSettings, windows};

/// Rank of windows: below everything.
const WINDOW_RANK: u32 = u32::MAX;
/// Styles that may split one stretch: each costs a look at all its parts.
const MAX_STYLES: usize = 200;

/// Tokens before each page, and behind the last one.
pub(super) struct PageTokens(Vec<u64>);

impl PageTokens {
    pub(super) fn new(pages: &[Page]) -> Self {
        let mut sum = 0;
        let sums = pages.iter().map(|page| {
            sum += u64::from(windows::tokens_of(page));
            sum
        });
        Self(std::iter::once(0).chain(sums).collect())
    }

    /// Tokens on the pages (indices from 0).
    fn total_on(&self, pages: Range<u32>) -> u64 {
        self.0[pages.end as usize] - self.0[pages.start as usize]
    }
}

/// Where text without a heading of its own is too long: rows `from..to` behind heading `from`.
pub(super) struct RowSpan {
    pub(super) rows: Range<usize>,
}

/// The stretches between neighbouring heads that are over both limits.
pub(super) fn large_spans(
    sheet: &LineTable<'_>,
    tokens: &PageTokens,
    heads: &[OutlineHead],
    settings: &StructureSettings,
) -> Vec<RowSpan> {
    // What stands before the first heading may be too large as well.
    let mut starts: Vec<usize> = std::iter::once(0)
        .chain(heads.iter().map(|head| head.rows.0))
        .collect();
    starts.push(sheet.rows.len());
    large_ranges(sheet, tokens, &starts, settings)
        .into_iter()
        .map(|rows| RowSpan { rows })
        .collect()
}

/// The rows between neighbors among `starts` that are over both limits.
pub(super) fn large_ranges(
    sheet: &LineTable<'_>,
    tokens: &PageTokens,
    starts: &[usize],
    settings: &StructureSettings,
) -> Vec<Range<usize>> {
    let all = starts.windows(2).map(|pair| pair[0]..pair[1]);
    all.filter(|rows| is_large(sheet, tokens, rows, settings))
        .collect()
}

fn is_large(
    sheet: &LineTable<'_>,
    tokens: &PageTokens,
    rows: &Range<usize>,
    settings: &StructureSettings,
) -> bool {
    if rows.is_empty() {
        return false;
    }
    let first = sheet.rows[rows.start].page;
    let last = sheet.rows[rows.end - 1].page;
    let count = last - first + 1;
    count > settings.max_pages_per_node
        && tokens.total_on(first..last + 1) > u64::from(settings.max_tokens_per_node)
}

/// The headings (of those the budget left out) that split a stretch: whole styles from the highest, as few as needed.
pub(super) fn headings_inside<'h>(
    sheet: &LineTable<'_>,
    tokens: &PageTokens,
    stretch: &RowSpan,
    unused: &'h [LayoutHeading],
    settings: &StructureSettings,
) -> Vec<&'h LayoutHeading> {
    let mut styles: BTreeMap<HeadingStyle, Vec<&LayoutHeading>> = BTreeMap::new();
    for heading in unused.iter().filter(|heading: &&LayoutHeading| {
        heading.rows.0 > stretch.rows.start && heading.rows.0 < stretch.rows.end
    }) {
        styles.entry(heading.style).or_default().push(heading);
    }
    let span = sheet.rows[stretch.rows.end - 1].page - sheet.rows[stretch.rows.start].page + 1;
    let mut chosen: Vec<&LayoutHeading> = Vec::new();
    let mut tried = 0;
    for more in styles.into_values() {
        if chosen.len() + more.len() > 2 * span as usize {
            continue;
        }
        chosen.extend(more);
        tried += 1;
        chosen.sort_by_key(|heading| heading.rows.0);
        let mut starts: Vec<usize> = chosen.iter().map(|heading| heading.rows.0).collect();
        starts.insert(0, stretch.rows.start);
        starts.push(stretch.rows.end);
        let settled = starts
            .windows(2)
            .all(|pair| !is_large(sheet, tokens, &(pair[0]..pair[1]), settings));
        if settled || tried == MAX_STYLES {
            break;
        }
    }
    chosen
}

/// A window that stands in for a section.
pub(super) struct PageWindow {
    pub(super) head: OutlineHead,
    pub(super) gap: Gap,
}

/// Windows over the pages of a stretch; those after the first start at the top of their page.
pub(super) fn into_windows(
    sheet: &LineTable<'_>,
    pages: &[Page],
    stretch: &RowSpan,
    settings: &StructureSettings,
) -> Vec<PageWindow> {
    let first = sheet.rows[stretch.rows.start].page as usize;
    let last = sheet.rows[stretch.rows.end - 1].page as usize;
    let cuts = windows::cut_windows(pages, first..last + 1, settings.window_tokens);
    let row_of = |page: usize| sheet.rows_on(page).start.max(stretch.rows.start);
    cuts.iter()
        .filter(|cut| !sheet.rows_on(cut.start).is_empty() || cut.start == first)
        .map(|cut| page_window(row_of(cut.start), cut))
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

/// Ranks of a heading added inside a stretch: by style, below all skeleton ranks.
pub(super) fn rank_of(styles: &[HeadingStyle], style: HeadingStyle) -> u32 {
    let place = styles.binary_search(&style).unwrap_or_else(|at| at);
    LAYOUT_RANK + 10 * u32::try_from(place).unwrap_or(u32::MAX / 20)
}
