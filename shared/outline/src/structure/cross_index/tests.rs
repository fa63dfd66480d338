//! Tests of cross-reference indexes over pages made by hand.

use super::super::fixture::{Doc, line};
use super::super::{StructureSettings, outline};
use super::*;

const ROWS: [(&str, &[&str]); 14] = [
    ("PART I", &[]),
    ("Item 1. Business", &["4-6, 8–10"]),
    ("Item 1A. Risk Factors", &["12"]),
    ("Item 1B. Unresolved Staff Comments", &["Not applicable"]),
    ("Item 2. Properties", &["7"]),
    ("Item 3. Legal Proceedings", &["Note 12, page 18"]),
    ("PART II", &[]),
    (
        "Item 7. Management's Discussion and Analysis of Financial Condition and Results of",
        &[],
    ),
    ("Operations", &["5, 9, 14 - 16"]),
    (
        "Item 8. Financial Statements and Supplementary Data",
        &["17-20"],
    ),
    ("Item 9A. Controls and Procedures", &["3"]),
    ("PART III", &[]),
    (
        "Item 10. Directors, Executive Officers and Corporate Governance",
        &["(a)"],
    ),
    ("Item 16. Form 10-K Summary", &["None"]),
];

fn section_name(at: usize) -> String {
    [
        "in the north",
        "in the south",
        "at sea",
        "ashore",
        "abroad",
        "at home",
        "together",
        "alone",
    ][at / 3]
        .into()
}

/// A report of 22 pages with sections of its own; the index is on `page`.
fn report(page: usize) -> Doc {
    let mut doc = Doc::new(22);
    doc.add(0, line("FORM 10-K").size(16.0).bold());
    for at in (1..22).filter(|at| *at != page) {
        doc.section(
            at,
            &format!(
                "{} {}",
                ["Our year", "What we make", "Where we trade"][at % 3],
                section_name(at)
            ),
        );
        doc.add(at, line(&format!("{}", at + 1)).at(300.0, 770.0));
    }
    doc.add(
        page,
        line("Form 10-K Cross-Reference Index").size(16.0).bold(),
    );
    for (text, cells) in ROWS {
        doc.add(page, line(text).cells(cells));
    }
    doc.add(
        page,
        line("(a) Incorporated by reference to the proxy statement for the annual meeting."),
    );
    doc
}

#[test]
fn index_rows_locate_items() {
    for page in [1, 21] {
        let draft = outline(&report(page).source(), &StructureSettings::default()).unwrap();
        let rendered: Vec<String> = draft.cross_index.iter().map(render).collect();
        insta::allow_duplicates! { insta::assert_snapshot!(rendered.join("\n"), @r#"
        Some(1) 1 "Business" ["4-6", "8-10"] [] None
        Some(1) 1A "Risk Factors" ["12-12"] [] None
        Some(1) 1B "Unresolved Staff Comments" [] [] Some(NotApplicable)
        Some(1) 2 "Properties" ["7-7"] [] None
        Some(1) 3 "Legal Proceedings" ["18-18"] ["Note 12"] None
        Some(2) 7 "Management's Discussion and Analysis of Financial Condition and Results of Operations" ["5-5", "9-9", "14-16"] [] None
        Some(2) 8 "Financial Statements and Supplementary Data" ["17-20"] [] None
        Some(2) 9A "Controls and Procedures" ["3-3"] [] None
        Some(3) 10 "Directors, Executive Officers and Corporate Governance" [] [] Some(ByReference)
        Some(3) 16 "Form 10-K Summary" [] [] Some(NotApplicable)
        "#) };
    }
}

#[test]
fn footnote_marks_behind_page_references_are_read() {
    let mut doc = report(1);
    let rows = [
        ("Item 5. Market for Registrant's Common Equity", "18, 20*"),
        ("Item 11. Executive Compensation", "7†"),
        ("Item 12. Security Ownership", "*"),
        ("Item 15. Exhibits and Financial Statement Schedules", "21‡"),
    ];
    for (text, pages) in rows {
        doc.add(1, line(text).cells(&[pages]));
    }
    doc.add(
        1,
        line("* Incorporated by reference to the proxy statement."),
    );
    doc.add(1, line("‡ Includes the report of the auditors."));
    let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
    let rendered: Vec<String> = draft
        .cross_index
        .iter()
        .filter(|row| ["5", "11", "12", "15"].contains(&row.item.as_str()))
        .map(render)
        .collect();
    insta::assert_snapshot!(rendered.join("\n"), @r#"
    Some(3) 5 "Market for Registrant's Common Equity" ["18-18", "20-20"] [] Some(ByReference)
    Some(3) 11 "Executive Compensation" ["7-7"] [] None
    Some(3) 12 "Security Ownership" [] [] Some(ByReference)
    Some(3) 15 "Exhibits and Financial Statement Schedules" ["21-21"] [] None
    "#);
}

fn render(row: &IndexRow) -> String {
    let pages: Vec<_> = row
        .pages
        .iter()
        .map(|span| format!("{}-{}", span.start().get(), span.end().get()))
        .collect();
    format!(
        "{:?} {} {:?} {pages:?} {:?} {:?}",
        row.part, row.item, row.title, row.titles, row.note
    )
}

/// Form 10-Q has an Item 1 in each PART, and sections of a report may have titles of Items without their numbers.
#[test]
fn index_of_a_quarterly_report_has_both_parts() {
    let rows = [
        ("Part I", "", ""),
        ("Item 1.", "Financial Statements", "2-4"),
        ("Item 2.", "Management's Discussion and Analysis", "5-6"),
        (
            "Item 3.",
            "Quantitative and Qualitative Disclosures About Market Risk",
            "7",
        ),
        ("Item 4.", "Controls and Procedures", "8"),
        ("Part II", "", ""),
        ("Item 1.", "Legal Proceedings", "9"),
        ("Item 1A.", "Risk Factors", "10-11"),
        ("Item 2.", "Unregistered Sales of Equity Securities", "12"),
        ("Item 6.", "Exhibits", "13"),
    ];
    let mut doc = Doc::new(14);
    doc.add(0, line("FORM 10-Q").size(16.0).bold());
    for (number, title, pages) in rows.iter().filter(|(.., pages)| !pages.is_empty()) {
        let first: usize = pages.split('-').next().unwrap().parse().unwrap();
        assert!(number.starts_with("Item"));
        doc.section(first - 1, title);
    }
    for page in 1..13 {
        doc.prose(page, 10.0, 20);
        doc.add(page, line(&format!("{}", page + 1)).at(300.0, 770.0));
    }
    doc.add(
        13,
        line("Form 10-Q Cross-Reference Index").size(16.0).bold(),
    );
    for (number, title, pages) in rows {
        let text = format!("{number} {title}");
        let cells = [pages];
        doc.add(
            13,
            line(text.trim()).cells(if pages.is_empty() { &[] } else { &cells }),
        );
    }
    let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
    let items: Vec<(Option<u8>, &str)> = draft
        .cross_index
        .iter()
        .map(|row| (row.part, row.item.as_str()))
        .collect();
    let first = Some(1);
    let second = Some(2);
    assert_eq!(
        items,
        [
            (first, "1"),
            (first, "2"),
            (first, "3"),
            (first, "4"),
            (second, "1"),
            (second, "1A"),
            (second, "2"),
            (second, "6"),
        ]
    );
}

#[test]
fn index_is_one_section() {
    for page in [1, 21] {
        let draft = outline(&report(page).source(), &StructureSettings::default()).unwrap();
        let titles: Vec<&str> = draft
            .outline
            .entries()
            .iter()
            .map(|entry| entry.located.entry.title.as_str())
            .collect();
        assert!(
            titles
                .iter()
                .all(|title| !title.starts_with("Item") && !title.starts_with("PART")),
            "{titles:?}"
        );
        assert_eq!(
            titles
                .iter()
                .filter(|title| title.contains("Cross-Reference"))
                .count(),
            1
        );
        assert!(titles.len() >= 20, "{titles:?}");
    }
}

#[test]
fn toc_is_not_a_cross_index() {
    let mut doc = Doc::new(16);
    doc.add(0, line("FORM 10-K").size(16.0).bold());
    for (at, (text, cells)) in ROWS.iter().enumerate() {
        doc.add(1, line(text).cells(cells));
        doc.section(at + 2, text);
    }
    let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
    assert_eq!(draft.cross_index, []);
}

#[test]
fn page_references_are_split_from_cells() {
    let rendered = |cell: &str| {
        let (words, places) = split_page_references(cell);
        let places: Vec<String> = places.into_iter().map(|place| place.text).collect();
        format!("{words}|{}", places.join("|"))
    };
    for (cell, expected) in [
        ("4-6, 8–10 and 12", "|4-6|8–10|12"),
        ("Risk Factors, pages 12 to 15", "Risk Factors|12–15"),
        ("F-3–F-9", "|F-3–F-9"),
        ("Form 10-K", "Form 10-K|"),
        ("Note 12", "Note 12|"),
        ("Business ........ 14", "Business|14"),
        ("Properties", "Properties|"),
    ] {
        assert_eq!(rendered(cell), expected, "{cell}");
    }
}
