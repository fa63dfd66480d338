//! Tables of filings: columns with periods and units, rows with groups, and cells.
//!
//! `grid` reads the cells that an HTML file declares and `placed` those that positions of words show; both give [`FigureTable`]s.
//! Rows without columns, as in texts without positions, are read by `ordered`, for claims alone. A [`TablePage`](page::TablePage)
//! has the cells of all of them by line.

mod document;
mod grid;
mod lines;
mod notes;
mod ordered;
pub mod page;
mod placed;
mod placement;
mod surroundings;
mod table;

pub use document::tables_of_pages;
pub use table::{Cell, CellFact, FigureTable, Place, TableColumn, TableNote, TableRow};
