//! Made-up filings, and the Items that are found in them.

use stemma_document::{FilingItem, SectionTree};
use stemma_extract::{ExtractJob, Limits};
use stemma_outline::{enrich, finish_tree, structure};
use stemma_reading::document_reading::DocumentReading;

pub(crate) const BREAK: &str = "<hr style='page-break-after:always'/>";

pub(crate) fn tree(html: &str) -> SectionTree {
    let job = ExtractJob::new(
        "a.htm".into(),
        html.as_bytes().to_vec(),
        None,
        Limits::default(),
    );
    let source = stemma_extract::extract(job).expect("it is HTML");
    let draft = structure::outline(&source, &Default::default()).expect("it has pages");
    finish_tree(
        &draft,
        &source,
        &DocumentReading::new(&source.body).lines,
        [],
        &enrich::SectionSettings::default(),
    )
}

/// A cover, contents and the body.
pub(crate) fn report(year: u32, contents: &str, body: &str) -> String {
    format!(
        "<html><body><p align=center>UNITED STATES SECURITIES AND EXCHANGE COMMISSION</p><p align=center><b>FORM 10-K</b></p><p>ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d)</p>\
         <p>For the fiscal year ended December 31, {year}</p><p align=center><b>ACME CORP.</b></p>{BREAK}{contents}{body}\
         <p><b>SIGNATURES</b></p><p>Pursuant to the requirements of the Act the registrant has signed this report.</p></body></html>"
    )
}

/// Ten paragraphs of plain text on a topic. Pages do not begin alike, because what recurs at their top is a running head.
pub(crate) fn text(topic: &str) -> String {
    let words = [
        "alpha", "bravo", "delta", "gamma", "kappa", "omega", "sigma", "theta",
    ];
    let mark: usize = topic.bytes().map(usize::from).sum();
    (0..10)
        .map(|n| {
            let first = words[(mark + n) % 8];
            let second = words[(mark / 8 + 3 * n) % 8];
            format!(
                "<p style='font-size:10pt'>Our {first} {second} business sold more goods in year {n} than in the year before it, and \
                 this report explains at some length how that came about and what it expects.</p>"
            )
        })
        .collect()
}

pub(crate) fn bold(heading: &str) -> String {
    format!("<p style='font-size:10pt'><b>{heading}</b></p>")
}

/// Sections with bold headings.
pub(crate) fn sections(headings: &[&str]) -> String {
    headings
        .iter()
        .map(|heading| format!("{}{}{BREAK}", bold(heading), text(heading)))
        .collect()
}

/// Number, status and the first characters of the text of each Item that is there.
pub(crate) fn found(html: &str) -> Vec<(String, &'static str, String)> {
    let start = |item: &FilingItem| {
        let bytes = item.bytes.expect("only such Items are shown");
        let shown = &html[bytes.start as usize..bytes.end as usize];
        let mut plain = String::new();
        let mut inside = false;
        for c in shown.chars().take(400) {
            match c {
                '<' => inside = true,
                '>' => (inside, plain) = (false, plain + " "),
                c if !inside => plain.push(c),
                _ => {}
            }
        }
        let words: Vec<&str> = plain.split_whitespace().take(3).collect();
        words.join(" ")
    };
    let tree = tree(html);
    let items = tree.items.iter().filter(|item| item.bytes.is_some());
    items
        .map(|item| (item.number.clone(), item.status.as_str(), start(item)))
        .collect()
}

/// Id, status and first page of each Item that is not absent; `?` marks what is not certain.
pub(crate) fn items(html: &str) -> Vec<String> {
    let tree = tree(html);
    let there = tree
        .items
        .iter()
        .filter(|item| item.pages.is_some() || !item.content.is_empty());
    there
        .map(|item| {
            let doubt = if item.boundary_unverifiable { "?" } else { "" };
            let page = item.pages.map_or(0, |pages| pages.start().get());
            format!("{}{doubt} {} {page}", item.id, item.status.as_str())
        })
        .collect()
}

pub(crate) fn check(html: &str, expected: &[(&str, &str, &str)]) {
    let found = found(html);
    let found: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|(number, status, start)| (number.as_str(), *status, start.as_str()))
        .collect();
    assert_eq!(found, expected);
}

/// A contents page; a row has number, title, page, and the anchor it leads to.
pub(crate) fn contents(rows: &[(&str, &str, u32, &str)]) -> String {
    let rows: String = rows
        .iter()
        .map(|(number, title, page, anchor)| {
            let link = |text: &str| match *anchor {
                "" => text.to_string(),
                anchor => format!("<a href='#{anchor}'>{text}</a>"),
            };
            format!(
                "<tr><td>{}</td><td>{}</td><td align=right>{}</td></tr>",
                link(number),
                link(title),
                link(&page.to_string())
            )
        })
        .collect();
    format!("<p align=center><b>TABLE OF CONTENTS</b></p><table width='100%'>{rows}</table>{BREAK}")
}
