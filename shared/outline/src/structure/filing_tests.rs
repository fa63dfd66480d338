//! Items of filings that are set in other ways than most.

use super::fixture::{Doc, line, outline_of};

/// Pages and titles of the PARTs and Items in the outline.
fn items_of(doc: &Doc) -> Vec<(u32, String)> {
    let all = outline_of(doc).into_iter();
    all.filter(|(_, _, title)| {
        title.starts_with("PART") || title.to_uppercase().starts_with("ITEM")
    })
    .map(|(page, _, title)| (page, title))
    .collect()
}

fn found(items: &[(u32, &str)]) -> Vec<(u32, String)> {
    items
        .iter()
        .map(|(page, title)| (*page, (*title).to_owned()))
        .collect()
}

#[test]
fn text_may_begin_in_the_line_of_a_heading() {
    let mut doc = Doc::new(5);
    doc.add(0, line("FORM 10-K").size(14.0).bold());
    doc.prose(0, 10.0, 20);
    let words = "and we sold more anvils than in the year before ".repeat(9);
    for (page, heading) in [
        (1, "Item 1. Business."),
        (2, "Item 1A. Risk Factors."),
        (
            3,
            "ITEM 7. MANAGEMENT'S DISCUSSION AND ANALYSIS OF FINANCIAL CONDITION AND RESULTS OF OPERATIONS.",
        ),
    ] {
        doc.add(
            page,
            line(&format!("{heading} We made many {words}")).run_in(heading),
        );
        doc.prose(page, 10.0, 20);
    }
    doc.add(
        4,
        line("Item 8. Financial Statements and Supplementary Data").bold(),
    );
    doc.prose(4, 10.0, 20);
    let titles: Vec<String> = items_of(&doc)
        .into_iter()
        .map(|(_, title)| title.trim_end_matches('.').to_owned())
        .filter(|title| !title.starts_with("PART"))
        .collect();
    assert_eq!(
        titles,
        [
            "Item 1. Business",
            "Item 1A. Risk Factors",
            "ITEM 7. MANAGEMENT'S DISCUSSION AND ANALYSIS OF FINANCIAL CONDITION AND RESULTS OF OPERATIONS",
            "Item 8. Financial Statements and Supplementary Data",
        ]
    );
}

#[test]
fn items_may_be_in_another_order() {
    let mut doc = Doc::new(9);
    doc.add(0, line("FORM 10-K").size(14.0).bold());
    doc.prose(0, 10.0, 20);
    let items = [
        (1, "PART I"),
        (1, "Item 1. Business"),
        (2, "Item 3. Legal Proceedings"),
        (3, "Item 2. Properties"),
        (4, "PART II"),
        (4, "Item 7. Management's Discussion and Analysis"),
        (5, "Item 8. Financial Statements and Supplementary Data"),
        (6, "Item 9B. Other Information"),
    ];
    for (page, title) in items {
        doc.add(page, line(title).bold());
        if !title.starts_with("PART") {
            doc.prose(page, 10.0, 20);
        }
    }
    // Not the heading of the Item, which is in Part I.
    doc.add(7, line("Item 1A. Risk Factors").bold());
    doc.prose(7, 10.0, 20);
    let expected: Vec<(u32, &str)> = items
        .iter()
        .map(|(page, title)| (*page as u32 + 1, *title))
        .collect();
    let mut levels: Vec<(u32, String)> = outline_of(&doc)
        .into_iter()
        .filter(|(_, level, title)| {
            *level == 2 && title.starts_with("Item") || title.starts_with("PART")
        })
        .map(|(page, _, title)| (page, title))
        .collect();
    levels.retain(|(page, _)| *page < 8);
    assert_eq!(levels, found(&expected));
}

/// A filing whose Item 3 begins on page 4, and whose title `again` is at `y` on `page`.
fn with_repeat(again: &str, page: usize, y: f32) -> Doc {
    let mut doc = Doc::new(9);
    doc.add(0, line("FORM 10-K").size(14.0).bold());
    doc.prose(0, 10.0, 20);
    for (page, title) in [
        (1, "Item 1. Business"),
        (2, "Item 2. Properties"),
        (6, "Item 7. Management's Discussion and Analysis"),
        (7, "Item 9B. Other Information"),
    ] {
        doc.add(page, line(title).bold());
        doc.prose(page, 10.0, 20);
    }
    doc.prose(3, 10.0, 5);
    doc.add(3, line(""));
    doc.add(3, line("Item 3. Legal Proceedings").bold());
    doc.prose(3, 10.0, 12);
    for page in [4, 5] {
        doc.prose(page, 10.0, 20);
    }
    doc.add(page, line(again).bold().at(72.0, y));
    doc
}

#[test]
fn repeated_title_of_an_item_is_not_a_section() {
    for (again, page, y) in [
        ("Item 3. Legal Proceedings", 4, 60.0),
        ("Item 3. Legal Proceedings", 4, 760.0),
        ("ITEM 3: LEGAL PROCEEDINGS (continued)", 4, 60.0),
        ("Item 3 (continued)", 5, 60.0),
        ("Item 3. Legal Proceedings", 3, 40.0),
    ] {
        let items = items_of(&with_repeat(again, page, y));
        let third = |(_, title): &&(u32, String)| title.to_lowercase().starts_with("item 3");
        let pages: Vec<u32> = items.iter().filter(third).map(|(page, _)| *page).collect();
        assert_eq!(pages, [4], "{again} on page {page} at {y}: {items:?}");
    }
}

#[test]
fn other_titles_of_an_item_number_stay_sections() {
    let again = "Item 3. Defaults Upon Senior Securities";
    let items = items_of(&with_repeat(again, 5, 400.0));
    assert!(items.contains(&(6, again.to_owned())), "{items:?}");
}
