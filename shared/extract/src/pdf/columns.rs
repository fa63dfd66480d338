//! Reading order: columns of prose one after the other, everything else row by row.
//!
//! A gutter is believed only where prose stands on both sides of it over several rows and nothing crosses it. Tables have
//! gutters too, but numbers or short cells beside them, and stay whole.

use super::rows::{Mark, Row, Segment};

/// Rows with prose a side needs.
const MIN_PROSE_ROWS: usize = 5;
/// Rows a side needs where the lines of both sides do not meet; then one side may be code, formulas or lists.
const MIN_APART_ROWS: usize = 12;
/// Pages with more rows than this are read row by row.
const MAX_ROWS: usize = 5_000;
/// Columns inside columns.
const MAX_DEPTH: usize = 3;
/// A gap as wide as this (in ems) may be a narrow gutter, where enough lines start behind it.
const NARROW_GUTTER: f32 = 0.5;
/// Lines that must start behind a narrow gutter.
const NARROW_VOTES: usize = 8;
/// Left edges of one column differ by less than this, in points.
const SAME_EDGE: f32 = 1.0;

/// The lines of rows in reading order; each is the segments of one baseline in one column.
pub(super) fn reading_order(rows: Vec<Row>) -> Vec<Vec<Segment>> {
    let mut rows = rows;
    split_at_narrow_gutters(&mut rows);
    let mut lines = Vec::new();
    order(rows, 0, &mut lines);
    lines
}

fn order(rows: Vec<Row>, depth: usize, lines: &mut Vec<Vec<Segment>>) {
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
            let (l, r) = cut(row, band.gutter);
            left.extend(l);
            right.extend(r);
        }
    }
    order(before, depth, lines);
    order(left, depth + 1, lines);
    order(right, depth + 1, lines);
    order(after, depth, lines);
}

/// A gutter can be narrower than a stretched space. Then it shows in many lines that start at one edge behind a gap.
fn split_at_narrow_gutters(rows: &mut [Row]) {
    if rows.len() < NARROW_VOTES || rows.len() > MAX_ROWS {
        return;
    }
    // Where lines start counts as well: staggered columns share few baselines.
    let mut edges: Vec<f32> = Vec::new();
    for segment in rows.iter().flat_map(|row| &row.segments) {
        edges.push(segment.u0);
        edges.extend(gaps(segment).map(|(_, mark)| mark.u));
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
    // Columns rise and lie apart: a page as wide as it likes may have thousands.
    for row in rows {
        let whole = std::mem::take(&mut row.segments);
        row.segments = whole
            .into_iter()
            .flat_map(|segment| {
                cut_at(segment, |u: f32| {
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

/// Gaps inside a segment that may be gutters: the index of the mark behind each, and that mark.
fn gaps(segment: &Segment) -> impl Iterator<Item = (usize, &Mark)> {
    let mut end = f32::INFINITY;
    segment.marks.iter().enumerate().filter(move |(_, mark)| {
        if mark.is_space() {
            return false;
        }
        let apart = mark.u - end >= NARROW_GUTTER * mark.size;
        end = mark.end();
        apart
    })
}

fn cut_at(segment: Segment, is_edge: impl Fn(f32) -> bool) -> Vec<Segment> {
    let cuts: Vec<usize> = gaps(&segment)
        .filter(|(_, mark)| is_edge(mark.u))
        .map(|(index, _)| index)
        .collect();
    if cuts.is_empty() {
        vec![segment]
    } else {
        segment.cut(&cuts)
    }
}

/// Rows `from..to`, divided at `gutter`.
#[derive(Debug, Clone, Copy)]
struct Band {
    gutter: f32,
    from: usize,
    to: usize,
    prose: usize,
}

fn best_band(rows: &[Row]) -> Option<Band> {
    if rows.len() < MIN_PROSE_ROWS || rows.len() > MAX_ROWS {
        return None;
    }
    let bands = candidate_gutters(rows)
        .into_iter()
        .flat_map(|gutter| bands_at(rows, gutter));
    // The widest agreement wins; among equals the first gutter from the left.
    bands.fold(None, |best: Option<Band>, band| match best {
        Some(best) if best.prose >= band.prose => Some(best),
        _ => Some(band),
    })
}

/// Middles of gaps that several rows share, from left to right.
fn candidate_gutters(rows: &[Row]) -> Vec<f32> {
    let mut starts: Vec<f32> = Vec::new();
    for row in rows {
        for pair in row.segments.windows(2) {
            if let [left, right] = pair {
                starts.push((left.u1 + right.u0) / 2.0);
                starts.push(right.u0 - 2.0);
            }
        }
    }
    // Staggered columns share no baseline: the left edges of their lines are candidates as well.
    starts.extend(
        rows.iter()
            .filter_map(|row| row.segments.first())
            .map(|segment| segment.u0 - 2.0),
    );
    starts.sort_by(f32::total_cmp);
    let mut votes: Vec<(f32, usize)> = Vec::new();
    for start in starts {
        match votes.last_mut() {
            Some((at, count)) if start - *at < 2.0 => *count += 1,
            _ => votes.push((start, 1)),
        }
    }
    votes.retain(|(_, count)| *count >= MIN_PROSE_ROWS);
    votes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.total_cmp(&b.0)));
    votes.truncate(12);
    votes.into_iter().map(|(at, _)| at).collect()
}

/// The maximal stretches of rows that nothing crosses at `gutter` and that have prose on both sides.
fn bands_at(rows: &[Row], gutter: f32) -> Vec<Band> {
    let crossed = |row: &Row| {
        row.segments
            .iter()
            .any(|segment| segment.u0 < gutter && segment.u1 > gutter)
    };
    let mut bands = Vec::new();
    let mut from = 0;
    for to in 0..=rows.len() {
        if rows.get(to).is_some_and(|row| !crossed(row)) {
            continue;
        }
        let stretch = rows.get(from..to).unwrap_or_default();
        if let Some(band) = judge(stretch, gutter) {
            bands.push(Band {
                from: from + band.from,
                to: from + band.to,
                ..band
            });
        }
        from = to + 1;
    }
    bands
}

/// What one side of a gutter looks like.
#[derive(Default)]
struct Side {
    rows: usize,
    prose: usize,
    first: Option<usize>,
    last: usize,
    left: f32,
    right: f32,
}

fn judge(rows: &[Row], gutter: f32) -> Option<Band> {
    let left = side(rows, |segment| segment.u1 <= gutter);
    let right = side(rows, |segment| segment.u0 >= gutter);
    let columns = [&left, &right];
    // Rows of a table have cells on both sides; lines of columns set apart from each other seldom meet.
    let shared = (left.rows + right.rows).saturating_sub(rows.len());
    let fewer = left.rows.min(right.rows);
    let apart = shared * 2 < fewer;
    let mixed = apart && fewer >= MIN_APART_ROWS && left.prose.max(right.prose) >= MIN_PROSE_ROWS;
    let share = if apart { 4 } else { 2 };
    let believable = mixed
        || columns
            .iter()
            .all(|side: &&Side| side.prose >= MIN_PROSE_ROWS && side.prose * share >= side.rows);
    if !believable || right.left - left.right > 0.35 * (right.right - left.left) {
        return None;
    }
    // Rows above and below both columns' prose (heads, page numbers) are not part of the band.
    let from = left.first?.min(right.first?);
    let to = left.last.max(right.last) + 1;
    Some(Band {
        gutter,
        from,
        to,
        prose: left.prose.min(right.prose),
    })
}

fn side(rows: &[Row], belongs: impl Fn(&Segment) -> bool) -> Side {
    let mut side = Side {
        left: f32::INFINITY,
        right: f32::NEG_INFINITY,
        ..Side::default()
    };
    let mut parts: Vec<(usize, Part)> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let mine: Vec<&Segment> = row
            .segments
            .iter()
            .filter(|segment| belongs(segment))
            .collect();
        if let (Some(first), Some(last)) = (mine.first(), mine.last()) {
            side.left = side.left.min(first.u0);
            side.right = side.right.max(last.u1);
            parts.push((index, Part::of(&mine)));
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

/// A row on one side of a gutter.
struct Part {
    pieces: usize,
    width: f32,
    letters: usize,
    digits: usize,
    spaces: usize,
}

impl Part {
    fn of(segments: &[&Segment]) -> Self {
        Self {
            pieces: segments.len(),
            width: segments.iter().map(|segment| segment.u1 - segment.u0).sum(),
            letters: segments.iter().map(|segment| segment.shape().letters).sum(),
            digits: segments.iter().map(|segment| segment.shape().digits).sum(),
            spaces: segments.iter().map(|segment| segment.shape().spaces).sum(),
        }
    }

    /// Several words in one or two pieces that fill most of the column.
    fn is_prose(&self, width: f32) -> bool {
        self.pieces <= 2
            && self.width >= 0.55 * width
            && self.letters >= 12
            && self.spaces >= 2
            && self.digits * 3 <= self.letters
    }
}

fn cut(row: Row, gutter: f32) -> (Option<Row>, Option<Row>) {
    let v = row.v;
    let size = row.size;
    let (left, right): (Vec<Segment>, Vec<Segment>) = row
        .segments
        .into_iter()
        .partition(|segment| (segment.u0 + segment.u1) / 2.0 < gutter);
    let make = |segments: Vec<Segment>| (!segments.is_empty()).then_some(Row { segments, v, size });
    (make(left), make(right))
}
