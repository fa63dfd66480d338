use stemma_document::SourceBody;

use super::*;
use crate::document_reading::DocumentReading;
use crate::tables::table::TableRow;

fn tables(text: &str) -> Vec<FigureTable> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let headings = (1..).zip(&lines).filter(|(_, line)| line.starts_with("# "));
    let headings = headings.map(|(line, title)| stemma_document::Heading {
        line,
        level: 1,
        title: title[2..].to_owned(),
    });
    let text = TextLines {
        headings: headings.collect(),
        lines: lines.clone(),
        ..TextLines::default()
    };
    DocumentReading::new(&SourceBody::Lines(text)).tables
}

fn heads(table: &FigureTable) -> Vec<&str> {
    let columns = table.columns.iter();
    columns.map(|column| column.head.as_str()).collect()
}

fn values(row: &TableRow) -> Vec<Option<&str>> {
    let cells = row.cells.iter().map(Option::as_ref);
    let values = cells.map(|cell| cell.and_then(|cell| cell.value.as_deref()));
    values.collect()
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
    assert_eq!(income.scale, Some(1_000_000));
    assert_eq!(income.line_range(), Some((9, 11)));
    let periods = [0, 1].map(|column| income.columns[column].period.as_deref());
    assert_eq!(periods, [Some("2023-12"), Some("2022-12")]);
    let impairment = &income.rows[1];
    assert_eq!(impairment.group.as_deref(), Some("Expenses:"));
    assert_eq!(values(impairment), [None, Some("-271")]);
    // A table says nothing about the unit of the next.
    assert_eq!(employees.scale, None);
    assert_eq!(employees.line_range(), Some((15, 16)));
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
        let head = |year: u32| format!("Years ended December 31, {year}");
        assert_eq!(heads(&tables[0]), [1997, 1996, 1995].map(head), "{rule}");
        assert_eq!(tables[0].rows[0].label, "Sales");
        assert_eq!(tables[0].scale, Some(1_000));
        let sales = values(&tables[0].rows[0]);
        assert_eq!(sales, ["1749", "1603", "-1500"].map(Some));
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
    let labels = tables[0].rows.iter().map(|row| row.label.as_str());
    assert!(labels.eq(["Per share", "Diluted", "Sales"]));
    assert_eq!(values(&tables[0].rows[0]), [Some("0.50"), Some("0.48")]);
}

#[test]
fn code_and_prose_have_no_tables() {
    let text = "\
```
Sales      1,749     1,603
Costs      1,200     1,100
```
1. We had 12 plants in 5 states, and 3 in 2022.
2. Sales rose 4 percent to $1,749 million, and 3 percent in 2022.";
    assert!(tables(text).is_empty(), "{:?}", tables(text));
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

// A figure as a document writes it, and its value.
type Figure = (String, Option<String>);
type Rows = Vec<(&'static str, Vec<Figure>)>;

fn figure(random: &mut Random, style: usize) -> Figure {
    if random.below(12) == 0 {
        return (random.pick(&["—", "-", "--", "n/m"]).to_owned(), None);
    }
    let high = random.below(900) + 1;
    let low = random.below(1_000);
    let decimal = format!("{high}.{:02}", low / 10);
    let (digits, value) = match (style, low % 4) {
        (3.., _) => (decimal.clone(), decimal),
        (_, 0) => (high.to_string(), high.to_string()),
        _ => (format!("{high},{low:03}"), format!("{high}{low:03}")),
    };
    let (digits, value) = match random.below(4) {
        0 if style == 0 => (format!("-{digits}"), format!("-{value}")),
        0 => (format!("({digits})"), format!("-{value}")),
        _ => (digits, value),
    };
    let (before, behind) = [("", ""), ("", ""), ("$", ""), ("", "%"), ("$ ", "")][style];
    (format!("{before}{digits}{behind}"), Some(value))
}

fn markdown(years: &[Figure], rows: &Rows, random: &mut Random) -> Vec<String> {
    let (left, right) = random.pick(&[("| ", " |"), ("", "")]);
    let bold = random.pick(&["", "**"]);
    // A `$` may have a column of its own.
    let is_split = random.below(2) == 0;
    let line = |label: &str, cells: &[Figure]| {
        let cells = cells.iter().map(|(text, _)| match text.strip_prefix('$') {
            Some(rest) if is_split => format!("$ | {}", rest.trim()),
            None if is_split => format!(" | {text}"),
            _ => text.replace('$', "\\$"),
        });
        let cells: Vec<String> = cells.collect();
        format!("{left}{bold}{label}{bold} | {}{right}", cells.join(" | "))
    };
    let columns = 1 + years.len() * if is_split { 2 } else { 1 };
    let mut lines = vec![
        line("(in thousands)", years),
        vec!["---"; columns].join("|"),
    ];
    lines.extend(rows.iter().map(|(label, cells)| line(label, cells)));
    lines
}

fn typewritten(years: &[Figure], rows: &Rows, random: &mut Random) -> Vec<String> {
    let leader = random.pick(&["", "....................."]);
    let rule = random.pick(&["", "  ----------"]).repeat(years.len());
    let line = |label: &str, cells: &[Figure]| {
        let cells = cells.iter().map(|(text, _)| format!("{text:>14}"));
        format!("{label:39}{}", cells.collect::<String>())
    };
    let mut lines = vec!["(in thousands)".to_owned(), line("", years)];
    lines.push(format!("{:40}{rule}", ""));
    for (label, cells) in rows {
        lines.push(line(&format!("{label} {leader}"), cells));
    }
    lines
}

#[test]
fn values_of_generated_tables_are_right_or_absent() {
    const LABELS: [&str; 4] = ["Net sales", "Other, net", "Taxes", "Net income"];
    let mut random = Random(7);
    let mut right = 0;
    let mut absent = 0;
    for at in 0..600 {
        let style = random.below(5);
        let count = 2 + random.below(2);
        let years = (0..count).map(|back| ((2023 - back).to_string(), None));
        let years: Vec<Figure> = years.collect();
        let mut figures = || (0..count).map(|_| figure(&mut random, style)).collect();
        let rows: Rows = LABELS.map(|label| (label, figures())).to_vec();
        let text = match at % 2 {
            0 => markdown(&years, &rows, &mut random).join("\n"),
            _ => typewritten(&years, &rows, &mut random).join("\n"),
        };
        let tables = tables(&text);
        let find = |label: &str, year: &String| {
            let table = tables.first()?;
            assert_eq!(table.scale, Some(1_000), "{text}");
            let mut columns = table.columns.iter();
            let column = columns.position(|column| column.period.as_ref() == Some(year))?;
            let row = table.rows.iter().find(|row| row.label == label)?;
            row.cells[column].as_ref()?.value.clone()
        };
        for (label, cells) in &rows {
            for ((_, value), (year, _)) in cells.iter().zip(&years) {
                match find(label, year) {
                    None if value.is_some() => absent += 1,
                    found if found == *value => right += 1,
                    found => panic!("{label} of {year} is {found:?}: {text}\n{tables:?}"),
                }
            }
        }
    }
    println!("{right} values are right, {absent} absent");
    assert!(right * 100 >= (right + absent) * 98, "{right}, {absent}");
}
