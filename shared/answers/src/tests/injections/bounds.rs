//! Claims that say that a figure is above or below another.

use super::rows::{SIMILAR_ROWS, copied_claim, similar};
use super::{INJECTIONS, Random, Table, grouped};
use crate::draft_answer::DraftClaim;

// A claim that says that the figure of 2022 of a row is above or below another.
fn bound_claim(table: &Table, row: usize, words: &str, figure: &str) -> DraftClaim {
    let copied = copied_claim(table, "", row);
    DraftClaim {
        statement: format!("{} was {words} {figure} in 2022.", table.labels[row]),
        ..copied
    }
}

#[test]
fn bounds_hold_or_are_not_shown() {
    let mut random = Random(0x5eed_2026_1125);
    for _ in 0..INJECTIONS {
        let table = Table::with_rows(&mut random, &SIMILAR_ROWS);
        let row = similar("Total assets");
        let value = table.value(row, 2022);
        let figure = |value: i64| format!("${} {}", grouped(value), table.scale);
        // `$60.2 billion` for 60,163 million: a bound is not rounded.
        let larger = if table.scale == "million" {
            "billion"
        } else {
            "million"
        };
        let rounded_up = format!("${:.1} {larger}", ((value / 100) as f64 + 1.0) / 10.0);
        for (words, limit, holds) in [
            ("more than", figure(value - 1), true),
            ("at least", figure(value), true),
            ("less than", figure(value + 1), true),
            ("no more than", figure(value), true),
            ("over", figure(value / 2), true),
            ("more than", figure(value), false),
            ("more than", figure(value + 1), false),
            ("at least", figure(value + 1), false),
            ("less than", figure(value), false),
            ("no more than", figure(value - 1), false),
            ("no less than", figure(value + 1), false),
            ("more than", rounded_up, false),
            // The scale of the bound is another.
            (
                "more than",
                format!("${} {larger}", grouped(value - 1)),
                false,
            ),
        ] {
            let claim = bound_claim(&table, row, words, &limit);
            let verdict = table.judge(&claim);
            assert_eq!(
                verdict.verified,
                holds,
                "{claim:?} {verdict:?}\n{}",
                table.lines.join("\n")
            );
        }
        let other = bound_claim(&table, similar("Total debt"), "more than", &figure(1));
        let mut wrong_row = other.clone();
        wrong_row.statement = other.statement.replace("Total debt", "Total assets");
        let mut wrong_year = other;
        wrong_year.statement = wrong_year.statement.replace("2022", "2019");
        for claim in [wrong_row, wrong_year] {
            assert!(!table.judge(&claim).verified, "{claim:?}");
        }
    }
}
