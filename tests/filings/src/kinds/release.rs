//! An earnings release.

use super::statements::{statements, table};
use super::{Registrant, children, english_typography, prose_capacity, sub_heading};
use crate::Spec;
use crate::manuscript::{Block, Manuscript, ManuscriptHeading, Numbering, TextStyle};
use crate::plan::{ProseFormat, fill, into_blocks, paragraph_with_answer, plant};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "release");
    let mut look = english_typography(rng);
    look.contents_title = None;
    look.back_link = false;
    let size = look.size;
    let registrant = Registrant::new(rng);
    let quarter = rng.between(1, 3);
    let (end, iso) = [
        ("March 31", "03-31"),
        ("June 30", "06-30"),
        ("September 30", "09-30"),
    ][quarter - 1];
    let year = registrant.year;
    let spelled = ["First", "Second", "Third"][quarter - 1];
    let title = format!(
        "{} Reports {spelled} Quarter {year} Results",
        registrant.name
    );
    let heads = [
        format!("Q{quarter} {year}"),
        format!("Q{quarter} {}", year - 1),
    ];
    let mut sections = children(
        &[
            "Financial Highlights",
            "Segment Results",
            "Cash Flow and Balance Sheet",
            "Outlook",
            "Forward-Looking Statements",
            "About the Company",
        ],
        2,
        3,
        size + 1.0,
    );
    sections[0].own.push(table(
        &[
            "Net sales",
            "Operating income",
            "Diluted earnings per share",
        ],
        &heads,
        rng,
    ));
    let sub_heading = sub_heading(size);
    let manner = ProseFormat {
        heading: &sub_heading,
        paragraph: words::paragraph,
        longest: 4000,
        deepest: 3,
        bullets: true,
    };
    fill(
        &mut sections,
        prose_capacity(&look, spec.pages, 4.4),
        &manner,
        rng,
        &mut UniqueTitles::default(),
    );
    let range = format!(
        "${}.{:02} to ${}.{:02}",
        3,
        rng.between(1, 49),
        3,
        rng.between(50, 99)
    );
    let text = format!(
        "For the full year the Company now expects adjusted earnings per share of {range}."
    );
    plant(
        &mut sections,
        |s| s.heading.title == "Outlook",
        paragraph_with_answer(
            "What earnings per share does the company expect for the full year?",
            text,
            range,
        ),
    );
    sections.extend(statements(
        "Condensed Consolidated",
        &heads,
        2,
        spec.pages >= 6,
        size,
        rng,
    ));
    let center = |text: String, style: TextStyle| Block::Line(text, style.centered());
    let mut body = vec![
        Block::Numbering(Numbering::Arabic(1)),
        Block::Heading(ManuscriptHeading::new(
            title.clone(),
            1,
            TextStyle::bold(size + 6.0).centered(),
        )),
        center(
            format!("Results for the quarter ended {end}, {year}"),
            TextStyle::italic(size),
        ),
        Block::Gap(10.0),
        Block::Prose(
            format!(
                "SPRINGFIELD \u{2014} {} today announced results for the quarter. {}",
                registrant.name,
                words::paragraph(rng, "the quarter")
            )
            .into(),
        ),
    ];
    body.extend(into_blocks(sections));
    let mut facts = registrant.facts(
        "earnings_release",
        &format!("Q{quarter}"),
        &format!("{year}-{iso}"),
    );
    facts.file_number = None;
    Manuscript {
        title,
        facts,
        cover: Vec::new(),
        body,
        typography: look,
    }
}
