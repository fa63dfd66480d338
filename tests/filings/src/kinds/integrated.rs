//! An integrated annual report: sections in its own order, and an index of the pages that answer the Items.

use super::statements::{note_count, notes, statements};
use super::{Registrant, children, english_typography, prose_capacity, sub_heading};
use crate::Spec;
use crate::manuscript::{Block, FigureTable, Manuscript, ManuscriptHeading, Numbering, TextStyle};
use crate::plan::{PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, plant};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};

// Item, title, and where it is answered: keys of sections, or the reason why it is not.
const ITEMS: [(&str, &str, &str); 19] = [
    ("Item 1.", "Business", "@our business, @people"),
    ("Item 1A.", "Risk Factors", "@risk"),
    ("Item 1B.", "Unresolved Staff Comments", "None"),
    ("Item 2.", "Properties", "@sites"),
    ("Item 3.", "Legal Proceedings", "@note 6"),
    ("Item 4.", "Mine Safety Disclosures", "Not applicable"),
    (
        "Item 5.",
        "Market for Registrant\u{2019}s Common Equity",
        "@shareholders",
    ),
    ("Item 6.", "[Reserved]", ""),
    (
        "Item 7.",
        "Management\u{2019}s Discussion and Analysis",
        "@review, @risk",
    ),
    (
        "Item 7A.",
        "Quantitative and Qualitative Disclosures About Market Risk",
        "@market risk",
    ),
    (
        "Item 8.",
        "Financial Statements and Supplementary Data",
        "@statements",
    ),
    (
        "Item 9.",
        "Changes in and Disagreements With Accountants",
        "N/A",
    ),
    ("Item 9A.", "Controls and Procedures", "@shareholders"),
    (
        "Item 10.",
        "Directors, Executive Officers and Corporate Governance",
        "(a)",
    ),
    ("Item 11.", "Executive Compensation", "(a)"),
    (
        "Item 12.",
        "Security Ownership of Certain Beneficial Owners",
        "(a)",
    ),
    (
        "Item 13.",
        "Certain Relationships and Related Transactions",
        "(a)",
    ),
    ("Item 14.", "Principal Accountant Fees and Services", "(a)"),
    (
        "Item 15.",
        "Exhibits and Financial Statement Schedules",
        "@shareholders",
    ),
];
// PARTs, each before the Item with this index.
const PARTS: [(usize, &str); 4] = [
    (0, "Part I"),
    (6, "Part II"),
    (13, "Part III"),
    (18, "Part IV"),
];

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "integrated");
    let mut look = english_typography(rng);
    look.contents_levels = rng.between(1, 2) as u16;
    look.bare_parts = false;
    let size = look.size;
    let registrant = Registrant::new(rng);
    let year = registrant.year;
    let mut sections = report(&registrant, spec, size, rng);
    let heading = sub_heading(size);
    let manner = ProseFormat {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 7000,
        deepest: 3,
        bullets: true,
    };
    fill(
        &mut sections,
        prose_capacity(&look, spec.pages, 9.0),
        &manner,
        rng,
        &mut UniqueTitles::default(),
    );
    let plants = rng.between(11, 48).to_string();
    let text = format!("At year end we operated {plants} plants and offices.");
    plant(
        &mut sections,
        |s| s.heading.title == "Where We Work",
        paragraph_with_answer("How many plants and offices did we operate?", text, plants),
    );
    let index = index(size, rng);
    let at = if rng.chance(50) { 0 } else { sections.len() };
    sections.insert(at, index);
    let mut body = vec![
        Block::RunningHead(registrant.name.clone()),
        Block::Numbering(Numbering::Arabic(1)),
    ];
    body.extend(into_blocks(sections));
    let period = [
        "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934"
            .to_owned(),
        format!("For the fiscal year ended December 31, {year}"),
    ];
    Manuscript {
        title: format!("{} Annual Report {year}", registrant.name),
        facts: registrant.facts("10-K", "FY", &format!("{year}-12-31")),
        cover: registrant.cover("10-K", &period, size),
        body,
        typography: look,
    }
}

fn report(registrant: &Registrant, spec: &Spec, size: f32, rng: &mut Rng) -> Vec<PlannedSection> {
    let heads: Vec<String> = (0..3)
        .map(|ago| (registrant.year - ago).to_string())
        .collect();
    let top = |title: &str, key: &str, weight: usize| {
        let heading = ManuscriptHeading::new(title, 1, TextStyle::bold(size + 6.0))
            .with_new_page()
            .with_key(key);
        PlannedSection::new(heading, weight)
            .with_topic(&title.to_lowercase())
            .undivided()
    };
    let keyed = |names: &[(&str, &str)]| {
        let titles: Vec<&str> = names.iter().map(|(title, _)| *title).collect();
        let mut sections = children(&titles, 2, 3, size + 1.0);
        for (section, (_, key)) in sections.iter_mut().zip(names) {
            section.heading.key = Some((*key).to_owned());
        }
        sections
    };
    let mut statements = statements("Consolidated", &heads, 2, true, size, rng);
    let heading = ManuscriptHeading::new(
        "Notes to Consolidated Financial Statements",
        2,
        TextStyle::bold(size).centered(),
    );
    let notes = notes(note_count(spec.pages).max(6), 3, size, &heads, rng);
    statements.push(PlannedSection::new(heading.with_new_page(), 0).with_children(notes));
    let mut review = keyed(&[
        ("Results in Brief", "brief"),
        ("Cash and Capital", "cash"),
        ("Market Risk", "market risk"),
    ]);
    review
        .iter_mut()
        .for_each(|section| section.topic = "the results of the year".into());
    vec![
        top("Letter to Shareholders", "letter", 3),
        top("Our Business", "our business", 2).with_children(keyed(&[
            ("What We Do", "what"),
            ("Where We Work", "sites"),
            ("Our People", "people"),
        ])),
        top("Financial Review", "review", 2).with_children(review),
        top("How We Manage Uncertainty", "risk", 8),
        top("Consolidated Financial Statements", "statements", 0).with_children(statements),
        top("Information for Shareholders", "shareholders", 3),
    ]
}

// A table of Items and pages with footnotes.
fn index(size: f32, rng: &mut Rng) -> PlannedSection {
    let title = rng.pick(&[
        "FORM 10-K CROSS-REFERENCE INDEX",
        "Cross-Reference Index",
        "Form 10-K Cross Reference Index",
    ]);
    let mut own = vec![Block::Line(
        "The Items of Form 10-K are answered on these pages:".into(),
        TextStyle::plain(size),
    )];
    for (n, (item, title, places)) in ITEMS.iter().enumerate() {
        if let Some((_, part)) = PARTS.iter().find(|(at, _)| *at == n) {
            own.push(Block::Line((*part).to_owned(), TextStyle::bold(size)));
        }
        let rows = vec![(format!("{item} {title}"), vec![(*places).to_owned()])];
        own.push(Block::Table(FigureTable {
            heads: Vec::new(),
            rows,
        }));
        own.push(Block::Gap(-size));
    }
    own.push(Block::Gap(size));
    own.push(Block::Line(
        "(a) Incorporated by reference to the proxy statement for the annual meeting of shareholders.".into(),
        TextStyle::plain(size - 1.0),
    ));
    PlannedSection::new(
        ManuscriptHeading::new(title, 1, TextStyle::bold(size + 4.0)).with_new_page(),
        0,
    )
    .with_content(own)
}
