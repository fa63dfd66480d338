//! Heads of columns: their lines as cells, and the columns under each.

use std::ops::RangeInclusive;

use crate::period::{head_period, is_day_of_year};
use crate::tables::grid::RowCell;
use crate::tables::surroundings::{is_unit, unit_of};

/// Left and right edge: of a head, or of the text in a column.
pub(super) type Extent = (f32, f32);

// Lines of one head are as far apart as the nearest lines of all heads, in line heights. Rows of heads have space between them.
const MIN_LINE_PITCH: f32 = 0.8;
const MAX_LINE_PITCH: f32 = 1.2;
const SAME_PITCH: f32 = 1.05;
// How far the edges of a head and of its column may be apart, in line heights.
const ALIGNED: f32 = 0.3;
// How far, in line heights, the middle of a head may be from that of what it covers, beyond the nearest possible.
const CENTERED: f32 = 0.6;

/// A line of a head.
#[derive(Debug, Clone)]
pub(super) struct HeadLine {
    pub(super) cell: RowCell,
    pub(super) x: Extent,
    /// Lower edge and height of the line.
    pub(super) bottom: f32,
    pub(super) height: f32,
}

/// A head with all its lines.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) cell: RowCell,
    x: Extent,
    top: f32,
    pub(super) bottom: f32,
    height: f32,
    // Whether its first line has no other head.
    is_alone: bool,
    columns: RangeInclusive<usize>,
}

impl Head {
    fn new(line: HeadLine, is_alone: bool) -> Self {
        Self {
            cell: line.cell,
            x: line.x,
            top: line.bottom - line.height,
            bottom: line.bottom,
            height: line.height,
            is_alone,
            columns: 0..=0,
        }
    }

    /// Indexes of its columns.
    pub(super) fn columns(&self) -> RangeInclusive<usize> {
        self.columns.clone()
    }

    // Whether a line is the next one of this head. `tight` is the least pitch of lines.
    fn goes_on(&self, line: &HeadLine, tight: f32) -> bool {
        let pitch = pitch((self.bottom, self.height), (line.bottom, line.height));
        let middle = f32::midpoint(line.x.0, line.x.1);
        let apart = [
            self.middle() - middle,
            self.x.0 - line.x.0,
            self.x.1 - line.x.1,
        ];
        let is_aligned = apart.iter().any(|apart| apart.abs() <= self.height);
        pitch >= MIN_LINE_PITCH
            && pitch <= MAX_LINE_PITCH.min(tight.max(1.0) * SAME_PITCH)
            && overlap(self.x, line.x)
            && is_aligned
    }

    fn push(&mut self, line: &HeadLine) {
        self.cell
            .append(&format!(" {}", line.cell.text), &line.cell);
        self.x = (self.x.0.min(line.x.0), self.x.1.max(line.x.1));
        self.bottom = line.bottom;
        self.height = line.height;
    }

    fn middle(&self) -> f32 {
        f32::midpoint(self.x.0, self.x.1)
    }

    fn is_beside(&self, other: &Self) -> bool {
        let slack = self.height / 4.0;
        self.top + slack < other.bottom && other.top + slack < self.bottom
    }
}

fn overlap(one: Extent, two: Extent) -> bool {
    one.0 < two.1 && two.0 < one.1
}

/// The heads of lines from the top, with the columns under each. `columns` are widened by the heads over one alone.
pub(super) fn place_heads(lines: Vec<Vec<HeadLine>>, columns: &mut [Extent]) -> Vec<Head> {
    let mut heads: Vec<Head> = Vec::new();
    let tight = least_pitch(&lines);
    for line in lines {
        let above = heads.len();
        let is_alone = line.len() == 1;
        let are_years = !is_alone && line.iter().all(|part| part.cell.is_year());
        let mut new: Vec<Head> = Vec::new();
        for (at, part) in line.iter().enumerate() {
            let known = heads[..above].iter().enumerate();
            let open: Vec<usize> = known
                .filter(|(_, head)| head.goes_on(part, tight))
                .map(|(index, _)| index)
                .collect();
            // A head over several parts of the line ends above it, as `Years ended December 31,` does over each year, and a unit
            // alone belongs to all years above it.
            let is_shared = |index: usize| {
                let head = &heads[index];
                let others = line.iter().enumerate().filter(|(other, _)| *other != at);
                others
                    .into_iter()
                    .any(|(_, other)| overlap(head.x, other.x))
                    || are_years && head.is_alone
                    || is_alone && head.cell.is_year() && unit_of(&part.cell.text).is_some()
            };
            match open[..] {
                [index] if !is_shared(index) => heads[index].push(part),
                _ => new.push(Head::new(part.clone(), is_alone)),
            }
        }
        heads.extend(new);
    }
    // The lowest are over single columns, and say how wide those are.
    heads.sort_by(|one, two| {
        two.bottom
            .total_cmp(&one.bottom)
            .then(one.x.0.total_cmp(&two.x.0))
    });
    for at in 0..heads.len() {
        let span = span_of(&heads, at, columns);
        if span.start() == span.end()
            && let Some(column) = columns.get_mut(*span.start())
        {
            let x = heads[at].x;
            *column = (column.0.min(x.0), column.1.max(x.1));
        }
        heads[at].columns = span;
    }
    heads.sort_by(|one, two| {
        one.bottom
            .total_cmp(&two.bottom)
            .then(one.x.0.total_cmp(&two.x.0))
    });
    for at in 0..heads.len() {
        if let Some(columns) = columns_of_day(&heads, at) {
            heads[at].columns = columns;
        }
    }
    heads
}

/// The line that has only the unit of all columns: `(in thousands)`.
pub(super) fn unit_line(lines: &[Vec<HeadLine>], columns: &[Extent]) -> Option<usize> {
    let heads = place_heads(lines.to_vec(), &mut columns.to_vec());
    let unit = heads.iter().find(|head| {
        is_unit(&head.cell.text) && head.columns == (0..=columns.len().saturating_sub(1))
    })?;
    lines.iter().position(|line| {
        matches!(&line[..], [only] if is_unit(&only.cell.text) && only.bottom == unit.bottom)
    })
}

// A day such as `September 30,` belongs to all years under the head above it, wherever it is between them. `None` if it has no
// such head, or shares it with others.
fn columns_of_day(heads: &[Head], at: usize) -> Option<RangeInclusive<usize>> {
    let head = &heads[at];
    if !is_day_of_year(&head.cell.text) {
        return None;
    }
    let (above, others) = heads.split_at(at);
    let outer = above
        .iter()
        .rfind(|outer| !outer.is_beside(head) && covers(&outer.columns, &head.columns))?;
    let mut neighbors = above.iter().chain(&others[1..]);
    if neighbors.any(|other| other.is_beside(head) && covers(&outer.columns, &other.columns)) {
        return None;
    }
    let years = others[1..].iter().filter(|lower| {
        let own = head_period(&lower.cell.text);
        own.year.is_some() && own.month.is_none() && covers(&outer.columns, &lower.columns)
    });
    let ranges = years.map(|lower| lower.columns());
    Some(ranges.fold(head.columns(), |all, range| {
        *all.start().min(range.start())..=*all.end().max(range.end())
    }))
}

fn covers(outer: &RangeInclusive<usize>, inner: &RangeInclusive<usize>) -> bool {
    outer.contains(inner.start()) && outer.contains(inner.end())
}

/// How far two lines, by their lower edges and heights, are apart, in line heights. One may have a larger word.
pub(super) fn pitch(above: (f32, f32), below: (f32, f32)) -> f32 {
    let bottoms = below.0 - above.0;
    let tops = bottoms - below.1 + above.1;
    bottoms.min(tops) / above.1.min(below.1).max(1.0)
}

// How far the nearest lines are apart, in line heights.
fn least_pitch(lines: &[Vec<HeadLine>]) -> f32 {
    let firsts: Vec<&HeadLine> = lines.iter().filter_map(|line| line.first()).collect();
    let edges = |line: &HeadLine| (line.bottom, line.height);
    let pitches = firsts
        .windows(2)
        .map(|pair| pitch(edges(pair[0]), edges(pair[1])));
    let pitches = pitches.filter(|pitch| *pitch >= MIN_LINE_PITCH);
    pitches.fold(f32::INFINITY, f32::min)
}

// The columns under head number `at`; those of the heads before it are known.
fn span_of(heads: &[Head], at: usize, columns: &[Extent]) -> RangeInclusive<usize> {
    let head = &heads[at];
    let others = || heads.iter().enumerate().filter(|(other, _)| *other != at);
    let is_taken = |column: usize| {
        let mut neighbors = others().filter(|(_, other)| other.is_beside(head));
        neighbors.any(|(index, other)| match index < at {
            true => other.columns.contains(&column),
            false => columns
                .get(column)
                .is_some_and(|own| overlap(*own, other.x)),
        })
    };
    let own = under(head.x, columns).unwrap_or_else(|| nearest(head.x, columns, &is_taken));
    let is_one = own.start() == own.end();
    let lower: Vec<&Head> = heads[..at]
        .iter()
        .filter(|lower| !lower.is_beside(head))
        .collect();
    let covers =
        |lower: &&Head| lower.columns.start() <= own.end() && own.start() <= lower.columns.end();
    // `(in thousands)` may be the lowest head, of all columns.
    let has_lower = unit_of(&head.cell.text).is_some() || lower.iter().any(covers);
    let edges = columns.get(*own.start()).zip(columns.get(*own.end()));
    let is_aligned = edges.is_some_and(|(first, last)| {
        (last.1 - head.x.1).abs().min((first.0 - head.x.0).abs()) <= ALIGNED * head.height
    });
    if !has_lower && is_one && is_aligned {
        return own;
    }
    // Wider ones cover lower heads as a whole, and nothing that others cover.
    let is_cut = |span: &RangeInclusive<usize>| {
        lower.iter().any(|lower| {
            let first = span.contains(lower.columns.start());
            let last = span.contains(lower.columns.end());
            first != last
        })
    };
    let mut start = *own.start();
    while start > 0 && !is_taken(start - 1) {
        start -= 1;
    }
    let mut end = *own.end();
    while end + 1 < columns.len() && !is_taken(end + 1) {
        end += 1;
    }
    let spans =
        (start..=*own.start()).flat_map(|start| (*own.end()..=end).map(move |end| start..=end));
    let spans: Vec<RangeInclusive<usize>> =
        spans.filter(|span| *span == own || !is_cut(span)).collect();
    let off = |span: &RangeInclusive<usize>| {
        let middle = f32::midpoint(columns[*span.start()].0, columns[*span.end()].1);
        (head.middle() - middle).abs()
    };
    let Some(least) = spans.iter().map(off).min_by(f32::total_cmp) else {
        return own;
    };
    let limit = least + CENTERED * head.height;
    if !has_lower && off(&own) <= limit {
        return own;
    }
    let fitting = spans.into_iter().filter(|span| off(span) <= limit);
    fitting
        .max_by_key(|span| span.end() - span.start())
        .unwrap_or(own)
}

fn under(head: Extent, columns: &[Extent]) -> Option<RangeInclusive<usize>> {
    let first = columns.iter().position(|column| overlap(*column, head))?;
    let last = columns.iter().rposition(|column| overlap(*column, head))?;
    Some(first..=last)
}

fn nearest(
    head: Extent,
    columns: &[Extent],
    is_taken: &impl Fn(usize) -> bool,
) -> RangeInclusive<usize> {
    let distance = |at: &usize| (columns[*at].0 - head.1).max(head.0 - columns[*at].1);
    let free = (0..columns.len()).filter(|at| !is_taken(*at));
    let nearest = free.min_by(|one, two| distance(one).total_cmp(&distance(two)));
    let at = nearest.unwrap_or(0);
    at..=at
}
