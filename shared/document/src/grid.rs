//! Tables that a file declares: the cells on a line, with their row.

use crate::ByteSpan;

/// What a line shows of a row of a table. A row whose cells have several lines is shown by as many lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GridLine {
    /// Number of the table in the document; an inner table has a higher one than the table around it.
    pub table: u32,
    /// 0-based. Rows without text are counted and have no line.
    pub row: u32,
    /// From left to right. Cells without text are left out.
    pub cells: Vec<GridCell>,
}

/// The part of a cell that is on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GridCell {
    /// Byte offset in the line.
    pub start: u32,
    /// Exclusive byte offset in the line.
    pub end: u32,
    /// 0-based first column of the table that it covers.
    pub column: u16,
    /// How many columns it covers.
    pub columns: u16,
    /// How many rows it covers.
    pub rows: u16,
    /// The place of its visible text in the file.
    pub bytes: Option<ByteSpan>,
}
