//! Current reports whose content is an exhibit.

use stemma_filings::edgar::{SubmissionHeader, submission_document};

use crate::support::TestEnv;

const COVER: &str = "<p align=center>UNITED STATES SECURITIES AND EXCHANGE COMMISSION</p><p align=center><b>FORM 8-K</b></p>\
    <p align=center><b>CURRENT REPORT</b></p><p>Date of report: May 1, 2023</p><p align=center><b>ACME ANVILS INC</b></p>";
const ITEMS: &str = "<p><b>Item 2.02. Results of Operations and Financial Condition.</b></p>\
    <p>On May 1, 2023, Acme Anvils issued a press release on its results, which is furnished as Exhibit 99.1 and incorporated by reference.</p>\
    <p><b>Item 9.01. Financial Statements and Exhibits.</b></p><p>(d) Exhibits</p><table><tr><td>99.1</td><td>Press release of May 1, 2023</td></tr></table>\
    <p><b>SIGNATURE</b></p><p>Pursuant to the requirements of the Act the registrant has signed this report.</p>";

/// A press release, which has a heading like an Item.
fn press_release() -> String {
    let text = "<p>Smiths in all parts of the land bought more anvils than in the year before, and the company expects that they will go on to do so.</p>"
        .repeat(10);
    format!(
        "<p><b>Acme Anvils Reports Record Sales of Anvils</b></p><p>Sales rose to $412.7 million.</p>{text}<p><b>Item 1. Outlook</b></p>{text}"
    )
}

#[test]
fn a_current_report_leads_to_the_exhibit_with_its_content() {
    let header = SubmissionHeader {
        accession: "0000000077-23-000012",
        form: "8-K",
        period: "20230501",
        filed: "20230502",
        company: "ACME ANVILS INC",
        cik: "0000000077",
    };
    let page = |body: &str| format!("<html><body>{body}</body></html>");
    let submission = [
        header.text(),
        submission_document("8-K", "a.htm", &page(&format!("{COVER}{ITEMS}"))),
        submission_document("EX-99.1", "b.htm", &page(&press_release())),
    ];
    let lab = TestEnv::new();
    lab.put("filing.txt", submission.concat());
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary:#}");

    let answer = lab.stemma("store", ["--json", "items", "filing"]).run();
    let answer = answer.json();
    let items = answer["items"].as_array().unwrap();
    let found: Vec<(&str, &str)> = items
        .iter()
        .map(|item| {
            let text = |field: &str| item[field].as_str().unwrap();
            (text("id"), text("status"))
        })
        .collect();
    // The exhibit's heading is not an Item of the report.
    let expected = [("8-K.2.02", "by_reference"), ("8-K.9.01", "full")];
    assert_eq!(found, expected, "{answer:#}");
    let places = items[0]["content"].as_array().unwrap();
    assert_eq!(places.len(), 1, "{answer:#}");
    assert_eq!(places[0]["text"], "Exhibit 99.1", "{answer:#}");
    let exhibit = lab.stemma(
        "store",
        ["--json", "stat", places[0]["to"].as_str().unwrap()],
    );
    let exhibit = exhibit.run().json();
    assert_eq!(exhibit["section"]["title"], "EX-99.1", "{exhibit:#}");

    // What the report does not say itself is found in its exhibit.
    let arguments = ["--json", "search", "record sales of anvils"];
    let answer = lab.stemma("store", arguments).run().json();
    let best = &answer["hits"][0];
    let path = serde_json::json!(["EX-99.1", "Acme Anvils Reports Record Sales of Anvils"]);
    assert_eq!(best["path"], path, "{answer:#}");
    let locator = best["locator"].as_str().unwrap();
    let text = lab.stemma("store", ["cat", locator]).run();
    assert!(text.out.contains("$412.7 million"), "{text:?}");
}
