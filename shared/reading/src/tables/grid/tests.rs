//! Tables of made-up filings with their cells as the HTML reader gives them.

use stemma_document::{ByteSpan, GridCell, GridLine, Line, Page, Pt, Rect, Word};

use crate::tables::{CellFact, FigureTable, TableRow, tables_of_pages};

// A cell: its first column, how many columns and rows it covers, and its text.
type Cell<'a> = (u16, u16, u16, &'a str);

// A line of each row, with words ten points for each character; a row of one cell at column 99 is a line outside of the table.
fn page(table: u32, rows: &[&[Cell<'_>]]) -> Page {
    let lines = (0..).zip(rows).map(|(row, cells)| {
        let mut line = Line::default();
        let mut grid = GridLine {
            table,
            row,
            cells: Vec::new(),
        };
        for (column, columns, rows, text) in *cells {
            if !line.text.is_empty() {
                line.text.push(' ');
            }
            let start = u32::try_from(line.text.len()).unwrap();
            line.text.push_str(text);
            let end = u32::try_from(line.text.len()).unwrap();
            let x = |at: u32| Pt::new(at as f32 * 5.0);
            line.words.push(Word {
                start,
                end,
                x0: x(start),
                x1: x(end),
            });
            grid.cells.push(GridCell {
                start,
                end,
                column: *column,
                columns: *columns,
                rows: *rows,
                bytes: Some(ByteSpan {
                    start: row * 1_000 + start,
                    end: row * 1_000 + end,
                }),
            });
        }
        let y = row as f32 * 12.0;
        line.rect = Rect::new(0.0, y, line.text.len() as f32 * 5.0, y + 10.0);
        let is_outside = matches!(cells, [(99, ..)]);
        line.grid = (!is_outside).then(|| Box::new(grid));
        line
    });
    Page {
        width: Pt::new(612.0),
        height: Pt::new(792.0),
        lines: lines.collect(),
        ..Page::default()
    }
}

fn only_table(rows: &[&[Cell<'_>]]) -> FigureTable {
    let mut tables = tables_of_pages(1, &[page(0, rows)]);
    assert_eq!(tables.len(), 1, "{tables:#?}");
    tables.remove(0)
}

fn heads(table: &FigureTable) -> Vec<&str> {
    table
        .columns
        .iter()
        .map(|column| column.head.as_str())
        .collect()
}

fn texts(row: &TableRow) -> Vec<&str> {
    let cells = row.cells.iter();
    cells
        .map(|cell| cell.as_ref().map_or("", |cell| cell.text.as_str()))
        .collect()
}

fn row<'a>(table: &'a FigureTable, label: &str) -> &'a TableRow {
    let found = table.rows.iter().find(|row| row.label == label);
    found.unwrap_or_else(|| panic!("no row {label} in {table:#?}"))
}

#[test]
fn heads_over_several_columns_belong_to_each_of_them() {
    let table = only_table(&[
        &[(99, 1, 1, "Consolidated Statements of Operations")],
        &[
            (0, 3, 1, "(in millions)"),
            (3, 6, 1, "Three Months Ended June 30,"),
            (9, 6, 1, "Six Months Ended June 30,"),
        ],
        &[
            (3, 3, 1, "2024"),
            (6, 3, 1, "2023"),
            (9, 3, 1, "2024"),
            (12, 3, 1, "2023"),
        ],
        &[(0, 3, 1, "Revenues:")],
        &[
            (0, 3, 1, "Products"),
            (3, 1, 1, "$"),
            (4, 1, 1, "120"),
            (6, 1, 1, "$"),
            (7, 1, 1, "110"),
            (9, 1, 1, "$"),
            (10, 1, 1, "230"),
            (12, 1, 1, "$"),
            (13, 1, 1, "215"),
        ],
        &[
            (0, 3, 1, "Services"),
            (3, 2, 1, "40"),
            (6, 2, 1, "(35"),
            (8, 1, 1, ")"),
            (9, 2, 1, "80"),
            (12, 2, 1, "—"),
        ],
        &[
            (0, 3, 1, "Growth"),
            (3, 2, 1, "5.6"),
            (5, 1, 1, "%"),
            (6, 2, 1, "4.1"),
            (8, 1, 1, "%"),
            (9, 2, 1, "5.0"),
            (11, 1, 1, "%"),
            (12, 2, 1, "4.9"),
            (14, 1, 1, "%"),
        ],
    ]);
    assert_eq!(
        table.title.as_deref(),
        Some("Consolidated Statements of Operations")
    );
    assert_eq!(table.unit.as_deref(), Some("(in millions)"));
    assert_eq!(table.scale, Some(1_000_000));
    assert_eq!(
        heads(&table),
        [
            "Three Months Ended June 30, 2024",
            "Three Months Ended June 30, 2023",
            "Six Months Ended June 30, 2024",
            "Six Months Ended June 30, 2023"
        ]
    );
    assert!(table.columns.iter().all(|column| column.period.is_some()));
    let products = row(&table, "Products");
    assert_eq!(products.group.as_deref(), Some("Revenues:"));
    assert_eq!(texts(products), ["$ 120", "$ 110", "$ 230", "$ 215"]);
    assert_eq!(texts(row(&table, "Services")), ["40", "(35)", "80", "—"]);
    assert_eq!(
        texts(row(&table, "Growth")),
        ["5.6%", "4.1%", "5.0%", "4.9%"]
    );
    let negative = row(&table, "Services").cells[1].as_ref().unwrap();
    assert_eq!(negative.value.as_deref(), Some("-35"));
    // From the first digit to the `)` in the cell behind.
    assert_eq!(negative.bytes.map(|[start, end]| end - start), Some(5));
    assert!(negative.rect.is_some());
}

#[test]
fn new_heads_inside_of_a_table_begin_another() {
    let tables = tables_of_pages(
        1,
        &[page(
            0,
            &[
                &[(2, 4, 1, "December 31, 2024")],
                &[(2, 1, 1, "Level 1"), (4, 1, 1, "Level 2")],
                &[(0, 1, 1, "Bonds"), (2, 1, 1, "10"), (4, 1, 1, "20")],
                &[(2, 4, 1, "December 31, 2023")],
                &[(0, 1, 1, "Bonds"), (2, 1, 1, "30"), (4, 1, 1, "40")],
            ],
        )],
    );
    assert_eq!(tables.len(), 2, "{tables:#?}");
    assert_eq!(
        heads(&tables[0]),
        ["December 31, 2024 Level 1", "December 31, 2024 Level 2"]
    );
    assert_eq!(
        heads(&tables[1]),
        ["December 31, 2023 Level 1", "December 31, 2023 Level 2"]
    );
    assert_eq!((tables[0].id.as_str(), tables[1].id.as_str()), ("t1", "t2"));
    assert_eq!(texts(&tables[1].rows[0]), ["30", "40"]);
}

#[test]
fn rates_and_dates_between_amounts_have_columns_of_their_own() {
    let table = only_table(&[
        &[
            (2, 1, 1, "Maturity"),
            (4, 1, 1, "Rate"),
            (6, 1, 1, "2024"),
            (8, 1, 1, "2023"),
        ],
        &[
            (0, 1, 1, "Notes"),
            (2, 1, 1, "June 2031"),
            (4, 1, 1, "4.25%"),
            (6, 1, 1, "$500"),
            (8, 1, 1, "$500"),
        ],
        &[
            (0, 1, 1, "Bonds"),
            (2, 1, 1, "May 2040"),
            (4, 1, 1, "5.00%"),
            (6, 1, 1, "—"),
            (8, 1, 1, "750"),
        ],
        &[
            (0, 1, 1, "Total debt"),
            (6, 1, 1, "500"),
            (8, 1, 1, "1,250"),
        ],
    ]);
    assert_eq!(heads(&table), ["Maturity", "Rate", "2024", "2023"]);
    assert_eq!(
        texts(&table.rows[0]),
        ["June 2031", "4.25%", "$500", "$500"]
    );
    assert_eq!(table.rows[0].cells[0].as_ref().unwrap().value, None);
    assert_eq!(texts(row(&table, "Total debt")), ["", "", "500", "1,250"]);
}

#[test]
fn a_label_over_several_rows_or_lines_is_read_once() {
    let table = only_table(&[
        &[(4, 1, 1, "2024"), (6, 1, 1, "2023")],
        &[
            (0, 1, 2, "Americas"),
            (2, 1, 1, "Sales"),
            (4, 1, 1, "10"),
            (6, 1, 1, "9"),
        ],
        &[(2, 1, 1, "Profit"), (4, 1, 1, "3"), (6, 1, 1, "2")],
        &[(0, 3, 1, "Receivables, less allowance of $12")],
        &[
            (0, 3, 1, "and $14, respectively"),
            (4, 1, 1, "820"),
            (6, 1, 1, "790"),
        ],
    ]);
    assert_eq!(
        texts(row(&table, "Americas Profit")),
        ["3", "2"],
        "{table:#?}"
    );
    let wrapped = row(
        &table,
        "Receivables, less allowance of $12 and $14, respectively",
    );
    assert_eq!(texts(wrapped), ["820", "790"]);
}

#[test]
fn marks_of_footnotes_are_no_figures() {
    let table = only_table(&[
        &[(0, 1, 1, "Year"), (2, 1, 1, "2024"), (5, 1, 1, "2023")],
        &[
            (0, 1, 1, "Sales"),
            (2, 1, 1, "120"),
            (3, 1, 1, "(1)"),
            (5, 1, 1, "110"),
        ],
        &[(0, 1, 1, "Other (2)"), (2, 1, 1, "7"), (5, 1, 1, "(3)")],
        &[(99, 1, 1, "(1) Without the store in Springfield.")],
        &[(99, 1, 1, "(2) Interest and fees.")],
    ]);
    let sales = row(&table, "Sales");
    assert_eq!(texts(sales), ["120", "110"]);
    assert_eq!(sales.cells[0].as_ref().unwrap().marks, ["1"]);
    let other = row(&table, "Other (2)").cells[1].as_ref().unwrap();
    assert_eq!(other.value.as_deref(), Some("-3"));
    let notes: Vec<(&str, &str)> = table
        .notes
        .iter()
        .map(|note| (note.mark.as_str(), note.text.as_str()))
        .collect();
    assert_eq!(
        notes,
        [
            ("1", "Without the store in Springfield."),
            ("2", "Interest and fees.")
        ]
    );
}

#[test]
fn cells_lead_to_the_facts_tagged_in_them() {
    let mut table = only_table(&[
        &[(2, 1, 1, "2024"), (4, 1, 1, "2023")],
        &[(0, 1, 1, "Sales"), (2, 1, 1, "120"), (4, 1, 1, "110")],
    ]);
    let fact = |byte, end| CellFact {
        concept: format!("us-gaap:At{byte}"),
        period: "2024-12-31".into(),
        unit: None,
        value: None,
        byte,
        end,
    };
    // One around the label, two nested around the first figure, none around the second; line 1 begins at byte 1000.
    table.link_facts(&[
        fact(990, 1_005),
        fact(1_005, 1_010),
        fact(1_006, 1_010),
        fact(2_000, 2_010),
    ]);
    let linked: Vec<Vec<u32>> = table.rows[0]
        .cells
        .iter()
        .flatten()
        .map(|cell| cell.facts.iter().map(|fact| fact.byte).collect())
        .collect();
    assert_eq!(linked, [vec![1_005, 1_006], vec![]]);
}

#[test]
fn laid_out_text_and_contents_are_no_tables() {
    let contents: &[&[Cell<'_>]] = &[
        &[(0, 1, 1, "Item 1."), (1, 1, 1, "Business"), (2, 1, 1, "4")],
        &[
            (0, 1, 1, "Item 1A."),
            (1, 1, 1, "Risk Factors"),
            (2, 1, 1, "11"),
        ],
    ];
    let bullets: &[&[Cell<'_>]] = &[
        &[(0, 1, 1, "•"), (1, 1, 1, "We sold 14 stores in 2024.")],
        &[(0, 1, 1, "•"), (1, 1, 1, "We opened 12.")],
    ];
    for rows in [contents, bullets] {
        assert!(tables_of_pages(1, &[page(0, rows)]).is_empty(), "{rows:?}");
    }
}

#[test]
fn a_table_goes_on_without_heads_on_the_next_page() {
    let first = page(
        0,
        &[
            &[(2, 1, 1, "2024"), (4, 1, 1, "2023")],
            &[(0, 1, 1, "Cash"), (2, 1, 1, "10"), (4, 1, 1, "20")],
            &[(0, 1, 1, "Stocks"), (2, 1, 1, "11"), (4, 1, 1, "21")],
        ],
    );
    let next = page(
        1,
        &[
            &[(0, 1, 1, "Debt"), (2, 1, 1, "30"), (4, 1, 1, "40")],
            &[(0, 1, 1, "Equity"), (2, 1, 1, "31"), (4, 1, 1, "41")],
        ],
    );
    let tables = tables_of_pages(7, &[first, next]);
    assert_eq!(tables.len(), 1, "{tables:#?}");
    assert_eq!(tables[0].pages, (7, 8));
    assert_eq!(tables[0].rows.len(), 4);
    assert_eq!(tables[0].rows[3].page, 8);
}

// The work and the memory are bounded by the text, not by what `colspan` says.
#[test]
fn hostile_tables_are_left_out() {
    let wide: Vec<Cell<'_>> = (0..400).map(|at| (at, 1, 1, "7")).collect();
    let narrow: &[Cell<'_>] = &[(0, 1, 1, "a"), (399, u16::MAX, u16::MAX, "7")];
    let mut rows: Vec<&[Cell<'_>]> = vec![&wide];
    rows.resize(1_000, narrow);
    assert!(tables_of_pages(1, &[page(0, &rows)]).is_empty());
    rows.truncate(300);
    assert_eq!(tables_of_pages(1, &[page(0, &rows)]).len(), 1);
}

#[test]
fn raised_marks_are_no_part_of_labels_and_values() {
    let table = only_table(&[
        &[(1, 1, 1, "2024⁽ᵃ⁾"), (2, 1, 1, "2023")],
        &[
            (0, 1, 1, "Revenue⁽¹⁾"),
            (1, 1, 1, "1,234²"),
            (2, 1, 1, "900"),
        ],
        &[(0, 1, 1, "Costs"), (1, 1, 1, "(8)³"), (2, 1, 1, "7²")],
        &[(99, 1, 1, "¹ Before eliminations.")],
    ]);
    assert_eq!(heads(&table), ["2024", "2023"]);
    let revenue = row(&table, "Revenue");
    assert_eq!(texts(revenue), ["1,234", "900"]);
    assert_eq!(
        (&revenue.marks[..], &table.columns[0].marks[..]),
        (&["1".to_owned()][..], &["a".to_owned()][..])
    );
    let values = |row: &TableRow| -> Vec<(Option<String>, Vec<String>)> {
        let cells = row.cells.iter().flatten();
        cells
            .map(|cell| (cell.value.clone(), cell.marks.clone()))
            .collect()
    };
    let mark = |mark: &str| vec![mark.to_owned()];
    assert_eq!(
        values(row(&table, "Costs")),
        [
            (Some("-8".into()), mark("3")),
            (Some("7".into()), mark("2"))
        ]
    );
    assert_eq!(
        (table.notes[0].mark.as_str(), table.notes[0].text.as_str()),
        ("1", "Before eliminations.")
    );
}
