//! The error type of all ports.

/// A failed port call. The operation may have taken effect all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{port}.{operation}: {message}")]
pub struct PortError {
    /// `queue`, `ledger`, `blobs`, `limiter`, or `bucket` for documents in object storage.
    pub port: &'static str,
    /// For example `put`.
    pub operation: &'static str,
    pub message: String,
    /// Whether a retry may succeed.
    pub transient: bool,
}

impl PortError {
    /// The service is unavailable, slow or busy.
    pub fn transient(
        port: &'static str,
        operation: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            port,
            operation,
            message: message.into(),
            transient: true,
        }
    }

    /// A retry will not help: missing permission, no space, a broken object.
    pub fn permanent(
        port: &'static str,
        operation: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            port,
            operation,
            message: message.into(),
            transient: false,
        }
    }
}
