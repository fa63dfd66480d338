//! Tables of filings: rows with their cells, and whole tables.
//!
//! A [`TablePage`](page::TablePage) reads the rows of one page; what it cannot read for certain is left empty. Tables that an
//! HTML file declares are read from their cells.

mod cell_unit;
mod document;
mod grid;
mod notes;
pub mod page;
mod placed;
mod placement;
mod surroundings;
mod table;

pub use cell_unit::CellUnit;
pub(crate) use document::read_tables;
#[cfg(test)]
pub(crate) use document::{STATEMENT, tables_of_pages};
pub use table::{CellFact, FigureTable, TableCell, TableColumn, TableNote, TableRow};
