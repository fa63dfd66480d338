//! A paper in two columns with numbered sections.

use super::{english_typography, number_sections, prose_capacity};
use crate::fonts::Family;
use crate::manuscript::{
    Block, Manuscript, ManuscriptHeading, Numbering, PageFooter, Paragraph, TextStyle,
};
use crate::plan::{PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, plant};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};
use crate::{CoverFacts, Spec};

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "paper");
    let mut look = english_typography(rng);
    look.family = Family::Times;
    look.columns = 2;
    look.back_link = false;
    look.contents_title = None;
    look.foot = PageFooter::Centered;
    look.margin = 54.0;
    let size = look.size;
    let names = [
        "Introduction",
        "Related Work",
        "Data",
        "Method",
        "Results",
        "Discussion",
        "Conclusion",
    ];
    let mut sections: Vec<PlannedSection> = names
        .iter()
        .map(|name| {
            PlannedSection::new(
                ManuscriptHeading::new(*name, 1, TextStyle::bold(size + 2.0)),
                3,
            )
        })
        .collect();
    let heading = |rng: &mut Rng, titles: &mut UniqueTitles, level: u16, _: &str| {
        ManuscriptHeading::new(
            titles.short(rng),
            level,
            if level == 2 {
                TextStyle::bold(size)
            } else {
                TextStyle::italic(size)
            },
        )
    };
    let manner = ProseFormat {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 3000,
        deepest: 3,
        bullets: false,
    };
    let mut titles = UniqueTitles::default();
    fill(
        &mut sections,
        prose_capacity(&look, spec.pages, 1.0),
        &manner,
        rng,
        &mut titles,
    );
    let share = format!("{}.{}%", rng.between(51, 93), rng.between(1, 9));
    let text = format!("On the held-out filings the method finds {share} of the sections.");
    plant(
        &mut sections,
        |s| s.heading.title == "Results",
        paragraph_with_answer(
            "What share of the sections does the method find?",
            text,
            share,
        ),
    );
    number_sections(&mut sections, "", if rng.chance(40) { "." } else { "" });
    let title = format!("On {} and {}", titles.short(rng), titles.short(rng));
    let mut body = front(&title, size, rng);
    body.extend(into_blocks(sections));
    body.push(Block::Heading(ManuscriptHeading::new(
        "References",
        1,
        TextStyle::bold(size + 2.0),
    )));
    body.extend((1..=12).map(|n| {
        let text = format!(
            "[{n}] A. Author and B. Writer. {}. Journal of Examples, {}.",
            titles.short(rng),
            rng.between(1990, 2024)
        );
        Block::Prose(Paragraph::from(text))
    }));
    Manuscript {
        typography: look,
        facts: CoverFacts {
            language: Some("en".into()),
            ..CoverFacts::default()
        },
        title,
        cover: Vec::new(),
        body,
    }
}

fn front(title: &str, size: f32, rng: &mut Rng) -> Vec<Block> {
    vec![
        Block::Numbering(Numbering::Arabic(1)),
        Block::Heading(ManuscriptHeading::new(
            title,
            1,
            TextStyle::bold(size + 6.0).centered(),
        )),
        Block::Gap(6.0),
        Block::Line(
            "A. Author and B. Writer".into(),
            TextStyle::plain(size).centered(),
        ),
        Block::Line(
            "Institute of Examples".into(),
            TextStyle::italic(size).centered(),
        ),
        Block::Gap(12.0),
        Block::Columns,
        Block::Heading(ManuscriptHeading::new(
            "Abstract",
            1,
            TextStyle::bold(size + 1.0),
        )),
        Block::Prose(Paragraph::from(words::paragraph(
            rng,
            "the structure of filings",
        ))),
    ]
}
