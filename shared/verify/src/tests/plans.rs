//! Right claims about generated statements.

use super::generated::{
    CAPEX, CASH_FLOW, COST, CURRENT_ASSETS, CURRENT_LIABILITIES, INVENTORIES, NET, OPERATING,
    PER_SHARE, RECEIVABLES, REVENUE, ROWS, Random, Table,
};
use super::{citation, computed, copied};
use crate::StatedClaim;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What a claim is about, so that faults can be put into it.
#[derive(Clone)]
pub(super) struct Plan {
    /// With placeholders.
    pub(super) statement: String,
    pub(super) inputs: Vec<(usize, i32)>,
    /// Empty for a copied figure.
    pub(super) formula: &'static str,
    pub(super) form: Form,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Percent,
    Times,
    Money,
    Copied,
}

// The value of a formula over a, b and c, in the units of the table.
pub(super) fn value_of(formula: &str, values: &[f64]) -> f64 {
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

pub(super) fn plan(table: &Table, random: &mut Random) -> Plan {
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

pub(super) fn result(table: &Table, plan: &Plan) -> (String, String) {
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

pub(super) fn right_claim(table: &Table, plan: &Plan) -> StatedClaim {
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
