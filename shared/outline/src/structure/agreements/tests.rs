//! Agreements and their clauses.

use super::super::fixture::{Doc, line};
use super::*;

/// Two agreements, the second with its title repeated and an annex; page by page.
fn bundle() -> Doc {
    let mut doc = Doc::new(4);
    let pages: [&[&str]; 4] = [
        &[
            "ARTICLE I",
            "Section 1.01 Terms",
            "Section 1.02 Rates",
            "Section 2.07 of the other agreement",
        ],
        &[
            "Section 1. Amendments. The parties agree as follows",
            "Section 2. Fees",
        ],
        &["Section 3. Law"],
        &["Section 1. Payment", "Section 2. Transfer"],
    ];
    let titles = [
        Some("CREDIT AGREEMENT"),
        Some("FIRST AMENDMENT"),
        Some("FIRST AMENDMENT"),
        Some("EXHIBIT A"),
    ];
    for (page, (lines, title)) in pages.iter().zip(titles).enumerate() {
        title.iter().for_each(|title| {
            doc.add(page, line(title).bold().at(264.0, 80.0));
        });
        for text in *lines {
            doc.add(page, line(text));
            doc.prose(page, 10.0, 4);
        }
    }
    doc
}

fn clauses_of(doc: &Doc) -> Vec<String> {
    let source = doc.source();
    let lines = LineTable::new(doc.pages(&source));
    let none = vec![false; lines.rows.len()];
    find_clauses(&lines, 0..lines.rows.len(), &none)
        .into_iter()
        .map(|clause| format!("{} {}", clause.depth, clause.title))
        .collect()
}

#[test]
fn agreement_starts_where_numbering_restarts() {
    let doc = bundle();
    let source = doc.source();
    let lines = LineTable::new(doc.pages(&source));
    let pages: Vec<u32> = agreement_titles(&lines, 0..lines.rows.len())
        .iter()
        .map(|at| lines.rows[*at].page)
        .collect();
    assert_eq!(pages, [0, 1]);
}

#[test]
fn mentions_do_not_continue_numbering() {
    let doc = bundle();
    let source = doc.source();
    let lines = LineTable::new(doc.pages(&source));
    let none = vec![false; lines.rows.len()];
    let read = |from: usize, to: usize| -> Vec<String> {
        let rows = lines.rows_on(from).start..lines.rows_on(to).end;
        find_clauses(&lines, rows, &none)
            .into_iter()
            .map(|clause| format!("{} {}", clause.depth, clause.title))
            .collect()
    };
    assert_eq!(
        read(0, 0),
        [
            "1 ARTICLE I",
            "2 Section 1.01 Terms",
            "2 Section 1.02 Rates"
        ]
    );
    assert_eq!(
        read(1, 3),
        [
            "2 Section 1. Amendments",
            "2 Section 2. Fees",
            "2 Section 3. Law",
            "0 EXHIBIT A",
            "2 Section 1. Payment",
            "2 Section 2. Transfer"
        ]
    );
}

#[test]
fn sections_of_an_indenture_count_by_hundreds() {
    let mut doc = Doc::new(1);
    for text in [
        "ARTICLE ONE",
        "Section 101. Terms. The parties agree as follows and",
        "Section 103. Rates. The rates are those of the schedule and",
        "Section 501 of the other agreement",
        "ARTICLE TWO",
        "Section 201. Law. The law of the state applies to it and",
    ] {
        doc.add(0, line(text));
        doc.prose(0, 10.0, 2);
    }
    let source = doc.source();
    let lines = LineTable::new(doc.pages(&source));
    let none = vec![false; lines.rows.len()];
    let clauses = find_clauses(&lines, 0..lines.rows.len(), &none);
    let titles: Vec<&str> = clauses.iter().map(|clause| clause.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "ARTICLE ONE",
            "Section 101. Terms",
            "Section 103. Rates",
            "ARTICLE TWO",
            "Section 201. Law"
        ]
    );
}

#[test]
fn plain_numbers_begin_anew_in_each_article_of_by_laws() {
    let mut doc = Doc::new(2);
    doc.add(0, line("BY-LAWS").bold().at(280.0, 80.0));
    for (page, article) in ["ARTICLE I OFFICES", "ARTICLE II MEETINGS"]
        .iter()
        .enumerate()
    {
        doc.add(page, line(article).bold());
        for (at, name) in ["Place", "Notice", "Quorum"].iter().enumerate() {
            let text = format!(
                "{}. {name}. The board may decide on the following matters and",
                at + 1
            );
            doc.add(page, line(&text));
            doc.prose(page, 10.0, 3);
            doc.add(page, line("4. A list inside the section").indent(30.0));
        }
        // A numbered paragraph without a title.
        doc.add(page, line("4. the board may from time to time decide on all other matters that it sees fit to"));
        doc.prose(page, 10.0, 3);
    }
    let wanted = ["Place", "Notice", "Quorum"]
        .iter()
        .zip(1..)
        .map(|(name, at)| format!("2 {at}. {name}"));
    let mut expected: Vec<String> = Vec::new();
    for article in ["1 ARTICLE I OFFICES", "1 ARTICLE II MEETINGS"] {
        expected.push(article.to_string());
        expected.extend(wanted.clone());
    }
    assert_eq!(clauses_of(&doc), expected);
}

#[test]
fn contents_with_two_page_numbers_are_no_clauses() {
    let sections = [
        "ARTICLE I TERMS",
        "Section 1.01 Rates",
        "Section 1.02 Payments",
    ];
    let mut doc = Doc::new(2);
    for (at, text) in sections.iter().enumerate() {
        doc.add(0, line(&format!("{text} {}{}", at + 13, at + 16)));
        doc.add(1, line(text));
        doc.prose(1, 10.0, 3);
    }
    assert_eq!(
        clauses_of(&doc),
        [
            "1 ARTICLE I TERMS",
            "2 Section 1.01 Rates",
            "2 Section 1.02 Payments"
        ]
    );
    let source = doc.source();
    let lines = LineTable::new(doc.pages(&source));
    let none = vec![false; lines.rows.len()];
    let clauses = find_clauses(&lines, 0..lines.rows.len(), &none);
    assert!(
        clauses
            .iter()
            .all(|clause| lines.rows[clause.rows.0].page == 1)
    );
}

#[test]
fn lists_in_numbered_sections_are_no_clauses() {
    let mut doc = Doc::new(1);
    for text in [
        "ARTICLE I",
        "Section 1.01 Terms",
        "2. First part",
        "Section 1.02 Rates",
        "3. Second part",
    ] {
        doc.add(0, line(text));
        doc.prose(0, 10.0, 2);
    }
    assert_eq!(
        clauses_of(&doc),
        [
            "1 ARTICLE I",
            "2 Section 1.01 Terms",
            "2 Section 1.02 Rates"
        ]
    );
}

/// Agreements without contents, as filers number them; at least nine of ten clauses are found in each.
#[test]
fn clauses_of_agreements_without_contents_are_found() {
    const NAMES: [&str; 12] = [
        "Definitions",
        "Services",
        "Term",
        "Fees",
        "Expenses",
        "Confidential Information",
        "Intellectual Property",
        "Indemnification",
        "Limitation of Liability",
        "Notices",
        "Governing Law",
        "Counterparts",
    ];
    // How each style prints the number of a clause, and whether the title is followed by its text on the same line.
    type Number = fn(usize) -> String;
    let styles: [(&str, Number, bool); 6] = [
        ("plain, run-in", |at| format!("{}.", at + 1), true),
        ("plain, alone", |at| format!("{}.", at + 1), false),
        ("section, run-in", |at| format!("Section {}.", at + 1), true),
        (
            "section, capitals",
            |at| format!("SECTION {}.", at + 1),
            false,
        ),
        (
            "by article",
            |at| format!("{}.{:02}", at / 4 + 1, at % 4 + 1),
            true,
        ),
        ("plain in articles", |at| format!("{}.", at % 4 + 1), true),
    ];
    for (style, number, is_run_in) in styles {
        let mut doc = Doc::new(6);
        doc.add(0, line("SERVICES AGREEMENT").bold().at(250.0, 80.0));
        for (at, name) in NAMES.iter().enumerate() {
            let page = at / 2;
            if style.ends_with("article") || style.ends_with("articles") {
                let article = ["ARTICLE I", "ARTICLE II", "ARTICLE III"];
                if at % 4 == 0 {
                    doc.add(page, line(article[at / 4]).bold());
                }
            }
            let text = if is_run_in {
                ". Subject to the terms of this agreement the parties agree that"
            } else {
                ""
            };
            doc.add(page, line(&format!("{} {name}{text}", number(at))));
            doc.prose(page, 10.0, 3);
            // A citation and a list.
            doc.add(page, line("Section 7 of the other agreement does not apply to the services of the company"));
            doc.add(page, line("1. first part of a list").indent(36.0));
            doc.prose(page, 10.0, 2);
        }
        let clauses = clauses_of(&doc);
        let found = NAMES
            .iter()
            .filter(|name| clauses.iter().any(|clause| clause.ends_with(*name)));
        assert!(
            found.count() * 10 >= NAMES.len() * 9,
            "{style}: {clauses:?}"
        );
        assert!(clauses.len() <= NAMES.len() + 4, "{style}: {clauses:?}");
    }
}

#[test]
fn plain_numbers_of_a_contract_are_clauses() {
    let names = ["Services", "Term", "Fees", "Notices", "Law", "Counterparts"];
    let mut doc = Doc::new(2);
    doc.add(0, line("CONSULTING AGREEMENT").bold().at(257.0, 80.0));
    for (at, name) in names.iter().enumerate() {
        let text = format!(
            "{}. {name}. The parties agree on the following terms of",
            at + 1
        );
        doc.add(at / 3, line(&text));
        doc.prose(at / 3, 10.0, 3);
        // A list inside the clause counts for itself.
        doc.add(at / 3, line("1. First part").indent(30.0));
        doc.add(at / 3, line("2. Second part").indent(30.0));
        doc.prose(at / 3, 10.0, 2);
    }
    let source = doc.source();
    let lines = LineTable::new(doc.pages(&source));
    assert_eq!(agreement_titles(&lines, 0..lines.rows.len()), [0]);
    let none = vec![false; lines.rows.len()];
    let clauses = find_clauses(&lines, 0..lines.rows.len(), &none);
    let titles: Vec<String> = clauses.into_iter().map(|clause| clause.title).collect();
    let wanted = names
        .iter()
        .zip(1..)
        .map(|(name, at)| format!("{at}. {name}"));
    assert_eq!(titles, wanted.collect::<Vec<_>>());
}
