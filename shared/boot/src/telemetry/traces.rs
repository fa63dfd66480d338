//! Traces across processes. No span stays open while a message travels, so the engine names span ids in fields, and
//! this module turns them into spans of one trace.
//!
//! The field `traceparent` (W3C) names a span's parent. The field `span_id` (16 hexadecimal digits) sets the id of a
//! span; together with `trace_id` it makes the span the root of a trace, and `started_ms` says when that began. Only spans
//! of our own crates are exported.

use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use stemma_store::Env;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context as At;
use tracing_subscriber::registry::LookupSpan;

use crate::process_name;

// Timeout of an export request.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
// Time limit for exporting the last spans at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
// How long spans are collected into a batch.
const BATCH_DELAY: Duration = Duration::from_secs(1);
// Spans waiting for export; further spans are dropped and counted.
const QUEUE_CAPACITY: usize = 4_096;
// Spans per export request.
const MAX_BATCH: usize = 512;

const PARENT_FIELD: &str = "traceparent";
const SPAN_ID_FIELD: &str = "span_id";
const TRACE_ID_FIELD: &str = "trace_id";
// Milliseconds since 1970: when a span began that is only known at its end.
const STARTED_FIELD: &str = "started_ms";
const STAGE_FIELD: &str = "stage";
const OPERATION_FIELD: &str = "operation";

/// Exports spans to a collector.
pub struct TracePipeline {
    provider: SdkTracerProvider,
    shutdown: CancellationToken,
    export_task: JoinHandle<()>,
}

impl TracePipeline {
    /// Exports the spans of process `service` through `exporter`, on a task of its own.
    /// Only this share of the traces is exported, chosen by their ids.
    pub fn start(mut exporter: impl SpanExporter + 'static, service: &str, ratio: f64) -> Self {
        let instance = process_name::process_name(service, &Env::system());
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", format!("stemma-{service}")),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", instance),
            ])
            .build();
        exporter.set_resource(&resource);
        let (spans, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource)
            .with_span_processor(ChannelSpanProcessor {
                spans,
                max_trace_id: max_trace_id(ratio),
            })
            .build();
        let shutdown = CancellationToken::new();
        let export_task = tokio::spawn(export_batches(exporter, waiting, shutdown.clone()));
        Self {
            provider,
            shutdown,
            export_task,
        }
    }

    /// The tracing layer that records spans of our crates.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("stemma"))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        RemoteParentLayer(layer).with_filter(filter_fn(|metadata: &Metadata<'_>| {
            metadata.is_span() && metadata.target().starts_with("stemma")
        }))
    }

    /// Exports the remaining spans.
    pub async fn shutdown(self) {
        self.shutdown.cancel();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.export_task)
            .await
            .is_err()
        {
            tracing::debug!("the collector did not accept the last spans in time");
        }
    }
}

// Queues finished spans without blocking.
#[derive(Debug)]
struct ChannelSpanProcessor {
    spans: mpsc::Sender<SpanData>,
    // Traces up to this value of the first half of their ids are exported.
    max_trace_id: u64,
}

// Trace ids are digests of run ids, and therefore spread evenly.
fn max_trace_id(ratio: f64) -> u64 {
    // Casts of floats saturate.
    (ratio.clamp(0.0, 1.0) * u64::MAX as f64) as u64
}

impl SpanProcessor for ChannelSpanProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let span = describe(apply_span_id(span));
        let trace_id = u128::from_be_bytes(span.span_context.trace_id().to_bytes());
        if (trace_id >> 64) as u64 > self.max_trace_id {
            return;
        }
        if self.spans.try_send(span).is_err() {
            count_dropped(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn count_dropped(spans: u64) {
    metrics::counter!("stemma_spans_dropped_total").increment(spans);
}

// Sets the id named by the span's fields, and removes the fields that only serve tracing.
fn apply_span_id(mut span: SpanData) -> SpanData {
    let value = |name: &str| {
        let span_id = span
            .attributes
            .iter()
            .find(|attribute| attribute.key.as_str() == name);
        span_id.map(|attribute| attribute.value.as_str().into_owned())
    };
    let id = value(SPAN_ID_FIELD).and_then(|id| SpanId::from_hex(&id).ok());
    let trace = value(TRACE_ID_FIELD).and_then(|id| TraceId::from_hex(&id).ok());
    let context = &span.span_context;
    let trace = trace.unwrap_or(context.trace_id());
    let id = id.unwrap_or(context.span_id());
    span.span_context = SpanContext::new(
        trace,
        id,
        context.trace_flags(),
        false,
        context.trace_state().clone(),
    );
    span.attributes.retain(|attribute| {
        !matches!(
            attribute.key.as_str(),
            SPAN_ID_FIELD | PARENT_FIELD | TRACE_ID_FIELD
        )
    });
    span
}

// Names and kinds that collectors expect: which stage, which call, who publishes and who consumes. They are given here, so
// that log lines do not carry them twice.
fn describe(mut span: SpanData) -> SpanData {
    let value = |name: &str| {
        let found = span
            .attributes
            .iter()
            .find(|attribute| attribute.key.as_str() == name);
        found.map(|attribute| attribute.value.as_str().into_owned())
    };
    let stage = value(STAGE_FIELD).unwrap_or_default();
    let (name, kind) = match span.name.as_ref() {
        "task" => (stage, SpanKind::Consumer),
        "publish_batch" => (format!("publish {stage}"), SpanKind::Producer),
        "port" => (value(OPERATION_FIELD).unwrap_or_default(), SpanKind::Client),
        "call" => (model_call_name(&value), SpanKind::Client),
        "child" => ("extraction child".into(), SpanKind::Client),
        _ => (span.name.to_string(), span.span_kind.clone()),
    };
    let started_ms = value(STARTED_FIELD).and_then(|started| started.parse().ok());
    if let Some(started_ms) = started_ms {
        span.start_time = UNIX_EPOCH + Duration::from_millis(started_ms);
        span.attributes
            .retain(|attribute| attribute.key.as_str() != STARTED_FIELD);
    }
    if !name.is_empty() {
        span.name = name.into();
    }
    span.span_kind = kind;
    span
}

// `chat qwen3:8b`, as the conventions for calls of models have it.
fn model_call_name(value: &impl Fn(&str) -> Option<String>) -> String {
    let parts = ["gen_ai.operation.name", "gen_ai.request.model"];
    parts
        .into_iter()
        .filter_map(value)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Exports batches until the channel closes; batches that the collector refuses are dropped.
async fn export_batches(
    exporter: impl SpanExporter,
    mut waiting: mpsc::Receiver<SpanData>,
    ending: CancellationToken,
) {
    let mut was_exported = true;
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = ending.cancelled() => break,
            count = waiting.recv_many(&mut batch, MAX_BATCH) => if count == 0 { break },
        }
        if batch.len() < MAX_BATCH {
            tokio::select! {
                biased;
                () = ending.cancelled() => {}
                () = tokio::time::sleep(BATCH_DELAY) => {}
            }
            fill_batch(&mut waiting, &mut batch);
        }
        let sent = export(&exporter, batch).await;
        if was_exported && !sent {
            tracing::warn!("the collector does not accept traces; dropping them until it does");
        }
        was_exported = sent;
    }
    loop {
        let mut batch = Vec::new();
        fill_batch(&mut waiting, &mut batch);
        if batch.is_empty() || !export(&exporter, batch).await {
            return;
        }
    }
}

fn fill_batch(waiting: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    while batch.len() < MAX_BATCH
        && let Ok(span) = waiting.try_recv()
    {
        batch.push(span);
    }
}

async fn export(exporter: &impl SpanExporter, batch: Vec<SpanData>) -> bool {
    let count = batch.len() as u64;
    let sent = matches!(
        tokio::time::timeout(EXPORT_TIMEOUT, exporter.export(batch)).await,
        Ok(Ok(()))
    );
    if !sent {
        count_dropped(count);
    }
    sent
}

// Starts spans below the parent named in their fields, which may belong to another process.
struct RemoteParentLayer<L>(L);

impl<S, L> Layer<S> for RemoteParentLayer<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, at: At<'_, S>) {
        let mut parent = TraceParentVisitor(None);
        attributes.record(&mut parent);
        let _under = parent
            .0
            .map(|parent| Context::new().with_remote_span_context(parent).attach());
        self.0.on_new_span(attributes, id, at);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, at: At<'_, S>) {
        self.0.on_record(id, values, at);
    }

    fn on_enter(&self, id: &Id, at: At<'_, S>) {
        self.0.on_enter(id, at);
    }

    fn on_exit(&self, id: &Id, at: At<'_, S>) {
        self.0.on_exit(id, at);
    }

    fn on_close(&self, id: Id, at: At<'_, S>) {
        self.0.on_close(id, at);
    }
}

struct TraceParentVisitor(Option<SpanContext>);

impl Visit for TraceParentVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == PARENT_FIELD {
            self.0 = parse_traceparent(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == PARENT_FIELD {
            self.0 = parse_traceparent(&format!("{value:?}"));
        }
    }
}

/// Parses `00-{trace id}-{span id}-{flags}` (W3C Trace Context, version 0).
fn parse_traceparent(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let trace = parts.next()?;
    let span = parts.next()?;
    let flags = parts.next()?;
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use opentelemetry_sdk::error::OTelSdkError;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    // Records exported spans, or never responds.
    #[derive(Debug, Clone, Default)]
    struct RecordingExporter {
        spans: Arc<Mutex<Vec<SpanData>>>,
        unresponsive: bool,
    }

    impl SpanExporter for RecordingExporter {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            if self.unresponsive {
                tokio::time::sleep(Duration::from_secs(60)).await;
                return Err(OTelSdkError::InternalFailure("dead".into()));
            }
            self.spans.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    const PUBLISH_BATCH: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[tokio::test]
    async fn spans_use_the_parent_and_id_from_their_fields() {
        let exporter = RecordingExporter::default();
        let traces = TracePipeline::start(exporter.clone(), "worker", 1.0);
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            let task = tracing::info_span!(target: "stemma_engine", "task", traceparent = PUBLISH_BATCH, outcome = tracing::field::Empty);
            task.in_scope(|| {
                let call = tracing::info_span!(target: "stemma_llm", "call", gen_ai.operation.name = "chat", gen_ai.request.model = "qwen3:8b");
                call.in_scope(|| ());
            });
            task.record("outcome", "done");
            tracing::info_span!(target: "stemma_engine", "publish_batch", traceparent = %PUBLISH_BATCH, span_id = "00f067aa0ba902b7")
                .in_scope(|| ());
            tracing::info_span!(target: "other", "noise").in_scope(|| ());
        });
        traces.shutdown().await;
        let spans = exporter.spans.lock().unwrap().clone();
        let span = |name: &str| {
            let found = spans.iter().find(|span| span.name == name);
            found.unwrap_or_else(|| panic!("no {name}: {spans:?}"))
        };
        let trace = TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap();
        assert!(
            spans
                .iter()
                .all(|span| span.span_context.trace_id() == trace),
            "{spans:?}"
        );
        assert_eq!(
            (
                spans.len(),
                span("task").parent_span_id.to_string().as_str()
            ),
            (3, "b7ad6b7169203331")
        );
        assert_eq!(
            span("chat qwen3:8b").parent_span_id,
            span("task").span_context.span_id()
        );
        assert_eq!(
            span("publish ").span_context.span_id().to_string(),
            "00f067aa0ba902b7"
        );
        assert_eq!(span("task").attributes, [KeyValue::new("outcome", "done")]);
    }

    #[tokio::test]
    async fn spans_say_stage_call_kind_and_true_start() {
        let exporter = RecordingExporter::default();
        let traces = TracePipeline::start(exporter.clone(), "worker", 1.0);
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            let task = tracing::info_span!(target: "stemma_engine", "task", traceparent = PUBLISH_BATCH, stage = "outline");
            task.in_scope(|| {
                tracing::trace_span!(target: "stemma_engine", "port", operation = "blobs.put")
                    .in_scope(|| ());
            });
            tracing::info_span!(target: "stemma_engine", "publish_batch", traceparent = PUBLISH_BATCH, stage = "outline").in_scope(|| ());
            let started_ms = 1_000_u64;
            tracing::info_span!(target: "stemma_engine", "run", trace_id = "0af7651916cd43dd8448eb211c80319c", span_id = "00f067aa0ba902b7", started_ms)
                .in_scope(|| ());
        });
        traces.shutdown().await;
        let spans = exporter.spans.lock().unwrap().clone();
        let kind = |name: &str| {
            let span = spans.iter().find(|span| span.name == name);
            span.unwrap_or_else(|| panic!("no {name}: {spans:?}"))
                .span_kind
                .clone()
        };
        assert_eq!(kind("outline"), SpanKind::Consumer);
        assert_eq!(kind("publish outline"), SpanKind::Producer);
        assert_eq!(kind("blobs.put"), SpanKind::Client);
        let run = spans.iter().find(|span| span.name == "run").unwrap();
        assert_eq!(run.start_time, UNIX_EPOCH + Duration::from_secs(1));
        assert!(
            run.end_time > run.start_time && run.attributes.is_empty(),
            "{run:?}"
        );
    }

    #[tokio::test]
    async fn ratio_keeps_the_same_share_of_runs_in_every_process() {
        let exported = |ratio: f64, service: &'static str| async move {
            let exporter = RecordingExporter::default();
            let traces = TracePipeline::start(exporter.clone(), service, ratio);
            let subscriber = tracing_subscriber::registry().with(traces.layer());
            tracing::subscriber::with_default(subscriber, || {
                for run in 0..400_u32 {
                    let trace = trace_id(run);
                    let parent = format!("00-{trace}-b7ad6b7169203331-01");
                    tracing::info_span!(target: "stemma_engine", "task", traceparent = %parent)
                        .in_scope(|| ());
                }
            });
            traces.shutdown().await;
            let spans = exporter.spans.lock().unwrap().clone();
            let ids = spans.iter().map(|span| span.span_context.trace_id());
            ids.collect::<std::collections::HashSet<_>>()
        };
        let worker = exported(0.25, "worker").await;
        assert!((70..130).contains(&worker.len()), "{}", worker.len());
        assert_eq!(worker, exported(0.25, "assembler").await);
        assert_eq!(exported(0.0, "worker").await.len(), 0);
        assert_eq!(exported(1.0, "worker").await.len(), 400);
    }

    // 32 hexadecimal digits that depend on `run` like those of a digest.
    fn trace_id(run: u32) -> String {
        let mixed = u128::from(run + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        format!("{:032x}", mixed ^ (mixed >> 61))
    }

    #[tokio::test(start_paused = true)]
    async fn unresponsive_collector_does_not_block() {
        let traces = TracePipeline::start(
            RecordingExporter {
                unresponsive: true,
                ..RecordingExporter::default()
            },
            "worker",
            1.0,
        );
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(traces.layer()),
            || {
                (0..3 * QUEUE_CAPACITY).for_each(|_| {
                    drop(tracing::info_span!(target: "stemma_engine", "task").entered());
                });
            },
        );
        let ended = tokio::time::Instant::now();
        traces.shutdown().await;
        assert!(ended.elapsed() <= SHUTDOWN_TIMEOUT, "{:?}", ended.elapsed());
    }

    #[test]
    fn invalid_traceparent_is_ignored() {
        assert!(parse_traceparent(PUBLISH_BATCH).is_some_and(|parent| parent.is_remote()));
        for wrong in [
            "",
            "00",
            "00-0-0-0",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "é-é-é-é",
        ] {
            assert!(parse_traceparent(wrong).is_none(), "{wrong}");
        }
    }
}
