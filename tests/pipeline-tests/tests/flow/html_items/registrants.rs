//! Reports that several registrants file together.

use stemma_document::SectionTree;

use super::filing::{BREAK, bold, report, sections, text, tree};

const REGISTRANTS: [&str; 2] = ["Acme Holdings", "Acme Power Company"];
const FRONT: [&str; 4] = [
    "Item 1. Business",
    "Item 1A. Risk Factors",
    "Item 2. Properties",
    "Item 3. Legal Proceedings",
];
const FIGURES: [&str; 2] = [
    "Item 7. Management&#8217;s Discussion and Analysis",
    "Item 8. Financial Statements and Supplementary Data",
];
const BACK: [&str; 2] = [
    "Item 9. Changes in and Disagreements with Accountants",
    "Item 9A. Controls and Procedures",
];

/// A report whose cover names the registrants.
fn combined_report(body: &str) -> SectionTree {
    let cover = "<p align=center><b>ACME HOLDINGS</b></p><p align=center><b>ACME POWER COMPANY</b></p>\
        <p>This combined Form 10-K is separately filed by Acme Holdings and Acme Power Company. Each registrant files the information on \
        itself on its own behalf.</p>";
    let acme = "<p align=center><b>ACME CORP.</b></p>";
    tree(&report(2023, "", body).replacen(acme, cover, 1))
}

/// Items under the name of a registrant.
fn items_of(registrant: &str, headings: &[&str]) -> String {
    let sections: String = headings
        .iter()
        .map(|heading| {
            let topic = format!("{registrant} {heading}");
            format!("{}{}{BREAK}", bold(heading), text(&topic))
        })
        .collect();
    format!("<p align=center><b>{registrant}</b></p>{sections}")
}

/// Number and first page of each Item that is there, each of them once.
fn starts(tree: &SectionTree) -> Vec<(&str, u32)> {
    tree.items
        .iter()
        .filter_map(|item| Some((item.number.as_str(), item.pages?.start().get())))
        .collect()
}

/// Items whose end is in doubt: those that hold the headings of others.
fn in_doubt(tree: &SectionTree) -> Vec<&str> {
    tree.items
        .iter()
        .filter(|item| item.section.is_some() && item.boundary_unverifiable)
        .map(|item| item.number.as_str())
        .collect()
}

#[test]
fn items_for_all_registrants_hold_the_text_of_each() {
    let headings = [&FRONT[..], &FIGURES, &BACK].concat();
    let body: String = headings
        .iter()
        .map(|heading| {
            let of_each: String = REGISTRANTS
                .iter()
                .map(|registrant| {
                    format!(
                        "<p style='font-size:10pt'><b><i>{registrant}</i></b></p>{}",
                        text(&format!("{registrant} {heading}"))
                    )
                })
                .collect();
            format!("{}{of_each}{BREAK}", bold(heading))
        })
        .collect();
    let tree = combined_report(&body);
    let numbers = ["1", "1A", "2", "3", "7", "8", "9", "9A"];
    let expected: Vec<(&str, u32)> = numbers.into_iter().zip(2..).collect();
    assert_eq!(starts(&tree), expected);
    // Twice the tokens of a section with ten paragraphs.
    let alone = combined_report(&sections(&headings));
    for (item, alone) in tree.items.iter().zip(&alone.items) {
        assert_eq!(item.id, alone.id);
        assert_eq!(item.status, alone.status, "{}", item.id);
        assert!(!item.boundary_unverifiable, "{}", item.id);
        assert!(item.tokens * 10 >= alone.tokens * 19, "{}", item.id);
    }
}

#[test]
fn items_repeated_for_each_registrant_are_those_of_the_first() {
    let [first, second] = REGISTRANTS;
    let statements_repeated = format!(
        "{}{}{}{}",
        sections(&FRONT),
        items_of(first, &FIGURES),
        items_of(second, &FIGURES),
        sections(&BACK)
    );
    let expected = [
        ("1", 2),
        ("1A", 3),
        ("2", 4),
        ("3", 5),
        ("7", 6),
        ("8", 7),
        ("9", 10),
        ("9A", 11),
    ];
    let tree = combined_report(&statements_repeated);
    assert_eq!(starts(&tree), expected);
    assert_eq!(in_doubt(&tree), ["8"]);
    let all = [&FRONT[..], &FIGURES, &BACK].concat();
    let all_repeated = [items_of(first, &all), items_of(second, &all)].concat();
    let tree = combined_report(&all_repeated);
    let numbers = ["1", "1A", "2", "3", "7", "8", "9", "9A"];
    let expected: Vec<(&str, u32)> = numbers.into_iter().zip(2..).collect();
    assert_eq!(starts(&tree), expected);
    assert_eq!(in_doubt(&tree), ["9A"]);
    // The Items of the second registrant are sections.
    let titles = tree
        .walk()
        .map(|(_, section)| section.title.as_str())
        .filter(|title| *title == "Item 1A. Risk Factors");
    assert_eq!(titles.count(), 2);
}
