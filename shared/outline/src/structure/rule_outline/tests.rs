//! Outlines of whole documents with pages.

use super::super::fixture::{Doc, line};
use super::super::{StructureSettings, outline};
use super::*;

/// Page, level and title of every entry, and the method.
fn read_outline(doc: &Doc) -> (Vec<(u32, u16, String)>, Method) {
    let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
    (
        draft
            .outline
            .entries()
            .iter()
            .map(|e: &stemma_document::VerifiedEntry| {
                let entry = &e.located.entry;
                (
                    e.located.place.reading_order().0,
                    entry.level,
                    entry.title.clone(),
                )
            })
            .collect(),
        draft.method,
    )
}

fn titles(doc: &Doc) -> Vec<(u32, u16, String)> {
    read_outline(doc).0
}

fn expected(entries: &[(u32, u16, &str)]) -> Vec<(u32, u16, String)> {
    entries
        .iter()
        .map(|(page, level, title)| (*page, *level, (*title).to_string()))
        .collect()
}

const SECTIONS: [&str; 6] = [
    "Overview",
    "Business",
    "Risk Factors",
    "Results",
    "Liquidity",
    "Controls",
];

/// A document of six sections, one a page.
fn sections() -> Doc {
    let mut doc = Doc::new(6);
    for (page, title) in SECTIONS.iter().enumerate() {
        doc.section(page, title);
    }
    doc
}

fn six_sections() -> Vec<(u32, u16, String)> {
    SECTIONS
        .iter()
        .zip(1..)
        .map(|(title, page)| (page, 1, (*title).to_string()))
        .collect()
}

#[test]
fn embedded_outline_is_verified() {
    // Every outline is wrong in another way; the sections come out the same.
    type Bookmark = fn(usize) -> (String, u32);
    let cases: [(&str, Bookmark, Method); 6] = [
        (
            "good",
            |at| (SECTIONS[at].into(), at as u32 + 1),
            Method::Outline,
        ),
        (
            "all on page one",
            |at| (SECTIONS[at].into(), 1),
            Method::Outline,
        ),
        (
            "reversed",
            |at| (SECTIONS[5 - at].into(), 6 - at as u32),
            Method::Outline,
        ),
        (
            "no destinations",
            |at| (SECTIONS[at].into(), 0),
            Method::Outline,
        ),
        (
            "slides",
            |at| (format!("Slide {}", at + 1), at as u32 + 1),
            Method::Layout,
        ),
        (
            "files",
            |at| (format!("part{at}_final.docx"), at as u32 + 1),
            Method::Layout,
        ),
    ];
    for (name, bookmark, method) in cases {
        let mut doc = sections();
        for at in 0..6 {
            let (title, page) = bookmark(at);
            doc.bookmark(&title, 1, page);
        }
        assert_eq!(read_outline(&doc), (six_sections(), method), "{name}");
    }
}

/// A contents page and chapters behind it; `label` is what is printed next to the n-th.
fn with_contents(names: &[&str], label: impl Fn(usize) -> String) -> Doc {
    let mut doc = Doc::new(names.len() + 1);
    doc.add(0, line("CONTENTS").size(16.0).bold());
    for (at, name) in names.iter().enumerate() {
        doc.add(
            0,
            line(&format!(
                "{name} .............................. {}",
                label(at)
            )),
        );
    }
    for (at, name) in names.iter().enumerate() {
        doc.section(at + 1, name);
    }
    doc
}

#[test]
fn printed_toc_with_matching_titles_is_used() {
    let doc = with_contents(&SECTIONS, |at| format!("{}", at + 2));
    let (entries, method) = read_outline(&doc);
    assert_eq!(method, Method::PrintedContents);
    assert_eq!(entries.len(), 7);
    assert_eq!(entries[6], (7, 1, "Controls".into()));
}

#[test]
fn wrong_toc_is_rejected() {
    let doc = sections();
    let mut lies = Doc::new(7);
    lies.add(0, line("TABLE OF CONTENTS").size(16.0).bold());
    for page in ["3", "900", "4", "5", "2", "777"] {
        lies.add(
            0,
            line(&format!(
                "Item {page}. Topic {page} .................... {page}"
            )),
        );
    }
    for (at, title) in SECTIONS.iter().enumerate() {
        lies.section(at + 1, title);
    }
    let moved: Vec<_> = titles(&doc)
        .into_iter()
        .map(|(page, level, title)| (page + 1, level, title))
        .collect();
    assert_eq!(read_outline(&lies), (moved, Method::Layout));
    let draft = outline(&lies.source(), &StructureSettings::default()).unwrap();
    assert_eq!(draft.gaps[0].code, "structure.contents_rejected");
}

#[test]
fn links_disambiguate_equal_titles() {
    // Every chapter ends with a summary; the contents link to the last one only.
    let mut doc = Doc::new(8);
    doc.add(0, line("CONTENTS").size(16.0).bold());
    let rows = [
        ("Overview", 2),
        ("Business", 3),
        ("Results", 5),
        ("Summary", 8),
    ];
    for (title, page) in rows {
        let rect = doc.add(0, line(title));
        doc.link(0, rect, page);
    }
    for (page, title) in [
        (1, "Overview"),
        (2, "Business"),
        (4, "Results"),
        (7, "Summary"),
    ] {
        doc.section(page, title);
    }
    for page in [3, 5, 6] {
        doc.add(page, line("Summary").italic());
        doc.prose(page, 10.0, 6);
    }
    let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
    assert_eq!(draft.method, Method::ContentsLinks);
    let pages: Vec<_> = draft
        .outline
        .entries()
        .iter()
        .filter(|e: &&stemma_document::VerifiedEntry| {
            e.located.entry.evidence == EvidenceSource::ContentsLinks
        })
        .map(|e| e.located.place.reading_order().0)
        .collect();
    assert_eq!(pages, [2, 3, 5, 8]);
}

#[test]
fn chinese_chapters_and_sections_nest() {
    let names = [
        "第一章 公司概况",
        "第二章 风险因素",
        "第三章 管理层讨论与分析",
        "第四章 财务报表",
    ];
    let doc = with_contents(&names, |at| format!("{}", at + 2));
    let entries = titles(&doc);
    assert_eq!(
        entries.iter().skip(1).map(|e| e.0).collect::<Vec<_>>(),
        [2, 3, 4, 5]
    );
    let mut doc = Doc::new(2);
    for (page, title) in [(0, "第一章 公司概况"), (1, "第二章 风险因素")] {
        doc.add(page, line(title).size(16.0).bold());
        doc.prose(page, 10.0, 5);
        doc.add(page, line("一、基本情况").bold());
        doc.prose(page, 10.0, 5);
        doc.add(page, line("二、其他事项").bold());
        doc.prose(page, 10.0, 5);
    }
    assert_eq!(
        titles(&doc).iter().map(|e| e.1).collect::<Vec<_>>(),
        [1, 2, 2, 1, 2, 2]
    );
}

/// An annual report with a cover and these headings, two per page, with prose between them.
fn filing(headings: &[&str]) -> Doc {
    let mut doc = Doc::new(2 + headings.len());
    doc.add(0, line("FORM 10-K").size(14.0).bold());
    doc.add(0, line("Example Corporation").size(18.0).bold());
    doc.prose(1, 10.0, 10);
    for (at, heading) in headings.iter().enumerate() {
        doc.add(at + 2, line(heading).bold());
        doc.prose(at + 2, 10.0, 12);
    }
    doc
}

#[test]
fn item_styles() {
    let part = (3, 1, "PART I");
    let cases: [&[&str]; 5] = [
        &[
            "Item 1. Business",
            "Item 1A. Risk Factors",
            "Item 2. Properties",
            "Item 3. Legal Proceedings",
        ],
        &[
            "ITEM 1 — BUSINESS",
            "ITEM 1A — RISK FACTORS",
            "ITEM 2 — PROPERTIES",
            "ITEM 3 — LEGAL PROCEEDINGS",
        ],
        &[
            "Item 1. | Business",
            "Item 1A. | Risk Factors",
            "Item 2. | Properties",
            "Item 3. | Legal Proceedings",
        ],
        &[
            "1. Business",
            "1A. Risk Factors",
            "2. Properties",
            "3. Legal Proceedings",
        ],
        &[
            "I TEM 1. BUSINESS",
            "I TEM 1A. RISK FACTORS",
            "I TEM 2. PROPERTIES",
            "I TEM 3. LEGAL PROCEEDINGS",
        ],
    ];
    for headings in cases {
        let mut expected_entries = vec![part];
        expected_entries.extend(
            headings
                .iter()
                .zip(3..)
                .map(|(heading, page)| (page, 2, *heading)),
        );
        assert_eq!(
            titles(&filing(headings)),
            expected(&expected_entries),
            "{headings:?}"
        );
    }
}

#[test]
fn combined_items_and_missing_parts() {
    let mut doc = filing(&[
        "PART I",
        "Items 1 and 2. Business and Properties",
        "Item 3. Legal Proceedings",
        "Item 7. Management's Discussion and Analysis of Financial Condition and Results of Operations",
        "Item 8. Financial Statements and Supplementary Data",
        "SIGNATURES",
    ]);
    doc.add(3, line("Item 8 of this report has the statements."));
    doc.add(4, line("Item 7. Management's Discussion, as said before, in the part that follows here and goes on"));
    let entries = titles(&doc);
    let shape: Vec<(u32, u16)> = entries.iter().map(|e| (e.0, e.1)).collect();
    assert_eq!(
        shape,
        [(3, 1), (4, 2), (5, 2), (6, 1), (6, 2), (7, 2), (8, 1)]
    );
    assert_eq!(entries[3].2, "PART II");
}

#[test]
fn quarterly_report_repeats_item_numbers() {
    let mut doc = Doc::new(7);
    doc.add(0, line("FORM 10-Q").size(14.0).bold());
    doc.prose(0, 10.0, 8);
    let headings = [
        "PART I. FINANCIAL INFORMATION",
        "Item 1. Financial Statements",
        "Item 2. Management's Discussion and Analysis of Financial Condition and Results of Operations",
        "PART II. OTHER INFORMATION",
        "Item 1. Legal Proceedings",
        "Item 2. Unregistered Sales of Equity Securities and Use of Proceeds",
    ];
    for (at, heading) in headings.iter().enumerate() {
        doc.add(at + 1, line(heading).bold());
        doc.prose(at + 1, 10.0, 12);
    }
    assert_eq!(
        titles(&doc).iter().map(|e| (e.0, e.1)).collect::<Vec<_>>(),
        [(2, 1), (3, 2), (4, 2), (5, 1), (6, 2), (7, 2)]
    );
}

#[test]
fn officers_follow_the_last_item_of_their_part() {
    let mut doc = filing(&[
        "Item 1. Business",
        "Item 2. Properties",
        "Item 3. Legal Proceedings",
        "Item 4. Mine Safety Disclosures",
        "Item 5. Market for Registrant's Common Equity",
    ]);
    doc.section(5, "Information About Our Executive Officers");
    let officers = titles(&doc)
        .into_iter()
        .find(|entry| entry.2.contains("Executive Officers"));
    assert_eq!(officers.map(|entry| (entry.0, entry.1)), Some((6, 2)));
}

#[test]
fn caution_before_the_first_item_is_a_section() {
    let mut doc = filing(&[
        "Item 1. Business",
        "Item 1A. Risk Factors",
        "Item 2. Properties",
        "Item 3. Legal Proceedings",
    ]);
    doc.add(1, line("CAUTIONARY STATEMENT PURSUANT TO THE").bold());
    doc.add(1, line("LITIGATION REFORM ACT OF 1995").bold());
    doc.prose(1, 10.0, 8);
    let first = titles(&doc).into_iter().next();
    let title = "CAUTIONARY STATEMENT PURSUANT TO THE LITIGATION REFORM ACT OF 1995";
    assert_eq!(first, Some((2, 1, title.into())));
}

#[test]
fn second_report_is_a_section() {
    let mut doc = Doc::new(4);
    for (page, section) in SECTIONS.iter().enumerate().take(4) {
        let report = (1..3).contains(&page);
        let title = if report {
            "Report of Independent Auditors"
        } else {
            section
        };
        doc.section(page, title);
    }
    assert_eq!(titles(&doc).len(), 4);
}

#[test]
fn clauses_of_exhibits_take_no_room_from_the_body() {
    let mut doc = Doc::new(40);
    for page in 0..20 {
        doc.section(page, &format!("{} Sales", name_of(page)));
        doc.section(page, &format!("{} Costs", name_of(page)));
    }
    for page in 20..40 {
        doc.add(page, line("Exhibit 10.1").at(480.0, 40.0));
        if page == 20 {
            doc.add(page, line("SERVICES AGREEMENT").bold().at(250.0, 80.0));
        }
        for at in 0..6 {
            let number = (page - 20) * 6 + at + 1;
            doc.add(
                page,
                line(&format!("Section {number}. {} Duties", name_of(number))),
            );
            doc.prose(page, 10.0, 3);
        }
    }
    let entries = titles(&doc);
    let count = |word: &str| {
        entries
            .iter()
            .filter(|entry| entry.2.ends_with(word))
            .count()
    };
    assert_eq!(
        (count("Sales"), count("Costs"), count("Duties")),
        (20, 20, 120)
    );
}

/// A word of its own for each number.
fn name_of(number: usize) -> String {
    let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
    format!("M{}{}on", letter(number / 26), letter(number))
}

#[test]
fn announced_notes_are_below_their_heading() {
    let names = [
        "Balance Sheet",
        "Notes to Financial Statements",
        "Note 1. Basis",
        "Note 2. Leases",
        "Exhibits",
    ];
    let doc = with_contents(&names, |at| format!("{}", at + 2));
    let levels: Vec<u16> = titles(&doc).iter().skip(1).map(|entry| entry.1).collect();
    assert_eq!(levels, [1, 1, 2, 2, 1]);
}

#[test]
fn level_with_headings_on_most_pages_is_kept() {
    let mut doc = Doc::new(100);
    for page in 0..55 {
        doc.section(page, &format!("{} Segment", name_of(page)));
    }
    for page in 55..95 {
        doc.add(page, line(&format!("{} Topic", name_of(page))).bold());
        doc.add(page, line("A list"));
        doc.prose(page, 10.0, 8);
    }
    let topics = titles(&doc)
        .iter()
        .filter(|entry| entry.2.ends_with("Topic"))
        .count();
    assert_eq!(topics, 40);
}

#[test]
fn bold_level_may_exceed_the_budget() {
    let mut doc = Doc::new(100);
    for page in 0..60 {
        doc.section(page, &format!("{} Segment", name_of(page)));
    }
    for at in 0..80 {
        doc.add(60 + at / 2, line(&format!("{} Topic", name_of(at))).bold());
        doc.add(60 + at / 2, line("A list"));
        doc.prose(60 + at / 2, 10.0, 8);
    }
    let topics = titles(&doc)
        .iter()
        .filter(|entry| entry.2.ends_with("Topic"))
        .count();
    assert_eq!(topics, 80);
}

#[test]
fn current_report_with_exhibit() {
    let mut doc = Doc::new(4);
    doc.add(0, line("FORM 8-K").size(14.0).bold());
    doc.prose(0, 10.0, 8);
    doc.section(
        1,
        "Item 2.02. Results of Operations and Financial Condition.",
    );
    doc.section(1, "Item 9.01 Financial Statements and Exhibits");
    doc.section(2, "SIGNATURE");
    doc.add(3, line("Exhibit 99.1").at(480.0, 40.0));
    doc.section(3, "Company Reports Results");
    let shape: Vec<_> = titles(&doc).iter().map(|e| (e.0, e.1)).collect();
    assert_eq!(shape, [(2, 1), (2, 1), (3, 1), (4, 1), (4, 2)]);
}

#[test]
fn lone_capital_title_is_a_sibling() {
    let mut doc = Doc::new(4);
    for (page, title) in ["Competition", "OVERVIEW", "Results", "Liquidity"]
        .iter()
        .enumerate()
    {
        doc.section(page, title);
    }
    assert!(titles(&doc).iter().all(|entry| entry.1 == 1));
}

/// Sections of a filing, the second with `labels` headings in the size of the text; twelve lines of text below each.
fn long_section(labels: &[(String, bool)]) -> Doc {
    let mut doc = Doc::new(40);
    doc.section(0, "Business");
    doc.section(1, "Risks");
    let step = 2;
    for (at, (label, italic)) in labels.iter().enumerate() {
        let text = line(label).bold();
        doc.add(2 + at / step, if *italic { text.italic() } else { text });
        doc.prose(2 + at / step, 10.0, 14);
    }
    for (page, title) in (38..40).zip(["Results", "Liquidity"]) {
        doc.section(page, title);
    }
    doc
}

#[test]
fn long_leaves_are_divided_where_the_budget_leaves_headings_out() {
    // Sentences in a long series are not sections of their own, but divide a section that is too large.
    let risks: Vec<(String, bool)> = (0..60)
        .map(|at| {
            (
                format!("Our suppliers in region {at} may fail and harm our business."),
                true,
            )
        })
        .collect();
    let long = titles(&long_section(&risks));
    assert_eq!(long.len(), 4 + 60);
    assert!(long.iter().filter(|entry| entry.1 == 2).count() == 60);
    let short = titles(&long_section(&risks[..14]));
    assert_eq!(
        short,
        expected(&[
            (1, 1, "Business"),
            (2, 1, "Risks"),
            (39, 1, "Results"),
            (40, 1, "Liquidity")
        ])
    );
}

#[test]
fn look_of_listed_heading_counts_in_its_section_only() {
    // The outline lists headings of 12 points below `Alpha`. Below `Beta`, a heading of this look between larger ones is
    // one of their sub-sections.
    let mut doc = Doc::new(7);
    doc.bookmark("Alpha", 1, 1);
    doc.section(0, "Alpha");
    for (page, title) in [(1, "Apples"), (2, "Pears")] {
        doc.bookmark(title, 2, page as u32 + 1);
        doc.add(page, line(title).size(12.0).bold());
        doc.prose(page, 10.0, 8);
    }
    doc.add(2, line("Plums").size(12.0).bold());
    doc.prose(2, 10.0, 8);
    doc.bookmark("Beta", 1, 4);
    doc.section(3, "Beta");
    doc.add(4, line("Meat").size(13.0).bold());
    doc.prose(4, 10.0, 8);
    doc.add(5, line("Fish").size(12.0).bold());
    doc.prose(5, 10.0, 8);
    doc.add(6, line("Soup").size(13.0).bold());
    doc.prose(6, 10.0, 8);
    assert_eq!(
        titles(&doc),
        expected(&[
            (1, 1, "Alpha"),
            (2, 2, "Apples"),
            (3, 2, "Pears"),
            (3, 2, "Plums"),
            (4, 1, "Beta"),
            (5, 2, "Meat"),
            (6, 3, "Fish"),
            (7, 2, "Soup"),
        ])
    );
}

#[test]
fn pages_without_headings_become_windows() {
    let mut doc = Doc::new(30);
    for page in 0..30 {
        doc.add(
            page,
            line(&format!("page {page} starts here and goes on for a while")),
        );
        doc.prose(page, 10.0, 30);
    }
    let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
    assert_eq!(draft.method, Method::Windows);
    assert!(
        draft
            .outline
            .entries()
            .iter()
            .all(|e| e.verdict == EntryVerdict::Declared)
    );
    assert!(draft.gaps.iter().all(|gap| gap.code == "structure.windows"));
    assert_eq!(draft.outline.accuracy(), 1.0);
}

#[test]
fn hostile_sources_are_bounded() {
    let mut doc = Doc::new(3);
    doc.add(0, line("Contents").size(16.0));
    doc.add(0, line(&format!("Title {} 7", ".".repeat(10_000_000))));
    doc.add(1, line(&"1.".repeat(300_000)));
    doc.add(1, line(&"word ".repeat(1_000_000)));
    for at in 0..20_000 {
        doc.bookmark(&format!("Entry {}", at % 7), 1 + (at % 900) as u16, at % 4);
    }
    assert!(outline(&doc.source(), &StructureSettings::default()).is_ok());
    assert!(titles(&Doc::new(0)).is_empty() && titles(&Doc::new(2)).is_empty());
}

#[test]
fn items_that_share_one_answer_are_sections() {
    let mut doc = filing(&[
        "PART II",
        "Item 8. Financial Statements and Supplementary Data",
        "Item 9. Changes in and Disagreements with Accountants on Accounting and Financial Disclosure",
        "PART III",
        "PART IV",
        "Item 15. Exhibits and Financial Statement Schedules",
        "SIGNATURES",
    ]);
    for heading in [
        "Item 10. Directors, Executive Officers and Corporate Governance",
        "Item 11. Executive Compensation",
        "Item 12. Security Ownership of Certain Beneficial Owners and Management",
        "Item 13. Certain Relationships and Related Transactions",
    ] {
        doc.add(5, line(heading).bold());
    }
    doc.add(5, line("The information called for by Items 10, 11, 12 and 13 is incorporated by reference to the Proxy Statement."));
    let entries = titles(&doc);
    let shape: Vec<(u32, u16)> = entries.iter().map(|e| (e.0, e.1)).collect();
    let expected = [
        (3, 1),
        (4, 2),
        (5, 2),
        (6, 1),
        (6, 2),
        (6, 2),
        (6, 2),
        (6, 2),
        (7, 1),
        (8, 2),
        (9, 1),
    ];
    assert_eq!(shape, expected);
}
