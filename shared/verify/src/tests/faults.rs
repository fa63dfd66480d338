//! Faults of one kind each in claims about generated statements.

use super::generated::{
    CAPEX, CASH_FLOW, COST, CURRENT_ASSETS, CURRENT_LIABILITIES, INVENTORIES, NET, OPERATING,
    PER_SHARE, RECEIVABLES, REVENUE, ROWS, Random, Table,
};
use super::{citation, computed, copied, is_shown};
use crate::{ClaimState, StatedClaim};

const RIGHT: usize = 400;
const INJECTIONS: usize = 200;
// A table takes longer to read than a claim to check.
const CLAIMS_OF_TABLE: usize = 4;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What a claim is about, so that faults can be put into it.
#[derive(Clone)]
struct Plan {
    /// With placeholders.
    statement: String,
    inputs: Vec<(usize, i32)>,
    /// Empty for a copied figure.
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

// The value of a formula over a, b and c, in the units of the table.
fn value_of(formula: &str, values: &[f64]) -> f64 {
    let [a, b, c] = [0, 1, 2].map(|at| values.get(at).copied().unwrap_or(0.0));
    match formula {
        "(a - b) / a" => (a - b) / a,
        "(a - b) / b" => (a - b) / b,
        "(a - b) / b * 100" => (a - b) / b,
        "(a - b) / c" => (a - b) / c,
        "a / b" => a / b,
        "abs(b) / a * 100" => b.abs() / a,
        "a + b" => a + b,
        "a - b" => a - b,
        "avg(a, b)" => f64::midpoint(a, b),
        "b / a" => b / a,
        "a * b" => a * b,
        "(b - a) / a" => (b - a) / a,
        "a + b / 2" => a + b / 2.0,
        "(a - c) / b" => (a - c) / b,
        other => panic!("{other}"),
    }
}

fn plan(table: &Table, random: &mut Random) -> Plan {
    let year = 2022;
    let other = *table
        .years
        .iter()
        .filter(|other| **other < year)
        .max()
        .unwrap();
    let label = |row: usize| table.labels[row].to_lowercase();
    let plan =
        |statement: String, inputs: &[(usize, i32)], formula: &'static str, form: Form| Plan {
            statement,
            inputs: inputs.to_vec(),
            formula,
            form,
        };
    let rise = |row: usize| match table.value(row, year).abs() > table.value(row, other).abs() {
        true => "grew",
        false => "fell",
    };
    match random.below(14) {
        0..4 => {
            let row = random.below(ROWS.len());
            let year = table.years[random.below(table.years.len())];
            let when = match random.below(3) {
                0 => format!("in {year}"),
                1 => format!("in fiscal year {year}"),
                _ => "in {a.period}".to_owned(),
            };
            let subject = match random.below(3) {
                0 => format!("{} of Acme was", table.labels[row]),
                1 => format!("Acme's {} came to", label(row)),
                _ => "The amount reported was".to_owned(),
            };
            plan(
                format!("{subject} {{a}} {when}."),
                &[(row, year)],
                "",
                Form::Copied,
            )
        }
        4 => plan(
            "Acme's gross margin was {m} in {m.period}.".into(),
            &[(REVENUE, year), (COST, year)],
            "(a - b) / a",
            Form::Percent,
        ),
        5 => plan(
            "The current ratio was {m} at the end of 2022.".into(),
            &[(CURRENT_ASSETS, year), (CURRENT_LIABILITIES, year)],
            "a / b",
            Form::Times,
        ),
        6 => plan(
            "Free cash flow was {m} in {a.period}.".into(),
            &[(CASH_FLOW, year), (CAPEX, year)],
            "a + b",
            Form::Money,
        ),
        7 => plan(
            "The operating margin came to {m} in 2022.".into(),
            &[(OPERATING, year), (REVENUE, year)],
            "a / b",
            Form::Percent,
        ),
        8 | 9 => {
            let row = [REVENUE, NET, RECEIVABLES, PER_SHARE][random.below(4)];
            plan(
                format!(
                    "{} {} by {{m}} from {other} to {{a.period}}.",
                    table.labels[row],
                    rise(row)
                ),
                &[(row, year), (row, other)],
                ["(a - b) / b", "(a - b) / b * 100"][random.below(2)],
                Form::Percent,
            )
        }
        10 => plan(
            format!(
                "Average {} was {{m}} over {other} and {year}.",
                label(INVENTORIES)
            ),
            &[(INVENTORIES, year), (INVENTORIES, other)],
            "avg(a, b)",
            Form::Money,
        ),
        11 => plan(
            format!(
                "As a share of {}, capital expenditure was {{m}} in {{b.period}}.",
                label(REVENUE)
            ),
            &[(REVENUE, year), (CAPEX, year)],
            "abs(b) / a * 100",
            Form::Percent,
        ),
        12 => {
            let row = [REVENUE, NET, OPERATING][random.below(3)];
            plan(
                format!(
                    "{} {} to {{a}} in {{a.period}} from {{b}} in {{b.period}}.",
                    table.labels[row],
                    rise(row)
                ),
                &[(row, year), (row, other)],
                "",
                Form::Copied,
            )
        }
        _ => plan(
            "The quick ratio was {m} in 2022.".into(),
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

fn result(table: &Table, plan: &Plan) -> (String, String) {
    let values = plan
        .inputs
        .iter()
        .map(|(row, year)| table.value(*row, *year) as f64);
    let value = value_of(plan.formula, &values.collect::<Vec<_>>());
    let per_share = plan.inputs.iter().any(|(row, _)| table.is_per_share(*row));
    match plan.form {
        Form::Percent => (format!("{:.1}", value * 100.0), "%".into()),
        Form::Times => (format!("{value:.2}"), String::new()),
        Form::Money | Form::Copied => {
            assert!(!per_share);
            (format!("{value:.0}"), table.unit(REVENUE))
        }
    }
}

fn right_claim(table: &Table, plan: &Plan) -> StatedClaim {
    let inputs = plan.inputs.iter().zip(NAMES).zip(1..);
    let mut figures: Vec<_> = inputs
        .map(|(((row, year), name), citation)| {
            let column = table.column(*year);
            copied(
                name,
                citation,
                [
                    &table.printed(*row, column),
                    &table.unit(*row),
                    table.labels[*row],
                    &table.heads[column],
                ],
            )
        })
        .collect();
    if !plan.formula.is_empty() {
        let (value, unit) = result(table, plan);
        figures.push(computed("m", &value, &unit, plan.formula));
    }
    StatedClaim {
        statement: plan.statement.clone(),
        citations: plan
            .inputs
            .iter()
            .map(|(row, _)| citation(table.line(*row)))
            .collect(),
        figures,
        pictures: Vec::new(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The value of the next column, with the right labels.
    Column,
    /// The value of the column of changes, as one of a year.
    ChangeColumn,
    /// The value of another row, with the right labels.
    Row,
    /// Another row throughout, but the statement names the right one.
    Concept,
    /// Another column throughout, but the statement names the right year.
    Period,
    Scale,
    Unit,
    Sign,
    Formula,
    Entity,
    /// The statement has the figure, or another one, instead of a placeholder.
    Digits,
    Direction,
    Quote,
    /// A number in the formula that no page has.
    Constant,
    /// A formula of something else than the statement says, with its result.
    Meaning,
    /// An input of another row, with the result.
    Operand,
}

const FAULTS: [Fault; 16] = [
    Fault::Column,
    Fault::ChangeColumn,
    Fault::Row,
    Fault::Concept,
    Fault::Period,
    Fault::Scale,
    Fault::Unit,
    Fault::Sign,
    Fault::Formula,
    Fault::Entity,
    Fault::Digits,
    Fault::Direction,
    Fault::Quote,
    Fault::Constant,
    Fault::Meaning,
    Fault::Operand,
];

// A formula over the same inputs with another result.
fn other_formula(table: &Table, plan: &Plan, random: &mut Random) -> Option<&'static str> {
    let wrong: &[&'static str] = match plan.formula {
        "(a - b) / a" => &["b / a", "(a - b) / b", "(b - a) / a", "a - b"],
        "a / b" => &["b / a", "a - b", "a * b"],
        "a + b" => &["a - b", "a / b", "avg(a, b)"],
        "(a - b) / b" | "(a - b) / b * 100" => &["(a - b) / a", "a / b", "a - b"],
        "avg(a, b)" => &["a + b", "a - b", "a + b / 2"],
        "(a - b) / c" => &["(a - c) / b"],
        _ => return None,
    };
    let formula = wrong[random.below(wrong.len())];
    let right = result(table, plan);
    let values = plan
        .inputs
        .iter()
        .map(|(row, year)| table.value(*row, *year) as f64);
    let values: Vec<f64> = values.collect();
    let is_percent = plan.form == Form::Percent;
    let shown = value_of(formula, &values) * if is_percent { 100.0 } else { 1.0 };
    let is_same = (shown.abs() - right.0.parse::<f64>().ok()?.abs()).abs() < 0.06;
    (!is_same).then_some(formula)
}

// The claim with a fault; `None` where the plan cannot have it.
fn wrong_claim(
    table: &Table,
    plan: &Plan,
    fault: Fault,
    random: &mut Random,
) -> Option<StatedClaim> {
    let mut claim = right_claim(table, plan);
    let at = random.below(plan.inputs.len());
    let (row, year) = plan.inputs[at];
    let others: Vec<i32> = table
        .years
        .iter()
        .copied()
        .filter(|other| *other != year)
        .collect();
    let other_year = others[random.below(others.len())];
    let other_row = (row + 1 + random.below(ROWS.len() - 1)) % ROWS.len();
    let figure = &mut claim.figures[at];
    match fault {
        Fault::Column => figure.value = table.printed(row, table.column(other_year)),
        Fault::ChangeColumn => {
            let line = table.line(row).split(' ').next_back()?;
            figure.value = table.has_change.then(|| line.to_owned())?;
        }
        Fault::Row => {
            figure.value = table.printed(other_row, table.column(year));
            if random.below(2) == 0 {
                claim.citations[at] = citation(table.line(other_row));
            }
        }
        Fault::Concept => {
            let names_row = plan
                .statement
                .to_lowercase()
                .contains(&table.labels[row].to_lowercase());
            if plan.form != Form::Copied || !names_row {
                return None;
            }
            let wrong = Plan {
                inputs: plan
                    .inputs
                    .iter()
                    .map(|(_, year)| (other_row, *year))
                    .collect(),
                ..plan.clone()
            };
            claim = right_claim(table, &wrong);
        }
        Fault::Period => {
            if !plan.statement.contains(&year.to_string()) || plan.inputs.len() > 1 {
                return None;
            }
            let wrong = Plan {
                inputs: vec![(row, other_year)],
                ..plan.clone()
            };
            claim = right_claim(table, &wrong);
        }
        Fault::Scale => {
            let last = claim.figures.len() - 1;
            let is_result = plan.form == Form::Money && random.below(2) == 0;
            let figure = &mut claim.figures[if is_result { last } else { at }];
            let unit = ["$ million", "$ thousand", "billion", "$ thousands"][random.below(4)];
            if table.scale == "million" && unit == "$ million"
                || table.scale == "thousand" && unit.starts_with("$ thousand")
            {
                return None;
            }
            figure.unit = unit.into();
        }
        Fault::Unit => {
            let unit = ["%", "percent", "€ million", "€", "£"][random.below(5)];
            // Where a page names no currency, none is shown.
            let is_currency = unit.starts_with(['€', '£']);
            if is_currency && !table.names_dollars() {
                return None;
            }
            figure.unit = unit.into();
        }
        Fault::Sign => {
            let bare = figure.value.trim_matches(['(', ')']).to_owned();
            let is_negative = bare.len() < figure.value.len();
            figure.value = if is_negative {
                bare
            } else {
                format!("({bare})")
            };
        }
        Fault::Formula => {
            claim.figures.last_mut()?.formula = other_formula(table, plan, random)?.into();
        }
        Fault::Meaning => {
            let wrong = Plan {
                formula: other_formula(table, plan, random)?,
                ..plan.clone()
            };
            claim = right_claim(table, &wrong);
        }
        Fault::Operand => {
            let is_used = plan.inputs.iter().any(|(row, _)| *row == other_row);
            if plan.formula.is_empty() || is_used || table.is_per_share(other_row) {
                return None;
            }
            let mut wrong = plan.clone();
            wrong.inputs[at] = (other_row, year);
            claim = right_claim(table, &wrong);
            if claim.figures.last()?.value == right_claim(table, plan).figures.last()?.value {
                return None;
            }
        }
        Fault::Entity => {
            let statement = &plan.statement;
            claim.statement = match random.below(2) {
                0 => format!("Zenith Corporation reported: {statement}"),
                _ => format!("At Zenith's plants: {statement}"),
            };
        }
        Fault::Digits => {
            let placeholder = claim.statement.find('{')?;
            let end = claim.statement.find('}')? + 1;
            let digits = [
                claim.figures[at].value.clone(),
                "1,234".into(),
                format!("${} million", 100 + random.below(900)),
                format!("{}%", random.below(90)),
            ];
            let digits = &digits[random.below(4)];
            claim.statement.replace_range(placeholder..end, digits);
        }
        Fault::Direction => {
            let turned = match claim.statement.contains(" grew ") {
                true => claim.statement.replace(" grew ", " fell "),
                false => claim.statement.replace(" fell ", " grew "),
            };
            if turned == claim.statement {
                return None;
            }
            claim.statement = turned;
        }
        Fault::Quote => {
            let quote = &mut claim.citations[at].quote;
            *quote = format!("{quote} {}", 1_000 + random.below(9_000));
        }
        Fault::Constant => {
            if plan.formula.is_empty() {
                return None;
            }
            let (row, year) = plan.inputs[0];
            let constant = table.value(row, year).abs().to_string();
            let last = claim.figures.last_mut()?;
            last.formula = last.formula.replacen('a', &constant, 1);
            if last.formula.contains("bs(") || last.formula.contains("vg(") {
                return None;
            }
        }
    }
    Some(claim)
}

#[test]
fn right_claims_are_shown_with_the_figures_of_the_page() {
    let mut random = Random(0x5eed_2026_1130);
    let mut shown = 0;
    for _ in 0..RIGHT {
        let table = Table::new(&mut random);
        let plan = plan(&table, &mut random);
        let verified = table.document.verify(&right_claim(&table, &plan));
        if !is_shown(&verified) {
            println!("refused: {verified:?}\n{}", table.text());
            continue;
        }
        shown += 1;
        let expected = match plan.formula {
            "" => ClaimState::Verified,
            _ => ClaimState::Computed,
        };
        assert_eq!(verified.state, expected, "{verified:?}");
        if plan.form == Form::Copied {
            let (row, year) = plan.inputs[0];
            let text = &verified.text;
            assert!(
                text.contains(&table.shown(row, year)),
                "{text}\n{}",
                table.text()
            );
            assert!(text.contains(&year.to_string()), "{text}");
        }
    }
    println!("{shown} of {RIGHT}");
    assert!(shown * 100 >= RIGHT * 97, "{shown}");
}

#[test]
fn wrong_claims_are_never_shown() {
    let mut random = Random(0x5eed_2026_1131);
    for fault in FAULTS {
        let mut injected = 0;
        let mut table = Table::new(&mut random);
        for round in 1.. {
            if injected == INJECTIONS {
                break;
            }
            if round % CLAIMS_OF_TABLE == 0 {
                table = Table::new(&mut random);
            }
            let plan = plan(&table, &mut random);
            let Some(claim) = wrong_claim(&table, &plan, fault, &mut random) else {
                continue;
            };
            injected += 1;
            let verified = table.document.verify(&claim);
            assert!(
                !is_shown(&verified),
                "{fault:?}: {claim:?}\n{verified:?}\n{}",
                table.text()
            );
        }
    }
}
