//! Generated financial statements with their truth, in many layouts.

use stemma_document::{GridCell, GridLine, Line, Page, Pt, Rect, Word};

use super::Document;
use super::texts::{markdown, typewritten};

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as usize) as i64
    }
}

pub(super) const REVENUE: usize = 0;
pub(super) const COST: usize = 1;
pub(super) const OPERATING: usize = 4;
pub(super) const NET: usize = 6;
pub(super) const RECEIVABLES: usize = 7;
pub(super) const INVENTORIES: usize = 8;
pub(super) const CURRENT_ASSETS: usize = 9;
pub(super) const CURRENT_LIABILITIES: usize = 11;
pub(super) const CASH_FLOW: usize = 13;
pub(super) const CAPEX: usize = 14;
pub(super) const PER_SHARE: usize = 16;

pub(super) type RowKind = (&'static [&'static str], i64, i64);

// Labels in several wordings, and the range of their values. The last one is in cents.
pub(super) const ROWS: [RowKind; 17] = [
    (&["Net sales", "Total revenues", "Revenue"], 20_000, 90_000),
    (
        &[
            "Cost of sales",
            "Cost of goods sold",
            "Total cost of revenue",
        ],
        8_000,
        15_000,
    ),
    (
        &[
            "Research and development expenses",
            "Research and development",
        ],
        500,
        900,
    ),
    (
        &["Selling, general and administrative expenses"],
        1_000,
        1_900,
    ),
    (
        &["Operating income", "Income from operations"],
        2_000,
        4_900,
    ),
    (&["Interest expense", "Interest expense, net"], 100, 190),
    (
        &[
            "Net income",
            "Net earnings",
            "Net income attributable to Acme shareholders",
        ],
        1_000,
        1_999,
    ),
    (
        &["Accounts receivable, net", "Trade receivables"],
        2_100,
        3_900,
    ),
    (&["Inventories", "Merchandise inventories"], 1_500, 2_900),
    (&["Total current assets"], 9_000, 15_000),
    (&["Accounts payable"], 700, 1_400),
    (&["Total current liabilities"], 4_000, 8_000),
    (&["Long-term debt"], 5_000, 19_000),
    (
        &[
            "Net cash provided by operating activities",
            "Net cash from operating activities",
        ],
        4_000,
        7_900,
    ),
    (
        &[
            "Purchases of property, plant and equipment",
            "Capital expenditures",
        ],
        -1_900,
        -900,
    ),
    (&["Dividends paid", "Cash dividends paid"], -800, -300),
    (
        &[
            "Diluted earnings per share",
            "Net income per share, diluted",
        ],
        101,
        499,
    ),
];

// Where a cell begins, or that it is a label.
pub(super) type Cell = (String, Option<f32>);

/// A statement with its truth.
pub(super) struct Table {
    pub(super) years: Vec<i32>,
    pub(super) labels: Vec<&'static str>,
    // By row and column.
    pub(super) values: Vec<Vec<i64>>,
    pub(super) scale: &'static str,
    pub(super) heads: Vec<String>,
    pub(super) has_change: bool,
    cents: Vec<bool>,
    lines: Vec<String>,
    pub(super) document: Document,
}

pub(super) fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

impl Table {
    pub(super) fn new(random: &mut Random) -> Self {
        Self::with_rows(random, &ROWS)
    }

    // A label that ends with a colon is the head of the rows below it.
    pub(super) fn with_rows(random: &mut Random, rows: &[RowKind]) -> Self {
        let count = 2 + random.below(2);
        let mut years: Vec<i32> = (0..count as i32).map(|back| 2022 - back).collect();
        if random.below(2) == 0 {
            years.reverse();
        }
        let labels: Vec<&'static str> = rows
            .iter()
            .map(|(labels, ..)| labels[random.below(labels.len())])
            .collect();
        let mut used: Vec<i64> = Vec::new();
        let mut values = Vec::new();
        for (_, low, high) in rows {
            let mut row: Vec<i64> = Vec::new();
            while row.len() < count {
                let value = random.between(*low, *high);
                if !used.contains(&value.abs()) {
                    used.push(value.abs());
                    row.push(value);
                }
            }
            values.push(row);
        }
        let cents = labels.iter().map(|label| label.contains("per share"));
        let mut table = Self {
            years,
            cents: cents.collect(),
            labels,
            values,
            scale: ["million", "thousand"][random.below(2)],
            heads: Vec::new(),
            has_change: random.below(3) == 0,
            lines: Vec::new(),
            document: Document::new(Vec::new()),
        };
        let lines = table.lay_out(random);
        match random.below(4) {
            0 => table.write(typewritten(&lines)),
            1 => table.write(markdown(&lines)),
            at => table.place(&lines, at == 2),
        }
        table
    }

    // The cells of each line, with the right edge of those in columns.
    fn lay_out(&mut self, random: &mut Random) -> Vec<Vec<Cell>> {
        let notes = random.below(2) == 0;
        let dollars = random.below(2) == 0;
        let right = |column: usize| Some(380.0 + 110.0 * column as f32);
        let unit = match random.below(3) {
            0 => format!("(In {}s)", self.scale),
            1 => format!("(Dollars in {}s, except per share amounts)", self.scale),
            _ => format!("({}s of dollars)", self.scale),
        };
        let mut lines: Vec<Vec<Cell>> = vec![
            vec![("CONSOLIDATED FINANCIAL DATA".into(), None)],
            vec![(unit, None)],
        ];
        let style = random.below(4);
        self.heads = self
            .years
            .iter()
            .map(|year| match style {
                0 | 1 => year.to_string(),
                2 => format!("December 31, {year}"),
                _ => format!("Fiscal {year}"),
            })
            .collect();
        if style == 0 {
            lines.push(vec![(
                "Years Ended December 31,".into(),
                right(self.years.len() - 1).map(|x| x - 30.0),
            )]);
        }
        let mut heads: Vec<Cell> = Vec::new();
        if notes {
            heads.push(("Note".into(), Some(300.0)));
        }
        heads.extend(
            self.heads
                .iter()
                .enumerate()
                .map(|(at, head)| (head.clone(), right(at))),
        );
        if self.has_change {
            heads.push(("Change".into(), right(self.years.len())));
        }
        lines.push(heads);
        for (row, label) in self.labels.iter().enumerate() {
            let mut cells = vec![((*label).to_owned(), None)];
            if label.ends_with(':') {
                lines.push(cells);
                continue;
            }
            if notes && row % 5 == 2 {
                cells.push((format!("{}", 3 + row), Some(300.0)));
            }
            for at in 0..self.years.len() {
                if dollars && row == 0 {
                    cells.push(("$".into(), right(at).map(|x| x - 60.0)));
                }
                cells.push((self.printed(row, at), right(at)));
            }
            if self.has_change {
                let change = self.values[row][0] - self.values[row][1];
                cells.push((self.printed_value(row, change), right(self.years.len())));
            }
            lines.push(cells);
        }
        lines
    }

    // As a page whose words have places, or as one whose file declares the cells.
    fn place(&mut self, lines: &[Vec<Cell>], is_declared: bool) {
        let mut page = Page {
            width: Pt::new(900.0),
            height: Pt::new(800.0),
            ..Page::default()
        };
        for (at, cells) in lines.iter().enumerate() {
            let mut line = placed_line(cells, 20.0 * (at as f32 + 1.0));
            if is_declared && at > 1 {
                line.grid = Some(Box::new(grid_line(cells, at as u32)));
            }
            self.lines.push(line.text.clone());
            page.lines.push(line);
        }
        self.document = Document::new(vec![page]);
    }

    // As a text without pages.
    fn write(&mut self, lines: Vec<String>) {
        self.lines.clone_from(&lines);
        self.document = Document::without_pages(lines);
    }

    pub(super) fn column(&self, year: i32) -> usize {
        self.years.iter().position(|other| *other == year).unwrap()
    }

    pub(super) fn value(&self, row: usize, year: i32) -> i64 {
        self.values[row][self.column(year)]
    }

    /// The figure of a row as the cell prints it.
    pub(super) fn printed(&self, row: usize, column: usize) -> String {
        self.printed_value(row, self.values[row][column])
    }

    fn printed_value(&self, row: usize, value: i64) -> String {
        let digits = match self.cents[row] {
            true => format!("{}.{:02}", value.abs() / 100, value.abs() % 100),
            false => grouped(value),
        };
        match value < 0 {
            true => format!("({digits})"),
            false => digits,
        }
    }

    pub(super) fn is_per_share(&self, row: usize) -> bool {
        self.cents[row]
    }

    // As a statement shows it.
    pub(super) fn shown(&self, row: usize, year: i32) -> String {
        let value = self.value(row, year);
        let sign = if value < 0 { "-" } else { "" };
        let printed = self.printed_value(row, value.abs());
        let currency = if self.names_dollars() { "$" } else { "" };
        match self.cents[row] {
            true => format!("{sign}{currency}{printed}"),
            false => format!("{sign}{currency}{printed} {}", self.scale),
        }
    }

    pub(super) fn unit(&self, row: usize) -> String {
        match self.cents[row] {
            true => "$ per share".into(),
            false => format!("$ {}", self.scale),
        }
    }

    // The line of a row.
    pub(super) fn line(&self, row: usize) -> &str {
        let first = self.lines.len() - self.labels.len();
        &self.lines[first + row]
    }

    pub(super) fn names_dollars(&self) -> bool {
        let text = self.lines.join("\n").to_lowercase();
        text.contains('$') || text.contains("dollars")
    }

    pub(super) fn text(&self) -> String {
        let tables = &self.document.reading.tables;
        let tables: Vec<String> = tables.iter().map(|table| table.to_text()).collect();
        format!("{}\n{}", self.lines.join("\n"), tables.join("\n\n"))
    }
}

pub(super) fn placed_line(cells: &[Cell], y: f32) -> Line {
    let mut text = String::new();
    let mut words = Vec::new();
    for (cell, right) in cells {
        let length = cell.chars().count() as f32 * 5.0;
        let mut left = right.map_or(50.0, |right| right - length);
        for word in cell.split(' ') {
            if !text.is_empty() {
                text.push(' ');
            }
            let start = text.len();
            text.push_str(word);
            let width = word.chars().count() as f32 * 5.0;
            words.push(Word {
                start: start as u32,
                end: text.len() as u32,
                x0: Pt::new(left),
                x1: Pt::new(left + width),
            });
            left += width + 5.0;
        }
    }
    Line {
        rect: Rect::new(50.0, y, 750.0, y + 10.0),
        text,
        words,
        ..Line::default()
    }
}

// The cells by their places: labels in column 0, `$` in the column before its figure.
fn grid_line(cells: &[Cell], row: u32) -> GridLine {
    let mut start = 0;
    let cells = cells.iter().map(|(text, right)| {
        let end = start + text.len();
        let column = right.map_or(0, |right| (right / 55.0) as u16);
        // A head over all years begins over the first one.
        let is_over_all = text.starts_with("Years");
        let column = if is_over_all { 6 } else { column };
        let cell = GridCell {
            start: start as u32,
            end: end as u32,
            column,
            columns: if is_over_all { 6 } else { 1 },
            rows: 1,
            bytes: None,
        };
        start = end + 1;
        cell
    });
    GridLine {
        table: 1,
        row,
        cells: cells.collect(),
    }
}
