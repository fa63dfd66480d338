//! Boxes of cells on the displayed page.

use std::ops::Range;

use stemma_document::{Page, Rect};

/// The box of a part of a line on the page as it is read.
pub(crate) fn text_rect(page: &Page, line: usize, at: &Range<usize>) -> Option<Rect> {
    let line = page.lines.get(line)?;
    let mut inside = line.words_at(at);
    let first = inside.next()?;
    let last = inside.next_back().unwrap_or(first);
    Some(Rect {
        x0: first.x0,
        x1: last.x1,
        ..line.rect
    })
}
