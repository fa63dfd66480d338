use super::*;
use crate::lines::{LineKind, LineReading};

fn parse_number(text: &str) -> Vec<String> {
    numbers(text)
        .iter()
        .map(|number: &NumberMention| {
            format!(
                "{}{}",
                number.text,
                if number.role == NumberRole::Amount {
                    ""
                } else {
                    "?"
                }
            )
        })
        .collect()
}

#[test]
fn numbers_are_distinguished_from_labels() {
    assert_eq!(
        parse_number("3M's 10-K for 2022, Q2, F-12 and R2D2"),
        ["2022?"]
    );
    assert_eq!(
        parse_number("$1,749 million, 5.1%, (23), -4 and 2.5x"),
        ["$1,749 million", "5.1", "23", "4", "2.5x"]
    );
    assert_eq!(
        parse_number("Note 15, Item 7, December 31, three of 12 sites"),
        ["15?", "7?", "31?", "three?", "12"]
    );
    assert_eq!(parse_number("$3M or US$ 4bn"), ["$3M", "$ 4bn"]);
    assert_eq!(
        parse_number("a 5-year plan for the 1990s"),
        ["5?", "1990s?"]
    );
    assert_eq!(
        parse_number("Receivables(1) of $5, SG&A(a)(2), loss (3)"),
        ["1?", "$5", "2?", "3"]
    );
}

#[test]
fn digits_with_other_marks_have_no_value() {
    for text in [
        "3,45 EUR",
        "41,7 %",
        "1.234.567",
        "1,2345",
        "1,234,56",
        "1.234,56,7",
        "3.30.250",
        "31.12.2024",
        "△ 5",
        "▲5 %",
    ] {
        assert_eq!(parse_number(text), [""; 0], "{text}");
    }
    assert_eq!(
        parse_number("1,234,567.8, 2023,2022 and 5.1%."),
        ["1,234,567.8", "2023?", "2022?", "5.1"]
    );
}

fn values(marks: NumberMarks, text: &str) -> Vec<String> {
    let numbers = marks.numbers(text).into_iter();
    let scaled = numbers.map(|number| {
        let value = number.signed_value().unwrap_or_default();
        (value * rust_decimal::Decimal::from(number.own_scale().unwrap_or(1)))
            .normalize()
            .to_string()
    });
    scaled.collect()
}

#[test]
fn marks_of_the_document_tell_decimals_from_groups() {
    let comma = NumberMarks {
        decimal: DecimalMark::Comma,
        ..NumberMarks::ENGLISH
    };
    let undecided = NumberMarks {
        decimal: DecimalMark::Undecided,
        ..NumberMarks::ENGLISH
    };
    let spaces = NumberMarks {
        has_spaces: true,
        ..comma
    };
    let japanese = NumberMarks {
        has_triangles: true,
        ..NumberMarks::ENGLISH
    };
    for (marks, text, expected) in [
        (comma, "1.234.567,8", vec!["1234567.8"]),
        (comma, "(790.111,0)", vec!["-790111"]),
        (comma, "1.234", vec!["1234"]),
        (comma, "3,45 EUR", vec!["3.45"]),
        (comma, "1,234.5", vec!["1234.5"]),
        (comma, "3.45", vec![]),
        (comma, "1,5 Mio. EUR", vec!["1500000"]),
        // Two numbers, or one.
        (comma, "500 498", vec![]),
        (spaces, "1 234 567,8 et 12", vec!["1234567.8", "12"]),
        (spaces, "567 k€", vec!["567000"]),
        (spaces, "1\u{202f}234 k€", vec!["1234000"]),
        (undecided, "1.234", vec![]),
        (undecided, "1,234", vec![]),
        (
            undecided,
            "1.234,5 and 1,234,567 and 12",
            vec!["1234.5", "1234567", "12"],
        ),
        (NumberMarks::ENGLISH, "12,34,56,789", vec!["123456789"]),
        (
            NumberMarks::ENGLISH,
            "Rs. 1,234.57 lakhs",
            vec!["123457000"],
        ),
        (NumberMarks::ENGLISH, "CHF 1'234'567.5", vec!["1234567.5"]),
        (NumberMarks::ENGLISH, "1\u{2019}234", vec!["1234"]),
        (NumberMarks::ENGLISH, "١٬٢٣٤٫٥", vec!["1234.5"]),
        (NumberMarks::ENGLISH, "१२,३४,५६७", vec!["1234567"]),
        (japanese, "△1,234", vec!["-1234"]),
    ] {
        assert_eq!(values(marks, text), expected, "{text}");
    }
}

#[test]
fn a_document_tells_its_marks() {
    let row = LineReading {
        kind: LineKind::Row,
        ..LineReading::default()
    };
    let prose = LineReading::default();
    let settle = |lines: &[(&'static str, LineReading)]| {
        settle_marks(std::iter::once(lines.iter().copied()))[0].decimal
    };
    for (lines, expected) in [
        (vec![(" 1.234,5 12", row)], DecimalMark::Comma),
        (vec![(" 41,7 40,2", row)], DecimalMark::Comma),
        (vec![("gestiegen um 4,5 %", prose)], DecimalMark::Comma),
        (
            vec![("siehe 3.1", prose), (" 41,7", row)],
            DecimalMark::Comma,
        ),
        (vec![(" 41.7 1,234", row)], DecimalMark::Point),
        // A note glued to another.
        (
            vec![
                (" 1,234 2,345 3,456 4,567 5,678 6,789", row),
                (" 7,890 8,901 9,012 2,345 1,2", row),
            ],
            DecimalMark::Point,
        ),
        (vec![(" 1,234 2,345", row)], DecimalMark::Point),
        (
            vec![("We spent $1,577 million.", prose)],
            DecimalMark::Point,
        ),
        (vec![(" 1.234 2.345", row)], DecimalMark::Undecided),
        (vec![(" 41.7 40,2", row)], DecimalMark::Undecided),
        (
            vec![
                (
                    "Der Umsatz ist im Jahr gestiegen und das Ergebnis ist nicht gesunken",
                    prose,
                ),
                (" 1.234 2.345", row),
            ],
            DecimalMark::Comma,
        ),
    ] {
        assert_eq!(settle(&lines), expected, "{lines:?}");
    }
}

#[test]
fn scales_are_declared_in_many_ways() {
    for (text, expected) in [
        ("(in millions, except per share data)", vec![1_000_000]),
        ("Dollars in thousands", vec![1_000]),
        ("December 31 (Millions)", vec![1_000_000]),
        ("(Dollars in Billions)(1)", vec![1_000_000_000]),
        ("Thousands of items, except as noted", vec![1_000]),
        ("($ million)", vec![1_000_000]),
        ("£m", vec![1_000_000]),
        ("EUR'000", vec![1_000]),
        ("in Mio. EUR", vec![1_000_000]),
        ("Angaben in T€", vec![1_000]),
        ("(en milliers d'euros)", vec![1_000]),
        ("(₹ in crores)", vec![10_000_000]),
        ("单位：万元", vec![10_000]),
        ("（単位：百万円）", vec![1_000_000]),
        ("within millions of years", vec![]),
        ("sales of $5 million in 2023", vec![]),
        ("a payment of 567 k€", vec![]),
    ] {
        assert_eq!(scales(text), expected, "{text}");
    }
}

#[test]
fn blanks_may_be_within_parentheses() {
    for (text, expected) in [
        ("( 95 )", true),
        ("$( 1,749 )", true),
        ("( 5 of 7 )", false),
    ] {
        assert_eq!(numbers(text)[0].is_negative(), expected, "{text}");
    }
}

#[test]
fn a_number_may_begin_with_its_point() {
    assert_eq!(
        parse_number("$.50, (.48) and 5..3"),
        ["$.50", ".48", "5", "3"]
    );
    let values = numbers("-.5 1.05");
    let values: Vec<String> = values
        .iter()
        .filter_map(|number| number.signed_value())
        .map(|value| value.to_string())
        .collect();
    assert_eq!(values, ["-0.5", "1.05"]);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in ".{0,80}") {
        numbers(&text);
        scales(&text);
    }
}
