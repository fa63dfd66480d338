//! Splits sections that are too large: at headings that the budget left out, otherwise into windows of pages.
//!
//! Leaf sections are the units that retrieval and prompts read. A leaf above both limits of the settings does not fit a
//! prompt, so it is split even where the author set no heading.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_document::{EvidenceSource, Gap, Page, PageNo, PageSpan};

use super::heading_candidate::HeadingCandidate;
use super::heading_style::HeadingStyle;
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
// Each style reads the headings of its section again; more than eight levels below a section do not divide it.
const MAX_STYLES: usize = 8;

/// Prefix sums: tokens before each row or line, and the total.
pub(super) struct RowTokens(Vec<u64>);

impl RowTokens {
    pub(super) fn new(counts: impl Iterator<Item = u32>) -> Self {
        let mut sum = 0;
        let sums = counts.map(|count| {
            sum += u64::from(count);
            sum
        });
        Self(std::iter::once(0).chain(sums).collect())
    }

    pub(super) fn from_rows(lines: &LineTable<'_>, pages: &[Page]) -> Self {
        Self::new(
            lines.rows.iter().map(|row| {
                windows::tokens_of_line(&pages[row.page as usize].lines[row.line as usize])
            }),
        )
    }

    pub(super) fn total_in(&self, rows: &Range<usize>) -> u64 {
        self.0[rows.end] - self.0[rows.start]
    }

    /// Tokens of lines `from..to` of a text, counted from 1.
    pub(super) fn between(&self, from: u32, to: u32) -> u64 {
        let before = |line: u32| self.0[(line.max(1) as usize - 1).min(self.0.len() - 1)];
        before(to).saturating_sub(before(from))
    }
}

/// The rows between neighboring heads that are over both limits.
fn large_spans(
    lines: &LineTable<'_>,
    tokens: &RowTokens,
    heads: &[OutlineHead],
    settings: &StructureSettings,
) -> Vec<Range<usize>> {
    // The text before the first heading may be too large as well.
    let starts: Vec<usize> = std::iter::once(0)
        .chain(heads.iter().map(|head| head.rows.0))
        .chain([lines.rows.len()])
        .collect();
    starts
        .windows(2)
        .map(|pair| pair[0]..pair[1])
        .filter(|rows| is_large(lines, tokens, rows, settings))
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

/// Which of the headings that the budget left out divide leaves above `DIVIDED_TOKENS`.
// A style is added to all of the section that encloses it: an added heading may be larger than headings of the next leaf,
// and these would belong to it for good if the next heading of its style were missing.
pub(super) fn dividing_headings(
    lines: &LineTable<'_>,
    tokens: &RowTokens,
    heads: &[OutlineHead],
    left_out: &[&HeadingCandidate],
) -> Vec<bool> {
    let mut starts: Vec<usize> = heads.iter().map(|head| head.rows.1).collect();
    starts.insert(0, 0);
    starts.push(lines.rows.len());
    let mut chosen = vec![false; left_out.len()];
    for pair in starts.windows(2).filter(|pair| pair[0] < pair[1]) {
        divide(tokens, pair[0]..pair[1], left_out, MAX_STYLES, &mut chosen);
    }
    let places = left_out
        .iter()
        .map(|heading| (heading.rows.0, heading.rank));
    let enclosing = enclosing_heads(heads, places);
    let key = |at: usize| (enclosing[at], left_out[at].rank, left_out[at].style);
    let styles: BTreeSet<_> = (0..left_out.len())
        .filter(|at| chosen[*at])
        .map(key)
        .collect();
    (0..left_out.len())
        .map(|at| styles.contains(&key(at)))
        .collect()
}

/// Divides `rows` at their headings of the highest style, and each part again while it is too large.
// A style is taken whole, so that the parts of one section have the same kind of heading.
fn divide(
    tokens: &RowTokens,
    rows: Range<usize>,
    left_out: &[&HeadingCandidate],
    styles: usize,
    chosen: &mut [bool],
) {
    let total = tokens.total_in(&rows);
    if styles == 0 || total <= DIVIDED_TOKENS {
        return;
    }
    let from = left_out.partition_point(|heading| heading.rows.0 <= rows.start);
    let to = left_out.partition_point(|heading| heading.rows.0 < rows.end);
    let mut counts: BTreeMap<(u32, HeadingStyle), u64> = BTreeMap::new();
    for heading in left_out.get(from..to).unwrap_or_default() {
        *counts.entry((heading.rank, heading.style)).or_default() += 1;
    }
    let Some((highest, _)) = counts
        .into_iter()
        .find(|(_, count)| total / (count + 1) >= PART_TOKENS)
    else {
        return;
    };
    let mut start = rows.start;
    for at in (from..to).filter(|at| (left_out[*at].rank, left_out[*at].style) == highest) {
        chosen[at] = true;
        divide(
            tokens,
            start..left_out[at].rows.0,
            left_out,
            styles - 1,
            chosen,
        );
        start = left_out[at].rows.1;
    }
    divide(tokens, start..rows.end, left_out, styles - 1, chosen);
}

/// Adds windows of pages where a span is still too large, or everywhere if there is no heading at all. All windows of a span
/// but the first start at the top of their page.
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
    let spans = if heads.is_empty() {
        std::iter::once(0..lines.rows.len()).collect()
    } else {
        large_spans(lines, tokens, heads, settings)
    };
    for span in spans {
        let first = lines.rows[span.start].page as usize;
        let last = lines.rows[span.end - 1].page as usize;
        for cut in windows::cut_windows(pages, first..last + 1, settings.window_tokens) {
            let rows = lines.rows_on(cut.start);
            if !rows.is_empty() || cut.start == first {
                heads.push(window_head(rows.start.max(span.start), &cut));
                gaps.push(window_gap(&cut));
            }
        }
    }
    heads.sort_by_key(|head| (head.rows.0, head.rank));
}

fn window_head(row: usize, cut: &Range<usize>) -> OutlineHead {
    let title = windows::window_title(cut);
    OutlineHead {
        number: None,
        ..OutlineHead::new((row, row), title, EvidenceSource::Window, WINDOW_RANK)
    }
}

fn window_gap(cut: &Range<usize>) -> Gap {
    let first = PageNo::from_index(cut.start);
    Gap {
        code: super::WINDOWS.into(),
        pages: Some(PageSpan::between(first, PageNo::from_index(cut.end - 1))),
        detail: "no headings were found here; a window of pages replaces a section".into(),
    }
}
