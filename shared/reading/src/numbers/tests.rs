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
    assert_eq!(
        parse_number("$3M or US$ 4bn in 1,2345"),
        ["$3M", "$ 4bn", "1", "2345"]
    );
    assert_eq!(
        parse_number("a 5-year plan for the 1990s"),
        ["5?", "1990s?"]
    );
    assert_eq!(
        parse_number("Receivables(1) of $5, SG&A(a)(2), loss (3)"),
        ["1?", "$5", "2?", "3"]
    );
}

fn supported(claim: &str, cited: &str, page: &str) -> bool {
    let claimed = numbers(claim);
    let quoted = QuotedNumbers::new(cited, page);
    let gain = mentions_gain(claim);
    assert!(!claimed.is_empty(), "{claim}");
    claimed
        .iter()
        .filter(|number| !number.is_label())
        .all(|number| number.is_supported_by(&quoted, gain))
}

#[test]
fn scale_sign_and_unit_must_match() {
    let millions = "(Dollars in millions, except per share amounts)";
    for (claim, cited, page, expected) in [
        ("Capex was $1,749 million.", "(1,749)", millions, true),
        ("Capex was $1.7 billion.", "(1,749)", millions, true),
        ("Capex was $1.8 billion.", "(1,749)", millions, false),
        ("Capex was $1,749,000,000.", "(1,749)", millions, true),
        ("Capex was $1,749.", "(1,749)", millions, false),
        ("Capex was $1,749 billion.", "(1,749)", millions, false),
        (
            "Capex was $1,749 million.",
            "(1,749)",
            "no unit here",
            false,
        ),
        (
            "Capex was $1,749 million.",
            "capex of $1,749 million",
            "",
            true,
        ),
        ("EPS was $10.18.", "$10.18", millions, true),
        ("EPS was $10.18.", "10.18", millions, false),
        ("EPS was €10.18.", "$10.18", millions, false),
        ("Net income was $5 million.", "(5)", millions, false),
        ("The net loss was $5 million.", "(5)", millions, true),
        ("The result was -5.", "5", "", false),
        ("The result was -5.", "(5)", "", true),
        ("Sales rose 5%.", "5.1 %", "", true),
        ("Sales rose 5.2%.", "5.1 %", "", false),
        ("Sales rose 5%.", "$5", "", false),
        ("It has 92,000 employees.", "92,000", millions, true),
        ("It has 92,000 employees.", "92,100", "", false),
        // A year, a day, a note and a count are not amounts.
        (
            "Revenues were $2,022 million.",
            "December 31, 2022",
            millions,
            false,
        ),
        ("Revenues were $31 million.", "December 31", millions, false),
        (
            "Revenues were $31,000,000.",
            "31 December 2022",
            millions,
            false,
        ),
        ("Revenues were $12 million.", "12/31/2022", millions, false),
        ("Revenues grew 31%.", "December 31, up 5%", millions, false),
        ("Revenues were $15 million.", "see Note 15", millions, false),
        ("Revenues grew 31%.", "31 stores, up 5%", millions, false),
        ("Revenues grew 31%.", "Stores 31 28", millions, false),
        ("Revenues grew 31%.", "Change % 31 28", millions, true),
        (
            "Revenues were $31 million.",
            "we opened 31 new stores",
            millions,
            false,
        ),
        (
            "Revenues were $50 million.",
            "50 million shares",
            millions,
            false,
        ),
        ("It has 50 million shares.", "$50 million", millions, false),
        ("It opened 31 stores.", "31 %", "", false),
        (
            "Revenues were $3 million.",
            "three segments",
            millions,
            false,
        ),
        (
            "Revenues were $5 million.",
            "a 5-year plan",
            millions,
            false,
        ),
        ("It has three segments.", "3 segments", "", true),
        ("It has 3 segments.", "three segments", "", true),
        ("It has three segments.", "four segments", "", false),
        ("It cost $5.", "5", "no unit here", false),
        ("It cost 5 million dollars.", "$5 million", "", true),
    ] {
        assert_eq!(
            supported(claim, cited, page),
            expected,
            "{claim} / {cited} / {page}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in ".{0,80}") {
        numbers(&text);
        scales(&text);
    }

    #[test]
    fn a_different_number_is_not_supported(value in 1_000u32..900_000, more in 1u32..5_000) {
        let grouped = |n: u32| format!("{},{:03}", n / 1_000, n % 1_000);
        let claim = format!("It was {}.", grouped(value));
        proptest::prop_assert!(supported(&claim, &grouped(value), ""));
        proptest::prop_assert!(!supported(&claim, &grouped(value + more), ""));
    }
}
