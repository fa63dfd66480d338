//! Telemetry of a run: one trace with the right parents across every hop, and never any text of the document.
#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use stemma_boot::telemetry::TracePipeline;
use stemma_document::Collection;
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_engine::jobs::JobReport;
use stemma_engine::queue::Lane;
use stemma_pipeline::{RunSettings, WorkerDeps};
use stemma_pipeline_tests::{
    InProcessExtractor, Services, SingleDocument, report, simulate, submission,
};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::blobs::MemoryBlobs;
use stemma_store::{Env, Priority};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

// Occurs in the document and its title only.
const CANARY: &str = "quagmire-canary-5150";

// Processes one document with coordinator, worker and assembler.
async fn process(name: &str, content: &[u8]) -> JobReport {
    let env = Env::simulated(1);
    let store = Arc::new(MemoryBlobs::default());
    let ports = Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&store));
    let deps = WorkerDeps::new(
        Arc::new(SingleDocument(content.to_vec().into())),
        Arc::new(InProcessExtractor),
    );
    let services = Services::start(&ports, deps, [(Lane::Cpu, 2)]);
    let submission = submission(name, content);
    let collection = Collection::default();
    let settings = RunSettings::default();
    let request = SubmitRequest {
        collection: &collection,
        settings: &settings,
        priority: Priority::Bulk,
        options: JobOptions::default(),
    };
    let job = submit(&ports, request, &[submission]).await.unwrap().job;
    let report = report(&env, &store, &job).await.unwrap();
    services.stop().await.unwrap();
    report
}

async fn process_song() {
    let text =
        format!("# {CANARY}\n\nThe {CANARY} sings.\n\n## Part {CANARY}\n\nAnd again: {CANARY}.\n");
    assert_eq!(process("song.md", text.as_bytes()).await.counts.done, 1);
}

#[derive(Debug, Clone, Default)]
struct SpanCollector(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for SpanCollector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

#[test]
fn document_is_one_trace() {
    let collector = SpanCollector::default();
    simulate(async {
        let traces = TracePipeline::start(collector.clone(), "all", 1.0);
        let _default =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(traces.layer()));
        process_song().await;
        traces.shutdown().await;
    })
    .unwrap();
    let spans = collector.0.lock().unwrap().clone();
    let spans_where = |matches: &dyn Fn(&SpanData) -> bool| {
        let matching = spans.iter().filter(|span| matches(span));
        matching.cloned().collect::<Vec<_>>()
    };
    let value = |span: &SpanData, key: &str| {
        let matching = span
            .attributes
            .iter()
            .find(|attribute| attribute.key.as_str() == key);
        matching
            .map(|attribute| attribute.value.as_str().into_owned())
            .unwrap_or_default()
    };
    let traces: BTreeSet<_> = spans
        .iter()
        .map(|span| span.span_context.trace_id().to_string())
        .collect();
    let runs = spans_where(&|span| span.name == "run");
    let batches = spans_where(&|span| span.span_kind == SpanKind::Producer);
    let tasks = spans_where(&|span| span.span_kind == SpanKind::Consumer);
    assert_eq!((traces.len(), runs.len()), (1, 1), "{spans:?}");
    assert_eq!(runs[0].parent_span_id, SpanId::INVALID);
    let ids: BTreeSet<_> = batches
        .iter()
        .map(|batch| batch.span_context.span_id().to_string())
        .collect();
    assert!(
        batches
            .iter()
            .all(|batch| batch.parent_span_id == runs[0].span_context.span_id()),
        "{batches:?}"
    );
    assert!(
        tasks
            .iter()
            .all(|task| ids.contains(&task.parent_span_id.to_string())),
        "{tasks:?}"
    );
    let stages: BTreeMap<_, _> = tasks
        .iter()
        .map(|task| (task.name.to_string(), value(task, "outcome")))
        .collect();
    for stage in ["paginate", "outline", "publish"] {
        assert_eq!(
            stages.get(stage).map(String::as_str),
            Some("done"),
            "{stages:?}"
        );
    }
    assert!(tasks.iter().all(|task| value(task, "attempt") == "1"));
    assert!(!format!("{spans:?}").contains(CANARY));
}

#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogCapture {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

// What `work` returns, and its log.
fn logged<T>(filter: &str, work: impl Future<Output = T>) -> (T, String) {
    let log = LogCapture::default();
    let lines = fmt::layer()
        .json()
        .with_writer(log.clone())
        .with_filter(EnvFilter::new(filter));
    let result = simulate(async {
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        work.await
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (result.unwrap(), log)
}

#[test]
fn log_of_a_failed_task_says_why() {
    let (report, log) = logged(
        "warn",
        process("broken.pdf", b"%PDF-1.7\nnothing follows\n"),
    );
    let (run, failure) = &report.failures[0];
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let line = lines
        .iter()
        .map(|line| &line["fields"])
        .find(|fields| fields["message"] == "task failed permanently")
        .unwrap();
    assert_eq!(
        (&line["run"], &line["code"], &line["error"]),
        (
            &run.as_str().into(),
            &failure.code.as_str().into(),
            &failure.message.as_str().into()
        )
    );
}

#[test]
fn document_text_is_never_logged() {
    let ((), log) = logged("trace", process_song());
    assert!(
        log.contains("stage started") && log.contains("run ended"),
        "{log}"
    );
    assert!(!log.contains(CANARY), "{log}");
}
