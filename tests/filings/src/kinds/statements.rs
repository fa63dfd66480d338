//! Financial statements, notes, signatures and exhibits, shared by annual and quarterly reports.

use crate::manuscript::{Block, FigureTable, ManuscriptHeading, TextStyle};
use crate::plan::{PlannedSection, paragraph_with_mentions};
use crate::random::Rng;
use crate::words;

const OPERATIONS: [&str; 14] = [
    "Net sales",
    "Cost of sales",
    "Gross profit",
    "Selling, general and administrative",
    "Research and development",
    "Restructuring, net",
    "Operating income",
    "Interest expense",
    "Interest income",
    "Other expense, net",
    "Income before income taxes",
    "Provision for income taxes",
    "Net income",
    "Diluted earnings per share",
];
const BALANCE: [&str; 20] = [
    "Cash and cash equivalents",
    "Marketable securities",
    "Accounts receivable, net",
    "Inventories",
    "Prepaids and other",
    "Total current assets",
    "Property, plant and equipment, net",
    "Operating lease right-of-use assets",
    "Goodwill",
    "Intangible assets, net",
    "Total assets",
    "Short-term borrowings",
    "Accounts payable",
    "Accrued payroll",
    "Total current liabilities",
    "Long-term debt",
    "Pension obligations",
    "Total liabilities",
    "Total equity",
    "Total liabilities and equity",
];
const FLOWS: [&str; 14] = [
    "Net income",
    "Depreciation and amortization",
    "Deferred income taxes",
    "Accounts receivable",
    "Inventories",
    "Accounts payable",
    "Net cash provided by operating activities",
    "Purchases of property, plant and equipment",
    "Proceeds from sale of businesses",
    "Net cash used in investing activities",
    "Repayment of debt",
    "Dividends paid to shareholders",
    "Net cash used in financing activities",
    "Net change in cash",
];
const NOTES: [&str; 24] = [
    "Summary of Significant Accounting Policies",
    "Revenue",
    "Acquisitions and Divestitures",
    "Goodwill and Intangible Assets",
    "Restructuring Actions",
    "Supplemental Income Statement Information",
    "Inventories",
    "Property, Plant and Equipment",
    "Leases",
    "Income Taxes",
    "Long-Term Debt and Short-Term Borrowings",
    "Commitments and Contingencies",
    "Pension and Postretirement Benefit Plans",
    "Derivatives",
    "Fair Value Measurements",
    "Stock-Based Compensation",
    "Accumulated Other Comprehensive Income",
    "Earnings Per Share",
    "Business Segments",
    "Geographic Areas",
    "Related Party Transactions",
    "Quarterly Data (Unaudited)",
    "Variable Interest Entities",
    "Subsequent Events",
];

/// Number of notes in a document of this size.
pub(super) fn note_count(pages: u32) -> usize {
    (6 + pages as usize / 12).min(NOTES.len())
}

/// A table with these labels and one column of figures per head.
pub(super) fn table(labels: &[&str], heads: &[String], rng: &mut Rng) -> Block {
    let rows = labels.iter().map(|label| {
        let cells = heads.iter().map(|_| words::figure(rng)).collect();
        ((*label).to_owned(), cells)
    });
    Block::Table(FigureTable {
        heads: heads.to_vec(),
        rows: rows.collect(),
    })
}

/// The statements at `level`. `pages`: each one starts a page.
pub(super) fn statements(
    prefix: &str,
    heads: &[String],
    level: u16,
    pages: bool,
    size: f32,
    rng: &mut Rng,
) -> Vec<PlannedSection> {
    let tables: [(&str, &[&str]); 3] = [
        ("Statements of Operations", &OPERATIONS),
        ("Balance Sheets", &BALANCE),
        ("Statements of Cash Flows", &FLOWS),
    ];
    let each = tables.map(|(name, labels)| {
        let mut heading = ManuscriptHeading::new(
            format!("{prefix} {name}"),
            level,
            TextStyle::bold(size).centered(),
        );
        heading.new_page = pages;
        let own = vec![
            Block::Line(
                "(dollars in millions, except per share amounts)".into(),
                TextStyle::italic(size - 1.0).centered(),
            ),
            table(labels, heads, rng),
            Block::Line(
                "The accompanying notes are an integral part of these statements.".into(),
                TextStyle::italic(size - 1.0),
            ),
        ];
        PlannedSection::new(heading, 0).with_content(own)
    });
    each.into()
}

/// The notes 1 to `count` at `level`. They mention each other.
pub(super) fn notes(
    count: usize,
    level: u16,
    size: f32,
    heads: &[String],
    rng: &mut Rng,
) -> Vec<PlannedSection> {
    let shape = rng.below(3);
    let style = if rng.chance(50) {
        TextStyle::bold(size)
    } else {
        TextStyle::bold(size + 0.5)
    };
    NOTES
        .iter()
        .take(count)
        .enumerate()
        .map(|(n, name): (usize, &&str)| {
            let number = n + 1;
            let title = match shape {
                0 => format!("Note {number}. {name}"),
                1 => format!("NOTE {number}: {}", name.to_uppercase()),
                _ => format!("Note {number} \u{2014} {name}"),
            };
            let mut own = Vec::new();
            if n % 3 == 1 {
                own.push(table(&OPERATIONS[..5], heads, rng));
            }
            if n % 4 == 2 {
                let other = rng.between(1, count);
                let mention = format!("Note {other}");
                let key = format!("note {other}");
                own.push(Block::Prose(paragraph_with_mentions(
                    "Further detail is given in",
                    &[(&mention, &key)],
                    "and is not repeated here.",
                )));
            }
            let heading =
                ManuscriptHeading::new(title, level, style).with_key(format!("note {number}"));
            PlannedSection::new(heading, if n == 0 { 4 } else { 2 }).with_content(own)
        })
        .collect()
}

pub(super) fn signatures(registrant: &str, date: &str, size: f32) -> PlannedSection {
    let line = |text: String| Block::Line(text, TextStyle::plain(size));
    let mut own = vec![Block::Prose(
        "Pursuant to the requirements of the Securities Exchange Act of 1934, the registrant has duly caused this report to be signed on its behalf by the undersigned, thereunto duly authorized.".to_owned().into(),
    )];
    own.extend([
        line(registrant.to_owned()),
        line("By /s/ A. Example".into()),
        line("A. Example, Chief Executive Officer".into()),
        line(date.to_owned()),
    ]);
    for (name, office) in [
        ("B. Sample", "Chief Financial Officer"),
        ("C. Specimen", "Chief Accounting Officer"),
        ("D. Placeholder", "Director"),
    ] {
        own.extend([
            Block::Gap(10.0),
            line(format!("/s/ {name}")),
            line(office.into()),
            line(date.to_owned()),
        ]);
    }
    let heading = ManuscriptHeading::new("SIGNATURES", 1, TextStyle::bold(size + 1.0).centered())
        .with_new_page()
        .with_key("signatures");
    PlannedSection::new(heading, 0).with_content(own)
}

pub(super) fn exhibits() -> Block {
    let list = [
        (
            "3.1",
            "Certificate of incorporation, as amended, incorporated by reference to Exhibit 3(i) of an earlier report.",
        ),
        ("3.2", "Amended and restated bylaws."),
        ("4.1", "Description of registered securities."),
        ("10.1", "Executive deferred compensation plan."),
        ("21", "Subsidiaries of the registrant."),
        (
            "23",
            "Consent of the independent registered public accounting firm.",
        ),
        ("31.1", "Certification of the principal executive officer."),
        ("31.2", "Certification of the principal financial officer."),
        ("101", "Interactive data files."),
    ];
    Block::Table(FigureTable {
        heads: Vec::new(),
        rows: list
            .into_iter()
            .map(|(number, text): (&str, &str)| (format!("{number} {text}"), Vec::new()))
            .collect(),
    })
}
