//! Contents that say something else than the body: links, pages or titles that are shifted.

use super::filing::{BREAK, bold, contents, report, text, tree};

/// Number, title and anchor.
const ITEMS: [(&str, &str, &str); 7] = [
    ("1", "Business", "a1"),
    ("1A", "Risk Factors", "a1a"),
    ("2", "Properties", "a2"),
    ("3", "Legal Proceedings", "a3"),
    (
        "7",
        "Management&#8217;s Discussion and Analysis of Financial Condition and Results of Operations",
        "a7",
    ),
    (
        "7A",
        "Quantitative and Qualitative Disclosures About Market Risk",
        "a7a",
    ),
    ("8", "Financial Statements and Supplementary Data", "a8"),
];

/// A row of the contents: number, title, printed page and anchor.
type Row = (String, &'static str, u32, &'static str);

/// A row for each Item with what the body has, for changes.
fn rows() -> Vec<Row> {
    let rows = (3..).zip(ITEMS);
    rows.map(|(page, (number, title, anchor))| (format!("Item {number}."), title, page, anchor))
        .collect()
}

/// Each Item is where its own heading is, and has its own title.
fn check_items_of_the_body(name: &str, rows: &[Row]) {
    let rows: Vec<(&str, &str, u32, &str)> = rows
        .iter()
        .map(|(number, title, page, anchor)| (number.as_str(), *title, *page, *anchor))
        .collect();
    let body: String = ITEMS
        .iter()
        .map(|(number, title, anchor)| {
            let heading = bold(&format!("Item {number}. {title}"));
            format!("<div id='{anchor}'></div>{heading}{}{BREAK}", text(title))
        })
        .collect();
    let tree = tree(&report(2023, &contents(&rows), &body));
    let found: Vec<(&str, String, u32, u32)> = tree
        .items
        .iter()
        .filter_map(|item| {
            let pages = item.pages?;
            let title = item.title.replace('’', "&#8217;");
            let number = item.number.as_str();
            Some((number, title, pages.start().get(), pages.end().get()))
        })
        .collect();
    let expected: Vec<(&str, String, u32, u32)> = (3..)
        .zip(ITEMS)
        .map(|(page, (number, title, _))| (number, title.to_owned(), page, page))
        .collect();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn links_to_the_next_item_do_not_shift_items() {
    let mut rows = rows();
    for (row, (.., next)) in rows.iter_mut().zip(ITEMS.into_iter().skip(1)) {
        row.3 = next;
    }
    check_items_of_the_body("each row leads to the next Item", &rows);
}

#[test]
fn printed_pages_of_the_next_item_do_not_shift_items() {
    let mut rows = rows();
    for row in &mut rows {
        row.2 += 1;
        row.3 = "";
    }
    check_items_of_the_body("each row has the page of the next Item", &rows);
}

#[test]
fn titles_of_the_next_item_do_not_shift_items() {
    let mut rows = rows();
    let following = (4..).zip(ITEMS.into_iter().skip(1));
    for (row, (at, (_, next, anchor))) in rows.iter_mut().zip(following) {
        row.1 = next;
        row.2 = at;
        row.3 = anchor;
    }
    check_items_of_the_body("each number has the title of the next Item", &rows);
}

#[test]
fn managements_discussion_is_never_delivered_as_legal_proceedings() {
    let mut rows = rows();
    rows[4].1 = "Legal Proceedings";
    rows[4].2 = 6;
    rows[4].3 = "a3";
    check_items_of_the_body("the row of Item 7 is that of Item 3", &rows);
}
