//! What a process tells those who run it: logs on standard error, metrics for Prometheus, traces for a collector.
//! Never page text, prompts or keys.
//!
//! Without a collector nothing is exported and spans cost next to nothing; a collector that is away or slow costs
//! spans, which are counted, never time.

mod traces;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use serde::{Deserialize, Serialize};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

pub use traces::TracePipeline;

/// Upper bounds of the buckets of times, in seconds.
const DURATION_BUCKETS_S: [f64; 15] = [
    0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

/// What is told, and to whom.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetrySettings {
    /// URL of an OpenTelemetry collector (OTLP over HTTP), e.g. `http://collector:4318`; empty for none.
    pub otlp_endpoint: String,
    /// Logs as one JSON object per line.
    pub json_logs: bool,
}

/// Telemetry in work; [`Telemetry::shutdown`] sends what is left.
pub struct Telemetry(Option<TracePipeline>);

/// Starts logs, at `level` (`error` … `trace`) or as `STEMMA_LOG` says (a level, or directives such as
/// `stemma_engine=debug`), and traces where a collector is named. `service` names the process to the collector. Call it
/// inside a runtime, once: a second start in one process (tests) keeps the first logger.
pub fn start(level: &str, settings: &TelemetrySettings, service: &str) -> Telemetry {
    // What lapin sees of a lost connection the broker's adapter reports itself, and more plainly.
    let directives = std::env::var("STEMMA_LOG").unwrap_or_else(|_| format!("{level},lapin=off"));
    let filter = EnvFilter::try_new(&directives).unwrap_or_else(|_| EnvFilter::new("warn"));
    let (traces, complaint) = match span_exporter(&settings.otlp_endpoint) {
        None => (None, None),
        Some(Ok(exporter)) => (Some(TracePipeline::start(exporter, service)), None),
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
            "no traces: the collector's address cannot be used"
        );
    }
    Telemetry(traces)
}

impl Telemetry {
    /// Sends what is left, for at most three seconds.
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

/// The way to a collector; `None` where none is named.
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
    stemma_engine::tls::install_crypto_provider();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(url)
        .with_timeout(traces::EXPORT_TIMEOUT)
        .build();
    Some(exporter.map_err(|error| error.to_string()))
}

/// The one recorder of metrics. Without it metrics are not even counted: commands on a laptop install none.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Installs the recorder; `None` when there is one already.
    pub fn install() -> Option<Self> {
        let builder = PrometheusBuilder::new()
            .set_buckets(&DURATION_BUCKETS_S)
            .ok()?;
        builder.install_recorder().ok().map(Self)
    }

    /// Everything, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Sums up what was counted since: to be called every few seconds, or times pile up between two renderings.
    pub fn run_upkeep(&self) {
        self.0.run_upkeep();
    }
}
