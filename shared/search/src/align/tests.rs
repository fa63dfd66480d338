//! Properties that hold for any two documents.
