//! The published tree: independent of the schedule, checked by rules, and complete even if the model fails.

use std::collections::BTreeSet;
use std::sync::Mutex;

use stemma_filings::generate;
use stemma_pipeline::{OnModelFailure, StructureMode};
use stemma_pipeline_tests::differences;

use super::echo::DeterministicEcho;
use super::run::{VersionRun, run_alone, settings, spec};

#[test]
fn output_is_independent_of_schedule() {
    let filing = generate(&spec());
    let settings = settings(StructureMode::Llm, OnModelFailure::Gap);
    let expected = run_alone(1, &filing, DeterministicEcho::default(), &settings);
    for seed in 2..5 {
        let actual = run_alone(seed, &filing, DeterministicEcho::default(), &settings);
        assert_eq!(
            differences(&actual.results, &expected.results),
            Vec::<String>::new()
        );
    }
    let garbled = run_alone(
        9,
        &filing,
        DeterministicEcho {
            garbled: Mutex::new(3),
            ..DeterministicEcho::default()
        },
        &settings,
    );
    assert_eq!(
        differences(&garbled.results, &expected.results),
        Vec::<String>::new()
    );
    assert_eq!(
        garbled
            .records
            .iter()
            .filter(|record| !record.useful)
            .count(),
        3
    );
    let others = |ran: &VersionRun| {
        ran.records
            .iter()
            .filter(|record| record.useful && record.stage != "summarize")
            .count()
    };
    assert_eq!(others(&garbled), others(&expected));
}

#[test]
fn rules_decide_the_structure_and_a_model_writes_summaries() {
    let filing = generate(&spec());
    let ran = run_alone(
        1,
        &filing,
        DeterministicEcho::default(),
        &settings(StructureMode::Llm, OnModelFailure::Gap),
    );
    let by_rules = run_alone(
        1,
        &filing,
        DeterministicEcho::default(),
        &settings(StructureMode::Layout, OnModelFailure::Gap),
    );
    assert_eq!(by_rules.questions.len(), 0);
    let titles = |ran: &VersionRun| {
        ran.sections()
            .iter()
            .map(|section| section.title.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        titles(&ran),
        titles(&by_rules),
        "rules decide the structure"
    );
    for section in ran.sections() {
        let by = section.summary.as_ref().map(|summary| summary.by.as_str());
        assert_eq!(
            by == Some("echo"),
            section.tokens >= 200,
            "{}: {by:?}",
            section.title
        );
    }
    let answers = ran.tree.tree.provenance.answers.clone().unwrap();
    assert_eq!((answers.titles_named, answers.titles_added), (0, 0));
    assert!(ran.tree.tree.provenance.doubt.is_some());
    let gaps: Vec<&str> = ran
        .tree
        .tree
        .gaps
        .iter()
        .map(|gap| gap.code.as_str())
        .collect();
    assert_eq!(gaps, Vec::<&str>::new());
    assert!(ran.by_stage()["read_window"] > 0);
    assert_eq!(ran.by_stage()["describe"], 1);
    assert!(
        ran.tree
            .tree
            .description
            .as_ref()
            .unwrap()
            .starts_with("Says "),
        "{:?}",
        ran.tree.tree.description
    );
    assert_eq!(
        ran.tree.tree.facts, by_rules.tree.tree.facts,
        "a fact that the text does not confirm was accepted"
    );
    assert!(
        answers.described && answers.facts_dropped.len() > 4,
        "{answers:?}"
    );
}

#[test]
fn unanswered_questions_become_gaps() {
    let filing = generate(&spec());
    let refusing = || DeterministicEcho {
        refuses: BTreeSet::from(["describe", "read_window", "summarize"]),
        ..DeterministicEcho::default()
    };
    let codes = |ran: &VersionRun| {
        ran.tree
            .tree
            .gaps
            .iter()
            .map(|gap| gap.code.clone())
            .collect::<BTreeSet<_>>()
    };
    let gap = run_alone(
        1,
        &filing,
        refusing(),
        &settings(StructureMode::Llm, OnModelFailure::Gap),
    );
    assert_eq!(gap.counts.done_with_gaps, 1);
    let expected_codes = [
        "model.describe_failed",
        "model.summary_failed",
        "model.window_failed",
    ]
    .map(String::from);
    assert!(
        codes(&gap).is_superset(&BTreeSet::from(expected_codes)),
        "{:?}",
        codes(&gap)
    );
    assert!(
        gap.tree.tree.description.is_some(),
        "the description is made by rules"
    );
    let long = |ran: &VersionRun| {
        ran.sections()
            .into_iter()
            .filter(|section| section.tokens >= 200)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert!(long(&gap).iter().all(|section| section.summary.is_none()));
    assert!(
        gap.sections()
            .iter()
            .filter(|section| section.verified)
            .count()
            > 10,
        "rules decide alone"
    );
    let offline = run_alone(
        1,
        &filing,
        refusing(),
        &settings(StructureMode::Llm, OnModelFailure::Offline),
    );
    assert!(long(&offline).iter().all(|section| {
        section
            .summary
            .as_ref()
            .is_some_and(|said| said.by == "offline")
    }));
    assert!(codes(&offline).contains("model.summary_failed"));
}
