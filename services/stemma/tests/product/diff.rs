//! `stemma diff` on generated filings a year apart, and on documents that cannot be compared.

use serde_json::Value;
use stemma_filings::{ContentsMode, FilingKind, Spec, year_pair};

use crate::support::TestEnv;

const IMPORTED: &str = r#"{"doc_name": "other.pdf", "structure": [{"title": "ITEM 1. BUSINESS", "start_index": 1, "end_index": 4}]}"#;

#[test]
fn diff_reports_each_section_change() {
    let generated = year_pair(
        &Spec {
            pages: 24,
            contents: ContentsMode::Outline,
            ..Spec::new(FilingKind::TenK, 504)
        },
        504,
    );
    let lab = TestEnv::new();
    lab.put("before.pdf", &generated.before.pdf);
    lab.put("after.pdf", &generated.after.pdf);
    lab.put("notes.md", "# Notes\nNone.\n");
    lab.ingest("store", &[]);
    std::fs::write(lab.path("tree.json"), IMPORTED).unwrap();
    lab.stemma("store", ["import", "tree.json"]).run();
    let diff = |arguments: &str| {
        lab.stemma("store", ["diff"].into_iter().chain(arguments.split(' ')))
            .run()
    };

    let reported = diff("before after --json --all").json();
    let of = |pair: &Value, side: &str| pair[side]["title"].as_str().map(str::to_owned);
    let reported: Vec<_> = reported["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (of(pair, "left"), of(pair, "right")))
        .collect();
    let before = &generated.before.truth.nodes;
    let after = &generated.after.truth.nodes;
    let title = |nodes: &[stemma_filings::HeadingTruth], at: Option<usize>| {
        at.map(|at| nodes[at].title.clone())
    };
    let expected = generated
        .sections
        .iter()
        .map(|one| (title(before, one.before), title(after, one.after)));
    let missing: Vec<_> = expected.filter(|pair| !reported.contains(pair)).collect();
    assert!(
        missing.len() * 20 <= generated.sections.len(),
        "{missing:#?} of {}",
        generated.sections.len()
    );

    let text = diff("before after --item 1A --sentences 1");
    assert_eq!(text.code, Some(0));
    assert!(
        text.out.starts_with("- before#") && text.out.contains("% of words changed"),
        "{text:?}"
    );
    assert!(
        !text.out.contains('\u{1b}'),
        "no color where there is no terminal: {text:?}"
    );
    let same = diff("after after --json").json();
    assert_eq!(
        (&same["counts"]["modified"], &same["changed"]["changed"]),
        (&0.into(), &0.0.into())
    );
    let unknown = diff("after other --json").json();
    assert_eq!(
        (&unknown["counts"]["unknown"], &unknown["right"]["has_text"]),
        (&1.into(), &false.into())
    );
    for (arguments, code) in [
        // Both are of one year: neither came before the other.
        ("after", "comparison.no_previous"),
        ("notes", "comparison.not_a_filing"),
        ("before nowhere", "locator.not_found"),
        ("before after --item 99", "locator.no_item"),
        ("before#p=1 after", "locator.not_a_section"),
    ] {
        let answer = diff(&format!("{arguments} --json"));
        assert_eq!(
            (answer.code, &answer.json()["error"]["code"]),
            (Some(2), &code.into()),
            "{arguments}"
        );
    }
}
