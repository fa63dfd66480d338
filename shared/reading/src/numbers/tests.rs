use super::*;

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
        "1.234.567,8",
        "(790.111,0)",
        "3,45 EUR",
        "41,7 %",
        "12,34,56,789",
        "1'234'567",
        "1\u{2019}234\u{2019}567",
        "1,2345",
        "1,234,56",
        "3.30.250",
    ] {
        assert_eq!(parse_number(text), [""; 0], "{text}");
    }
    assert_eq!(
        parse_number("1,234,567.8, 2023,2022 and 5.1%."),
        ["1,234,567.8", "2023?", "2022?", "5.1"]
    );
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
