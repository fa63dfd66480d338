//! The complete flow with a model for every step: which questions are repeated after a page changes or is
//! inserted, that equal questions give equal bytes, and what happens to documents with unanswered questions.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests and their helpers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use stemma_coordinator::{SubmitRequest, submit};
use stemma_document::{Collection, Digest, PublishedTree, Section, SectionSpan, TreeObject, text};
use stemma_engine::blobs::MemoryBlobs;
use stemma_engine::flow::JobOptions;
use stemma_engine::jobs::EntryCounts;
use stemma_engine::queue::Lane;
use stemma_engine::{Env, Ports, Priority};
use stemma_extract::{ExtractJob, Limits, extract};
use stemma_filings::{Filing, FilingKind, Spec, generate};
use stemma_llm::calls::CallRecord;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::request::{Llm, LlmError, LlmReply, LlmRequest, TokenUsage};
use stemma_llm::tokens;
use stemma_pipeline::{ModelSettings, OnModelFailure, RunSettings, StructureMode, WorkerDeps};
use stemma_walk::{
    InProcessExtractor, Services, SingleDocument, comparable_results, differences, report,
    simulate, submission,
};

// 8,000 tokens of sections, and the text around them.
const MAX_PROMPT_TOKENS: u32 = 8_600;

// Replies as the schema requires, as a pure function of the request: yes, an empty list, the lowest number, a
// sentence of its own. The summary of a section depends on its block alone. It lists no sections, so rules
// decide the structure.
#[derive(Default)]
struct DeterministicEcho {
    // Stage and digest of each request, or of each section's block in a batch.
    questions: Mutex<Vec<(&'static str, String)>>,
    // Stage and digest of each call.
    calls: Mutex<Vec<(&'static str, String)>>,
    // The texts of all sections.
    section_texts: Mutex<Vec<String>>,
    // Stages whose questions are refused.
    refuses: BTreeSet<&'static str>,
    // The number of first replies that are not JSON.
    garbled: Mutex<u32>,
    // Most sections answered per call. With 0, a reply about several sections is not JSON.
    max_answered: Option<usize>,
}

#[async_trait]
impl Llm for DeterministicEcho {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let name = request.schema.name;
        let blocks = blocks(&request.user);
        self.calls.lock().unwrap().push((name, request.digest()));
        if self.refuses.contains(name) {
            return Err(LlmError::Refused {
                status: 400,
                message: String::new(),
            });
        }
        let usage = |text: &str| TokenUsage {
            prompt_tokens: request.prompt_tokens(),
            cached_tokens: 0,
            output_tokens: tokens::count(text),
        };
        let garbled = std::mem::take(&mut *self.garbled.lock().unwrap());
        if garbled > 0 {
            *self.garbled.lock().unwrap() = garbled - 1;
            return Ok(LlmReply::new("Certainly!", usage("Certainly!")));
        }
        if name == "summarize" {
            let question = LlmRequest {
                follow_up: None,
                ..request.clone()
            }
            .prompt_tokens();
            assert!(
                question <= MAX_PROMPT_TOKENS || blocks.len() == 1,
                "{question} tokens"
            );
            let sound = match self.max_answered {
                Some(0) if blocks.len() > 1 => return Ok(LlmReply::new("Certainly!", usage(""))),
                None | Some(0) => blocks.len(),
                Some(sound) => sound,
            };
            let blocks = &blocks[..sound.min(blocks.len())];
            self.section_texts.lock().unwrap().extend_from_slice(blocks);
            let blocks: Vec<Digest> = blocks
                .iter()
                .map(|text| Digest::from_content(text.as_bytes()))
                .collect();
            assert!(
                (1..=8).contains(&blocks.len()),
                "{} sections in one call",
                blocks.len()
            );
            let one = |(at, block): (usize, &Digest)| json!({ "section": at + 1, "summary": format!("Says {block}.") });
            let text =
                json!({ "summaries": blocks.iter().enumerate().map(one).collect::<Vec<_>>() })
                    .to_string();
            let mut questions = self.questions.lock().unwrap();
            questions.extend(blocks.iter().map(|block| (name, block.to_string())));
            return Ok(LlmReply::new(text.clone(), usage(&text)));
        }
        self.questions
            .lock()
            .unwrap()
            .push((name, request.digest()));
        let mut answer = serde_json::Map::new();
        for (name, property) in request.schema.json["properties"].as_object().unwrap() {
            let value = match property["type"].as_str().unwrap() {
                "boolean" => json!(true),
                "string" => json!(format!("Says {}.", &request.digest()[..12])),
                "array" => json!([]),
                "integer" => json!(0),
                other => panic!("{other}"),
            };
            answer.insert(name.clone(), value);
        }
        let text = Value::Object(answer).to_string();
        Ok(LlmReply::new(text.clone(), usage(&text)))
    }
}

// The delimited blocks of a prompt, in order.
fn blocks(prompt: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = prompt.lines();
    while let Some(line) = lines.next() {
        if let Some(mark) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .filter(|m| m.len() == 18 && m.bytes().all(|b| b.is_ascii_digit()))
        {
            let end = format!("[/{mark}]");
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
            blocks.push(text.join("\n"));
        }
    }
    blocks
}

// The result of one run.
struct VersionRun {
    counts: EntryCounts,
    // Every answered question, sorted by digest.
    questions: Vec<(&'static str, String)>,
    // The digest of every call, in order.
    calls: Vec<(&'static str, String)>,
    // The texts of all sections.
    section_texts: Vec<String>,
    tree: PublishedTree,
    results: BTreeMap<String, Bytes>,
    records: Vec<CallRecord>,
}

impl VersionRun {
    fn by_stage(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.questions
            .iter()
            .for_each(|(stage, _)| *counts.entry(*stage).or_default() += 1);
        counts
    }

    fn sections(&self) -> Vec<&Section> {
        self.tree.tree.walk().map(|(_, section)| section).collect()
    }
}

fn settings(structure: StructureMode, on_failure: OnModelFailure) -> RunSettings {
    let model = ModelSettings {
        name: "echo".into(),
        on_failure,
        ..ModelSettings::default()
    };
    let model = (structure != StructureMode::Layout).then_some(model);
    RunSettings {
        structure,
        model,
        ..RunSettings::default()
    }
}

// Runs one version in a fresh deployment over `store`.
async fn run(
    seed: u64,
    store: &Arc<MemoryBlobs>,
    pdf: &[u8],
    echo: DeterministicEcho,
    settings: &RunSettings,
) -> VersionRun {
    let env = Env::simulated(seed);
    let ports = Ports::embedded(Arc::<MemoryBlobs>::clone(store));
    let echo = Arc::new(echo);
    let client = ModelClient::new(
        env.clone(),
        Arc::clone(&ports.limiter),
        Arc::<DeterministicEcho>::clone(&echo),
        ModelClientSettings {
            requests_per_minute: 6_000,
            ..ModelClientSettings::unlimited("echo", "here")
        },
    );
    let tools = WorkerDeps::new(
        Arc::new(SingleDocument(pdf.to_vec().into())),
        Arc::new(InProcessExtractor),
    )
    .with_models([Arc::new(client)]);
    let lanes = [(Lane::Cpu, 2), (Lane::Llm, 8 * (3 + seed as u16))];
    let services = Services::start(&env, &ports, tools, lanes);

    let submission = submission("a.pdf", pdf);
    let collection = Collection::default();
    let documents = std::slice::from_ref(&submission);
    let order = SubmitRequest {
        collection: &collection,
        settings,
        class: Priority::Bulk,
        terms: JobOptions::default(),
    };
    let job = submit(&env, &ports, order, documents).await.unwrap().job;
    let report = report(&env, store, &job).await.unwrap();
    services.stop().await.unwrap();
    let mut questions = echo.questions.lock().unwrap().clone();
    let mut calls = echo.calls.lock().unwrap().clone();
    questions.sort();
    calls.sort();
    let section_texts = echo.section_texts.lock().unwrap().clone();
    let objects = store.snapshot();
    let newest = objects
        .iter()
        .rfind(|(key, _)| key.contains("/trees/"))
        .expect("no published tree")
        .1;
    let TreeObject::Published(tree) = serde_json::from_slice(newest).unwrap() else {
        panic!("the document was removed")
    };
    let records = objects
        .iter()
        .filter(|(key, _)| key.starts_with("c/default/calls/"));
    let records = records
        .map(|(_, json)| serde_json::from_slice(json).unwrap())
        .collect();
    VersionRun {
        counts: report.counts,
        questions,
        calls,
        section_texts,
        tree: *tree,
        results: comparable_results(store),
        records,
    }
}

// Runs versions of one document in order, over the same store.
fn versions(filings: &[&Filing]) -> Vec<VersionRun> {
    simulate(async {
        let store = Arc::new(MemoryBlobs::default());
        let mut ran = Vec::new();
        // With another seed and another job name.
        for (seed, filing) in (1..).zip(filings) {
            let settings = settings(StructureMode::Llm, OnModelFailure::Gap);
            ran.push(
                run(
                    seed,
                    &store,
                    &filing.pdf,
                    DeterministicEcho::default(),
                    &settings,
                )
                .await,
            );
        }
        ran
    })
    .unwrap()
}

fn run_alone(
    seed: u64,
    filing: &Filing,
    echo: DeterministicEcho,
    settings: &RunSettings,
) -> VersionRun {
    simulate(async { run(seed, &Arc::default(), &filing.pdf, echo, settings).await }).unwrap()
}

// Pages of a section's own text, 1-based, from its start to the start of the next section.
fn own_pages(sections: &[&Section], at: usize, pages: u32) -> std::ops::RangeInclusive<u32> {
    let start = |section: &Section| match section.span {
        SectionSpan::Pages { from, .. } => (from.page.get(), from.line),
        SectionSpan::Lines { .. } => panic!("no pages"),
    };
    let first = start(sections[at]).0;
    let last = match sections.get(at + 1).map(|next| start(next)) {
        Some((page, 0)) => (page - 1).max(first),
        Some((page, _)) => page,
        None => pages,
    };
    first..=last
}

// The number of sections whose summaries read a page: those with own text on it, their ancestors, and the
// parents of short sections on it.
fn summaries_that_read(ran: &VersionRun, page: u32, pages: u32) -> (usize, usize) {
    let sections = ran.sections();
    let on_page: Vec<usize> = (0..sections.len())
        .filter(|at| own_pages(&sections, *at, pages).contains(&page))
        .collect();
    let readers: BTreeSet<_> = on_page
        .iter()
        .flat_map(|at: &usize| {
            ran.tree
                .tree
                .path_to(sections[*at].id)
                .into_iter()
                .map(|section| section.id)
        })
        .collect();
    let readers = sections
        .iter()
        .filter(|section| readers.contains(&section.id))
        .filter(|section: &&&Section| section.tokens >= 200)
        .count();
    let titles = on_page
        .iter()
        .filter(|at| own_pages(&sections, **at, pages).start() == &page)
        .count();
    (readers, titles)
}

fn spec() -> Spec {
    Spec {
        pages: 16,
        ..Spec::new(FilingKind::TenK, 11)
    }
}

#[test]
fn changed_page_reasks_only_its_readers() {
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
        let (summaries, titles) = summaries_that_read(&ran[1], page, pages);
        assert_eq!(ran[0].sections().len(), ran[1].sections().len());
        assert_eq!(again.get("detect_toc"), Some(&1), "the page itself");
        assert!(
            again.get("verify_title").copied().unwrap_or(0) <= titles,
            "titles on the page: {titles}"
        );
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
fn inserted_front_page_reasks_only_its_readers() {
    let before = generate(&spec());
    let after = generate(&spec().with_page_inserted_at_front());
    let ran = versions(&[&before, &after]);
    println!(
        "first: {:?}; a page at the front, asked again: {:?}",
        ran[0].by_stage(),
        ran[1].by_stage()
    );
    let again = ran[1].by_stage();
    let (summaries, titles) = summaries_that_read(&ran[1], 1, after.truth.pages);
    assert_eq!(again.get("detect_toc"), Some(&1));
    assert!(
        again.get("verify_title").copied().unwrap_or(0) <= titles,
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
fn changed_prompt_reasks_only_its_stage() {
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
fn failed_batches_retry_alone_with_identical_tree() {
    let filing = generate(&spec());
    let settings = settings(StructureMode::Llm, OnModelFailure::Gap);
    let expected = run_alone(1, &filing, DeterministicEcho::default(), &settings);
    for patience in [0, 1, 3] {
        let actual = run_alone(
            1,
            &filing,
            DeterministicEcho {
                max_answered: Some(patience),
                ..DeterministicEcho::default()
            },
            &settings,
        );
        assert!(actual.calls.len() > expected.calls.len(), "{patience}");
        assert_eq!(
            differences(&actual.results, &expected.results),
            Vec::<String>::new(),
            "{patience}"
        );
        assert_eq!(
            actual.questions, expected.questions,
            "{patience}: an answer was repeated"
        );
    }
}

#[test]
fn long_section_is_summarized_in_stretches() {
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
        "longest {longest}; whole {:?}, in stretches {:?}",
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
fn model_confirms_titles_and_writes_summaries() {
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
    assert!(
        answers.titles_asked > 10 && answers.titles_asked == answers.titles_confirmed,
        "{answers:?}"
    );
    assert_eq!(ran.tree.tree.provenance.accuracy, 1.0);
    let gaps: Vec<&str> = ran
        .tree
        .tree
        .gaps
        .iter()
        .map(|gap| gap.code.as_str())
        .collect();
    assert_eq!(
        gaps,
        [
            "model.method_failed",
            "model.method_failed",
            "model.structure_by_rules"
        ]
    );
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
        refuses: BTreeSet::from(["describe", "summarize", "verify_title"]),
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
        "model.verify_failed",
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
