//! Faults of one kind each in claims about generated statements: formula, period, sign, row, scale.

use super::{
    CAPEX, CASH_FLOW, COST, CURRENT_ASSETS, CURRENT_LIABILITIES, INJECTIONS, INVENTORIES, NET,
    OPERATING, RECEIVABLES, REVENUE, ROWS, Random, Table, grouped, printed,
};
use crate::draft_answer::{DraftCitation, DraftClaim, DraftComputation, DraftOperand};

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
pub(super) fn value_of(formula: &str, values: &[f64]) -> f64 {
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

pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

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
        pictures: Vec::new(),
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
