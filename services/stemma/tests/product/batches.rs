//! `--batch`: questions in batches of the simulated provider.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use stemma_filings::{FilingKind, Spec, generate};
use stemma_sim::{Behavior, Provider, ProviderReport, ReplyFault, ReplyFaults, SimulatedBatches};
use tokio::runtime::Runtime;

use crate::support::{StemmaCommand, TestEnv, assert_same, objects, results};

const DIALECTS: [&str; 2] = ["openai", "anthropic"];

/// A provider, and documents to ask about.
struct BatchLab {
    lab: TestEnv,
    provider: Provider,
    // Runs the provider.
    _runtime: Runtime,
}

impl BatchLab {
    fn new(behavior: Behavior) -> Self {
        let lab = TestEnv::new();
        for (name, kind) in [
            ("a.pdf", FilingKind::TenK),
            ("b.pdf", FilingKind::EightKWithAgreement),
        ] {
            let spec = Spec {
                pages: 8,
                ..Spec::new(kind, 7)
            };
            lab.put(name, generate(&spec).pdf);
        }
        let runtime = Runtime::new().unwrap();
        let provider = runtime.block_on(Provider::start(behavior)).unwrap();
        Self {
            lab,
            provider,
            _runtime: runtime,
        }
    }

    fn command(&self, store: &str, dialect: &str, arguments: &[&str]) -> StemmaCommand {
        let url = self.provider.base_url("stemma");
        let mut command = self.lab.stemma(store, ["--json"]).args(arguments);
        for (name, value) in [
            ("STRUCTURE", "llm"),
            ("MODEL__NAME", "sim"),
            ("MODEL__BASE_URL", &url),
            ("MODEL__DIALECT", dialect),
            ("MODEL__PRICES__INPUT", "1"),
            ("MODEL__PRICES__OUTPUT", "4"),
            ("MODEL__BATCH__GATHER_SECONDS", "1"),
            ("MODEL__BATCH__POLL_SECONDS", "1"),
        ] {
            command = command.env(&format!("STEMMA_{name}"), value);
        }
        command
    }

    fn ingest(&self, store: &str, dialect: &str, more: &[&str]) -> Value {
        let answer = self
            .command(store, dialect, &["ingest", "filings"])
            .args(more)
            .run();
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.json()
    }

    fn results(&self, store: &str) -> BTreeMap<String, Vec<u8>> {
        results(&self.lab.path(store))
    }
}

fn batches(batches: SimulatedBatches) -> Behavior {
    Behavior {
        batches,
        ..Behavior::default()
    }
}

// Requests that wait, or are in a batch.
fn waiting(store: &Path) -> usize {
    let keys = objects(store);
    keys.keys()
        .filter(|key| key.contains("/batches/") && key.contains("/items/"))
        .count()
}

// The price of all requests in batches: half of one dollar per million tokens of prompts, and of four for replies.
fn price(report: &ProviderReport) -> f64 {
    let batches = &report.batches;
    (batches.prompt_tokens as f64 + 4.0 * batches.output_tokens as f64) / 2e6
}

#[test]
fn batches_give_the_same_trees_at_the_price_of_batches() {
    for dialect in DIALECTS {
        let called = BatchLab::new(Behavior::default());
        let calls = called.ingest("calls", dialect, &[]);
        let lab = BatchLab::new(batches(SimulatedBatches {
            takes_ms: 300,
            ..SimulatedBatches::default()
        }));
        // The same documents at the same paths, so that their ids are the same.
        let lab = BatchLab {
            lab: called.lab,
            ..lab
        };
        let estimate = lab
            .command(
                "none",
                dialect,
                &["ingest", "filings", "--batch", "--estimate"],
            )
            .run()
            .json();
        let batched = lab.ingest("batch", dialect, &["--batch"]);
        assert_same(
            &lab.results("batch"),
            &results(&lab.lab.path("calls")),
            dialect,
        );

        let report = lab.provider.report();
        assert_eq!(
            (report.calls, report.batches.repeated),
            (0, 0),
            "{report:?}"
        );
        assert_eq!(report.batches.executed, report.batches.requests);
        let cost = |answer: &Value| answer["cost"]["dollars"].as_f64().unwrap();
        assert!(
            (cost(&batched) - price(&report)).abs() < 1e-6,
            "{batched} {report:?}"
        );
        assert!(
            cost(&batched) < 0.75 * cost(&calls),
            "{} {}",
            cost(&batched),
            cost(&calls)
        );
        let range = &estimate["estimate"]["dollars"];
        let about = range["about"].as_f64().unwrap();
        assert!(
            (0.7..1.4).contains(&(cost(&batched) / about)),
            "{range} {}",
            cost(&batched)
        );
        assert_eq!(waiting(&lab.lab.path("batch")), 0);

        let again = lab.ingest("batch", dialect, &["--batch"]);
        assert_eq!(again["counts"]["unchanged"], 2);
        assert_eq!(lab.provider.report().batches, report.batches);
    }
}

#[test]
fn a_batch_that_outlives_its_process_is_paid_once() {
    for dialect in DIALECTS {
        let lab = BatchLab::new(batches(SimulatedBatches {
            takes_ms: u64::MAX,
            ..SimulatedBatches::default()
        }));
        let store = lab.lab.path("store");
        for signal in [Signal::KILL, Signal::INT] {
            let mut running = lab
                .command("store", dialect, &["ingest", "filings", "--batch"])
                .start();
            let submitted = |store: &Path| {
                let keys = objects(store);
                let open = keys.keys().filter(|key| key.ends_with("/submitted.json"));
                open.filter(|key| !keys.contains_key(&key.replace("submitted", "ended")))
                    .count()
            };
            running.wait_until("a batch is submitted", || submitted(&store) > 0);
            running.signal(signal);
            running.end();
        }
        lab.provider
            .set_behavior(batches(SimulatedBatches::default()));
        let resumed = lab.ingest("store", dialect, &["--batch"]);
        assert_eq!(resumed["counts"]["failed"], 0, "{resumed}");
        let report = lab.provider.report();
        assert_eq!(
            (report.calls, report.batches.repeated),
            (0, 0),
            "{report:?}"
        );
        let whole = lab.ingest("whole", dialect, &[]);
        assert_eq!(whole["counts"]["done"], 2);
        assert_same(&lab.results("store"), &lab.results("whole"), dialect);
    }
}

#[test]
fn requests_that_expire_or_fail_are_asked_again() {
    let faults = ReplyFaults {
        rate: 0.3,
        kinds: vec![
            ReplyFault::Error,
            ReplyFault::Empty,
            ReplyFault::Truncated,
            ReplyFault::Malformed,
            ReplyFault::Schema,
        ],
        ..ReplyFaults::default()
    };
    let lab = BatchLab::new(Behavior {
        seed: 3,
        faults,
        ..batches(SimulatedBatches {
            expires: 0.2,
            ..SimulatedBatches::default()
        })
    });
    let answer = lab.ingest("store", "openai", &["--batch"]);
    assert_eq!(answer["counts"]["done"], 2, "{answer}");
    let report = lab.provider.report();
    assert!(
        report.batches.executed < report.batches.requests,
        "{report:?}"
    );
    assert!(report.calls > 0, "unusable replies are repeated by calls");
    lab.provider.set_behavior(Behavior::default());
    lab.ingest("whole", "openai", &[]);
    assert_same(&lab.results("store"), &lab.results("whole"), "after faults");
}

#[test]
fn batches_need_a_model() {
    let lab = TestEnv::new();
    lab.put("a.txt", "Item 1. Business\nWe sell.\n");
    let answer = lab.stemma("store", ["ingest", "filings", "--batch"]).run();
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("--batch needs a model"), "{answer:?}");
}
