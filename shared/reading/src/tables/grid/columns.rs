//! The columns that a reader sees: filers give each figure several cells, for its sign, its digits and the space behind.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::row_cells::{CellKind, RowCell};

// A second column of text has cells in as many rows at least; a single text next to a label belongs to it.
const MIN_TEXTS: usize = 2;
// Rows in which columns are looked for.
const MAX_ROWS: usize = 500;

/// The columns of a table behind those of its labels.
#[derive(Debug)]
pub(crate) struct Columns {
    // Columns of the file that the cells of each cover.
    ranges: Vec<Range<u16>>,
    // First column of the labels.
    label_start: u16,
    label_end: u16,
}

#[derive(Debug)]
struct Cluster {
    range: Range<u16>,
    rows: BTreeSet<usize>,
}

impl Columns {
    /// The columns of rows with figures. `heads` are the texts above them.
    pub(crate) fn new<'a>(
        rows: impl Iterator<Item = &'a [RowCell]>,
        heads: &[&'a RowCell],
    ) -> Self {
        let rows: Vec<&[RowCell]> = rows.take(MAX_ROWS).collect();
        let first = rows.iter().filter_map(|row| row.first());
        let label_start = first.map(|cell| cell.columns.start).min().unwrap_or(0);
        let is_behind_label =
            |at: usize, cell: &RowCell| at > 0 || cell.columns.start > label_start;
        let mut clusters: Vec<Cluster> = Vec::new();
        for kind in [CellKind::Figure, CellKind::Text] {
            let mut found: Vec<(usize, &RowCell)> = Vec::new();
            for (row, cells) in rows.iter().enumerate() {
                let cells = cells.iter().enumerate();
                let cells =
                    cells.filter(|(at, cell)| cell.kind == kind && is_behind_label(*at, cell));
                // The first text of a row is its label, whatever its indentation.
                let is_cell = |(at, _): &(usize, &RowCell)| kind == CellKind::Figure || *at > 0;
                found.extend(cells.filter(is_cell).map(|(_, cell)| (row, cell)));
            }
            if kind == CellKind::Text {
                let is_known = |cell: &RowCell| {
                    let mut known = clusters.iter();
                    known.any(|cluster| overlap(&cluster.range, &cell.columns) > 0)
                };
                found.retain(|(_, cell)| !is_known(cell));
                let mut texts = clustered(found);
                let first = clusters.iter().map(|cluster| cluster.range.start).min();
                // A second text without a head over it is a part of the label.
                texts.retain(|cluster| {
                    let mut over = heads.iter().filter(|head| head.columns.start > label_start);
                    let has_head = over.any(|head| overlap(&cluster.range, &head.columns) > 0);
                    let is_inside = first.is_some_and(|first| first < cluster.range.start);
                    cluster.rows.len() >= MIN_TEXTS && (has_head || is_inside)
                });
                clusters.extend(texts);
            } else {
                clusters = clustered(found);
            }
        }
        clusters.sort_by_key(|cluster| cluster.range.start);
        let ranges: Vec<Range<u16>> = clusters.into_iter().map(|cluster| cluster.range).collect();
        let label_end = ranges.first().map_or(label_start, |range| range.start);
        Self {
            ranges,
            label_start,
            label_end,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first column of the file behind those of the labels.
    pub(crate) fn label_end(&self) -> u16 {
        self.label_end
    }

    /// Whether a first cell is where labels are.
    pub(crate) fn is_label(&self, cell: &RowCell) -> bool {
        cell.columns.start <= self.label_start
            || cell.kind == CellKind::Text && cell.columns.start < self.label_end
    }

    /// The column of a cell.
    pub(crate) fn find(&self, cell: &RowCell) -> Option<usize> {
        let shared = |at: &usize| {
            let range = &self.ranges[*at];
            // Of columns that it covers alike, the one with which it ends.
            (overlap(range, &cell.columns), range.end == cell.columns.end)
        };
        let best = (0..self.ranges.len()).max_by_key(shared)?;
        (shared(&best).0 > 0).then_some(best)
    }

    /// The columns that a cell covers in part at least.
    pub(crate) fn overlapped(&self, cell: &RowCell) -> Vec<usize> {
        let all = 0..self.ranges.len();
        all.filter(|at| self.is_under(*at, cell)).collect()
    }

    /// Columns of the file that a column covers.
    pub(crate) fn range(&self, column: usize) -> Range<u16> {
        self.ranges.get(column).cloned().unwrap_or_default()
    }

    /// Whether a column is under a cell.
    pub(crate) fn is_under(&self, column: usize, cell: &RowCell) -> bool {
        let range = self.ranges.get(column);
        range.is_some_and(|range| overlap(range, &cell.columns) > 0)
    }
}

fn overlap(one: &Range<u16>, two: &Range<u16>) -> u16 {
    one.end
        .min(two.end)
        .saturating_sub(one.start.max(two.start))
}

// Cells that share columns of the file are one column. The narrow ones come first: a wide one over several columns that have
// figures in one row joins none of them.
fn clustered(mut cells: Vec<(usize, &RowCell)>) -> Vec<Cluster> {
    cells.sort_by_key(|(row, cell)| (cell.columns.len(), cell.columns.start, *row));
    // Equal cells are one step, so that the work depends on the shape of a table and not on its length.
    let mut shapes: BTreeMap<(usize, u16), (Range<u16>, BTreeSet<usize>)> = BTreeMap::new();
    for (row, cell) in cells {
        let key = (cell.columns.len(), cell.columns.start);
        let shape = shapes
            .entry(key)
            .or_insert_with(|| (cell.columns.clone(), BTreeSet::new()));
        shape.1.insert(row);
    }
    let mut clusters: Vec<Cluster> = Vec::new();
    for (range, rows) in shapes.into_values() {
        let (mut hit, rest): (Vec<Cluster>, Vec<Cluster>) = clusters
            .into_iter()
            .partition(|cluster| overlap(&cluster.range, &range) > 0);
        clusters = rest;
        let all: usize = hit.iter().map(|cluster| cluster.rows.len()).sum();
        let joint: BTreeSet<usize> = hit
            .iter()
            .flat_map(|cluster| &cluster.rows)
            .copied()
            .collect();
        if joint.len() < all {
            let same_end = hit
                .iter()
                .rposition(|cluster| cluster.range.end == range.end);
            let at = same_end.unwrap_or(hit.len() - 1);
            hit[at].rows.extend(rows);
            clusters.append(&mut hit);
            continue;
        }
        let ranges = hit.iter().map(|cluster| &cluster.range);
        let start = ranges
            .clone()
            .map(|range| range.start)
            .fold(range.start, u16::min);
        let end = ranges.map(|range| range.end).fold(range.end, u16::max);
        let mut joined = Cluster {
            range: start..end,
            rows: joint,
        };
        joined.rows.extend(rows);
        clusters.push(joined);
    }
    clusters
}
