//! The metrics recorder of a process, with help texts from `docs/OBSERVING.md`.

use ::metrics::{KeyName, Recorder, gauge, with_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::process;

// The table of metrics: its last column is the help text. Another list would differ from it some day.
const TABLE: &str = include_str!("../../../../docs/OBSERVING.md");

// Upper bounds of the duration buckets, in seconds.
const DURATION_BUCKETS_S: [f64; 15] = [
    0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

/// The metrics recorder of the process. Without it metrics cost nothing; short commands install none.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Installs the recorder of a process that runs `service`; `None` if there is one already.
    pub fn install(service: &'static str) -> Option<Self> {
        let builder = PrometheusBuilder::new()
            .set_buckets(&DURATION_BUCKETS_S)
            .ok()?;
        let handle = builder.install_recorder().ok()?;
        with_recorder(|recorder| describe(recorder));
        gauge!("stemma_build_info", "version" => env!("CARGO_PKG_VERSION"), "service" => service)
            .set(1.0);
        process::record_start();
        Some(Self(handle))
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        process::record_usage();
        self.0.render()
    }

    /// Aggregates recent samples. Call it every few seconds, or samples accumulate between two scrapes.
    pub fn run_upkeep(&self) {
        self.0.run_upkeep();
    }
}

fn describe(recorder: &dyn Recorder) {
    for (name, kind, help) in TABLE.lines().filter_map(row) {
        let name = KeyName::from(name);
        match kind {
            "counter" => recorder.describe_counter(name, None, help.into()),
            "gauge" => recorder.describe_gauge(name, None, help.into()),
            _ => recorder.describe_histogram(name, None, help.into()),
        }
    }
}

// Name, kind and meaning of a metric in a row of the table.
fn row(line: &'static str) -> Option<(&'static str, &'static str, String)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, name, kind, _, meaning, _] = cells[..] else {
        return None;
    };
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    Some((name, kind, meaning.replace('`', "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_help_text() {
        let rows: Vec<_> = TABLE.lines().filter_map(row).collect();
        assert!(rows.len() > 20, "{rows:?}");
        for (name, kind, help) in rows {
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{name}");
            assert!(help.len() > 10 && !help.contains('`'), "{name}: {help}");
        }
    }
}
