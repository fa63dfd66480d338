//! Faults of one kind each in claims about generated statements.

use super::generated::{CAPEX, CASH_FLOW, COST, NET, OPERATING, ROWS, Random, Table};
use super::plans::{Form, Plan, plan, result, right_claim, value_of};
use super::{citation, is_shown};
use crate::meaning::lines_of;
use crate::{ClaimState, StatedClaim};

const RIGHT: usize = 400;
const INJECTIONS: usize = 200;
// A table takes longer to read than a claim to check.
const CLAIMS_OF_TABLE: usize = 4;

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
    /// Another row throughout, but the statement names the right one by another word than its label.
    Synonym,
}

const FAULTS: [Fault; 17] = [
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
    Fault::Synonym,
];

// Other words for rows than their labels.
const SYNONYMS: [(&str, usize); 5] = [
    ("Capital expenditure", CAPEX),
    ("Operating cash flow", CASH_FLOW),
    ("Cost of products sold", COST),
    ("Net profit", NET),
    ("Operating profit", OPERATING),
];

fn synonym_claim(table: &Table, name: &str, row: usize, year: i32) -> StatedClaim {
    let plan = Plan {
        statement: format!("{name} was {{a}} in {{a.period}}."),
        inputs: vec![(row, year)],
        formula: "",
        form: Form::Copied,
    };
    right_claim(table, &plan)
}

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
        Fault::Synonym => {
            let (name, named) = SYNONYMS[random.below(SYNONYMS.len())];
            // Of a row that is no known line, nobody knows what else it is called.
            if other_row == named || lines_of(table.labels[other_row]).is_empty() {
                return None;
            }
            claim = synonym_claim(table, name, other_row, year);
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
fn rows_may_be_named_by_other_words() {
    let mut random = Random(0x5eed_2026_1132);
    for _ in 0..20 {
        let table = Table::new(&mut random);
        for (name, row) in SYNONYMS {
            let claim = synonym_claim(&table, name, row, 2022);
            let verified = table.document.verify(&claim);
            assert!(is_shown(&verified), "{claim:?}\n{verified:?}");
        }
    }
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
