//! The cells of tables, as they are stored with the pages of a chunk.

use serde::{Deserialize, Serialize};
use stemma_document::{ByteSpan, GridCell, GridLine, Page};

use super::CodecError;

/// A line with cells. Steps lead from the end of the cell before, so that most numbers are small.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredGrid {
    /// Lines of the chunk without cells before it.
    skipped: u32,
    table: u32,
    row: u32,
    cells: Vec<StoredCell>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredCell {
    start: i64,
    length: u32,
    column: u16,
    columns: u16,
    rows: u16,
    byte: i64,
    // One more than the bytes in the file; 0 if they are not known.
    bytes: u32,
}

pub(super) fn stored(pages: &[Page]) -> Vec<StoredGrid> {
    let mut skipped = 0;
    let mut byte = 0;
    let mut grids = Vec::new();
    for line in pages.iter().flat_map(|page| &page.lines) {
        let Some(grid) = &line.grid else {
            skipped += 1;
            continue;
        };
        let mut end = 0;
        let cells = grid.cells.iter().map(|cell| {
            let start = i64::from(cell.start) - end;
            end = i64::from(cell.end);
            let mut stored = StoredCell {
                start,
                length: cell.end.saturating_sub(cell.start),
                column: cell.column,
                columns: cell.columns,
                rows: cell.rows,
                byte: 0,
                bytes: 0,
            };
            if let Some(span) = cell.bytes {
                stored.byte = i64::from(span.start) - byte;
                stored.bytes = span.end.saturating_sub(span.start).saturating_add(1);
                byte = i64::from(span.end);
            }
            stored
        });
        grids.push(StoredGrid {
            skipped: std::mem::take(&mut skipped),
            table: grid.table,
            row: grid.row,
            cells: cells.collect(),
        });
    }
    grids
}

pub(super) fn set(pages: &mut [Page], grids: Vec<StoredGrid>) -> Result<(), CodecError> {
    let damaged = || CodecError::Damaged("the cells of tables do not fit its lines");
    let mut lines = pages.iter_mut().flat_map(|page| &mut page.lines);
    let mut byte = 0_i64;
    for grid in grids {
        let line = lines.nth(grid.skipped as usize).ok_or_else(damaged)?;
        let mut end = 0_i64;
        let mut cells = Vec::with_capacity(grid.cells.len());
        for cell in grid.cells {
            let (start, till) = span(end, cell.start, cell.length).ok_or_else(damaged)?;
            end = i64::from(till);
            line.text
                .get(start as usize..till as usize)
                .ok_or_else(damaged)?;
            let bytes = match cell.bytes.checked_sub(1) {
                Some(length) => {
                    let (start, end) = span(byte, cell.byte, length).ok_or_else(damaged)?;
                    byte = i64::from(end);
                    Some(ByteSpan { start, end })
                }
                None => None,
            };
            cells.push(GridCell {
                start,
                end: till,
                column: cell.column,
                columns: cell.columns,
                rows: cell.rows,
                bytes,
            });
        }
        line.grid = Some(Box::new(GridLine {
            table: grid.table,
            row: grid.row,
            cells,
        }));
    }
    Ok(())
}

fn span(before: i64, step: i64, length: u32) -> Option<(u32, u32)> {
    let start = u32::try_from(before.checked_add(step)?).ok()?;
    Some((start, start.checked_add(length)?))
}
