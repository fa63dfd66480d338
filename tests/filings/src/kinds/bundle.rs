//! Several agreements bound into one file: each with a title, often contents, articles and sections that count from 1,
//! and an annex of its own. A current report and exhibit lines may stand before them, or nothing may.

use super::{Registrant, look, room};
use crate::Spec;
use crate::manuscript::{Block, Heading, Look, Manuscript, Numbering, Style, Table};
use crate::plan::{Manner, Section, answering, fill, mentioning, plant, unfold};
use crate::random::Rng;
use crate::words::{self, Titles};

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

/// How one bundle is put together.
struct Binder {
    look: Look,
    exhibits: bool,
    /// Where its exhibit lines and titles stand on one page.
    joined: bool,
    /// Level of the titles.
    level: u16,
}

/// How the sections of one agreement are printed.
#[derive(Clone, Copy)]
struct Form {
    word: &'static str,
    /// The text begins in the line of the title.
    runs_in: bool,
    articles: bool,
    /// `ARTICLE I` on a line of its own.
    split: bool,
}

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "agreements");
    let mut look = look(rng);
    (look.contents_title, look.back_link, look.running_head) = (None, false, false);
    let registrant = Registrant::new(rng);
    let report = rng.chance(50);
    let exhibits = report || rng.chance(50);
    let binder = Binder {
        joined: rng.chance(60),
        exhibits,
        level: if exhibits { 2 } else { 1 },
        look,
    };
    let count = (2 + spec.pages as usize / 30).clamp(2, 5);
    let first = rng.below(NAMES.len());
    let mut parts: Vec<(Vec<Block>, Section)> = (0..count)
        .map(|n| binder.agreement(n, NAMES[(first + n) % NAMES.len()], spec, rng))
        .collect();
    let size = binder.look.size;
    let heading = |rng: &mut Rng, titles: &mut Titles, level: u16, _: &str| {
        Heading::new(titles.short(rng), level, Style::italic(size))
    };
    let manner = Manner {
        heading: &heading,
        paragraph: words::paragraph,
        longest: 60_000,
        deepest: 4,
        bullets: false,
    };
    let mut sections: Vec<Section> = parts.iter().map(|(_, section)| section.clone()).collect();
    let fixed = 2.0 + count as f32 * 2.5;
    fill(
        &mut sections,
        room(&binder.look, spec.pages, fixed),
        &manner,
        rng,
        &mut Titles::default(),
    );
    let days = rng.between(20, 90).to_string();
    let text = format!("Either party may end this instrument on {days} days of notice in writing.");
    plant(
        &mut sections,
        |s| s.weight > 0,
        answering("How many days of notice are needed?", text, days),
    );
    let mut body = vec![Block::Numbering(Numbering::Arabic(1))];
    let mut cover = Vec::new();
    if report {
        cover = registrant.cover("8-K", &["CURRENT REPORT".to_owned()], size);
        body.extend(unfold(current(size)));
    }
    for ((front, _), section) in parts.drain(..).zip(sections) {
        body.extend(front);
        body.extend(unfold(vec![section]).into_iter().skip(1));
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
        look: binder.look,
    }
}

/// The Items of the report, which mention nothing that is not there.
fn current(size: f32) -> Vec<Section> {
    let item = |number: &str, name: &str, text: &str| {
        let heading = Heading::new(format!("Item {number} {name}"), 1, Style::bold(size));
        Section::new(heading, 0).with(vec![Block::Prose(text.to_owned().into())])
    };
    vec![
        item(
            "1.01",
            "Entry into a Material Definitive Agreement",
            "The instruments attached to this report were entered into on the date above and are incorporated by reference.",
        ),
        item("9.01", "Financial Statements and Exhibits", "The exhibits are listed in the order in which they are attached."),
        Section::new(Heading::new("SIGNATURE", 1, Style::bold(size).centered()), 0).with(vec![Block::Prose(
            "Pursuant to the requirements of the Securities Exchange Act of 1934, the registrant has duly caused this report to be signed."
                .to_owned()
                .into(),
        )]),
    ]
}

impl Binder {
    /// The front of an agreement (exhibit line, title, contents) and its sections below a heading that is not printed.
    fn agreement(&self, n: usize, name: &str, spec: &Spec, rng: &mut Rng) -> (Vec<Block>, Section) {
        let size = self.look.size;
        let center = |text: &str, style: Style| Block::Line(text.to_owned(), style.centered());
        let mut front = vec![Block::Numbering(Numbering::None)];
        if self.exhibits {
            let style = if rng.chance(50) {
                Style::bold(size)
            } else {
                Style::plain(size)
            };
            let style = if self.joined { style } else { style.centered() };
            front.push(Block::Heading(
                Heading::new(format!("EXHIBIT 10.{}", n + 1), 1, style).on_new_page(),
            ));
        }
        let style = Style::bold(size + rng.pick(&[1.0, 3.0, 5.0])).centered();
        let mut title = Heading::new(name, self.level, style);
        title.new_page = !(self.exhibits && self.joined);
        front.push(Block::Heading(title));
        front.extend([
            center("dated as of June 3, 2022", Style::plain(size)),
            center("among", Style::plain(size)),
            center(&words::company(rng), Style::plain(size)),
            center("and the other parties hereto", Style::plain(size)),
        ]);
        let form = Form {
            word: rng.pick(&["Section ", "SECTION ", ""]),
            runs_in: rng.chance(50),
            articles: !name.contains("AMENDMENT") && rng.chance(80),
            split: rng.chance(60),
        };
        let form = Form {
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
            front.push(center(name, Style::bold(size)));
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
        let hidden = Heading::new(name, self.level, style);
        (front, Section::new(hidden, 0).over(sections))
    }

    fn clauses(&self, n: usize, form: Form, spec: &Spec, rng: &mut Rng) -> Vec<Section> {
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
            let mut heading = Heading::new(
                format!("ARTICLE {roman} {name}"),
                level,
                Style::bold(size).centered(),
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
            articles.push(Section::new(heading, 0).over(own.collect()));
        }
        articles
    }

    fn section(
        &self,
        n: usize,
        number: &str,
        name: &str,
        level: u16,
        form: Form,
        rng: &mut Rng,
    ) -> Section {
        let style = Style::bold(self.look.size);
        let key = format!("agreement {n} section {number}");
        let mut heading =
            Heading::new(format!("{}{number} {name}", form.word), level, style).known_as(key);
        heading.title = if form.runs_in && !form.word.is_empty() {
            format!("{}{number}. {name}", form.word)
        } else {
            heading.title
        };
        heading.runs_on = form.runs_in.then(|| words::sentence(rng, name));
        let mut section = Section::new(heading, 2).about(name).undivided();
        if number == "1.02" || number == "2" {
            let other = if number == "2" { "1" } else { "1.01" };
            let mention = format!("Section {other}");
            let key = format!("agreement {n} section {other}");
            section.own.push(Block::Prose(mentioning(
                "The parties refer to",
                &[(&mention, &key)],
                "of this instrument for the meaning of these words.",
            )));
        }
        section
    }

    /// A form or a schedule attached to the agreement.
    fn annex(&self, n: usize, rng: &mut Rng) -> Section {
        let size = self.look.size;
        let level = self.level + 1;
        let form = rng.chance(50);
        let (word, name) = if form {
            ("EXHIBIT A", "FORM OF PROMISSORY NOTE")
        } else {
            ("SCHEDULE 1.01", "COMMITMENTS")
        };
        let mut heading = Heading::new(
            format!("{word} {name}"),
            level,
            Style::bold(size).centered(),
        )
        .on_new_page();
        heading.printed = Some(vec![word.to_owned(), name.to_owned()]);
        if form {
            let kind = Form {
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
            return Section::new(heading, 0)
                .with(vec![Block::Prose(text.into())])
                .over(own.collect());
        }
        let rows = [
            "First Example Bank",
            "Second Example Bank",
            "Third Example Bank",
        ];
        let rows = rows.map(|bank| (bank.to_owned(), vec![words::figure(rng)]));
        let table = Table {
            heads: vec!["Commitment".into()],
            rows: rows.into(),
        };
        Section::new(heading, 0).with(vec![Block::Table(table)])
    }
}
