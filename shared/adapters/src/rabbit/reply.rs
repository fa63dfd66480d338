//! Waits for replies of the broker, and maps its errors.

use std::future::Future;
use std::time::Duration;

use lapin::ErrorKind;
use tokio::time::timeout;

use stemma_store::port_error::{PortError, PortResult};

// Timeout of a broker response, except while the broker has blocked the connection.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
// AMQP reply code for a refused login or permission.
const ACCESS_REFUSED: u16 = 403;
// Likewise for a queue or exchange that does not exist.
pub(super) const NOT_FOUND: u16 = 404;
pub(super) const NO_ANSWER: &str = "the broker does not answer";

pub(super) async fn with_timeout<T>(
    operation: &'static str,
    request: impl Future<Output = lapin::Result<T>>,
) -> PortResult<T> {
    with_timeout_or(request, |error| port_error(operation, error)).await
}

// `explain` maps an error to a port error; it gets `None` when the broker did not answer in time.
pub(super) async fn with_timeout_or<T>(
    request: impl Future<Output = lapin::Result<T>>,
    explain: impl FnOnce(Option<&lapin::Error>) -> PortError,
) -> PortResult<T> {
    match timeout(ANSWER_TIMEOUT, request).await {
        Ok(reply) => reply.map_err(|error| explain(Some(&error))),
        Err(_) => Err(explain(None)),
    }
}

// Every error is transient, except denied access.
pub(super) fn port_error(operation: &'static str, error: Option<&lapin::Error>) -> PortError {
    match error {
        None => PortError::transient(operation, NO_ANSWER),
        Some(error) if reply_code(error) == Some(ACCESS_REFUSED) => {
            PortError::refused(operation, error.to_string())
        }
        Some(error) => PortError::transient(operation, error.to_string()),
    }
}

pub(super) fn reply_code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}
