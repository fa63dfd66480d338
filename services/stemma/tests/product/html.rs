//! HTML filings, from the file to answers of the commands.

use serde_json::Value;

use crate::support::TestEnv;

/// A small annual report as filers' software writes it: styles inside, page breaks, running feet, linked contents.
fn annual_report() -> String {
    let items = [
        ("Item 1.", "Business", 12),
        ("Item 1A.", "Risk Factors", 14),
        ("Item 2.", "Properties", 3),
        ("Item 3.", "Legal Proceedings", 2),
        ("Item 7.", "Management&#8217;s Discussion and Analysis", 12),
        ("Item 8.", "Financial Statements and Supplementary Data", 12),
    ];
    let foot = |page: usize| {
        format!(
            "<div style=\"position:absolute;bottom:0\"><div style=\"text-align:center\"><span>Acme Corp. | 2024 Form 10-K | {page}</span></div></div>\
             <hr style=\"page-break-after:always\"/>"
        )
    };
    let contents: String = (0..)
        .zip(items)
        .map(|(at, (number, title, _))| {
            format!(
                "<tr><td>{number}</td><td><a href=\"#i{at}\">{title}</a></td><td>{}</td></tr>",
                at + 3
            )
        })
        .collect();
    let bodies: String = (0..)
        .zip(items)
        .map(|(at, (number, title, paragraphs))| {
            let text: String = (0..paragraphs)
                .map(|n| {
                    format!(
                        "<div style=\"font-size:10pt\"><span>The company sold more goods in year {n} than in the year before it, as {title} \
                         explains at some length for the readers of this report.</span></div>"
                    )
                })
                .collect();
            format!(
                "<div id=\"i{at}\"></div><div><span style=\"font-size:11pt;font-weight:700\">{number}&#160;&#160;&#160;{title}</span></div>{text}{}",
                foot(at + 3)
            )
        })
        .collect();
    format!(
        "<?xml version='1.0' encoding='UTF-8'?><html><head><title>acme</title></head><body><div style=\"display:none\"><ix:header>hidden</ix:header></div>\
         <div style=\"text-align:center\">UNITED STATES SECURITIES AND EXCHANGE COMMISSION</div><div style=\"text-align:center\"><b>FORM 10-K</b></div>\
         <div>For the fiscal year ended December 31, 2024</div><div style=\"text-align:center\"><b>ACME CORP.</b></div>\
         <div>(Exact name of registrant as specified in its charter)</div>{}<div>TABLE OF CONTENTS</div><table>{contents}</table>{}{bodies}\
         <div>SIGNATURES</div><div>Pursuant to the requirements of the Act the registrant has signed this report.</div></body></html>",
        foot(1),
        foot(2)
    )
}

#[test]
fn an_html_filing_is_ingested_like_a_pdf() {
    let lab = TestEnv::new();
    lab.put("acme.htm", annual_report());
    lab.ingest("store", &[]);
    let items = lab
        .stemma("store", ["--json", "items", "acme"])
        .run()
        .json();
    let found: Vec<(String, String)> = items["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| !item["pages"].is_null())
        .map(|item: &Value| {
            let number = item["item"].as_str().unwrap().to_owned();
            (number, item["pages"].to_string())
        })
        .collect();
    let pages = |number: &str, page: u32| (number.to_owned(), format!("[{page},{page}]"));
    assert_eq!(
        found,
        [
            pages("1", 3),
            pages("1A", 4),
            pages("2", 5),
            pages("3", 6),
            pages("7", 7),
            pages("8", 8)
        ]
    );
    let text = lab.stemma("store", ["cat", "acme#item-3"]).run();
    assert!(text.out.contains("Legal Proceedings"), "{}", text.out);
    assert!(!text.out.contains("hidden"));
    let hits = lab
        .stemma("store", ["--json", "search", "risk factors"])
        .run()
        .json();
    let risks = items["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["item"] == "1A")
        .unwrap();
    let section = risks["section_id"].as_str().unwrap();
    assert_eq!(hits["hits"][0]["locator"], format!("acme#{section}"));
}

#[test]
fn text_that_nobody_sees_is_shown_on_demand_only() {
    let lab = TestEnv::new();
    let hidden = "<p style=\"color:#fff\">Sales grew by zweihundert percent.</p>";
    let body = format!("<body>{hidden}<p>Sales grew by 4 percent in the year.</p></body>");
    lab.put("note.htm", format!("<html>{body}</html>"));
    lab.ingest("store", &[]);
    let run = |args: &[&str]| lab.stemma("store", args).run().out;
    assert!(!run(&["cat", "note"]).contains("zweihundert"));
    assert!(!run(&["search", "zweihundert"]).contains("grew by zweihundert"));
    let shown = run(&["cat", "note", "--hidden"]);
    assert!(
        shown.contains("Sales grew by zweihundert percent."),
        "{shown}"
    );
    let found = lab.stemma("store", ["--json", "cat", "note", "--hidden"]);
    let found = found.run().json();
    assert_eq!(found["hidden"][0]["reason"], "same_color");
    assert_eq!(found["hidden"][0]["page"], 1);
}

#[test]
fn underlined_and_colored_lines_head_sections_and_links_do_not() {
    let headings = [
        (
            "<u>Competition</u>",
            "We compete with many firms for berths, cranes and the people who run them.",
        ),
        (
            "<u>Employees</u>",
            "We have two hundred employees in three harbors, and most belong to a union.",
        ),
        (
            "<a name=\"r\"><u>Regulation</u></a>",
            "Harbors are regulated by the state, and cranes by the body that tests them.",
        ),
        (
            "<font color=\"#003366\">Properties</font>",
            "Our office is in Bergen, on land that belongs to the city and is leased.",
        ),
        (
            "<font color=\"#003366\">Seasons</font>",
            "Winter is slow. In summer we need more people than we have, and hire students.",
        ),
        (
            "<a href=\"#r\" style=\"color:blue\">Back to the regulation</a>",
            "Summer ends early in the north, and so does the season of most harbors there.",
        ),
    ];
    let body: String = headings
        .iter()
        .map(|(heading, text)| format!("<p>{heading}</p><p>{text}</p><p>{text}</p>"))
        .collect();
    let lab = TestEnv::new();
    lab.put(
        "harbor.htm",
        format!("<html><body><p><b>Harbor Works</b></p>{body}</body></html>"),
    );
    lab.ingest("store", &[]);
    let tree = lab.stemma("store", ["tree", "harbor"]).run().out;
    for title in [
        "Competition",
        "Employees",
        "Regulation",
        "Properties",
        "Seasons",
    ] {
        assert!(tree.contains(title), "{title}: {tree}");
    }
    assert!(!tree.contains("Back"), "{tree}");
}

#[test]
fn text_in_one_color_has_headings_by_weight_alone() {
    let text =
        "We rent cranes to harbors in the north, and repair them where they are, in all weather.";
    let body: String = ["Cranes", "Harbors", "Weather"]
        .iter()
        .map(|title| format!("<p><b>{title}</b></p><p>{text}</p><p>Short remark</p><p>{text}</p>"))
        .collect();
    let lab = TestEnv::new();
    let page = format!("<html><body style=\"color:#003366\">{body}</body></html>");
    lab.put("harbor.htm", page);
    lab.ingest("store", &[]);
    let tree = lab.stemma("store", ["tree", "harbor"]).run().out;
    for title in ["Cranes", "Harbors", "Weather"] {
        assert!(tree.contains(title), "{title}: {tree}");
    }
    assert!(!tree.contains("Short remark"), "{tree}");
}

/// Headings and paragraphs have the same space above, as `<p>` without a style has it.
#[test]
fn headings_as_close_as_paragraphs_are_sections() {
    let risks = [
        "We depend on a few suppliers of resin, and an interruption of supply could harm us.",
        "Our customers may cancel their orders on short notice, which would reduce our revenue.",
        "A flood at our plant in Ohio would interrupt production for weeks or for months.",
        "If we cannot hire and keep skilled welders, our growth may be limited in all regions.",
    ];
    let text = |n: usize| {
        format!(
            "<p>The plant moved {n} machines before the new rules took effect. Margins improved in the second half of the year.</p>"
        )
    };
    let risks_html: String = (0..)
        .zip(risks)
        .map(|(n, risk)| format!("<p><b><i>{risk}</i></b></p>{}{}", text(n), text(n + 10)))
        .collect();
    let page_break = "<hr style='page-break-after:always'>";
    let page = format!(
        "<html><body><p align=center><b>FORM 10-K</b></p><p>For the fiscal year ended December 31, 2015</p>\
         <p><b>Item 1. Business</b></p>{0}{1}<p><b>Item 1A. Risk Factors</b></p>{0}{risks_html}{page_break}\
         <p><b>Item 7. Management&#8217;s Discussion and Analysis of Financial Condition and Results of Operations</b></p>\
         <p><i>Overview</i></p>{0}{1}<p><i>Net Sales</i></p>{0}{1}{page_break}\
         <p><b>Item 15. Exhibits and Financial Statement Schedules</b></p>\
         <table><tr><td><b>Exhibit No.</b></td><td><b>Description</b></td></tr><tr><td>3.1</td><td>Articles of Incorporation</td></tr>\
         <tr><td>10.1</td><td>Lease of the plant</td></tr></table></body></html>",
        text(1),
        text(2),
    );
    let lab = TestEnv::new();
    lab.put("pump.htm", page);
    lab.ingest("store", &[]);
    let tree = lab.stemma("store", ["tree", "pump"]).run().out;
    let titles = risks.iter().chain(&["Overview", "Net Sales"]);
    for title in titles {
        assert!(tree.contains(title), "{title}: {tree}");
    }
    let is_section = tree
        .lines()
        .any(|line| line.contains("├ Exhibit No.") || line.contains("└ Exhibit No."));
    assert!(!is_section, "{tree}");
}

#[test]
fn the_first_section_of_an_article_may_have_its_title() {
    let text = "The lender may end the commitment after a notice of thirty days, as the law of the state allows it.";
    let articles: String = [("I", 1, "Definitions"), ("II", 2, "Events of Default"), ("III", 3, "Covenants")]
        .iter()
        .map(|(roman, number, title)| {
            format!(
                "<p align=center><b>ARTICLE {roman}</b></p><p align=center><b><u>{}</u></b></p>\
                 <p>Section {number}.01 <u>{title}</u>. {text} {text}</p><p>Section {number}.02 <u>Other Terms</u>. {text} {text}</p>",
                title.to_uppercase()
            )
        })
        .collect();
    let lab = TestEnv::new();
    let page =
        format!("<html><body><p align=center><b>CREDIT AGREEMENT</b></p>{articles}</body></html>");
    lab.put("credit.htm", page);
    lab.ingest("store", &[]);
    let tree = lab.stemma("store", ["tree", "credit"]).run().out;
    for number in ["1.01", "1.02", "2.01", "2.02", "3.01", "3.02"] {
        assert!(
            tree.contains(&format!("Section {number}")),
            "{number}: {tree}"
        );
    }
}
