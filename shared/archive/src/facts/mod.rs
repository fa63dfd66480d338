//! The tagged facts of filings: of one document, and as series over documents.

mod cell;
mod list;
mod place;
mod query;
mod series;
#[cfg(test)]
mod tests;

pub use cell::CellPosition;
pub use list::{FactDimension, FactInfo, FactList, FactsRequest};
pub use series::{EntitySeries, ReportedValue, SeriesPoint, SeriesRequest, SeriesResponse};
