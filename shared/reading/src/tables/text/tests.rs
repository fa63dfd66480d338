use stemma_document::SourceBody;

use super::*;
use crate::document_reading::DocumentReading;
use crate::tables::table::TableRow;

fn read(lines: &[String]) -> DocumentReading {
    let headings = (1..).zip(lines).filter(|(_, line)| line.starts_with("# "));
    let headings = headings.map(|(line, title)| stemma_document::Heading {
        line,
        level: 1,
        title: title[2..].to_owned(),
    });
    DocumentReading::new(&SourceBody::Lines(TextLines {
        headings: headings.collect(),
        lines: lines.to_vec(),
        ..TextLines::default()
    }))
}

fn tables(text: &str) -> Vec<FigureTable> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    read(&lines).tables
}

fn heads(table: &FigureTable) -> Vec<&str> {
    let heads = table.columns.iter();
    heads.map(|column| column.head.as_str()).collect()
}

fn values(row: &TableRow) -> Vec<Option<&str>> {
    let cells = row.cells.iter();
    cells
        .map(|cell| cell.as_ref().and_then(|cell| cell.value.as_deref()))
        .collect()
}

#[test]
fn a_table_of_markdown_has_title_unit_periods_groups_and_lines() {
    let text = "\
Results were as follows.

# Statements of income

_(Dollars in millions)_

| Years ended December 31, | 2023 | 2022 |
|:---|---:|---:|
| **Net sales** | $34,229 | $35,355 |
| **Expenses:** | | |
| Impairment | — | (271) |

Region | Employees
--- | ---
Americas | 12,000
Europe | 9,000";
    let tables = tables(text);
    let [income, employees] = &tables[..] else {
        panic!("{tables:?}");
    };
    assert_eq!(income.title.as_deref(), Some("Statements of income"));
    assert_eq!(income.unit.as_deref(), Some("(Dollars in millions)"));
    assert_eq!(
        (income.scale, income.line_range()),
        (Some(1_000_000), Some((9, 11)))
    );
    let periods: Vec<Option<&str>> = income
        .columns
        .iter()
        .map(|column| column.period.as_deref())
        .collect();
    assert_eq!(periods, [Some("2023-12"), Some("2022-12")]);
    let impairment = &income.rows[1];
    assert_eq!(impairment.group.as_deref(), Some("Expenses:"));
    assert_eq!(values(impairment), [None, Some("-271")]);
    // The unit of a table is not that of the next.
    assert_eq!(
        (employees.scale, employees.line_range()),
        (None, Some((15, 16)))
    );
    assert_eq!(heads(employees), ["Employees"]);
}

#[test]
fn heads_of_typewritten_columns_are_read_with_and_without_rules() {
    for rule in ["", "              -----------------------------\n"] {
        let text = format!(
            "\
The following table shows selected data:

               Years ended December 31,
{rule}               1997      1996      1995
{rule}                    (in thousands)
Sales.......   1,749     1,603    (1,500)
Costs          1,200     1,100     1,000

The Company had 12 employees in 1997, of whom 3 were engaged in research
and in sales.

Plants             4         3         2
Stores            12        10        10"
        );
        let tables = tables(&text);
        assert_eq!(tables.len(), 2, "{tables:?}");
        let head = |year: u32| format!("Years ended December 31, {year} (in thousands)");
        assert_eq!(heads(&tables[0]), [1997, 1996, 1995].map(head), "{rule}");
        assert_eq!(tables[0].rows[0].label, "Sales");
        assert_eq!(tables[0].scale, Some(1_000));
        let expected = ["1749", "1603", "-1500"].map(Some);
        assert_eq!(values(&tables[0].rows[0]), expected);
        assert_eq!((tables[1].scale, &tables[1].title), (None, &None));
    }
}

#[test]
fn a_number_that_a_leader_may_cut_is_absent() {
    let text = "\
                        1997    1996
Per share ............   .50     .48
Diluted ..............  1.10    1.02
Shares................50          40
Sales................1,749     1,603

                         - 5 -";
    let tables = tables(text);
    let labels: Vec<&str> = tables[0]
        .rows
        .iter()
        .map(|row| row.label.as_str())
        .collect();
    assert_eq!(labels, ["Per share", "Diluted", "Sales"]);
    assert_eq!(values(&tables[0].rows[0]), [Some("0.50"), Some("0.48")]);
}

#[test]
fn code_and_prose_have_no_tables() {
    let text = "\
```
| | 2023 | 2022 |
|---|---|---|
| Sales | 1,749 | 1,603 |

Sales      1,749     1,603
Costs      1,200     1,100
```
1. We had 12 plants in 5 states, and 3 in 2022.
2. Sales rose 4 percent to $1,749 million, and 3 percent in 2022.";
    assert!(tables(text).is_empty(), "{:?}", tables(text));
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

// A figure in one of the styles of documents, with its value.
fn figure(random: &mut Random, style: u64) -> (String, Option<String>) {
    let number = random.below(900_000) + 1;
    let grouped = match number {
        1_000.. => format!("{},{:03}", number / 1_000, number % 1_000),
        _ => number.to_string(),
    };
    let is_negative = random.below(4) == 0;
    let sign = if is_negative { "-" } else { "" };
    let cents = format!("{}.{:02}", number / 100, number % 100);
    match style {
        _ if random.below(12) == 0 => (
            ["—", "-", "--", "n/m"][random.below(4) as usize].into(),
            None,
        ),
        0 => (format!("{sign}{grouped}"), Some(format!("{sign}{number}"))),
        1 if is_negative => (format!("({grouped})"), Some(format!("-{number}"))),
        1 => (grouped, Some(number.to_string())),
        2 if is_negative => (format!("$ ({grouped})"), Some(format!("-{number}"))),
        2 => (format!("${grouped}"), Some(number.to_string())),
        3 if is_negative => (format!("({cents})%"), Some(format!("-{cents}"))),
        3 => (format!("{cents}%"), Some(cents)),
        _ => (format!("$ {cents}"), Some(cents)),
    }
}

type Rows = Vec<(String, Vec<(String, Option<String>)>)>;

fn markdown(years: &[String], rows: &Rows, random: &mut Random) -> Vec<String> {
    let (left, right) = [("| ", " |"), ("", "")][random.below(2) as usize];
    let bold = ["", "**"][random.below(2) as usize];
    // A `$` may have a column of its own.
    let is_split = random.below(2) == 0;
    let split = |text: &str| match text.strip_prefix('$') {
        Some(rest) if is_split => format!("$ | {}", rest.trim()),
        None if is_split => format!(" | {text}"),
        _ => text.replace('$', "\\$"),
    };
    let columns = 1 + years.len() * if is_split { 2 } else { 1 };
    let heads: Vec<String> = years.iter().map(|year| split(year)).collect();
    let mut lines = vec![
        format!("{left}(in thousands) | {}{right}", heads.join(" | ")),
        vec!["---"; columns].join("|"),
    ];
    for (label, cells) in rows {
        let cells: Vec<String> = cells.iter().map(|(text, _)| split(text)).collect();
        lines.push(format!(
            "{left}{bold}{label}{bold} | {}{right}",
            cells.join(" | ")
        ));
    }
    lines
}

fn typewritten(years: &[String], rows: &Rows, random: &mut Random) -> Vec<String> {
    let width = 14;
    let leader = [' ', '.'][random.below(2) as usize];
    let rule = [
        " ".repeat(40),
        ["", "  ----------"][random.below(2) as usize].repeat(years.len()),
    ];
    let line = |label: &str, cells: Vec<&str>| {
        let mut line = format!("{label} ");
        let dots = if label.is_empty() { ' ' } else { leader };
        while line.len() < 38 {
            line.push(dots);
        }
        line.push(' ');
        for cell in cells {
            line.push_str(&" ".repeat(width - cell.chars().count()));
            line.push_str(cell);
        }
        line
    };
    let heads = years.iter().map(String::as_str).collect();
    let mut lines = vec!["(in thousands)".to_owned(), line("", heads), rule.concat()];
    for (label, cells) in rows {
        lines.push(line(
            label,
            cells.iter().map(|(text, _)| text.as_str()).collect(),
        ));
    }
    lines
}

#[test]
fn values_of_generated_tables_are_right_or_absent() {
    const LABELS: [&str; 6] = [
        "Net sales",
        "Cost of sales",
        "Other, net",
        "Taxes",
        "Net income",
        "Dividends",
    ];
    const TABLES: usize = 400;
    let mut random = Random(7);
    let mut counts = [0; 3];
    for at in 0..TABLES {
        let style = random.below(5);
        let count = 2 + random.below(2) as usize;
        let years: Vec<String> = (0..count).map(|back| (2023 - back).to_string()).collect();
        let rows: Rows = LABELS
            .iter()
            .map(|label| {
                let figures = (0..count).map(|_| figure(&mut random, style));
                ((*label).to_owned(), figures.collect())
            })
            .collect();
        let lines = match at % 2 {
            0 => markdown(&years, &rows, &mut random),
            _ => typewritten(&years, &rows, &mut random),
        };
        let reading = read(&lines);
        let find = |label: &str, year: &String| {
            let table = reading.tables.first()?;
            let column = table
                .columns
                .iter()
                .position(|column| column.period.as_ref() == Some(year))?;
            let row = table.rows.iter().find(|row| row.label == label)?;
            row.cells[column].as_ref()?.value.clone()
        };
        for (label, cells) in &rows {
            for ((_, value), year) in cells.iter().zip(&years) {
                let found = find(label, year);
                let is_scaled = reading
                    .tables
                    .first()
                    .is_none_or(|table| table.scale == Some(1_000));
                counts[match (&found, value) {
                    _ if found == *value && is_scaled => 0,
                    (None, Some(_)) => 1,
                    _ => 2,
                }] += 1;
            }
        }
        assert_eq!(counts[2], 0, "{}\n{:?}", lines.join("\n"), reading.tables);
    }
    let [right, absent, wrong] = counts;
    println!("{right} values are right, {absent} absent, {wrong} wrong");
    assert!(
        right * 100 >= (right + absent) * 98,
        "{right} right, {absent} absent"
    );
}
