//! Several agreements in one file: each with a title, often contents, articles and sections that count from
//! 1, and its own annex. A current report and exhibit lines may precede them.

use super::{Registrant, english_typography, prose_capacity};
use crate::Spec;
use crate::manuscript::{
    Block, FigureTable, Manuscript, ManuscriptHeading, Numbering, TextStyle, Typography,
};
use crate::plan::{
    PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, paragraph_with_mentions,
    plant,
};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};

const NAMES: [&str; 7] = [
    "CREDIT AGREEMENT",
    "REGISTRATION RIGHTS AGREEMENT",
    "STOCK PURCHASE AGREEMENT",
    "SUPPLEMENTAL INDENTURE",
    "EMPLOYMENT AGREEMENT",
    "LEASE AGREEMENT",
    "FIRST AMENDMENT TO CREDIT AGREEMENT",
];
const ARTICLES: [(&str, [&str; 4]); 6] = [
    (
        "DEFINITIONS",
        [
            "Defined Terms",
            "Terms Generally",
            "Accounting Terms",
            "Rules of Construction",
        ],
    ),
    (
        "THE TRANSACTION",
        [
            "Undertakings",
            "Deliveries at Closing",
            "Consideration",
            "Adjustments",
        ],
    ),
    (
        "REPRESENTATIONS AND WARRANTIES",
        [
            "Organization",
            "Authority; No Conflict",
            "Title to Assets",
            "Litigation",
        ],
    ),
    (
        "COVENANTS",
        [
            "Conduct of Business",
            "Access to Information",
            "Confidentiality",
            "Further Assurances",
        ],
    ),
    (
        "TERMINATION",
        [
            "Termination Events",
            "Notice of Termination",
            "Effect of Termination",
            "Survival",
        ],
    ),
    (
        "MISCELLANEOUS",
        [
            "Notices",
            "Amendments and Waivers",
            "Governing Law",
            "Counterparts",
        ],
    ),
];

// Layout of one bundle.
struct BundleLayout {
    look: Typography,
    exhibits: bool,
    // Exhibit lines and titles share a page.
    joined: bool,
    // Level of the titles.
    level: u16,
}

// How the sections of one agreement are printed.
#[derive(Clone, Copy)]
struct AgreementForm {
    word: &'static str,
    // The text begins on the line of the title.
    runs_in: bool,
    articles: bool,
    // `ARTICLE I` is on a line of its own.
    split: bool,
}

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "agreements");
    let mut look = english_typography(rng);
    (look.contents_title, look.back_link, look.running_head) = (None, false, false);
    let registrant = Registrant::new(rng);
    let report = rng.chance(50);
    let exhibits = report || rng.chance(50);
    let binder = BundleLayout {
        joined: rng.chance(60),
        exhibits,
        level: if exhibits { 2 } else { 1 },
        look,
    };
    let count = (2 + spec.pages as usize / 30).clamp(2, 5);
    let first = rng.below(NAMES.len());
    let mut parts: Vec<(Vec<Block>, PlannedSection)> = (0..count)
        .map(|n| binder.agreement(n, NAMES[(first + n) % NAMES.len()], spec, rng))
        .collect();
    let size = binder.look.size;
    let heading = |rng: &mut Rng, titles: &mut UniqueTitles, level: u16, _: &str| {
        ManuscriptHeading::new(titles.short(rng), level, TextStyle::italic(size))
    };
    let manner = ProseFormat {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 60_000,
        deepest: 4,
        bullets: false,
    };
    let mut sections: Vec<PlannedSection> =
        parts.iter().map(|(_, section)| section.clone()).collect();
    let fixed = 2.0 + count as f32 * 2.5;
    fill(
        &mut sections,
        prose_capacity(&binder.look, spec.pages, fixed),
        &manner,
        rng,
        &mut UniqueTitles::default(),
    );
    let days = rng.between(20, 90).to_string();
    let text = format!("Either party may end this instrument on {days} days of notice in writing.");
    plant(
        &mut sections,
        |s| s.weight > 0,
        paragraph_with_answer("How many days of notice are needed?", text, days),
    );
    let mut body = vec![Block::Numbering(Numbering::Arabic(1))];
    let mut cover = Vec::new();
    if report {
        cover = registrant.cover("8-K", &["CURRENT REPORT".to_owned()], size);
        body.extend(into_blocks(current(size)));
    }
    for ((front, _), section) in parts.drain(..).zip(sections) {
        body.extend(front);
        body.extend(into_blocks(vec![section]).into_iter().skip(1));
    }
    let mut facts = registrant.facts("8-K", "", "2022-06-03");
    (facts.fiscal_period, facts.fiscal_year, facts.period_end) = (None, None, None);
    if !report {
        (facts.form, facts.file_number, facts.issuer) = (None, None, None);
    }
    Manuscript {
        title: "Agreements".into(),
        facts,
        cover,
        body,
        typography: binder.look,
    }
}

// The Items of the report. They mention only what is in the bundle.
fn current(size: f32) -> Vec<PlannedSection> {
    let item = |number: &str, name: &str, text: &str| {
        let heading =
            ManuscriptHeading::new(format!("Item {number} {name}"), 1, TextStyle::bold(size));
        PlannedSection::new(heading, 0).with_content(vec![Block::Prose(text.to_owned().into())])
    };
    vec![
        item(
            "1.01",
            "Entry into a Material Definitive Agreement",
            "The instruments attached to this report were entered into on the date above and are incorporated by reference.",
        ),
        item("9.01", "Financial Statements and Exhibits", "The exhibits are listed in the order in which they are attached."),
        PlannedSection::new(ManuscriptHeading::new("SIGNATURE", 1, TextStyle::bold(size).centered()), 0).with_content(vec![Block::Prose(
            "Pursuant to the requirements of the Securities Exchange Act of 1934, the registrant has duly caused this report to be signed."
                .to_owned()
                .into(),
        )]),
    ]
}

impl BundleLayout {
    // The front of an agreement (exhibit line, title, contents), and its sections under a heading that is not
    // printed.
    fn agreement(
        &self,
        n: usize,
        name: &str,
        spec: &Spec,
        rng: &mut Rng,
    ) -> (Vec<Block>, PlannedSection) {
        let size = self.look.size;
        let center = |text: &str, style: TextStyle| Block::Line(text.to_owned(), style.centered());
        let mut front = vec![Block::Numbering(Numbering::None)];
        if self.exhibits {
            let style = if rng.chance(50) {
                TextStyle::bold(size)
            } else {
                TextStyle::plain(size)
            };
            let style = if self.joined { style } else { style.centered() };
            front.push(Block::Heading(
                ManuscriptHeading::new(format!("EXHIBIT 10.{}", n + 1), 1, style).with_new_page(),
            ));
        }
        let style = TextStyle::bold(size + rng.pick(&[1.0, 3.0, 5.0])).centered();
        let mut title = ManuscriptHeading::new(name, self.level, style);
        title.new_page = !(self.exhibits && self.joined);
        front.push(Block::Heading(title));
        front.extend([
            center("dated as of June 3, 2022", TextStyle::plain(size)),
            center("among", TextStyle::plain(size)),
            center(&words::company(rng), TextStyle::plain(size)),
            center("and the other parties hereto", TextStyle::plain(size)),
        ]);
        let form = AgreementForm {
            word: rng.pick(&["Section ", "SECTION ", ""]),
            runs_in: rng.chance(50),
            articles: !name.contains("AMENDMENT") && rng.chance(80),
            split: rng.chance(60),
        };
        let form = AgreementForm {
            word: if form.articles { form.word } else { "Section " },
            ..form
        };
        if rng.chance(60) {
            front.push(Block::Contents {
                from: self.level + 1,
                to: self.level + 2,
            });
        }
        front.push(Block::Numbering(Numbering::Arabic(1)));
        if rng.chance(50) {
            front.push(center(name, TextStyle::bold(size)));
        }
        let text = format!(
            "This instrument is made as of June 3, 2022 by and among the parties named above. {}",
            words::sentence(rng, "the parties")
        );
        front.push(Block::Prose(text.into()));
        let mut sections = self.clauses(n, form, spec, rng);
        if rng.chance(60) {
            sections.push(self.annex(n, rng));
        }
        let hidden = ManuscriptHeading::new(name, self.level, style);
        (
            front,
            PlannedSection::new(hidden, 0).with_children(sections),
        )
    }

    fn clauses(
        &self,
        n: usize,
        form: AgreementForm,
        spec: &Spec,
        rng: &mut Rng,
    ) -> Vec<PlannedSection> {
        let size = self.look.size;
        let level = self.level + 1;
        if !form.articles {
            let names = [
                "Amendments",
                "Conditions Precedent",
                "Representations",
                "Expenses",
                "Governing Law",
            ];
            let each = names.iter().enumerate();
            return each
                .map(|(m, name)| self.section(n, &format!("{}", m + 1), name, level, form, rng))
                .collect();
        }
        let count = (3 + spec.pages as usize / 25).min(ARTICLES.len());
        let mut articles = Vec::new();
        for (a, (name, sections)) in ARTICLES.iter().take(count).enumerate() {
            let roman = crate::manuscript::roman(a as u32 + 1).to_uppercase();
            let mut heading = ManuscriptHeading::new(
                format!("ARTICLE {roman} {name}"),
                level,
                TextStyle::bold(size).centered(),
            );
            heading.printed = form
                .split
                .then(|| vec![format!("ARTICLE {roman}"), (*name).to_owned()]);
            let own = sections.iter().enumerate();
            let own = own.map(|(m, name)| {
                self.section(
                    n,
                    &format!("{}.{:02}", a + 1, m + 1),
                    name,
                    level + 1,
                    form,
                    rng,
                )
            });
            articles.push(PlannedSection::new(heading, 0).with_children(own.collect()));
        }
        articles
    }

    fn section(
        &self,
        n: usize,
        number: &str,
        name: &str,
        level: u16,
        form: AgreementForm,
        rng: &mut Rng,
    ) -> PlannedSection {
        let style = TextStyle::bold(self.look.size);
        let key = format!("agreement {n} section {number}");
        let mut heading =
            ManuscriptHeading::new(format!("{}{number} {name}", form.word), level, style)
                .with_key(key);
        heading.title = if form.runs_in && !form.word.is_empty() {
            format!("{}{number}. {name}", form.word)
        } else {
            heading.title
        };
        heading.runs_on = form.runs_in.then(|| words::sentence(rng, name));
        let mut section = PlannedSection::new(heading, 2).with_topic(name).undivided();
        if number == "1.02" || number == "2" {
            let other = if number == "2" { "1" } else { "1.01" };
            let mention = format!("Section {other}");
            let key = format!("agreement {n} section {other}");
            section.own.push(Block::Prose(paragraph_with_mentions(
                "The parties refer to",
                &[(&mention, &key)],
                "of this instrument for the meaning of these words.",
            )));
        }
        section
    }

    // A form or schedule attached to the agreement.
    fn annex(&self, n: usize, rng: &mut Rng) -> PlannedSection {
        let size = self.look.size;
        let level = self.level + 1;
        let form = rng.chance(50);
        let (word, name) = if form {
            ("EXHIBIT A", "FORM OF PROMISSORY NOTE")
        } else {
            ("SCHEDULE 1.01", "COMMITMENTS")
        };
        let mut heading = ManuscriptHeading::new(
            format!("{word} {name}"),
            level,
            TextStyle::bold(size).centered(),
        )
        .with_new_page();
        heading.printed = Some(vec![word.to_owned(), name.to_owned()]);
        if form {
            let kind = AgreementForm {
                word: "Section ",
                runs_in: true,
                articles: false,
                split: false,
            };
            let own = ["Payment", "Prepayment", "Transfer"].iter().enumerate();
            let own = own.map(|(m, name)| {
                let mut section =
                    self.section(n + 100, &format!("{}", m + 1), name, level + 1, kind, rng);
                section.own.clear();
                section
            });
            let text =
                "For value received, the undersigned promises to pay the amount stated above."
                    .to_owned();
            return PlannedSection::new(heading, 0)
                .with_content(vec![Block::Prose(text.into())])
                .with_children(own.collect());
        }
        let rows = [
            "First Example Bank",
            "Second Example Bank",
            "Third Example Bank",
        ];
        let rows = rows.map(|bank| (bank.to_owned(), vec![words::figure(rng)]));
        let table = FigureTable {
            heads: vec!["Commitment".into()],
            rows: rows.into(),
        };
        PlannedSection::new(heading, 0).with_content(vec![Block::Table(table)])
    }
}
