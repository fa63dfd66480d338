//! Tables of filings: numbers with scale and sign, periods, rows with their cells, and whole tables.
//!
//! A [`TablePage`](page::TablePage) reads the rows of one page; what it cannot read for certain is left empty.

pub mod numbers;
pub mod page;
pub mod period;
mod table;
pub mod text_words;

pub use table::{FigureTable, TableCell, TableColumn, TableRow, tables_of_pages};
