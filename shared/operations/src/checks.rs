//! Checks of the installation, as `stemma doctor` makes them, for a server that runs.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use serde::Serialize;
use stemma_store::Env;
use stemma_store::env::Millis;
use tokio::task::JoinHandle;

// Checks start a child process and ask providers for their models: once a minute while somebody looks.
const RENEW_AFTER_MS: u64 = 60_000;

/// A check of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthCheck {
    /// `ok`, `attention` or `failed`.
    pub result: &'static str,
    pub what: String,
    pub next: Option<String>,
}

impl HealthCheck {
    /// A check that passed.
    pub fn ok(what: impl Into<String>) -> Self {
        Self {
            result: "ok",
            what: what.into(),
            next: None,
        }
    }

    /// A check that passed, with something to do.
    pub fn attention(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            result: "attention",
            what: what.into(),
            next: Some(next.into()),
        }
    }
}

/// The results of the checks that ran last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CheckReport {
    /// When they ended; `null` while they run for the first time.
    pub at_ms: Option<Millis>,
    pub checks: Vec<HealthCheck>,
}

/// Runs checks in the background when somebody looks.
pub struct InstallationChecks {
    env: Env,
    run: Box<dyn Fn() -> BoxFuture<'static, Vec<HealthCheck>> + Send + Sync>,
    report: Arc<Mutex<CheckReport>>,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl InstallationChecks {
    /// `run` makes all checks, and ends.
    pub fn new(
        env: Env,
        run: impl Fn() -> BoxFuture<'static, Vec<HealthCheck>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            env,
            run: Box::new(run),
            report: Arc::default(),
            running: Mutex::default(),
        }
    }

    /// The latest results. Starts the checks again if these are a minute old, and does not wait for them.
    pub fn latest(&self) -> CheckReport {
        let report = lock(&self.report).clone();
        let mut running = lock(&self.running);
        let is_running = running.as_ref().is_some_and(|task| !task.is_finished());
        let is_new = report
            .at_ms
            .is_some_and(|at_ms| self.env.now_ms() < at_ms + RENEW_AFTER_MS);
        if !is_running && !is_new {
            let checks = (self.run)();
            let env = self.env.clone();
            let target = Arc::clone(&self.report);
            *running = Some(tokio::spawn(async move {
                let checks = checks.await;
                *lock(&target) = CheckReport {
                    at_ms: Some(env.now_ms()),
                    checks,
                };
            }));
        }
        report
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn checks_run_once_a_minute_while_somebody_looks() {
        let runs = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&runs);
        let checks = InstallationChecks::new(Env::simulated(1), move || {
            let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                vec![HealthCheck::ok(format!("run {number}"))]
            })
        });
        let what = || {
            checks
                .latest()
                .checks
                .first()
                .map(|check| check.what.clone())
        };
        assert_eq!((what(), what()), (None, None));
        assert_eq!(runs.load(Ordering::Relaxed), 1, "two looks share one run");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(what().as_deref(), Some("run 1"));
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(
            what().as_deref(),
            Some("run 1"),
            "nobody waits for the second run"
        );
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(what().as_deref(), Some("run 2"));
    }
}
