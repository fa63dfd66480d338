//! The walk of a document: flow, stages, structure.

pub mod sections;
pub mod structure;
