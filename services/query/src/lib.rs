//! Answers over published trees.
