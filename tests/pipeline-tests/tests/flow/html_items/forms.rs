//! Forms other than a plain Form 10-K, and Items in other orders.

use stemma_document::{ItemTarget, PageNo, PageSpan};

use super::filing::{BREAK, bold, contents, items, report, sections, text, tree};

fn cover(form: &str, body: &str) -> String {
    report(2023, "", body).replace("FORM 10-K", form)
}

#[test]
fn the_parts_of_form_10_q_have_items_of_equal_numbers() {
    let first = sections(&[
        "Item 1. Financial Statements",
        "Item 2. Management&#8217;s Discussion and Analysis",
        "Item 4. Controls and Procedures",
    ]);
    let second = sections(&[
        "Item 1. Legal Proceedings",
        "Item 1A. Risk Factors",
        "Item 6. Exhibits",
    ]);
    let expected = [
        "10-Q.I.1 full 2",
        "10-Q.I.2 full 3",
        "10-Q.I.4 full 4",
        "10-Q.II.1 full 5",
        "10-Q.II.1A full 6",
        "10-Q.II.6 full 7",
    ];
    for (part_i, part_ii) in [
        (
            "<p><b>PART I. FINANCIAL INFORMATION</b></p>",
            "<p><b>PART II. OTHER INFORMATION</b></p>",
        ),
        // Without any style.
        ("<div>Part I</div>", "<div>Part II</div>"),
        // Not printed at all.
        ("", ""),
    ] {
        assert_eq!(
            items(&cover(
                "FORM 10-Q",
                &format!("{part_i}{first}{part_ii}{second}")
            )),
            expected,
            "{part_ii}"
        );
    }
}

#[test]
fn headings_of_all_eras_and_agents_are_read() {
    let plain = |heading: &str| format!("<p style='font-size:10pt'>{heading}</p>");
    let nbsp = "&nbsp;&nbsp;&nbsp;&nbsp;&nbsp;";
    for (name, headings) in [
        ("capitals with a dash", ["ITEM 1&#8212;BUSINESS", "ITEM 1A&#8212;RISK FACTORS", "ITEM 2&#8212;PROPERTIES"].map(bold)),
        ("no space", ["Item 1.Business", "Item 1A.Risk Factors", "Item2. Properties"].map(bold)),
        ("PART before the Item", ["Part I, Item 1. Business", "PART I&#8212;Item 1A. Risk Factors", "Part I. Item 2. Properties"].map(bold)),
        ("no-break spaces", ["Business", "Risk Factors", "Properties"].map(|title| {
            let number = match title { "Business" => "1", "Properties" => "2", _ => "1A" };
            bold(&format!("Item&nbsp;{number}.{nbsp}{title}"))
        })),
        ("centred fonts of 1999", ["Item 1. Business", "Item 1A. Risk Factors", "Item 2. Properties"].map(|heading| {
            format!("<P ALIGN=\"CENTER\"><FONT FACE=\"Times New Roman\" SIZE=2><B>{heading}</B></FONT></P>")
        })),
        ("underlined", ["Item 1. Business", "Item 1A. Risk Factors", "Item 2. Properties"].map(|heading| plain(&format!("<u>{heading}</u>")))),
        ("small capitals by size", ["B<span style='font-size:8pt'>USINESS</span>", "R<span style='font-size:8pt'>ISK</span> F<span style='font-size:8pt'>ACTORS</span>", "P<span style='font-size:8pt'>ROPERTIES</span>"].map(|title| {
            let number = if title.starts_with('B') { "1" } else if title.starts_with('P') { "2" } else { "1A" };
            bold(&format!("I<span style='font-size:8pt'>TEM</span> {number}. {title}"))
        })),
        ("number and title in two paragraphs", ["Business", "Risk Factors", "Properties"].map(|title| {
            let number = match title { "Business" => "1", "Properties" => "2", _ => "1A" };
            format!("{}{}", bold(&format!("Item {number}.")), bold(title))
        })),
        ("cells with a link back", ["Business", "Risk Factors", "Properties"].map(|title| {
            let number = match title { "Business" => "1", "Properties" => "2", _ => "1A" };
            format!("<p><a href='#toc'>Table of Contents</a></p><table><tr><td><a name='i{number}'></a><font size=2><b>Item&nbsp;{number}.</b></font></td><td><font size=2><b><i>{title}</i></b></font></td></tr></table>")
        })),
    ] {
        let marks = ["business", "risks", "places"];
        let body: String = headings.iter().zip(marks).map(|(heading, mark)| format!("{heading}{}{BREAK}", text(mark))).collect();
        let expected = ["10-K.I.1 full 2", "10-K.I.1A full 3", "10-K.I.2? full 4"];
        assert_eq!(items(&report(2023, "", &body)), expected, "{name}");
    }
}

#[test]
fn form_10_k405_has_the_items_of_its_years() {
    let headings = [
        "Item 1. Business",
        "Item 4. Submission of Matters to a Vote of Security Holders",
        "Item 10. Directors and Executive Officers of the Registrant",
        "Item 14. Exhibits, Financial Statement Schedules, and Reports on Form 8-K",
    ];
    let html = cover("FORM 10-K405", &sections(&headings)).replace("2023", "1998");
    let numbers: Vec<String> = items(&html)
        .iter()
        .map(|item| item.replace('?', ""))
        .collect();
    assert_eq!(
        numbers,
        [
            "10-K.I.1 full 2",
            "10-K.I.4 full 3",
            "10-K.III.10 full 4",
            "10-K.III.14 full 5"
        ]
    );
}

#[test]
fn form_20_f_has_items_with_letters() {
    let html = cover(
        "FORM 20-F",
        &sections(&[
            "Item 3. Key Information",
            "Item 4. Information on the Company",
            "Item 4A. Unresolved Staff Comments",
            "Item 16A. Audit Committee Financial Expert",
            "Item 16K. Cybersecurity",
            "Item 18. Financial Statements",
        ]),
    );
    assert_eq!(
        items(&html),
        [
            "20-F.I.3 full 2",
            "20-F.I.4 full 3",
            "20-F.I.4.A full 4",
            "20-F.II.16.A full 5",
            "20-F.II.16.K full 6",
            "20-F.III.18 full 7"
        ]
    );
}

#[test]
fn form_8_k_has_the_items_that_it_reports() {
    let body = format!(
        "{}<p>On May 1, Acme issued a press release, which is furnished as Exhibit 99.1 and incorporated by reference.</p>{}<p>(d) Exhibits</p><p>99.1 Press release of May 1</p>",
        bold("Item 2.02. Results of Operations and Financial Condition."),
        bold("Item 9.01 Financial Statements and Exhibits."),
    );
    assert_eq!(
        items(&cover("FORM 8-K", &body)),
        ["8-K.2.02 by_reference 2", "8-K.9.01 full 2"]
    );
}

#[test]
fn items_in_another_order_are_found_where_they_are() {
    let order = [
        (
            "Item 7.",
            "Management&#8217;s Discussion and Analysis of Financial Condition and Results of Operations",
            3,
            "c",
        ),
        (
            "Item 8.",
            "Financial Statements and Supplementary Data",
            4,
            "d",
        ),
        ("Item 1.", "Business", 5, "a"),
        ("Item 2.", "Properties", 6, "b"),
        (
            "Item 9.",
            "Changes in and Disagreements with Accountants on Accounting and Financial Disclosure",
            7,
            "e",
        ),
    ];
    let body: String = order
        .iter()
        .map(|(number, title, _, anchor)| {
            format!(
                "<div id='{anchor}'></div>{}{}{BREAK}",
                bold(&format!("{number} {title}")),
                text(title)
            )
        })
        .collect();
    let starts = [("1", 5), ("2", 6), ("7", 3), ("8", 4), ("9", 7)];
    for contents in [contents(&order), format!("<p>A preface.</p>{BREAK}")] {
        let tree = tree(&report(2023, &contents, &body));
        for (number, page) in starts {
            let item = tree.items.iter().find(|item| item.number == number);
            let item = item.expect("the form requires it");
            let pages = item.pages.expect("its heading is printed");
            assert_eq!(pages.start().get(), page, "{number}");
            assert_eq!(item.status.as_str(), "full", "{number}");
            // An Item that takes in others says so.
            let ends_there = pages.end().get() == page;
            assert!(ends_there || item.boundary_unverifiable, "{number}");
        }
        let found = tree.items.iter().filter(|item| item.pages.is_some());
        assert_eq!(found.count(), starts.len(), "no other Item is invented");
    }
}

#[test]
fn an_index_with_ranges_of_pages_replaces_headings() {
    let rows = [
        ("Item 1.", "Business", "4-6, 9*"),
        ("Item 1A.", "Risk Factors", "7-8"),
        ("Item 2.", "Properties", "9"),
        (
            "Item 7.",
            "Management&#8217;s Discussion and Analysis",
            "3, 5-6",
        ),
        (
            "Item 8.",
            "Financial Statements and Supplementary Data",
            "8-10",
        ),
        (
            "Item 9.",
            "Changes in and Disagreements with Accountants",
            "Not applicable",
        ),
        (
            "Item 10.",
            "Directors, Executive Officers and Corporate Governance",
            "(a)",
        ),
        (
            "Item 15.",
            "Exhibits and Financial Statement Schedules",
            "10",
        ),
    ];
    let half = |rows: &[(&str, &str, &str)]| {
        let cells: String = rows
            .iter()
            .map(|(number, title, pages)| {
                format!("<tr><td>{number}</td><td>{title}</td><td align=right>{pages}</td></tr>")
            })
            .collect();
        format!("<table width='100%'>{cells}</table>")
    };
    let index = format!(
        "<p align=center><b>FORM 10-K CROSS-REFERENCE INDEX</b></p>{}{BREAK}{}<p>* Only the first paragraph.</p><p>(a) Incorporated by reference to the proxy statement.</p>{BREAK}",
        half(&rows[..4]),
        half(&rows[4..])
    );
    let body: String = [
        "Our Company",
        "Our Markets",
        "What May Go Wrong",
        "Results",
        "Liquidity",
        "Statements",
        "Notes",
        "Controls",
    ]
    .iter()
    .zip(3..)
    .map(|(heading, page)| {
        format!(
            "{}{}<p align=center>{page}</p>{BREAK}",
            bold(heading),
            text(heading)
        )
    })
    .collect();
    let tree = tree(&report(2023, &index, &body));
    let item = |number: &str| {
        let item = tree.items.iter().find(|item| item.number == number);
        item.expect("the index lists it")
    };
    // The printed page 3 is page 4 of the file.
    for (number, first, last) in [
        ("1A", 8, 9),
        ("2", 10, 10),
        ("7", 4, 7),
        ("8", 9, 11),
        ("15", 11, 11),
    ] {
        let item = item(number);
        let pages = item.pages.expect("the index gives its pages");
        assert_eq!(item.status.as_str(), "cross_index", "{number}");
        assert_eq!(pages.start().get(), first, "{number}");
        assert_eq!(pages.end().get(), last, "{number}");
        assert!(item.boundary_unverifiable, "{number}");
    }
    let parts = item("7").content.iter().map(|link| match link.target {
        ItemTarget::Pages(pages) => Some(pages),
        _ => None,
    });
    let spans = [(4, 4), (6, 7)].map(|(start, end)| {
        let page = |number| PageNo::new(number).expect("pages are counted from 1");
        Some(PageSpan::between(page(start), page(end)))
    });
    assert_eq!(parts.collect::<Vec<_>>(), spans);
    // A footnote mark hides its pages, so no pages are claimed as certain.
    let business = item("1");
    assert!(business.boundary_unverifiable);
    assert!(!business.content.is_empty());
    let nothing = item("9");
    assert_eq!(nothing.status.as_str(), "not_applicable");
    assert_eq!(nothing.pages, None);
    let others = tree.items.iter().filter(|item| item.pages.is_some());
    let listed = rows.map(|(number, ..)| number.trim_start_matches("Item ").replace('.', ""));
    for item in others {
        assert!(listed.contains(&item.number), "{} is invented", item.number);
    }
}

#[test]
fn page_numbers_and_references_are_no_items() {
    let page = |n: usize, body: &str| format!("{body}<p align=center>{n}</p>{BREAK}");
    let body: String = (1..=15).map(|n| {
        let heading = match n { 1 => bold("Item 1. Business"), 9 => bold("Item 1A. Risk Factors"), 14 => bold("Item 2. Properties"), _ => String::new() };
        page(n, &format!("{heading}{}<p>Item 7, Management&#8217;s Discussion, and Item 8 have more.</p>", text(&format!("page {n}"))))
    }).collect();
    assert_eq!(
        items(&report(2023, "", &body)),
        ["10-K.I.1 full 2", "10-K.I.1A full 10", "10-K.I.2? full 15"]
    );
}

#[test]
fn numbers_that_the_form_does_not_have_are_no_items() {
    let body = sections(&[
        "Item 1. Business",
        "Item 2P. Pending Properties",
        "Item 2. Properties",
    ]);
    assert_eq!(
        items(&report(2023, "", &body)),
        ["10-K.I.1 full 2", "10-K.I.2? full 4"]
    );
}
