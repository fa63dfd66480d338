//! A limit on the time of port calls.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::blobs::Blobs;
use crate::port_error::{PortError, PortResult};
use crate::port_layer::{Layered, PortLayer};

/// Limits the time of port calls, for commands that a person waits for. After one call without an answer all others fail
/// at once: a server that is unavailable delays a command only once.
#[derive(Clone)]
pub struct TimeLimit(Arc<TimeLimitState>);

struct TimeLimitState {
    limit: Duration,
    // The first call without an answer.
    unanswered: Mutex<Option<PortError>>,
}

impl TimeLimit {
    /// Objects whose calls take at most `limit`.
    pub fn on_blobs(blobs: Arc<dyn Blobs>, limit: Duration) -> Arc<dyn Blobs> {
        let unanswered = Mutex::default();
        let layer = Self(Arc::new(TimeLimitState { limit, unanswered }));
        Arc::new(Layered { layer, port: blobs })
    }
}

impl PortLayer for TimeLimit {
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
        let earlier = self.0.unanswered.lock().clone();
        if let Some(earlier) = earlier {
            return Err(PortError {
                operation,
                ..earlier
            });
        }
        let limit = self.0.limit;
        tokio::time::timeout(limit, call())
            .await
            .unwrap_or_else(|_| {
                let error =
                    PortError::transient(operation, format!("no response within {limit:?}"));
                *self.0.unanswered.lock() = Some(error.clone());
                Err(error)
            })
    }
}
