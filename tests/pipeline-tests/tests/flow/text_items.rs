//! Items of filings as text: of the 1990s, and as converters of HTML leave them.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use stemma_document::SourceBody;
use stemma_extract::{ExtractJob, Limits};
use stemma_outline::{enrich, finish_tree, structure};
use stemma_reading::document_reading::DocumentReading;

const ITEMS: [(&str, &str); 6] = [
    ("Item 1.", "Business"),
    ("Item 1A.", "Risk Factors"),
    ("Item 2.", "Properties"),
    (
        "Item 7.",
        "Management's Discussion and Analysis of Financial Condition and Results of Operations",
    ),
    ("Item 9B.", "Other Information"),
    ("Item 15.", "Exhibits and Financial Statement Schedules"),
];
const COVER: [&str; 4] = [
    "UNITED STATES SECURITIES AND EXCHANGE COMMISSION",
    "FORM 10-K",
    "For the fiscal year ended December 31, 2023",
    "ACME CORP.",
];
const PROSE: &str = "Our business sold more goods in this year than in the year before it, and this report explains at some length \
                     how that came about. For more about our results, see Part II, Item 7. Management's Discussion and Analysis.";

/// A heading, its text, and how a converter writes contents, headings and text.
struct Converter {
    name: &'static str,
    contents: fn(&str, &str, usize) -> String,
    heading: fn(&str, &str) -> String,
    text: fn(&str) -> String,
}

/// Lines of at most 72 characters.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let breaks = width + word.len() > 72;
        lines += if breaks {
            "\n"
        } else if width > 0 {
            " "
        } else {
            ""
        };
        width = word.len() + if breaks { 0 } else { width + 1 };
        lines += word;
    }
    lines
}

fn filing(converter: &Converter) -> String {
    let mut text = COVER.map(converter.text).concat();
    text += &(converter.text)("TABLE OF CONTENTS");
    for (at, (number, title)) in ITEMS.iter().enumerate() {
        text += &(converter.contents)(number, title, 3 + at);
    }
    text += &(converter.heading)("PART I", "");
    for (number, title) in ITEMS {
        if number == "Item 7." {
            text += &(converter.heading)("PART II", "");
        }
        text += &(converter.heading)(number, title);
        let answer = if number == "Item 9B." { "None." } else { PROSE };
        text += &(converter.text)(answer).repeat(if answer == PROSE { 4 } else { 1 });
    }
    text + &(converter.heading)("SIGNATURES", "") + &(converter.text)("Signed.")
}

/// Number and status of each Item that is there, and whether its heading and text are at its first line.
fn found(name: &str, text: &str) -> Vec<(String, &'static str, bool)> {
    let job = ExtractJob::new(
        name.into(),
        text.as_bytes().to_vec(),
        None,
        Limits::default(),
    );
    let source = stemma_extract::extract(job).expect("it is text");
    let draft = structure::outline(&source, &Default::default()).expect("it has lines");
    let tree = finish_tree(
        &draft,
        &source,
        &DocumentReading::new(&source.body).lines,
        [],
        &enrich::SectionSettings::default(),
    );
    let SourceBody::Lines(body) = &source.body else {
        return Vec::new();
    };
    let items = tree
        .items
        .iter()
        .filter_map(|item| Some((item, item.boundary.as_ref()?)));
    items
        .map(|(item, boundary)| {
            let at = boundary.heading.line as usize - 1;
            let shown = body.lines[at..body.lines.len().min(at + 7)].join(" ");
            let has_text = shown.contains("Our business") || shown.contains("None.");
            (
                item.number.clone(),
                item.status.as_str(),
                has_text && boundary.heading.verified,
            )
        })
        .collect()
}

#[test]
fn converted_filings_have_the_items_of_their_body() {
    let converters = [
        Converter {
            name: "paragraphs.txt",
            contents: |number, title, page| format!("{number} {title} | {page}\n"),
            heading: |number, title| format!("{number} {title}\n"),
            text: |text| format!("{text}\n"),
        },
        Converter {
            name: "cells.txt",
            contents: |number, title, page| format!("{number}\n{title}\n{page}\n"),
            heading: |number, title| format!("{number}\n{title}\n").replace("\n\n", "\n"),
            text: |text| format!("{text}\n"),
        },
        Converter {
            name: "wrapped.txt",
            contents: |number, title, page| format!("{number}    {title}.......{page}\n"),
            heading: |number, title| format!("{}\n", wrapped(&format!("{number} {title}"))),
            text: |text| format!("{}\n", wrapped(text)),
        },
        Converter {
            name: "bold.md",
            contents: |number, title, page| {
                format!("| [{number}](#a) | [{title}](#a) | [{page}](#a) |\n")
            },
            heading: |number, title| {
                format!("\n**{number}** **{title}**\n").replace("** ****", "**")
            },
            text: |text| format!("\n{text}\n"),
        },
        Converter {
            name: "tables.md",
            contents: |number, title, page| format!("| {number} | {title} | {page} |\n"),
            heading: |number, title| format!("\n| {number} | {title} |\n|---|---|\n"),
            text: |text| format!("\n{text}\n"),
        },
        Converter {
            name: "headings.md",
            contents: |number, title, page| format!("- [{number} {title}](#a) {page}\n"),
            heading: |number, title| format!("\n## {number} {title}\n"),
            text: |text| format!("\n{text}\n"),
        },
    ];
    for converter in converters {
        let found = found(converter.name, &filing(&converter));
        let expected = ITEMS.map(|(number, _)| {
            let number = number.trim_start_matches("Item ").trim_end_matches('.');
            let status = if number == "9B" { "none" } else { "full" };
            (number.to_owned(), status, true)
        });
        assert_eq!(found, expected, "{}", converter.name);
    }
}

#[test]
fn a_text_that_only_lists_items_has_none() {
    let rows: String = ITEMS
        .iter()
        .map(|(number, title)| format!("{number} {title}\npages 3 to 9\n"))
        .collect();
    let text = format!(
        "FORM 10-K\nACME CORP.\n{}\nCross-reference index\n{rows}{rows}",
        PROSE.repeat(20)
    );
    let found = found("index.txt", &text);
    assert!(
        found.iter().all(|(_, status, _)| *status != "full"),
        "{found:?}"
    );
}

#[test]
fn typewritten_filings_have_the_items_of_both_parts() {
    let section = |heading: &str, answer: &str| format!("{heading}\n\n{}\n\n", wrapped(answer));
    let prose = PROSE.repeat(4);
    let text = [
        "                          FORM 10-Q\n\n        For the quarterly period ended April 1, 1995\n\n                    ACME CORP.\n\n<PAGE>\n",
        &section("PART I.  FINANCIAL INFORMATION", ""),
        &section("ITEM 1.  FINANCIAL STATEMENTS", &prose),
        "                                   3\n<PAGE>\n",
        &section("ITEM 2.  MANAGEMENT'S DISCUSSION AND ANALYSIS OF FINANCIAL\n         CONDITION AND RESULTS OF OPERATIONS", &prose),
        &section("PART II.  OTHER INFORMATION", ""),
        &section("ITEM 1.  LEGAL PROCEEDINGS", "None."),
        &section("ITEM 6.  EXHIBITS AND REPORTS ON FORM 8-K", &prose),
        "                                 SIGNATURES\n\n        Signed.\n",
    ]
    .concat();
    let found = found("a.txt", &text);
    let numbers: Vec<(&str, &str)> = found
        .iter()
        .map(|(number, status, _)| (number.as_str(), *status))
        .collect();
    assert_eq!(
        numbers,
        [("1", "full"), ("2", "full"), ("1", "none"), ("6", "full")]
    );
}
