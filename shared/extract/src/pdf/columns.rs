//! Reading order: prose columns one after the other, everything else row by row.
//!
//! A gutter requires prose on both sides over several rows and nothing that crosses it. Tables have gutters too, but
//! with numbers or short cells, and are not split.

use super::rows::{GlyphRow, LineGlyph, TextSegment};

const MIN_PROSE_ROWS: usize = 5;
// If rows of both sides rarely share a baseline, one side may be code, formulas or lists, given this many rows.
const MIN_APART_ROWS: usize = 12;
// Larger pages are read row by row, to bound the work.
const MAX_ROWS: usize = 5_000;
// Maximum nesting of columns.
const MAX_DEPTH: usize = 3;
// In ems. A narrower gap than usual counts as a gutter if many lines start after it.
const NARROW_GUTTER: f32 = 0.5;
const NARROW_VOTES: usize = 8;
// Points. Maximum spread of the left edges of a column.
const SAME_EDGE: f32 = 1.0;
// A gutter ends this far left of the text right of it.
const GUTTER_SLACK: f32 = 2.0;

/// Returns lines in reading order. Each line is the segments on one baseline in one column.
/// Columns follow each other to the right, or to the left.
pub(super) fn reading_order(rows: Vec<GlyphRow>, is_left: bool) -> Vec<Vec<TextSegment>> {
    let mut rows = rows;
    split_at_narrow_gutters(&mut rows);
    let mut lines = Vec::new();
    order_rows(rows, is_left, 0, &mut lines);
    lines
}

fn order_rows(rows: Vec<GlyphRow>, is_left: bool, depth: usize, lines: &mut Vec<Vec<TextSegment>>) {
    let band = if depth < MAX_DEPTH {
        best_band(&rows)
    } else {
        None
    };
    let Some(band) = band else {
        lines.extend(rows.into_iter().map(|row| row.segments));
        return;
    };
    let mut before = Vec::new();
    let mut left = Vec::new();
    let mut right = Vec::new();
    let mut after = Vec::new();
    for (index, row) in rows.into_iter().enumerate() {
        if index < band.from {
            before.push(row);
        } else if index >= band.to {
            after.push(row);
        } else {
            let (l, r) = split_row(row, band.gutter);
            left.extend(l);
            right.extend(r);
        }
    }
    let (first, second) = if is_left {
        (right, left)
    } else {
        (left, right)
    };
    order_rows(before, is_left, depth, lines);
    order_rows(first, is_left, depth + 1, lines);
    order_rows(second, is_left, depth + 1, lines);
    order_rows(after, is_left, depth, lines);
}

// A gutter can be narrower than a stretched space. It is then recognized by many lines that start at the same position
// after a gap.
fn split_at_narrow_gutters(rows: &mut [GlyphRow]) {
    if rows.len() < NARROW_VOTES || rows.len() > MAX_ROWS {
        return;
    }
    // Where lines start counts as well: staggered columns share few baselines.
    let mut edges: Vec<f32> = Vec::new();
    for segment in rows.iter().flat_map(|row| &row.segments) {
        edges.push(segment.u0);
        edges.extend(gutter_gaps(segment).map(|(_, mark)| mark.u));
    }
    edges.sort_by(f32::total_cmp);
    let columns: Vec<(f32, f32)> = edges
        .chunk_by(|a, b| b - a < SAME_EDGE / 2.0)
        .filter(|edges| edges.len() >= NARROW_VOTES)
        .filter_map(|edges| Some((*edges.first()?, *edges.last()?)))
        .filter(|(first, last)| last - first < SAME_EDGE)
        .collect();
    if columns.is_empty() {
        return;
    }
    // Columns are sorted and disjoint, so a binary search suffices: a hostile page may have thousands.
    for row in rows {
        let whole = std::mem::take(&mut row.segments);
        row.segments = whole
            .into_iter()
            .flat_map(|segment| {
                split_segment(segment, |u: f32| {
                    let behind = columns.partition_point(|(first, _)| *first <= u);
                    behind
                        .checked_sub(1)
                        .and_then(|at| columns.get(at))
                        .is_some_and(|(_, last)| u <= *last)
                })
            })
            .collect();
    }
}

// Gaps inside a segment that may be gutters, as the glyph after each gap and its index.
fn gutter_gaps(segment: &TextSegment) -> impl Iterator<Item = (usize, &LineGlyph)> {
    let mut end = f32::INFINITY;
    segment.glyphs.iter().enumerate().filter(move |(_, mark)| {
        if mark.is_space() {
            return false;
        }
        let apart = mark.u - end >= NARROW_GUTTER * mark.size;
        end = mark.end();
        apart
    })
}

fn split_segment(segment: TextSegment, is_edge: impl Fn(f32) -> bool) -> Vec<TextSegment> {
    let cuts: Vec<usize> = gutter_gaps(&segment)
        .filter(|(_, mark)| is_edge(mark.u))
        .map(|(index, _)| index)
        .collect();
    if cuts.is_empty() {
        vec![segment]
    } else {
        segment.split_at(&cuts)
    }
}

// Rows `from..to`, split at `gutter`.
#[derive(Debug, Clone, Copy)]
struct ColumnBand {
    gutter: f32,
    from: usize,
    to: usize,
    prose: usize,
}

fn best_band(rows: &[GlyphRow]) -> Option<ColumnBand> {
    if rows.len() < MIN_PROSE_ROWS || rows.len() > MAX_ROWS {
        return None;
    }
    let bands = candidate_gutters(rows)
        .into_iter()
        .flat_map(|gutter| bands_at(rows, gutter));
    // The widest agreement wins; among equals the first gutter from the left.
    bands.fold(None, |best: Option<ColumnBand>, band| match best {
        Some(best) if best.prose >= band.prose => Some(best),
        _ => Some(band),
    })
}

// Gutter positions shared by several rows, most votes first.
fn candidate_gutters(rows: &[GlyphRow]) -> Vec<f32> {
    let mut starts: Vec<f32> = Vec::new();
    for row in rows {
        for pair in row.segments.windows(2) {
            if let [left, right] = pair {
                starts.push(f32::midpoint(left.u1, right.u0));
                starts.push(right.u0 - GUTTER_SLACK);
            }
        }
    }
    // Staggered columns share no baseline: the left edges of their lines are candidates as well.
    starts.extend(
        rows.iter()
            .filter_map(|row| row.segments.first())
            .map(|segment| segment.u0 - GUTTER_SLACK),
    );
    starts.sort_by(f32::total_cmp);
    let mut votes: Vec<(f32, usize)> = Vec::new();
    for start in starts {
        match votes.last_mut() {
            Some((at, count)) if start - *at < GUTTER_SLACK => *count += 1,
            _ => votes.push((start, 1)),
        }
    }
    votes.retain(|(_, count)| *count >= MIN_PROSE_ROWS);
    votes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.total_cmp(&b.0)));
    votes.truncate(12);
    votes.into_iter().map(|(at, _)| at).collect()
}

// Maximal runs of rows that do not cross `gutter` and have prose on both sides.
fn bands_at(rows: &[GlyphRow], gutter: f32) -> Vec<ColumnBand> {
    let mut bands = Vec::new();
    let mut from = 0;
    for to in 0..=rows.len() {
        let is_clear = rows.get(to).is_some_and(|row| {
            !row.segments
                .iter()
                .any(|segment| segment.u0 < gutter && segment.u1 > gutter)
        });
        if is_clear {
            continue;
        }
        let run = rows.get(from..to).unwrap_or_default();
        if let Some(band) = evaluate_gutter(run, gutter) {
            bands.push(ColumnBand {
                from: from + band.from,
                to: from + band.to,
                ..band
            });
        }
        from = to + 1;
    }
    bands
}

#[derive(Default)]
struct GutterSide {
    rows: usize,
    prose: usize,
    first: Option<usize>,
    last: usize,
    left: f32,
    right: f32,
}

fn evaluate_gutter(rows: &[GlyphRow], gutter: f32) -> Option<ColumnBand> {
    let left = measure_side(rows, |segment| segment.u1 <= gutter);
    let right = measure_side(rows, |segment| segment.u0 >= gutter);
    let columns = [&left, &right];
    // Table rows have cells on both sides, so they share baselines; separate columns seldom do.
    let shared = (left.rows + right.rows).saturating_sub(rows.len());
    let fewer = left.rows.min(right.rows);
    let are_apart = shared * 2 < fewer;
    let is_mixed =
        are_apart && fewer >= MIN_APART_ROWS && left.prose.max(right.prose) >= MIN_PROSE_ROWS;
    let share = if are_apart { 4 } else { 2 };
    let is_plausible = is_mixed
        || columns.iter().all(|side: &&GutterSide| {
            side.prose >= MIN_PROSE_ROWS && side.prose * share >= side.rows
        });
    // A gap of more than a third of the width is too wide for a gutter.
    if !is_plausible || right.left - left.right > 0.35 * (right.right - left.left) {
        return None;
    }
    // Rows before and after the prose of both columns (heads, page numbers) are not part of the band.
    let from = left.first?.min(right.first?);
    let to = left.last.max(right.last) + 1;
    Some(ColumnBand {
        gutter,
        from,
        to,
        prose: left.prose.min(right.prose),
    })
}

fn measure_side(rows: &[GlyphRow], belongs: impl Fn(&TextSegment) -> bool) -> GutterSide {
    let mut side = GutterSide {
        left: f32::INFINITY,
        right: f32::NEG_INFINITY,
        ..GutterSide::default()
    };
    let mut parts: Vec<(usize, RowOnSide)> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let mine: Vec<&TextSegment> = row
            .segments
            .iter()
            .filter(|segment| belongs(segment))
            .collect();
        if let (Some(first), Some(last)) = (mine.first(), mine.last()) {
            side.left = side.left.min(first.u0);
            side.right = side.right.max(last.u1);
            parts.push((index, RowOnSide::from_segments(&mine)));
        }
    }
    side.rows = parts.len();
    let width = side.right - side.left;
    for (index, part) in parts {
        if part.is_prose(width) {
            side.prose += 1;
        }
        side.first.get_or_insert(index);
        side.last = index;
    }
    side
}

struct RowOnSide {
    pieces: usize,
    width: f32,
    letters: usize,
    digits: usize,
    spaces: usize,
}

impl RowOnSide {
    fn from_segments(segments: &[&TextSegment]) -> Self {
        Self {
            pieces: segments.len(),
            width: segments.iter().map(|segment| segment.u1 - segment.u0).sum(),
            letters: segments.iter().map(|segment| segment.stats().letters).sum(),
            digits: segments.iter().map(|segment| segment.stats().digits).sum(),
            spaces: segments.iter().map(|segment| segment.stats().spaces).sum(),
        }
    }

    // Several words in one or two segments that fill most of the column.
    fn is_prose(&self, width: f32) -> bool {
        self.pieces <= 2
            && self.width >= 0.55 * width
            && self.letters >= 12
            && self.spaces >= 2
            && self.digits * 3 <= self.letters
    }
}

fn split_row(row: GlyphRow, gutter: f32) -> (Option<GlyphRow>, Option<GlyphRow>) {
    let v = row.v;
    let size = row.size;
    let (left, right): (Vec<TextSegment>, Vec<TextSegment>) = row
        .segments
        .into_iter()
        .partition(|segment| f32::midpoint(segment.u0, segment.u1) < gutter);
    (
        (!left.is_empty()).then_some(GlyphRow {
            segments: left,
            v,
            size,
        }),
        (!right.is_empty()).then_some(GlyphRow {
            segments: right,
            v,
            size,
        }),
    )
}
