//! Form 10-Q: Item numbers that occur in both parts.

use super::statements::{notes, signatures, statements, table};
use super::{
    ItemHeadingFormat, Registrant, children, english_typography, prose_capacity, sub_heading,
};
use crate::Spec;
use crate::manuscript::{Block, Manuscript, ManuscriptHeading, Numbering, TextStyle};
use crate::plan::{
    PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, paragraph_with_mentions,
    plant,
};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "ten-q");
    let look = english_typography(rng);
    let size = look.size;
    let registrant = Registrant::new(rng);
    let items = ItemHeadingFormat::new(rng, size);
    let quarter = rng.between(1, 3);
    let (end, iso) = [
        ("March 31", "03-31"),
        ("June 30", "06-30"),
        ("September 30", "09-30"),
    ][quarter - 1];
    let year = registrant.year;
    let heads = [year.to_string(), (year - 1).to_string()];
    let mut sections = parts(spec, &items, &heads, size, rng);
    sections.push(signatures(
        &registrant.name,
        &format!("November 4, {year}"),
        size,
    ));
    let heading = sub_heading(size);
    let manner = ProseFormat {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 5000,
        deepest: 5,
        bullets: true,
    };
    fill(
        &mut sections,
        prose_capacity(&look, spec.pages, 10.0),
        &manner,
        rng,
        &mut UniqueTitles::default(),
    );
    let rate = format!("{}.{}%", rng.between(15, 29), rng.between(1, 9));
    let text = format!(
        "The effective tax rate for the quarter was {rate}, which reflects the mix of income by country."
    );
    plant(
        &mut sections,
        |s| s.heading.title == "Results of Operations",
        paragraph_with_answer("What was the effective tax rate?", text, rate),
    );
    let mut body = vec![
        Block::RunningHead(registrant.name.clone()),
        Block::Numbering(Numbering::Arabic(rng.between(1, 3) as u32)),
    ];
    body.extend(into_blocks(sections));
    let period = [
        "QUARTERLY REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934"
            .to_owned(),
        format!("For the quarterly period ended {end}, {year}"),
    ];
    Manuscript {
        title: format!("{} Form 10-Q {year} Q{quarter}", registrant.name),
        facts: registrant.facts("10-Q", &format!("Q{quarter}"), &format!("{year}-{iso}")),
        cover: registrant.cover("10-Q", &period, size),
        body,
        typography: look,
    }
}

fn parts(
    spec: &Spec,
    items: &ItemHeadingFormat,
    heads: &[String],
    size: f32,
    rng: &mut Rng,
) -> Vec<PlannedSection> {
    let two_lines = rng.chance(50);
    let part = |number: &str, name: &str| {
        let number = format!("PART {number}");
        let dot = if two_lines { "" } else { "." };
        let title = format!("{number}{dot} {name}");
        let mut heading = ManuscriptHeading::new(title, 1, TextStyle::bold(size + 2.0).centered())
            .with_new_page();
        heading.printed = two_lines.then(|| vec![number, name.to_owned()]);
        PlannedSection::new(heading, 0)
    };
    let item = |part: &str, number: &str, name: &str, weight: usize| {
        let mut heading = items.heading(number, name, 2);
        heading.new_page = false;
        heading.key = Some(format!("part {part} item {}", number.to_lowercase()));
        PlannedSection::new(heading, weight).with_topic(&name.to_lowercase())
    };
    let stub = |number: &str, name: &str, text: &str| {
        item("ii", number, name, 0).with_content(vec![Block::Prose(text.to_owned().into())])
    };
    let mut financial = statements(
        "Condensed Consolidated",
        heads,
        3,
        spec.pages >= 12,
        size,
        rng,
    );
    let count = (4 + spec.pages as usize / 10).min(16);
    let heading = ManuscriptHeading::new(
        "Notes to Condensed Consolidated Financial Statements",
        3,
        TextStyle::bold(size).centered(),
    );
    financial.push(
        PlannedSection::new(heading.with_new_page(), 0)
            .with_children(notes(count, 4, size, heads, rng)),
    );
    let mut analysis = children(
        &["Results of Operations", "Liquidity and Capital Resources"],
        3,
        6,
        size,
    );
    analysis[0].own.push(table(
        &["Net sales", "Operating income", "Net income"],
        heads,
        rng,
    ));
    let legal = item("ii", "1", "Legal Proceedings", 1).with_content(vec![Block::Prose(
        paragraph_with_mentions(
            "For information on legal proceedings see",
            &[("Note 3", "note 3")],
            "in Part I of this report.",
        ),
    )]);
    vec![
        part("I", "FINANCIAL INFORMATION").with_children(vec![
            item("i", "1", "Financial Statements", 0).with_children(financial),
            item(
                "i",
                "2",
                "Management\u{2019}s Discussion and Analysis of Financial Condition and Results of Operations",
                2,
            )
            .with_children(analysis),
            item("i", "3", "Quantitative and Qualitative Disclosures About Market Risk", 1),
            item("i", "4", "Controls and Procedures", 1),
        ]),
        part("II", "OTHER INFORMATION").with_children(vec![
            legal,
            item("ii", "1A", "Risk Factors", 3),
            stub("2", "Unregistered Sales of Equity Securities and Use of Proceeds", "None."),
            stub("3", "Defaults Upon Senior Securities", "None."),
            stub("4", "Mine Safety Disclosures", "Not applicable."),
            stub("5", "Other Information", "None."),
            stub("6", "Exhibits", "See the exhibit index of this report."),
        ]),
    ]
}
