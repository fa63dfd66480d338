//! Claims over a table that goes on from the page before.

use super::{judge_pages, placed_line};
use crate::draft_answer::{DraftCitation, DraftClaim};
use crate::figures::CitedPages;
use stemma_document::{Page, Pt};
use stemma_verify::QuoteTarget;

// Each line is its words, with the right edge of those in columns.
fn page(lines: &[&[(&str, Option<f32>)]]) -> Page {
    let lines = lines.iter().zip(1..).map(|(words, at)| {
        let words: Vec<(String, Option<f32>)> = words
            .iter()
            .map(|(word, right)| ((*word).to_owned(), *right))
            .collect();
        placed_line(&words, 20.0 * at as f32)
    });
    Page {
        width: Pt::new(700.0),
        height: Pt::new(800.0),
        lines: lines.collect(),
        ..Page::default()
    }
}

const LEFT: Option<f32> = Some(380.0);
const RIGHT: Option<f32> = Some(470.0);

fn first_page() -> Page {
    page(&[
        &[("Consolidated balance sheets", None)],
        &[("(In millions of dollars)", None)],
        &[("2022", LEFT), ("2021", RIGHT)],
        &[
            ("Cash and cash equivalents", None),
            ("1,749", LEFT),
            ("1,603", RIGHT),
        ],
        &[("Inventories", None), ("900", LEFT), ("800", RIGHT)],
        &[("F-4", None)],
    ])
}

fn is_verified(second: &Page, statement: &str) -> bool {
    let first = first_page();
    let claim = DraftClaim {
        statement: statement.into(),
        citations: vec![DraftCitation {
            passage: 1,
            quote: "Long-term debt 555 444".into(),
        }],
        computation: None,
        pictures: Vec::new(),
    };
    let pages = CitedPages {
        before: Some(QuoteTarget::page(4, &first)),
        targets: &[QuoteTarget::page(5, second)],
        year_shift: 0,
    };
    let verdict = judge_pages(&pages, &claim);
    println!("{statement}: {verdict:?}");
    verdict.verified
}

#[test]
fn a_continued_table_has_the_heads_of_the_page_before() {
    let debt: &[(&str, Option<f32>)] = &[("Long-term debt", None), ("555", LEFT), ("444", RIGHT)];
    let rows: &[&[(&str, Option<f32>)]] = &[
        &[("Acme Corporation", None)],
        &[("Accounts payable", None), ("70", LEFT), ("60", RIGHT)],
        debt,
    ];
    for (statement, is_right) in [
        ("Long-term debt was $555 million in 2022.", true),
        ("Long-term debt was $444 million in 2021.", true),
        ("Long-term debt was $444 million in 2022.", false),
        ("Long-term debt was $555 million in 2021.", false),
        ("Long-term debt was $555 in 2022.", false),
        ("Long-term debt was $70 million in 2022.", false),
    ] {
        assert_eq!(is_verified(&page(rows), statement), is_right, "{statement}");
    }
    let year = "Long-term debt was $555 million in 2022.";
    // Columns of its own.
    let other = page(&[&[("Americas", LEFT), ("Europe", RIGHT)], debt]);
    assert!(!is_verified(&other, year));
    let moved = page(&[&[
        ("Long-term debt", None),
        ("555", Some(300.0)),
        ("444", Some(420.0)),
    ]]);
    assert!(!is_verified(&moved, year));
    let prose = [(
        "The table above was prepared by management on the basis of the records of all of its consolidated subsidiaries.",
        None,
    )];
    assert!(!is_verified(&page(&[&prose, debt]), year));
}
