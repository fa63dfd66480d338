//! A manual with numbered chapters.

use super::{look, number, room};
use crate::manuscript::{Block, Heading, Manuscript, Numbering, Style};
use crate::plan::{Manner, Section, answering, fill, mentioning, plant, unfold};
use crate::random::Rng;
use crate::words::{self, Titles};
use crate::{Facts, Spec};

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
    let mut look = look(rng);
    look.contents_levels = rng.between(2, 3) as u16;
    look.bare_parts = false;
    look.roman_front = true;
    let size = look.size;
    let name = words::company(rng);
    let chapters = (3 + spec.pages as usize / 8).min(CHAPTERS.len());
    let mut sections: Vec<Section> = CHAPTERS
        .iter()
        .take(chapters)
        .map(|name| chapter(name, size))
        .collect();
    let heading = |rng: &mut Rng, titles: &mut Titles, level: u16, _: &str| {
        Heading::new(
            titles.short(rng),
            level,
            Style::bold(size + if level == 2 { 2.0 } else { 0.5 }),
        )
    };
    let manner = Manner {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 3500,
        deepest: 4,
        bullets: true,
    };
    let characters = room(&look, spec.pages, 4.0 + chapters as f32 * 0.5);
    fill(
        &mut sections,
        characters,
        &manner,
        rng,
        &mut Titles::default(),
    );
    let pressure = format!("{}.{} bar", rng.between(2, 9), rng.between(1, 9));
    let text =
        format!("The relief valve opens at {pressure}; never run the unit above this pressure.");
    plant(
        &mut sections,
        |s| s.heading.title == "Installation",
        answering(
            "At which pressure does the relief valve open?",
            text,
            pressure,
        ),
    );
    let other = Block::Prose(mentioning(
        "Before you go on, read",
        &[("section 2", "section 2")],
        "of this manual.",
    ));
    if let Some(last) = sections.last_mut() {
        last.own.push(other);
    }
    number(&mut sections, "", if rng.chance(30) { "." } else { "" });
    let mut body = vec![
        Block::RunningHead(format!("{name} User Manual")),
        Block::Numbering(Numbering::Arabic(1)),
    ];
    body.extend(unfold(sections));
    let title = format!("{name} User Manual");
    Manuscript {
        cover: vec![
            Block::Gap(180.0),
            Block::Line(title.clone(), Style::bold(size + 14.0).centered()),
            Block::Line(
                format!("Release {}.{}", rng.between(1, 9), rng.below(10)),
                Style::plain(size + 2.0).centered(),
            ),
        ],
        title,
        facts: Facts {
            issuer: Some(name),
            language: Some("en".into()),
            ..Facts::default()
        },
        body,
        look,
    }
}

fn chapter(name: &str, size: f32) -> Section {
    Section::new(
        Heading::new(name, 1, Style::bold(size + 6.0)).on_new_page(),
        3,
    )
}
