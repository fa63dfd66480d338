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
    pub kind: PortErrorKind,
}

/// Who can do something about a [`PortError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortErrorKind {
    /// The service is unavailable, slow or busy: a retry may succeed.
    Transient,
    /// The installation refuses: credentials, permissions, quota, clocks. A retry at once does not help, but an operator
    /// does. It says nothing about the document, which therefore waits.
    Refused,
    /// A retry does not help: an invalid request, or a broken object.
    Permanent,
}

impl PortError {
    fn new(operation: &'static str, message: impl Into<String>, kind: PortErrorKind) -> Self {
        Self {
            operation,
            message: message.into(),
            kind,
        }
    }

    /// A [`PortErrorKind::Transient`] error.
    pub fn transient(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(operation, message, PortErrorKind::Transient)
    }

    /// A [`PortErrorKind::Refused`] error.
    pub fn refused(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(operation, message, PortErrorKind::Refused)
    }

    /// A [`PortErrorKind::Permanent`] error.
    pub fn permanent(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(operation, message, PortErrorKind::Permanent)
    }

    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        self.kind == PortErrorKind::Transient
    }

    /// Whether the error is about the request or the object, not about the service or the installation.
    pub fn is_permanent(&self) -> bool {
        self.kind == PortErrorKind::Permanent
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
