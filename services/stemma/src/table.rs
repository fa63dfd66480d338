//! Tables with aligned columns. On a terminal they fit its width; elsewhere no cell is wrapped or shortened.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Width, presets};

use crate::output::{Output, clean};

// Smallest width of a text column on a narrow terminal.
const MIN_TEXT_WIDTH: u16 = 16;
// Text in the first column names the row. Optional columns are hidden before it gets narrower than this.
const MIN_TITLE_WIDTH: u16 = 40;

/// How a column is aligned, and whether it gives way on a narrow terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Aligned to the left and never wrapped: locators and codes can be copied.
    Left,
    /// Aligned to the right and never wrapped.
    Right,
    /// Wrapped where the terminal is too narrow.
    Text,
}

/// Rows of a table; cells are cleaned as they are added.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    max_height: usize,
    heads: Vec<&'static str>,
    // Columns to hide on a narrow terminal, the first one first.
    optional: Vec<usize>,
}

impl Table {
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
            max_height: usize::MAX,
            heads: Vec::new(),
            optional: Vec::new(),
        }
    }

    /// A table that shortens text with `…` instead of wrapping it.
    pub fn with_one_line_rows(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            max_height: 1,
            ..Self::new(columns)
        }
    }

    /// Names the columns, in a line above the rows.
    #[must_use]
    pub fn with_heads(mut self, heads: impl Into<Vec<&'static str>>) -> Self {
        self.heads = heads.into();
        self
    }

    /// Columns that a terminal too narrow for all does without, the least important first.
    #[must_use]
    pub fn with_optional(mut self, columns: impl Into<Vec<usize>>) -> Self {
        self.optional = columns.into();
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let cells = cells.into_iter().map(|cell| clean(cell.as_ref()));
        self.rows.push(cells.collect());
    }

    pub fn print(&self, output: &Output) {
        let heads = usize::from(self.has_heads());
        for (at, line) in self.lines(output.width).iter().enumerate() {
            if at < heads {
                output.line(&output.dim(line));
            } else {
                output.line(line);
            }
        }
    }

    /// Whether [`Table::lines`] starts with a line of heads.
    pub fn has_heads(&self) -> bool {
        !self.heads.is_empty() && !self.rows.is_empty()
    }

    // Whether no row has a value in this column.
    fn is_empty_column(&self, at: usize) -> bool {
        self.rows
            .iter()
            .all(|row| row.get(at).is_none_or(String::is_empty))
    }

    // Columns that are not shown: empty ones, and optional ones for which there is no room.
    fn hidden_columns(&self, widths: &[u16], width: Option<u16>) -> Vec<usize> {
        let mut hidden: Vec<usize> = (0..self.columns.len())
            .filter(|at| self.is_empty_column(*at))
            .collect();
        for column in &self.optional {
            let needed: Vec<u16> = self
                .columns
                .iter()
                .zip(widths)
                .enumerate()
                .filter(|(at, _)| !hidden.contains(at))
                .map(|(at, (kind, width))| match kind {
                    Column::Text if at == 0 => *width.min(&MIN_TITLE_WIDTH),
                    Column::Text => *width.min(&MIN_TEXT_WIDTH),
                    Column::Left | Column::Right => *width,
                })
                .collect();
            let spaces = 2 * needed.len().saturating_sub(1) as u16;
            if width.is_some_and(|width| needed.iter().sum::<u16>() + spaces > width) {
                hidden.push(*column);
            }
        }
        hidden
    }

    /// The lines, with columns two spaces apart and empty columns omitted. `width` is that of the terminal, if any.
    pub fn lines(&self, width: Option<u16>) -> Vec<String> {
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_truncation_indicator("…");
        if self.max_height == 1 {
            // Cut anywhere, not only between words: no cell contains a line feed.
            table.set_delimiter('\n');
        }
        if let Some(width) = width {
            table.set_width(width);
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let heads = self.has_heads().then_some(&heads);
        table.add_rows(heads.into_iter().chain(&self.rows).map(|cells| {
            let mut row = Row::from(cells);
            row.max_height(self.max_height);
            row
        }));
        let widths = table.column_max_content_widths();
        let hidden = self.hidden_columns(&widths, width);
        let last = (0..self.columns.len())
            .rfind(|at| !hidden.contains(at))
            .unwrap_or_default();
        let columns = table.column_iter_mut().zip(&self.columns).zip(widths);
        for (at, ((column, kind), width)) in columns.enumerate() {
            column.set_padding((0, if at == last { 0 } else { 2 }));
            column.set_constraint(match kind {
                _ if hidden.contains(&at) => ColumnConstraint::Hidden,
                Column::Text => {
                    ColumnConstraint::LowerBoundary(Width::Fixed(width.min(MIN_TEXT_WIDTH)))
                }
                Column::Left | Column::Right => ColumnConstraint::ContentWidth,
            });
            if *kind == Column::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }
}

/// `812`, `7.1k`, `1.3M`.
pub fn thousands(number: impl TryInto<u64>) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        number @ 0..1_000 => number.to_string(),
        number @ 1_000..1_000_000 => format!("{:.1}k", number as f64 / 1e3),
        number => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// `1 page`, `160 pages`.
pub fn counted(number: impl TryInto<u64>, one: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_terminals_hide_optional_columns() {
        let mut table = Table::with_one_line_rows([Column::Left, Column::Text, Column::Right])
            .with_heads(["NAME", "COMPANY", "PAGES"])
            .with_optional([2, 1]);
        table.row(["annual-report-2022", "The Acme Company of Delaware", "120"]);
        let lines = |width| table.lines(Some(width));
        assert_eq!(
            lines(60),
            [
                "NAME                COMPANY                       PAGES",
                "annual-report-2022  The Acme Company of Delaware    120",
            ]
        );
        assert_eq!(
            lines(40),
            [
                "NAME                COMPANY",
                "annual-report-2022  The Acme Company of…"
            ]
        );
        assert_eq!(lines(30), ["NAME", "annual-report-2022"]);
    }

    const COLUMNS: [Column; 3] = [Column::Text, Column::Left, Column::Right];

    #[test]
    fn columns_align_for_wide_characters() {
        let mut table = Table::new(COLUMNS);
        table.row(["年度报告书2022", "", "7"]);
        table.row(["a\u{202e}b", "", "1234"]);
        assert_eq!(
            table.lines(None),
            ["年度报告书2022     7", "a\\u{202e}b      1234"]
        );
    }

    #[test]
    fn text_fits_the_terminal() {
        let row = ["Quantitative and qualitative disclosures", "p 4", "7"];
        let mut table = Table::new(COLUMNS);
        table.row(row);
        assert_eq!(
            table.lines(Some(26)),
            ["Quantitative and    p 4  7", "qualitative", "disclosures"]
        );
        let mut table = Table::with_one_line_rows(COLUMNS);
        table.row(row);
        assert_eq!(table.lines(Some(26)), ["Quantitative and …  p 4  7"]);
        assert_eq!(
            table.lines(None),
            ["Quantitative and qualitative disclosures  p 4  7"]
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [999, 7_140, 1_300_000].map(thousands),
            ["999", "7.1k", "1.3M"]
        );
    }
}
