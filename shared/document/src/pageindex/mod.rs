//! The JSON that PageIndex and the programs around it read and write.
//!
//! [`export`] writes it with what Stemma knows beyond it (provenance, references, the place of each heading on its
//! page); readers of the plain format ignore the extra keys. [`import`] reads any tree of that shape, nested or as a
//! flat list with dotted `structure` codes, also trees that are not documents.

mod export;
mod import;

pub use export::{ExportOptions, export};
pub use import::{ImportError, import};
