//! A paper in two columns with numbered sections.

use super::{look, number, room};
use crate::fonts::Family;
use crate::manuscript::{Block, Foot, Heading, Manuscript, Numbering, Prose, Style};
use crate::plan::{Manner, Section, answering, fill, plant, unfold};
use crate::random::Rng;
use crate::words::{self, Titles};
use crate::{Facts, Spec};

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "paper");
    let mut look = look(rng);
    look.family = Family::Times;
    look.columns = 2;
    look.back_link = false;
    look.contents_title = None;
    look.foot = Foot::Centered;
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
    let mut sections: Vec<Section> = names
        .iter()
        .map(|name| Section::new(Heading::new(*name, 1, Style::bold(size + 2.0)), 3))
        .collect();
    let heading = |rng: &mut Rng, titles: &mut Titles, level: u16, _: &str| {
        Heading::new(
            titles.short(rng),
            level,
            if level == 2 {
                Style::bold(size)
            } else {
                Style::italic(size)
            },
        )
    };
    let manner = Manner {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 3000,
        deepest: 3,
        bullets: false,
    };
    let mut titles = Titles::default();
    fill(
        &mut sections,
        room(&look, spec.pages, 1.0),
        &manner,
        rng,
        &mut titles,
    );
    let share = format!("{}.{}%", rng.between(51, 93), rng.between(1, 9));
    let text = format!("On the held-out filings the method finds {share} of the sections.");
    plant(
        &mut sections,
        |s| s.heading.title == "Results",
        answering(
            "What share of the sections does the method find?",
            text,
            share,
        ),
    );
    number(&mut sections, "", if rng.chance(40) { "." } else { "" });
    let title = format!("On {} and {}", titles.short(rng), titles.short(rng));
    let mut body = front(&title, size, rng);
    body.extend(unfold(sections));
    body.push(Block::Heading(Heading::new(
        "References",
        1,
        Style::bold(size + 2.0),
    )));
    body.extend((1..=12).map(|n| {
        let text = format!(
            "[{n}] A. Author and B. Writer. {}. Journal of Examples, {}.",
            titles.short(rng),
            rng.between(1990, 2024)
        );
        Block::Prose(Prose::from(text))
    }));
    Manuscript {
        look,
        facts: Facts {
            language: Some("en".into()),
            ..Facts::default()
        },
        title,
        cover: Vec::new(),
        body,
    }
}

fn front(title: &str, size: f32, rng: &mut Rng) -> Vec<Block> {
    vec![
        Block::Numbering(Numbering::Arabic(1)),
        Block::Heading(Heading::new(title, 1, Style::bold(size + 6.0).centered())),
        Block::Gap(6.0),
        Block::Line(
            "A. Author and B. Writer".into(),
            Style::plain(size).centered(),
        ),
        Block::Line(
            "Institute of Examples".into(),
            Style::italic(size).centered(),
        ),
        Block::Gap(12.0),
        Block::Columns,
        Block::Heading(Heading::new("Abstract", 1, Style::bold(size + 1.0))),
        Block::Prose(Prose::from(words::paragraph(
            rng,
            "the structure of filings",
        ))),
    ]
}
