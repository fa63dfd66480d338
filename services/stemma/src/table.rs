//! Tables whose columns are aligned by display width. Cells are shortened to a maximum per column.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::clean;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of a table; cells are cleaned as they are added.
pub struct Table {
    columns: Vec<(Align, usize)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with the alignment and maximum width of each column (0: no maximum).
    pub fn new(columns: &[(Align, usize)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(
            cells
                .into_iter()
                .enumerate()
                .map(|(at, cell): (usize, String)| match self.columns.get(at) {
                    Some((_, most)) if *most > 0 => shorten(&clean(&cell), *most),
                    _ => clean(&cell),
                })
                .collect(),
        );
    }

    /// The lines, with columns two spaces apart and empty columns omitted.
    pub fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        self.rows
            .iter()
            .map(|row: &Vec<String>| {
                let mut line = String::new();
                for ((cell, width), (align, _)) in row
                    .iter()
                    .zip(&widths)
                    .zip(&self.columns)
                    .filter(|((_, width), _)| **width > 0)
                {
                    if !line.is_empty() {
                        line.push_str("  ");
                    }
                    let gap = " ".repeat(width - cell.width());
                    match align {
                        Align::Left => line.extend([cell.as_str(), &gap]),
                        Align::Right => line.extend([gap.as_str(), cell]),
                    }
                }
                line.truncate(line.trim_end().len());
                line
            })
            .collect()
    }
}

/// The text in at most `most` columns, ending with `…` if it was cut.
pub fn shorten(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.into();
    }
    let mut shortened = String::new();
    let mut width = 1;
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width > most {
            break;
        }
        shortened.push(c);
    }
    shortened.truncate(shortened.trim_end().len());
    shortened.push('…');
    shortened
}

/// The text filled with spaces to `width` columns.
pub fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// `812`, `7.1k`, `1.3M`.
pub fn thousands(number: u32) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1}k", f64::from(number) / 1e3),
        _ => format!("{:.1}M", f64::from(number) / 1e6),
    }
}

/// `1 page`, `160 pages`.
pub fn counted(number: usize, one: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_for_wide_characters() {
        let mut table = Table::new(&[(Align::Left, 8), (Align::Left, 0), (Align::Right, 0)]);
        table.row(["年度报告书2022".into(), String::new(), "7".into()]);
        table.row(["a\u{202e}b".into(), String::new(), "1234".into()]);
        assert_eq!(table.lines(), ["年度报…      7", "a\\u{202…  1234"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [999, 7_140, 1_300_000].map(thousands),
            ["999", "7.1k", "1.3M"]
        );
    }
}
