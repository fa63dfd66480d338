//! Tables of filings: numbers with scale and sign, periods, rows with their cells.
//!
//! A [`TablePage`](page::TablePage) reads the rows of one page; what it cannot read for certain is left empty.

pub mod numbers;
pub mod page;
pub mod period;
pub mod text_words;
