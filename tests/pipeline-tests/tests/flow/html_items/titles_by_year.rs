//! Items whose title or number changed over the years.

use super::filing::{BREAK, bold, items, report, sections, tree};

/// Status and title of Item 4 with this heading and answer, between Items 3 and 5.
fn item_4(year: u32, heading: &str, answer: &str) -> (&'static str, String) {
    let body = format!(
        "{}{}{answer}{BREAK}<p><b>PART II</b></p>{}",
        sections(&["Item 3. Legal Proceedings"]),
        bold(heading),
        sections(&[
            "Item 5. Market for Registrant&#8217;s Common Equity",
            "Item 7. Management&#8217;s Discussion and Analysis",
        ]),
    );
    let tree = tree(&report(year, "", &body));
    let of = |number: &str| {
        let item = tree.items.iter().find(|item| item.number == number);
        item.expect("the form requires it")
    };
    for (number, page) in [("3", 2), ("4", 3), ("5", 4)] {
        let pages = of(number).pages.expect("its heading is printed");
        assert_eq!(pages.start().get(), page, "{heading}: Item {number}");
        assert_eq!(pages.end().get(), page, "{heading}: Item {number}");
    }
    let item = of("4");
    assert!(!item.boundary_unverifiable, "{heading}");
    (item.status.as_str(), item.title.clone())
}

#[test]
fn item_4_is_found_under_the_title_of_each_era() {
    let none = "<p>No matters were submitted to a vote of security holders during the fourth quarter of the fiscal year.</p>";
    let votes = "<p style='font-size:10pt'>On October 14, the annual meeting elected the three directors whom the board had proposed, with 812,400 votes for and 9,100 votes against them.</p>";
    for (year, title, answer, status) in [
        (
            2003,
            "Submission of Matters to a Vote of Security Holders",
            "<p>None.</p>",
            "none",
        ),
        (
            2003,
            "Submission of Matters to a Vote of Security Holders",
            none,
            "none",
        ),
        (
            2003,
            "Submission of Matters to a Vote of Security Holders",
            votes,
            "full",
        ),
        (2009, "Reserved", "", "reserved"),
        (2010, "(Removed and Reserved)", "", "reserved"),
        (2010, "[Removed and Reserved]", "", "reserved"),
        (
            2012,
            "Mine Safety Disclosures",
            "<p>Not applicable.</p>",
            "not_applicable",
        ),
    ] {
        let found = item_4(year, &format!("Item 4. {title}"), answer);
        assert_eq!(found, (status, title.to_owned()), "{year}");
    }
}

#[test]
fn item_14_is_what_the_form_of_the_year_has_there() {
    let parts = [
        "Item 10. Directors and Executive Officers of the Registrant",
        "Item 11. Executive Compensation",
        "Item 12. Security Ownership of Certain Beneficial Owners and Management",
        "Item 13. Certain Relationships and Related Transactions",
    ];
    let exhibits = "Exhibits, Financial Statement Schedules, and Reports on Form 8-K";
    // Controls were Item 14 for a year, and before it exhibits were.
    for (year, controls, title_14, has_15) in [
        (1998, None, exhibits, false),
        (2002, None, "Controls and Procedures", true),
        (
            2003,
            Some("Item 9A. Controls and Procedures"),
            "Principal Accountant Fees and Services",
            true,
        ),
    ] {
        let heading_14 = format!("Item 14. {title_14}");
        let heading_15 = format!("Item 15. {exhibits}");
        let mut headings = vec!["Item 9. Changes in and Disagreements with Accountants"];
        headings.extend(controls);
        headings.extend(parts);
        headings.push(&heading_14);
        if has_15 {
            headings.push(&heading_15);
        }
        let html = report(year, "", &sections(&headings));
        let numbers = headings.iter().map(|heading| {
            let number = heading.trim_start_matches("Item ").split('.').next();
            number.unwrap_or_default()
        });
        let expected: Vec<String> = (2..)
            .zip(numbers)
            .map(|(page, number)| {
                let part = match number {
                    "9" | "9A" => "II",
                    "15" => "IV",
                    _ => "III",
                };
                format!("10-K.{part}.{number} full {page}")
            })
            .collect();
        assert_eq!(items(&html), expected, "{year}");
        let tree = tree(&html);
        let title = |number: &str| {
            let item = tree.items.iter().find(|item| item.number == number);
            item.map(|item| item.title.as_str())
        };
        assert_eq!(title("14"), Some(title_14), "{year}");
        // An Item that the form did not have is not missed.
        let has_9a = controls.map(|_| "Controls and Procedures");
        assert_eq!(title("9A"), has_9a, "{year}");
        assert_eq!(title("15"), has_15.then_some(exhibits), "{year}");
    }
}
