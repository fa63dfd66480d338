//! Time, randomness and spawning. Everything goes through [`Env`], so that a schedule can be replayed from a seed.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Milliseconds since 1970-01-01 UTC.
pub type Millis = u64;

/// Clock, random numbers and executor of a process. Cheap to clone; clones share one clock and one random stream.
#[derive(Clone)]
pub struct Env(Arc<EnvInner>);

struct EnvInner {
    clock: Clock,
    rng: Mutex<SmallRng>,
}

enum Clock {
    System,
    // Time that only advances while every task sleeps (tokio's paused clock), on a single thread.
    Simulated { epoch: Instant, offset_ms: i64 },
}

// 2026-01-01 UTC.
const SIMULATED_START_MS: Millis = 1_767_225_600_000;

impl Env {
    /// System clock, seed from the operating system, threads of the runtime.
    pub fn system() -> Self {
        Self(Arc::new(EnvInner {
            clock: Clock::System,
            rng: Mutex::new(SmallRng::from_os_rng()),
        }))
    }

    /// Simulated time and randomness. Call it inside a current-thread runtime whose clock is paused.
    pub fn simulated(seed: u64) -> Self {
        let clock = Clock::Simulated {
            epoch: Instant::now(),
            offset_ms: 0,
        };
        Self(Arc::new(EnvInner {
            clock,
            rng: Mutex::new(SmallRng::seed_from_u64(seed)),
        }))
    }

    /// The environment of another machine in the same simulation, whose clock is ahead by `ahead_ms`. The system's clock
    /// cannot be changed.
    #[must_use]
    pub fn with_clock_ahead(&self, ahead_ms: i64) -> Self {
        let clock = match self.0.clock {
            Clock::System => Clock::System,
            Clock::Simulated { epoch, offset_ms } => Clock::Simulated {
                epoch,
                offset_ms: offset_ms + ahead_ms,
            },
        };
        Self(Arc::new(EnvInner {
            clock,
            rng: Mutex::new(SmallRng::seed_from_u64(self.random())),
        }))
    }

    pub fn now_ms(&self) -> Millis {
        match self.0.clock {
            Clock::System => as_millis(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default(),
            ),
            Clock::Simulated { epoch, offset_ms } => {
                (SIMULATED_START_MS + as_millis(epoch.elapsed())).saturating_add_signed(offset_ms)
            }
        }
    }

    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    pub fn random(&self) -> u64 {
        self.0.rng.lock().next_u64()
    }

    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tokio::spawn(future)
    }

    /// Runs CPU-bound work on a blocking thread (inline in a simulation).
    ///
    /// # Errors
    /// The panic message, if `work` panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        match self.0.clock {
            Clock::Simulated { .. } => Ok(work()),
            Clock::System => tokio::task::spawn_blocking(work)
                .await
                .map_err(|error| panic_message(error.try_into_panic())),
        }
    }
}

fn as_millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn panic_message(payload: Result<Box<dyn std::any::Any + Send>, tokio::task::JoinError>) -> String {
    match payload {
        Ok(payload) => payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "panicked".into()),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_advances_only_by_sleeping() {
        let env = Env::simulated(7);
        let start = env.now_ms();
        env.sleep(Duration::from_secs(3600)).await;
        assert_eq!(env.now_ms() - start, 3_600_000);
    }

    #[tokio::test(start_paused = true)]
    async fn same_seed_gives_same_random_numbers() {
        let draw = |env: Env| (0..4).map(|_| env.random()).collect::<Vec<_>>();
        assert_eq!(draw(Env::simulated(1)), draw(Env::simulated(1)));
        assert_ne!(draw(Env::simulated(1)), draw(Env::simulated(2)));
    }

    #[tokio::test]
    async fn panic_in_compute_is_returned_as_error() {
        let result = Env::system().compute(|| panic!("bad page 3")).await;
        assert_eq!(result, Err::<(), _>("bad page 3".into()));
    }
}
