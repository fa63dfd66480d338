//! Reads the cell of a number in a table: its row, the period and head of its column, and its scale.
//!
//! A row is a line that ends in cells: numbers, dashes and `n/m`. Columns are found by the positions of words, or by their order where a
//! text has none. What cannot be read for certain is left empty, and a claim that needs it is not verified.

mod continuation;

use std::ops::Range;

use continuation::Continuation;

use stemma_document::{Line, Page};

use crate::cells::{cell_spans, without_breaks};
use crate::numbers::{NumberMention, NumberRole, numbers, scales};
use crate::period::{PeriodMention, StatedPeriod, head_period, period_mentions};
use crate::text_words::says;
use crate::vocabulary::COLUMN_WORDS;

// Lines above a row in which the head of its table is looked for.
const MAX_LINES_UP: usize = 90;
// Lines between the heads and the first row, such as `(unaudited)`, and lines of one head.
const MAX_HEAD_LINES: usize = 5;
// Words of a line that is prose, not a label or a head. Two such lines end a table.
const PROSE_WORDS: usize = 14;
// Gaps in line heights: between the words of one head, and between a label and a single cell.
const WORD_GAP: f32 = 0.9;
pub(crate) const CELL_GAP: f32 = 2.0;
// Farthest distance of a cell from the head of a single column, in points.
const SINGLE_COLUMN_POINTS: f32 = 40.0;

/// Lines to read tables from.
#[derive(Debug, Clone, Copy)]
pub enum SourceLines<'a> {
    /// A page with coordinates.
    Page(&'a Page),
    /// Lines without.
    Text(&'a [String]),
}

/// The lines of a page with the cells at their ends.
pub struct TablePage<'a> {
    lines: Vec<TableLine<'a>>,
    scales: Vec<f64>,
    continuation: Option<Continuation>,
    // From the year of a date in January or February to the name of its fiscal year.
    year_shift: i32,
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

/// A cell with what its table says about it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Index of its line.
    pub line: usize,
    pub column: usize,
    /// Byte range in the line.
    pub at: Range<usize>,
    /// As printed, with its sign and unit.
    pub text: String,
    /// The number; `None` for a dash.
    pub number: Option<NumberMention>,
    pub label: String,
    pub period: StatedPeriod,
    /// Words above the cell, from the top.
    pub head: String,
    /// Scales that may apply, from the nearest declaration.
    pub scales: Vec<f64>,
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

impl<'a> TablePage<'a> {
    /// `year_shift` leads from the year of a date in January or February to the name of its fiscal year.
    pub fn new(lines: SourceLines<'a>, year_shift: i32) -> Self {
        let lines: Vec<TableLine<'a>> = match lines {
            SourceLines::Page(page) => page.lines.iter().map(TableLine::from_line).collect(),
            SourceLines::Text(lines) => lines
                .iter()
                .map(|line| TableLine::new(line, Vec::new(), 0.0))
                .collect(),
        };
        let mut page = Self {
            lines,
            scales: Vec::new(),
            continuation: None,
            year_shift,
        };
        page.scales = scales(&page.text().join("\n"));
        page
    }

    /// Reads rows without heads as those of the table with which the page before ends.
    pub fn continue_from(&mut self, before: &TablePage<'_>) {
        self.continuation = Continuation::new(self, before);
    }

    pub fn is_continued(&self) -> bool {
        self.continuation.is_some()
    }

    pub(crate) fn text_of(&self, at: usize) -> &'a str {
        self.lines.get(at).map_or("", |line| line.text)
    }

    /// The left edge of the first cell of a line.
    pub(crate) fn first_cell_left(&self, at: usize) -> Option<f32> {
        let cell = self.lines.get(at)?.cells.first()?;
        Some(cell.x?.0)
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

    pub fn text(&self) -> Vec<&'a str> {
        self.lines.iter().map(|line| line.text).collect()
    }

    /// Lines that are rows of a table.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.lines.len()).filter(|at| self.is_row(*at))
    }

    pub fn is_row(&self, at: usize) -> bool {
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

    /// The cells of a row, from left to right.
    pub fn cells(&self, at: usize) -> Vec<Cell> {
        let Some(line) = self.lines.get(at).filter(|_| self.is_row(at)) else {
            return Vec::new();
        };
        let label = line.label();
        // In a table of years by row, the label is the period and the head says what the figure is.
        let by_row = head_period(&label).in_fiscal_year(self.year_shift);
        let is_period_row = by_row.year.is_some()
            && !label.split_whitespace().any(|word| {
                word.chars().filter(|c| c.is_alphabetic()).count() > 2
                    && head_period(word).is_empty()
            });
        let periods = self.column_periods(at);
        let scales = self.scales_above(at);
        let continuation = self.continuation.as_ref();
        let continuation = continuation.filter(|_| self.head_lines(at).is_empty());
        let mut cells = Vec::new();
        for (column, span) in line.cells.iter().enumerate() {
            let text = line.text[span.at.clone()].to_owned();
            let continued = continuation.and_then(|table| table.column(at, span));
            let head = match continued {
                Some(continued) => continued.head.clone(),
                None => self.head_over(at, span),
            };
            let mut number = numbers(&without_breaks(&text)).into_iter().next();
            if let Some(number) = &mut number {
                let words = format!("{label} {head}").to_lowercase();
                number.read_as_cell(&words);
            }
            cells.push(Cell {
                line: at,
                column,
                at: span.at.clone(),
                number,
                text,
                label: if is_period_row {
                    head.clone()
                } else {
                    label.clone()
                },
                period: match is_period_row {
                    true => by_row,
                    false => continued.map_or_else(
                        || periods.get(column).copied().unwrap_or_default(),
                        |continued| continued.period,
                    ),
                },
                head,
                scales: scales.clone(),
            });
        }
        cells
    }

    pub fn row_label(&self, at: usize) -> RowLabel {
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
    pub(crate) fn scales_above(&self, at: usize) -> Vec<f64> {
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
        let continuation = self.continuation.as_ref();
        declared.next().unwrap_or_else(|| match continuation {
            Some(table) if self.scales.is_empty() => table.scales.clone(),
            _ => self.scales.clone(),
        })
    }

    // Indexes of the lines of the head above a row, the nearest first: those that name periods, or, where none does, those directly
    // above the first row.
    fn head_lines(&self, at: usize) -> Vec<usize> {
        let mut heads: Vec<usize> = Vec::new();
        let mut others = 0;
        let mut prose = 0;
        for up in (at.saturating_sub(MAX_LINES_UP)..at).rev() {
            let line = &self.lines[up];
            let is_prose = line.cells.is_empty()
                && !line.is_head
                && line.text.split_whitespace().count() > PROSE_WORDS;
            prose = if is_prose { prose + 1 } else { 0 };
            if prose >= 2 || (!heads.is_empty() && (is_prose || self.is_row(up))) {
                break;
            }
            if line.is_head {
                heads.push(up);
            } else if !heads.is_empty() {
                others += 1;
            }
            if heads.len() + others > MAX_HEAD_LINES {
                break;
            }
        }
        heads
    }

    // The period of each column of a row; empty where it cannot be read.
    fn column_periods(&self, at: usize) -> Vec<StatedPeriod> {
        let row = &self.lines[at];
        let heads = self.head_lines(at);
        let years = |at: usize| -> Vec<PeriodMention> {
            let mut mentions = self.lines[at].periods.clone();
            mentions.retain(|mention| mention.period.year.is_some());
            mentions
        };
        let nothing = vec![StatedPeriod::default(); row.cells.len()];
        let with_years = heads.iter().position(|at| {
            let mentions = years(*at);
            !mentions.is_empty() && !self.lines[*at].is_title(&mentions)
        });
        let with_years = with_years.or_else(|| heads.iter().position(|at| !years(*at).is_empty()));
        let Some(nearest) = with_years else {
            return nothing;
        };
        let line = &self.lines[heads[nearest]];
        let mentions = years(heads[nearest]);
        let above: Vec<&TableLine<'_>> = heads[nearest + 1..]
            .iter()
            .map(|at| &self.lines[*at])
            .collect();
        let complete: Vec<StatedPeriod> = mentions
            .iter()
            .enumerate()
            .map(|(index, mention)| {
                let parts = above
                    .iter()
                    .map(|above| above.part_over(line, mention, (index, mentions.len())));
                parts.fold(mention.period, StatedPeriod::or)
            })
            .collect();
        let columns = row.columns(line, &mentions);
        columns
            .into_iter()
            .map(|column| column.map_or_else(StatedPeriod::default, |at| complete[at]))
            .map(|period| period.in_fiscal_year(self.year_shift))
            .collect()
    }

    // Words over a cell, between its table's first row and the lines of the head.
    fn head_over(&self, at: usize, cell: &CellSpan) -> String {
        let Some((left, right)) = cell.x else {
            return String::new();
        };
        let mut over: Vec<String> = Vec::new();
        let mut lines = 0;
        for up in (at.saturating_sub(MAX_LINES_UP)..at).rev() {
            let line = &self.lines[up];
            if self.is_row(up) || line.is_label_only() && over.is_empty() {
                if over.is_empty() {
                    continue;
                }
                break;
            }
            lines += 1;
            let chunks = line.chunks();
            let is_wide = chunks.len() == 1 && line.text.split_whitespace().count() > PROSE_WORDS;
            if lines > MAX_HEAD_LINES || is_wide {
                break;
            }
            let chunk = chunks
                .into_iter()
                .find(|chunk| chunk.x.0 < right && left < chunk.x.1);
            over.extend(chunk.map(|chunk| line.text[chunk.at].to_owned()));
        }
        over.reverse();
        over.join(" ")
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
        line.cells = spans
            .into_iter()
            .map(|at| CellSpan {
                x: line.x_of(&at),
                at,
            })
            .collect();
        line
    }

    fn label(&self) -> String {
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

    // `For the years ended December 31, 2022, 2021 and 2020` is the title of a table, not the heads of its columns.
    fn is_title(&self, years: &[PeriodMention]) -> bool {
        years.len() > 1
            && self.chunks().iter().any(|chunk| {
                let inside = |mention: &&PeriodMention| chunk.at.contains(&mention.at.start);
                years.iter().filter(inside).count() == years.len()
            })
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

    // What this line says about the year `mention` of the line `below`, which is number `index` of `count`.
    fn part_over(
        &self,
        below: &Self,
        mention: &PeriodMention,
        (index, count): (usize, usize),
    ) -> StatedPeriod {
        let parts = &self.periods;
        if parts.iter().any(|part| part.period.year.is_some()) {
            return StatedPeriod::default();
        }
        let chunks = self.chunks();
        let middle = below
            .x_of(&mention.at)
            .map(|(left, right)| (left + right) / 2.0);
        if let Some(middle) = middle.filter(|_| chunks.len() > 1) {
            let slack = self.height;
            let over = chunks
                .iter()
                .find(|chunk| chunk.x.0 - slack <= middle && middle <= chunk.x.1 + slack);
            if let Some(chunk) = over {
                return head_period(&self.text[chunk.at.clone()]);
            }
        }
        match parts.len() {
            0 | 1 => head_period(self.text),
            parts_count if count.is_multiple_of(parts_count) => {
                parts[index / (count / parts_count)].period
            }
            _ => StatedPeriod::default(),
        }
    }

    // For each cell the index of its year among the heads: in order where the numbers of both agree, else by position.
    fn columns(&self, heads: &Self, years: &[PeriodMention]) -> Vec<Option<usize>> {
        let cells = self.cells.len();
        let in_order = |skipped: usize| -> Vec<Option<usize>> {
            (0..cells)
                .map(|at| at.checked_sub(skipped).filter(|at| *at < years.len()))
                .collect()
        };
        if cells == years.len() {
            return in_order(0);
        }
        let places: Option<Vec<(f32, f32)>> =
            years.iter().map(|year| heads.x_of(&year.at)).collect();
        let Some(places) = places.filter(|_| self.cells.iter().all(|cell| cell.x.is_some())) else {
            let lower = heads.text.to_lowercase();
            let has_notes = lower
                .split_whitespace()
                .any(|word| matches!(word, "note" | "notes"));
            let more = cells.saturating_sub(years.len());
            return match cells > years.len() {
                true if has_notes && more == 1 => in_order(1),
                true if says(heads.text, &COLUMN_WORDS) => in_order(0),
                _ => vec![None; cells],
            };
        };
        let spacing = places
            .windows(2)
            .map(|pair| (pair[1].0 + pair[1].1 - pair[0].0 - pair[0].1).abs() / 2.0)
            .fold(f32::INFINITY, f32::min);
        let farthest = if spacing.is_finite() {
            spacing / 2.0
        } else {
            SINGLE_COLUMN_POINTS
        };
        self.cells
            .iter()
            .map(|cell| {
                let (left, right) = cell.x?;
                let distance = |place: &(f32, f32)| {
                    let middles = (left + right - place.0 - place.1).abs() / 2.0;
                    middles.min((right - place.1).abs())
                };
                let nearest = (0..places.len())
                    .min_by(|one, two| distance(&places[*one]).total_cmp(&distance(&places[*two])));
                nearest.filter(|at| distance(&places[*at]) < farthest)
            })
            .collect()
    }
}
