//! The lines of each table of a page: rows with figures, the labels between them, and the heads above.

use stemma_document::Page;
use stemma_document::english_words::MONTHS;

use crate::numbers::is_decimal_digit;
use crate::tables::page::TablePage;
use crate::tables::surroundings::unit_of;
use crate::text_words::words;

use super::line_cells::{LineCell, line_cells};

// Fewer rows or numbers are a list or a sentence with figures.
const MIN_ROWS: usize = 2;
const MIN_NUMBERS: usize = 3;
// Lines without cells inside of a table: a wrapped label, a group and its subgroup.
const MAX_LINES_BETWEEN_ROWS: usize = 12;
// Space above a row in line heights. Rows of one table are one or two apart; a foot is where the margin begins.
const MAX_GAP: f32 = 4.0;
// Space below a line of heads in line heights.
const MAX_HEAD_GAP: f32 = 2.5;
// Lines of heads and labels above the first row.
const MAX_LINES_ABOVE: usize = 16;
// Space below a title in line heights; lines of one head have less.
const TITLE_GAP: f32 = 0.3;
// A longer line is text.
const MAX_HEAD_WORDS: usize = 14;

/// The lines of one table of a page.
#[derive(Debug)]
pub(super) struct Region {
    /// From the uppermost head to the last row.
    pub(super) lines: Vec<usize>,
    /// Those that are rows with figures.
    pub(super) rows: Vec<usize>,
}

/// The tables of a page, from the top. `space` is the usual space between words.
pub(super) fn regions(lines: &TablePage<'_>, page: &Page, space: f32) -> Vec<Region> {
    let groups = row_groups(lines, page);
    let mut above = 0;
    let regions = groups.into_iter().map(|rows| {
        let region = Region {
            lines: with_heads(lines, page, space, &rows, above),
            rows,
        };
        above = region.lines.last().map_or(above, |last| last + 1);
        region
    });
    regions.collect()
}

// The rows of each table of a page.
fn row_groups(lines: &TablePage<'_>, page: &Page) -> Vec<Vec<usize>> {
    let is_body = |at: &usize| {
        let line = page.lines.get(*at);
        line.is_some_and(|line| !line.is_furniture() && line.grid.is_none())
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for row in lines.rows().filter(is_body) {
        let last = groups.last().and_then(|group| group.last()).copied();
        let follows = last.is_some_and(|last| {
            let mut between = last + 1..row;
            let left = lines.first_cell_left(last).unwrap_or(0.0);
            between.len() <= MAX_LINES_BETWEEN_ROWS
                && between
                    .all(|at| right_of(page, at) <= left || is_wide_label(lines, page, at, left))
                && !is_apart(page, row, MAX_GAP)
        });
        match groups.last_mut() {
            Some(group) if follows => group.push(row),
            _ => groups.push(vec![row]),
        }
    }
    groups.retain(|rows| {
        let cells = rows.iter().flat_map(|row| lines.cell_texts(*row));
        let numbers = cells.filter(|text| text.contains(is_decimal_digit));
        rows.len() >= MIN_ROWS && numbers.count() >= MIN_NUMBERS
    });
    groups
}

// Whether a line is one text, of a group, that begins where labels do.
fn is_wide_label(lines: &TablePage<'_>, page: &Page, at: usize, left: f32) -> bool {
    let start = page.lines.get(at).map_or(0.0, |line| line.rect.x0.points());
    !lines.ends_table(at) && !lines.stands_in_columns(at) && start < left
}

fn right_of(page: &Page, at: usize) -> f32 {
    page.lines.get(at).map_or(0.0, |line| line.rect.x1.points())
}

// Whether a line is far below the one before, as the foot of a page does.
fn is_apart(page: &Page, at: usize, heights: f32) -> bool {
    let Some([above, line]) = at
        .checked_sub(1)
        .and_then(|above| page.lines.get(above..=at))
    else {
        return false;
    };
    line.rect.y0.points() - above.rect.y1.points() > heights * line.rect.height()
}

// All lines of a table from its heads to its last row, without furniture. `above` is the first line that may be a head.
fn with_heads(
    lines: &TablePage<'_>,
    page: &Page,
    space: f32,
    rows: &[usize],
    above: usize,
) -> Vec<usize> {
    let (Some(first), Some(last)) = (rows.first().copied(), rows.last().copied()) else {
        return Vec::new();
    };
    // A head that is the same on several pages looks like a running head.
    let is_body = |at: &usize| {
        let line = page.lines.get(*at);
        line.is_some_and(|line| !line.is_furniture() || *at < first && lines.names_periods(*at))
    };
    let zone = Zone::new(lines, page, space, rows);
    let mut top = first;
    for at in (above.max(first.saturating_sub(MAX_LINES_ABOVE))..first)
        .rev()
        .filter(is_body)
    {
        let has_amounts = lines.is_row(at) && !is_rest_of_date(lines, at);
        if has_amounts || is_apart(page, at + 1, MAX_HEAD_GAP) {
            break;
        }
        match zone.place(page, &line_cells(page, at, space)) {
            LinePlace::Heads => top = at,
            LinePlace::Label if top == first => {}
            LinePlace::Label if is_stub(lines.text_of(at)) => {}
            LinePlace::Label | LinePlace::Across => break,
        }
    }
    // Part of the last row may be a line of its own.
    let end = (last + 1..page.lines.len()).take_while(|at| are_side_by_side(page, last, *at));
    let end = end.last().unwrap_or(last);
    (top..=end).filter(is_body).collect()
}

// Whether the figures of a line are days of months in it or in the line above: `June 30`.
fn is_rest_of_date(lines: &TablePage<'_>, at: usize) -> bool {
    let above = at.checked_sub(1).map_or("", |above| lines.text_of(above));
    let mut months = words(above).into_iter().chain(words(lines.text_of(at)));
    let names_month = months.any(|(word, _)| MONTHS.contains(&word.as_str()));
    let is_day = |text: &str| text.parse::<u32>().is_ok_and(|day| (1..=31).contains(&day));
    let texts = lines.cell_texts(at);
    names_month && texts.iter().all(|text| is_day(text.trim_end_matches(',')))
}

/// Whether two lines are at one height: `Three Months Ended` and `Six Months Ended` may be lines of their own.
pub(super) fn are_side_by_side(page: &Page, one: usize, two: usize) -> bool {
    let rect = |at: usize| page.lines.get(at).map(|line| line.rect);
    rect(one).zip(rect(two)).is_some_and(|(one, two)| {
        let step = (one.y1.points() - two.y1.points()).abs();
        step < one.height().min(two.height()) / 2.0
    }) && !words_collide(page, one, two)
}

fn words_collide(page: &Page, one: usize, two: usize) -> bool {
    let words = |at: usize| page.lines.get(at).map_or(&[][..], |line| &line.words);
    words(one).iter().any(|one| {
        let mut others = words(two).iter();
        others.any(|two| one.x0 < two.x1 && two.x0 < one.x1)
    })
}

// What is left of the heads: `(in millions)`, `Years ended`.
fn is_stub(text: &str) -> bool {
    text.starts_with('(') || unit_of(text).is_some()
}

enum LinePlace {
    /// Over the columns, some next to a label.
    Heads,
    Label,
    /// A title, or text.
    Across,
}

// Where labels and figures are.
struct Zone {
    labels: (f32, f32),
    figures: (f32, f32),
}

impl Zone {
    fn new(lines: &TablePage<'_>, page: &Page, space: f32, rows: &[usize]) -> Self {
        let lefts = rows.iter().filter_map(|row| {
            let first = line_cells(page, *row, space).into_iter().next()?;
            let text = lines.text_of(*row).get(first.at)?;
            // The number of `Unit 7` is a part of its label.
            let label_end = text.starts_with(char::is_alphabetic).then_some(first.x.1);
            label_end
                .and_then(|edge| lines.cell_left_from(*row, edge))
                .or_else(|| lines.first_cell_left(*row))
        });
        let mut lefts: Vec<f32> = lefts.collect();
        lefts.sort_by(f32::total_cmp);
        // Some rows have figures in their labels.
        let left = lefts.get(lefts.len() / 2).copied().unwrap_or(0.0);
        let rights = rows.iter().map(|row| right_of(page, *row));
        let labels = rows.iter().filter_map(|row| {
            let first = line_cells(page, *row, space).into_iter().next()?;
            Some(first.x).filter(|x| x.1 <= left)
        });
        let labels = labels.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)));
        Self {
            labels: labels.unwrap_or((left, left)),
            figures: (left, rights.fold(left, f32::max)),
        }
    }

    fn place(&self, page: &Page, cells: &[LineCell]) -> LinePlace {
        let is_label = |cell: &&LineCell| cell.x.1 <= self.figures.0 && cell.x.0 < self.labels.1;
        let labels = cells.iter().take_while(is_label).count();
        let heads = &cells[labels..];
        let Some(first) = heads.first() else {
            return LinePlace::Label;
        };
        let Some(line) = page.lines.get(first.line) else {
            return LinePlace::Across;
        };
        let height = line.rect.height();
        let is_prose = heads.iter().any(|cell| {
            let text = line.text.get(cell.at.clone()).unwrap_or_default();
            text.split_whitespace().count() > MAX_HEAD_WORDS
        });
        let is_over = first.x.0 + height / 2.0 >= self.labels.1 && first.x.0 < self.figures.1;
        let is_title = cells.len() == 1 && self.is_title(page, first, height);
        match is_over && !is_prose && !is_title {
            true => LinePlace::Heads,
            false => LinePlace::Across,
        }
    }

    // Whether a text is centered over the table with its labels, with space below.
    fn is_title(&self, page: &Page, text: &LineCell, height: f32) -> bool {
        let off = |left: f32, right: f32| {
            (f32::midpoint(text.x.0, text.x.1) - f32::midpoint(left, right)).abs()
        };
        let next = page.lines.get(text.line..text.line + 2);
        let is_free = next.is_some_and(|pair| {
            pair[1].rect.y0.points() - pair[0].rect.y1.points() > height * TITLE_GAP
        });
        is_free
            && off(self.labels.0, self.figures.1) < height
            && off(self.figures.0, self.figures.1) > 2.0 * height
    }
}
