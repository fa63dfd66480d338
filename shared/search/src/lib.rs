//! Catalogue and search over published trees.
