//! A planned document: sections with fixed content and a share of the prose, filled to a length.

use crate::manuscript::{Block, ManuscriptHeading, Paragraph, TextStyle};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};

#[derive(Debug, Clone)]
pub(crate) struct PlannedSection {
    pub(crate) heading: ManuscriptHeading,
    /// Fixed content before the prose.
    pub(crate) own: Vec<Block>,
    /// Share of the document's prose; 0 for a stub.
    pub(crate) weight: usize,
    /// Topic of its prose.
    pub(crate) topic: String,
    /// Whether sub-headings may divide it if it becomes long.
    pub(crate) divisible: bool,
    pub(crate) children: Vec<PlannedSection>,
}

impl PlannedSection {
    pub(crate) fn new(heading: ManuscriptHeading, weight: usize) -> Self {
        let topic = title_topic(&heading.title);
        Self {
            heading,
            own: Vec::new(),
            weight,
            topic,
            divisible: weight > 0,
            children: Vec::new(),
        }
    }

    pub(crate) fn with_topic(mut self, topic: &str) -> Self {
        self.topic = topic.to_owned();
        self
    }

    pub(crate) fn with_content(mut self, own: Vec<Block>) -> Self {
        self.own = own;
        self
    }

    pub(crate) fn with_children(mut self, children: Vec<PlannedSection>) -> Self {
        self.children = children;
        self
    }

    pub(crate) fn undivided(mut self) -> Self {
        self.divisible = false;
        self
    }

    fn total_weight(&self) -> usize {
        self.weight
            + self
                .children
                .iter()
                .map(PlannedSection::total_weight)
                .sum::<usize>()
    }
}

// The topic of the prose under a title: the title without number, full stop and capitals.
fn title_topic(title: &str) -> String {
    let words = title
        .trim_start_matches(|c: char| !c.is_alphabetic())
        .trim_end_matches('.');
    if words.chars().any(char::is_lowercase) {
        words.to_owned()
    } else {
        words.to_lowercase()
    }
}

/// Form of the prose and sub-headings of long sections.
pub(crate) struct ProseFormat<'a> {
    /// Makes a sub-heading of this level and topic.
    pub(crate) heading: &'a dyn Fn(&mut Rng, &mut UniqueTitles, u16, &str) -> ManuscriptHeading,
    /// Makes a paragraph about a topic.
    pub(crate) paragraph: fn(&mut Rng, &str) -> String,
    /// Most characters of prose under one heading.
    pub(crate) longest: usize,
    /// Deepest level of a sub-heading.
    pub(crate) deepest: u16,
    /// Whether to insert bullets sometimes.
    pub(crate) bullets: bool,
}

/// Fills `sections` with about `characters` of prose.
pub(crate) fn fill(
    sections: &mut [PlannedSection],
    characters: usize,
    manner: &ProseFormat<'_>,
    rng: &mut Rng,
    titles: &mut UniqueTitles,
) {
    let weight: usize = sections
        .iter()
        .map(PlannedSection::total_weight)
        .sum::<usize>()
        .max(1);
    fill_each(
        sections,
        characters as f64 / weight as f64,
        manner,
        rng,
        titles,
    );
}

// Recursion is bounded, because planned depth is at most six.
fn fill_each(
    sections: &mut [PlannedSection],
    per_weight: f64,
    manner: &ProseFormat<'_>,
    rng: &mut Rng,
    titles: &mut UniqueTitles,
) {
    for section in sections {
        fill_each(&mut section.children, per_weight, manner, rng, titles);
        let characters = (per_weight * section.weight as f64) as usize;
        fill_one(section, characters, manner, rng, titles);
    }
}

fn fill_one(
    section: &mut PlannedSection,
    characters: usize,
    manner: &ProseFormat<'_>,
    rng: &mut Rng,
    titles: &mut UniqueTitles,
) {
    if section.weight == 0 {
        return;
    }
    let level = section.heading.level + 1;
    if !section.divisible || characters <= manner.longest * 5 / 4 || level > manner.deepest {
        write_prose(section, characters, manner, rng);
        return;
    }
    let mut parts = characters.div_ceil(manner.longest).max(2);
    if parts > 20 && level < manner.deepest {
        parts = (parts as f64).sqrt().ceil() as usize;
    }
    let opening = (characters / 12).min(1200);
    write_prose(section, opening, manner, rng);
    for _ in 0..parts {
        let heading = (manner.heading)(rng, titles, level, &section.topic);
        let mut part = PlannedSection::new(heading, 1);
        if part.topic.len() > 60 {
            part.topic.clone_from(&section.topic);
        }
        fill_one(
            &mut part,
            (characters - opening) / parts,
            manner,
            rng,
            titles,
        );
        section.children.push(part);
    }
}

fn write_prose(
    section: &mut PlannedSection,
    characters: usize,
    manner: &ProseFormat<'_>,
    rng: &mut Rng,
) {
    let mut written = 0;
    while written == 0 || written + 250 < characters {
        if manner.bullets && rng.chance(6) {
            let items: Vec<String> = (0..rng.between(3, 5))
                .map(|_| words::sentence(rng, &section.topic))
                .collect();
            written += items
                .iter()
                .map(|item| item.chars().count() + 60)
                .sum::<usize>();
            section.own.push(Block::Bullets(items));
        } else {
            let text = (manner.paragraph)(rng, &section.topic);
            written += text.chars().count() + 60;
            section.own.push(Block::Prose(Paragraph::from(text)));
        }
    }
}

/// The blocks of `sections` in reading order.
pub(crate) fn into_blocks(sections: Vec<PlannedSection>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut waiting: Vec<PlannedSection> = sections.into_iter().rev().collect();
    while let Some(section) = waiting.pop() {
        blocks.push(Block::Heading(section.heading));
        blocks.extend(section.own);
        waiting.extend(section.children.into_iter().rev());
    }
    blocks
}

/// Inserts `prose` among the first blocks of the first `wanted` section in reading order. Returns whether
/// there was one.
pub(crate) fn plant(
    sections: &mut [PlannedSection],
    is_target: impl Fn(&PlannedSection) -> bool + Copy,
    prose: Paragraph,
) -> bool {
    for section in sections {
        if is_target(section) {
            let at = section.own.len().min(1);
            section.own.insert(at, Block::Prose(prose));
            return true;
        }
        if plant(&mut section.children, is_target, prose.clone()) {
            return true;
        }
    }
    false
}

/// A paragraph with mentions, as `(mention, key)`.
pub(crate) fn paragraph_with_mentions(
    before: &str,
    mentions: &[(&str, &str)],
    after: &str,
) -> Paragraph {
    let list: Vec<&str> = mentions.iter().map(|(mention, _)| *mention).collect();
    Paragraph {
        text: format!("{before} {} {after}", list.join(" and ")),
        mentions: mentions
            .iter()
            .map(|(mention, key)| ((*mention).to_owned(), (*key).to_owned()))
            .collect(),
        answer: None,
    }
}

/// A paragraph that answers a question. `sentence` must contain `answer`.
pub(crate) fn paragraph_with_answer(question: &str, sentence: String, answer: String) -> Paragraph {
    Paragraph {
        text: sentence,
        mentions: Vec::new(),
        answer: Some((question.to_owned(), answer)),
    }
}

/// Style of sub-headings: italic, bold or smaller bold, by level.
pub(crate) fn sub_style(size: f32, level: u16) -> TextStyle {
    match level {
        0..=3 => TextStyle::bold(size),
        4 => TextStyle::italic(size),
        _ => TextStyle::italic(size - 0.5),
    }
}
