//! Replies and pages that nobody would write.

use proptest::prelude::*;
use stemma_filings::monospaced_page;

use super::{Document, citation, copied};
use crate::{ClaimState, StatedClaim, StatedFigure};

const PAGE: &str = "\
                          2022       2021
Net sales              $ 1,749    $ 1,603
Large reserve 70,000,000,000,000,000,000,000,000,000 (70,000,000,000,000,000,000,000,000,000)
Sales rose 9.1% to $1,749 million in 2022.";

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c0-9{}.,%$()*/+ \\-]{0,30}",
        "\\PC{0,12}",
        Just("1,749".to_owned()),
        Just("2022".to_owned()),
        Just("Net sales".to_owned()),
        Just("{a} in {a.period}".to_owned()),
        Just("Net sales $ 1,749 $ 1,603".to_owned()),
        Just("70,000,000,000,000,000,000,000,000,000".to_owned()),
        Just("a / b * 1000000".to_owned()),
    ]
}

fn figure() -> impl Strategy<Value = StatedFigure> {
    let texts = (text(), text(), text(), text(), text());
    ("[abc]|\\PC{0,3}", -1i64..4, texts).prop_map(|(name, citation, texts)| {
        let (value, unit, row, column, formula) = texts;
        StatedFigure {
            name,
            citation,
            value,
            unit,
            row,
            column,
            formula,
        }
    })
}

proptest! {
    #[test]
    fn no_reply_panics(
        statement in proptest::collection::vec(text(), 0..5),
        quotes in proptest::collection::vec(text(), 0..3),
        figures in proptest::collection::vec(figure(), 0..4),
        page in proptest::collection::vec(text(), 0..4),
    ) {
        let page = format!("{PAGE}\n{}", page.join("\n"));
        let document = Document::new(vec![monospaced_page(&page)]);
        let claim = StatedClaim {
            statement: statement.join(" "),
            citations: quotes.iter().map(|quote| citation(quote)).collect(),
            figures,
            pictures: Vec::new(),
        };
        let verified = document.verify(&claim);
        prop_assert_eq!(verified.state == ClaimState::Unverified, verified.reason.is_some());
    }
}

#[test]
fn large_replies_are_read_in_short_time() {
    let document = Document::new(vec![monospaced_page(PAGE)]);
    let long = "{a} net sales 2022 ".repeat(100_000);
    let nested = format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000));
    for (statement, value, formula) in [
        (long.as_str(), "1,749", ""),
        ("{a}", long.as_str(), ""),
        ("{a}", "1,749", long.as_str()),
        ("{a}", "1,749", nested.as_str()),
    ] {
        let mut figure = copied("a", 1, [value, &long, &long, &long]);
        figure.formula = formula.into();
        let claim = StatedClaim {
            statement: statement.into(),
            citations: vec![citation("Net sales $ 1,749 $ 1,603")],
            figures: vec![figure],
            pictures: Vec::new(),
        };
        assert_eq!(document.verify(&claim).state, ClaimState::Unverified);
    }
}
