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

#[test]
fn signs_are_those_of_the_cells() {
    let table = Document::new(
        "Statement of income
(In millions of dollars)
2022 2021
Revenue 1,600 1,500
Net income (loss) (160) 200
Income (loss) before income taxes (500) 210
Net cash provided by (used in) investing activities (3,000) (2,000)
Net investment income (12) 8
Interest income (33) 21
Operating margin (5.0)% 4.0%
Dividends paid (300) (250)
Provision (benefit) for income taxes (44) 35
Loss (gain) on sale of plants (17) 19
Depreciation and amortization (71) (69)",
    );
    let line = |label: &str| {
        let line = table.lines.iter().find(|line| line.starts_with(label));
        line.cloned().unwrap_or_default()
    };
    for (statement, label, is_right) in [
        (
            "Net income was $160 million in 2022.",
            "Net income (loss)",
            false,
        ),
        (
            "Net income fell to $160 million in 2022.",
            "Net income (loss)",
            false,
        ),
        (
            "Net income was down at $160 million in 2022.",
            "Net income (loss)",
            false,
        ),
        (
            "Net income was reduced to $160 million in 2022.",
            "Net income (loss)",
            false,
        ),
        (
            "The net loss was $160 million in 2022.",
            "Net income (loss)",
            true,
        ),
        (
            "Net income (loss) was $(160) million in 2022.",
            "Net income (loss)",
            true,
        ),
        (
            "Net income was $200 million in 2021.",
            "Net income (loss)",
            true,
        ),
        (
            "The net loss was $200 million in 2021.",
            "Net income (loss)",
            false,
        ),
        (
            "Income before income taxes was $500 million in 2022.",
            "Income (loss)",
            false,
        ),
        (
            "The loss before income taxes was $500 million in 2022.",
            "Income (loss)",
            true,
        ),
        (
            "Net cash provided by investing activities was $3,000 million in 2022.",
            "Net cash",
            false,
        ),
        (
            "Net cash used in investing activities was $3,000 million in 2022.",
            "Net cash",
            true,
        ),
        (
            "Net investment income was $12 million in 2022.",
            "Net investment",
            false,
        ),
        (
            "Interest income was $33 million in 2022.",
            "Interest income",
            false,
        ),
        (
            "The operating margin was 5.0% in 2022.",
            "Operating margin",
            false,
        ),
        (
            "The operating margin fell to 5.0% in 2022.",
            "Operating margin",
            false,
        ),
        (
            "The operating margin was -5.0% in 2022.",
            "Operating margin",
            true,
        ),
        (
            "Dividends paid were $300 million in 2022.",
            "Dividends paid",
            true,
        ),
        (
            "The provision for income taxes was $44 million in 2022.",
            "Provision",
            false,
        ),
        (
            "The benefit for income taxes was $44 million in 2022.",
            "Provision",
            true,
        ),
        (
            "The loss on sale of plants was $17 million in 2022.",
            "Loss (gain)",
            false,
        ),
        (
            "The gain on sale of plants was $17 million in 2022.",
            "Loss (gain)",
            true,
        ),
        (
            "Depreciation and amortization was $71 million in 2022.",
            "Depreciation",
            true,
        ),
    ] {
        assert_eq!(
            table.supports(statement, &line(label)),
            is_right,
            "{statement}"
        );
    }
    let income = ["(160)", "Net income (loss)", "2022"];
    let revenue = ["1,600", "Revenue", "2022"];
    let dividends = ["(300)", "Dividends paid", "2022"];
    for (statement, formula, operand, result, is_right) in [
        (
            "Net income was 10.0% of revenue in 2022.",
            "abs(a) / b",
            income,
            "10.0%",
            false,
        ),
        (
            "Net income was -10.0% of revenue in 2022.",
            "a / b",
            income,
            "-10.0%",
            true,
        ),
        (
            "The net loss was 10.0% of revenue in 2022.",
            "abs(a) / b",
            income,
            "10.0%",
            true,
        ),
        (
            "The net margin was 10.0% in 2022.",
            "abs(a) / b",
            income,
            "10.0%",
            false,
        ),
        (
            "Dividends paid were 18.8% of revenue in 2022.",
            "abs(a) / b",
            dividends,
            "18.8%",
            true,
        ),
    ] {
        let is_shown = table.computes(statement, formula, &[operand, revenue], result);
        assert_eq!(is_shown, is_right, "{statement}");
    }
}

#[test]
fn operands_are_of_one_period() {
    let table = Document::new(
        "Statement of income
(In millions of dollars)
Three Months Ended December 31, Year Ended December 31,
2022 2021 2022 2021
Revenue 410 380 1,600 1,500
Cost of sales 205 190 1,000 900",
    );
    const YEAR: &str = "Year ended December 31, 2022";
    const QUARTER: &str = "Three months ended December 31, 2022";
    const QUARTER_BEFORE: &str = "Three months ended December 31, 2021";
    const YEAR_BEFORE: &str = "Year ended December 31, 2021";
    let margin = "(a - b) / a";
    let growth = "(a - b) / b";
    for (statement, formula, operands, result, is_right) in [
        (
            "The gross margin was 37.5% in 2022.",
            margin,
            [["1,600", "Revenue", YEAR], ["1,000", "Cost of sales", YEAR]],
            "37.5%",
            true,
        ),
        (
            "The gross margin was 37.5%.",
            margin,
            [["1,600", "Revenue", YEAR], ["1,000", "Cost of sales", YEAR]],
            "37.5%",
            true,
        ),
        (
            "The gross margin was 87.2% in 2022.",
            margin,
            [
                ["1,600", "Revenue", YEAR],
                ["205", "Cost of sales", QUARTER],
            ],
            "87.2%",
            false,
        ),
        (
            "The gross margin was 50.0% in 2022.",
            margin,
            [
                ["410", "Revenue", QUARTER],
                ["205", "Cost of sales", QUARTER],
            ],
            "50.0%",
            false,
        ),
        (
            "The gross margin was 50.0% for the year 2022.",
            margin,
            [
                ["410", "Revenue", QUARTER],
                ["205", "Cost of sales", QUARTER],
            ],
            "50.0%",
            false,
        ),
        (
            "The gross margin was 50.0% in the fourth quarter of 2022.",
            margin,
            [
                ["410", "Revenue", QUARTER],
                ["205", "Cost of sales", QUARTER],
            ],
            "50.0%",
            true,
        ),
        (
            "The gross margin was 37.5% in the fourth quarter of 2022.",
            margin,
            [["1,600", "Revenue", YEAR], ["1,000", "Cost of sales", YEAR]],
            "37.5%",
            false,
        ),
        (
            "Revenue grew 6.7% from 2021 to 2022.",
            growth,
            [
                ["1,600", "Revenue", YEAR],
                ["1,500", "Revenue", YEAR_BEFORE],
            ],
            "6.7%",
            true,
        ),
        (
            "Revenue grew 321.1% from 2021 to 2022.",
            growth,
            [
                ["1,600", "Revenue", YEAR],
                ["380", "Revenue", QUARTER_BEFORE],
            ],
            "321.1%",
            false,
        ),
        (
            "Revenue grew 7.9% in the three months ended December 31, 2022.",
            growth,
            [
                ["410", "Revenue", QUARTER],
                ["380", "Revenue", QUARTER_BEFORE],
            ],
            "7.9%",
            true,
        ),
        // Without a period the newest is meant.
        (
            "The gross margin was 40.0%.",
            margin,
            [
                ["1,500", "Revenue", YEAR_BEFORE],
                ["900", "Cost of sales", YEAR_BEFORE],
            ],
            "40.0%",
            false,
        ),
    ] {
        assert_eq!(
            table.computes(statement, formula, &operands, result),
            is_right,
            "{statement}"
        );
    }
    for (statement, is_right) in [
        ("Revenue was $1,600 million in 2022.", true),
        ("Revenue was $1,600 million in the year 2022.", true),
        (
            "Revenue was $410 million in the fourth quarter of 2022.",
            true,
        ),
        ("Revenue was $410 million in 2022.", false),
        ("Revenue was $410 million in the year 2022.", false),
        (
            "Revenue was $1,600 million in the fourth quarter of 2022.",
            false,
        ),
    ] {
        assert_eq!(
            table.supports(statement, "Revenue 410 380 1,600 1,500"),
            is_right,
            "{statement}"
        );
    }
    let quarter = Document::new(
        "Statement of income
(In millions of dollars)
| Three months ended June 30, | 2022 | 2021 |
| Net sales | 410 | 380 |",
    );
    for (statement, is_right) in [
        ("Net sales were $410 million in fiscal year 2022.", false),
        ("Net sales were $410 million in 2022.", false),
        (
            "Net sales were $410 million in the three months ended June 30, 2022.",
            true,
        ),
        (
            "Net sales were $410 million in the second quarter of 2022.",
            true,
        ),
    ] {
        assert_eq!(
            quarter.supports(statement, "| Net sales | 410 | 380 |"),
            is_right,
            "{statement}"
        );
    }
}

#[test]
fn currencies_and_scales_are_those_of_the_page() {
    let euros = Document::new(
        "Statement of income
(In millions of euros)
2022 2021
Net sales 1,749 1,603
Cost of sales 900 800
Revenue from licenses was €7 million.",
    );
    let sales = ["1,749", "Net sales", "2022"];
    let cost = ["900", "Cost of sales", "2022"];
    for (currency, is_right) in [("€", true), ("$", false), ("£", false)] {
        let statement = format!("Net sales were {currency}1,749 million in 2022.");
        assert_eq!(
            euros.supports(&statement, "Net sales 1,749 1,603"),
            is_right,
            "{statement}"
        );
        let statement = format!("Revenue from licenses was {currency}7 million.");
        let quote = "Revenue from licenses was €7 million.";
        assert_eq!(euros.supports(&statement, quote), is_right, "{statement}");
        let result = format!("{currency}849 million");
        let statement = format!("The gross profit was {result} in 2022.");
        assert_eq!(
            euros.computes(&statement, "a - b", &[sales, cost], &result),
            is_right,
            "{statement}"
        );
    }
    let cents = Document::new(
        "Statement of income
(In millions of dollars, except per share amounts)
2022 2021
Net sales 12.34 11.22
Cost of sales 5.11 4.10
Net income per share 1.26 1.13
Earnings per common share:
Diluted 1.25 1.12",
    );
    for (statement, quote, is_right) in [
        (
            "Net sales were $12.34 million in 2022.",
            "Net sales 12.34 11.22",
            true,
        ),
        (
            "Net sales were $12.34 in 2022.",
            "Net sales 12.34 11.22",
            false,
        ),
        (
            "Net income per share was $1.26 in 2022.",
            "Net income per share 1.26 1.13",
            true,
        ),
        (
            "Net income per share was $1.26 million in 2022.",
            "Net income per share 1.26 1.13",
            false,
        ),
        (
            "Diluted earnings per common share were $1.25 in 2022.",
            "Diluted 1.25 1.12",
            true,
        ),
    ] {
        assert_eq!(cents.supports(statement, quote), is_right, "{statement}");
    }
    let sales = ["12.34", "Net sales", "2022"];
    let cost = ["5.11", "Cost of sales", "2022"];
    for (result, is_right) in [("$7.23 million", true), ("$7.23", false)] {
        let statement = format!("The gross profit was {result} in 2022.");
        assert_eq!(
            cents.computes(&statement, "a - b", &[sales, cost], result),
            is_right,
            "{statement}"
        );
    }
}

#[test]
fn a_claim_agrees_with_its_sentence_on_what_happened() {
    for (text, right, wrong) in [
        (
            "The company failed to comply with the covenants of its credit agreement.",
            "The company did not comply with the covenants of its credit agreement.",
            "The company complied with the covenants of its credit agreement.",
        ),
        (
            "Acme was unable to refinance the notes of its subsidiary.",
            "Acme was unable to refinance the notes of its subsidiary.",
            "Acme refinanced the notes of its subsidiary.",
        ),
        (
            "The board denied the request to increase the quarterly dividend.",
            "The board rejected the request to increase the quarterly dividend.",
            "The board approved the request to increase the quarterly dividend.",
        ),
        (
            "Management refused to sign the settlement with the union.",
            "Management refused to sign the settlement with the union.",
            "Management will sign the settlement with the union.",
        ),
        (
            "Acme ceased production of anvils at the plant in Ohio.",
            "Acme ceased production of anvils at the plant in Ohio.",
            "Production of anvils goes on at the plant in Ohio.",
        ),
        (
            "Demand for anvils is unlikely to recover before the next year.",
            "Demand for anvils is unlikely to recover before the next year.",
            "Demand for anvils will recover before the next year.",
        ),
        (
            "The auditor declined to confirm the inventories of the segment.",
            "The auditor refused to confirm the inventories of the segment.",
            "The auditor confirmed the inventories of the segment.",
        ),
        (
            "Acme abandoned the construction of the plant in Ohio.",
            "Acme abandoned the construction of the plant in Ohio.",
            "The construction of the plant in Ohio by Acme goes on.",
        ),
        (
            "Acme no longer leases the warehouse in the harbor.",
            "Acme no longer leases the warehouse in the harbor.",
            "Acme leases the warehouse in the harbor.",
        ),
        (
            "We expect sales of $200 million in 2022 if the merger closes.",
            "Acme expects sales of $200 million in 2022.",
            "Sales were $200 million in 2022.",
        ),
        (
            "The segment could lose its largest customer next year.",
            "The segment may lose its largest customer.",
            "The segment lost its largest customer.",
        ),
        (
            "We plan to close the plant in Ohio by May 2022.",
            "Acme intends to close the plant in Ohio by May 2022.",
            "Acme closed the plant in Ohio in May 2022.",
        ),
        (
            "The complaint alleges that Acme misled investors about its inventories.",
            "It is alleged that Acme misled investors about its inventories.",
            "Acme misled investors about its inventories.",
        ),
        (
            "Excluding acquisitions, sales of the segment rose 5% in 2022.",
            "Sales of the segment rose 5% in 2022, excluding acquisitions.",
            "Sales of the segment rose 5% in 2022.",
        ),
        (
            "Acme sold the anvil business of Beta to its founders.",
            "Acme sold the anvil business of Beta.",
            "Acme acquired the anvil business of Beta.",
        ),
        (
            "Internal control over financial reporting was ineffective.",
            "Internal control over financial reporting was ineffective.",
            "Internal control over financial reporting was effective.",
        ),
    ] {
        let document = Document::new(text);
        assert!(document.supports(right, text), "{right} / {text}");
        assert!(!document.supports(wrong, text), "{wrong} / {text}");
    }
    // What another clause denies.
    let turned = Document::new("The plant opened on May 31, 2022, although the permit was denied.");
    assert!(turned.supports(
        "The plant opened on May 31, 2022.",
        "The plant opened on May 31, 2022"
    ));
    // A quote that leaves out the denial.
    let cut =
        Document::new("The company failed to comply with the covenants of its credit agreement.");
    assert!(!cut.supports(
        "The company complied with the covenants of its credit agreement.",
        "comply with the covenants of its credit agreement"
    ));
    for (text, wrong) in [
        (
            "The court dismissed the suit of the former employees.",
            "The court did not dismiss the suit of the former employees.",
        ),
        (
            "Acme did not cancel the merger agreement with Beta.",
            "Acme cancelled the merger agreement with Beta.",
        ),
        (
            "We eliminated our quarterly dividend on our common stock.",
            "Acme pays a quarterly dividend on its common stock.",
        ),
    ] {
        assert!(!Document::new(text).supports(wrong, text), "{wrong}");
    }
    // Two denials are none.
    let paid = Document::new("Acme did not fail to pay the interest on its notes.");
    assert!(!paid.supports(
        "Acme failed to pay the interest on its notes.",
        "Acme did not fail to pay the interest on its notes."
    ));
}

#[test]
fn a_figure_of_a_sentence_belongs_to_its_clause() {
    for (text, right, wrong) in [
        (
            "Sales rose 5% because of higher prices; costs fell 3%.",
            vec!["Sales rose 5%.", "Costs fell 3%."],
            vec!["Costs fell 5%.", "Sales rose 3%.", "Expenses rose 5%."],
        ),
        (
            "Segment Alpha had sales of $7 million and Segment Beta had sales of $9 million.",
            vec![
                "Segment Alpha had sales of $7 million.",
                "Sales of Segment Beta were $9 million.",
            ],
            vec![
                "Segment Alpha had sales of $9 million.",
                "Segment Beta had sales of $7 million.",
            ],
        ),
        (
            "Acme had 31 stores and 400 employees.",
            vec!["Acme had 31 stores.", "Acme had 400 employees."],
            vec!["Acme had 400 stores.", "Acme had 31 employees."],
        ),
        (
            "Sales were $5 million in the United States and $4 million in Europe.",
            vec![
                "Sales in the United States were $5 million.",
                "Sales in Europe were $4 million.",
            ],
            vec![
                "Sales in Europe were $5 million.",
                "Sales in the United States were $4 million.",
            ],
        ),
        (
            "Sales of anvils were $5 million and of springs $4 million.",
            vec![
                "Sales of anvils were $5 million.",
                "Sales of springs were $4 million.",
            ],
            vec![
                "Sales of springs were $5 million.",
                "Sales of anvils were $4 million.",
            ],
        ),
        (
            "Sales were $7 million in 2022, compared with $4 million in 2021.",
            vec![
                "Sales were $7 million in 2022.",
                "Sales were $4 million in 2021.",
            ],
            vec!["Sales were $4 million in 2022."],
        ),
        (
            "Sales increased by $7 million to $90 million in 2022.",
            vec![
                "Sales increased by $7 million in 2022.",
                "Sales rose to $90 million in 2022.",
                "Sales were $90 million in 2022.",
            ],
            vec![
                "Sales were $7 million in 2022.",
                "Sales increased by $90 million in 2022.",
            ],
        ),
        (
            "Net sales and operating income were $90 million and $12 million, respectively.",
            vec![
                "Net sales were $90 million.",
                "Operating income was $12 million.",
            ],
            vec![
                "Costs were $12 million.",
                "Operating income was $90 million.",
                "Net sales were $12 million.",
            ],
        ),
        (
            "Sales were $5 million and $4 million in Europe and Asia, respectively.",
            vec![],
            vec![
                "Sales in Asia were $5 million.",
                "Sales in Europe were $4 million.",
            ],
        ),
        (
            "Sales were $5 billion, while costs fell sharply.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Costs fell sharply while sales were $5 billion.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "While costs fell sharply, sales were $5 billion.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Although sales were $5 billion, costs fell sharply.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Sales were $5 billion and costs fell sharply.",
            vec!["Sales were $5 billion."],
            vec!["Costs were $5 billion."],
        ),
        (
            "Sales were strong but fell 5% in 2022.",
            vec!["Sales fell 5% in 2022."],
            vec!["Costs fell 5% in 2022."],
        ),
        (
            "Sales were $5 million though costs of $4 million were high.",
            vec!["Sales were $5 million.", "Costs were $4 million."],
            vec!["Costs were $5 million.", "Sales were $4 million."],
        ),
        (
            "Acme had 31 stores in Europe and 31 million customers in Asia.",
            vec!["Acme had 31 stores in Europe."],
            vec!["Acme had 31 stores in Asia."],
        ),
    ] {
        let document = Document::new(text);
        for statement in right {
            assert!(document.supports(statement, text), "{statement} / {text}");
        }
        for statement in wrong {
            assert!(!document.supports(statement, text), "{statement} / {text}");
        }
    }
    // Operands are of their clauses, too.
    let text = "Acme had sales of $50 million in 2022 and costs of $40 million in 2022.";
    let document = Document::new(text);
    let computes = |sales: &str, costs: &str| {
        let operand = |name: &str, citation: i64, value: &str, row: &str| DraftOperand {
            name: name.into(),
            citation,
            value: value.into(),
            row: row.into(),
            period: "2022".into(),
        };
        let computation = DraftComputation {
            formula: "a / b".into(),
            operands: vec![operand("a", 1, "40", costs), operand("b", 2, "50", sales)],
            result: "80%".into(),
        };
        let statement = "Costs were 80% of sales in 2022.";
        document.check(statement, &[text, text], Some(computation))
    };
    assert!(computes("sales", "costs"));
    assert!(!computes("costs", "sales"));
}

#[test]
fn a_line_without_an_end_is_not_read() {
    let list: Vec<String> = (1..20_000).map(|number| number.to_string()).collect();
    let unspaced = "a".repeat(200_000);
    for (text, statement, quote) in [
        (
            format!("Acme had stores: {}.", list.join(", ")),
            "Acme had 2000 stores.",
            "1998, 1999, 2000, 2001",
        ),
        (
            format!("Acme had 3,000 stores {unspaced} in all of Europe."),
            "Acme had 3,000 stores.",
            "Acme had 3,000 stores",
        ),
        (
            format!("Acme had 3,000 stores {}", ". ".repeat(100_000)),
            "Acme had 4,000 stores.",
            "Acme had 3,000 stores",
        ),
    ] {
        let document = Document::new(&text);
        let begin = std::time::Instant::now();
        assert!(!document.supports(statement, quote), "{statement}");
        let seconds = begin.elapsed().as_secs();
        // Work that grows with the square takes minutes.
        assert!(seconds < 10, "{statement}: {seconds} s");
    }
}

#[test]
fn words_of_a_period_and_of_a_source_are_no_words_of_a_row() {
    let table = Document::new(
        "Changes of reserves
(In millions of dollars)
| Three months ended June 30, | 2022 | 2021 |
| Additions | 847 | 1,333 |
| Cash per consolidated balance sheets | 410 | 380 |
| Earnings per ton | 12 | 11 |",
    );
    let line = |label: &str| table.lines.iter().find(|line| line.contains(label));
    for (statement, label, is_right) in [
        (
            "Additions were $847 million in the three months ended June 30, 2022.",
            "Additions",
            true,
        ),
        (
            "Additions were $847 million in the six months ended June 30, 2022.",
            "Additions",
            false,
        ),
        (
            "Cash per consolidated balance sheets was $410 million in the three months ended June 30, 2022.",
            "Cash",
            true,
        ),
        (
            "Earnings per ton were $12 million in the three months ended June 30, 2022.",
            "Earnings",
            false,
        ),
        (
            "Earnings per ton were $12 in the three months ended June 30, 2022.",
            "Earnings",
            true,
        ),
    ] {
        let quote = line(label).map_or("", String::as_str);
        assert_eq!(table.supports(statement, quote), is_right, "{statement}");
    }
}

#[test]
fn leaders_between_a_label_and_its_figures_are_read_over() {
    let dots = ".".repeat(60);
    let table = Document::new(&format!(
        "Statement of income\n($ million)\n2022 2021\nNet sales {dots} 1,749 . . . 1,603\nCost of sales {dots} 900 (b) 800"
    ));
    let sales = table.lines[3].clone();
    let cost = table.lines[4].clone();
    for (statement, quote, is_right) in [
        ("Net sales were $1,749 million in 2022.", &sales, true),
        ("Net sales were $1,603 million in 2021.", &sales, true),
        ("Net sales were $1,749 million in 2021.", &sales, false),
        ("Net sales were $1,749 in 2022.", &sales, false),
        ("Cost of sales was $900 million in 2022.", &cost, true),
        ("Net sales were $900 million in 2022.", &cost, false),
    ] {
        assert_eq!(table.supports(statement, quote), is_right, "{statement}");
    }
}
