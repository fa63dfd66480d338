//! The walk of a document: flow, stages, structure.
