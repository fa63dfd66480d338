//! Telemetry: logs on standard error, Prometheus metrics, OpenTelemetry traces. None contains page text, prompts or
//! keys.
//!
//! Without a collector nothing is exported and spans cost next to nothing. A slow or unavailable collector loses spans,
//! which are counted, but never delays work.

mod metrics;
mod process;
mod traces;

use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use serde::{Deserialize, Serialize};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

pub use metrics::Metrics;
pub use traces::TracePipeline;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetrySettings {
    /// URL of an OpenTelemetry collector (OTLP over HTTP), e.g. `http://collector:4318`; empty for none.
    pub otlp_endpoint: String,
    /// Share of the runs (and requests) whose traces are exported, from 0 to 1. Decided by the id of the run, so that all
    /// processes choose the same ones.
    pub trace_ratio: f64,
    /// Write logs as one JSON object per line.
    pub json_logs: bool,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            otlp_endpoint: String::new(),
            trace_ratio: 1.0,
            json_logs: false,
        }
    }
}

/// Running telemetry; call [`Telemetry::shutdown`] to export the remaining spans.
pub struct Telemetry(Option<TracePipeline>);

/// Starts logging at `level` (`error` … `trace`), or as `STEMMA_LOG` says (a level, or directives such as
/// `stemma_engine=debug`), and traces if a collector is configured. `service` is the service name in traces. Call it
/// once, inside a runtime; a second call in one process (tests) keeps the first logger.
pub fn start(level: &str, settings: &TelemetrySettings, service: &str) -> Telemetry {
    // Our adapter logs lost connections more clearly than lapin.
    let directives = std::env::var("STEMMA_LOG").unwrap_or_else(|_| format!("{level},lapin=off"));
    let filter = EnvFilter::try_new(&directives).unwrap_or_else(|_| EnvFilter::new("warn"));
    let (traces, complaint) = match span_exporter(&settings.otlp_endpoint) {
        None => (None, None),
        Some(Ok(exporter)) => {
            let ratio = settings.trace_ratio;
            (Some(TracePipeline::start(exporter, service, ratio)), None)
        }
        Some(Err(error)) => (None, Some(error)),
    };
    let layer = traces.as_ref().map(TracePipeline::layer);
    let subscriber = tracing_subscriber::registry()
        .with(log_layer(settings.json_logs).with_filter(filter))
        .with(layer);
    drop(subscriber.try_init());
    if let Some(error) = complaint {
        tracing::warn!(
            endpoint = settings.otlp_endpoint,
            error,
            "no traces: invalid collector URL"
        );
    }
    Telemetry(traces)
}

impl Telemetry {
    /// Exports the remaining spans, for at most three seconds.
    pub async fn shutdown(self) {
        if let Some(traces) = self.0 {
            traces.shutdown().await;
        }
    }
}

fn log_layer(json: bool) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    if json {
        lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed()
    } else {
        lines.boxed()
    }
}

/// The exporter; `None` if no collector is configured.
fn span_exporter(endpoint: &str) -> Option<Result<SpanExporter, String>> {
    let endpoint = endpoint.trim_end_matches('/');
    if endpoint.is_empty() {
        return None;
    }
    let url = if endpoint.ends_with("/v1/traces") {
        endpoint.to_string()
    } else {
        format!("{endpoint}/v1/traces")
    };
    stemma_store::tls::install_crypto_provider();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(url)
        .with_timeout(traces::EXPORT_TIMEOUT)
        .build();
    Some(exporter.map_err(|error| error.to_string()))
}
