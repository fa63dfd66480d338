//! All tables of a document, in reading order.

use stemma_document::Page;

use crate::lines::LineKind;
#[cfg(test)]
use crate::lines::{LineReading, read_lines};
use crate::numbers::NumberMarks;
#[cfg(test)]
use crate::numbers::settle_marks;
use crate::tables::grid::{GridTable, grids};
use crate::tables::page::TablePage;
use crate::tables::placed::placed_grids;
use crate::tables::table::FigureTable;

/// The tables of consecutive pages, and what their lines are: page, line and kind. `first` is the number of the first page, and
/// `marks` are those of each page. Stops at a page where `is_cancelled`.
pub(crate) fn read_tables(
    first: u32,
    pages: &[Page],
    marks: &[NumberMarks],
    is_cancelled: &dyn Fn() -> bool,
) -> (Vec<FigureTable>, Vec<(usize, usize, LineKind)>) {
    let mut declared: Vec<GridTable> = grids(pages)
        .iter()
        .flat_map(|grid| grid.tables(first, pages, marks))
        .collect();
    declared.sort_by_key(|table| table.first);
    let mut declared = declared.into_iter().peekable();
    let mut tables: Vec<GridTable> = Vec::new();
    let mut open: Option<GridTable> = None;
    for (index, page) in pages.iter().enumerate() {
        if is_cancelled() {
            break;
        }
        let lines = TablePage::new(page);
        let placed = placed_grids(&lines, page, index);
        let placed = placed
            .iter()
            .flat_map(|grid| grid.tables(first, pages, marks));
        let mut found: Vec<GridTable> = placed.collect();
        found.extend(std::iter::from_fn(|| {
            declared.next_if(|table| table.first.0 <= index)
        }));
        found.sort_by_key(|table| table.first);
        for mut table in found {
            table.read_surroundings(&lines, page);
            if table.table.is_list_of_pages() {
                continue;
            }
            match &mut open {
                Some(above) if table.continues(above, pages) => above.append(table),
                _ => tables.extend(open.replace(table).map(|table| table.finish(pages))),
            }
        }
    }
    tables.extend(open.map(|table| table.finish(pages)));
    for (table, number) in tables.iter_mut().zip(1..) {
        table.table.id = format!("t{number}");
    }
    let lines = tables
        .iter_mut()
        .flat_map(|table| table.lines.drain(..))
        .collect();
    (tables.into_iter().map(|table| table.table).collect(), lines)
}

/// A page with a statement, for tests.
#[cfg(test)]
pub(crate) const STATEMENT: &str = "\
The following discussion covers results of operations and should be read with the statements that follow it here.

                Consolidated Balance Sheets
                  (Dollars in millions)
                                          December 31,
                                        2023        2022
Current assets:
  Cash and equivalents               $ 1,749     $ 1,603
  Receivables, less allowance of
    $12 and $14                          820         (31)
Total assets                         $ 2,569       1,572

Page 12";

#[cfg(test)]
pub(crate) fn tables_of_pages(first: u32, pages: &[Page]) -> Vec<FigureTable> {
    let lines: Vec<Vec<LineReading>> = pages
        .iter()
        .map(|page| read_lines(page.lines.iter().map(|line| line.text.as_str())))
        .collect();
    let texts = pages.iter().zip(&lines).map(|(page, lines)| {
        let texts = page.lines.iter().map(|line| line.text.as_str());
        texts.zip(lines.iter().copied())
    });
    read_tables(first, pages, &settle_marks(texts), &|| false).0
}

#[cfg(test)]
mod tests {
    use stemma_filings::monospaced_page as page;

    use super::*;
    use crate::tables::table::TableRow;

    fn texts(row: &TableRow) -> Vec<&str> {
        row.cells
            .iter()
            .map(|cell| cell.as_ref().map_or("", |cell| cell.text.as_str()))
            .collect()
    }

    #[test]
    fn a_statement_has_title_unit_periods_groups_and_exact_values() {
        let tables = tables_of_pages(12, &[page(STATEMENT)]);
        assert_eq!(tables.len(), 1, "{tables:?}");
        let table = &tables[0];
        assert_eq!(table.id, "t1");
        assert_eq!(table.title.as_deref(), Some("Consolidated Balance Sheets"));
        assert_eq!(table.unit.as_deref(), Some("(Dollars in millions)"));
        assert_eq!(table.scale, Some(1_000_000));
        assert_eq!(table.pages, (12, 12));
        let periods: Vec<&str> = table
            .columns
            .iter()
            .filter_map(|column| column.period.as_deref())
            .collect();
        assert_eq!(periods, ["2023-12", "2022-12"]);
        assert_eq!(table.rows[0].label, "Cash and equivalents");
        assert_eq!(table.rows[0].group.as_deref(), Some("Current assets:"));
        let receivables = table
            .rows
            .iter()
            .find(|row| texts(row).contains(&"820"))
            .unwrap();
        assert_eq!(texts(receivables), ["820", "(31)"]);
        assert_eq!(
            receivables.cells[1].as_ref().unwrap().value.as_deref(),
            Some("-31")
        );
    }

    #[test]
    fn a_cell_has_its_place_on_the_page() {
        let tables = tables_of_pages(1, &[page(STATEMENT)]);
        let [x, y, w, h] = tables[0].rows[0].cells[1].as_ref().unwrap().rect.unwrap();
        assert!(x > 0.4 && x + w < 0.6, "{x} {w}");
        assert!(y > 0.1 && h > 0.0, "{y} {h}");
    }

    #[test]
    fn a_table_goes_on_without_heads_on_the_next_page() {
        let next = "\
Total current liabilities                900         850
Long-term debt                           600         610
Total liabilities                      1,500       1,460";
        let tables = tables_of_pages(
            3,
            &[page(STATEMENT.trim_end_matches("Page 12")), page(next)],
        );
        assert_eq!(tables.len(), 1, "{tables:?}");
        assert_eq!(tables[0].pages, (3, 4));
        assert_eq!(texts(tables[0].rows.last().unwrap()), ["1,500", "1,460"]);
    }

    #[test]
    fn prose_and_single_figures_are_no_table() {
        let text = "\
Sales rose 4 percent to $1,749 million in 2023, and 3 percent in 2022, because more units were sold at higher prices.
We had 12 plants in 5 states.
Page 12";
        assert!(tables_of_pages(1, &[page(text)]).is_empty());
    }

    #[test]
    fn an_empty_cell_leaves_its_column_empty() {
        let text = "\
                                  2023     2022     2021
Goodwill                           500      400      300
Impairment                                   20
Total                              500      420      300";
        let tables = tables_of_pages(1, &[page(text)]);
        assert_eq!(texts(&tables[0].rows[1]), ["", "20", ""], "{tables:?}");
    }

    #[test]
    fn a_table_that_repeats_its_heads_and_says_so_goes_on() {
        let part = |title: &str, first: usize| {
            let rows = (first..first + 6).map(|unit| {
                let text = format!("Unit {unit}");
                format!("{text:<22}{:>8}{:>10}{:>12}\n", 1_000 + unit, "n/a", "5.0%")
            });
            let heads = format!(
                "{title}\n(EUR thousands)\nProperty{:>22}{:>10}{:>12}\n",
                2025, 2024, "Change"
            );
            page(&format!("{heads}{}", rows.collect::<String>()))
        };
        let next = part("Schedule of leases (continued)", 7);
        let tables = tables_of_pages(1, &[part("Schedule of leases", 1), next.clone()]);
        let [table] = &tables[..] else {
            panic!("{tables:#?}");
        };
        assert_eq!(table.rows.len(), 12);
        let heads: Vec<&str> = table
            .columns
            .iter()
            .map(|column| column.head.as_str())
            .collect();
        assert_eq!(heads, ["2025", "2024", "Change"]);
        assert_eq!(table.rows[11].label, "Unit 12");
        let others = tables_of_pages(1, &[part("Schedule of rents", 1), next]);
        assert_eq!(others.len(), 2, "{others:#?}");
    }
}
