//! A manual with numbered chapters.

use super::{english_typography, number_sections, prose_capacity};
use crate::manuscript::{Block, Manuscript, ManuscriptHeading, Numbering, TextStyle};
use crate::plan::{
    PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, paragraph_with_mentions,
    plant,
};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};
use crate::{CoverFacts, Spec};

const CHAPTERS: [&str; 10] = [
    "Introduction",
    "Planning",
    "Installation",
    "Configuration",
    "Operation",
    "Monitoring",
    "Maintenance",
    "Troubleshooting",
    "Safety",
    "Disposal",
];

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "manual");
    let mut look = english_typography(rng);
    look.contents_levels = rng.between(2, 3) as u16;
    look.bare_parts = false;
    look.roman_front = true;
    let size = look.size;
    let name = words::company(rng);
    let chapters = (3 + spec.pages as usize / 8).min(CHAPTERS.len());
    let mut sections: Vec<PlannedSection> = CHAPTERS
        .iter()
        .take(chapters)
        .map(|name| chapter(name, size))
        .collect();
    let heading = |rng: &mut Rng, titles: &mut UniqueTitles, level: u16, _: &str| {
        ManuscriptHeading::new(
            titles.short(rng),
            level,
            TextStyle::bold(size + if level == 2 { 2.0 } else { 0.5 }),
        )
    };
    let manner = ProseFormat {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 3500,
        deepest: 4,
        bullets: true,
    };
    let characters = prose_capacity(&look, spec.pages, 4.0 + chapters as f32 * 0.5);
    fill(
        &mut sections,
        characters,
        &manner,
        rng,
        &mut UniqueTitles::default(),
    );
    let pressure = format!("{}.{} bar", rng.between(2, 9), rng.between(1, 9));
    let text =
        format!("The relief valve opens at {pressure}; never run the unit above this pressure.");
    plant(
        &mut sections,
        |s| s.heading.title == "Installation",
        paragraph_with_answer(
            "At which pressure does the relief valve open?",
            text,
            pressure,
        ),
    );
    let other = Block::Prose(paragraph_with_mentions(
        "Before you go on, read",
        &[("section 2", "section 2")],
        "of this manual.",
    ));
    if let Some(last) = sections.last_mut() {
        last.own.push(other);
    }
    number_sections(&mut sections, "", if rng.chance(30) { "." } else { "" });
    let mut body = vec![
        Block::RunningHead(format!("{name} User Manual")),
        Block::Numbering(Numbering::Arabic(1)),
    ];
    body.extend(into_blocks(sections));
    let title = format!("{name} User Manual");
    Manuscript {
        cover: vec![
            Block::Gap(180.0),
            Block::Line(title.clone(), TextStyle::bold(size + 14.0).centered()),
            Block::Line(
                format!("Release {}.{}", rng.between(1, 9), rng.below(10)),
                TextStyle::plain(size + 2.0).centered(),
            ),
        ],
        title,
        facts: CoverFacts {
            issuer: Some(name),
            language: Some("en".into()),
            ..CoverFacts::default()
        },
        body,
        typography: look,
    }
}

fn chapter(name: &str, size: f32) -> PlannedSection {
    PlannedSection::new(
        ManuscriptHeading::new(name, 1, TextStyle::bold(size + 6.0)).with_new_page(),
        3,
    )
}
