//! How sections are batched into calls.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{Section, text};
use stemma_extract::{ExtractJob, Limits, extract};
use stemma_filings::{FilingKind, Spec, generate};
use stemma_pipeline::{OnModelFailure, RunSettings, StructureMode};
use stemma_pipeline_tests::differences;

use super::echo::DeterministicEcho;
use super::run::{run_alone, settings, spec};

#[test]
fn sections_are_batched_with_separate_answers() {
    let filing = generate(&Spec {
        pages: 40,
        ..Spec::new(FilingKind::TenK, 11)
    });
    let ran = run_alone(
        1,
        &filing,
        DeterministicEcho::default(),
        &settings(StructureMode::Llm, OnModelFailure::Gap),
    );
    let calls = ran
        .calls
        .iter()
        .filter(|(stage, _)| *stage == "summarize")
        .count();
    let sections = ran.by_stage()["summarize"];
    println!(
        "{sections} sections of {} pages in {calls} calls",
        filing.truth.pages
    );
    assert!(
        sections > 30 && calls * 3 <= sections,
        "{sections} sections in {calls} calls"
    );
    let summaries: BTreeSet<_> = ran
        .sections()
        .iter()
        .filter_map(|section| section.summary.as_ref())
        .map(|s| &s.text)
        .collect();
    assert!(
        summaries.len() >= sections,
        "two sections have the same summary"
    );
}

// Without white space, because a prompt may break lines elsewhere. Lines about sub-sections are left out.
fn without_whitespace(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with("- "))
        .flat_map(str::split_whitespace)
        .collect()
}

#[test]
fn auto_mode_sends_each_section_once() {
    let filing = generate(&Spec {
        pages: 80,
        ..Spec::new(FilingKind::TenK, 11)
    });
    let settings = RunSettings {
        structure: StructureMode::Auto,
        ..settings(StructureMode::Llm, OnModelFailure::Gap)
    };
    let ran = run_alone(1, &filing, DeterministicEcho::default(), &settings);
    let job = ExtractJob::new("a.pdf".into(), filing.pdf.clone(), None, Limits::default());
    let source = extract(job).unwrap();
    let blocks: Vec<String> = ran
        .section_texts
        .iter()
        .map(|block| without_whitespace(block))
        .collect();
    let long = ran
        .tree
        .tree
        .sections
        .iter()
        .filter(|section| section.tokens >= 200);
    let texts: Vec<String> = long
        .map(|section| text::full_text(section, &source.body))
        .collect();
    let lines: Vec<String> = texts
        .iter()
        .flat_map(|text| text.lines())
        .map(without_whitespace)
        .filter(|line| line.len() > 20)
        .collect();
    let mut times: BTreeMap<&String, usize> = BTreeMap::new();
    lines
        .iter()
        .for_each(|line| *times.entry(line).or_default() += 1);
    let mut once = 0;
    let mut all = 0;
    let mut missing = 0;
    for (line, _) in times.iter().filter(|(_, times)| **times == 1) {
        let occurrences = blocks.iter().filter(|block| block.contains(*line)).count();
        missing += usize::from(occurrences == 0);
        // Shorter lines occur in others: generated sentences share parts, and contents pages repeat headings.
        if line.len() > 60 {
            (all, once) = (all + 1, once + usize::from(occurrences == 1));
        }
    }
    let pages = filing.truth.pages;
    let calls = ran.calls.len();
    let prompts: u32 = ran
        .records
        .iter()
        .map(|record| record.usage.prompt_tokens)
        .sum();
    let tokens: u32 = ran
        .tree
        .tree
        .sections
        .iter()
        .map(|section| section.tokens)
        .sum();
    println!(
        "{calls} calls, {prompts} tokens of prompts for {tokens} on {pages} pages; {once} of {all} lines once"
    );
    assert!(
        all > 1_000 && once * 100 >= all * 99,
        "{once} of {all} lines are in exactly one prompt"
    );
    assert_eq!(missing, 0);
    assert!(calls * 4 <= pages as usize, "{:?}", ran.by_stage());
    assert!(prompts * 10 <= tokens * 11, "{:?}", ran.by_stage());
}

#[test]
fn failed_batches_are_split_without_changing_the_tree() {
    let filing = generate(&spec());
    let settings = settings(StructureMode::Llm, OnModelFailure::Gap);
    let expected = run_alone(1, &filing, DeterministicEcho::default(), &settings);
    for max_answered in [0, 1, 3] {
        let actual = run_alone(
            1,
            &filing,
            DeterministicEcho {
                max_answered: Some(max_answered),
                ..DeterministicEcho::default()
            },
            &settings,
        );
        assert!(actual.calls.len() > expected.calls.len(), "{max_answered}");
        assert_eq!(
            differences(&actual.results, &expected.results),
            Vec::<String>::new(),
            "{max_answered}"
        );
        assert_eq!(
            actual.questions, expected.questions,
            "{max_answered}: an answer was repeated"
        );
    }
}

#[test]
fn long_sections_are_summarized_in_parts() {
    let filing = generate(&Spec {
        pages: 40,
        ..Spec::new(FilingKind::TenK, 11)
    });
    let mut settings = settings(StructureMode::Auto, OnModelFailure::Gap);
    let whole = run_alone(1, &filing, DeterministicEcho::default(), &settings);
    settings.model.as_mut().unwrap().max_prompt_tokens = 2_400;
    let ran = run_alone(1, &filing, DeterministicEcho::default(), &settings);
    let longest = whole
        .sections()
        .iter()
        .map(|section| section.own_tokens)
        .max()
        .unwrap();
    println!(
        "longest {longest}; whole {:?}, in parts {:?}",
        whole.by_stage(),
        ran.by_stage()
    );
    assert!(longest > 1_500 && ran.by_stage()["summarize"] > whole.by_stage()["summarize"]);
    assert!(
        ran.tree
            .tree
            .gaps
            .iter()
            .all(|gap| gap.code != "model.summary_failed"),
        "{:?}",
        ran.tree.tree.gaps
    );
    let long = |section: &&&Section| section.tokens >= 200;
    assert!(
        ran.sections()
            .iter()
            .filter(long)
            .all(|section| section.summary.as_ref().unwrap().by == "echo")
    );
    let most = ran
        .records
        .iter()
        .filter(|record| record.stage == "summarize")
        .map(|record| record.usage.prompt_tokens);
    assert!(most.max().unwrap() <= 2_400);
}
