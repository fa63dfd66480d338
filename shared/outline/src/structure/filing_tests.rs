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

/// A filing whose Item 3 begins right below a line of text, and whose title `again` stands at `y` on the page behind.
fn with_repeat(again: &str, y: f32) -> Doc {
    let mut doc = Doc::new(9);
    doc.add(0, line("FORM 10-K").size(14.0).bold());
    doc.prose(0, 10.0, 20);
    for (page, title) in [(1, "Item 1. Business"), (2, "Item 2. Properties")] {
        doc.add(page, line(title).bold());
        doc.prose(page, 10.0, 20);
    }
    doc.prose(3, 10.0, 3);
    doc.add(3, line("We own them all."));
    let above = doc.add(3, line("No forge is leased."));
    doc.add(
        3,
        line("Item 3. Legal Proceedings")
            .bold()
            .at(72.0, above.y1.points() + 2.0),
    );
    doc.add(3, line(""));
    doc.prose(3, 10.0, 12);
    for page in [4, 5] {
        doc.prose(page, 10.0, 20);
    }
    doc.add(4, line(again).bold().at(72.0, y));
    for (page, title) in [
        (6, "Item 7. Management's Discussion and Analysis"),
        (7, "Item 9B. Other Information"),
    ] {
        doc.add(page, line(title).bold());
        doc.prose(page, 10.0, 20);
    }
    doc
}

#[test]
fn running_head_of_a_short_item_is_no_heading() {
    for (again, y) in [
        ("Item 3. Legal Proceedings", 60.0),
        ("ITEM 3: LEGAL PROCEEDINGS (continued)", 60.0),
        ("Item 3. Legal Proceedings", 760.0),
    ] {
        let items = items_of(&with_repeat(again, y));
        let third: Vec<u32> = items
            .iter()
            .filter(|(_, title)| title.to_lowercase().starts_with("item 3"))
            .map(|(page, _)| *page)
            .take(1)
            .collect();
        assert_eq!(third, [4], "{again} at {y}: {items:?}");
    }
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
fn body_may_begin_on_the_page_of_the_contents() {
    let mut doc = Doc::new(9);
    doc.add(0, line("FORM 10-Q").size(14.0).bold());
    doc.prose(0, 10.0, 20);
    let items = [
        (1, "PART I. FINANCIAL INFORMATION", 1),
        (1, "Item 1. Financial Statements", 1),
        (3, "Item 2. Management's Discussion and Analysis", 3),
        (4, "Item 4. Controls and Procedures", 4),
        (5, "PART II. OTHER INFORMATION", 5),
        (5, "Item 1. Legal Proceedings", 5),
        (6, "Item 1A. Risk Factors", 6),
        (7, "Item 6. Exhibits", 7),
    ];
    doc.add(1, line("TABLE OF CONTENTS").bold());
    for (_, title, label) in items {
        doc.add(1, line(title).cells(&[&label.to_string()]));
    }
    for (page, title, _) in items {
        doc.add(page, line(title).bold());
        if page == 1 {
            for (row, figure) in [
                ("Net sales", "94"),
                ("Cost of sales", "50"),
                ("Net income", "23"),
            ] {
                doc.add(page, line(row).cells(&[figure]));
            }
        } else if !title.starts_with("PART") {
            doc.prose(page, 10.0, 20);
        }
    }
    let expected: Vec<(u32, &str)> = items
        .iter()
        .map(|(page, title, _)| (*page as u32 + 1, *title))
        .collect();
    assert_eq!(items_of(&doc), found(&expected));
}

#[test]
fn items_may_stand_in_another_order() {
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
    // Not the heading of the Item, which stands in Part I.
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
