//! Tables of a document: listed, shown, and written as CSV.

use crate::support::TestEnv;

const REPORT: &str = "<html><body>\
    <p style=\"text-align:center\"><b>CONSOLIDATED BALANCE SHEETS</b></p>\
    <p style=\"text-align:center\">(In thousands)</p>\
    <table>\
    <tr><td></td><td colspan=\"2\">December 31, 2024</td><td colspan=\"2\">December 31, 2023</td></tr>\
    <tr><td>Cash and equivalents</td><td>$</td><td>1,749</td><td>$</td><td>1,603</td></tr>\
    <tr><td>Receivables</td><td></td><td>820</td><td></td><td>(31)</td></tr>\
    <tr><td>Total assets</td><td>$</td><td>2,569</td><td>$</td><td>1,572</td></tr>\
    </table>\
    <p>The notes are an integral part of these statements, and they explain in detail how each of the amounts above was determined by management.</p>\
    </body></html>";

#[test]
fn tables_are_listed_and_shown_with_exact_values() {
    let lab = TestEnv::new();
    lab.put("acme.htm", REPORT);
    lab.ingest("store", &[]);
    let list = lab
        .stemma("store", ["--json", "tables", "acme"])
        .run()
        .json();
    let table = &list["tables"][0];
    assert_eq!(table["locator"], "acme#t1", "{list}");
    assert_eq!(table["title"], "CONSOLIDATED BALANCE SHEETS");
    assert_eq!(table["unit"], "(In thousands)");
    assert_eq!(table["scale"], 1000);
    assert_eq!(table["columns"][0]["period"], "2024-12");
    let shown = lab
        .stemma("store", ["--json", "table", "acme#t1"])
        .run()
        .json();
    assert_eq!(shown["table"]["rows"][1]["label"], "Receivables");
    assert_eq!(shown["table"]["rows"][1]["cells"][1]["value"], "-31");
    let csv = lab
        .stemma("store", ["table", "acme#t1", "--format", "csv"])
        .run();
    assert!(csv.out.contains("\n,Receivables,820,(31)\n"), "{}", csv.out);
    let text = lab.stemma("store", ["cat", "acme#t1"]).run();
    let title = "CONSOLIDATED BALANCE SHEETS · (In thousands)\n";
    assert!(text.out.starts_with(title), "{}", text.out);
    assert!(
        text.out.contains("\n| Receivables | 820 | (31) |\n"),
        "{}",
        text.out
    );
}

#[test]
fn a_table_that_is_not_there_says_how_many_are() {
    let lab = TestEnv::new();
    lab.put("acme.htm", REPORT);
    lab.ingest("store", &[]);
    let missing = lab.stemma("store", ["table", "acme#t7"]).run();
    assert_eq!(missing.code, Some(2));
    assert!(
        missing
            .err
            .contains("`acme` has 1 tables, but no `acme#t7`"),
        "{}",
        missing.err
    );
}
