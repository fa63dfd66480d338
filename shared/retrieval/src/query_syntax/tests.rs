//! Tests of the query syntax.

use proptest::prelude::*;
use stemma_reading::tokenizer::tokenize;

use super::*;

// The plain text, then each operator as a response shows it.
fn parsed(text: &str) -> String {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(error) => return format!("error: {error}"),
    };
    let required = parsed.operators.required.iter().map(ToString::to_string);
    let excluded = parsed
        .operators
        .excluded
        .iter()
        .map(|one| format!("-{one}"));
    let conditions = parsed.filter.conditions();
    let conditions = conditions.iter().map(ToString::to_string);
    let operators = required.chain(excluded).chain(conditions);
    std::iter::once(parsed.text)
        .chain(operators)
        .collect::<Vec<_>>()
        .join(" / ")
}

#[test]
fn operators_are_split_from_the_text() {
    for (text, expected) in [
        (
            r#"Is "the step" before "plug it in" or text:after?"#,
            "Is the step before plug it in or after? / “after” / “the step” OR “plug it in”",
        ),
        (
            r#""the step" "plug it in""#,
            "the step plug it in / “the step” / “plug it in”",
        ),
        (
            r#"What drove "raw material costs" -freight in 2022?"#,
            "What drove raw material costs  in 2022? / “raw material costs” / -“freight”",
        ),
        (
            "hedging OR swaps of currency",
            "hedging  swaps of currency / “hedging” OR “swaps”",
        ),
        (
            "(hedging OR “interest rate swaps” OR forwards)",
            "(hedging  interest rate swaps  forwards) / “hedging” OR “interest rate swaps” OR “forwards”",
        ),
        (
            "revenue company:3M year:2022",
            "revenue / company=3m / fiscal_year=2022",
        ),
        (
            r#"revenue Company:"American Express", form:10-K?"#,
            "revenue , ? / company=american express / form=10-k",
        ),
        (
            "revenue year:2021 year:2022",
            "revenue / fiscal_year in (2021, 2022)",
        ),
        (
            "revenue year:2021 OR year:2022",
            "revenue / fiscal_year=2021 / fiscal_year=2022",
        ),
        ("revenue year:>=2020", "revenue / fiscal_year>=2020"),
        (
            "revenue year:2020..2022",
            "revenue / fiscal_year>=2020 / fiscal_year<=2022",
        ),
        (
            "revenue -form:8-K -year:<2020",
            "revenue / form!=8-k / fiscal_year>=2020",
        ),
        ("title:liquidity", "liquidity / title:“liquidity”"),
        (
            r#"title:"market risk" -title:foreign"#,
            "market risk / title:“market risk” / -title:“foreign”",
        ),
        (
            "text:goodwill impairment",
            "goodwill impairment / “goodwill”",
        ),
        (
            r#"goodwill -"reporting unit""#,
            "goodwill / -“reporting unit”",
        ),
        ("R&D -R&D", "R&D / -“R&D”"),
    ] {
        assert_eq!(parsed(text), expected, "{text}");
    }
}

#[test]
fn questions_are_no_operators() {
    for text in [
        "",
        "What is the year-over-year change of long-term debt and/or leases?",
        "Question: what did 3M pay at 10:30?",
        "company: 3M",
        "See https://example.com and http:x",
        "short- and long-term debt",
        "a change of -5% to -12",
        "sales -net of returns- fell",
        "- cash - and --equivalents",
        "the 10 -K filing",
        r#"a 19" rack and 7" pipe"#,
        r#"" quoted " and """" and "!""#,
        "WHAT IS THE REVENUE OR THE INCOME OF 3M?",
        "sales, OR income",
        "OR",
        "sales OR",
        "sales OR ?",
        "color:red",
        "title: text: form:",
        "the company's 'core' segment",
        r#"Format it as a list, for example ["Chapter 5", "Chapter 8"]."#,
    ] {
        let expected = ParsedSyntax {
            text: text.into(),
            ..ParsedSyntax::default()
        };
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
}

#[test]
fn contradictions_are_errors_with_a_next_step() {
    for (text, expected) in [
        (
            "sales OR company:3M",
            "error: `company:3M` is a condition on documents, so it cannot be an alternative to `sales`",
        ),
        (
            "sales OR -income",
            "error: `-income` excludes, so it cannot be an alternative",
        ),
        (
            "-sales company:3M",
            "error: the query says what to leave out or where to search, but has no words to search for",
        ),
        (
            "sales year:last",
            "error: `year:last`: `last` is not a number, as fiscal_year requires",
        ),
    ] {
        assert_eq!(parsed(text), expected, "{text}");
        assert!(!parse(text).unwrap_err().next_step().is_empty());
    }
    let many = r#""sales" "#.repeat(MAX_CLAUSES + 1);
    assert_eq!(parse(&many), Err(SyntaxError::TooManyClauses));
}

// The length of a query bounds work that grows with the square. Work that grows faster never ends.
#[test]
fn hostile_texts_are_parsed() {
    for unit in [
        "\"",
        "-",
        "a OR ",
        "\"a ",
        "-\"",
        "(",
        "title:",
        "“a",
        "-a:",
        "a- -b ",
        "🦀\"x\" ",
    ] {
        let text: String = unit.chars().cycle().take(MAX_QUERY_CHARS).collect();
        assert_ne!(parse(&text), Err(SyntaxError::TooLong), "{unit}");
    }
}

#[test]
fn a_closing_bracket_alone_leaves_quotations_alone() {
    let phrases = |text: &str| parse(text).unwrap().operators.required.len();
    assert_eq!(phrases("\"tea leaves\" foo]"), 1);
    assert_eq!(phrases("for example [\"tea leaves\", \"old tea\"]"), 0);
}

#[test]
fn a_query_that_is_too_long_is_refused() {
    assert!(parse(&"a".repeat(MAX_QUERY_CHARS)).is_ok());
    let error = parse(&"ä".repeat(MAX_QUERY_CHARS + 1)).unwrap_err();
    assert_eq!(error, SyntaxError::TooLong);
}

proptest! {
    #[test]
    fn no_text_panics(text in r#"([a-z]{0,3}|["“”„«»():<>.,-]|OR|title|year|company|\PC| ){0,40}"#) {
        let _ = parse(&text);
    }

    #[test]
    fn words_are_plain_text(words in prop::collection::vec("[a-zA-Zä0-9]{1,8}([-'’,.;/&%]|and/or)?[a-z0-9]{1,4}", 1..12)) {
        let text = words.join(" ");
        prop_assume!(!words.iter().any(|word| word == "OR"));
        let parsed = parse(&text).unwrap();
        prop_assert_eq!(parsed.text, text);
        prop_assert!(parsed.operators.is_empty() && parsed.filter.is_empty());
    }

    #[test]
    fn operators_keep_the_words_of_the_text(words in prop::collection::vec("[a-z]{2,8}", 1..6)) {
        let plain = words.join(" ");
        let parsed = parse(&format!("{plain} \"{plain}\" -omitted company:acme")).unwrap();
        prop_assert_eq!(tokenize(&parsed.text), tokenize(&format!("{plain} {plain}")));
        prop_assert_eq!(parsed.operators.required.len(), 1);
        prop_assert_eq!(parsed.operators.excluded.len(), 1);
    }
}
