//! Claims about rows whose labels are in several blocks of a page.

use super::judge;
use crate::draft_answer::{DraftCitation, DraftClaim, DraftComputation, DraftOperand};
use stemma_verify::QuoteTarget;

const LINES: [&str; 16] = [
    "(In millions, except per share data)",
    "2022 2021",
    "Net sales $ 20,000 $ 19,000",
    "Net income $ 815 $ 951",
    "Basic earnings per share:",
    "Net income $ 0.532 $ 0.604",
    "Assets",
    "Domestic $ 14,549 $ 16,016",
    "International 1,254 1,488",
    "Total assets $ 15,803 $ 17,504",
    "Capital expenditures",
    "Domestic $ 891 $ 691",
    "International 39 46",
    "Total capital expenditures $ 930 $ 737",
    "Current portion of long-term debt $ 13 $ 14",
    "Short-term debt 80 136",
];

fn is_verified(statement: &str, rows: &[usize], computation: Option<DraftComputation>) -> bool {
    let lines = LINES.map(str::to_owned);
    let citations = rows.iter().map(|row| DraftCitation {
        passage: 1,
        quote: LINES[*row].into(),
    });
    let claim = DraftClaim {
        statement: statement.into(),
        citations: citations.collect(),
        computation,
        pictures: Vec::new(),
    };
    let verdict = judge(&[QuoteTarget::text(1, &lines)], &claim);
    println!("{statement}: {verdict:?}");
    verdict.verified
}

fn is_copy_verified(statement: &str, row: usize) -> bool {
    is_verified(statement, &[row], None)
}

// The share of International, in row `one`, of the total in row `two`.
fn is_share_verified(one: (usize, &str), two: (usize, &str, &str), share: &str) -> bool {
    let operand = |name: &str, citation: i64, value: &str, row: &str| DraftOperand {
        name: name.into(),
        citation,
        value: value.into(),
        row: row.into(),
        period: "2022".into(),
    };
    let computation = DraftComputation {
        formula: "a / b".into(),
        operands: vec![
            operand("a", 1, one.1, "International"),
            operand("b", 2, two.1, two.2),
        ],
        result: share.into(),
    };
    let total = two.2.to_lowercase();
    let statement = format!("International as a percentage of {total} was {share} in 2022.");
    is_verified(&statement, &[one.0, two.0], Some(computation))
}

#[test]
fn amounts_per_share_are_no_rivals_of_amounts() {
    assert!(is_copy_verified("Net income was $815 million in 2022.", 3));
    assert!(!is_copy_verified(
        "Net income was $0.532 million in 2022.",
        5
    ));
    assert!(!is_copy_verified("Net sales were $815 million in 2022.", 3));
}

#[test]
fn a_row_named_word_for_word_precedes_one_that_may_be_called_the_same() {
    assert!(is_copy_verified(
        "Short-term debt was $80 million in 2022.",
        15
    ));
    assert!(!is_copy_verified(
        "Short-term debt was $13 million in 2022.",
        14
    ));
    let current = "The current portion of long-term debt was $80 million in 2022.";
    assert!(!is_copy_verified(current, 15));
}

#[test]
fn a_total_says_of_which_block_a_row_is() {
    let assets = (9, "15,803", "Total assets");
    let spending = (13, "930", "Total capital expenditures");
    assert!(is_share_verified((8, "1,254"), assets, "7.9%"));
    assert!(is_share_verified((12, "39"), spending, "4.2%"));
    assert!(!is_share_verified((12, "39"), assets, "0.2%"));
    assert!(!is_share_verified((8, "1,254"), spending, "134.8%"));
    // Nothing says which of both rows is meant.
    assert!(!is_copy_verified(
        "International was $1,254 million in 2022.",
        8
    ));
}
