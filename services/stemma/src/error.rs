//! How commands end: exit codes, and errors with a code and a next step.

use stemma_boot::config::ConfigError;
use stemma_boot::store::StoreError;
use stemma_engine::PortError;
use stemma_query::ApiError;
use stemma_retrieval::embedding::{EmbeddingError, budget};
use stemma_retrieval::index::IndexError;

/// How a command ends: 0 done or found, 1 nothing found or finished without the model that was to be asked, 2 usage or error, 3 finished with failed documents, 4 stopped
/// at a limit, 5 answered by search alone, 130 interrupted (interfaces §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or found.
    Done,
    /// Nothing found.
    Nothing,
    /// Finished, and the model stayed away for good: structure by rules, missing summaries as gaps.
    ModelAway,
    /// Not in order, as the answer itself says.
    CheckFailed,
    /// Finished, and some documents failed.
    SomeFailed,
    /// Stopped at a limit; go on with the same command.
    Stopped,
    /// No model answered: what is printed is what a search without one found.
    SearchOnly,
    /// Interrupted; go on with the same command.
    Interrupted,
}

impl Exit {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Nothing | Exit::ModelAway => 1,
            Exit::CheckFailed => 2,
            Exit::SomeFailed => 3,
            Exit::Stopped => 4,
            Exit::SearchOnly => 5,
            Exit::Interrupted => 130,
        }
    }
}

/// Why a command could not do what it was asked: a stable code, a sentence, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// Stable code, e.g. `store.missing`.
    pub code: String,
    /// One sentence, lower case, naming the thing.
    pub message: String,
    /// What to do: a command, or a sentence.
    pub next: Option<String>,
    /// The document it is about.
    pub file: Option<String>,
    /// What to choose from, at most five.
    pub candidates: Vec<String>,
}

impl CommandError {
    /// An error under a stable code.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            next: None,
            file: None,
            candidates: Vec::new(),
        }
    }

    /// The same with a next step.
    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Missing(_) => Self::new("store.missing", message)
                .with_next("make one with `stemma ingest FOLDER`, or name another with --store"),
            StoreError::Locked { .. } => Self::new("store.locked", message)
                .with_next("wait until it has ended, or use another --store"),
            StoreError::NewerLayout { .. } => {
                Self::new("store.newer", message).with_next("update stemma")
            }
            StoreError::Port(error) => error.into(),
            StoreError::Io { .. } => {
                Self::new("store.io", message).with_next("check that the folder can be written")
            }
        }
    }
}

impl From<IndexError> for CommandError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Port(error) => error.into(),
            IndexError::Busy => Self::new("index.busy", error.to_string()).with_next("wait until it has ended"),
            IndexError::Disk { .. } => Self::new("index.disk", error.to_string())
                .with_next("make room where the index lies, or the folder writable (`stemma index status` names it)"),
            IndexError::Damaged(_) => {
                Self::new("index.damaged", error.to_string()).with_next("make it again with `stemma index build`")
            }
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self::new("config.invalid", error.to_string())
            .with_next("see all settings with `stemma config`")
    }
}

impl From<PortError> for CommandError {
    fn from(error: PortError) -> Self {
        let code = match error.port {
            "blobs" => "store.unreadable",
            "queue" => "broker.unreachable",
            "ledger" | "limiter" => "redis.unreachable",
            _ => "cluster.invalid",
        };
        Self::new(code, error.to_string()).with_next("look at it with `stemma doctor`")
    }
}

impl From<ApiError> for CommandError {
    fn from(refusal: ApiError) -> Self {
        let ApiError {
            code,
            message,
            next,
            file,
            candidates,
        } = refusal;
        Self {
            code: code.into(),
            message,
            next,
            file,
            candidates,
        }
    }
}

impl From<EmbeddingError> for CommandError {
    fn from(error: EmbeddingError) -> Self {
        let message = error.to_string();
        match error {
            EmbeddingError::Endpoint(failure) if failure.code == budget::BUDGET_EXHAUSTED => {
                Self::new(budget::BUDGET_EXHAUSTED, failure.message)
                    .with_next("allow more: --budget, --budget-tokens; what was made is kept")
            }
            EmbeddingError::Endpoint(_) => Self::new("embeddings.endpoint", message)
                .with_next("check embeddings.base_url, embeddings.model and embeddings.api_key; what was made is kept"),
            EmbeddingError::Port(error) => error.into(),
            EmbeddingError::Dimensions { .. } => {
                Self::new("embeddings.dimensions", message).with_next("name the model as what it is: another one")
            }
            EmbeddingError::TooManyVectors { .. } => Self::new("embeddings.too_many", message)
                .with_next("leave embeddings.model empty for this collection: it is routed by names and words"),
        }
    }
}
