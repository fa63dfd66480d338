//! The JSON format of PageIndex and compatible programs.
//!
//! [`export`] adds provenance, references and heading positions, which other readers ignore. [`import`] reads any tree
//! in this format, nested or as a flat list with dotted `structure` codes.

mod export;
mod import;
mod starts;

pub use export::{ExportOptions, export};
pub use import::{ImportError, import};
