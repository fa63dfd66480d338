//! Made-up pages: six points for each character, lines ten points high.

use stemma_filings::spaced_page as page;

use crate::tables::grid::{CellKind, Place, RowCell, with_signs};
use crate::tables::{FigureTable, TableRow, tables_of_pages};

// Lines of one cell are ten points apart, rows fourteen.
const WRAPPED: f32 = 10.0;
const ROW: f32 = 14.0;

fn only_table(lines: &[(f32, &str)]) -> FigureTable {
    let mut tables = tables_of_pages(1, &[page(lines)]);
    assert_eq!(tables.len(), 1, "{tables:#?}");
    tables.remove(0)
}

fn heads(table: &FigureTable) -> Vec<&str> {
    let heads = table.columns.iter();
    heads.map(|column| column.head.as_str()).collect()
}

fn labels(table: &FigureTable) -> Vec<&str> {
    table.rows.iter().map(|row| row.label.as_str()).collect()
}

fn texts(row: &TableRow) -> Vec<&str> {
    let cells = row.cells.iter();
    cells
        .map(|cell| cell.as_ref().map_or("", |cell| cell.text.as_str()))
        .collect()
}

#[test]
fn a_short_head_covers_all_columns_that_it_is_centered_over() {
    let table = only_table(&[
        (
            ROW,
            "                         Three Months            Six Months  ",
        ),
        (
            ROW,
            "                        2025      2024        2025      2024  ",
        ),
        (
            ROW,
            "Product sales            110       100         210       200  ",
        ),
        (
            ROW,
            "Services                  11        10          21        20  ",
        ),
    ]);
    let expected = [
        "Three Months 2025",
        "Three Months 2024",
        "Six Months 2025",
        "Six Months 2024",
    ];
    assert_eq!(heads(&table), expected);
}

#[test]
fn a_head_over_an_odd_number_of_columns_covers_more_than_the_middle_one() {
    let table = only_table(&[
        (
            ROW,
            "                                  Years Ended             ",
        ),
        (
            ROW,
            "                         2025        2024        2023     ",
        ),
        (
            ROW,
            "Product sales             110         100         210     ",
        ),
        (
            ROW,
            "Services                   11          10          21     ",
        ),
    ]);
    assert_eq!(
        heads(&table),
        ["Years Ended 2025", "Years Ended 2024", "Years Ended 2023"]
    );
}

#[test]
fn the_lines_of_one_head_stand_over_its_column_alone() {
    let table = only_table(&[
        (
            ROW,
            "                                     Weighted              ",
        ),
        (
            WRAPPED,
            "                                      Average              ",
        ),
        (
            WRAPPED,
            "                       Shares      Grant Price      Value  ",
        ),
        (
            ROW,
            "Granted                   110            10.5         210  ",
        ),
        (
            ROW,
            "Vested                     11            10.1          21  ",
        ),
    ]);
    assert_eq!(
        heads(&table),
        ["Shares", "Weighted Average Grant Price", "Value"]
    );
}

#[test]
fn the_day_of_a_head_on_a_line_of_its_own_is_no_row() {
    let table = only_table(&[
        (ROW, "                      June      December "),
        (WRAPPED, "                        30            31 "),
        (ROW, "(in millions)         2025          2024 "),
        (ROW, "Cash                   110           100 "),
        (ROW, "Receivables             11            10 "),
    ]);
    assert_eq!(heads(&table), ["June 30 2025", "December 31 2024"]);
    assert_eq!(table.rows.len(), 2);
}

#[test]
fn a_unit_below_the_heads_is_that_of_the_table() {
    let table = only_table(&[
        (ROW, "                        2025      2024      2023  "),
        (ROW, "                             (in thousands)       "),
        (ROW, "Product sales            110       100       210  "),
        (ROW, "Services                  11        10        21  "),
    ]);
    assert_eq!(heads(&table), ["2025", "2024", "2023"]);
    assert_eq!(table.unit.as_deref(), Some("(in thousands)"));
    assert_eq!(table.scale, Some(1_000));
    // It hides no head above it from its columns.
    let table = only_table(&[
        (
            ROW,
            "                    Year Ended December 31,                 Change      ",
        ),
        (
            ROW,
            "                  2025      2024      2023              2025 vs. 2024   ",
        ),
        (
            ROW,
            "                        (in thousands, except percentages)              ",
        ),
        (
            ROW,
            "Product sales      110       100       210              10        10 %  ",
        ),
        (
            ROW,
            "Services            11        10        21               1        10 %  ",
        ),
    ]);
    let years = ["2025", "2024", "2023"].map(|year| format!("Year Ended December 31, {year}"));
    let change = "Change 2025 vs. 2024";
    assert_eq!(
        heads(&table),
        [&years[0], &years[1], &years[2], change, change]
    );
    let unit = "(in thousands, except percentages)";
    assert_eq!(table.unit.as_deref(), Some(unit));
    // A unit of some columns is part of their heads.
    let table = only_table(&[
        (ROW, "                    2025           2024   "),
        (ROW, "                (in thousands)     (in %) "),
        (ROW, "Product sales        110            10.5  "),
        (ROW, "Services              11            10.1  "),
    ]);
    assert_eq!(heads(&table), ["2025 (in thousands)", "2024 (in %)"]);
}

#[test]
fn rows_may_end_with_text() {
    let table = only_table(&[
        (
            ROW,
            "                        2025          2024      Useful lives      ",
        ),
        (
            ROW,
            "Land                  82,381        50,700                        ",
        ),
        (
            ROW,
            "Buildings             48,123        42,717      30 years          ",
        ),
        (
            ROW,
            "Improvements       $ 863,342     $ 524,537      Over life of lease",
        ),
        (
            ROW,
            "Furniture            139,809             —      3 years           ",
        ),
        (
            ROW,
            "Work in progress     282,248       298,558                        ",
        ),
        (
            ROW,
            "Total              1,415,903       916,512                        ",
        ),
    ]);
    assert_eq!(heads(&table), ["2025", "2024", "Useful lives"]);
    let rows = table.rows.iter();
    let rows: Vec<(&str, Option<&str>)> = rows
        .map(|row| {
            let value = row.cells[0].as_ref().and_then(|cell| cell.value.as_deref());
            (row.label.as_str(), value)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("Land", Some("82381")),
            ("Buildings", Some("48123")),
            ("Improvements", Some("863342")),
            ("Furniture", Some("139809")),
            ("Work in progress", Some("282248")),
            ("Total", Some("1415903")),
        ]
    );
    let lives = table.rows[2].cells[2].as_ref().map(|cell| &*cell.text);
    assert_eq!(lives, Some("Over life of lease"));
    let table = only_table(&[
        (
            ROW,
            "                          2025      Useful lives      ",
        ),
        (
            ROW,
            "Land                    82,381                        ",
        ),
        (
            ROW,
            "Buildings               48,123      30 years          ",
        ),
        (
            ROW,
            "Improvements           863,342      Over life of lease",
        ),
        (
            ROW,
            "Total                  993,846                        ",
        ),
    ]);
    assert_eq!(
        labels(&table),
        ["Land", "Buildings", "Improvements", "Total"]
    );
    assert_eq!(texts(&table.rows[1]), ["48,123", "30 years"]);
}

#[test]
fn two_figures_of_one_cell_are_no_figure() {
    let cell = |text: &str| {
        let place = Place {
            page: 0,
            line: 0,
            start: 0,
            end: text.len(),
        };
        with_signs([RowCell::new(text, 1..2, place)].into_iter(), false).remove(0)
    };
    for (first, second, expected) in [
        ("48,123", "863,342", CellKind::Text),
        ("48,123", "(1)", CellKind::Figure),
        ("48,123", "years", CellKind::Figure),
    ] {
        let mut joined = cell(first);
        joined.join(&cell(second));
        assert_eq!(joined.kind, expected, "{first} {second}");
    }
}

#[test]
fn a_title_over_the_whole_table_is_no_head() {
    let table = only_table(&[
        (
            ROW,
            "                 Statements of Income                     ",
        ),
        (
            ROW,
            "                                        2025        2024  ",
        ),
        (
            ROW,
            "Product sales                            110         100  ",
        ),
        (
            ROW,
            "Services                                  11          10  ",
        ),
    ]);
    assert_eq!(heads(&table), ["2025", "2024"]);
    assert_eq!(table.title.as_deref(), Some("Statements of Income"));
}

#[test]
fn a_wrapped_label_is_one_label_and_a_group_is_none() {
    let table = only_table(&[
        (ROW, "                              2025      2024  "),
        (ROW, "Current assets                                "),
        (ROW, "Accounts receivable from                      "),
        (WRAPPED, "Other Companies                110       100  "),
        (ROW, "Inventories of finished         11        10  "),
        (ROW, "Other                            1         2  "),
    ]);
    assert_eq!(
        labels(&table),
        [
            "Accounts receivable from Other Companies",
            "Inventories of finished",
            "Other"
        ]
    );
    assert_eq!(table.rows[0].group.as_deref(), Some("Current assets"));
}

#[test]
fn a_label_on_a_slightly_lower_line_belongs_to_its_figures() {
    let table = only_table(&[
        (ROW, "                              2025      2024  "),
        (ROW, "Commercial paper               110       100  "),
        (ROW, "Corporate bonds                 11        10  "),
        (ROW, "                               121       110  "),
        (2.0, "Total                                         "),
    ]);
    assert_eq!(
        labels(&table),
        ["Commercial paper", "Corporate bonds", "Total"]
    );
}

#[test]
fn the_halves_of_a_row_at_one_height_are_one_row() {
    let table = only_table(&[
        (ROW, "                              2025      2024  "),
        (ROW, "Basic                          110       100  "),
        (ROW, "Diluted                                   10  "),
        (0.0, "                                11            "),
    ]);
    assert_eq!(table.rows.len(), 2);
    assert_eq!(texts(&table.rows[1]), ["11", "10"]);
}

#[test]
fn a_long_label_in_the_column_of_labels_does_not_end_a_table() {
    let table = only_table(&[
        (
            ROW,
            "                                                                      2025      2024  ",
        ),
        (
            ROW,
            "Accounts payable                                                       110       100  ",
        ),
        (
            ROW,
            "Common stock, par value of one cent a share; one million shares                       ",
        ),
        (
            WRAPPED,
            "were authorized and of these some were issued and all of these were                   ",
        ),
        (
            WRAPPED,
            "outstanding                                                             11        10  ",
        ),
        (
            ROW,
            "Total liabilities and equity                                           121       110  ",
        ),
    ]);
    assert_eq!(table.rows.len(), 3);
    assert_eq!(heads(&table), ["2025", "2024"]);
}

#[test]
fn texts_between_labels_and_figures_are_a_column() {
    let table = only_table(&[
        (
            ROW,
            "                 Maturities     Rates           2025  ",
        ),
        (
            ROW,
            "Notes of May     2034 - 2044    4.80% - 4.95%    110  ",
        ),
        (
            ROW,
            "Notes of June    2025 - 2057    3.15% - 5.20%     11  ",
        ),
        (
            ROW,
            "Total                                            121  ",
        ),
    ]);
    assert_eq!(heads(&table), ["Maturities", "Rates", "2025"]);
    assert_eq!(labels(&table), ["Notes of May", "Notes of June", "Total"]);
    assert_eq!(
        texts(&table.rows[0]),
        ["2034 - 2044", "4.80% - 4.95%", "110"]
    );
}

#[test]
fn heads_inside_of_a_table_begin_another() {
    let tables = tables_of_pages(
        1,
        &[page(&[
            (ROW, "                      Shares    Capital     Total  "),
            (ROW, "Balance at January       110        100       210  "),
            (ROW, "Issued                    11         10        21  "),
            (ROW, "                       Stock     Income      Sum   "),
            (ROW, "Balance at June          121        110       231  "),
            (ROW, "Issued                    11         10        21  "),
        ])],
    );
    let heads: Vec<Vec<&str>> = tables.iter().map(heads).collect();
    assert_eq!(
        heads,
        [["Shares", "Capital", "Total"], ["Stock", "Income", "Sum"]]
    );
}

#[test]
fn a_statement_is_named_by_its_title_and_not_by_its_period() {
    let page = page(&[
        (ROW, "Consolidated Statement of Income"),
        (ROW, "                Years ended December 31"),
        (
            ROW,
            "(Millions, except per share amounts)        2018        2017",
        ),
        (
            ROW,
            "Net sales                               $ 32,765    $ 31,657",
        ),
        (
            ROW,
            "Cost of sales                             16,682      16,055",
        ),
        (
            ROW,
            "Operating income                           7,207       7,692",
        ),
    ]);
    let tables = tables_of_pages(1, &[page]);
    assert_eq!(
        (tables[0].title.as_deref(), tables[0].unit.as_deref()),
        (
            Some("Consolidated Statement of Income"),
            Some("(Millions, except per share amounts)")
        )
    );
}

#[test]
fn words_far_to_the_right_of_a_page_are_read() {
    let indent = " ".repeat(720);
    let lines = [
        format!("{indent}                    2025      2024  "),
        format!("{indent}Product sales        110       100  "),
        format!("{indent}Services              11        10  "),
    ];
    let lines: Vec<(f32, &str)> = lines.iter().map(|line| (ROW, line.as_str())).collect();
    tables_of_pages(1, &[page(&lines)]);
}

#[test]
fn a_day_belongs_to_each_year_under_the_head_above_it() {
    let table = only_table(&[
        (
            ROW,
            "                          Three Months Ended           Nine Months Ended",
        ),
        (
            2.0 * ROW,
            "                               September 30,               September 30,",
        ),
        (
            2.0 * ROW,
            "                           2023         2022        2023         2022   ",
        ),
        (
            ROW,
            "Automotive sales      $  18,582    $  17,785   $  57,879    $  46,969   ",
        ),
        (
            ROW,
            "Restructuring                --         (142)         --         (142)  ",
        ),
    ]);
    let periods: Vec<&str> = table
        .columns
        .iter()
        .filter_map(|column| column.period.as_deref())
        .collect();
    let expected = [
        "3 months to 2023-09",
        "3 months to 2022-09",
        "9 months to 2023-09",
        "9 months to 2022-09",
    ];
    assert_eq!(periods, expected, "{table}");
}
