//! Claims about another period than their source.

use super::document::Document;

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
fn a_year_that_ends_in_january_has_the_name_that_its_document_gives_it() {
    const TEXT: &str = "Statements of income
(In millions of dollars)
| | January 28, 2023 | January 29, 2022 |
| Net sales | 1,749 | 1,603 |
| Cost of sales | 900 | 800 |
Inventories were $77 million as of January 28, 2023 at all stores.";
    let sales = "| Net sales | 1,749 | 1,603 |";
    let inventories = "Inventories were $77 million as of January 28, 2023";
    // The filer calls it fiscal 2022, or fiscal 2023.
    let early = Document::new(TEXT).with_early_years();
    let late = Document::new(TEXT);
    for (statement, quote, in_early, in_late) in [
        (
            "Net sales were $1,749 million in fiscal 2022.",
            sales,
            true,
            false,
        ),
        (
            "Net sales were $1,603 million in fiscal 2022.",
            sales,
            false,
            true,
        ),
        (
            "Net sales were $1,749 million in fiscal 2023.",
            sales,
            false,
            true,
        ),
        (
            "Net sales were $1,749 million in the year ended January 28, 2023.",
            sales,
            true,
            true,
        ),
        (
            "Net sales were $1,603 million in the year ended January 28, 2023.",
            sales,
            false,
            false,
        ),
        (
            "Inventories were $77 million as of January 28, 2023.",
            inventories,
            true,
            true,
        ),
        (
            "Inventories were $77 million in 2021.",
            inventories,
            false,
            false,
        ),
    ] {
        assert_eq!(early.supports(statement, quote), in_early, "{statement}");
        assert_eq!(late.supports(statement, quote), in_late, "{statement}");
    }
    let operands = [
        ["1,749", "Net sales", "fiscal 2022"],
        ["900", "Cost of sales", "fiscal 2022"],
    ];
    let statement = "The gross margin was 48.5% in fiscal 2022.";
    assert!(early.computes(statement, "(a - b) / a", &operands, "48.5%"));
    assert!(!late.computes(statement, "(a - b) / a", &operands, "48.5%"));
}
