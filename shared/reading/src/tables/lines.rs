//! The lines of a page as tables have them: rows that end in cells, heads that name periods, labels, and text between tables.

use std::ops::Range;

use stemma_document::{Line, Page};

use crate::line_cells::{cell_spans, extent_of, is_apart};
use crate::numbers::{NumberRole, numbers, scales};
use crate::period::{PeriodMention, period_mentions};

// Lines above a row in which the head of its table, or its group, is looked for.
pub(super) const MAX_LINES_UP: usize = 90;
// Words of a line that is prose, not a label or a head.
pub(super) const PROSE_WORDS: usize = 14;

/// Lines to read tables from.
#[derive(Debug, Clone, Copy)]
pub enum SourceLines<'a> {
    /// A page with coordinates.
    Page(&'a Page),
    /// Lines without.
    Text(&'a [String]),
}

/// The lines of a page with the cells at their ends.
pub(super) struct TableLines<'a> {
    pub(super) lines: Vec<TableLine<'a>>,
    // The scales that each line declares, and those of the page.
    declared: Vec<Vec<f64>>,
    scales: Vec<f64>,
}

pub(super) struct TableLine<'a> {
    pub(super) text: &'a str,
    layout: Option<&'a Line>,
    // Byte ranges.
    pub(super) cells: Vec<Range<usize>>,
    // Byte at which the label ends.
    label_end: usize,
    pub(super) periods: Vec<PeriodMention>,
    pub(super) is_head: bool,
}

/// The label of a row and the lines around it that may belong to it.
#[derive(Debug, Clone, Default)]
pub struct RowLabel {
    pub own: String,
    /// Lines without cells directly above, the nearest last.
    pub above: Vec<String>,
    /// The line without cells directly below.
    pub below: String,
    /// The nearest line above that ends with a colon.
    pub group: String,
}

impl<'a> TableLines<'a> {
    pub(super) fn new(lines: SourceLines<'a>) -> Self {
        let lines: Vec<TableLine<'a>> = match lines {
            SourceLines::Page(page) => page
                .lines
                .iter()
                .map(|line| TableLine::new(&line.text, Some(line)))
                .collect(),
            SourceLines::Text(lines) => lines
                .iter()
                .map(|line| TableLine::new(line, None))
                .collect(),
        };
        let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
        let declared = (0..lines.len()).map(|at| match scales(texts[at]) {
            // `(Dollars in` at the end of a line.
            none if none.is_empty() && lines[at].cells.is_empty() => {
                let next = texts.get(at + 1).copied().unwrap_or_default();
                scales(&format!("{} {next}", texts[at]))
            }
            found => found,
        });
        Self {
            declared: declared.collect(),
            scales: scales(&texts.join("\n")),
            lines,
        }
    }

    pub(super) fn text_of(&self, at: usize) -> &'a str {
        self.lines.get(at).map_or("", |line| line.text)
    }

    /// The left edge of the first cell of a line.
    pub(super) fn first_cell_left(&self, at: usize) -> Option<f32> {
        let line = self.lines.get(at)?;
        Some(line.extent(line.cells.first()?)?.0)
    }

    /// The right edges of the cells of a line.
    pub(super) fn cell_rights(&self, at: usize) -> Vec<f32> {
        self.lines.get(at).map_or(Vec::new(), |line| {
            let rights = line.cells.iter().filter_map(|cell| line.extent(cell));
            rights.map(|extent| extent.1).collect()
        })
    }

    /// The right edges of the years that a line of heads names.
    pub(super) fn year_rights(&self, at: usize) -> Vec<f32> {
        let line = self.lines.get(at).filter(|line| line.is_head);
        line.map_or(Vec::new(), |line| {
            let rights = line.years().filter_map(|year| line.extent(&year.at));
            rights.map(|extent| extent.1).collect()
        })
    }

    pub(super) fn height(&self, at: usize) -> f32 {
        self.lines.get(at).map_or(0.0, TableLine::height)
    }

    /// The texts of the cells of a line.
    pub(super) fn cell_texts(&self, at: usize) -> Vec<&'a str> {
        self.lines.get(at).map_or(Vec::new(), |line| {
            let texts = line.cells.iter().map(|cell| &line.text[cell.clone()]);
            texts.collect()
        })
    }

    /// Whether a line names periods and no amounts.
    pub(super) fn names_periods(&self, at: usize) -> bool {
        self.lines.get(at).is_some_and(|line| line.is_head)
    }

    /// Whether no table goes on past this line: heads of columns, or prose.
    pub(super) fn ends_table(&self, at: usize) -> bool {
        let line = self.lines.get(at);
        line.is_some_and(|line| line.is_head || line.is_prose())
    }

    pub(super) fn text(&self) -> Vec<&'a str> {
        self.lines.iter().map(|line| line.text).collect()
    }

    /// Lines that are rows of a table.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.lines.len()).filter(|at| self.is_row(*at))
    }

    pub(super) fn is_row(&self, at: usize) -> bool {
        let Some(line) = self.lines.get(at).filter(|line| !line.is_head) else {
            return false;
        };
        match line.cells[..] {
            [] => false,
            [ref cell] => {
                let neighbors = [at.wrapping_sub(1), at + 1];
                is_apart(line.text, line.layout, line.label_end, cell)
                    || neighbors.iter().any(|at| {
                        self.lines.get(*at).is_some_and(|line| {
                            line.label_end > 0 && !line.cells.is_empty() || line.is_head
                        })
                    })
            }
            _ => true,
        }
    }

    pub(super) fn row_label(&self, at: usize) -> RowLabel {
        let labels_up = (0..at)
            .rev()
            .take_while(|at| self.lines[*at].is_label_only())
            .take(2);
        let mut above: Vec<String> = labels_up.map(|at| self.lines[at].label()).collect();
        above.reverse();
        let group = (at.saturating_sub(MAX_LINES_UP)..at)
            .rev()
            .take_while(|at| !self.lines[*at].is_head)
            .find(|at| {
                self.lines[*at].is_label_only() && self.lines[*at].text.trim_end().ends_with(':')
            })
            .map(|at| self.lines[at].label());
        let below = self.lines.get(at + 1).filter(|line| line.is_label_only());
        RowLabel {
            own: self.lines.get(at).map(TableLine::label).unwrap_or_default(),
            above,
            below: below.map(TableLine::label).unwrap_or_default(),
            group: group.unwrap_or_default(),
        }
    }

    // The nearest declaration above the row, else any of the page.
    pub(super) fn scales_above(&self, at: usize) -> &[f64] {
        let above = self.declared.iter().take(at + 1).rev();
        let mut above = above.filter(|found| !found.is_empty());
        above.next().unwrap_or(&self.scales)
    }
}

impl<'a> TableLine<'a> {
    fn new(text: &'a str, layout: Option<&'a Line>) -> Self {
        let (label_end, cells) = cell_spans(text);
        let mut line = Self {
            text,
            layout,
            cells,
            label_end,
            periods: period_mentions(text),
            is_head: false,
        };
        line.is_head = line.looks_like_head();
        line
    }

    pub(super) fn label(&self) -> String {
        let label = self.text[..self.label_end].replace('|', " ");
        let label = label.trim().trim_end_matches(['.', ' ', '_', '…']);
        label.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn is_label_only(&self) -> bool {
        self.cells.is_empty()
            && !self.is_head
            && self.text.chars().any(char::is_alphabetic)
            && self.text.split_whitespace().count() <= PROSE_WORDS
    }

    // A line of heads names periods and no amounts.
    fn looks_like_head(&self) -> bool {
        let words = self.text.split_whitespace().count();
        !self.periods.is_empty()
            && words <= PROSE_WORDS.max(4 * self.periods.len())
            && !self.text.trim_end().ends_with('.')
            // `Three Months Ended`
            && numbers(self.text)
                .iter()
                .all(|number| number.is_label() || number.role == NumberRole::Count)
    }

    pub(super) fn is_prose(&self) -> bool {
        self.cells.is_empty() && self.text.split_whitespace().count() > PROSE_WORDS
    }

    pub(super) fn years(&self) -> impl Iterator<Item = &PeriodMention> {
        self.periods
            .iter()
            .filter(|mention| mention.period.year.is_some())
    }

    fn height(&self) -> f32 {
        self.layout.map_or(0.0, |line| line.rect.height())
    }

    fn extent(&self, at: &Range<usize>) -> Option<(f32, f32)> {
        extent_of(self.layout?, at)
    }
}
