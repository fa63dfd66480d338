//! The lines of a page that are rows of tables: lines that end in cells, which are numbers, dashes and `n/m`.

use std::ops::Range;

use stemma_document::{Line, Page};

use crate::cells::cell_spans;
use crate::numbers::{NumberRole, numbers, scales};
use crate::period::{PeriodMention, period_mentions};

// Words of a line that is prose, not a label or a head. Two such lines end a table.
const PROSE_WORDS: usize = 14;
// Gaps in line heights: between the words of one head, and between a label and a single cell.
const WORD_GAP: f32 = 0.9;
pub(crate) const CELL_GAP: f32 = 2.0;

/// The lines of a page with the cells at their ends.
pub(crate) struct TablePage<'a> {
    lines: Vec<TableLine<'a>>,
    scales: Vec<u64>,
}

struct TableLine<'a> {
    text: &'a str,
    words: Vec<PlacedWord>,
    height: f32,
    cells: Vec<CellSpan>,
    // Byte at which the label ends.
    label_end: usize,
    periods: Vec<PeriodMention>,
    is_head: bool,
}

#[derive(Clone)]
struct PlacedWord {
    at: Range<usize>,
    x: (f32, f32),
}

#[derive(Debug, Clone)]
struct CellSpan {
    at: Range<usize>,
    x: Option<(f32, f32)>,
}

impl<'a> TablePage<'a> {
    pub(crate) fn new(page: &'a Page) -> Self {
        let lines: Vec<TableLine<'a>> = page.lines.iter().map(TableLine::from_line).collect();
        let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
        Self {
            scales: scales(&texts.join("\n")),
            lines,
        }
    }

    pub(crate) fn text_of(&self, at: usize) -> &'a str {
        self.lines.get(at).map_or("", |line| line.text)
    }

    /// The left edge of the first cell of a line.
    pub(crate) fn first_cell_left(&self, at: usize) -> Option<f32> {
        let cell = self.lines.get(at)?.cells.first()?;
        Some(cell.x?.0)
    }

    /// The left edge of the first cell of a line from an edge on.
    pub(crate) fn cell_left_from(&self, at: usize, edge: f32) -> Option<f32> {
        let cells = self.lines.get(at)?.cells.iter();
        let mut lefts = cells.filter_map(|cell| Some(cell.x?.0));
        lefts.find(|left| *left >= edge)
    }

    /// The texts of the cells of a line.
    pub(crate) fn cell_texts(&self, at: usize) -> Vec<&'a str> {
        let cells = self.lines.get(at).map_or(&[][..], |line| &line.cells);
        let texts = cells
            .iter()
            .filter_map(|cell| self.text_of(at).get(cell.at.clone()));
        texts.collect()
    }

    /// Whether a line has several texts with gaps between them.
    pub(crate) fn stands_in_columns(&self, at: usize) -> bool {
        let line = self.lines.get(at);
        line.is_some_and(|line| line.cells.is_empty() && line.chunks().len() > 1)
    }

    /// Whether a line names periods and no amounts.
    pub(crate) fn names_periods(&self, at: usize) -> bool {
        self.lines.get(at).is_some_and(|line| line.is_head)
    }

    /// Whether no table goes on past this line: heads of columns, or prose.
    pub(crate) fn ends_table(&self, at: usize) -> bool {
        let line = self.lines.get(at);
        line.is_some_and(|line| line.is_head || line.is_prose())
    }

    /// Lines that are rows of a table.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.lines.len()).filter(|at| self.is_row(*at))
    }

    pub(crate) fn is_row(&self, at: usize) -> bool {
        let Some(line) = self.lines.get(at).filter(|line| !line.is_head) else {
            return false;
        };
        match line.cells[..] {
            [] => false,
            [ref cell] => {
                let neighbors = [at.wrapping_sub(1), at + 1];
                line.has_gap_before(cell)
                    || line.text.contains('|')
                    || neighbors.iter().any(|at| {
                        self.lines.get(*at).is_some_and(|line| {
                            line.label_end > 0 && !line.cells.is_empty() || line.is_head
                        })
                    })
            }
            _ => true,
        }
    }

    // The nearest declaration above the row, else any of the page.
    pub(crate) fn scales_above(&self, at: usize) -> Vec<u64> {
        let declared = (0..=at).rev().map(|at| {
            let next = self.lines.get(at + 1).map_or("", |line| line.text);
            match scales(self.lines[at].text) {
                none if none.is_empty() && !self.lines[at].cells.is_empty() => none,
                // `(Dollars in` at the end of a line.
                none if none.is_empty() => scales(&format!("{} {next}", self.lines[at].text)),
                found => found,
            }
        });
        let mut declared = declared.filter(|found| !found.is_empty());
        declared.next().unwrap_or_else(|| self.scales.clone())
    }
}

impl<'a> TableLine<'a> {
    fn from_line(line: &'a Line) -> Self {
        let words = line.words.iter().map(|word| PlacedWord {
            at: word.start as usize..word.end as usize,
            x: (word.x0.points(), word.x1.points()),
        });
        Self::new(&line.text, words.collect(), line.rect.height())
    }

    fn new(text: &'a str, words: Vec<PlacedWord>, height: f32) -> Self {
        let (label_end, spans) = cell_spans(text);
        let mut line = Self {
            text,
            words,
            height,
            cells: Vec::new(),
            label_end,
            periods: period_mentions(text),
            is_head: false,
        };
        line.is_head = line.looks_like_head();
        let spans = match spans[..] {
            [] if !line.is_head => line.cells_before_text(),
            _ => spans,
        };
        line.cells = spans
            .into_iter()
            .map(|at| CellSpan {
                x: line.x_of(&at),
                at,
            })
            .collect();
        line
    }

    // A row may end with text: `Buildings   48,123   42,717   30 years`. A gap is between its figures and the text.
    fn cells_before_text(&mut self) -> Vec<Range<usize>> {
        let mut chunks = self.chunks();
        while chunks.len() > 2 {
            chunks.pop();
            let end = chunks.last().map_or(0, |last| last.at.end);
            let (label_end, spans) = cell_spans(self.text.get(..end).unwrap_or_default());
            // Years, exhibit numbers and other plain numbers between texts are no figures for certain.
            let has_amount = spans.iter().any(|at| self.text[at.clone()].contains(','));
            if has_amount && label_end > 0 {
                self.label_end = label_end;
                return spans;
            }
        }
        Vec::new()
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

    // Words without gaps between them: the heads of columns.
    fn chunks(&self) -> Vec<PlacedWord> {
        let mut chunks: Vec<PlacedWord> = Vec::new();
        for word in &self.words {
            match chunks.last_mut() {
                Some(last) if word.x.0 - last.x.1 < self.height * WORD_GAP => {
                    last.at.end = word.at.end;
                    last.x.1 = word.x.1;
                }
                _ => chunks.push(word.clone()),
            }
        }
        chunks
    }

    fn has_gap_before(&self, cell: &CellSpan) -> bool {
        let before = self
            .words
            .iter()
            .rfind(|word| word.at.end <= self.label_end.max(1))
            .map(|word| word.x.1);
        match (before, cell.x) {
            (Some(end), Some((left, _))) => left - end > self.height * CELL_GAP,
            _ => false,
        }
    }

    fn x_of(&self, at: &Range<usize>) -> Option<(f32, f32)> {
        let inside = || {
            self.words
                .iter()
                .filter(|word| word.at.start < at.end && at.start < word.at.end)
        };
        Some((inside().next()?.x.0, inside().next_back()?.x.1))
    }

    fn is_prose(&self) -> bool {
        self.cells.is_empty() && self.text.split_whitespace().count() > PROSE_WORDS
    }
}
