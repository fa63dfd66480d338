//! Form 8-K with an attached credit agreement: Items `n.nn`, then articles and sections.

use super::{Registrant, english_typography, prose_capacity};
use crate::Spec;
use crate::manuscript::{Block, Manuscript, ManuscriptHeading, Numbering, TextStyle};
use crate::plan::{
    PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, paragraph_with_mentions,
    plant,
};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};

const ARTICLES: [(&str, [&str; 5]); 9] = [
    (
        "DEFINITIONS",
        [
            "Defined Terms",
            "Terms Generally",
            "Accounting Terms",
            "Rates",
            "Divisions",
        ],
    ),
    (
        "THE CREDITS",
        [
            "Commitments",
            "Loans and Borrowings",
            "Requests for Borrowings",
            "Funding of Borrowings",
            "Repayment of Loans",
        ],
    ),
    (
        "REPRESENTATIONS AND WARRANTIES",
        [
            "Organization; Powers",
            "Authorization",
            "Governmental Approvals",
            "Financial Condition",
            "Litigation",
        ],
    ),
    (
        "CONDITIONS",
        [
            "Effective Date",
            "Each Credit Event",
            "Opinions of Counsel",
            "Officer Certificates",
            "Fees",
        ],
    ),
    (
        "AFFIRMATIVE COVENANTS",
        [
            "Financial Statements",
            "Notices",
            "Existence",
            "Payment of Obligations",
            "Books and Records",
        ],
    ),
    (
        "NEGATIVE COVENANTS",
        [
            "Indebtedness",
            "Liens",
            "Fundamental Changes",
            "Transactions with Affiliates",
            "Leverage Ratio",
        ],
    ),
    (
        "EVENTS OF DEFAULT",
        [
            "Defaults",
            "Remedies",
            "Application of Payments",
            "Cure Rights",
            "Waivers of Default",
        ],
    ),
    (
        "THE ADMINISTRATIVE AGENT",
        [
            "Appointment",
            "Rights as a Lender",
            "Reliance",
            "Resignation",
            "Erroneous Payments",
        ],
    ),
    (
        "MISCELLANEOUS",
        [
            "Notices to Parties",
            "Amendments",
            "Expenses",
            "Successors and Assigns",
            "Governing Law",
        ],
    ),
];

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "eight-k");
    let mut look = english_typography(rng);
    // Items, the exhibit, its articles and its sections are all listed.
    look.contents_levels = 3;
    let size = look.size;
    let registrant = Registrant::new(rng);
    let day = rng.between(1, 28);
    let year = registrant.year;
    // The report mentions Article VI, so there are at least six.
    let articles = (2 + spec.pages as usize / 4).clamp(6, ARTICLES.len());
    let agreement = agreement(articles, size, rng);
    let mut sections = report(size);
    let items = sections.len();
    sections.push(agreement);
    let heading = |rng: &mut Rng, titles: &mut UniqueTitles, level: u16, _: &str| {
        ManuscriptHeading::new(titles.short(rng), level, TextStyle::italic(size))
    };
    let manner = ProseFormat {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 12_000,
        deepest: 4,
        bullets: false,
    };
    fill(
        &mut sections,
        prose_capacity(&look, spec.pages, 6.5),
        &manner,
        rng,
        &mut UniqueTitles::default(),
    );
    let amount = format!("${},000,000", rng.between(150, 950));
    let text =
        format!("The aggregate amount of the Commitments on the Effective Date is {amount}.");
    plant(
        &mut sections,
        |s| s.heading.title.ends_with("Commitments"),
        paragraph_with_answer(
            "What is the aggregate amount of the commitments?",
            text,
            amount,
        ),
    );
    let attached = sections.split_off(items);
    let mut body = vec![
        Block::Numbering(Numbering::Arabic(1)),
        Block::RunningHead(registrant.name.clone()),
    ];
    body.extend(into_blocks(sections));
    body.extend([
        Block::RunningHead("Credit Agreement".into()),
        Block::Numbering(Numbering::Arabic(1)),
    ]);
    body.extend(into_blocks(attached));
    let period = [
        "CURRENT REPORT".to_owned(),
        format!("Date of report (date of earliest event reported): June {day}, {year}"),
    ];
    let mut facts = registrant.facts("8-K", "", &format!("{year}-06-{day:02}"));
    facts.fiscal_period = None;
    facts.fiscal_year = None;
    Manuscript {
        title: format!("{} Form 8-K", registrant.name),
        facts,
        cover: registrant.cover("8-K", &period, size),
        body,
        typography: look,
    }
}

fn report(size: f32) -> Vec<PlannedSection> {
    let style = TextStyle::bold(size);
    let item = |number: &str, name: &str| {
        ManuscriptHeading::new(format!("Item {number} {name}"), 1, style)
            .with_key(format!("item {number}"))
    };
    let entry = Block::Prose(paragraph_with_mentions(
        "On the date above the registrant entered into a credit agreement, attached as Exhibit 10.1. The covenants are found in",
        &[("Article VI", "article vi")],
        "of the agreement.",
    ));
    let creation = Block::Prose(paragraph_with_mentions(
        "The information set forth under",
        &[("Item 1.01", "item 1.01")],
        "is incorporated by reference.",
    ));
    let files = Block::Bullets(vec![
        "10.1 Credit Agreement.".into(),
        "104 Cover page interactive data file.".into(),
    ]);
    let signed = [
        "Pursuant to the requirements of the Securities Exchange Act of 1934, the registrant has duly caused this report to be signed.",
        "By /s/ A. Example",
    ];
    let signature = ManuscriptHeading::new("SIGNATURE", 1, style.centered());
    vec![
        PlannedSection::new(
            item("1.01", "Entry into a Material Definitive Agreement"),
            1,
        )
        .with_topic("the credit agreement")
        .with_content(vec![entry])
        .undivided(),
        PlannedSection::new(item("2.03", "Creation of a Direct Financial Obligation"), 0)
            .with_content(vec![creation]),
        PlannedSection::new(item("9.01", "Financial Statements and Exhibits"), 0)
            .with_content(vec![files]),
        PlannedSection::new(signature, 0).with_content(
            signed
                .map(|text| Block::Prose(text.to_owned().into()))
                .into(),
        ),
    ]
}

fn agreement(articles: usize, size: f32, rng: &mut Rng) -> PlannedSection {
    let spelled = rng.chance(50);
    let exhibit = ManuscriptHeading::new(
        "EXHIBIT 10.1 CREDIT AGREEMENT",
        1,
        TextStyle::bold(size + 3.0).centered(),
    )
    .with_new_page();
    let children = ARTICLES
        .iter()
        .take(articles)
        .enumerate()
        .map(|(n, (name, sections))| {
            let roman = crate::manuscript::roman(n as u32 + 1);
            let style = TextStyle::bold(size).centered();
            let mut heading = ManuscriptHeading::new(
                format!("ARTICLE {} {name}", roman.to_uppercase()),
                2,
                style,
            )
            .with_key(format!("article {roman}"));
            heading.printed = Some(vec![
                format!("ARTICLE {}", roman.to_uppercase()),
                (*name).to_owned(),
            ]);
            let children = sections.iter().enumerate().map(|(m, section)| {
                let title = if spelled {
                    format!("Section {}.{:02} {section}", n + 1, m + 1)
                } else {
                    format!("{}.{} {section}", n + 1, m + 1)
                };
                let key = format!("section {}.{:02}", n + 1, m + 1);
                PlannedSection::new(
                    ManuscriptHeading::new(title, 3, TextStyle::bold(size)).with_key(key),
                    2,
                )
                .with_topic(section)
                .undivided()
            });
            PlannedSection::new(heading, 0).with_children(children.collect())
        });
    let dated = "dated as of the Effective Date, among the registrant, as Borrower, the Lenders party hereto, and First Example Bank, as Administrative Agent";
    let own = vec![Block::Line(dated.into(), TextStyle::plain(size).centered())];
    PlannedSection::new(exhibit, 0)
        .with_content(own)
        .with_children(children.collect())
}
