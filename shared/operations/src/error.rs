//! Why an operation failed.

use stemma_archive::ApiError;
use stemma_store::PortError;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum OperationsError {
    /// The request names something unknown, or cannot be done now.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A server does not answer.
    #[error(transparent)]
    Port(#[from] PortError),
}
