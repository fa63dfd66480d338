//! Runs versions of a document and collects questions, calls and results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use stemma_document::{Collection, PublishedTree, Section, SectionSpan, TreeObject};
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_engine::jobs::EntryCounts;
use stemma_engine::queue::Lane;
use stemma_filings::{Filing, FilingKind, Spec};
use stemma_llm::calls::CallRecord;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_pipeline::{ModelSettings, OnModelFailure, RunSettings, StructureMode, WorkerDeps};
use stemma_pipeline_tests::{
    InProcessExtractor, Services, SingleDocument, comparable_results, report, simulate, submission,
};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::blobs::MemoryBlobs;
use stemma_store::{Env, Priority};

use super::echo::DeterministicEcho;

/// The result of processing one version.
pub struct VersionRun {
    pub counts: EntryCounts,
    /// Every answered question, sorted by digest.
    pub questions: Vec<(&'static str, String)>,
    /// The digest of every call, in request.
    pub calls: Vec<(&'static str, String)>,
    /// The texts of all sections.
    pub section_texts: Vec<String>,
    pub tree: PublishedTree,
    pub results: BTreeMap<String, Bytes>,
    pub records: Vec<CallRecord>,
}

impl VersionRun {
    pub fn by_stage(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.questions
            .iter()
            .for_each(|(stage, _)| *counts.entry(*stage).or_default() += 1);
        counts
    }

    pub fn sections(&self) -> Vec<&Section> {
        self.tree.tree.walk().map(|(_, section)| section).collect()
    }
}

pub fn settings(structure: StructureMode, on_failure: OnModelFailure) -> RunSettings {
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

/// Runs one version in a fresh deployment over `store`.
pub async fn run(
    seed: u64,
    store: &Arc<MemoryBlobs>,
    pdf: &[u8],
    echo: DeterministicEcho,
    settings: &RunSettings,
) -> VersionRun {
    let env = Env::simulated(seed);
    let ports = Ports::embedded(&env, Arc::<MemoryBlobs>::clone(store));
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
    let deps = WorkerDeps::new(
        Arc::new(SingleDocument(pdf.to_vec().into())),
        Arc::new(InProcessExtractor),
    )
    .with_models([Arc::new(client)]);
    let lanes = [(Lane::Cpu, 2), (Lane::Llm, 8 * (3 + seed as u16))];
    let services = Services::start(&ports, deps, lanes);

    let submission = submission("a.pdf", pdf);
    let collection = Collection::default();
    let documents = std::slice::from_ref(&submission);
    let request = SubmitRequest {
        collection: &collection,
        settings,
        priority: Priority::Bulk,
        options: JobOptions::default(),
    };
    let job = submit(&ports, request, documents).await.unwrap().job;
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

/// Runs versions of one document in request, over the same store.
pub fn versions(filings: &[&Filing]) -> Vec<VersionRun> {
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

pub fn run_alone(
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

/// The number of sections whose summaries read a page: those with own text on it, their ancestors, and the
/// parents of short sections on it.
pub fn summaries_that_read(ran: &VersionRun, page: u32, pages: u32) -> usize {
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
    sections
        .iter()
        .filter(|section| readers.contains(&section.id))
        .filter(|section: &&&Section| section.tokens >= 200)
        .count()
}

pub fn spec() -> Spec {
    Spec {
        pages: 16,
        ..Spec::new(FilingKind::TenK, 11)
    }
}
