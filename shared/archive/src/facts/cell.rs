//! The table cells of tagged figures.

use std::collections::HashMap;

use serde::Serialize;
use stemma_reading::tables::{CellFact, FigureTable};
use utoipa::ToSchema;

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CellPosition {
    /// Locator of the table: `3M_2022_10K#t12`
    pub table: String,
    /// 1-based among the rows of the table, which are without its heads.
    pub row: usize,
    /// 1-based among the columns of the table, without the column of row labels.
    pub column: usize,
}

/// The cells of figures, by the offset of their tags. `figures` are in the order of the file.
pub(super) fn cells_of_figures(
    tables: Vec<FigureTable>,
    figures: &[CellFact],
    label: &str,
) -> HashMap<u32, CellPosition> {
    let mut cells = HashMap::new();
    for mut table in tables {
        table.link_facts(figures);
        let locator = format!("{label}#{}", table.id);
        for (row, content) in (1..).zip(&table.rows) {
            for (column, cell) in (1..).zip(&content.cells) {
                for fact in cell.iter().flat_map(|cell| &cell.facts) {
                    // A tag around several cells begins in the first.
                    cells.entry(fact.byte).or_insert_with(|| CellPosition {
                        table: locator.clone(),
                        row,
                        column,
                    });
                }
            }
        }
    }
    cells
}
