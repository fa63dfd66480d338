//! Claims over sentences, and what statements say outside of their figures.

use stemma_filings::monospaced_page;

use super::tables::with_figures;
use super::{Document, citation, copied};
use crate::{ClaimState, StatedClaim, print_figures};

fn document(text: &str) -> Document {
    Document::new(vec![monospaced_page(text)])
}

// A claim with one figure of a sentence.
fn claim(statement: &str, quote: &str, value: &str, column: &str) -> StatedClaim {
    StatedClaim {
        statement: statement.into(),
        citations: vec![citation(quote)],
        figures: vec![copied("a", 1, [value, "", "", column])],
        pictures: Vec::new(),
    }
}

#[test]
fn a_sentence_gives_the_whole_period_of_its_figure() {
    let text = document(
        "Total revenue was $5 million in 2021. Costs were lower.
Sales in the first quarter of 2022 were $33 million.
The backlog of the segment stood at $9 million.
The pension liability came to $77 million at the end of
2021. It was paid in 2022.",
    );
    let year = "Total revenue was $5 million in 2021.";
    let quarter = "Sales in the first quarter of 2022 were $33 million.";
    let pension = "The pension liability came to $77 million";
    let backlog = "The backlog of the segment stood at $9 million.";
    for (statement, quote, value, is_right) in [
        ("Total revenue was {a} in 2021.", year, "$5 million", true),
        ("Total revenue was {a} in {a.period}.", year, "5", true),
        ("Total revenue was {a} in 2022.", year, "$5 million", false),
        (
            "Total revenue was {a} in 2022.",
            "Total revenue was $5 million",
            "5",
            false,
        ),
        ("Total revenue was {a} in 2021.", year, "$6 million", false),
        ("Total revenue was {a} in 2021.", year, "$5 billion", false),
        ("Total revenue was {a} in 2021.", year, "€5 million", false),
        ("Total revenue was {a} in 2021.", year, "-5", false),
        (
            "Sales in {a.period} were {a}.",
            quarter,
            "$33 million",
            true,
        ),
        ("Sales were {a} in Q1 2022.", quarter, "$33 million", true),
        (
            "Sales were {a} in the second quarter of 2022.",
            quarter,
            "$33 million",
            false,
        ),
        ("Sales were {a} in 2022.", quarter, "$33 million", false),
        (
            "The pension liability came to {a} in 2021.",
            pension,
            "$77 million",
            true,
        ),
        (
            "The pension liability came to {a} in 2022.",
            pension,
            "$77 million",
            false,
        ),
        (
            "The backlog of the segment stood at {a}.",
            backlog,
            "$9 million",
            true,
        ),
        (
            "The backlog of the segment stood at {a} in 2022.",
            backlog,
            "$9 million",
            true,
        ),
        (
            "The backlog of the segment stood at {a} in 2024.",
            backlog,
            "$9 million",
            false,
        ),
        (
            "The backlog was {a} in {a.period}.",
            backlog,
            "$9 million",
            false,
        ),
        // Another figure of the page.
        (
            "The backlog of the segment stood at {a}.",
            backlog,
            "$77 million",
            false,
        ),
    ] {
        let claim = claim(statement, quote, value, "");
        assert_eq!(text.shows(&claim), is_right, "{claim:?}");
    }
    let dated = claim("Total revenue was {a}.", year, "5", "2021");
    assert!(text.shows(&dated));
    let dated = claim("Total revenue was {a}.", year, "5", "2022");
    assert!(!text.shows(&dated));
}

#[test]
fn a_figure_of_a_sentence_belongs_to_its_clause() {
    for (sentence, right, wrong) in [
        (
            "Sales rose 5% because of higher prices; costs fell 3%.",
            vec![("Sales rose {a}.", "5%"), ("Costs fell {a}.", "3%")],
            vec![
                ("Costs fell {a}.", "5%"),
                ("Sales rose {a}.", "3%"),
                ("Expenses rose {a}.", "5%"),
            ],
        ),
        (
            "Segment Alpha had sales of $7 million and Segment Beta had sales of $9 million.",
            vec![
                ("Segment Alpha had sales of {a}.", "7"),
                ("Sales of Segment Beta were {a}.", "9"),
            ],
            vec![
                ("Segment Alpha had sales of {a}.", "9"),
                ("Segment Beta had sales of {a}.", "7"),
            ],
        ),
        (
            "Acme had 31 stores and 400 employees.",
            vec![
                ("Acme had {a} stores.", "31"),
                ("Acme had {a} employees.", "400"),
            ],
            vec![
                ("Acme had {a} stores.", "400"),
                ("Acme had {a} employees.", "31"),
            ],
        ),
        (
            "Sales were $5 million in the United States and $4 million in Europe.",
            vec![
                ("Sales in the United States were {a}.", "5"),
                ("Sales in Europe were {a}.", "4"),
            ],
            vec![
                ("Sales in Europe were {a}.", "5"),
                ("Sales in the United States were {a}.", "4"),
            ],
        ),
        (
            "Sales were $7 million in 2022, compared with $4 million in 2021.",
            vec![
                ("Sales were {a} in 2022.", "7"),
                ("Sales were {a} in {a.period}.", "4"),
            ],
            vec![
                ("Sales were {a} in 2022.", "4"),
                ("Sales were {a} in 2021.", "7"),
            ],
        ),
        (
            "Sales were $5 million and costs in Asia were $5 million.",
            vec![],
            vec![("Sales were {a}.", "5")],
        ),
    ] {
        let text = document(sentence);
        for (statement, value) in right {
            let claim = claim(statement, sentence, value, "");
            assert!(text.shows(&claim), "{statement} / {sentence}");
        }
        for (statement, value) in wrong {
            let claim = claim(statement, sentence, value, "");
            assert!(!text.shows(&claim), "{statement} / {sentence}");
        }
    }
}

#[test]
fn a_row_of_a_table_that_was_not_read_is_no_sentence() {
    let row = "Net sales 1,749 1,603";
    let mut text = document(&format!("Some words about the year.\n{row}"));
    text.reading.tables.clear();
    for value in ["1,749", "1,603"] {
        for statement in ["Net sales were {a}.", "Net sales were {a} in 2022."] {
            assert!(!text.shows(&claim(statement, row, value, "")));
        }
    }
}

#[test]
fn what_a_statement_says_besides_is_on_the_page() {
    let text = document(
        "Note 5. Under Item 7 of Form 10-K, 3M had 31 stores in three states on December 31, 2022.
The agreement of May 2021 with Beta ends after COVID-19.",
    );
    let quote = "3M had 31 stores in three states on December 31, 2022.";
    for (statement, is_right) in [
        ("3M had {a} stores.", true),
        (
            "According to Note 5, 3M had {a} stores in three states.",
            true,
        ),
        ("3M had {a} stores on December 31, 2022.", true),
        ("Item 7 of the 10-K says that 3M had {a} stores.", true),
        ("Item 8 says that 3M had {a} stores.", true),
        ("Item 9 says that 3M had {a} stores.", false),
        ("3M had {a} stores in four states.", false),
        ("3M had 31 stores, and {a}.", false),
        ("3M had {a} stores, which is 12% more.", false),
        ("3M had {a} stores in 2021.", false),
        ("4M had {a} stores.", false),
        ("Zenith Corporation had {a} stores.", false),
        ("Beta's partner had {a} stores.", true),
        ("Gamma's partner had {a} stores.", false),
        ("3M had {a} and {b} stores.", false),
        ("3M had {a stores.", false),
    ] {
        let claim = claim(statement, quote, "31", "");
        assert_eq!(text.shows(&claim), is_right, "{statement}");
    }
}

#[test]
fn a_claim_without_figures_is_quoted() {
    let text =
        document("The agreement of May 2021 with Beta was terminated by the board of directors.");
    let claim = |statement: &str, quote: &str| StatedClaim {
        statement: statement.into(),
        citations: vec![citation(quote)],
        ..StatedClaim::default()
    };
    let quote = "The agreement of May 2021 with Beta was terminated";
    for (claim, state) in [
        (
            claim("The board ended the agreement of 2021.", quote),
            ClaimState::Quoted,
        ),
        (
            claim("The board ended the agreement of 2020.", quote),
            ClaimState::Unverified,
        ),
        (
            claim("The board ended 5 agreements.", quote),
            ClaimState::Unverified,
        ),
        (
            claim(
                "The board ended the agreement.",
                "The agreement with Beta was terminated",
            ),
            ClaimState::Unverified,
        ),
        (
            StatedClaim {
                citations: Vec::new(),
                ..claim("The board ended the agreement.", quote)
            },
            ClaimState::Unverified,
        ),
    ] {
        let verified = text.verify(&claim);
        assert_eq!(verified.state, state, "{verified:?}");
    }
}

#[test]
fn figures_of_earlier_claims_are_known() {
    let text = document(
        "Sales were $8 million in 2022.
Costs were $6 million in 2022.",
    );
    let sales = text.verify(&claim(
        "Sales were {a}.",
        "Sales were $8 million in 2022.",
        "8",
        "",
    ));
    let costs = StatedClaim {
        statement: "Costs were {b} in {b.period}, {m} of sales.".into(),
        citations: vec![citation("Costs were $6 million in 2022.")],
        figures: vec![
            copied("b", 1, ["6", "", "", ""]),
            super::computed("m", "75", "%", "b / a"),
        ],
        pictures: Vec::new(),
    };
    assert_eq!(text.verify(&costs).state, ClaimState::Unverified);
    let verified = text.verify_with(&costs, &sales.figures);
    assert_eq!(verified.state, ClaimState::Computed, "{verified:?}");
    assert_eq!(
        verified.text,
        "Costs were $6 million in 2022, 75% of sales."
    );
    let figures = [sales.figures, verified.figures].concat();
    assert_eq!(verified.earlier, ["a"]);
    assert_eq!(
        print_figures("{m} of {a}", &figures).text,
        "75% of $8 million"
    );
    // A figure that was not found is no input.
    let wrong = text.verify(&claim(
        "Sales were {a}.",
        "Sales were $8 million in 2022.",
        "9",
        "",
    ));
    assert_eq!(wrong.figures.len(), 1);
    let costs = text.verify_with(&costs, &wrong.figures);
    assert_eq!(costs.state, ClaimState::Unverified);
}

#[test]
fn a_statement_may_repeat_the_numbers_of_a_label() {
    let table = document(
        "\
                   Balance sheets
                  (In millions of dollars)
                                               2022        2021
Receivables, net of allowances of $14           410         380
Inventories, net of reserves of $9              205         190",
    );
    for (statement, is_right) in [
        (
            "Receivables, net of allowances of $14 were {a} in 2022.",
            true,
        ),
        (
            "Receivables, net of allowances of $9 were {a} in 2022.",
            false,
        ),
        (
            "Receivables, of which $14 are lost, were {a} in 2022.",
            false,
        ),
    ] {
        let label = "Receivables, net of allowances of $14";
        let figures = vec![copied("a", 1, ["410", "million", label, "2022"])];
        let claim = with_figures(&table, statement, label, figures);
        assert_eq!(table.shows(&claim), is_right, "{statement}");
    }
}
