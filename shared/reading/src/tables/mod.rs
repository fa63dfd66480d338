//! Tables of filings: rows with their cells, and whole tables.
//!
//! Tables that an HTML or Markdown file declares are read from their cells, and others from the places of words.

mod cell_unit;
mod document;
mod grid;
mod notes;
#[cfg(test)]
mod number_style_tests;
mod page;
mod pipes;
mod placed;
mod placement;
mod surroundings;
mod table;
mod text;

pub use cell_unit::CellUnit;
pub(crate) use document::read_tables;
#[cfg(test)]
pub(crate) use document::{STATEMENT, tables_of_pages};
pub(crate) use page::CELL_GAP;
pub use table::{CellFact, FigureTable, TableCell, TableColumn, TableNote, TableRow};
pub(crate) use text::read_text_tables;
