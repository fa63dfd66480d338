//! Right and wrong claims over generated statements in many layouts: right ones are shown as verified or computed, wrong ones never.

mod blocks;
mod bounds;
mod cells;
mod continued;
mod declared;
mod document;
mod faults;
mod periods;
mod rows;
mod sentences;

use stemma_document::{Collection, DocId, Line, Page, Pt, Rect, Word};
use stemma_xbrl::FactTable;

use crate::citation::Citation;
use crate::claims::CheckedCitation;
use crate::draft_answer::{DraftClaim, DraftOperand};
use crate::figures::{CitedPages, CitedText};
use crate::tagged_facts::TaggedFacts;
use crate::verdict::{Verdict, judge_claim};
use stemma_verify::QuoteMatch;
use stemma_verify::QuoteTarget;
use stemma_verify::check_quote;

const INJECTIONS: usize = 100;
const LOCATION: &str = "Item 8 Financial Statements\nACME 2022 10K.pdf\nAcme Corporation 10-K 2022";

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as usize) as i64
    }
}

const REVENUE: usize = 0;
const COST: usize = 1;
const OPERATING: usize = 4;
const NET: usize = 6;
const RECEIVABLES: usize = 7;
const INVENTORIES: usize = 8;
const CURRENT_ASSETS: usize = 9;
const CURRENT_LIABILITIES: usize = 11;
const CASH_FLOW: usize = 13;
const CAPEX: usize = 14;

// Labels in several wordings, and the range of their values.
const ROWS: [(&[&str], i64, i64); 16] = [
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
];

/// A statement with its truth.
struct Table {
    years: Vec<i32>,
    labels: Vec<&'static str>,
    // By row and column.
    values: Vec<Vec<i64>>,
    scale: &'static str,
    lines: Vec<String>,
    page: Page,
    has_places: bool,
}

fn grouped(value: i64) -> String {
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

fn printed(value: i64) -> String {
    match value < 0 {
        true => format!("({})", grouped(value)),
        false => grouped(value),
    }
}

impl Table {
    fn new(random: &mut Random) -> Self {
        Self::with_rows(random, &ROWS)
    }

    // A label that ends with a colon is the head of the rows below it.
    fn with_rows(random: &mut Random, rows: &[(&[&'static str], i64, i64)]) -> Self {
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
        let scale = ["million", "thousand"][random.below(2)];
        let mut table = Self {
            years,
            labels,
            values,
            scale,
            lines: Vec::new(),
            page: Page::default(),
            has_places: random.below(3) > 0,
        };
        table.lay_out(random);
        table
    }

    // Each line is a list of words, with the right edge of those in columns.
    fn lay_out(&mut self, random: &mut Random) {
        let notes = random.below(2) == 0;
        let dollars = random.below(2) == 0;
        let right = |column: usize| 380.0 + 90.0 * column as f32;
        let unit = match random.below(3) {
            0 => format!("(In {}s)", self.scale),
            1 => format!("(Dollars in {}s, except per share amounts)", self.scale),
            _ => format!("({}s of dollars)", self.scale),
        };
        let mut lines: Vec<Vec<(String, Option<f32>)>> = vec![
            vec![("CONSOLIDATED FINANCIAL DATA".into(), None)],
            vec![(unit, None)],
        ];
        let style = random.below(4);
        let head = |year: i32| match style {
            0 | 1 => year.to_string(),
            2 => format!("December 31, {year}"),
            _ => format!("Fiscal {year}"),
        };
        if style == 0 {
            lines.push(vec![(
                "Years Ended December 31,".into(),
                Some(right(self.years.len() - 1) - 30.0),
            )]);
        }
        let mut heads: Vec<(String, Option<f32>)> = Vec::new();
        if notes {
            heads.push(("Note".into(), Some(300.0)));
        }
        heads.extend(
            self.years
                .iter()
                .enumerate()
                .map(|(at, year)| (head(*year), Some(right(at)))),
        );
        lines.push(heads);
        for (row, label) in self.labels.iter().enumerate() {
            let mut cells = vec![((*label).to_owned(), None)];
            if label.ends_with(':') {
                lines.push(cells);
                continue;
            }
            if notes && row % 5 == 2 {
                cells.push((format!("{}", 3 + row), Some(300.0)));
            } else if notes && !self.has_places {
                // Without places an empty cell cannot be seen.
                cells.push(("—".into(), None));
            }
            for (at, value) in self.values[row].iter().enumerate() {
                if dollars && row == 0 {
                    cells.push(("$".into(), Some(right(at) - 45.0)));
                }
                cells.push((printed(*value), Some(right(at))));
            }
            lines.push(cells);
        }
        self.page = Page {
            width: Pt::new(700.0),
            height: Pt::new(800.0),
            ..Page::default()
        };
        for (at, cells) in lines.iter().enumerate() {
            let line = placed_line(cells, 20.0 * (at as f32 + 1.0));
            self.lines.push(line.text.clone());
            self.page.lines.push(line);
        }
    }

    fn column(&self, year: i32) -> usize {
        self.years.iter().position(|other| *other == year).unwrap()
    }

    fn value(&self, row: usize, year: i32) -> i64 {
        self.values[row][self.column(year)]
    }

    // The line of a row.
    fn line(&self, row: usize) -> &str {
        let first = self.lines.len() - self.labels.len();
        &self.lines[first + row]
    }

    fn operand(&self, name: &str, citation: i64, row: usize, year: i32) -> DraftOperand {
        DraftOperand {
            name: name.into(),
            citation,
            value: printed(self.value(row, year)),
            row: self.labels[row].into(),
            period: year.to_string(),
        }
    }

    // What the product says about a claim.
    fn judge(&self, claim: &DraftClaim) -> Verdict {
        let targets = match self.has_places {
            true => vec![QuoteTarget::page(4, &self.page)],
            false => vec![QuoteTarget::text(1, &self.lines)],
        };
        judge(&targets, claim)
    }
}

// What the product says about a claim that cites these targets.
fn judge(targets: &[QuoteTarget<'_>], claim: &DraftClaim) -> Verdict {
    let pages = CitedPages {
        before: None,
        targets,
        year_shift: 0,
    };
    judge_pages(&pages, claim)
}

fn judge_pages(pages: &CitedPages<'_, '_>, claim: &DraftClaim) -> Verdict {
    judge_declared(pages, claim, None)
}

// The same of a filing that tags its figures.
fn judge_declared(
    pages: &CitedPages<'_, '_>,
    claim: &DraftClaim,
    facts: Option<&FactTable>,
) -> Verdict {
    let targets = pages.targets;
    let lines: Vec<String> = targets.iter().map(QuoteTarget::full_text).collect();
    let page_text = lines.join("\n");
    let cited: Vec<CheckedCitation<'_>> = claim
        .citations
        .iter()
        .map(|citation| {
            let checked = check_quote(&citation.quote, targets);
            let text = checked
                .matched
                .is_verbatim()
                .then(|| CitedText::new(pages, &checked.spans, &checked.quote, &page_text));
            let spans = checked.spans.iter();
            let places = spans.map(|span| (targets[span.target].number, span.line as u32));
            let cells = text.iter().flat_map(|text: &CitedText<'_>| &text.cells);
            CheckedCitation {
                declared: facts.map(|table| TaggedFacts {
                    table,
                    lines: places.collect(),
                    labels: cells.map(|(_, cell)| cell.label.clone()).collect(),
                    year_shift: 0,
                }),
                doc: DocId::new(&Collection::default(), "acme"),
                citation: test_citation(&checked.quote, checked.matched),
                text,
                lines: checked.lines,
                disputed: checked.disputed,
                page_text: page_text.clone(),
                location: LOCATION.into(),
            }
        })
        .collect();
    let positions: Vec<Option<usize>> = (0..cited.len()).map(Some).collect();
    judge_claim(&claim.statement, claim, &cited, &positions)
}

fn placed_line(cells: &[(String, Option<f32>)], y: f32) -> Line {
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
        rect: Rect::new(50.0, y, 650.0, y + 10.0),
        text,
        words,
        ..Line::default()
    }
}

fn test_citation(quote: &str, verified: QuoteMatch) -> Citation {
    Citation {
        id: String::new(),
        doc_id: String::new(),
        name: "ACME_2022_10K.pdf".into(),
        version: 1,
        section_id: "0004".into(),
        path: Vec::new(),
        page: Some(4),
        page_label: None,
        line: None,
        quote: quote.to_owned(),
        rects: Vec::new(),
        page_size: None,
        verified,
        ocr_confidence: None,
        url: String::new(),
        locator: String::new(),
    }
}
