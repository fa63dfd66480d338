//! Form 10-Q: Item numbers that occur in both parts.

use super::statements::{notes, signatures, statements, table};
use super::{ItemManner, Registrant, children, look, room, sub_heading};
use crate::Spec;
use crate::manuscript::{Block, Heading, Manuscript, Numbering, Style};
use crate::plan::{Manner, Section, answering, fill, mentioning, plant, unfold};
use crate::random::Rng;
use crate::words::{self, Titles};

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "ten-q");
    let look = look(rng);
    let size = look.size;
    let registrant = Registrant::new(rng);
    let items = ItemManner::new(rng, size);
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
    let manner = Manner {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 5000,
        deepest: 5,
        bullets: true,
    };
    fill(
        &mut sections,
        room(&look, spec.pages, 10.0),
        &manner,
        rng,
        &mut Titles::default(),
    );
    let rate = format!("{}.{}%", rng.between(15, 29), rng.between(1, 9));
    let text = format!(
        "The effective tax rate for the quarter was {rate}, which reflects the mix of income by country."
    );
    plant(
        &mut sections,
        |s| s.heading.title == "Results of Operations",
        answering("What was the effective tax rate?", text, rate),
    );
    let mut body = vec![
        Block::RunningHead(registrant.name.clone()),
        Block::Numbering(Numbering::Arabic(rng.between(1, 3) as u32)),
    ];
    body.extend(unfold(sections));
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
        look,
    }
}

fn parts(
    spec: &Spec,
    items: &ItemManner,
    heads: &[String],
    size: f32,
    rng: &mut Rng,
) -> Vec<Section> {
    let two_lines = rng.chance(50);
    let part = |number: &str, name: &str| {
        let number = format!("PART {number}");
        let dot = if two_lines { "" } else { "." };
        let title = format!("{number}{dot} {name}");
        let mut heading = Heading::new(title, 1, Style::bold(size + 2.0).centered()).on_new_page();
        heading.printed = two_lines.then(|| vec![number, name.to_owned()]);
        Section::new(heading, 0)
    };
    let item = |part: &str, number: &str, name: &str, weight: usize| {
        let mut heading = items.heading(number, name, 2);
        heading.new_page = false;
        heading.key = Some(format!("part {part} item {}", number.to_lowercase()));
        Section::new(heading, weight).about(&name.to_lowercase())
    };
    let stub = |number: &str, name: &str, text: &str| {
        item("ii", number, name, 0).with(vec![Block::Prose(text.to_owned().into())])
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
    let heading = Heading::new(
        "Notes to Condensed Consolidated Financial Statements",
        3,
        Style::bold(size).centered(),
    );
    financial.push(Section::new(heading.on_new_page(), 0).over(notes(count, 4, size, heads, rng)));
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
    let legal = item("ii", "1", "Legal Proceedings", 1).with(vec![Block::Prose(mentioning(
        "For information on legal proceedings see",
        &[("Note 3", "note 3")],
        "in Part I of this report.",
    ))]);
    vec![
        part("I", "FINANCIAL INFORMATION").over(vec![
            item("i", "1", "Financial Statements", 0).over(financial),
            item(
                "i",
                "2",
                "Management\u{2019}s Discussion and Analysis of Financial Condition and Results of Operations",
                2,
            )
            .over(analysis),
            item("i", "3", "Quantitative and Qualitative Disclosures About Market Risk", 1),
            item("i", "4", "Controls and Procedures", 1),
        ]),
        part("II", "OTHER INFORMATION").over(vec![
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
