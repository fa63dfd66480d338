//! The oracle with questions about a small filing.

use serde_json::{Value, json};

use super::*;
use crate::truth::{KnownOutline, KnownSection, PageTexts};

const CONTENTS: &str = "TABLE OF CONTENTS\nPART I\nItem 1. Business 1\nItem 1A. Risk Factors 2\nItem 2. Properties 4\nPART II\n\
                        Item 5. Market for Registrant's Common\nEquity 5\nItem 6. Selected Data 6";

// Page 1 is a cover, page 2 the contents.
fn pages() -> Vec<String> {
    let prose = |n: u32| {
        (0..30)
            .map(|w| format!("word{n}x{w}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut pages = vec![
        format!("ACME CORP\nFORM 10-K\n{}", prose(1)),
        CONTENTS.to_string(),
    ];
    pages.push(format!("PART I\nITEM 1.\nBUSINESS\n{}", prose(3)));
    pages.push(format!(
        "{}\nItem 1A. Risk Factors\n{}",
        prose(4),
        prose(40)
    ));
    pages.push(format!(
        "{}\nas told in Item 2. Properties we own land",
        prose(5)
    ));
    pages.push(format!(
        "Item 2. Properties\n{}\nPART II\nItem 5. Market for Registrant\u{2019}s Common Equity",
        prose(6)
    ));
    pages.push(format!("Item 6. Selected Data\n{}", prose(7)));
    pages
}

fn oracle() -> Oracle {
    let nodes = [
        ("PART I", 1, 3),
        ("Item 1. Business", 2, 3),
        ("Item 1A. Risk Factors", 2, 4),
        ("Item 2. Properties", 2, 6),
        ("PART II", 1, 6),
        ("Item 5. Market for Registrant's Common Equity", 2, 6),
        ("Item 6. Selected Data", 2, 7),
    ];
    let nodes = nodes
        .map(|(title, level, page)| KnownSection {
            title: title.into(),
            level,
            page,
        })
        .to_vec();
    let truth = KnownOutline {
        doc: "acme".into(),
        pages: 7,
        nodes,
        toc_pages: vec![],
    };
    Oracle::new(Library::new(
        vec![truth],
        vec![PageTexts {
            doc: "acme".into(),
            pages: pages(),
        }],
    ))
}

fn ask(names: &[&str], blocks: &[(&str, &str)]) -> Value {
    ask_reading(TocReading::Truth, names, blocks)
}

fn ask_reading(reads: TocReading, names: &[&str], blocks: &[(&str, &str)]) -> Value {
    let user = blocks
        .iter()
        .map(|(name, text): &(&str, &str)| {
            format!("{name}:\n[0123456789abcdef]\n{text}\n[/0123456789abcdef]")
        })
        .collect::<Vec<_>>()
        .join("\n\n");
    let properties: serde_json::Map<_, _> = names
        .iter()
        .map(|name| ((*name).to_string(), json!({})))
        .collect();
    let schema = json!({ "json_schema": { "schema": { "properties": properties } } });
    let message = json!({ "role": "user", "content": user });
    oracle().answer(
        &PromptRequest::parse(&json!({ "messages": [message], "response_format": schema }))
            .unwrap(),
        reads,
    )
}

#[test]
fn toc_is_detected_and_read() {
    let names = ["is_contents", "has_page_numbers"];
    assert_eq!(
        ask(&names, &[("Page", CONTENTS)]),
        json!({ "is_contents": true, "has_page_numbers": true })
    );
    for page in [&pages()[0], &pages()[2]] {
        assert_eq!(ask(&names, &[("Page", page)])["is_contents"], false);
    }
    let read = ask(&["entries"], &[("Contents 1", CONTENTS)]);
    let entries: Vec<_> = read["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (&e["number"], &e["label"], &e["level"]))
        .collect();
    assert_eq!(entries.len(), 7);
    assert_eq!(entries[2], (&json!("Item 1A"), &json!("2"), &json!(2)));
    assert_eq!(
        read["entries"][5]["title"],
        "Market for Registrant's Common Equity"
    );
    assert_eq!(entries[4].1, &json!(""));
}

#[test]
fn incomplete_toc_only_counts_when_reading_the_page() {
    let page = CONTENTS.replace("Item 2. Properties 4\n", "");
    let mut texts = pages();
    texts[1] = page;
    let truth = oracle().library.documents[0].truth.clone();
    let oracle = Oracle::new(Library::new(
        vec![truth],
        vec![PageTexts {
            doc: "acme".into(),
            pages: texts,
        }],
    ));
    assert_eq!(oracle.library.documents[0].contents, [2]);
    assert!(!oracle.library.documents[0].complete);
}

#[test]
fn windows_list_starting_sections_by_page_number() {
    let pages = pages();
    let read = ask(
        &["sections"],
        &[
            ("Before", &pages[2]),
            ("Page 1", &pages[3]),
            ("Page 2", &pages[4]),
            ("Page 3", &pages[5]),
        ],
    );
    let actual: Vec<_> = read["sections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["title"].as_str().unwrap(), &s["page"]))
        .collect();
    let expected = [
        "Risk Factors",
        "Properties",
        "PART II",
        "Market for Registrant's Common Equity",
    ];
    assert_eq!(
        actual.iter().map(|(title, _)| *title).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(
        actual
            .iter()
            .map(|(_, page)| page.as_u64().unwrap())
            .collect::<Vec<_>>(),
        [1, 3, 3, 3]
    );
    // The lower part of a page shows only the sections that start in it.
    let lower = pages[5].split_once('\n').unwrap().1;
    assert_eq!(
        ask(&["sections"], &[("Page 1", lower)])["sections"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn titles_are_located_only_on_their_pages() {
    let pages = pages();
    let pages_shown = [
        ("Page 1", pages[1].as_str()),
        ("Page 2", &pages[4]),
        ("Page 3", &pages[5]),
        ("Page 4", &pages[3]),
    ];
    let titles = [
        ("Title 1", "Risk Factors"),
        ("Title 2", "Item 2. Properties"),
        ("Title 3", "Item 6. Selected Data"),
    ];
    let located = ask(&["found"], &[&titles[..], &pages_shown].concat());
    assert_eq!(
        located["found"],
        json!([{ "entry": 1, "page": 4 }, { "entry": 2, "page": 3 }])
    );
    let repaired =
        |title| ask(&["page"], &[&[("Title", title)][..], &pages_shown].concat())["page"].clone();
    assert_eq!(
        [
            repaired("PART II"),
            repaired("Item 6. Selected Data"),
            repaired("Nothing")
        ],
        [3, 0, 0]
    );
}

#[test]
fn titles_are_verified_only_as_headings() {
    let pages = pages();
    let verdict = |title: &str, page: &str| {
        let verdict = ask(
            &["stands", "starts_page"],
            &[("Title", title), ("Page", page)],
        );
        (verdict["stands"] == true, verdict["starts_page"] == true)
    };
    assert_eq!(
        verdict("Item 1. Business", &pages[2]),
        (true, true),
        "only its part stands above it"
    );
    assert_eq!(verdict("Item 1A. Risk Factors", &pages[3]), (true, false));
    assert_eq!(
        verdict("Item 2. Properties", &pages[4]),
        (false, false),
        "only mentioned"
    );
    assert_eq!(
        verdict("Item 2. Properties", CONTENTS),
        (false, false),
        "only listed"
    );
    assert_eq!(verdict("R i s k  factors", &pages[3]), (true, false));
    assert_eq!(
        verdict("Overview", "# Overview\n\nText of a page that nobody knows"),
        (true, true)
    );
    assert_eq!(
        verdict("Overview", "An overview of a page that nobody knows"),
        (false, false)
    );
}

#[test]
fn sections_are_summarized_separately() {
    let together = ask(
        &["summaries"],
        &[("Section 1", "A\nOne"), ("Section 2", "B\nTwo")],
    );
    let alone = ask(&["summaries"], &[("Section 1", "B\nTwo")]);
    assert_eq!(together["summaries"][1]["section"], 2);
    assert_eq!(
        together["summaries"][1]["summary"],
        alone["summaries"][0]["summary"]
    );
    assert!(is_whole(alone["summaries"][0]["summary"].as_str().unwrap()));
    assert_eq!(
        ask(&["summary"], &[("Section", "B\nTwo")])["summary"],
        alone["summaries"][0]["summary"]
    );
}

#[test]
fn unknown_documents_are_read_by_shape() {
    let page = "1. Method\nWe did this and that, and it took a long time to do so.\n2. Results\nIt worked.";
    let read = ask(&["sections"], &[("Page 1", page)]);
    assert_eq!(
        read["sections"][1],
        json!({ "number": "2", "title": "Results", "page": 1, "level": 2 })
    );
    let contents = "1. Method 3\n2. Results 5\n3. Discussion 7\n4. Notes 9\n5. Index 12";
    assert_eq!(
        ask(&["is_contents"], &[("Page", contents)])["is_contents"],
        true
    );
    assert_eq!(
        ask(&["entries"], &[("Contents 1", contents)])["entries"][4]["label"],
        "12"
    );
}
