//! Right and wrong claims over generated statements in many layouts: right ones are shown as verified or computed, wrong ones never.

use stemma_document::{Line, Page, Pt, Rect, Word};

use crate::citation::{Citation, QuoteMatch};
use crate::claims::CheckedCitation;
use crate::figures::CitedText;
use crate::prompt::{DraftCitation, DraftClaim, DraftComputation, DraftOperand};
use crate::quote::check_quote;
use crate::quote_target::QuoteTarget;
use crate::verdict::{Verdict, judge_claim};

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

    // Each line is a list of words with the right edge of those that stand in columns.
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
        let page_text = self.lines.join("\n");
        let cited: Vec<CheckedCitation<'_>> = claim
            .citations
            .iter()
            .map(|citation| {
                let checked = check_quote(&citation.quote, &targets);
                let text = checked
                    .matched
                    .is_verbatim()
                    .then(|| CitedText::new(&targets, &checked.spans, &checked.quote, &page_text));
                CheckedCitation {
                    citation: test_citation(&checked.quote, checked.matched),
                    text,
                    lines: checked.lines,
                    page_text: page_text.clone(),
                    location: LOCATION.into(),
                }
            })
            .collect();
        let positions: Vec<Option<usize>> = (0..cited.len()).map(Some).collect();
        judge_claim(&claim.statement, claim, &cited, &positions)
    }
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
        url: String::new(),
        locator: String::new(),
    }
}

/// What a claim is about, so that faults can be put into it.
#[derive(Clone)]
struct Plan {
    // Subject of the statement, before and after the figure.
    before: String,
    after: String,
    operands: Vec<(usize, i32)>,
    formula: &'static str,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Percent,
    Times,
    Money,
    Copied,
}

// The value of a formula over a and b, …, in the units of the table.
fn value_of(formula: &str, values: &[f64]) -> f64 {
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| values.get(at).copied().unwrap_or(0.0));
    match formula {
        "a" => a,
        "(a - b) / a" => (a - b) / a,
        "a / b" => a / b,
        "b / a" => b / a,
        "(a - b) / b" => (a - b) / b,
        "(a - b) / c" => (a - b) / c,
        "a + b" => a + b,
        "a - b" => a - b,
        "b - a" => b - a,
        "a - b / a" => a - b / a,
        // A missing parenthesis: what is left of b / b.
        "a - b / b" => a - 1.0,
        "a - b / c" => a - b / c,
        "(a - b) / (c - d)" => (a - b) / (c - d),
        "(a + b) / 2" => f64::midpoint(a, b),
        "a + b / 2" => a + b / 2.0,
        "(a - c) / b" => (a - c) / b,
        "(b - a) / b" => (b - a) / b,
        "(b - a) / a" => (b - a) / a,
        "a * b" => a * b,
        other => panic!("{other}"),
    }
}

fn plan(table: &Table, random: &mut Random) -> Plan {
    let year = 2022;
    let label = |row: usize| table.labels[row].to_lowercase();
    let plan =
        |before: &str, after: &str, rows: &[(usize, i32)], formula: &'static str, form: Form| {
            Plan {
                before: before.into(),
                after: after.into(),
                operands: rows.to_vec(),
                formula,
                form,
            }
        };
    let row = random.below(ROWS.len());
    let other = years_before(table, year)[0];
    let rise = |row: usize| match table.value(row, year).abs() > table.value(row, other).abs() {
        true => "grew",
        false => "fell",
    };
    match random.below(12) {
        0..4 => {
            let year = table.years[random.below(table.years.len())];
            plan(
                &format!("{} of Acme was", table.labels[row]),
                &format!("in {year}."),
                &[(row, year)],
                "a",
                Form::Copied,
            )
        }
        4 => plan(
            "Acme's gross margin was",
            "in 2022.",
            &[(REVENUE, year), (COST, year)],
            "(a - b) / a",
            Form::Percent,
        ),
        5 => plan(
            "The current ratio was",
            "at the end of 2022.",
            &[(CURRENT_ASSETS, year), (CURRENT_LIABILITIES, year)],
            "a / b",
            Form::Times,
        ),
        6 => plan(
            "Free cash flow was",
            "in 2022.",
            &[(CASH_FLOW, year), (CAPEX, year)],
            "a + b",
            Form::Money,
        ),
        7 => plan(
            "The operating margin came to",
            "in 2022.",
            &[(OPERATING, year), (REVENUE, year)],
            "a / b",
            Form::Percent,
        ),
        8 => {
            let row = [REVENUE, NET, RECEIVABLES][random.below(3)];
            plan(
                &format!("{} {} by", table.labels[row], rise(row)),
                "in 2022.",
                &[(row, year), (row, other)],
                "(a - b) / b",
                Form::Percent,
            )
        }
        9 => plan(
            &format!("Average {} was", label(INVENTORIES)),
            &format!("over {other} and {year}."),
            &[(INVENTORIES, year), (INVENTORIES, other)],
            "(a + b) / 2",
            Form::Money,
        ),
        10 => plan(
            &format!("As a percentage of {}, {} was", label(REVENUE), label(2)),
            "in 2022.",
            &[(2, year), (REVENUE, year)],
            "a / b",
            Form::Percent,
        ),
        _ => plan(
            "The quick ratio was",
            "in 2022.",
            &[
                (CURRENT_ASSETS, year),
                (INVENTORIES, year),
                (CURRENT_LIABILITIES, year),
            ],
            "(a - b) / c",
            Form::Times,
        ),
    }
}

fn years_before(table: &Table, year: i32) -> Vec<i32> {
    let mut years: Vec<i32> = table
        .years
        .iter()
        .copied()
        .filter(|other| *other < year)
        .collect();
    years.sort_unstable_by(|a, b| b.cmp(a));
    years
}

fn format_figure(value: f64, form: Form, scale: &str, negative: bool) -> String {
    let sign = if negative { "-" } else { "" };
    match form {
        Form::Percent => format!("{sign}{:.1}%", value.abs() * 100.0),
        Form::Times => format!("{sign}{:.2}", value.abs()),
        Form::Money | Form::Copied => {
            format!("{sign}${} {scale}", grouped(value.abs().round() as i64))
        }
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

// The claim of a plan over given operands, with the given formula.
fn claim(
    table: &Table,
    plan: &Plan,
    operands: &[DraftOperand],
    formula: &str,
    figure: &str,
) -> DraftClaim {
    let quotes = plan.operands.iter().map(|(row, _)| table.line(*row));
    DraftClaim {
        statement: format!("{} {figure} {}", plan.before, plan.after),
        citations: quotes
            .map(|quote| DraftCitation {
                passage: 1,
                quote: quote.to_owned(),
            })
            .collect(),
        computation: (plan.form != Form::Copied).then(|| DraftComputation {
            formula: formula.to_owned(),
            operands: operands.to_vec(),
            result: figure.to_owned(),
        }),
    }
}

fn operands(table: &Table, plan: &Plan) -> Vec<DraftOperand> {
    let all = plan.operands.iter().enumerate();
    all.map(|(at, (row, year))| table.operand(NAMES[at], at as i64 + 1, *row, *year))
        .collect()
}

fn values(table: &Table, plan: &Plan) -> Vec<f64> {
    let all = plan.operands.iter();
    all.map(|(row, year)| table.value(*row, *year) as f64)
        .collect()
}

fn right_figure(table: &Table, plan: &Plan) -> String {
    // `fell by 5%` is written without a sign, and so is an amount that flows out.
    format_figure(
        value_of(plan.formula, &values(table, plan)),
        plan.form,
        table.scale,
        false,
    )
}

fn right_claim(table: &Table, plan: &Plan) -> DraftClaim {
    claim(
        table,
        plan,
        &operands(table, plan),
        plan.formula,
        &right_figure(table, plan),
    )
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Formula,
    Period,
    Sign,
    Row,
    Scale,
}

// The claim with a fault; `None` where the plan cannot have it, or where the figure is the right one all the same.
fn wrong_claim(
    table: &Table,
    plan: &Plan,
    fault: Fault,
    random: &mut Random,
) -> Option<DraftClaim> {
    let right = right_figure(table, plan);
    let mut operands = operands(table, plan);
    let mut values = values(table, plan);
    let mut plan = plan.clone();
    let mut formula = plan.formula;
    let mut scale = table.scale;
    let mut is_negative = false;
    match fault {
        Fault::Formula => {
            formula = match plan.formula {
                "(a - b) / a" => {
                    ["a - b / a", "b / a", "(a - b) / b", "(b - a) / a"][random.below(4)]
                }
                "a / b" => ["b / a", "a - b", "a * b"][random.below(3)],
                "a + b" => ["a - b", "b - a", "a / b"][random.below(3)],
                "(a - b) / b" => {
                    ["(a - b) / a", "a - b / b", "(b - a) / b", "a / b"][random.below(4)]
                }
                "(a + b) / 2" => ["a + b / 2", "a + b", "a - b"][random.below(3)],
                "(a - b) / c" => ["a - b / c", "(a - c) / b", "a / b"][random.below(3)],
                _ => return None,
            };
            let used = NAMES.iter().filter(|name| formula.contains(**name)).count();
            operands.truncate(used);
        }
        Fault::Period => {
            let at = random.below(plan.operands.len());
            let (row, year) = plan.operands[at];
            let other = table.years.iter().copied().filter(|other| *other != year);
            let others: Vec<i32> = other.collect();
            let other = others[random.below(others.len())];
            values[at] = table.value(row, other) as f64;
            operands[at].value = printed(table.value(row, other));
            // An honest reader of the wrong column, or one that believes it is the right one.
            if random.below(2) == 0 {
                operands[at].period = other.to_string();
            }
        }
        Fault::Sign => match plan.form {
            // An amount that flows out is printed as negative, and stated either way.
            Form::Copied if values[0] < 0.0 => return None,
            Form::Copied => is_negative = true,
            _ => {
                let at = random.below(plan.operands.len());
                values[at] = -values[at];
                let bare = operands[at].value.trim_matches(['(', ')']).to_owned();
                let is_printed_negative = bare.len() < operands[at].value.len();
                operands[at].value = if is_printed_negative {
                    bare
                } else {
                    format!("({bare})")
                };
            }
        },
        Fault::Row => {
            let at = random.below(plan.operands.len());
            let (row, year) = plan.operands[at];
            let other = (row + 1 + random.below(ROWS.len() - 1)) % ROWS.len();
            values[at] = table.value(other, year) as f64;
            operands[at].value = printed(table.value(other, year));
            if random.below(2) == 0 {
                operands[at].row = table.labels[other].into();
            }
            plan.operands[at].0 = other;
        }
        Fault::Scale => match plan.form {
            Form::Percent | Form::Times => {
                values[0] *= 1_000.0;
                if random.below(2) == 0 {
                    operands[0].value =
                        format!("{},000", operands[0].value.trim_matches(['(', ')']));
                }
            }
            _ => scale = ["billion", "thousand", "million"][random.below(3)],
        },
    }
    let figure = format_figure(value_of(formula, &values), plan.form, scale, is_negative);
    (figure != right).then(|| claim(table, &plan, &operands, formula, &figure))
}

#[test]
fn right_claims_are_shown_and_wrong_ones_are_not() {
    let mut random = Random(0x5eed_2026_1123);
    let mut right = (0, 0);
    for _ in 0..400 {
        let table = Table::new(&mut random);
        let plan = plan(&table, &mut random);
        let claim = right_claim(&table, &plan);
        let verdict = table.judge(&claim);
        right.1 += 1;
        right.0 += usize::from(verdict.verified);
        if !verdict.verified {
            println!(
                "refused: {} {verdict:?}\n{}",
                claim.statement,
                table.lines.join("\n")
            );
        }
    }
    assert!(right.0 * 100 >= right.1 * 95, "{right:?}");
    for fault in [
        Fault::Formula,
        Fault::Period,
        Fault::Sign,
        Fault::Row,
        Fault::Scale,
    ] {
        for copied in [false, true] {
            let mut injected = 0;
            // A copied claim has no formula.
            while injected < INJECTIONS && !(copied && fault == Fault::Formula) {
                let table = Table::new(&mut random);
                let plan = plan(&table, &mut random);
                if copied != (plan.form == Form::Copied) {
                    continue;
                }
                let Some(claim) = wrong_claim(&table, &plan, fault, &mut random) else {
                    continue;
                };
                injected += 1;
                let verdict = table.judge(&claim);
                assert!(
                    !verdict.verified,
                    "{fault:?}: {claim:?} {verdict:?}\n{}",
                    table.lines.join("\n")
                );
            }
        }
    }
}

// Rows whose labels are easily taken for each other.
const SIMILAR_ROWS: [(&[&str], i64, i64); 19] = [
    (&["Net sales"], 20_000, 30_000),
    (&["Net income"], 5_000, 6_000),
    (
        &["Net income attributable to noncontrolling interests"],
        100,
        400,
    ),
    (&["Net income attributable to Acme"], 4_000, 4_500),
    (&["Receivables(1)"], 2_000, 3_000),
    (&["Due from affiliates"], 600, 700),
    (&["Due to affiliates"], 800, 900),
    (&["Total assets of segments"], 40_000, 50_000),
    (&["Total assets"], 60_000, 70_000),
    (&["Long-term debt"], 9_000, 10_000),
    (&["Less current portion of long-term debt"], 1_000, 1_900),
    (&["Total debt"], 11_000, 12_000),
    (&["Increases for tax positions"], 31_000, 32_000),
    (&["Net increase (decrease) in cash"], 7_000, 8_000),
    (&["Americas:"], 1, 90),
    (&["Depreciation"], 410, 500),
    (&["Europe:"], 1, 90),
    (&["Depreciation"], 510, 590),
    (&["Total Company"], 33_000, 35_000),
];

fn similar(label: &str) -> usize {
    let named = |row: &(&[&str], i64, i64)| row.0[0] == label;
    SIMILAR_ROWS.iter().position(named).unwrap()
}

// A claim that copies the figure of 2022 of a row.
fn copied_claim(table: &Table, subject: &str, row: usize) -> DraftClaim {
    let figure = format!("${} {}", grouped(table.value(row, 2022)), table.scale);
    let citation = DraftCitation {
        passage: 1,
        quote: table.line(row).to_owned(),
    };
    DraftClaim {
        statement: format!("{subject} was {figure} in 2022."),
        citations: vec![citation],
        computation: None,
    }
}

// A claim about two rows, with its figure in per cent.
fn share_claim(table: &Table, words: &str, formula: &str, cells: [(usize, i32); 2]) -> DraftClaim {
    let values = cells.map(|(row, year)| table.value(row, year) as f64);
    let figure = format!("{:.1}%", 100.0 * value_of(formula, &values).abs());
    let citations = cells.map(|(row, _)| DraftCitation {
        passage: 1,
        quote: table.line(row).to_owned(),
    });
    let operands =
        [0, 1].map(|at| table.operand(NAMES[at], at as i64 + 1, cells[at].0, cells[at].1));
    let computation = DraftComputation {
        formula: formula.into(),
        operands: operands.to_vec(),
        result: figure.clone(),
    };
    DraftClaim {
        statement: format!("{words} {figure} in 2022."),
        citations: citations.to_vec(),
        computation: Some(computation),
    }
}

#[test]
fn rows_with_similar_labels_are_told_apart() {
    let mut random = Random(0x5eed_2026_1124);
    let mut right = (0, 0);
    for round in 0..INJECTIONS {
        let table = Table::with_rows(&mut random, &SIMILAR_ROWS);
        let share = |one: &str, two: &str, formula: &str| {
            let words = format!("{one} as a percentage of {} was", two.to_lowercase());
            share_claim(
                &table,
                &words,
                formula,
                [(similar(one), 2022), (similar(two), 2022)],
            )
        };
        let tax = similar("Increases for tax positions");
        let rises = table.value(tax, 2022) > table.value(tax, 2021);
        let change = |verb: &str| {
            let words = format!("Increases for tax positions {verb}");
            share_claim(&table, &words, "(a - b) / b", [(tax, 2022), (tax, 2021)])
        };
        let mut claims: Vec<DraftClaim> = (SIMILAR_ROWS.iter().enumerate())
            .filter(|(_, (labels, ..))| !labels[0].ends_with(':') && labels[0] != "Depreciation")
            .map(|(row, (labels, ..))| copied_claim(&table, labels[0], row))
            .collect();
        let americas = similar("Americas:") + 1;
        let europe = similar("Europe:") + 1;
        claims.extend([
            copied_claim(&table, "Depreciation of the Americas", americas),
            copied_claim(&table, "Depreciation of Europe", europe),
            share("Total assets of segments", "Total assets", "a / b"),
            share("Long-term debt", "Total debt", "a / b"),
            share("Due to affiliates", "Total assets", "a / b"),
            share("Receivables(1)", "Total assets", "a / b"),
            change(if rises { "grew" } else { "fell" }),
        ]);
        for claim in claims.iter().filter(|_| round % 5 == 0) {
            let verdict = table.judge(claim);
            right.1 += 1;
            right.0 += usize::from(verdict.verified);
            if !verdict.verified {
                println!(
                    "refused: {} {verdict:?}\n{}",
                    claim.statement,
                    table.lines.join("\n")
                );
            }
        }
        let wrong_rows = [
            (
                "Net income",
                "Net income attributable to noncontrolling interests",
            ),
            ("Net income", "Net income attributable to Acme"),
            (
                "Net income attributable to noncontrolling interests",
                "Net income",
            ),
            ("Net income attributable to Acme", "Net income"),
            ("Due to affiliates", "Due from affiliates"),
            ("Due from affiliates", "Due to affiliates"),
            ("Total assets", "Total assets of segments"),
            ("Total assets of segments", "Total assets"),
            ("Long-term debt", "Less current portion of long-term debt"),
            ("The current portion of long-term debt", "Long-term debt"),
            ("Long-term debt", "Total debt"),
            ("Net debt", "Total debt"),
            (
                "The net decrease in cash",
                "Net increase (decrease) in cash",
            ),
            ("Depreciation of Europe", "Depreciation"),
        ];
        let mut wrong: Vec<DraftClaim> = wrong_rows
            .iter()
            .map(|(subject, row)| copied_claim(&table, subject, similar(row)))
            .collect();
        let margin = [
            (
                similar("Net income attributable to noncontrolling interests"),
                2022,
            ),
            (0, 2022),
        ];
        let debt = [
            (similar("Total debt"), 2022),
            (similar("Total assets"), 2022),
        ];
        wrong.extend([
            copied_claim(&table, "Depreciation of the Americas", europe),
            // Reversed shares, and one over a row that the statement does not name.
            share("Total assets of segments", "Total assets", "b / a"),
            share("Long-term debt", "Total debt", "b / a"),
            share("Due to affiliates", "Total assets", "b / a"),
            share_claim(
                &table,
                "Due to affiliates as a percentage of total assets was",
                "a / b",
                [(similar("Due from affiliates"), 2022), debt[1]],
            ),
            share_claim(&table, "The net margin was", "a / b", margin),
            share_claim(
                &table,
                "Net debt as a percentage of total assets was",
                "a / b",
                debt,
            ),
            change(if rises { "fell" } else { "grew" }),
        ]);
        // One row twice instead of the row that it is a share of.
        let twice = [(tax, 2022); 2];
        let words = "Increases for tax positions as a percentage of total assets was";
        wrong.push(share_claim(&table, words, "a / b", twice));
        let mark = copied_claim(&table, "Receivables(1)", similar("Receivables(1)"));
        wrong.push(DraftClaim {
            statement: format!("Receivables(1) were $1 {} in 2022.", table.scale),
            ..mark
        });
        for claim in wrong {
            let verdict = table.judge(&claim);
            assert!(
                !verdict.verified,
                "{claim:?} {verdict:?}\n{}",
                table.lines.join("\n")
            );
        }
    }
    assert!(right.0 * 100 >= right.1 * 95, "{right:?}");
}

// A claim that says that the figure of 2022 of a row is above or below another.
fn bound_claim(table: &Table, row: usize, words: &str, figure: &str) -> DraftClaim {
    let copied = copied_claim(table, "", row);
    DraftClaim {
        statement: format!("{} was {words} {figure} in 2022.", table.labels[row]),
        ..copied
    }
}

#[test]
fn bounds_hold_or_are_not_shown() {
    let mut random = Random(0x5eed_2026_1125);
    for _ in 0..INJECTIONS {
        let table = Table::with_rows(&mut random, &SIMILAR_ROWS);
        let row = similar("Total assets");
        let value = table.value(row, 2022);
        let figure = |value: i64| format!("${} {}", grouped(value), table.scale);
        // `$60.2 billion` for 60,163 million: a bound is not rounded.
        let larger = if table.scale == "million" {
            "billion"
        } else {
            "million"
        };
        let rounded_up = format!("${:.1} {larger}", ((value / 100) as f64 + 1.0) / 10.0);
        for (words, limit, holds) in [
            ("more than", figure(value - 1), true),
            ("at least", figure(value), true),
            ("less than", figure(value + 1), true),
            ("no more than", figure(value), true),
            ("over", figure(value / 2), true),
            ("more than", figure(value), false),
            ("more than", figure(value + 1), false),
            ("at least", figure(value + 1), false),
            ("less than", figure(value), false),
            ("no more than", figure(value - 1), false),
            ("no less than", figure(value + 1), false),
            ("more than", rounded_up, false),
            // The scale of the bound is another.
            (
                "more than",
                format!("${} {larger}", grouped(value - 1)),
                false,
            ),
        ] {
            let claim = bound_claim(&table, row, words, &limit);
            let verdict = table.judge(&claim);
            assert_eq!(
                verdict.verified,
                holds,
                "{claim:?} {verdict:?}\n{}",
                table.lines.join("\n")
            );
        }
        let other = bound_claim(&table, similar("Total debt"), "more than", &figure(1));
        let mut wrong_row = other.clone();
        wrong_row.statement = other.statement.replace("Total debt", "Total assets");
        let mut wrong_year = other;
        wrong_year.statement = wrong_year.statement.replace("2022", "2019");
        for claim in [wrong_row, wrong_year] {
            assert!(!table.judge(&claim).verified, "{claim:?}");
        }
    }
}
