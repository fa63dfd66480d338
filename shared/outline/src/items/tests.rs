use std::fmt::Write as _;

use proptest::prelude::*;
use stemma_document::{Fact, PageNo, Position, Pt, SectionId};

use super::*;
use crate::enrich::SectionSettings;
use crate::enrich::fixture::finish;
use crate::enrich::fixture::{paged, text_tree, tree};

const PROXY: &str = "The information required by this Item is incorporated by reference from our definitive proxy statement.";

/// The Item map of a filing on `form` with these pages and headings `(page, line, level, title)`.
fn map(
    form: &str,
    pages: &[&str],
    headings: &[(u32, u32, u16, &str)],
    index: &[IndexRow],
) -> Vec<FilingItem> {
    let source = paged(pages);
    let mut tree = finish(
        tree(&source, headings),
        &source,
        &SectionSettings::default(),
        &[],
    );
    tree.facts.form = Some(Fact::from_text(form, None));
    tree.facts.fiscal_year = Some(Fact::from_text("2024", None));
    attach(&mut tree, &source, index);
    tree.items
}

/// One line per Item that is not absent.
fn render(items: &[FilingItem]) -> String {
    let mut output = String::new();
    for item in items
        .iter()
        .filter(|item| item.status != ItemStatus::Absent)
    {
        let _ = write!(output, "{} {:?}", item.id, item.status);
        if item.boundary_unverifiable {
            output.push_str(" unverifiable");
        }
        for link in &item.content {
            let _ = match &link.target {
                ItemTarget::Section(id) => write!(output, " → #{id}"),
                ItemTarget::Pages(pages) => write!(output, " → p {pages}"),
                ItemTarget::Outside(document) => write!(output, " → {document}"),
                ItemTarget::Unresolved => write!(output, " → ?"),
            };
            if link.approximate {
                output.push_str(" (about)");
            }
        }
        output.push('\n');
    }
    output
}

fn filler(words: usize) -> String {
    "We make many anvils and sell them to customers.\n".repeat(words / 9 + 1)
}

#[test]
fn all_item_statuses() {
    let business = format!("PART I\nItem 1. Business\n{}", filler(400));
    let rest = format!(
        "Item 1A. Risk Factors\nRisks are many.\nItem 1B. Unresolved Staff Comments\nNone.\nItem 2. Properties\nWe own a \
         forge.\nItem 3. Legal Proceedings\nSee Note 3, “Commitments”, which is incorporated by reference.\n\
         PART III\nItems 10, 11 and 12. Directors; Compensation; Ownership\n{PROXY}\nItem 13. Certain Relationships\n{PROXY}\n\
         Item 14. Principal Accountant Fees\nOmitted.\nNote 3. Commitments\n{}",
        filler(100)
    );
    let headings = [
        (1, 0, 1, "PART I"),
        (1, 1, 2, "Item 1. Business"),
        (2, 0, 2, "Item 1A. Risk Factors"),
        (2, 2, 2, "Item 1B. Unresolved Staff Comments"),
        (2, 4, 2, "Item 2. Properties"),
        (2, 6, 2, "Item 3. Legal Proceedings"),
        (2, 8, 1, "PART III"),
        (
            2,
            9,
            2,
            "Items 10, 11 and 12. Directors; Compensation; Ownership",
        ),
        (2, 11, 2, "Item 13. Certain Relationships"),
        (2, 13, 2, "Item 14. Principal Accountant Fees"),
        (2, 15, 1, "Note 3. Commitments"),
    ];
    let items = map("10-K", &[&business, &rest], &headings, &[]);
    insta::assert_snapshot!(render(&items), @r"
    10-K.I.1 Full
    10-K.I.1A Stub
    10-K.I.1B None
    10-K.I.2 Full
    10-K.I.3 ByReference → #0010
    10-K.III.10 Combined → proxy statement
    10-K.III.11 Combined → proxy statement
    10-K.III.12 Combined → proxy statement
    10-K.III.13 ByReference → proxy statement
    10-K.III.14 Omitted unverifiable
    ");
    let absent: Vec<&str> = items
        .iter()
        .filter(|item| item.status == ItemStatus::Absent)
        .map(|item| item.number.as_str())
        .collect();
    assert_eq!(
        absent,
        ["1C", "4", "5", "7", "7A", "8", "9", "9A", "9B", "9C", "15"]
    );
}

#[test]
fn one_text_answers_all_items_that_it_names() {
    let answer = "The information called for by Items 10, 11 and 12 is incorporated by reference to the Proxy Statement.";
    let page = format!(
        "PART III\nItem 10. Directors\nItem 11. Executive Compensation\nItem 12. Security Ownership\n{answer}\n\
         Item 13. Certain Relationships\nItem 14. Principal Accountant Fees\n{PROXY}"
    );
    let headings = [
        (1, 0, 1, "PART III"),
        (1, 1, 2, "Item 10. Directors"),
        (1, 2, 2, "Item 11. Executive Compensation"),
        (1, 3, 2, "Item 12. Security Ownership"),
        (1, 5, 2, "Item 13. Certain Relationships"),
        (1, 6, 2, "Item 14. Principal Accountant Fees"),
    ];
    insta::assert_snapshot!(render(&map("10-K", &[&page], &headings, &[])), @r"
    10-K.III.10 ByReference → proxy statement
    10-K.III.11 ByReference → proxy statement
    10-K.III.12 ByReference → proxy statement
    10-K.III.13 Stub
    10-K.III.14 ByReference unverifiable → proxy statement
    ");
}

#[test]
fn quarterly_items_are_distinguished_by_part() {
    let page = "PART I\nItem 1. Financial Statements\nThe statements are on page 7 to page 9, see page 7.\nPART II\n\
                Item 1. Legal Proceedings\nNone.\nItem 1A. Risk Factors\nThere is no change in what we said about them.";
    let headings = [
        (1, 0, 1, "PART I"),
        (1, 1, 2, "Item 1. Financial Statements"),
        (1, 3, 1, "PART II"),
        (1, 4, 2, "Item 1. Legal Proceedings"),
        (1, 6, 2, "Item 1A. Risk Factors"),
    ];
    insta::assert_snapshot!(render(&map("10-Q/A", &[page], &headings, &[])), @r"
    10-Q.I.1 ByReference → ? → ?
    10-Q.II.1 None
    10-Q.II.1A None
    ");
}

#[test]
fn answer_may_be_in_the_heading() {
    let page = format!(
        "PART I\nItem 3. Legal Proceedings\n{}Item 4. Mine Safety Disclosures - Not applicable\nPART IV\nItem 16. Form 10-K \
         Summary. None.\nSIGNATURES\n{}",
        filler(100),
        filler(100)
    );
    let lines = 3 + filler(100).lines().count() as u32;
    let headings = [
        (1, 0, 1, "PART I"),
        (1, 1, 2, "Item 3. Legal Proceedings"),
        (
            1,
            lines - 1,
            2,
            "Item 4. Mine Safety Disclosures - Not applicable",
        ),
        (1, lines, 1, "PART IV"),
        (1, lines + 1, 2, "Item 16. Form 10-K Summary. None."),
        (1, lines + 2, 1, "SIGNATURES"),
    ];
    insta::assert_snapshot!(render(&map("10-K", &[&page], &headings, &[])), @r"
    10-K.I.3 Full
    10-K.I.4 NotApplicable unverifiable
    10-K.IV.16 None
    ");
}

#[test]
fn executive_officers_are_content_of_an_item_that_is_not_applicable() {
    let status = |level, words, title| {
        let page = format!(
            "PART I\nItem 4. Mine Safety Disclosures\nNot applicable.\n{title}\n{}PART II",
            filler(words)
        );
        let lines = 4 + filler(words).lines().count() as u32;
        let headings = [
            (1, 0, 1, "PART I"),
            (1, 1, 2, "Item 4. Mine Safety Disclosures"),
            (1, 3, level, title),
            (1, lines, 1, "PART II"),
        ];
        let items = map("10-K", &[&page], &headings, &[]);
        let item = items.iter().find(|item| item.id == "10-K.I.4");
        item.map(|item| item.status)
    };
    let officers = "Executive Officers of the Registrant";
    assert_eq!(status(2, 100, officers), Some(ItemStatus::Full));
    assert_eq!(status(3, 410, officers), Some(ItemStatus::Full));
    assert_eq!(
        status(3, 380, "Definitions"),
        Some(ItemStatus::NotApplicable)
    );
    assert_eq!(
        status(2, 410, "Definitions"),
        Some(ItemStatus::NotApplicable)
    );
}

#[test]
fn quarterly_risk_factors_of_the_annual_report_are_a_reference() {
    let status = |text: &str| {
        let page = format!("PART II\nItem 1A. Risk Factors\n{text}");
        let headings = [(1, 0, 1, "PART II"), (1, 1, 2, "Item 1A. Risk Factors")];
        let items = map("10-Q", &[&page], &headings, &[]);
        let item = items.iter().find(|item| item.id == "10-Q.II.1A");
        item.map(|item| item.status)
    };
    let reference = "Carefully consider the factors discussed in Item 1A of our Form 10-K.\nThey could harm our forge, its \
                     tongs and its coal.\nOther risks that we do not know may do so as well, as may those we think small.";
    assert_eq!(status(reference), Some(ItemStatus::ByReference));
    let added = "Except as set forth below, the risk factors in our Form 10-K apply.\nThe price of coal could rise again \
                 and again, and customers of the forge could go elsewhere.\nOur smiths could leave us for the mill.";
    assert_eq!(status(added), Some(ItemStatus::Full));
}

#[test]
fn unverified_boundary_is_flagged() {
    let page = "Some words that open the page.\nMore of them follow here.\nItem 8.01. Other Events.\nWe opened a forge.";
    let headings = [
        (1, 0, 1, "Item 5.02. Departure of Directors"),
        (1, 2, 1, "Item 8.01. Other Events."),
    ];
    let items = map("8-K", &[page], &headings, &[]);
    insta::assert_snapshot!(render(&items), @r"
    8-K.5.02 Full unverifiable
    8-K.8.01 Full
    ");
    let boundary = items[1].boundary.as_ref().unwrap();
    assert_eq!(boundary.heading.line, 3);
    assert_eq!(boundary.heading.text, "Item 8.01. Other Events.");
    assert!(boundary.next.is_none());
}

#[test]
fn item_of_a_cross_index_has_the_bytes_of_its_pages() {
    let mut source = paged(&["one\ntwo", "three\nfour", "five"]);
    let SourceBody::Pages(pages) = &mut source.body else {
        panic!("no pages")
    };
    let lines = pages.iter_mut().flat_map(|page| &mut page.lines);
    for (line, start) in lines.zip((0..).step_by(100)) {
        line.bytes = Some(ByteSpan {
            start,
            end: start + 10,
        });
    }
    let pages = PageSpan::new(2, 3).unwrap();
    assert_eq!(
        bytes_of_pages(&source, &[pages]),
        Some(ByteSpan {
            start: 200,
            end: 410
        })
    );
    assert_eq!(bytes_of_pages(&paged(&["one"]), &[pages]), None);
}

#[test]
fn cross_index_locates_items() {
    let row = |item: &str, part, pages: &[(u32, u32)], titles: &[&str], note| IndexRow {
        part: Some(part),
        item: item.into(),
        title: "Title".into(),
        printed: pages.iter().map(|(a, b)| format!("{a}-{b}")).collect(),
        pages: pages
            .iter()
            .filter_map(|(a, b)| PageSpan::new(*a, *b))
            .collect(),
        titles: titles.iter().map(|title| (*title).to_owned()).collect(),
        note,
        place: Position {
            page: PageNo::FIRST,
            line: 0,
            y: Pt(0),
        },
    };
    let index = [
        row("1", 1, &[(2, 2), (3, 3)], &["About us"], None),
        row("1B", 1, &[], &[], Some(IndexNote::NotApplicable)),
        row("11", 3, &[], &[], Some(IndexNote::ByReference)),
    ];
    let pages = [
        "Our year\nA letter.",
        "About us\nWe forge.",
        "The forge\nIt is hot.",
    ];
    let headings = [
        (1, 0, 1, "Our year"),
        (2, 0, 1, "About us"),
        (3, 0, 1, "The forge"),
    ];
    insta::assert_snapshot!(render(&map("10-K", &pages, &headings, &index)), @r"
    10-K.I.1 CrossIndex unverifiable → #0001 → p 2 → p 3
    10-K.I.1B NotApplicable
    10-K.III.11 ByReference → another document
    ");
}

#[test]
fn document_without_form_has_no_items() {
    let (source, mut tree) = text_tree("# 1. Business\ntext", &[(1, 1, "1. Business")]);
    attach(&mut tree, &source, &[]);
    assert!(tree.items.is_empty());
}

/// The links of Item 3 with this text, in a report whose notes are sections.
fn legal_proceedings(text: &str) -> String {
    let head = format!("PART I\nItem 3. Legal Proceedings\n{text}\nPART II");
    let item8 = format!(
        "Item 8. Financial Statements and Supplementary Data\n{}",
        filler(200)
    );
    let notes = format!(
        "4. Leases\n{}\n23. Legal Proceedings\n{}",
        filler(50),
        filler(50)
    );
    let at = notes
        .lines()
        .position(|line| line.starts_with("23."))
        .unwrap() as u32;
    let last = text.lines().count() as u32;
    let headings = [
        (1, 0, 1, "PART I"),
        (1, 1, 2, "Item 3. Legal Proceedings"),
        (1, 2 + last, 1, "PART II"),
        (
            2,
            0,
            2,
            "Item 8. Financial Statements and Supplementary Data",
        ),
        (3, 0, 3, "4. Leases"),
        (3, at, 3, "23. Legal Proceedings"),
    ];
    let items = map("10-K", &[&head, &item8, &notes], &headings, &[]);
    let all = render(&items);
    all.lines()
        .find_map(|line| line.strip_prefix("10-K.I.3 "))
        .unwrap()
        .to_owned()
}

#[test]
fn a_note_is_named_by_number_title_or_topic() {
    for text in [
        "Information is included in the Legal Proceedings note in Item 8 of this report.",
        "The information in Note 23, Legal Proceedings, is incorporated by reference.",
        "See the Legal Proceedings note under “Item 8. Financial Statements and Supplementary Data.”",
        "See “Legal Proceedings” in the notes.",
        "Information on legal proceedings is contained in Item 8.",
    ] {
        assert_eq!(legal_proceedings(text), "ByReference → #0005", "{text}");
    }
}

#[test]
fn an_item_that_only_contains_the_place_is_approximate() {
    assert_eq!(
        legal_proceedings("Information on lawsuits is contained in Item 8 of this report."),
        "ByReference → #0003 (about)"
    );
    assert_eq!(
        legal_proceedings(
            "See the Litigation note in “Item 8. Financial Statements and Supplementary Data.”"
        ),
        "ByReference → #0003 (about)"
    );
}

#[test]
fn a_heading_that_is_no_section_is_found_by_its_words() {
    let business = format!(
        "PART I\nANNUAL REPORT ON FORM 10-K\nItem 1. Business\n{}",
        filler(100)
    );
    let officers = format!("Executive Officers\n{}", filler(60));
    let directors = "PART III\nItem 10. Directors\nInformation about executive officers is included in Item 1 of this \
         Annual Report on Form 10-K.";
    let headings = [
        (1, 0, 1, "PART I"),
        (1, 2, 2, "Item 1. Business"),
        (3, 0, 1, "PART III"),
        (3, 1, 2, "Item 10. Directors"),
    ];
    let items = map("10-K", &[&business, &officers, directors], &headings, &[]);
    insta::assert_snapshot!(render(&items), @r"
    10-K.I.1 Full
    10-K.III.10 ByReference unverifiable → p 2
    ");
}

#[test]
fn an_exhibit_index_behind_the_signatures_is_found() {
    let item = format!(
        "PART II\nItem 6. Exhibits\nSee Exhibit Index following the signature page.\nSIGNATURES\n{}",
        filler(30)
    );
    let headings = [
        (1, 0, 1, "PART II"),
        (1, 1, 2, "Item 6. Exhibits"),
        (1, 3, 1, "SIGNATURES"),
    ];
    let index = format!("EXHIBIT INDEX\n{}", filler(30));
    insta::assert_snapshot!(render(&map("10-Q", &[&item, &index], &headings, &[])), @"10-Q.II.6 Full → p 2");
    let inside =
        "PART II\nItem 6. Exhibits\nSee the Exhibit Index.\nEXHIBIT INDEX\n31.1 Certification";
    insta::assert_snapshot!(render(&map("10-Q", &[inside], &headings[..2], &[])), @"10-Q.II.6 Full");
}

#[test]
fn a_summary_at_the_beginning_is_found() {
    let front = "FORM 10-K\nPursuant to Part IV, Item 16, a summary of Form 10-K content follows.\nITEM 1 Business 3";
    let business = format!("PART I\nItem 1. Business\n{}", filler(100));
    let last = "PART IV\nItem 16. Form 10-K Summary\nA summary is provided at the beginning of this document and is incorporated by reference.";
    let headings = [
        (3, 0, 1, "PART I"),
        (3, 1, 2, "Item 1. Business"),
        (4, 0, 1, "PART IV"),
        (4, 1, 2, "Item 16. Form 10-K Summary"),
    ];
    let pages = ["A cover", front, &business, last];
    insta::assert_snapshot!(render(&map("10-K", &pages, &headings, &[])), @r"
    10-K.I.1 Full
    10-K.IV.16 ByReference → p 2
    ");
}

#[test]
fn an_unprinted_item_begins_where_the_contents_say() {
    let contents = "Item 1. Financial Statements\nStatements of income 3\nItem 2. Management’s Discussion and Analysis of \
         Financial Condition and Results of Operations\nFinancial highlights 2\nIntroduction 4";
    let highlights = format!("Financial highlights\n{}", filler(50));
    let statements = format!("Statements of income\n{}", filler(150));
    let introduction = format!("Introduction\n{}", filler(150));
    let headings = [
        (1, 0, 1, "Contents"),
        (2, 0, 1, "Financial highlights"),
        (3, 0, 1, "Item 1. Financial Statements"),
        (3, 0, 2, "Statements of income"),
        (
            4,
            0,
            1,
            "Item 2. Management’s Discussion and Analysis of Financial Condition and Results of Operations",
        ),
        (4, 0, 2, "Introduction"),
    ];
    let pages = [contents, &highlights, &statements, &introduction];
    insta::assert_snapshot!(render(&map("10-Q", &pages, &headings, &[])), @r"
    10-Q.I.1 Full unverifiable → #0003
    10-Q.I.2 Full unverifiable → #0001
    ");
}

#[test]
fn short_parts_of_an_item_lead_on() {
    let officers = format!("PART I\nItem 1. Business\n{}", filler(100));
    let named = format!("Executive Officers of the Registrant\n{}", filler(60));
    let directors = format!(
        "PART III\nItem 10. Directors\n{}\nExecutive Officers of the Registrant\nRefer to Part I, Item 1. of this Form 10-K \
         for a listing of executive officers.\nOur board\n{}",
        filler(500),
        filler(400)
    );
    let headings = [
        (1, 0, 1, "PART I"),
        (1, 1, 2, "Item 1. Business"),
        (3, 0, 1, "PART III"),
        (3, 1, 2, "Item 10. Directors"),
    ];
    let items = map("10-K", &[&officers, &named, &directors], &headings, &[]);
    insta::assert_snapshot!(render(&items), @r"
    10-K.I.1 Full
    10-K.III.10 Full unverifiable → p 2
    ");
}

#[test]
fn current_report_lists_reported_items() {
    let source = paged(&[
        "Item 2.02 Results of Operations\nThey are good.\nItem 9.01 Exhibits\n99.1 Release",
    ]);
    let headings = [
        (1, 0, 1, "Item 2.02 Results of Operations"),
        (1, 2, 1, "Item 9.01 Exhibits"),
    ];
    let mut tree = finish(
        tree(&source, &headings),
        &source,
        &SectionSettings::default(),
        &[],
    );
    attach(&mut tree, &source, &[]);
    let reported: Vec<_> = tree
        .facts
        .reported_items
        .iter()
        .map(|fact| (fact.value.as_str(), fact.page))
        .collect();
    assert_eq!(
        reported,
        [("2.02", PageNo::new(1)), ("9.01", PageNo::new(1))]
    );
    assert_eq!(tree.items[0].section, Some(SectionId(0)));
}

proptest! {
    #[test]
    fn no_text_panics_and_ids_are_unique(
        text in "(?s)(Item (1|1A|7|8|10, 11 and 12)[.:]? ?[ -~“”é•–]{0,60}\n){0,8}",
        title in "[ -~é•]{0,40}",
    ) {
        let source = paged(&[&text]);
        let lines: Vec<&str> = text.lines().collect();
        let mut headings: Vec<(u32, u32, u16, &str)> =
            lines.iter().zip(0..).map(|(line, at)| (1, at, 1 + (at % 2) as u16, *line)).collect();
        headings.push((1, lines.len() as u32, 1, &title));
        let mut tree = finish(tree(&source, &headings), &source, &SectionSettings::default(), &[]);
        tree.facts.form = Some(Fact::from_text("10-K", None));
        attach(&mut tree, &source, &[]);
        let mut ids: Vec<&str> = tree.items.iter().map(|item| item.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), tree.items.len());
        for item in &tree.items {
            prop_assert!(item.section.is_none_or(|id| tree.section(id).is_some()));
        }
    }
}
