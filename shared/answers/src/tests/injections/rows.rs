//! Rows whose labels are easily taken for each other.

use super::faults::{NAMES, value_of};
use super::{INJECTIONS, Random, Table, grouped};
use crate::draft_answer::{DraftCitation, DraftClaim, DraftComputation};

// Each table is asked for a part of the claims, so that every one is judged over 20 or 25 tables and the test ends in seconds.
const RIGHT_ROUNDS: usize = 5;
const WRONG_ROUNDS: usize = 4;

pub(super) const SIMILAR_ROWS: [(&[&str], i64, i64); 19] = [
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

pub(super) fn similar(label: &str) -> usize {
    let named = |row: &(&[&str], i64, i64)| row.0[0] == label;
    SIMILAR_ROWS.iter().position(named).unwrap()
}

// A claim that copies the figure of 2022 of a row.
pub(super) fn copied_claim(table: &Table, subject: &str, row: usize) -> DraftClaim {
    let figure = format!("${} {}", grouped(table.value(row, 2022)), table.scale);
    let citation = DraftCitation {
        passage: 1,
        quote: table.line(row).to_owned(),
    };
    DraftClaim {
        statement: format!("{subject} was {figure} in 2022."),
        citations: vec![citation],
        computation: None,
        pictures: Vec::new(),
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
        pictures: Vec::new(),
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
        for claim in claims
            .iter()
            .skip(round % RIGHT_ROUNDS)
            .step_by(RIGHT_ROUNDS)
        {
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
        for claim in wrong
            .iter()
            .skip(round % WRONG_ROUNDS)
            .step_by(WRONG_ROUNDS)
        {
            let verdict = table.judge(claim);
            assert!(
                !verdict.verified,
                "{claim:?} {verdict:?}\n{}",
                table.lines.join("\n")
            );
        }
    }
    assert!(right.0 * 100 >= right.1 * 95, "{right:?}");
}
