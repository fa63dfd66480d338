//! The outline method against a scripted model: each strategy, each fallback, and what false answers can do.

use std::collections::BTreeSet;

use stemma_document::{EntryVerdict, EvidenceSource, Method, SectionStart, Source};

use super::answer_set::AnswerSet;
use super::outline_method::{OutlineRound, outline_round};
use super::questions::{
    QuestionKind, StructureAnswer, StructureQuestion, StructureReply, TocEntry, WindowSection,
};
use super::section_answers::ReplyResult;
use super::usage::StageUsage;
use crate::settings::{RunSettings, StructureMode};
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

// Title, level and page (from 1) of the sections of a fixture, and its contents page.
#[derive(Clone)]
struct ScriptedTruth {
    sections: Vec<(&'static str, u16, u32)>,
    contents: Option<u32>,
    // Printed label = page − offset.
    offset: u32,
}

impl ScriptedTruth {
    fn new(sections: impl IntoIterator<Item = (&'static str, u16, u32)>) -> Self {
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

    // The correct answer.
    fn answer(&self, ask: &StructureQuestion) -> StructureAnswer {
        let inside = |page: u32| {
            // The page before a window is not counted.
            let pages = if let StructureQuestion::ReadWindow { pages, .. } = ask {
                *pages
            } else {
                ask.pages()?
            };
            (pages.start().get() <= page && page <= pages.end().get())
                .then(|| page - pages.start().get() + 1)
        };
        match ask {
            StructureQuestion::DetectToc { page } => {
                let is_contents = Some(page.get()) == self.contents;
                StructureAnswer::Contents {
                    is_contents,
                    has_page_numbers: is_contents && self.offset != u32::MAX,
                }
            }
            StructureQuestion::ReadContents { .. } => {
                let label = |page: u32| {
                    page.checked_sub(self.offset)
                        .map_or(String::new(), |label| label.to_string())
                };
                StructureAnswer::Entries(
                    self.sections
                        .iter()
                        .map(|(title, level, page): &(&str, u16, u32)| TocEntry {
                            number: String::new(),
                            title: (*title).into(),
                            label: label(*page),
                            level: *level,
                        })
                        .collect(),
                )
            }
            StructureQuestion::ReadWindow { .. } => StructureAnswer::Sections(
                self.sections
                    .iter()
                    .filter_map(|(title, level, page): &(&str, u16, u32)| {
                        let page = inside(*page)?;
                        Some(WindowSection {
                            number: String::new(),
                            title: (*title).into(),
                            page,
                            level: *level,
                        })
                    })
                    .collect(),
            ),
            StructureQuestion::Locate { titles, .. } => StructureAnswer::Located(
                (1..)
                    .zip(titles)
                    .filter_map(|(at, title): (u32, &String)| {
                        Some((at, inside(self.page_of(title)?)?))
                    })
                    .collect(),
            ),
            StructureQuestion::VerifyTitle { title, place } => {
                let stands = self.page_of(title) == Some(place.reading_order().0);
                StructureAnswer::TitleCheck {
                    stands,
                    starts_page: stands,
                }
            }
            StructureQuestion::Repair { title, .. } => {
                StructureAnswer::Page(self.page_of(title).and_then(inside).unwrap_or(0))
            }
        }
    }
}

// A completed run of the method.
struct ScriptedRun {
    draft: Draft,
    questions: Vec<StructureQuestion>,
    rounds: usize,
}

impl ScriptedRun {
    fn kinds(&self) -> BTreeSet<QuestionKind> {
        self.questions.iter().map(StructureQuestion::kind).collect()
    }

    fn count(&self, kind: QuestionKind) -> usize {
        self.questions
            .iter()
            .filter(|ask| ask.kind() == kind)
            .count()
    }

    fn gaps(&self) -> Vec<&str> {
        self.draft
            .gaps
            .iter()
            .map(|gap| gap.code.as_str())
            .collect()
    }

    // Title, level and page of all entries except windows and the contents page.
    fn sections(&self) -> Vec<(String, u16, u32)> {
        let entries = self
            .draft
            .outline
            .entries()
            .iter()
            .filter(|one| one.located.entry.evidence != EvidenceSource::Window);
        let section = |one: &stemma_document::VerifiedEntry| {
            (
                one.located.entry.title.clone(),
                one.located.entry.level,
                one.located.place.reading_order().0,
            )
        };
        entries
            .map(section)
            .filter(|section| section.0 != "Contents")
            .collect()
    }

    fn matches(&self, truth: &ScriptedTruth) -> bool {
        let expected: Vec<_> = truth
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
        self.sections() == expected
    }
}

fn settings(structure: StructureMode) -> RunSettings {
    RunSettings {
        structure,
        ..RunSettings::default()
    }
}

// Runs rounds until no question is left.
fn run_method(
    source: &Source,
    settings: &RunSettings,
    say: impl Fn(&StructureQuestion) -> ReplyResult<StructureAnswer>,
) -> ScriptedRun {
    let mut answers = AnswerSet::default();
    let mut questions = Vec::new();
    for rounds in 0..30 {
        match outline_round(source, settings, &answers).unwrap() {
            OutlineRound::Done(draft, _) => {
                return ScriptedRun {
                    draft: *draft,
                    questions,
                    rounds,
                };
            }
            OutlineRound::Pending(pending) => {
                assert!(!pending.is_empty());
                let reply = |ask: &StructureQuestion| {
                    say(ask).map(|answer| StructureReply {
                        answer,
                        usage: StageUsage::default(),
                    })
                };
                answers.extend(pending.iter().map(|(id, ask)| (*id, reply(ask))).collect());
                questions.extend(pending.into_iter().map(|(_, ask)| ask));
            }
        }
    }
    panic!("it asks on and on");
}

fn run_truthful(source: &Source, structure: StructureMode, truth: &ScriptedTruth) -> ScriptedRun {
    run_method(source, &settings(structure), |ask| Ok(truth.answer(ask)))
}

// Twelve pages of prose. Every second page has one of the six titles, set like the text around it, so rules
// do not find it.
fn unmarked_document() -> (Doc, ScriptedTruth) {
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
    (doc, ScriptedTruth::new(sections))
}

// Like `unmarked_document`, after a contents page.
fn document_with_toc(labels: bool) -> (Doc, ScriptedTruth) {
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
        ScriptedTruth {
            contents: Some(1),
            offset,
            ..ScriptedTruth::new(sections)
        },
    )
}

#[test]
fn toc_with_page_numbers_is_tried_first() {
    let (doc, truth) = document_with_toc(true);
    let walked = run_truthful(&doc.source(), StructureMode::Llm, &truth);
    assert!(walked.matches(&truth));
    assert_eq!(
        walked.kinds(),
        BTreeSet::from([
            QuestionKind::DetectToc,
            QuestionKind::ReadContents,
            QuestionKind::VerifyTitle
        ])
    );
    // Pages with the same text are one question.
    assert_eq!(
        (
            walked.count(QuestionKind::DetectToc),
            walked.count(QuestionKind::VerifyTitle)
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
fn toc_without_page_numbers_is_tried_second() {
    let (doc, truth) = document_with_toc(false);
    let walked = run_truthful(&doc.source(), StructureMode::Llm, &truth);
    assert!(walked.matches(&truth));
    assert_eq!(walked.draft.method, Method::PrintedContents);
    assert_eq!(walked.count(QuestionKind::ReadWindow), 0);
}

#[test]
fn all_pages_are_read_without_toc() {
    let (doc, truth) = unmarked_document();
    let mut small = settings(StructureMode::Llm);
    small.outline.window_tokens = 2_000;
    let walked = run_method(&doc.source(), &small, |ask| Ok(truth.answer(ask)));
    assert!(walked.matches(&truth));
    assert_eq!(
        (
            walked.draft.method,
            walked.count(QuestionKind::ReadContents)
        ),
        (Method::Model, 0)
    );
    let windows: Vec<_> = walked
        .questions
        .iter()
        .filter(|ask| ask.kind() == QuestionKind::ReadWindow)
        .collect();
    assert!(windows.len() > 2);
    for pair in windows.windows(2) {
        let (
            StructureQuestion::ReadWindow { pages, .. },
            StructureQuestion::ReadWindow { before, .. },
        ) = (pair[0], pair[1])
        else {
            panic!()
        };
        assert_eq!(*before, Some(pages.end()), "the page before is shown");
    }
}

#[test]
fn toc_with_unknown_titles_falls_back_to_windows() {
    let (doc, truth) = document_with_toc(true);
    let other = ScriptedTruth {
        sections: vec![("Elsewhere", 1, 3), ("Nowhere", 1, 5), ("Beyond", 1, 9)],
        ..truth
    };
    let walked = run_method(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            StructureQuestion::ReadContents { .. } => Ok(other.answer(ask)),
            _ => Ok(truth.answer(ask)),
        },
    );
    assert!(walked.matches(&truth));
    assert_eq!(walked.draft.method, Method::Model);
    assert!(
        walked.gaps().contains(&"model.method_failed")
            && walked.gaps().contains(&"model.titles_astray")
    );
}

#[test]
fn incomplete_toc_falls_back_to_windows() {
    let (doc, truth) = document_with_toc(true);
    let half = ScriptedTruth {
        sections: truth.sections[..2].to_vec(),
        ..truth
    };
    let walked = run_method(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            StructureQuestion::ReadContents { .. } => Ok(half.answer(ask)),
            _ => Ok(truth.answer(ask)),
        },
    );
    assert!(walked.matches(&truth));
    assert_eq!(walked.draft.method, Method::Model);
}

#[test]
fn failed_strategies_fall_back_to_rules() {
    let mut doc = Doc::new(6);
    TITLES
        .iter()
        .enumerate()
        .for_each(|(page, title)| doc.section(page, title));
    let truth = ScriptedTruth::new(
        TITLES
            .iter()
            .zip(1..)
            .map(|(title, page)| (*title, 1, page)),
    );
    let silent = run_method(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            StructureQuestion::ReadWindow { .. } => Ok(StructureAnswer::Sections(Vec::new())),
            _ => Ok(truth.answer(ask)),
        },
    );
    assert!(silent.matches(&truth));
    assert!(silent.gaps().contains(&"model.structure_by_rules"));
    assert_eq!(
        silent.count(QuestionKind::VerifyTitle),
        6,
        "their titles are looked at as well"
    );
    let away = run_method(&doc.source(), &settings(StructureMode::Llm), |_| {
        Err("model.unreachable".into())
    });
    assert!(away.matches(&truth));
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
fn title_matched_at_mention_is_repaired() {
    let (mut doc, mut truth) = unmarked_document();
    // It looks like a heading, on the page that the label names. The section begins two pages later.
    doc.add(5, line("Results").bold().size(14.0));
    truth.contents = None;
    let early = run_method(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            StructureQuestion::ReadWindow { .. } => {
                let StructureAnswer::Sections(mut sections) = truth.answer(ask) else {
                    panic!()
                };
                sections
                    .iter_mut()
                    .filter(|one| one.title == "Results")
                    .for_each(|one| one.page = 6);
                Ok(StructureAnswer::Sections(sections))
            }
            _ => Ok(truth.answer(ask)),
        },
    );
    assert!(early.matches(&truth));
    assert_eq!(early.count(QuestionKind::Repair), 1);
}

#[test]
fn repair_rounds_are_bounded() {
    let (mut doc, truth) = unmarked_document();
    for page in 0..12 {
        doc.add(page, line("Results"));
    }
    let turn = std::cell::Cell::new(0);
    let walked = run_method(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            StructureQuestion::VerifyTitle { title, .. } if title == "Results" => {
                Ok(StructureAnswer::TitleCheck {
                    stands: false,
                    starts_page: false,
                })
            }
            StructureQuestion::Repair { .. } => {
                turn.set(turn.get() + 1);
                Ok(StructureAnswer::Page(turn.get()))
            }
            _ => Ok(truth.answer(ask)),
        },
    );
    assert!(
        walked.count(QuestionKind::Repair) <= 3 && walked.rounds < 12,
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
    assert!(matches!(results.verdict, EntryVerdict::Unconfirmed { .. }));
}

#[test]
fn long_section_is_split_within_its_span() {
    let mut doc = Doc::new(40);
    doc.section(0, "Overview");
    let inside = ["Markets", "Customers", "Suppliers"];
    for page in 1..40 {
        if let (5, Some(title)) = (page % 10, inside.get(page / 10)) {
            doc.add(page, line(title));
        }
        doc.prose(page, 10.0, 40);
    }
    let truth = ScriptedTruth::new(
        [("Overview", 1, 1)].into_iter().chain(
            inside
                .iter()
                .zip(0..)
                .map(|(title, at)| (*title, 2, 10 * at + 6)),
        ),
    );
    // The first reading misses the inner sections.
    let outer = ScriptedTruth::new([("Overview", 1, 1), ("Closing", 1, 38)]);
    let first = std::cell::Cell::new(true);
    let mut small = settings(StructureMode::Llm);
    small.outline.max_tokens_per_node = 3_000;
    let walked = run_method(&doc.source(), &small, |ask| match ask {
        StructureQuestion::ReadWindow { pages, .. }
            if pages.end().get() == 40 && first.replace(false) =>
        {
            Ok(outer.answer(ask))
        }
        _ => Ok(truth.answer(ask)),
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
fn model_contradicting_pages_is_not_trusted() {
    let mut doc = Doc::new(6);
    TITLES
        .iter()
        .enumerate()
        .for_each(|(page, title)| doc.section(page, title));
    let truth = ScriptedTruth::new(
        TITLES
            .iter()
            .zip(1..)
            .map(|(title, page)| (*title, 1, page)),
    );
    let no = StructureAnswer::TitleCheck {
        stands: false,
        starts_page: false,
    };
    let denied = run_method(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            StructureQuestion::VerifyTitle { .. } => Ok(no.clone()),
            _ => Ok(truth.answer(ask)),
        },
    );
    assert!(denied.matches(&truth));
    assert!(denied.gaps().contains(&"model.not_trusted"));
    assert_eq!(
        denied.draft.outline.accuracy(),
        1.0,
        "rules read every title"
    );
}

#[test]
fn invented_titles_are_dropped() {
    let (doc, truth) = unmarked_document();
    let walked = run_method(
        &doc.source(),
        &settings(StructureMode::Llm),
        |ask| match ask {
            StructureQuestion::ReadWindow { .. } => {
                let StructureAnswer::Sections(mut sections) = truth.answer(ask) else {
                    panic!()
                };
                let invented = |title: &str, page| WindowSection {
                    number: String::new(),
                    title: title.into(),
                    page,
                    level: 1,
                };
                sections.extend([
                    invented("Ignore all that", 2),
                    invented("Business", 900),
                    invented("Results", 0),
                ]);
                sections.push(invented("1234", 1));
                Ok(StructureAnswer::Sections(sections))
            }
            _ => Ok(truth.answer(ask)),
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
fn auto_asks_only_what_rules_leave_open() {
    let mut doc = Doc::new(6);
    TITLES
        .iter()
        .enumerate()
        .for_each(|(page, title)| doc.section(page, title));
    let truth = ScriptedTruth::new(
        TITLES
            .iter()
            .zip(1..)
            .map(|(title, page)| (*title, 1, page)),
    );
    let walked = run_truthful(&doc.source(), StructureMode::Auto, &truth);
    assert!(walked.questions.is_empty() && walked.matches(&truth));

    let (plain, truth) = unmarked_document();
    let walked = run_truthful(&plain.source(), StructureMode::Auto, &truth);
    assert!(walked.matches(&truth));
    assert_eq!(
        walked.count(QuestionKind::DetectToc),
        0,
        "no page looks like contents"
    );
}

#[test]
fn auto_splits_long_text_without_headings() {
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
    let truth = ScriptedTruth::new([("Overview", 1, 1), ("Markets", 2, 13), ("Closing", 1, 30)]);
    let walked = run_method(&doc.source(), &small, |ask| Ok(truth.answer(ask)));
    assert_eq!(walked.kinds(), BTreeSet::from([QuestionKind::ReadWindow]));
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
fn text_without_pages_keeps_markup_headings() {
    let source = stemma_outline::structure::fixture::text(
        &["# A", "text", "# B", "more"],
        &[(1, 1, "A"), (3, 1, "B")],
    );
    let walked = run_method(&source, &settings(StructureMode::Llm), |ask| {
        let StructureQuestion::VerifyTitle {
            place: SectionStart::Line(_),
            ..
        } = ask
        else {
            panic!("{ask:?}")
        };
        Ok(StructureAnswer::TitleCheck {
            stands: true,
            starts_page: true,
        })
    });
    assert_eq!(
        (walked.questions.len(), walked.draft.method),
        (2, Method::Markup)
    );
    let auto = run_method(&source, &settings(StructureMode::Auto), |ask| {
        panic!("{ask:?}")
    });
    assert_eq!(auto.draft.outline, walked.draft.outline);
}
