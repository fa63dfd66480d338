//! Claims with another sign, currency, scale or cell than their source.

use super::document::Document;

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

#[test]
fn the_words_of_a_label_say_which_row_is_meant_and_nothing_else() {
    let table = Document::new(
        "Statement of income
(In millions of dollars)
2022 2021
Income before losses of affiliates (500) 210
Changes in lower-rated securities (70) 65
Gain from reduction of staff (33) 31
Due to affiliates 800 900
Amounts not yet recognized 40 30
Amounts recognized 90 80
Cash shortfall (12) (11)
Loss before benefit for income taxes (55) (50)",
    );
    let figure = |label: &str| {
        let line = table.lines.iter().find(|line| line.starts_with(label));
        line.map_or("", |line| &line[label.len() + 1..])
    };
    for (statement, label, is_right) in [
        (
            "Income before losses of affiliates was $500 million in 2022.",
            "Income before losses of affiliates",
            false,
        ),
        (
            "Income before losses of affiliates was -$500 million in 2022.",
            "Income before losses of affiliates",
            true,
        ),
        (
            "Changes in lower-rated securities were $70 million in 2022.",
            "Changes in lower-rated securities",
            false,
        ),
        (
            "Gain from reduction of staff was $33 million in 2022.",
            "Gain from reduction of staff",
            false,
        ),
        (
            "Due to affiliates was $800 million in 2022.",
            "Due to affiliates",
            true,
        ),
        (
            "Sales were $800 million in 2022 due to affiliates.",
            "Due to affiliates",
            false,
        ),
        (
            "Amounts not yet recognized were $40 million in 2022.",
            "Amounts not yet recognized",
            true,
        ),
        (
            "Amounts recognized were $40 million in 2022.",
            "Amounts not yet recognized",
            false,
        ),
        (
            "Amounts not recognized were $90 million in 2022.",
            "Amounts recognized",
            false,
        ),
        (
            "The cash shortfall was $12 million in 2022.",
            "Cash shortfall",
            true,
        ),
        (
            "Loss before benefit for income taxes was $55 million in 2022.",
            "Loss before benefit for income taxes",
            true,
        ),
    ] {
        let line = format!("{label} {}", figure(label));
        for quote in [figure(label), &line] {
            let is_shown = table.supports(statement, quote);
            assert_eq!(is_shown, is_right, "{statement} / {quote}");
        }
    }
}
