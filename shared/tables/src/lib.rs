//! Tables of filings: numbers with scale and sign, periods, rows with their cells, and whole tables.
//!
//! A [`TablePage`](page::TablePage) reads the rows of one page; what it cannot read for certain is left empty. Tables that an HTML file
//! declares are read from their cells.

mod document;
mod grid;
mod notes;
pub mod numbers;
pub mod page;
pub mod period;
mod placed;
mod placement;
mod surroundings;
mod table;
pub mod text_words;

pub use document::tables_of_pages;
pub use table::{CellFact, FigureTable, TableCell, TableColumn, TableNote, TableRow};
