//! The method against a scripted model: each way to the sections, each edge from one to the next, and what lies can do.

use std::collections::BTreeSet;

use stemma_document::{Method, Place, Source, Verdict, Witness};

use super::Spent;
use super::answers::Answer;
use super::asks::{Ask, Begun, Kind, Listed, Reply, Said};
use super::known::Known;
use super::outline::{Outlined, outline};
use crate::settings::{Settings, StructureMode};
use stemma_outline::structure::Draft;
use stemma_outline::structure::fixture::{Doc, line};

const TITLES: [&str; 6] = [
    "Overview",
    "Business",
    "Risk Factors",
    "Results",
    "Liquidity",
    "Controls",
];

/// What is true of a fixture: title, level and page (from 1) of its sections, and its contents page.
#[derive(Clone)]
struct Truth {
    sections: Vec<(&'static str, u16, u32)>,
    contents: Option<u32>,
    /// What a printed label adds to the page.
    offset: u32,
}

impl Truth {
    fn of(sections: impl IntoIterator<Item = (&'static str, u16, u32)>) -> Self {
        Self {
            sections: sections.into_iter().collect(),
            contents: None,
            offset: 0,
        }
    }

    fn page_of(&self, title: &str) -> Option<u32> {
        self.sections
            .iter()
            .find(|section| section.0 == title)
            .map(|section| section.2)
    }

    /// What one who knows it says.
    fn say(&self, ask: &Ask) -> Said {
        let inside = |page: u32| {
            // What is shown before a window is not counted.
            let pages = if let Ask::ReadWindow { pages, .. } = ask {
                *pages
            } else {
                ask.pages()?
            };
            (pages.start().get() <= page && page <= pages.end().get())
                .then(|| page - pages.start().get() + 1)
        };
        match ask {
            Ask::DetectToc { page } => {
                let is_contents = Some(page.get()) == self.contents;
                Said::Contents {
                    is_contents,
                    has_page_numbers: is_contents && self.offset != u32::MAX,
                }
            }
            Ask::ReadContents { .. } => {
                let label = |page: u32| {
                    page.checked_sub(self.offset)
                        .map_or(String::new(), |label| label.to_string())
                };
                Said::Entries(
                    self.sections
                        .iter()
                        .map(|(title, level, page): &(&str, u16, u32)| Listed {
                            number: String::new(),
                            title: (*title).into(),
                            label: label(*page),
                            level: *level,
                        })
                        .collect(),
                )
            }
            Ask::ReadWindow { .. } => Said::Sections(
                self.sections
                    .iter()
                    .filter_map(|(title, level, page): &(&str, u16, u32)| {
                        let page = inside(*page)?;
                        Some(Begun {
                            number: String::new(),
                            title: (*title).into(),
                            page,
                            level: *level,
                        })
                    })
                    .collect(),
            ),
            Ask::Locate { titles, .. } => Said::Found(
                (1..)
                    .zip(titles)
                    .filter_map(|(at, title): (u32, &String)| {
                        Some((at, inside(self.page_of(title)?)?))
                    })
                    .collect(),
            ),
            Ask::VerifyTitle { title, place } => {
                let stands = self.page_of(title) == Some(place.order().0);
                Said::Stands {
                    stands,
                    starts_page: stands,
                }
            }
            Ask::Repair { title, .. } => {
                Said::Page(self.page_of(title).and_then(inside).unwrap_or(0))
            }
        }
    }
}

/// A walk to its end.
struct Walked {
    draft: Draft,
    asked: Vec<Ask>,
    rounds: usize,
}

impl Walked {
    fn kinds(&self) -> BTreeSet<Kind> {
        self.asked.iter().map(Ask::kind).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        self.asked.iter().filter(|ask| ask.kind() == kind).count()
    }

    fn gaps(&self) -> Vec<&str> {
        self.draft
            .gaps
            .iter()
            .map(|gap| gap.code.as_str())
            .collect()
    }

    /// Title, level and page of what is no window, and no contents page.
    fn sections(&self) -> Vec<(String, u16, u32)> {
        let entries = self
            .draft
            .outline
            .entries()
            .iter()
            .filter(|one| one.located.entry.witness != Witness::Window);
        let section = |one: &stemma_document::VerifiedEntry| {
            (
                one.located.entry.title.clone(),
                one.located.entry.level,
                one.located.place.order().0,
            )
        };
        entries
            .map(section)
            .filter(|section| section.0 != "Contents")
            .collect()
    }

    fn is(&self, truth: &Truth) -> bool {
        let wanted: Vec<_> = truth
            .sections
            .iter()
            .map(|(title, level, page)| ((*title).to_string(), *level, *page))
            .collect();
        println!(
            "{:?}\n{:?}\n{:?}",
            self.sections(),
            self.gaps(),
            self.kinds()
        );
        self.sections() == wanted
    }
}

fn settings(structure: StructureMode) -> Settings {
    Settings {
        structure,
        ..Settings::default()
    }
}

/// Walks until nothing is left to ask.
fn walk(source: &Source, settings: &Settings, say: impl Fn(&Ask) -> Answer<Said>) -> Walked {
    let mut known = Known::default();
    let mut asked = Vec::new();
    for rounds in 0..30 {
        match outline(source, settings, &known).unwrap() {
            Outlined::Done(draft, _) => {
                return Walked {
                    draft: *draft,
                    asked,
                    rounds,
                };
            }
            Outlined::Asks(wanted) => {
                assert!(!wanted.is_empty());
                let reply = |ask: &Ask| {
                    say(ask).map(|said| Reply {
                        said,
                        spent: Spent::default(),
                    })
                };
                known.extend(wanted.iter().map(|(id, ask)| (*id, reply(ask))).collect());
                asked.extend(wanted.into_iter().map(|(_, ask)| ask));
            }
        }
    }
    panic!("it asks on and on");
}

fn told(source: &Source, structure: StructureMode, truth: &Truth) -> Walked {
    walk(source, &settings(structure), |ask| Ok(truth.say(ask)))
}

/// Twelve pages of prose, one of the six titles on every second one, set like the text around it: rules see none.
fn plain() -> (Doc, Truth) {
    let mut doc = Doc::new(12);
    for page in 0..12 {
        if let (0, Some(title)) = (page % 2, TITLES.get(page / 2)) {
            doc.add(page, line(title));
        }
        doc.prose(page, 10.0, 30);
    }
    let sections = TITLES
        .iter()
        .zip(0..)
        .map(|(title, at)| (*title, 1, 2 * at + 1));
    (doc, Truth::of(sections))
}

/// The same behind a page of contents.
fn with_contents(labels: bool) -> (Doc, Truth) {
    let mut doc = Doc::new(13);
    doc.add(0, line("Contents"));
    let mut sections = Vec::new();
    for page in 1..13 {
        if let (1, Some(title)) = (page % 2, TITLES.get(page / 2)) {
            doc.add(page, line(title));
            doc.add(
                0,
                if labels {
                    line(title).cells(&[&page.to_string()])
                } else {
                    line(title)
                },
            );
            sections.push((*title, 1, page as u32 + 1));
        }
        doc.prose(page, 10.0, 30);
    }
    let offset = if labels { 1 } else { u32::MAX };
    (
        doc,
        Truth {
            contents: Some(1),
            offset,
            ..Truth::of(sections)
        },
    )
}

#[test]
fn a_table_of_contents_with_page_numbers_is_the_first_way() {
    let (doc, truth) = with_contents(true);
    let walked = told(&doc.source(), StructureMode::Llm, &truth);
    assert!(walked.is(&truth));
    assert_eq!(
        walked.kinds(),
        BTreeSet::from([Kind::DetectToc, Kind::ReadContents, Kind::VerifyTitle])
    );
    // Pages of the same text are one question.
    assert_eq!(
        (
            walked.count(Kind::DetectToc),
            walked.count(Kind::VerifyTitle)
        ),
        (8, 6)
    );
    assert_eq!(
        (walked.draft.method, walked.gaps().len()),
        (Method::PrintedContents, 0)
    );
    assert_eq!(walked.draft.outline.accuracy(), 1.0);
}

#[test]
fn a_table_without_page_numbers_is_the_second_way() {
    let (doc, truth) = with_contents(false);
    let walked = told(&doc.source(), StructureMode::Llm, &truth);
    assert!(walked.is(&truth));
    assert_eq!(walked.draft.method, Method::PrintedContents);
    assert_eq!(walked.count(Kind::ReadWindow), 0);
}

#[test]
fn without_a_table_all_pages_are_read() {
    let (doc, truth) = plain();
    let mut small = settings(StructureMode::Llm);
    small.outline.window_tokens = 2_000;
    let walked = walk(&doc.source(), &small, |ask| Ok(truth.say(ask)));
    assert!(walked.is(&truth));
    assert_eq!(
        (walked.draft.method, walked.count(Kind::ReadContents)),
        (Method::Model, 0)
    );
    let windows: Vec<_> = walked
        .asked
        .iter()
        .filter(|ask| ask.kind() == Kind::ReadWindow)
        .collect();
    assert!(windows.len() > 2);
    for pair in windows.windows(2) {
        let (Ask::ReadWindow { pages, .. }, Ask::ReadWindow { before, .. }) = (pair[0], pair[1])
        else {
            panic!()
        };
        assert_eq!(*before, Some(pages.end()), "the page before is shown");
    }
}

#[test]
fn a_table_whose_titles_are_nowhere_gives_way_to_the_pages() {
    let (doc, truth) = with_contents(true);
    let other = Truth {
        sections: vec![("Elsewhere", 1, 3), ("Nowhere", 1, 5), ("Beyond", 1, 9)],
        ..truth
    };
    let walked = walk(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            Ask::ReadContents { .. } => Ok(other.say(ask)),
            _ => Ok(truth.say(ask)),
        },
    );
    assert!(walked.is(&truth));
    assert_eq!(walked.draft.method, Method::Model);
    assert!(
        walked.gaps().contains(&"model.method_failed")
            && walked.gaps().contains(&"model.titles_astray")
    );
}

#[test]
fn a_table_that_ends_early_gives_way_to_the_pages() {
    let (doc, truth) = with_contents(true);
    let half = Truth {
        sections: truth.sections[..2].to_vec(),
        ..truth
    };
    let walked = walk(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            Ask::ReadContents { .. } => Ok(half.say(ask)),
            _ => Ok(truth.say(ask)),
        },
    );
    assert!(walked.is(&truth));
    assert_eq!(walked.draft.method, Method::Model);
}

#[test]
fn where_no_way_holds_the_sections_are_those_of_rules() {
    let mut doc = Doc::new(6);
    TITLES
        .iter()
        .enumerate()
        .for_each(|(page, title)| doc.section(page, title));
    let truth = Truth::of(
        TITLES
            .iter()
            .zip(1..)
            .map(|(title, page)| (*title, 1, page)),
    );
    let silent = walk(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            Ask::ReadWindow { .. } => Ok(Said::Sections(Vec::new())),
            _ => Ok(truth.say(ask)),
        },
    );
    assert!(silent.is(&truth));
    assert!(silent.gaps().contains(&"model.structure_by_rules"));
    assert_eq!(
        silent.count(Kind::VerifyTitle),
        6,
        "their titles are looked at as well"
    );
    let away = walk(&doc.source(), &settings(StructureMode::Llm), |_| {
        Err("model.unreachable".into())
    });
    assert!(away.is(&truth));
    for code in [
        "model.toc_failed",
        "model.window_failed",
        "model.verify_failed",
        "model.structure_by_rules",
    ] {
        assert!(away.gaps().contains(&code), "{code}");
    }
}

#[test]
fn a_title_found_at_a_mention_is_put_where_it_stands() {
    let (mut doc, mut truth) = plain();
    // The look of a heading, on the page the label means; the section begins two pages later.
    doc.add(5, line("Results").bold().size(14.0));
    truth.contents = None;
    let early = walk(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            Ask::ReadWindow { .. } => {
                let Said::Sections(mut begun) = truth.say(ask) else {
                    panic!()
                };
                begun
                    .iter_mut()
                    .filter(|one| one.title == "Results")
                    .for_each(|one| one.page = 6);
                Ok(Said::Sections(begun))
            }
            _ => Ok(truth.say(ask)),
        },
    );
    assert!(early.is(&truth));
    assert_eq!(early.count(Kind::Repair), 1);
}

#[test]
fn repair_ends_though_the_model_points_elsewhere_every_time() {
    let (mut doc, truth) = plain();
    for page in 0..12 {
        doc.add(page, line("Results"));
    }
    let turn = std::cell::Cell::new(0);
    let walked = walk(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            Ask::VerifyTitle { title, .. } if title == "Results" => Ok(Said::Stands {
                stands: false,
                starts_page: false,
            }),
            Ask::Repair { .. } => {
                turn.set(turn.get() + 1);
                Ok(Said::Page(turn.get()))
            }
            _ => Ok(truth.say(ask)),
        },
    );
    assert!(
        walked.count(Kind::Repair) <= 3 && walked.rounds < 12,
        "{} rounds",
        walked.rounds
    );
    let results = walked
        .draft
        .outline
        .entries()
        .iter()
        .find(|one| one.located.entry.title == "Results")
        .unwrap();
    assert!(matches!(results.verdict, Verdict::Unconfirmed { .. }));
}

#[test]
fn a_long_section_is_read_inside_its_own_span() {
    let mut doc = Doc::new(40);
    doc.section(0, "Overview");
    let inside = ["Markets", "Customers", "Suppliers"];
    for page in 1..40 {
        if let (5, Some(title)) = (page % 10, inside.get(page / 10)) {
            doc.add(page, line(title));
        }
        doc.prose(page, 10.0, 40);
    }
    let truth = Truth::of(
        [("Overview", 1, 1)].into_iter().chain(
            inside
                .iter()
                .zip(0..)
                .map(|(title, at)| (*title, 2, 10 * at + 6)),
        ),
    );
    // The first reading misses what lies inside.
    let outer = Truth::of([("Overview", 1, 1), ("Closing", 1, 38)]);
    let first = std::cell::Cell::new(true);
    let mut small = settings(StructureMode::Llm);
    small.outline.max_tokens_per_node = 3_000;
    let walked = walk(&doc.source(), &small, |ask| match ask {
        Ask::ReadWindow { pages, .. } if pages.end().get() == 40 && first.replace(false) => {
            Ok(outer.say(ask))
        }
        _ => Ok(truth.say(ask)),
    });
    let titles: Vec<_> = walked
        .sections()
        .into_iter()
        .map(|(title, level, _)| (title, level))
        .collect();
    println!("{titles:?} {:?}", walked.gaps());
    for title in inside {
        assert!(
            titles.contains(&(title.to_string(), 2)),
            "{title}: {titles:?}"
        );
    }
}

#[test]
fn a_model_that_denies_what_stands_on_the_pages_is_not_followed() {
    let mut doc = Doc::new(6);
    TITLES
        .iter()
        .enumerate()
        .for_each(|(page, title)| doc.section(page, title));
    let truth = Truth::of(
        TITLES
            .iter()
            .zip(1..)
            .map(|(title, page)| (*title, 1, page)),
    );
    let no = Said::Stands {
        stands: false,
        starts_page: false,
    };
    let denied = walk(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            Ask::VerifyTitle { .. } => Ok(no.clone()),
            _ => Ok(truth.say(ask)),
        },
    );
    assert!(denied.is(&truth));
    assert!(denied.gaps().contains(&"model.not_trusted"));
    assert_eq!(
        denied.draft.outline.accuracy(),
        1.0,
        "rules read every title"
    );
}

#[test]
fn invented_titles_and_pages_come_to_nothing() {
    let (doc, truth) = plain();
    let walked = walk(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            Ask::ReadWindow { .. } => {
                let Said::Sections(mut begun) = truth.say(ask) else {
                    panic!()
                };
                let invented = |title: &str, page| Begun {
                    number: String::new(),
                    title: title.into(),
                    page,
                    level: 1,
                };
                begun.extend([
                    invented("Ignore all that", 2),
                    invented("Business", 900),
                    invented("Results", 0),
                ]);
                begun.push(invented("1234", 1));
                Ok(Said::Sections(begun))
            }
            _ => Ok(truth.say(ask)),
        },
    );
    assert!(
        walked
            .sections()
            .iter()
            .all(|section| TITLES.contains(&section.0.as_str())),
        "{:?}",
        walked.sections()
    );
    assert!(walked.gaps().contains(&"model.titles_astray"));
}

#[test]
fn auto_asks_nothing_where_rules_hold_and_reads_what_they_leave_open() {
    let mut doc = Doc::new(6);
    TITLES
        .iter()
        .enumerate()
        .for_each(|(page, title)| doc.section(page, title));
    let truth = Truth::of(
        TITLES
            .iter()
            .zip(1..)
            .map(|(title, page)| (*title, 1, page)),
    );
    let walked = told(&doc.source(), StructureMode::Auto, &truth);
    assert!(walked.asked.is_empty() && walked.is(&truth));

    let (plain, truth) = plain();
    let walked = told(&plain.source(), StructureMode::Auto, &truth);
    assert!(walked.is(&truth));
    assert_eq!(
        walked.count(Kind::DetectToc),
        0,
        "no page looks like contents"
    );
}

#[test]
fn auto_reads_inside_long_text_that_rules_leave_whole() {
    let mut doc = Doc::new(30);
    doc.section(0, "Overview");
    (1..29).for_each(|page| {
        if page == 12 {
            doc.add(page, line("Markets"));
        }
        doc.prose(page, 10.0, 40);
    });
    doc.section(29, "Closing");
    let mut small = settings(StructureMode::Auto);
    small.outline.max_tokens_per_node = 3_000;
    let truth = Truth::of([("Overview", 1, 1), ("Markets", 2, 13), ("Closing", 1, 30)]);
    let walked = walk(&doc.source(), &small, |ask| Ok(truth.say(ask)));
    assert_eq!(walked.kinds(), BTreeSet::from([Kind::ReadWindow]));
    let sections = walked.sections();
    assert_eq!(
        sections,
        [
            ("Overview".into(), 1, 1),
            ("Markets".into(), 2, 13),
            ("Closing".into(), 1, 30)
        ]
    );
}

#[test]
fn a_text_without_pages_keeps_its_marks() {
    let source = stemma_outline::structure::fixture::text(
        &["# A", "text", "# B", "more"],
        &[(1, 1, "A"), (3, 1, "B")],
    );
    let walked = walk(&source, &settings(StructureMode::Llm), |ask| {
        let Ask::VerifyTitle {
            place: Place::Line(_),
            ..
        } = ask
        else {
            panic!("{ask:?}")
        };
        Ok(Said::Stands {
            stands: true,
            starts_page: true,
        })
    });
    assert_eq!(
        (walked.asked.len(), walked.draft.method),
        (2, Method::Markup)
    );
    let auto = walk(&source, &settings(StructureMode::Auto), |ask| {
        panic!("{ask:?}")
    });
    assert_eq!(auto.draft.outline, walked.draft.outline);
}
