//! Span ids that make a document one trace, although no span stays open while a message travels.
//!
//! The trace id of a run is derived from the run id, and its root span has an id of its own. A publish batch (the tasks
//! published by one replay) is a span below the root; its id travels in the messages, and each attempt is a span below
//! its batch. The engine only names ids in fields of `tracing` spans (W3C Trace Context); exporting them is up to the
//! process.

use std::fmt::Write;

use stemma_store::env::Millis;
use stemma_store::key::{RunId, TaskKey};

pub(crate) struct RunTrace {
    // 32 hexadecimal digits.
    pub(crate) id: String,
    // The run's own span, 16 hexadecimal digits.
    pub(crate) root: String,
}

impl RunTrace {
    // Derived from the run id, so every process computes the same ids.
    pub(crate) fn for_run(run: &RunId) -> Self {
        let digest = blake3::hash(run.0.as_bytes());
        let bytes = digest.as_bytes();
        Self {
            id: hex(&bytes[..16]),
            root: hex(&bytes[16..24]),
        }
    }

    /// The span id of the batch that starts with task `first`.
    pub(crate) fn publish_span_id(&self, first: &TaskKey, now_ms: Millis) -> String {
        hex(&blake3::hash(format!("{}/{first}/{now_ms}", self.id).as_bytes()).as_bytes()[..8])
    }

    /// The W3C `traceparent` of children of `parent`.
    pub(crate) fn traceparent(&self, parent: &str) -> String {
        format!("00-{}-{parent}-01", self.id)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_has_one_trace_and_one_span_per_wave() {
        let trace = RunTrace::for_run(&RunId("r-1".into()));
        let other = RunTrace::for_run(&RunId("r-2".into()));
        assert_eq!(trace.id, RunTrace::for_run(&RunId("r-1".into())).id);
        assert_ne!(trace.id, other.id);
        let key = TaskKey::builder("read", 1).finish();
        assert_ne!(
            trace.publish_span_id(&key, 1),
            trace.publish_span_id(&key, 2)
        );
        assert_eq!(trace.traceparent(&trace.root).len(), 55);
    }
}
