//! The Item map of generated filings: every Item is located and has the right status, and none is confidently
//! wrong.

use std::collections::BTreeMap;

use stemma_document::{FilingFacts, FilingItem, ItemStatus, SectionTree};
use stemma_extract::{Limits, pdf};
use stemma_filings::{ContentsMode, Filing, FilingKind, Spec, generate};
use stemma_outline::enrich::{SectionSettings, finish};
use stemma_outline::structure::{StructureSettings, outline};
use stemma_reading::document_reading::DocumentReading;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn filing_items(filing: &Filing) -> Result<Vec<FilingItem>> {
    Ok(tree(filing)?.items)
}

fn filing_facts(filing: &Filing) -> Result<FilingFacts> {
    Ok(tree(filing)?.facts)
}

fn tree(filing: &Filing) -> Result<SectionTree> {
    let source = pdf::read(&filing.pdf, None, &Limits::default(), 1)?;
    let draft = outline(&source, &StructureSettings::default())?;
    let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
    let readings = DocumentReading::new(&source.body).lines;
    let settings = SectionSettings::default();
    let mut tree = finish(tree, &source, &readings, &settings, &draft.labels);
    stemma_outline::items::attach(&mut tree, &source, &draft.cross_index);
    Ok(tree)
}

// The page of an Item, and its status if the filing determines it.
type Expected = BTreeMap<String, (u32, Option<ItemStatus>)>;

fn expected(filing: &Filing, form: &str) -> Expected {
    let f_pages = filing
        .truth
        .nodes
        .iter()
        .any(|node| node.title.starts_with("INDEX TO CONSOLIDATED"));
    let mut expected = Expected::new();
    let mut part = "";
    for node in filing.truth.nodes.iter().filter(|node| node.level <= 2) {
        let words: Vec<&str> = node
            .title
            .split([' ', '.', ',', '\u{2014}'])
            .filter(|word| !word.is_empty())
            .collect();
        if words[0].eq_ignore_ascii_case("part") {
            part = words[1];
            continue;
        }
        let item = words[0].eq_ignore_ascii_case("item") || words[0].eq_ignore_ascii_case("items");
        let numbers = words
            .iter()
            .skip(usize::from(item))
            .take_while(|word| is_number(word) || **word == "and");
        let numbers: Vec<&str> = numbers.copied().filter(|word| *word != "and").collect();
        // Signatures and statements follow the last Item.
        if part.is_empty() || numbers.is_empty() || (!item && node.level == 1) {
            continue;
        }
        for number in &numbers {
            let status = match (form, part, *number) {
                _ if numbers.len() > 1 => Some(ItemStatus::Combined),
                ("10-K", "III", _) => Some(ItemStatus::ByReference),
                ("10-K", _, "8") if f_pages => Some(ItemStatus::ByReference),
                ("10-K", _, "1B" | "9" | "9B" | "16") | ("10-Q", "II", "2" | "5") => {
                    Some(ItemStatus::None)
                }
                ("10-K", _, "4" | "9C") | ("10-Q", "II", "4") => Some(ItemStatus::NotApplicable),
                // `[Reserved]` or `Not applicable`, as the year of the filing requires.
                ("10-K", _, "6") => None,
                // A paragraph with references and some prose: both statuses are correct.
                (_, _, "3") | ("10-Q", "II", "1") => None,
                _ => Some(ItemStatus::Full),
            };
            expected.insert(format!("{form}.{part}.{number}"), (node.page, status));
        }
    }
    expected
}

fn is_number(word: &str) -> bool {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    (1..=2).contains(&digits)
        && word.len() - digits <= 1
        && word[digits..].bytes().all(|b| b.is_ascii_uppercase())
}

fn check(kind: FilingKind, form: &str) -> Result<()> {
    let mut all = 0;
    let mut pages = 0;
    let mut statuses = 0;
    let mut judged = 0;
    let mut wrong = Vec::new();
    for seed in 0..24 {
        let contents = ContentsMode::ALL[seed as usize % ContentsMode::ALL.len()];
        let filing = generate(&Spec {
            contents,
            pages: 14 + 8 * (seed % 3) as u32,
            ..Spec::new(kind, seed)
        });
        let actual: BTreeMap<String, FilingItem> = filing_items(&filing)?
            .into_iter()
            .map(|item| (item.id.clone(), item))
            .collect();
        let expected = expected(&filing, form);
        assert!(expected.len() >= 10, "{kind:?} {seed}: {expected:?}");
        for (id, (page, status)) in &expected {
            all += 1;
            let item = actual.get(id);
            let start = item
                .and_then(|item| item.pages)
                .map(|span| span.start().get());
            pages += u32::from(start == Some(*page));
            let got = item.map(|item| item.status);
            judged += u32::from(status.is_some());
            statuses += u32::from(status.is_some() && got == *status);
            if start != Some(*page) || status.is_some() && got != *status {
                wrong.push(format!(
                    "{seed} {contents:?} {id}: p {page} {status:?}, got p {start:?} {got:?}"
                ));
            }
        }
        // An Item that is not in the document must be flagged.
        for (id, item) in actual.iter().filter(|(id, _)| !expected.contains_key(*id)) {
            let claimed = item.section.is_some() && !item.boundary_unverifiable;
            assert!(
                !claimed,
                "{kind:?} {seed} {contents:?}: {id} is not in the document"
            );
        }
    }
    assert!(
        f64::from(pages) >= 0.97 * f64::from(all),
        "start pages {pages}/{all}\n{}",
        wrong.join("\n")
    );
    assert!(
        f64::from(statuses) >= 0.97 * f64::from(judged),
        "statuses {statuses}/{judged}\n{}",
        wrong.join("\n")
    );
    Ok(())
}

#[test]
fn annual_report_items_have_correct_pages_and_statuses() -> Result<()> {
    check(FilingKind::TenK, "10-K")
}

#[test]
fn quarterly_report_items_have_correct_pages_and_statuses() -> Result<()> {
    check(FilingKind::TenQ, "10-Q")
}

#[test]
fn cover_facts_match_the_generated_filing() -> Result<()> {
    let mut all = 0;
    let mut right = 0;
    let mut wrong = Vec::new();
    for seed in 0..42 {
        let kind = FilingKind::ALL[seed as usize % FilingKind::ALL.len()];
        let filing = generate(&Spec {
            pages: 8,
            ..Spec::new(kind, seed)
        });
        let facts = filing_facts(&filing)?;
        let actual: BTreeMap<&str, &str> = facts
            .entries()
            .into_iter()
            .map(|(name, fact)| (name, fact.value.as_str()))
            .collect();
        let gold = filing.facts.to_json();
        for (name, value) in gold.as_object().into_iter().flatten() {
            // These quarterly reports do not state the end of the fiscal year, and the company of a manual is
            // not a registrant.
            if kind == FilingKind::Manual && name == "company"
                || kind == FilingKind::TenQ && name.starts_with("fiscal")
            {
                continue;
            }
            all += 1;
            let same = actual.get(name.as_str()).copied() == value.as_str();
            right += u32::from(same);
            if !same {
                wrong.push(format!(
                    "{kind:?} {seed} {name}: {value}, got {:?}",
                    actual.get(name.as_str())
                ));
            }
        }
        assert!(
            facts.cik.is_none() && facts.accession.is_none(),
            "{kind:?} {seed}"
        );
    }
    assert!(
        f64::from(right) >= 0.98 * f64::from(all),
        "{right}/{all}\n{}",
        wrong.join("\n")
    );
    Ok(())
}

#[test]
fn cross_index_items_are_located_but_unverified() -> Result<()> {
    let mut read = 0;
    for seed in 0..10 {
        let contents = ContentsMode::ALL[seed as usize % ContentsMode::ALL.len()];
        let filing = generate(&Spec {
            contents,
            pages: 30,
            ..Spec::new(FilingKind::Integrated, seed)
        });
        let items = filing_items(&filing)?;
        let verified: Vec<&FilingItem> = items
            .iter()
            .filter(|item| item.section.is_some() && !item.boundary_unverifiable)
            .collect();
        assert!(verified.is_empty(), "{seed} {contents:?}: {verified:?}");
        let cross: Vec<&FilingItem> = items
            .iter()
            .filter(|item| item.status == ItemStatus::CrossIndex)
            .collect();
        assert!(
            cross.iter().all(|item| {
                let has_content = item.pages.is_some() || !item.content.is_empty();
                item.boundary_unverifiable && has_content
            }),
            "{seed} {contents:?}: {cross:?}"
        );
        read += usize::from(cross.len() >= 8);
    }
    assert!(read >= 9, "the index was read in {read} of 10 documents");
    Ok(())
}
