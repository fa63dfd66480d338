//! Which questions are repeated after a change of the document or of the settings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stemma_document::Section;
use stemma_filings::generate;
use stemma_pipeline::{OnModelFailure, StructureMode};
use stemma_pipeline_tests::simulate;
use stemma_store::blobs::MemoryBlobs;

use super::echo::DeterministicEcho;
use super::run::{VersionRun, run, settings, spec, summaries_that_read, versions};

#[test]
fn changed_page_repeats_only_its_own_questions() {
    let before = generate(&spec());
    let pages = before.truth.pages;
    for page in [7, 12] {
        let after = generate(&spec().with_page_changed(page));
        let ran = versions(&[&before, &after]);
        println!(
            "first: {:?}; page {page} changed, asked again: {:?}",
            ran[0].by_stage(),
            ran[1].by_stage()
        );
        let again = ran[1].by_stage();
        let summaries = summaries_that_read(&ran[1], page, pages);
        assert_eq!(ran[0].sections().len(), ran[1].sections().len());
        let windows = again.get("read_window").copied().unwrap_or(0);
        // The window of the page, and the one whose boundary the edit may move.
        assert!((1..=2).contains(&windows), "{windows} windows");
        let asked_again = again.get("summarize").copied().unwrap_or(0);
        assert!(
            (1..=summaries).contains(&asked_again),
            "{asked_again} summaries asked, {summaries} read the page"
        );
        assert!(
            asked_again < ran[0].by_stage()["summarize"] / 2,
            "{again:?}"
        );
        assert_eq!(
            count_rewritten(&ran),
            asked_again,
            "only changed summaries are asked again"
        );
        assert_no_repeated_questions(&ran);
    }
}

#[test]
fn inserted_front_page_repeats_only_its_own_questions() {
    let before = generate(&spec());
    let after = generate(&spec().with_page_inserted_at_front());
    let ran = versions(&[&before, &after]);
    println!(
        "first: {:?}; a page at the front, asked again: {:?}",
        ran[0].by_stage(),
        ran[1].by_stage()
    );
    let again = ran[1].by_stage();
    let summaries = summaries_that_read(&ran[1], 1, after.truth.pages);
    assert!(
        again.get("read_window").copied().unwrap_or(0) <= 2,
        "{again:?}"
    );
    assert!(
        again.get("summarize").copied().unwrap_or(0) <= summaries,
        "{again:?}, {summaries}"
    );
    assert_no_repeated_questions(&ran);
}

// The number of sections with another summary than before. Their ancestors change too, because they read it.
fn count_rewritten(ran: &[VersionRun]) -> usize {
    let before = ran[0].sections();
    let after = ran[1].sections();
    let summary_of = |section: &Section| section.summary.clone();
    let changed: Vec<&Section> = before
        .iter()
        .zip(&after)
        .filter(|(a, b)| summary_of(a) != summary_of(b) && b.tokens >= 200)
        .map(|(_, b)| *b)
        .collect();
    let ids: BTreeSet<_> = changed.iter().map(|section| section.id).collect();
    for section in &changed {
        let path = ran[1].tree.tree.path_to(section.id);
        println!(
            "  rewritten: {}",
            path.iter()
                .map(|section| section.title.as_str())
                .collect::<Vec<_>>()
                .join(" > ")
        );
        assert!(
            path.iter().all(|above| ids.contains(&above.id)),
            "{} has a changed child and the same summary",
            section.title
        );
    }
    changed.len()
}

// No version repeats an answered question.
fn assert_no_repeated_questions(ran: &[VersionRun]) {
    let all: Vec<&String> = ran
        .iter()
        .flat_map(|ran| &ran.questions)
        .map(|(_, digest)| digest)
        .collect();
    let once: BTreeSet<_> = all.iter().collect();
    assert_eq!(once.len(), all.len(), "a question was asked twice");
}

#[test]
fn changed_prompt_repeats_only_its_stage() {
    let filing = generate(&spec());
    let ran = simulate(async {
        let store = Arc::new(MemoryBlobs::default());
        let mut settings = settings(StructureMode::Llm, OnModelFailure::Gap);
        let before = run(
            1,
            &store,
            &filing.pdf,
            DeterministicEcho::default(),
            &settings,
        )
        .await;
        settings
            .instructions
            .insert("summarize".into(), "Summarize it in verse.".into());
        let after = run(
            2,
            &store,
            &filing.pdf,
            DeterministicEcho::default(),
            &settings,
        )
        .await;
        [before, after]
    })
    .unwrap();
    println!(
        "first: {:?}; summary prompt changed, asked again: {:?}",
        ran[0].by_stage(),
        ran[1].by_stage()
    );
    assert_eq!(
        ran[1].by_stage(),
        BTreeMap::from([("summarize", ran[0].by_stage()["summarize"])])
    );
}

#[test]
fn unchanged_document_asks_nothing_and_replies_are_recorded() {
    let filing = generate(&spec());
    let ran = versions(&[&filing, &filing]);
    assert_eq!((ran[1].questions.len(), ran[1].counts.unchanged), (0, 1));
    let recorded: BTreeSet<&String> = ran[0]
        .records
        .iter()
        .map(|record| &record.request)
        .collect();
    assert_eq!(
        recorded,
        ran[0].calls.iter().map(|(_, digest)| digest).collect()
    );
    assert_eq!(
        ran[0].records.len(),
        ran[0].calls.len(),
        "one record per reply"
    );
    assert!(
        ran[0]
            .records
            .iter()
            .all(|record| record.useful && record.attempt == 1 && record.took_ms == 300)
    );
    let answers = ran[0].tree.tree.provenance.answers.clone().unwrap();
    let prompts: u64 = ran[0]
        .records
        .iter()
        .map(|record| u64::from(record.usage.prompt_tokens))
        .sum();
    assert_eq!(answers.calls as usize, ran[0].questions.len());
    assert!(
        (prompts / 2..prompts).contains(&answers.prompt_tokens),
        "{} of {prompts}",
        answers.prompt_tokens
    );
    assert_eq!(ran[0].tree.tree.provenance.model, "echo");
}
