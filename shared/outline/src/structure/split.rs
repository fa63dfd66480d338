//! Sections that are too large: headings of lower styles inside their own span, else windows of pages.

use std::collections::BTreeMap;
use std::ops::Range;

use stemma_document::{Gap, Page, PageNo, PageSpan, Witness};

use super::layout::Heading;
use super::lines::Sheet;
use super::skeleton::{Head, LAYOUT};
use super::styles::Style;
use super::{StructureSettings, windows};

/// Rank of windows: below everything.
const WINDOW: u32 = u32::MAX;
/// Styles that may split one stretch: each costs a look at all its parts.
const STYLES: usize = 200;

/// Tokens before each page, and behind the last one.
pub(super) struct Tokens(Vec<u64>);

impl Tokens {
    pub(super) fn of(pages: &[Page]) -> Self {
        let mut sum = 0;
        let sums = pages.iter().map(|page| {
            sum += u64::from(windows::tokens_of(page));
            sum
        });
        Self(std::iter::once(0).chain(sums).collect())
    }

    /// Tokens on the pages (indices from 0).
    fn on(&self, pages: Range<u32>) -> u64 {
        self.0[pages.end as usize] - self.0[pages.start as usize]
    }
}

/// Where text without a heading of its own is too long: rows `from..to` behind heading `from`.
pub(super) struct Stretch {
    pub(super) rows: Range<usize>,
}

/// The stretches between neighbouring heads that are over both limits.
pub(super) fn large(
    sheet: &Sheet<'_>,
    tokens: &Tokens,
    heads: &[Head],
    settings: &StructureSettings,
) -> Vec<Stretch> {
    // What stands before the first heading may be too large as well.
    let mut starts: Vec<usize> = std::iter::once(0)
        .chain(heads.iter().map(|head| head.rows.0))
        .collect();
    starts.push(sheet.rows.len());
    stretches(sheet, tokens, &starts, settings)
        .into_iter()
        .map(|rows| Stretch { rows })
        .collect()
}

/// The rows between neighbors among `starts` that are over both limits.
pub(super) fn stretches(
    sheet: &Sheet<'_>,
    tokens: &Tokens,
    starts: &[usize],
    settings: &StructureSettings,
) -> Vec<Range<usize>> {
    let all = starts.windows(2).map(|pair| pair[0]..pair[1]);
    all.filter(|rows| is_large(sheet, tokens, rows, settings))
        .collect()
}

fn is_large(
    sheet: &Sheet<'_>,
    tokens: &Tokens,
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
        && tokens.on(first..last + 1) > u64::from(settings.max_tokens_per_node)
}

/// The headings (of those the budget left out) that split a stretch: whole styles from the highest, as few as needed.
pub(super) fn headings_inside<'h>(
    sheet: &Sheet<'_>,
    tokens: &Tokens,
    stretch: &Stretch,
    left: &'h [Heading],
    settings: &StructureSettings,
) -> Vec<&'h Heading> {
    let mut styles: BTreeMap<Style, Vec<&Heading>> = BTreeMap::new();
    for heading in left.iter().filter(|heading: &&Heading| {
        heading.rows.0 > stretch.rows.start && heading.rows.0 < stretch.rows.end
    }) {
        styles.entry(heading.style).or_default().push(heading);
    }
    let span = sheet.rows[stretch.rows.end - 1].page - sheet.rows[stretch.rows.start].page + 1;
    let mut taken: Vec<&Heading> = Vec::new();
    let mut tried = 0;
    for more in styles.into_values() {
        if taken.len() + more.len() > 2 * span as usize {
            continue;
        }
        taken.extend(more);
        tried += 1;
        taken.sort_by_key(|heading| heading.rows.0);
        let mut starts: Vec<usize> = taken.iter().map(|heading| heading.rows.0).collect();
        starts.insert(0, stretch.rows.start);
        starts.push(stretch.rows.end);
        let settled = starts
            .windows(2)
            .all(|pair| !is_large(sheet, tokens, &(pair[0]..pair[1]), settings));
        if settled || tried == STYLES {
            break;
        }
    }
    taken
}

/// A window that stands in for a section.
pub(super) struct Window {
    pub(super) head: Head,
    pub(super) gap: Gap,
}

/// Windows over the pages of a stretch; those after the first start at the top of their page.
pub(super) fn into_windows(
    sheet: &Sheet<'_>,
    pages: &[Page],
    stretch: &Stretch,
    settings: &StructureSettings,
) -> Vec<Window> {
    let first = sheet.rows[stretch.rows.start].page as usize;
    let last = sheet.rows[stretch.rows.end - 1].page as usize;
    let cuts = windows::cut(pages, first..last + 1, settings.window_tokens);
    let row_of = |page: usize| sheet.on(page).start.max(stretch.rows.start);
    cuts.iter()
        .filter(|cut| !sheet.on(cut.start).is_empty() || cut.start == first)
        .map(|cut| window(row_of(cut.start), cut))
        .collect()
}

fn window(row: usize, cut: &Range<usize>) -> Window {
    let pages = PageSpan::between(
        PageNo::from_index(cut.start),
        PageNo::from_index(cut.end - 1),
    );
    let gap = Gap {
        code: super::WINDOWS.into(),
        pages: Some(pages),
        detail: "no headings were found here; a window of pages stands in for a section".into(),
    };
    let head = Head {
        rows: (row, row),
        title: windows::title(cut),
        number: None,
        printed: None,
        target: None,
        witness: Witness::Window,
        unconfirmed: false,
        rank: WINDOW,
        leaf: false,
    };
    Window { head, gap }
}

/// Ranks of a heading added inside a stretch: by style, below all skeleton ranks.
pub(super) fn rank_of(styles: &[Style], style: Style) -> u32 {
    let place = styles.binary_search(&style).unwrap_or_else(|at| at);
    LAYOUT + 10 * u32::try_from(place).unwrap_or(u32::MAX / 20)
}
