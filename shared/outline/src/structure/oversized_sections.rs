//! Splits sections that are too large: at headings of lower styles inside them, otherwise into windows of pages.
//!
//! Leaf sections are the units that retrieval and prompts read. A leaf above both limits does not fit a prompt, so it is
//! split even where the author set no heading.

use std::collections::BTreeMap;
use std::ops::Range;

use stemma_document::{EvidenceSource, Gap, Page, PageNo, PageSpan};

use super::heading_style::{HeadingStyle, LayoutHeading};
use super::line_features::LineTable;
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::{StructureSettings, windows};

// Below every heading, so that a window always becomes a leaf of the section it splits.
const WINDOW_RANK: u32 = u32::MAX;
// Each added style checks all parts of the span again.
const MAX_STYLES: usize = 200;

/// Prefix sums: tokens before each page, and the total.
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

/// Rows of a section without sub-sections, from its heading to the next one.
pub(super) struct RowSpan {
    pub(super) rows: Range<usize>,
}

/// The spans between neighboring heads that are over both limits.
pub(super) fn large_spans(
    sheet: &LineTable<'_>,
    tokens: &PageTokens,
    heads: &[OutlineHead],
    settings: &StructureSettings,
) -> Vec<RowSpan> {
    // The text before the first heading may be too large as well.
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

// Both limits must be exceeded: many nearly empty pages fit a prompt, and a few dense pages are quick to read in full.
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

/// The headings left out by the budget that split a span, in reading order.
// Styles are added whole, so that the parts of one section have the same kind of heading, and only until no part is too
// large. A style with more than two headings per page labels paragraphs and does not divide the section.
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

/// Windows over the pages of a span; all but the first start at the top of their page.
pub(super) fn into_windows(
    sheet: &LineTable<'_>,
    pages: &[Page],
    stretch: &RowSpan,
    settings: &StructureSettings,
) -> Vec<PageWindow> {
    let first = sheet.rows[stretch.rows.start].page as usize;
    let last = sheet.rows[stretch.rows.end - 1].page as usize;
    let cuts = windows::cut_windows(pages, first..last + 1, settings.window_tokens);
    cuts.iter()
        .filter(|cut| !sheet.rows_on(cut.start).is_empty() || cut.start == first)
        .map(|cut| {
            let row = sheet.rows_on(cut.start).start.max(stretch.rows.start);
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

/// The rank of a layout heading by the place of its style among `styles` (sorted), below all announced ranks.
pub(super) fn rank_of(styles: &[HeadingStyle], style: HeadingStyle) -> u32 {
    let place = styles.binary_search(&style).unwrap_or_else(|at| at);
    LAYOUT_RANK + 10 * u32::try_from(place).unwrap_or(u32::MAX / 20)
}
/// Adds windows where a span is still too large, or everywhere if there is no heading at all.
pub(super) fn add_windows(
    sheet: &LineTable<'_>,
    (pages, tokens): (&[Page], &PageTokens),
    heads: &mut Vec<OutlineHead>,
    gaps: &mut Vec<Gap>,
    settings: &StructureSettings,
) {
    if sheet.rows.is_empty() {
        return;
    }
    let whole = RowSpan {
        rows: 0..sheet.rows.len(),
    };
    let stretches = if heads.is_empty() {
        vec![whole]
    } else {
        large_spans(sheet, tokens, heads, settings)
    };
    for stretch in stretches {
        for window in into_windows(sheet, pages, &stretch, settings) {
            heads.push(window.head);
            gaps.push(window.gap);
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}
