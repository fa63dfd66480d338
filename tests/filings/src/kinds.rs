//! The kinds of documents, and helpers that they share.

mod agreement;
mod annual;
mod bundle;
mod chinese;
mod integrated;
mod manual;
mod paper;
mod quarterly;
mod release;
mod statements;

use crate::fonts::{Face, Family};
use crate::manuscript::{Block, Manuscript, ManuscriptHeading, PageFooter, TextStyle, Typography};
use crate::plan::PlannedSection;
use crate::random::Rng;
use crate::words::{self, UniqueTitles};
use crate::{CoverFacts, FilingKind, Spec};

/// The manuscript of a specification.
pub(crate) fn manuscript(spec: &Spec) -> Manuscript {
    match spec.kind {
        FilingKind::TenK => annual::manuscript(spec),
        FilingKind::TenQ => quarterly::manuscript(spec),
        FilingKind::EightKWithAgreement => agreement::manuscript(spec),
        FilingKind::Manual => manual::manuscript(spec),
        FilingKind::ChineseReport => chinese::manuscript(spec),
        FilingKind::TwoColumnPaper => paper::manuscript(spec),
        FilingKind::EarningsRelease => release::manuscript(spec),
        FilingKind::Agreements => bundle::manuscript(spec),
        FilingKind::Integrated => integrated::manuscript(spec),
    }
}

fn english_typography(rng: &mut Rng) -> Typography {
    Typography {
        family: if rng.chance(60) {
            Family::Times
        } else {
            Family::Helvetica
        },
        size: rng.pick(&[9.5, 10.0, 10.0, 11.0]),
        leading: rng.pick(&[1.15, 1.2, 1.25]),
        page: (612.0, 792.0),
        margin: rng.pick(&[54.0, 60.0, 72.0]),
        columns: 1,
        back_link: rng.chance(50),
        running_head: rng.chance(50),
        foot: rng.pick(&[
            PageFooter::Centered,
            PageFooter::Outer,
            PageFooter::Page,
            PageFooter::Dashes,
            PageFooter::WithRegistrant,
        ]),
        contents_title: Some(rng.pick(&["TABLE OF CONTENTS", "Table of Contents", "INDEX"])),
        contents_levels: 2,
        bare_parts: rng.chance(50),
        roman_front: rng.chance(40),
    }
}

// Characters of prose that fit on `pages` pages, after `fixed` pages of other content.
fn prose_capacity(look: &Typography, pages: u32, fixed: f32) -> usize {
    let per_em = if look.family == Family::Times {
        2.32
    } else {
        2.05
    };
    let per_line = (look.page.0 - 2.0 * look.margin) / look.size * per_em;
    let lines = (look.page.1 - 2.0 * look.margin) / (look.size * look.leading);
    ((pages as f32 - fixed).max(0.3) * per_line * lines * 0.9) as usize
}

// A registrant and the cover facts of a report.
struct Registrant {
    name: String,
    file_number: String,
    year: usize,
}

impl Registrant {
    fn new(rng: &mut Rng) -> Self {
        let name = words::company(rng);
        let name = if rng.chance(60) {
            name.to_uppercase()
        } else {
            name
        };
        let file_number = match rng.below(2) {
            0 => format!("1-{}", rng.between(1000, 19_999)),
            _ => format!("001-{:05}", rng.between(1000, 39_999)),
        };
        Self {
            name,
            file_number,
            year: rng.between(2014, 2024),
        }
    }

    // The cover of a periodic report.
    fn cover(&self, form: &str, period: &[String], size: f32) -> Vec<Block> {
        let center = |text: &str, style: TextStyle| Block::Line(text.to_owned(), style.centered());
        let mut blocks = vec![
            center("UNITED STATES", TextStyle::bold(size + 2.0)),
            center(
                "SECURITIES AND EXCHANGE COMMISSION",
                TextStyle::bold(size + 2.0),
            ),
            center("Washington, D.C. 20549", TextStyle::plain(size)),
            Block::Gap(14.0),
            center(&format!("FORM {form}"), TextStyle::bold(size + 6.0)),
            Block::Gap(10.0),
        ];
        blocks.extend(
            period
                .iter()
                .map(|line| center(line, TextStyle::plain(size))),
        );
        blocks.extend([
            center(&format!("Commission file number {}", self.file_number), TextStyle::plain(size)),
            Block::Gap(16.0),
            center(&self.name, TextStyle::bold(size + 8.0)),
            center("(Exact name of registrant as specified in its charter)", TextStyle::plain(size - 1.5)),
            Block::Gap(12.0),
            center("Delaware          41-0000000", TextStyle::plain(size)),
            center("(State of incorporation)          (I.R.S. Employer Identification No.)", TextStyle::plain(size - 1.5)),
            center("100 Example Plaza, Springfield", TextStyle::plain(size)),
            center("(Address of principal executive offices)", TextStyle::plain(size - 1.5)),
            Block::Gap(12.0),
            Block::Prose("Indicate by check mark whether the registrant has submitted every interactive data file required to be submitted during the preceding twelve months. Yes [x] No [ ]".to_owned().into()),
            Block::Prose("Indicate by check mark whether the registrant is a shell company. Yes [ ] No [x]".to_owned().into()),
        ]);
        blocks
    }

    fn facts(&self, form: &str, period: &str, end: &str) -> CoverFacts {
        CoverFacts {
            issuer: Some(self.name.clone()),
            form: Some(form.to_owned()),
            fiscal_year: Some(self.year.to_string()),
            fiscal_period: Some(period.to_owned()),
            period_end: Some(end.to_owned()),
            file_number: Some(self.file_number.clone()),
            language: Some("en".to_owned()),
        }
    }
}

// How a document prints `Item n` headings.
#[derive(Debug, Clone, Copy)]
struct ItemHeadingFormat {
    shape: usize,
    style: TextStyle,
    pages: bool,
}

impl ItemHeadingFormat {
    fn new(rng: &mut Rng, size: f32) -> Self {
        let shape = if rng.chance(8) { 4 } else { rng.below(4) };
        let style = TextStyle::bold(size + rng.pick(&[0.0, 1.0, 2.0]));
        let style = if shape == 1 && rng.chance(50) {
            style.centered()
        } else {
            style
        };
        Self {
            shape,
            style,
            pages: rng.chance(35),
        }
    }

    // The heading of an Item; `number` like `1A`.
    fn heading(&self, number: &str, name: &str, level: u16) -> ManuscriptHeading {
        let title = match self.shape {
            0 => format!("Item {number}. {name}"),
            1 => format!("ITEM {number}. {}", name.to_uppercase()),
            2 => format!("ITEM {number} \u{2014} {}", name.to_uppercase()),
            3 => format!("Item {number}. {name}"),
            _ => format!("{number} {name}"),
        };
        let mut heading = ManuscriptHeading::new(title, level, self.style)
            .with_key(format!("item {}", number.to_lowercase()));
        heading.new_page = self.pages;
        if self.shape == 3 {
            heading.tab = Some(format!("Item {number}.").len());
        }
        heading
    }
}

// Sub-headings of an English filing: sentences under risk factors, short titles elsewhere.
fn sub_heading(size: f32) -> impl Fn(&mut Rng, &mut UniqueTitles, u16, &str) -> ManuscriptHeading {
    move |rng, titles, level, topic| {
        if topic.contains("risk") {
            ManuscriptHeading::new(
                titles.danger(rng),
                level,
                TextStyle {
                    face: Face::Bold,
                    size,
                    centered: false,
                },
            )
        } else {
            ManuscriptHeading::new(
                titles.short(rng),
                level,
                crate::plan::sub_style(size, level),
            )
        }
    }
}

// Sections with these names, one level below `level`, of equal weight.
fn children(names: &[&str], level: u16, weight: usize, size: f32) -> Vec<PlannedSection> {
    let style = crate::plan::sub_style(size, level);
    names
        .iter()
        .map(|name| PlannedSection::new(ManuscriptHeading::new(*name, level, style), weight))
        .collect()
}

// Numbers all titles: `1`, `1.1`, `1.1.1`. Planned depth is at most six.
fn number_sections(sections: &mut [PlannedSection], above: &str, last: &str) {
    for (n, section) in sections.iter_mut().enumerate() {
        let own = format!("{above}{}", n + 1);
        let mark = if above.is_empty() { last } else { "" };
        section.heading.title = format!("{own}{mark} {}", section.heading.title);
        section
            .heading
            .key
            .get_or_insert_with(|| format!("section {own}"));
        number_sections(&mut section.children, &format!("{own}."), last);
    }
}
