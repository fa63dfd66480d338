//! Cells of lines, and which lines belong to tables that the file declares.

use stemma_document::{GridLine, Line, Page, Word};
use stemma_reading::page_features::is_figure;

use super::line_features::{LineFeatures, MAX_TITLE_WORDS};
use super::statements::names_statement;
use super::{item_grammar, numbering};

// A line of a table with as many words is one of a paragraph.
const PARAGRAPH_WORDS: u16 = 12;

/// Which rows belong to tables that the file declares: rows of cells next to such rows, and labels between rows of figures
/// (`Region:`). A table that only places text has a number or nothing next to it, or paragraphs between its figures.
pub(super) fn declared_rows(
    rows: &[LineFeatures<'_>],
    page: &Page,
    with_figures: &[bool],
) -> Vec<bool> {
    let grids: Vec<Option<&GridLine>> = rows
        .iter()
        .map(|row| page.lines[row.line as usize].grid.as_deref())
        .collect();
    let mut declared = vec![false; rows.len()];
    if grids.iter().all(Option::is_none) {
        return declared;
    }
    let is_same_table = |a: usize, b: usize| {
        let table = |at: usize| grids[at].map(|grid| grid.table);
        table(a).is_some() && table(a) == table(b)
    };
    let is_title = |at: usize| is_numbered(rows[at].text) || names_statement(&rows[at]);
    let has_cells = |at: usize| {
        let cells = grids[at].map_or(0, |grid| grid.cells.len());
        cells >= 2 && rows[at].words as usize <= MAX_TITLE_WORDS && !is_title(at)
    };
    // The last row of figures, while only labels of its table follow.
    let mut figures: Option<usize> = None;
    for at in 0..rows.len() {
        let above = figures.filter(|above| is_same_table(*above, at));
        if grids[at].is_some() && with_figures[at] && rows[at].figures {
            let from = above.unwrap_or(at);
            for (offset, label) in declared[from..at].iter_mut().enumerate() {
                *label = !is_title(from + offset);
            }
            figures = Some(at);
        } else if above.is_none() || rows[at].words >= PARAGRAPH_WORDS {
            figures = None;
        }
    }
    for at in 1..rows.len() {
        let row = |at: usize| grids[at].map(|grid| grid.row);
        let are_rows = is_same_table(at - 1, at) && row(at - 1) != row(at);
        if are_rows && has_cells(at - 1) && has_cells(at) {
            declared[at - 1] = true;
            declared[at] = true;
        }
    }
    declared
}

fn is_numbered(text: &str) -> bool {
    numbering::first_number(text).is_some() || item_grammar::parse_heading(text).is_some()
}

/// Size of the largest text of a line: small capitals mix two sizes, and the larger one is the size of the font.
pub(super) fn largest_size(line: &Line) -> f32 {
    let sizes = line.runs.iter().map(|run| run.size.points());
    sizes.fold(0.0, f32::max)
}

/// Whether two neighboring words are in two cells.
pub(super) fn are_apart(left: &Word, right: &Word, size: f32) -> bool {
    right.x0.points() - left.x1.points() > (1.6 * size).max(9.0)
}

/// The number of cells, whether one after the first holds a figure, and the byte where the first ends.
pub(super) fn read_cells(line: &Line, size: f32) -> (u16, bool, usize) {
    let mut count = 1u16;
    let mut figures = false;
    let mut first = usize::MAX;
    let mut is_title = false;
    for pair in line.words.windows(2).take(200) {
        let apart = are_apart(&pair[0], &pair[1], size);
        count = count.saturating_add(u16::from(apart));
        let word = line
            .text
            .get(pair[1].start as usize..pair[1].end as usize)
            .unwrap_or("");
        if apart && count == 2 {
            first = pair[0].end as usize;
            let label = line.text.get(..first).unwrap_or("");
            is_title = is_label(label) && word.starts_with(char::is_alphabetic);
        }
        figures |= count > 1 && is_figure(word);
    }
    // In `(5)   Adoption of ASC 320-10-65` the figures are a part of the title.
    (count, figures && !(is_title && count == 2), first)
}

/// Whether the first cell, up to byte `end`, is marked and larger than all behind it.
pub(super) fn is_titled(line: &Line, end: usize) -> bool {
    let Some((first, rest)) = line.runs.split_first() else {
        return false;
    };
    (first.bold || first.emphasis.is_some())
        && first.end as usize + 1 >= end
        && !rest.is_empty()
        && rest
            .iter()
            .all(|run| run.size.points() + 0.9 < first.size.points())
}

/// The number of a section alone: `(5)`, `5.`, `A.`
fn is_label(cell: &str) -> bool {
    let label = cell.trim_matches(['(', ')', '.']);
    label.len() < cell.len()
        && (1..=3).contains(&label.len())
        && label.chars().all(char::is_alphanumeric)
}
