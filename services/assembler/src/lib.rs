//! Consumes the publish lane: the only writer of trees.
