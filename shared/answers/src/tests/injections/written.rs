//! Wrong claims over documents written by hand, by what is wrong about them, beside the right ones that the same text supports.

use super::judge;
use crate::prompt::{DraftCitation, DraftClaim, DraftComputation, DraftOperand};
use crate::quote_target::QuoteTarget;

// Lines, and claims over them.
struct Document {
    lines: Vec<String>,
}

impl Document {
    fn new(text: &str) -> Self {
        let lines = text.lines().map(str::to_owned).collect();
        Self { lines }
    }

    fn check(
        &self,
        statement: &str,
        quotes: &[&str],
        computation: Option<DraftComputation>,
    ) -> bool {
        let citations = quotes.iter().map(|quote| DraftCitation {
            passage: 1,
            quote: (*quote).to_owned(),
        });
        let claim = DraftClaim {
            statement: statement.into(),
            citations: citations.collect(),
            computation,
        };
        let verdict = judge(&[QuoteTarget::text(1, &self.lines)], &claim);
        println!("{statement} / {quotes:?}: {verdict:?}");
        verdict.verified
    }

    // A claim that copies what its quote says.
    fn supports(&self, statement: &str, quote: &str) -> bool {
        self.check(statement, &[quote], None)
    }

    // A claim with a formula over `value row period` operands named a, b, …, each of which cites the line that begins with its row.
    fn computes(
        &self,
        statement: &str,
        formula: &str,
        operands: &[[&str; 3]],
        result: &str,
    ) -> bool {
        let line = |row: &str| self.lines.iter().find(|line| line.contains(row));
        let quotes: Vec<&str> = operands
            .iter()
            .filter_map(|[_, row, _]| line(row).map(String::as_str))
            .collect();
        let operands = operands.iter().zip(["a", "b", "c"]).zip(1..);
        let operands = operands.map(|(([value, row, period], name), citation)| DraftOperand {
            name: name.into(),
            citation,
            value: (*value).into(),
            row: (*row).into(),
            period: (*period).into(),
        });
        let computation = DraftComputation {
            formula: formula.into(),
            operands: operands.collect(),
            result: result.into(),
        };
        self.check(statement, &quotes, Some(computation))
    }
}

const TABLE: &str = "Statement of income
(In millions of dollars)
2022 2021 2020
Net sales 1,749 1,603 1,200
Cost of sales 900 800 700
Large reserve 70,000,000,000,000,000,000,000,000,000 (70,000,000,000,000,000,000,000,000,000) 1";

#[test]
fn no_figure_of_a_reply_panics() {
    let table = Document::new(TABLE);
    let sales = [
        ["1,749", "Net sales", "2022"],
        ["1,603", "Net sales", "2021"],
    ];
    let large = [
        [
            "70,000,000,000,000,000,000,000,000,000",
            "Large reserve",
            "2022",
        ],
        [
            "(70,000,000,000,000,000,000,000,000,000)",
            "Large reserve",
            "2021",
        ],
    ];
    for digits in [8, 12, 13, 27, 28, 29, 40] {
        let result = format!(
            "9.{}%",
            "1079226450405489706799750467900000000000"
                .split_at(digits)
                .0
        );
        let statement = format!("Net sales grew {result} in 2022.");
        assert!(digits > 8 || !table.computes(&statement, "a", &sales, &result));
        table.computes(&statement, "(a - b) / b", &sales, &result);
    }
    for (statement, formula, result) in [
        (
            "The large reserve grew by $5 million in 2022.",
            "a + 0 * b",
            "$5 million",
        ),
        ("The large reserve grew 5% in 2022.", "(a - b) / b", "5%"),
        ("The large reserve grew 5% in 2022.", "a", "5%"),
    ] {
        assert!(!table.computes(statement, formula, &large, result));
    }
    assert!(table.computes(
        "Net sales grew 9.1% in 2022.",
        "(a - b) / b",
        &sales,
        "9.1%"
    ));
}

#[test]
fn a_sentence_gives_the_whole_period_of_its_figure() {
    let prose = Document::new(
        "Total revenue was $5 million in 2021. Costs were lower.
Sales in the first quarter of 2022 were $33 million.
The backlog of the segment stood at $9 million.
The pension liability came to $77 million at the end of
2021. It was paid in 2022.",
    );
    let year = "Total revenue was $5 million in 2021.";
    let quarter = "Sales in the first quarter of 2022 were $33 million.";
    let pension = "The pension liability came to $77 million";
    for (statement, quote, is_right) in [
        ("Total revenue was $5 million in 2021.", year, true),
        ("Total revenue was $5 million in 2022.", year, false),
        (
            "Total revenue was $5 million in 2022.",
            "Total revenue was $5 million",
            false,
        ),
        (
            "Sales in the first quarter of 2022 were $33 million.",
            quarter,
            true,
        ),
        ("Sales were $33 million in Q1 2022.", quarter, true),
        (
            "Sales in the second quarter of 2022 were $33 million.",
            quarter,
            false,
        ),
        ("Sales of the year 2022 were $33 million.", quarter, false),
        ("Sales were $33 million in 2022.", quarter, false),
        (
            "The pension liability came to $77 million in 2021.",
            pension,
            true,
        ),
        (
            "The pension liability came to $77 million in 2022.",
            pension,
            false,
        ),
        (
            "The backlog of the segment stood at $9 million.",
            "The backlog of the segment stood at $9 million.",
            true,
        ),
    ] {
        assert_eq!(
            prose.supports(statement, quote),
            is_right,
            "{statement} / {quote}"
        );
    }
}

#[test]
fn every_period_of_a_claim_is_in_its_source() {
    let text = Document::new(
        "The backlog of the segment stood at $9 million.\n(In millions of dollars)\nNet sales 410 380\nCost of sales 205 190",
    );
    let quote = "The backlog of the segment stood at $9 million.";
    assert!(text.supports(
        "The backlog of the segment stood at $9 million in 2022.",
        quote
    ));
    for period in ["FY2024", "FY24", "Q3 2024", "3Q24", "2024"] {
        let statement = format!("The backlog of the segment stood at $9 million in {period}.");
        assert!(!text.supports(&statement, quote), "{statement}");
        let operands = [
            ["410", "Net sales", period],
            ["205", "Cost of sales", period],
        ];
        let statement = format!("The gross margin was 50% in {period}.");
        assert!(
            !text.computes(&statement, "(a - b) / a", &operands, "50%"),
            "{statement}"
        );
    }
}
