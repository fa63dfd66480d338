//! Sections that forms prescribe without a number, which are Items with a name.

use super::filing::{BREAK, bold, items, text, tree};

const STATEMENT: &[&str] = &[
    "As filed with the Securities and Exchange Commission on March 3, 2021",
    "FORM S-1",
    "ACME ANVILS, INC.",
];
const PROSPECTUS: &[&str] = &[
    "Filed Pursuant to Rule 424(b)(4)",
    "Registration No. 333-1",
    "PROSPECTUS",
];
const PROXY: &[&str] = &[
    "UNITED STATES SECURITIES AND EXCHANGE COMMISSION",
    "SCHEDULE 14A",
    "☐ Preliminary Proxy Statement",
    "☒ Definitive Proxy Statement",
];

/// A cover, contents if wanted, and a page for each section. Links lead to the sections.
fn document(cover: &[&str], titles: &[&str], contents: Option<bool>) -> String {
    let cover: String = cover.iter().map(|line| bold(line)).collect();
    let row = |(at, title): (usize, &&str)| {
        let title = match contents {
            Some(true) => format!("<a href='#s{at}'>{title}</a>"),
            _ => (*title).to_owned(),
        };
        format!("<tr><td>{title}</td><td>{}</td></tr>", 3 * at + 1)
    };
    let rows: String = titles.iter().enumerate().map(row).collect();
    let list = contents.map_or_else(String::new, |_| {
        format!("{}<table>{rows}</table>{BREAK}", bold("TABLE OF CONTENTS"))
    });
    let sections: Vec<String> = titles
        .iter()
        .enumerate()
        .map(|(at, title)| format!("<div id='s{at}'>{}{}</div>", bold(title), text(title)))
        .collect();
    format!(
        "<html><body>{cover}{BREAK}{list}{}</body></html>",
        sections.join(BREAK)
    )
}

/// Ids and statuses without the pages.
fn without_pages(found: &[String]) -> Vec<&str> {
    found
        .iter()
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect()
}

#[test]
fn sections_of_a_registration_statement_have_names() {
    let titles = [
        "Summary",
        "Certain Risk Factors",
        "Use of Net Proceeds",
        "Our History",
        "Management’s Discussion and Analysis",
        "Our Business",
        "Certain U.S. Federal Income Tax Considerations",
        "Underwriting",
    ];
    for contents in [Some(true), Some(false), None] {
        let found = items(&document(STATEMENT, &titles, contents));
        let page = |line: &str| {
            line.rsplit(' ')
                .next()
                .and_then(|page| page.parse::<u32>().ok())
        };
        let first = found
            .first()
            .and_then(|line| page(line))
            .expect("there are Items");
        let expected = [
            ("prospectus-summary", 0),
            ("risk-factors", 1),
            ("use-of-proceeds", 2),
            ("managements-discussion-and-analysis", 4),
            ("business", 5),
            ("taxation", 6),
            ("underwriting", 7),
        ];
        let expected = expected.map(|(name, page)| format!("S-1.{name} full {}", first + page));
        assert_eq!(found, expected, "{contents:?}");
    }
}

#[test]
fn a_section_that_no_title_names_is_absent() {
    let html = document(
        STATEMENT,
        &["Risk Factors", "Proceeds", "Experts and their uses"],
        Some(true),
    );
    let tree = tree(&html);
    let status = |name: &str| {
        let mut named = tree.items.iter().filter(|item| item.number == name);
        named.next().map(|item| item.status.as_str())
    };
    assert_eq!(status("risk-factors"), Some("full"));
    assert_eq!(status("use-of-proceeds"), Some("absent"));
    // The form does not require it of all filers.
    assert_eq!(status("experts"), None);
}

#[test]
fn a_summary_names_sections_again() {
    let titles = [
        "Prospectus Summary",
        "The Offering",
        "Use of proceeds",
        "Risk factors",
        "Dividend policy",
        "Risk Factors",
        "Dilution",
    ];
    for contents in [Some(true), None] {
        let found = items(&document(PROSPECTUS, &titles, contents));
        assert_eq!(
            without_pages(&found),
            [
                "424B4.prospectus-summary full",
                "424B4.the-offering full",
                "424B4.risk-factors full",
                "424B4.dilution full"
            ],
            "{contents:?}"
        );
    }
}

#[test]
fn proposals_have_the_names_of_their_subjects() {
    let titles = [
        "Proposal No. 1 – Election of Directors",
        "Proposal No. 2 – Advisory Vote on the Frequency of Advisory Votes on Executive Compensation",
        "Proposal No. 3 – Advisory Vote to Approve Executive Compensation",
        "Compensation Discussion & Analysis",
        "Proposal Four: Ratification of the Appointment of our Independent Auditors",
    ];
    let found = items(&document(PROXY, &titles, None));
    assert_eq!(
        without_pages(&found),
        [
            "DEF 14A.election-of-directors full",
            "DEF 14A.say-on-frequency full",
            "DEF 14A.say-on-pay full",
            "DEF 14A.ratification-of-auditors full",
            "DEF 14A.compensation-discussion-and-analysis full"
        ]
    );
}

#[test]
fn names_that_several_sections_share_are_in_doubt() {
    let cover = ["Filed Pursuant to Rule 497(c)", "ACME FUNDS", "PROSPECTUS"];
    let titles = [
        "Acme Growth Fund",
        "Investment Objective",
        "Acme Value Fund",
        "Investment Objective",
    ];
    let found = items(&document(&cover, &titles, None));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("497.investment-objective? full"),
        "{found:?}"
    );
}

#[test]
fn schedules_have_the_items_of_their_instructions() {
    let cover = [
        "UNITED STATES SECURITIES AND EXCHANGE COMMISSION",
        "SCHEDULE 13D",
        "(Amendment No. 2)*",
    ];
    let titles = [
        "Item 1. Security and Issuer",
        "Item 4. Purpose of Transaction",
        "Item 7. Material to be Filed as Exhibits",
    ];
    let found = items(&document(&cover, &titles, None));
    assert_eq!(
        without_pages(&found),
        ["SC 13D.1 full", "SC 13D.4 full", "SC 13D.7 full"]
    );
}

#[test]
fn the_index_of_a_prospectus_holds_its_statements() {
    let titles = [
        "Risk Factors",
        "Experts",
        "Index to Financial Statements",
        "Report of Independent Registered Public Accounting Firm",
        "Balance Sheets",
        "Notes to Financial Statements",
    ];
    for contents in [Some(true), Some(false), None] {
        let tree = tree(&document(STATEMENT, &titles, contents));
        let index = tree
            .walk()
            .find(|(_, section)| section.title.to_lowercase().starts_with("index to"));
        let (_, index) = index.expect("there is an index");
        let held: Vec<String> = index
            .children
            .iter()
            .map(|child| child.title.to_lowercase())
            .collect();
        assert_eq!(held.len(), 3, "{contents:?} {held:?}");
    }
}
