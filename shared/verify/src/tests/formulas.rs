//! Formulas over figures of one table: their results, and their units.

use super::tables::{document, with_figures};
use super::{computed, copied};
use crate::{ClaimState, StatedFigure};

#[test]
fn formulas_over_unlike_figures_are_refused() {
    let table = document(&["\
        (In millions, except per share data)
                                2022      2021
Net sales                    $ 1,000   $ 1,603
Net income                        50       160
Gross margin                   45.2%     44.0%
Diluted earnings per share    $ 1.25    $ 1.12
Weighted average shares           40        41"]);
    let inputs = [
        ("sales", "1,000", "Net sales", "2022"),
        ("before", "1,603", "Net sales", "2021"),
        ("income", "50", "Net income", "2022"),
        ("margin", "45.2%", "Gross margin", "2022"),
        ("margin_before", "44.0%", "Gross margin", "2021"),
        ("eps", "1.25", "Diluted earnings per share", "2022"),
        ("shares", "40", "Weighted average shares", "2022"),
    ];
    for (formula, value, unit, shown) in [
        ("income / sales", "5.0", "%", Some("5.0%")),
        ("income / sales", "0.05", "", Some("0.05")),
        ("income / sales", "5.0", "$", None),
        ("income / shares", "1.25", "$", Some("$1.25")),
        ("eps * shares", "50", "$ million", Some("$50 million")),
        ("sales - income", "950", "$ million", Some("$950 million")),
        ("sales - income", "0.95", "$ billion", Some("$0.95 billion")),
        ("sales - income", "950", "$", Some("$950 million")),
        ("sales - income", "950", "%", None),
        (
            "margin - margin_before",
            "1.2",
            "percentage points",
            Some("1.2 percentage points"),
        ),
        ("sales * margin", "452", "$ million", Some("$452 million")),
        ("sales / income * 365", "7300", "days", Some("7300 days")),
        ("(sales - before) / before", "-37.6", "%", Some("-37.6%")),
        ("sales + eps", "1,000", "$ million", None),
        ("sales + shares", "1,040", "million", None),
        ("sales * income", "50,000", "", None),
        ("sales + 7", "1,000", "$ million", None),
        ("950 + 0 * sales", "950", "$ million", None),
        ("1 / 1", "1", "", None),
        ("unknown / sales", "1", "", None),
        ("m / sales", "1", "", None),
    ] {
        let mut figures: Vec<StatedFigure> = inputs
            .iter()
            .map(|(name, value, row, column)| copied(name, 1, [value, "", row, column]))
            .collect();
        figures.push(computed("m", value, unit, formula));
        let claim = with_figures(&table, "It was {m}.", "Net sales", figures);
        let verified = table.verify(&claim);
        let expected = shown.map_or(ClaimState::Unverified, |_| ClaimState::Computed);
        assert_eq!(
            verified.state, expected,
            "{formula} {value} {unit}: {verified:?}"
        );
        if let Some(shown) = shown {
            assert_eq!(verified.text, format!("It was {shown}."), "{formula}");
        }
    }
}

#[test]
fn a_share_divides_the_part_also_where_its_label_is_in_the_label_of_the_whole() {
    let table = document(&["\
                   Balance sheets
                  (In millions of dollars)
                                               2022        2021
Total equity                                    400         380
Total liabilities and equity                    500         490"]);
    let part = "Total equity";
    let whole = "Total liabilities and equity";
    for (formula, value, is_right) in [
        ("part / whole", "80", true),
        ("whole / part", "125", false),
        ("(part - whole) / whole", "-20", false),
    ] {
        let figures = vec![
            copied("part", 1, ["400", "million", part, "2022"]),
            copied("whole", 1, ["500", "million", whole, "2022"]),
            computed("m", value, "%", formula),
        ];
        let statement = format!("{part} as a percentage of {whole} was {{m}} in 2022.");
        let claim = with_figures(&table, &statement, part, figures);
        assert_eq!(table.shows(&claim), is_right, "{formula}");
    }
}
