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
    ask_reading(Reading::Truth, names, blocks)
}

fn ask_reading(reading: Reading, names: &[&str], blocks: &[(&str, &str)]) -> Value {
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
        reading,
        1,
    )
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
fn marked_headings_are_not_named() {
    let marked = pages()[5].replacen("Item 2. Properties\n", "[level 2] Item 2. Properties\n", 1);
    let read = ask(&["sections"], &[("Page 1", &marked)]);
    let titles: Vec<&Value> = read["sections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|section| &section["title"])
        .collect();
    assert_eq!(titles, ["PART II", "Market for Registrant's Common Equity"]);
}

#[test]
fn reader_sees_levels_within_its_window_and_takes_table_heads() {
    let shown: Vec<String> = (1..41)
        .map(|n| {
            format!(
                "Amounts by Kind {}\n2023 2022\nSales 1,200 1,100",
                "I".repeat(n)
            )
        })
        .collect();
    let blocks: Vec<(String, &str)> = shown
        .iter()
        .zip(1..)
        .map(|(text, n)| (format!("Page {n}"), text.as_str()))
        .collect();
    let all = pages();
    let blocks: Vec<(&str, &str)> = blocks
        .iter()
        .map(|(name, text)| (name.as_str(), *text))
        .chain([("Page 41", all[3].as_str()), ("Page 42", all[6].as_str())])
        .collect();
    let read = ask_reading(Reading::Reader, &["sections"], &blocks);
    assert_eq!(
        read,
        ask_reading(Reading::Reader, &["sections"], &blocks),
        "equal questions have equal answers"
    );
    let sections = read["sections"].as_array().unwrap();
    let is_table = |section: &&Value| section["page"].as_u64().unwrap() <= 40;
    let heads = sections.iter().filter(is_table).count();
    assert!((1..20).contains(&heads), "{heads} of 40 heads of tables");
    let levels: Vec<u64> = sections
        .iter()
        .filter(|section| !is_table(section))
        .map(|section| section["level"].as_u64().unwrap())
        .collect();
    assert!(levels.iter().all(|level| *level == 1), "{levels:?}");
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
        ask(&["sections"], &[("Page 1", contents)])["sections"],
        json!([])
    );
}
