//! Claims over tables whose rows or columns are easily taken for each other.

use stemma_filings::monospaced_page;

use super::{Document, citation, computed, copied};
use crate::{StatedClaim, StatedFigure};

pub(super) fn document(pages: &[&str]) -> Document {
    Document::new(pages.iter().map(|page| monospaced_page(page)).collect())
}

// The line of a document that begins with a text.
fn line(document: &Document, start: &str) -> String {
    let mut lines = document.pages.iter().flat_map(|page| &page.lines);
    let found = lines.find(|line| line.text.starts_with(start));
    found.map_or_else(|| panic!("{start}"), |line| line.text.clone())
}

// A claim with one copied figure, which quotes the line that begins with `quote`.
pub(super) fn claim(
    document: &Document,
    statement: &str,
    quote: &str,
    figure: [&str; 4],
) -> StatedClaim {
    StatedClaim {
        statement: statement.into(),
        citations: vec![citation(&line(document, quote))],
        figures: vec![copied("a", 1, figure)],
        pictures: Vec::new(),
    }
}

pub(super) fn with_figures(
    document: &Document,
    statement: &str,
    quote: &str,
    figures: Vec<StatedFigure>,
) -> StatedClaim {
    StatedClaim {
        statement: statement.into(),
        citations: vec![citation(&line(document, quote))],
        figures,
        pictures: Vec::new(),
    }
}

const QUARTERS: &str = "\
                   Statements of income
                  (In millions of dollars)
                       Three Months Ended              Year Ended
                          December 31,                December 31,
                         2022        2021           2022        2021
Revenue                   410         380          1,600       1,500
Cost of sales             205         190          1,000         900";

#[test]
fn a_quarter_is_not_a_year() {
    let table = document(&[QUARTERS]);
    for (statement, value, column, is_right) in [
        (
            "Revenue was {a} in {a.period}.",
            "1,600",
            "Year Ended December 31, 2022",
            true,
        ),
        ("Revenue was {a} in 2022.", "1,600", "2022", true),
        (
            "Revenue was {a} in {a.period}.",
            "410",
            "Three Months Ended December 31, 2022",
            true,
        ),
        (
            "Revenue was {a} in the fourth quarter of 2022.",
            "410",
            "Three Months Ended December 31, 2022",
            true,
        ),
        (
            "Revenue was {a} in 2022.",
            "410",
            "Three Months Ended December 31, 2022",
            false,
        ),
        ("Revenue was {a} in 2022.", "410", "2022", false),
        (
            "Revenue was {a} in {a.period}.",
            "410",
            "Year Ended December 31, 2022",
            false,
        ),
        (
            "Revenue was {a} in the fourth quarter of 2022.",
            "1,600",
            "Year Ended December 31, 2022",
            false,
        ),
        ("Revenue was {a} in the year 2022.", "410", "", false),
    ] {
        let claim = claim(
            &table,
            statement,
            "Revenue",
            [value, "$ million", "Revenue", column],
        );
        assert_eq!(
            table.shows(&claim),
            is_right,
            "{claim:?}\n{}",
            table.reading.tables[0].to_text()
        );
    }
}

#[test]
fn a_quarter_in_the_corner_of_a_table_is_that_of_its_columns() {
    let table = document(&["\
                        Statements of income
                      (In millions of dollars)

Three months ended June 30,           2022        2021
Net sales                              410         380
Cost of sales                          205         190"]);
    for (statement, is_right) in [
        ("Net sales were {a} in fiscal year 2022.", false),
        ("Net sales were {a} in 2022.", false),
        (
            "Net sales were {a} in the three months ended June 30, 2022.",
            true,
        ),
        ("Net sales were {a} in {a.period}.", true),
    ] {
        let claim = claim(
            &table,
            statement,
            "Net sales",
            ["410", "$ million", "Net sales", "2022"],
        );
        assert_eq!(
            table.shows(&claim),
            is_right,
            "{statement}\n{}",
            table.reading.tables[0].to_text()
        );
    }
}

const BLOCKS: &str = "\
              (In millions, except per share data)
                                              2022        2021
Net sales                                 $ 20,000    $ 19,000
Net income                                   $ 815       $ 951
Basic earnings per share:
Net income                                 $ 0.532     $ 0.604
Assets:
Domestic                                  $ 14,549    $ 16,016
International                                1,254       1,488
Total assets                              $ 15,803    $ 17,504
Capital expenditures:
Domestic                                     $ 891       $ 691
International                                   39          46
Total capital expenditures                   $ 930       $ 737
Current portion of long-term debt             $ 13        $ 14
Short-term debt                                 80         136";

#[test]
fn rows_with_one_label_are_told_apart_by_quotes_and_groups() {
    let table = document(&[BLOCKS]);
    for (statement, quote, value, row, is_right) in [
        (
            "Net income was {a} in 2022.",
            "Net income $ 815",
            "815",
            "Net income",
            true,
        ),
        (
            "Net income was {a} in 2022.",
            "Net sales",
            "815",
            "Net income",
            true,
        ),
        (
            "Short-term debt was {a} in 2022.",
            "Short-term debt",
            "80",
            "Short-term debt",
            true,
        ),
        (
            "Short-term debt was {a} in 2022.",
            "Current portion",
            "13",
            "Current portion of long-term debt",
            false,
        ),
        (
            "International assets were {a}.",
            "International 1,254",
            "1,254",
            "International",
            true,
        ),
        (
            "International assets were {a}.",
            "International 39",
            "39",
            "International",
            false,
        ),
        (
            "International capital expenditures were {a}.",
            "International 39",
            "39",
            "International",
            true,
        ),
        (
            "International capital expenditures were {a}.",
            "International 1,254",
            "1,254",
            "International",
            false,
        ),
        // Neither the quote nor the row says which of both rows is meant.
        (
            "International was {a}.",
            "Net sales",
            "1,254",
            "International",
            false,
        ),
    ] {
        let claim = claim(&table, statement, quote, [value, "", row, "2022"]);
        assert_eq!(
            table.shows(&claim),
            is_right,
            "{claim:?}\n{}",
            table.reading.tables[0].to_text()
        );
    }
    let per_share = claim(
        &table,
        "Net income was {a}.",
        "Net income $ 0.532",
        ["0.532", "$ million", "Net income", "2022"],
    );
    assert!(!table.shows(&per_share));
    let per_share = claim(
        &table,
        "Basic earnings per share were {a}.",
        "Net income $ 0.532",
        ["0.532", "$", "Net income", "2022"],
    );
    assert_eq!(
        table.verify(&per_share).text,
        "Basic earnings per share were $0.532."
    );
}

#[test]
fn swapped_figures_are_not_shown() {
    let table = document(&[BLOCKS]);
    let quote = format!(
        "{} … {}",
        line(&table, "Net sales"),
        line(&table, "Net income")
    );
    let sales = ["20,000", "$ million", "Net sales", "2022"];
    let income = ["815", "$ million", "Net income", "2022"];
    for (statement, is_right) in [
        ("Net sales were {a} and net income was {b}.", true),
        ("Net income was {a} and net sales were {b}.", false),
        ("Net sales and net income were {a} and {b} in 2022.", true),
        ("Net income and net sales were {a} and {b} in 2022.", false),
    ] {
        let claim = StatedClaim {
            statement: statement.into(),
            citations: vec![citation(&quote)],
            figures: vec![copied("a", 1, sales), copied("b", 1, income)],
            pictures: Vec::new(),
        };
        assert_eq!(table.shows(&claim), is_right, "{statement}");
    }
    let years = |first: &str, second: &str| StatedClaim {
        statement: format!("Net sales were {{a}} in {first}, and {{b}} in {second}."),
        citations: vec![citation(&quote)],
        figures: vec![
            copied("a", 1, sales),
            copied("b", 1, ["19,000", "", "Net sales", "2021"]),
        ],
        pictures: Vec::new(),
    };
    assert!(table.shows(&years("2022", "2021")));
    assert!(table.shows(&years("{a.period}", "{b.period}")));
    assert!(!table.shows(&years("2021", "2022")));
    assert!(!table.shows(&years("{b.period}", "{a.period}")));
}

#[test]
fn similar_labels_are_told_apart() {
    let table = document(&["\
                   Balance sheets
               (In millions of dollars)
                                                            2022      2021
Net income                                                 5,100     5,200
Net income attributable to noncontrolling interests          140       210
Due from affiliates                                          610       650
Due to affiliates                                            810       850
Total assets of segments                                  41,000    42,000
Total assets                                              61,000    62,000
Amounts not yet recognized                                    40        30
Amounts recognized                                            90        80"]);
    for (subject, value, row, is_right) in [
        ("Net income", "5,100", "Net income", true),
        (
            "Net income attributable to noncontrolling interests",
            "5,100",
            "Net income",
            false,
        ),
        (
            "Net income",
            "140",
            "Net income attributable to noncontrolling interests",
            false,
        ),
        ("Due to affiliates", "810", "Due to affiliates", true),
        ("Due to affiliates", "610", "Due from affiliates", false),
        ("Total assets", "41,000", "Total assets of segments", false),
        ("Total assets of segments", "61,000", "Total assets", false),
        (
            "Amounts recognized",
            "40",
            "Amounts not yet recognized",
            false,
        ),
        (
            "Amounts not yet recognized",
            "40",
            "Amounts not yet recognized",
            true,
        ),
        ("Net income", "5,100", "Net earnings", false),
    ] {
        let statement = format!("{subject} was {{a}} in {{a.period}}.");
        let claim = claim(
            &table,
            &statement,
            row.split(' ').next().unwrap_or_default(),
            [value, "$ million", row, "2022"],
        );
        assert_eq!(
            table.shows(&claim),
            is_right,
            "{statement} {row}\n{}",
            table.reading.tables[0].to_text()
        );
    }
}

#[test]
fn currencies_are_those_of_the_page() {
    let euros = document(&["\
          Statement of income
         (In millions of euros)
                      2022      2021
Net sales            1,749     1,603
Cost of sales          900       800"]);
    for (unit, is_right) in [
        ("€ million", true),
        ("million", true),
        ("", true),
        ("$ million", false),
        ("£", false),
        ("€ thousand", false),
        ("%", false),
    ] {
        let claim = claim(
            &euros,
            "Net sales were {a} in 2022.",
            "Net sales",
            ["1,749", unit, "Net sales", "2022"],
        );
        assert_eq!(euros.shows(&claim), is_right, "{unit}");
        if is_right {
            assert_eq!(
                euros.verify(&claim).text,
                "Net sales were €1,749 million in 2022."
            );
        }
    }
    let profit = |unit: &str| {
        let figures = vec![
            copied("a", 1, ["1,749", "", "Net sales", "2022"]),
            copied("b", 1, ["900", "", "Cost of sales", "2022"]),
            computed("m", "849", unit, "a - b"),
        ];
        with_figures(
            &euros,
            "The gross profit was {m} in {m.period}.",
            "Net sales",
            figures,
        )
    };
    assert_eq!(
        euros.verify(&profit("")).text,
        "The gross profit was €849 million in 2022."
    );
    assert!(euros.shows(&profit("€ million")));
    for unit in ["$ million", "€ thousand", "%"] {
        assert!(!euros.shows(&profit(unit)), "{unit}");
    }
}

#[test]
fn statements_of_other_entities_with_the_same_labels_are_told_apart() {
    let parent = "\
      Consolidated balance sheets
        (In millions of dollars)
                      2022      2021
Total debt           1,749     1,603
Total equity           900       800



      Balance sheets of the parent company
        (In millions of dollars)
                      2022      2021
Total debt             320       310
Total equity           900       800";
    let both = document(&[parent]);
    assert_eq!(both.reading.tables.len(), 2);
    let quote = |quote: &str, value: &str| {
        claim(
            &both,
            "Total debt was {a} in 2022.",
            quote,
            [value, "", "Total debt", "2022"],
        )
    };
    assert!(both.shows(&quote("Total debt 1,749", "1,749")));
    assert!(!both.shows(&quote("Total debt 1,749", "320")));
    // The title is in neither table.
    assert!(!both.shows(&quote("Balance sheets of the parent", "1,749")));
}

#[test]
fn a_table_that_goes_on_has_the_heads_of_the_page_before() {
    let first = "\
      Consolidated balance sheets
        (In millions of dollars)
                      2022      2021
Cash                 1,749     1,603
Inventories            900       800";
    let second = "\
Accounts payable        70        60
Long-term debt         555       444";
    let table = document(&[first, second]);
    for (statement, value, column, is_right) in [
        ("Long-term debt was {a} in 2022.", "555", "2022", true),
        ("Long-term debt was {a} in {a.period}.", "444", "2021", true),
        ("Long-term debt was {a} in 2022.", "444", "2022", false),
        ("Long-term debt was {a} in 2022.", "70", "2022", false),
    ] {
        let mut claim = claim(
            &table,
            statement,
            "Long-term debt",
            [value, "$ million", "Long-term debt", column],
        );
        claim.citations[0].passage = 2;
        assert_eq!(table.shows(&claim), is_right, "{claim:?}");
    }
}

#[test]
fn figures_with_a_decimal_comma_are_verified_as_printed() {
    let document = document(&["\
                  Konzern-Gewinn- und Verlustrechnung
                        (in Mio. EUR)
                                        2024              2023
Umsatzerlöse                     1.234.567,8       1.198.004,2
Materialaufwand                   -812.345,6         (790.111)
Ergebnis je Aktie (EUR)                 3,45              2,98

Der Umsatz der Sparte stieg auf 1.234,5 Mio. EUR und ist nicht gesunken."]);
    for (value, row, expected) in [
        ("1.234.567,8", "Umsatzerlöse", true),
        ("1.198.004,2", "Umsatzerlöse", false),
        ("-812.345,6", "Materialaufwand", true),
        ("812.345,6", "Materialaufwand", false),
        ("3,45", "Ergebnis je Aktie (EUR)", true),
        ("3.45", "Ergebnis je Aktie (EUR)", true),
        ("345", "Ergebnis je Aktie (EUR)", false),
    ] {
        let statement = format!("{row}: {{a}}.");
        let claim = claim(&document, &statement, row, [value, "", row, "2024"]);
        assert_eq!(document.shows(&claim), expected, "{row} {value}");
    }
}

#[test]
fn a_quote_is_found_with_and_without_the_marks_of_notes() {
    let document = document(&["Costs rose to 8³ percent of revenue⁽ᵃ⁾ in 2024."]);
    for quote in [
        "Costs rose to 8 percent of revenue in 2024.",
        "Costs rose to 8³ percent of revenue⁽ᵃ⁾ in 2024.",
    ] {
        for (value, expected) in [("8", true), ("83", false)] {
            let claim = StatedClaim {
                statement: "Costs were {a} of revenue in 2024.".into(),
                citations: vec![citation(quote)],
                figures: vec![copied("a", 1, [value, "%", "", ""])],
                pictures: Vec::new(),
            };
            assert_eq!(document.shows(&claim), expected, "{quote}");
        }
    }
}
