//! Where Items end, and which answers are in doubt.

use super::filing::{BREAK, bold, report, sections, text, tree};

/// Number, status and last words of each Item; `?` marks what is not certain.
fn ends(html: &str) -> Vec<String> {
    let tree = tree(html);
    let items = tree
        .items
        .iter()
        .filter_map(|item| Some((item, item.bytes?)));
    items
        .map(|(item, bytes)| {
            let shown = html[..bytes.end as usize].replace("</", "<");
            let plain: Vec<&str> = shown.rsplit(['<', '>']).step_by(2).take(40).collect();
            let words: Vec<&str> = plain
                .iter()
                .rev()
                .flat_map(|text| text.split_whitespace())
                .collect();
            let last = words[words.len().saturating_sub(3)..].join(" ");
            let doubt = if item.boundary_unverifiable { "?" } else { "" };
            format!("{}{doubt} {} {last}", item.number, item.status.as_str())
        })
        .collect()
}

#[test]
fn officers_without_a_number_belong_to_the_item_before_them() {
    let part = "<p style='font-size:10pt'><b>PART II</b></p>";
    let officers = |heading: &str| {
        let market = sections(&["Item 5. Market for Registrant&#8217;s Common Equity"]);
        let rest = format!(
            "{}<p>Jane Doe, 51, has been our president for years.</p>{BREAK}{part}{market}",
            bold(heading)
        );
        report(
            2024,
            "",
            &format!(
                "{}{}<p>Not applicable.</p>{rest}",
                sections(&["Item 3. Legal Proceedings"]),
                bold("Item 4. Mine Safety Disclosures")
            ),
        )
    };
    let unnumbered = ends(&officers("Information about our Executive Officers"));
    assert_eq!(unnumbered[1], "4 full president for years.");
    let numbered = ends(&officers("Item 4A. Executive Officers of the Registrant"));
    assert_eq!(
        numbered[1..3],
        [
            "4 not_applicable Disclosures Not applicable.",
            "4A full president for years."
        ]
    );
}

#[test]
fn the_list_of_exhibits_ends_at_the_signatures() {
    let row = |number: &str, title: &str| format!("<tr><td>{number}</td><td>{title}</td></tr>");
    let rows = [
        row("3.1", "Bylaws"),
        row("31.1", "Certification of the Chief Executive Officer"),
        row("32", "Section 1350 certification"),
    ]
    .concat();
    for heading in [
        "",
        "<p align=center><b>EXHIBIT INDEX</b></p>",
        "<p align=center><b>INDEX TO EXHIBITS</b></p>",
    ] {
        let html = report(
            2024,
            "",
            &format!(
                "{}{}{heading}<table>{rows}</table>{BREAK}",
                sections(&["Item 9B. Other Information"]),
                bold("Item 15. Exhibits and Financial Statement Schedules")
            ),
        );
        assert_eq!(
            ends(&html).last().map(String::as_str),
            Some("15 full Section 1350 certification"),
            "{heading}"
        );
    }
}

#[test]
fn items_of_regulation_ab_end_the_item_before_them() {
    let body = format!(
        "{}<p>None.</p>{}<p>Not applicable.</p><p>Substitute information provided in accordance with General Instruction J:</p>{}{}{}{}{BREAK}{}<p>Omitted.</p>",
        bold("Item 3. Legal Proceedings."),
        bold("Item 4. Mine Safety Disclosures."),
        bold("Item 1112(b) of Regulation AB. Significant Obligors of Pool Assets."),
        text("obligors"),
        bold("Item 1117 of Regulation AB. Legal Proceedings."),
        text("claims"),
        bold("Item 5. Market for Registrant&#8217;s Common Equity"),
    );
    assert_eq!(
        ends(&report(2023, "", &body)),
        [
            "3 none Legal Proceedings. None.",
            "4 not_applicable General Instruction J:",
            "5? omitted Common Equity Omitted."
        ]
    );
}

#[test]
fn an_item_before_a_missing_one_is_in_doubt() {
    let html = report(
        2024,
        "",
        &sections(&[
            "Item 9. Changes in and Disagreements with Accountants",
            "Item 10. Directors",
            "Item 12. Security Ownership",
            "Item 13. Certain Relationships",
        ]),
    );
    let marks: Vec<bool> = ends(&html).iter().map(|end| end.contains('?')).collect();
    assert_eq!(marks, [false, true, false, false]);
}

#[test]
fn short_answers_have_a_status() {
    let answers = [
        (
            "Item 7A. Quantitative and Qualitative Disclosures About Market Risk",
            "There have been no significant changes to our market risk since December 31, 2023.",
        ),
        (
            "Item 9. Changes in and Disagreements with Accountants",
            "None.",
        ),
        ("Item 9A. Controls and Procedures", "Omitted"),
        (
            "Item 9B. Other Information",
            "During the last quarter, none of our directors or officers adopted, modified or terminated a &#8220;Rule 10b5-1 trading arrangement&#8221;, as such terms are defined under Item 408 of Regulation S-K.",
        ),
        (
            "Item 10. Directors",
            "On January 9, a director decided not to run for election. He stated that it was not because of a disagreement, and that he would not leave before.",
        ),
        ("Item 11. Executive Compensation", "Not applicable"),
        (
            "Item 13. Certain Relationships",
            "<b>Trading Arrangements</b></p><p>None.",
        ),
    ];
    let body: String = answers
        .iter()
        .map(|(heading, answer)| format!("{}<p style='font-size:10pt'>{answer}</p>", bold(heading)))
        .collect();
    let found = ends(&report(
        2024,
        "",
        &format!(
            "{}{body}",
            sections(&["Item 7. Management&#8217;s Discussion and Analysis"])
        ),
    ));
    let statuses: Vec<&str> = found
        .iter()
        .filter_map(|end| end.split(' ').nth(1))
        .collect();
    assert_eq!(
        statuses,
        [
            "full",
            "none",
            "none",
            "omitted",
            "none",
            "full",
            "not_applicable",
            "none"
        ]
    );
}

#[test]
fn a_page_number_and_the_way_back_do_not_belong_to_an_item() {
    // The foot of one page only: nothing shows that it recurs.
    let body = format!(
        "{}{}<p align=center>38</p>{BREAK}<p><a href='#toc'>Table of Contents</a></p>{}{}",
        bold("Item 7. Management&#8217;s Discussion and Analysis"),
        text("sales"),
        bold("Item 8. Financial Statements and Supplementary Data"),
        text("figures"),
    );
    assert_eq!(ends(&report(2024, "", &body))[0], "7 full what it expects.");
}
