//! Names of spans, so that one document is one trace although no span stays open while a message travels.
//!
//! The trace of a run is the digest of its id; its root has an id of its own. A wave (what one replay publishes) is a
//! span below the root, and its id travels in the messages: each attempt at a task is a span below its wave. The engine
//! only names them, in fields of `tracing` spans (W3C Trace Context); who exports them is none of its business.

use std::fmt::Write;

use crate::env::Millis;
use crate::key::{RunId, TaskKey};

/// The trace of a run.
pub(crate) struct RunTrace {
    /// 32 hexadecimal digits.
    pub(crate) id: String,
    /// The run's own span, 16 hexadecimal digits.
    pub(crate) root: String,
}

impl RunTrace {
    /// The trace of `run`: the same wherever it is asked for.
    pub(crate) fn for_run(run: &RunId) -> Self {
        let digest = blake3::hash(run.0.as_bytes());
        let bytes = digest.as_bytes();
        Self {
            id: hex(&bytes[..16]),
            root: hex(&bytes[16..24]),
        }
    }

    /// The id of the wave that begins with `first`.
    pub(crate) fn wave_span_id(&self, first: &TaskKey, now_ms: Millis) -> String {
        hex(&blake3::hash(format!("{}/{first}/{now_ms}", self.id).as_bytes()).as_bytes()[..8])
    }

    /// The context (`traceparent`) of what stands below the span `parent`.
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
        assert_ne!(trace.wave_span_id(&key, 1), trace.wave_span_id(&key, 2));
        assert_eq!(trace.traceparent(&trace.root).len(), 55);
    }
}
