//! The error type of all ports.

/// Result of a port call.
pub type PortResult<T> = Result<T, PortError>;

/// A failed port call. The operation may have taken effect all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct PortError {
    /// `port.method`, for example `blobs.put`.
    pub operation: &'static str,
    pub message: String,
    /// Whether a retry may succeed.
    pub transient: bool,
}

impl PortError {
    /// The service is unavailable, slow or busy.
    pub fn transient(operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            operation,
            message: message.into(),
            transient: true,
        }
    }

    /// A retry will not help: missing permission, no space, a broken object.
    pub fn permanent(operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            transient: false,
            ..Self::transient(operation, message)
        }
    }

    /// `queue`, `ledger`, `blobs`, `limiter`, or `bucket` for documents in object storage.
    pub fn port(&self) -> &'static str {
        self.port_and_method().0
    }

    pub(crate) fn port_and_method(&self) -> (&'static str, &'static str) {
        self.operation
            .split_once('.')
            .unwrap_or((self.operation, ""))
    }
}
