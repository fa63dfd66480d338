//! Tests of searches for declared figures, over made-up filings.

use stemma_catalog::document_store::OpenDocument;
use stemma_catalog::fixtures::company_entry;
use stemma_document::{
    CatalogEntry, DraftEntry, EntryVerdict, EvidenceSource, Extent, Fact, Line, LocatedEntry,
    Method, Page, PageNo, Position, SectionStart, SectionTree, SourceBody, VerifiedOutline,
};
use stemma_xbrl::{FactTable, read_facts};

use super::query::search;
use super::query_tests::indexed;
use super::searcher::IndexSearcher;
use crate::alias_file::AliasFile;
use crate::search::{Query, SearchHit};

// A concept, the last day of its period, and the figure that the second page displays on a line (0-based).
const FIGURES: [(&str, &str, &str, u32); 5] = [
    ("us-gaap:AccruedBonusesCurrent", "2024-12-31", "71", 1),
    ("us-gaap:OtherAssetsNoncurrent", "2024-12-31", "72", 2),
    ("us-gaap:AccruedBonusesCurrent", "2024-12-31", "73", 4),
    ("us-gaap:AccruedBonusesCurrent", "2023-12-31", "74", 7),
    ("us-gaap:DebtCurrent", "2024-12-31", "75", 8),
];

fn facts() -> FactTable {
    let contexts = ["2024-12-31", "2023-12-31"].map(|day| {
        format!(
            "<xbrli:context id=\"c{day}\"><xbrli:entity><xbrli:identifier scheme=\"x\">7</xbrli:identifier></xbrli:entity>\
             <xbrli:period><xbrli:instant>{day}</xbrli:instant></xbrli:period></xbrli:context>"
        )
    });
    let figures = FIGURES.map(|(concept, day, text, _)| {
        format!(
            "<ix:nonFraction name=\"{concept}\" contextRef=\"c{day}\" unitRef=\"u\">{text}</ix:nonFraction>"
        )
    });
    let html = format!(
        "<html xmlns:ix=\"http://www.xbrl.org/2013/inlineXBRL\" xmlns:xbrli=\"http://www.xbrl.org/2003/instance\"><ix:header>\
         <ix:resources>{}<xbrli:unit id=\"u\"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header>{}</html>",
        contexts.concat(),
        figures.concat()
    );
    let mut table = read_facts(html.as_bytes());
    table.place(|fact| {
        let figure = FIGURES.iter().find(|figure| figure.2 == fact.displayed)?;
        Some((PageNo::new(2), figure.3))
    });
    table
}

fn page(lines: &[&str]) -> Page {
    let line = |text: &&str| Line {
        text: (*text).into(),
        ..Line::default()
    };
    Page {
        lines: lines.iter().map(line).collect(),
        ..Page::default()
    }
}

// A report whose prose talks of bonuses on the first page. The second page has three tables under their headings.
fn report(issuer: &str, year: &str, facts: Option<FactTable>) -> (CatalogEntry, OpenDocument) {
    let mut entry = company_entry(&format!("{issuer} {year}.htm"), issuer);
    entry.facts.form = Some(Fact::from_text("10-K", None));
    entry.facts.fiscal_year = Some(Fact::from_text(year, None));
    entry.facts.period_end = Some(Fact::from_text(format!("{year}-12-31"), None));
    let pages = vec![
        page(&[
            "Discussion of bonuses",
            "Accrued bonuses are current. Current accrued bonuses and accrued current bonuses are accrued for bonuses.",
        ]),
        page(&[
            "Position",
            "Pay owed to staff 71",
            "Remaining items 72",
            "Staff",
            "Owed at the end of the year 73",
            "More words on accrued pay that is current",
            "Earlier",
            "Owed before 74",
            "Loans 75",
        ]),
    ];
    let starts = [
        (1, 0, "Discussion"),
        (2, 0, "Position"),
        (2, 3, "Staff"),
        (2, 6, "Earlier"),
    ];
    let sections = starts.map(|(page, line, title)| {
        let entry = DraftEntry {
            number: None,
            title: title.into(),
            label: None,
            target: None,
            level: 1,
            evidence: EvidenceSource::Markup,
        };
        let page = PageNo::new(page).unwrap();
        let place = SectionStart::Page(Position {
            page,
            line,
            y: Default::default(),
        });
        let verdict = EntryVerdict::Confirmed {
            starts_page: line == 0,
        };
        (LocatedEntry { entry, place }, verdict)
    });
    let outline = VerifiedOutline::new(Extent::Pages(2), sections.into()).unwrap();
    let opened = OpenDocument::new(
        SectionTree::build(&outline, Method::Markup, Vec::new()),
        Some(SourceBody::Pages(pages)),
        facts,
    );
    (entry, opened)
}

fn hits(searcher: &IndexSearcher, text: &str) -> Vec<SearchHit> {
    search(searcher, &AliasFile::default(), &Query::new(text))
        .unwrap()
        .hits
}

fn first(searcher: &IndexSearcher, text: &str) -> (String, String) {
    let hit = hits(searcher, text).swap_remove(0);
    (hit.name, hit.path.last().cloned().unwrap_or_default())
}

#[test]
fn sections_that_display_the_figure_of_a_question_come_first() {
    let searcher = indexed([report("Acme Works", "2024", Some(facts()))].into_iter());
    for (question, section) in [
        (
            "What were accrued bonuses, current, as of December 31, 2023?",
            "Earlier",
        ),
        (
            "What was other assets noncurrent as of December 31, 2024?",
            "Position",
        ),
        ("How much was debt current at the end of 2024?", "Earlier"),
    ] {
        assert_eq!(first(&searcher, question).1, section, "{question}");
    }
    let bonuses = "What was accrued bonuses current as of December 31, 2024?";
    assert_eq!(first(&searcher, bonuses).1, "Position");
}

#[test]
fn the_excerpt_is_of_the_section_that_displays_the_figure() {
    let searcher = indexed([report("Acme Works", "2024", Some(facts()))].into_iter());
    let question = "What was accrued bonuses current as of December 31, 2023?";
    let hit = hits(&searcher, question).swap_remove(0);
    let own = ["Earlier", "Owed before 74", "Loans 75"];
    assert!(
        own.iter().any(|line| hit.excerpt.text.contains(line)),
        "{hit:?}"
    );
}

#[test]
fn questions_for_no_figure_are_ranked_by_their_words() {
    let searcher = indexed([report("Acme Works", "2024", Some(facts()))].into_iter());
    for text in [
        "why accrued bonuses are current",
        "accrued current bonuses discussion",
    ] {
        assert_eq!(first(&searcher, text).1, "Discussion", "{text}");
    }
    // One word of many is not a name.
    let text = "What was said of accrued wages, rents, tolls and freight in 2024?";
    let hit = hits(&searcher, text).swap_remove(0);
    assert_eq!(hit.path, ["Discussion"]);
}

#[test]
fn facts_of_one_filing_change_nothing_in_others() {
    let reports = || {
        let mut reports = vec![
            report("Bolt Mills", "2024", None),
            report("Umber Mines", "2024", None),
        ];
        reports.push(report("Acme Works", "2024", None));
        reports
    };
    let plain = indexed(reports().into_iter());
    let mut tagged = reports();
    tagged[2].1.facts = Some(facts());
    let tagged = indexed(tagged.into_iter());
    let question = "What was accrued bonuses current of Bolt Mills as of December 31, 2024?";
    assert_eq!(hits(&plain, question), hits(&tagged, question));
    // The issuer of the question chooses the filing, its period the figure.
    let question = "What was accrued bonuses current of Acme Works as of December 31, 2023?";
    assert_eq!(
        first(&tagged, question),
        ("Acme Works 2024.htm".into(), "Earlier".into())
    );
    let question = "What was debt current as of December 31, 2024?";
    assert_eq!(first(&tagged, question).0, "Acme Works 2024.htm");
}
