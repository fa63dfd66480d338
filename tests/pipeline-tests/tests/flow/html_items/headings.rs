//! What is the heading of an Item, and what is not.

use super::filing::{BREAK, bold, check, contents, found, report, sections, text, tree};

#[test]
fn titles_of_any_length_and_punctuation_are_headings() {
    let long = "Item 5. Market for Registrant&#8217;s Common Equity, Related Stockholder Matters, Issuer Purchases of Equity Securities and Certain Other Information about the Securities of the Registrant";
    check(
        &report(
            2024,
            "",
            &sections(&[
                "Item 1: Business",
                "Item No. 2. Properties",
                "Item 3 &#8212; Legal Proceedings",
                long,
                "Item&#160;7.&#160;&#160;&#160;Management&#8217;s Discussion and Analysis",
            ]),
        ),
        &[
            ("1", "full", "Item 1: Business"),
            ("2", "full", "Item No. 2."),
            ("3", "full", "Item 3 &#8212;"),
            ("5", "full", "Item 5. Market"),
            (
                "7",
                "full",
                "Item&#160;7.&#160;&#160;&#160;Management&#8217;s Discussion and",
            ),
        ],
    );
}

#[test]
fn headings_over_lines_cells_and_spans_are_one() {
    let body = format!(
        "<p>PART II</p><p><b>Item 7. Management&#8217;s Discussion and Analysis of<br>Financial Condition and Results of Operations</b></p>{}{BREAK}\
         <table width='100%'><tr valign=top><td width='12%'><b>Item 7A.</b></td><td><b>Quantitative and Qualitative Disclosures<br>About Market Risk</b></td></tr></table>{}{BREAK}\
         <div><span><span style='font-weight:700;font-size:10pt'>Item 8. </span></span><span style='font-weight:700;font-size:10pt'>Financial Statements and Supplementary Data</span></div>{}",
        text("it"),
        text("it"),
        text("it")
    );
    check(
        &report(2024, "", &body),
        &[
            ("7", "full", "Item 7. Management&#8217;s"),
            ("7A", "full", "Item 7A. Quantitative"),
            ("8", "full", "Item 8. Financial"),
        ],
    );
}

#[test]
fn cells_of_a_heading_with_different_links_are_one_heading() {
    let rows = [
        ("Item 1.", "Business", "a"),
        ("Item 1A.", "Risk Factors", "b"),
        ("Item 2.", "Properties", "c"),
        ("Item 3.", "Legal Proceedings", "d"),
    ];
    // The number leads to one place, and the title to another.
    let listed: String = (3..)
        .zip(rows)
        .map(|(page, (number, title, anchor))| {
            format!(
                "<tr><td><a href='#{anchor}1'>{number}</a></td><td><a href='#{anchor}2'>{title}</a></td><td align=right><a href='#{anchor}1'>{page}</a></td></tr>"
            )
        })
        .collect();
    let listed = format!(
        "<p align=center><b>TABLE OF CONTENTS</b></p><table width='100%'>{listed}</table>{BREAK}"
    );
    let body: String = rows
        .iter()
        .map(|(number, title, anchor)| {
            format!(
                "<table width='100%'><tr valign=top><td width='12%'><a id='{anchor}1' href='#toc'><b>{number}</b></a></td><td><a id='{anchor}2' href='#top'><b>{title}</b></a></td></tr></table>{}{BREAK}",
                text(title)
            )
        })
        .collect();
    for (contents, first) in [("", 2), (listed.as_str(), 3)] {
        let tree = tree(&report(2023, contents, &body));
        let found: Vec<(&str, &str, u32, u32)> = tree
            .items
            .iter()
            .filter_map(|item| {
                let pages = item.pages?;
                let number = item.number.as_str();
                Some((
                    number,
                    item.title.as_str(),
                    pages.start().get(),
                    pages.end().get(),
                ))
            })
            .collect();
        let expected: Vec<(&str, &str, u32, u32)> = (first..)
            .zip([
                ("1", "Business"),
                ("1A", "Risk Factors"),
                ("2", "Properties"),
                ("3", "Legal Proceedings"),
            ])
            .map(|(page, (number, title))| (number, title, page, page))
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn an_item_of_the_years_without_an_attestation_is_item_9a() {
    check(
        &report(
            2008,
            "",
            &sections(&[
                "Item 8. Financial Statements and Supplementary Data",
                "Item 9. Changes in and Disagreements with Accountants",
                "Item 9A(T). Controls and Procedures",
                "Item 9B. Other Information",
            ]),
        ),
        &[
            ("8", "full", "Item 8. Financial"),
            ("9", "full", "Item 9. Changes"),
            ("9A", "full", "Item 9A(T). Controls"),
            ("9B", "full", "Item 9B. Other"),
        ],
    );
}

#[test]
fn references_to_an_item_are_no_headings() {
    let body = format!(
        "{}{}<p>Item 14(a)(1) Financial Statements are listed in the index.</p><p>Item 7 of this report has more.</p>{}{BREAK}{}",
        bold("Item 1. Business"),
        text("it"),
        text("it"),
        sections(&["Item 2. Properties"])
    );
    check(
        &report(2024, "", &body),
        &[
            ("1", "full", "Item 1. Business"),
            ("2", "full", "Item 2. Properties"),
        ],
    );
}

#[test]
fn preformatted_filings_have_items() {
    let paragraph = "     Our business sold more goods in this year than in the year before it,\n and it explains at some length how that came about and what it expects\n in the years that follow this one.\n\n";
    let section = |heading: &str| format!("{heading}\n\n{}<PAGE>\n", paragraph.repeat(8));
    let html = format!(
        "<HTML><BODY><PRE>\n        UNITED STATES SECURITIES AND EXCHANGE COMMISSION\n\n                         FORM 10-K\n\n     For the fiscal year ended December 31, 1998\n\n                         ACME CORP.\n<PAGE>\n{}{}{}                         SIGNATURES\n\n     Signed.\n</PRE></BODY></HTML>",
        section("ITEM 1.     BUSINESS"),
        section("ITEM 2.     PROPERTIES"),
        section("ITEM 3.     LEGAL PROCEEDINGS")
    );
    check(
        &html,
        &[
            ("1", "full", "ITEM 1. BUSINESS"),
            ("2", "full", "ITEM 2. PROPERTIES"),
            ("3", "full", "ITEM 3. LEGAL"),
        ],
    );
}

#[test]
fn the_body_is_taken_and_not_the_contents() {
    for linked in [true, false] {
        let anchor = |name: &'static str| if linked { name } else { "" };
        let contents = contents(&[
            ("Item 1.", "Business", 3, anchor("a")),
            ("Item 2.", "Properties", 4, anchor("b")),
            ("Item 3.", "Legal Proceedings", 5, anchor("c")),
        ]);
        let anchors = ["a", "b", "c"];
        let headings = [
            "Item 1. Business",
            "Item 2. Properties",
            "Item 3. Legal Proceedings",
        ];
        let body: String = anchors
            .iter()
            .zip(headings)
            .map(|(anchor, heading)| {
                format!(
                    "<div id='{anchor}'></div>{}{}{BREAK}",
                    bold(heading),
                    text("it")
                )
            })
            .collect();
        let html = report(2024, &contents, &body);
        let tree = tree(&html);
        let pages: Vec<u32> = tree
            .items
            .iter()
            .filter_map(|item| Some(item.pages?.start().get()))
            .collect();
        assert_eq!(pages, [3, 4, 5], "linked: {linked}");
    }
}

#[test]
fn items_that_the_contents_leave_out_are_found_in_the_body() {
    let contents = contents(&[
        ("Item 1.", "Business", 3, "a"),
        ("Item 2.", "Properties", 5, "c"),
    ]);
    let body = format!(
        "<div id='a'></div>{}{}{BREAK}{}{}{BREAK}<div id='c'></div>{}{}{BREAK}{}<p>None.</p>",
        bold("Item 1. Business"),
        text("it"),
        bold("Item 1C. Cybersecurity"),
        text("it"),
        bold("Item 2. Properties"),
        text("it"),
        bold("Item 16. Form 10-K Summary"),
    );
    check(
        &report(2024, &contents, &body),
        &[
            ("1", "full", "Item 1. Business"),
            ("1C", "full", "Item 1C. Cybersecurity"),
            ("2", "full", "Item 2. Properties"),
            ("16", "none", "Item 16. Form"),
        ],
    );
}

#[test]
fn combined_items_share_their_text() {
    let found = found(&report(
        2024,
        "",
        &sections(&[
            "Items 1 and 2. Business and Properties",
            "Item 1A. Risk Factors",
            "Item 3. Legal Proceedings",
            "Items 7 and 7A. Management&#8217;s Discussion and Analysis and Market Risk",
        ]),
    ));
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(number, status, _)| (number.as_str(), *status))
        .collect();
    assert_eq!(
        found,
        [
            ("1", "combined"),
            ("1A", "full"),
            ("2", "combined"),
            ("3", "full"),
            ("7", "combined"),
            ("7A", "combined")
        ]
    );
}

#[test]
fn a_long_answer_that_refers_elsewhere_is_no_content() {
    let by_reference = "<p>The information required by this Item will be supplied by a Schedule 14A filing or an amendment to this report, to be filed no later than April 30, 2025.</p>";
    let body = format!(
        "{}{}{by_reference}{}{by_reference}",
        sections(&["Item 9B. Other Information"]),
        bold("Item 10. Directors, Executive Officers and Corporate Governance"),
        bold("Item 11. Executive Compensation")
    );
    check(
        &report(2024, "", &body),
        &[
            ("9B", "full", "Item 9B. Other"),
            ("10", "by_reference", "Item 10. Directors,"),
            ("11", "by_reference", "Item 11. Executive"),
        ],
    );
}

#[test]
fn items_in_running_heads_are_no_headings() {
    let page = |head: &str, body: &str, n: usize| {
        format!(
            "<div style='font-size:8pt'>ACME CORP. {head}</div>{body}<div style='font-size:8pt;text-align:center'>{n}</div>{BREAK}"
        )
    };
    let mut body = String::new();
    let items = [
        ("Item 1. Business", 6),
        ("Item 1A. Risk Factors", 6),
        ("Item 2. Properties", 5),
    ];
    let mut n = 1;
    for (heading, pages) in items {
        for at in 0..pages {
            let start = if at == 0 {
                bold(heading)
            } else {
                String::new()
            };
            let words = text(&format!("page {n}"));
            body += &page(heading, &format!("{start}{words}"), n);
            n += 1;
        }
    }
    let html = report(2024, "", &body);
    let tree = tree(&html);
    let pages: Vec<(String, u32)> = tree
        .items
        .iter()
        .filter_map(|item| Some((item.number.clone(), item.pages?.start().get())))
        .collect();
    let at = |number: &str, page| (number.to_owned(), page);
    assert_eq!(pages, [at("1", 2), at("1A", 8), at("2", 14)]);
}

#[test]
fn heads_and_labels_of_tables_are_no_headings() {
    let cells = |cells: &[&str]| {
        let cells: String = cells
            .iter()
            .map(|cell| format!("<td>{cell}</td>"))
            .collect();
        format!("<tr>{cells}</tr>")
    };
    let officers = [
        cells(&["<b>NAME</b>", "<b>TITLE</b>"]),
        cells(&["<i>Jane Roe</i>", "Chairman of the Board"]),
        cells(&["<i>John Doe</i>", "Treasurer of the company"]),
    ]
    .concat();
    let premiums = [
        cells(&["", "<b>2009</b>", "<b>2008</b>"]),
        cells(&["<b>Region:</b>", "", ""]),
        cells(&["Southeast", "120", "110"]),
        cells(&["<b>Other lines:</b>", "", ""]),
        cells(&["<b>Runoff:</b>", "", ""]),
        cells(&["Southwest", "80", "70"]),
    ]
    .concat();
    let numbered = |number: &str, title: &str| {
        let row = cells(&[&format!("<b>{number}</b>"), &format!("<b>{title}</b>")]);
        format!("<table width='100%'>{row}</table>{}", text(title))
    };
    let body = format!(
        "{}{}{}<table width='100%'>{officers}</table>{}{}{}<table width='100%'>{premiums}</table>{}{BREAK}{}{}{}",
        bold("Item 1. Business"),
        text("it"),
        bold("Officers"),
        text("officers"),
        bold("Revenue"),
        text("premiums"),
        text("regions"),
        numbered("(4)", "Accumulated Loss"),
        numbered("(5)", "Adoption of Standard 320-10-65"),
        numbered("(6)", "Note Payable"),
    );
    let tree = tree(&report(2024, "", &body));
    let titles: Vec<&str> = tree
        .walk()
        .map(|(_, section)| section.title.as_str())
        .collect();
    assert_eq!(
        titles[1..],
        [
            "Item 1. Business",
            "Officers",
            "Revenue",
            "(4) Accumulated Loss",
            "(5) Adoption of Standard 320-10-65",
            "(6) Note Payable",
            "SIGNATURES"
        ]
    );
}
