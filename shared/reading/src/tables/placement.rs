//! Boxes of cells on the displayed page.

use std::ops::Range;

use stemma_document::{Page, Rect};

/// The box of a part of a line on the page as it is read.
pub(crate) fn text_rect(page: &Page, line: usize, at: &Range<usize>) -> Option<Rect> {
    let line = page.lines.get(line)?;
    let mut inside = line
        .words
        .iter()
        .filter(|word| (word.start as usize) < at.end && at.start < word.end as usize);
    let first = inside.next()?;
    let last = inside.next_back().unwrap_or(first);
    Some(Rect {
        x0: first.x0,
        x1: last.x1,
        ..line.rect
    })
}

pub(crate) fn shares_of_page(page: &Page, rect: Rect) -> [f64; 4] {
    let (width, height) = page.displayed_size();
    let rect = page.displayed(rect);
    // Four digits are a tenth of a point.
    let share = |value: f32, size: f32| {
        (f64::from((value / size.max(1.0)).clamp(0.0, 1.0)) * 10_000.0).round() / 10_000.0
    };
    [
        share(rect.x0.points(), width.points()),
        share(rect.y0.points(), height.points()),
        share(rect.width(), width.points()),
        share(rect.height(), height.points()),
    ]
}
