//! What a process knows of its servers: which port calls fail, since when, and how. Heartbeats and `/readyz` report it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::blobs::Blobs;
use crate::env::{Env, Millis};
use crate::port_error::{PortError, PortErrorKind, PortResult};
use crate::port_layer::{Layered, PortLayer};

// A single failed call that succeeds when repeated is not an outage.
const MIN_STREAK_MS: Millis = 3_000;
// A failure counts this long. Tasks that met one are delivered again after 5 s.
const FAILURE_COUNTS_MS: Millis = 15_000;

/// How a server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// The broker holds back publishers because its memory or disk is full.
    Blocked,
    /// It refuses: credentials, permissions or a quota.
    Refused,
    /// It does not answer, or only with errors that usually pass.
    Away,
}

/// Trouble of a process with one of its servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortTrouble {
    /// The failing call, for example `blobs.put`.
    pub operation: String,
    pub kind: TroubleKind,
    pub since_ms: Millis,
    /// The last error.
    pub error: String,
}

/// Records the outcomes of the port calls of one process. Cheap to clone.
#[derive(Clone, Default)]
pub struct PortMonitor(Arc<MonitorState>);

#[derive(Default)]
struct MonitorState {
    // Whether any call has failed: without failures, a successful call costs one load.
    has_failures: AtomicBool,
    // By operation.
    failures: Mutex<BTreeMap<&'static str, Streak>>,
    // Why the broker blocks publishers, and when that was first seen.
    block: Mutex<Option<(Millis, String)>>,
}

// Failures of an operation without a success between them.
struct Streak {
    kind: TroubleKind,
    since_ms: Millis,
    last_ms: Millis,
    error: String,
}

impl Streak {
    fn is_current(&self, now_ms: Millis) -> bool {
        now_ms < self.last_ms + FAILURE_COUNTS_MS
    }
}

impl PortMonitor {
    /// Records how a call ended.
    pub fn record<T>(&self, operation: &'static str, result: &PortResult<T>, now_ms: Millis) {
        match result {
            Ok(_) => self.record_success(operation, now_ms),
            Err(error) => self.record_failure(operation, error, now_ms),
        }
    }

    // Refusals depend on the key of the object, so that another call's success says nothing about them.
    fn record_success(&self, operation: &'static str, now_ms: Millis) {
        if !self.0.has_failures.load(Ordering::Relaxed) {
            return;
        }
        let mut failures = self.0.failures.lock();
        failures.retain(|name, streak| {
            let is_refused = streak.kind == TroubleKind::Refused;
            streak.is_current(now_ms) && (is_refused || *name != operation)
        });
        self.0
            .has_failures
            .store(!failures.is_empty(), Ordering::Relaxed);
    }

    fn record_failure(&self, operation: &'static str, error: &PortError, now_ms: Millis) {
        let kind = match error.kind {
            PortErrorKind::Transient => TroubleKind::Away,
            PortErrorKind::Refused => TroubleKind::Refused,
            PortErrorKind::Permanent => return, // about the request, not about the server
        };
        let mut failures = self.0.failures.lock();
        let since_ms = failures
            .get(operation)
            .filter(|streak| streak.is_current(now_ms))
            .map_or(now_ms, |streak| streak.since_ms);
        let streak = Streak {
            kind,
            since_ms,
            last_ms: now_ms,
            error: error.message.clone(),
        };
        failures.insert(operation, streak);
        self.0.has_failures.store(true, Ordering::Relaxed);
    }

    /// Records why the broker blocks publishers; `None` when it does not.
    pub fn record_block(&self, reason: Option<String>, now_ms: Millis) {
        let mut block = self.0.block.lock();
        *block = reason.map(|reason| match block.take() {
            Some((since_ms, _)) => (since_ms, reason),
            None => (now_ms, reason),
        });
    }

    /// The current trouble: refusals at once, other errors when they last.
    pub fn troubles(&self, now_ms: Millis) -> Vec<PortTrouble> {
        let failures = self.0.failures.lock();
        let current = failures.iter().filter(|(_, streak)| {
            let lasts = now_ms >= streak.since_ms + MIN_STREAK_MS;
            streak.is_current(now_ms) && (lasts || streak.kind == TroubleKind::Refused)
        });
        let failing = current.map(|(operation, streak)| PortTrouble {
            operation: (*operation).into(),
            kind: streak.kind,
            since_ms: streak.since_ms,
            error: streak.error.clone(),
        });
        let block = self.0.block.lock().clone();
        let blocked = block.map(|(since_ms, error)| PortTrouble {
            operation: "queue.publish".into(),
            kind: TroubleKind::Blocked,
            since_ms,
            error,
        });
        blocked.into_iter().chain(failing).collect()
    }
}

impl PortMonitor {
    /// Objects whose calls are recorded, and not retried.
    pub fn watch_blobs(&self, env: &Env, blobs: Arc<dyn Blobs>) -> Arc<dyn Blobs> {
        let layer = MonitorLayer {
            env: env.clone(),
            monitor: self.clone(),
        };
        Arc::new(Layered { layer, port: blobs })
    }
}

struct MonitorLayer {
    env: Env,
    monitor: PortMonitor,
}

impl PortLayer for MonitorLayer {
    async fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        _about: impl Fn() -> String + Send + 'a,
        mut call: F,
    ) -> PortResult<T>
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
    {
        let result = call().await;
        self.monitor.record(operation, &result, self.env.now_ms());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> PortResult<()> {
        Err(PortError::transient("blobs.put", "SlowDown (status 503)"))
    }

    fn refused() -> PortResult<()> {
        Err(PortError::refused("blobs.put", "AccessDenied (status 403)"))
    }

    #[test]
    fn errors_that_last_are_trouble_until_a_call_succeeds() {
        let monitor = PortMonitor::default();
        monitor.record("blobs.put", &away(), 1_000);
        assert_eq!(monitor.troubles(2_000), [], "one failure may pass at once");
        monitor.record("blobs.put", &away(), 4_500);
        let [trouble] = &monitor.troubles(5_000)[..] else {
            panic!("no trouble")
        };
        assert_eq!((trouble.since_ms, trouble.kind), (1_000, TroubleKind::Away));
        monitor.record("blobs.get", &Ok(()), 5_500);
        assert_eq!(
            monitor.troubles(5_500).len(),
            1,
            "reads say nothing about writes"
        );
        monitor.record("blobs.put", &Ok(()), 6_000);
        assert_eq!(monitor.troubles(6_000), []);
    }

    #[test]
    fn refusals_are_trouble_at_once_and_outlast_the_success_of_other_keys() {
        let monitor = PortMonitor::default();
        monitor.record("blobs.put", &refused(), 1_000);
        monitor.record("blobs.put", &Ok(()), 1_100);
        assert_eq!(monitor.troubles(1_200)[0].kind, TroubleKind::Refused);
        monitor.record("blobs.put", &refused(), 7_000);
        assert_eq!(monitor.troubles(9_000)[0].since_ms, 1_000);
        assert_eq!(monitor.troubles(7_000 + FAILURE_COUNTS_MS), []);
    }

    #[test]
    fn blocked_broker_is_trouble_since_it_was_first_seen() {
        let monitor = PortMonitor::default();
        monitor.record_block(Some("low on memory".into()), 1_000);
        monitor.record_block(Some("low on memory".into()), 3_000);
        let trouble = &monitor.troubles(3_000)[0];
        assert_eq!(
            (trouble.kind, trouble.since_ms),
            (TroubleKind::Blocked, 1_000)
        );
        monitor.record_block(None, 5_000);
        assert_eq!(monitor.troubles(5_000), []);
    }

    #[test]
    fn errors_about_the_request_are_no_trouble() {
        let monitor = PortMonitor::default();
        let invalid: PortResult<()> = Err(PortError::permanent("blobs.put", "not a key"));
        monitor.record("blobs.put", &invalid, 0);
        assert_eq!(monitor.troubles(10_000), []);
    }
}
