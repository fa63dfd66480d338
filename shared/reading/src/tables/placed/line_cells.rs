//! The cells of a line, told apart by the gaps between its words.

use std::ops::Range;

use stemma_document::Page;

use crate::cells::{is_figure_part, is_filler};

// Gaps in line heights between the words of two cells. Spaces of proportional fonts are a fifth to a third.
const CELL_GAP: f32 = 0.9;
// The same in spaces: where words are far apart anyway, as in monospaced texts, and where a figure begins.
const CELL_SPACES: f32 = 1.9;
const FIGURE_SPACES: f32 = 1.6;
// A space where no text of the page shows one, in line heights.
pub(super) const USUAL_SPACE: f32 = 0.25;
// That of monospaced fonts. A page that has only tables shows wider gaps.
const MAX_SPACE: f32 = 0.6;

/// Words of one line without wide gaps between them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LineCell {
    pub(super) line: usize,
    /// Byte range in the line.
    pub(super) at: Range<usize>,
    pub(super) x: (f32, f32),
}

/// The usual space between two words of a page, in line heights.
pub(super) fn space_of(page: &Page) -> f32 {
    let mut gaps: Vec<f32> = Vec::new();
    for line in page.lines.iter().filter(|line| line.rect.height() > 0.0) {
        let words = line.words.windows(2);
        let between = words.map(|pair| pair[1].x0.points() - pair[0].x1.points());
        gaps.extend(between.map(|gap| gap / line.rect.height()));
    }
    gaps.retain(|gap| *gap > 0.0);
    gaps.sort_by(f32::total_cmp);
    // Gaps between cells are the wide ones.
    let space = gaps.get(gaps.len() / 4).copied();
    space.unwrap_or(USUAL_SPACE).min(MAX_SPACE)
}

/// The cells of a line. `space` is the usual space of the page.
pub(super) fn line_cells(page: &Page, line: usize, space: f32) -> Vec<LineCell> {
    split(page, line, |gap, figure| {
        let least = match figure {
            true => FIGURE_SPACES * space,
            false => CELL_GAP.max(CELL_SPACES * space),
        };
        gap >= least
    })
}

/// Splits a cell of a head at every gap that is wider than a space.
pub(super) fn loose_parts(page: &Page, cell: &LineCell, space: f32) -> Vec<LineCell> {
    let mut parts = split(page, cell.line, |gap, _| gap >= FIGURE_SPACES * space);
    parts.retain(|part| cell.at.start < part.at.end && part.at.start < cell.at.end);
    parts
}

fn split(page: &Page, at: usize, is_break: impl Fn(f32, bool) -> bool) -> Vec<LineCell> {
    let Some(line) = page.lines.get(at) else {
        return Vec::new();
    };
    let height = line.rect.height().max(1.0);
    let mut cells: Vec<LineCell> = Vec::new();
    for word in &line.words {
        let range = word.start as usize..word.end as usize;
        let x = (word.x0.points(), word.x1.points());
        let text = line.text.get(range.clone()).unwrap_or_default();
        if is_filler(text) {
            continue;
        }
        match cells.last_mut() {
            Some(last) if !is_break((x.0 - last.x.1) / height, is_figure_part(text)) => {
                last.at.end = range.end;
                last.x.1 = last.x.1.max(x.1);
            }
            _ => cells.push(LineCell {
                line: at,
                at: range,
                x,
            }),
        }
    }
    cells
}
