//! How commands end: exit codes, and errors with a code and a next step.

use serde::Serialize;
use stemma_archive::ApiError;
use stemma_boot::config::ConfigError;
use stemma_boot::store::StoreError;
use stemma_boot::trust::Distrust;
use stemma_operations::OperationsError;
use stemma_retrieval::embedding::{EmbeddingError, budget};
use stemma_retrieval::index::IndexError;
use stemma_store::PortError;

/// How a command ends. Exit codes: 0 done or found, 1 nothing found or finished without the model, 2 usage or error,
/// 3 finished with failed documents, 4 stopped at a limit, 5 answered by search alone, 130 interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    Nothing,
    /// Finished, but the model stayed unreachable: structure comes from rules, and summaries are missing.
    ModelAway,
    /// A check found a problem, which the output describes.
    CheckFailed,
    /// Finished, but some documents failed.
    SomeFailed,
    /// Stopped at a limit. The same command resumes.
    Stopped,
    /// No model answered; the output holds search results.
    SearchOnly,
    /// Interrupted. The same command resumes.
    Interrupted,
}

impl Exit {
    /// The end of a command that finds things.
    pub fn nothing_if(is_empty: bool) -> Self {
        if is_empty { Exit::Nothing } else { Exit::Done }
    }

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

/// Why a command failed: a stable code, a message, and the next step.
#[derive(Debug, thiserror::Error, Serialize)]
#[error("{message}")]
pub struct CommandError {
    /// Stable code, e.g. `store.missing`.
    pub code: String,
    /// One sentence, lower case, naming the thing.
    pub message: String,
    /// The next step: a command or a sentence.
    pub next: Option<String>,
    /// The document concerned.
    pub file: Option<String>,
    /// Valid alternatives, at most five.
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

    /// Adds the next step.
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
            StoreError::Missing(_) => Self::new("store.missing", message).with_next(
                "create one with `stemma ingest FOLDER`, or choose another with --store",
            ),
            StoreError::Locked { .. } => Self::new("store.locked", message)
                .with_next("wait until it ends, or use another --store"),
            StoreError::NewerLayout { .. } => {
                Self::new("store.newer", message).with_next("update stemma")
            }
            StoreError::Distrust(Distrust::Foreign { .. }) => {
                Self::new("store.foreign", message).with_next(
                    "run the command as that user, take the store over with `chown -R`, or choose another with --store",
                )
            }
            StoreError::Distrust(_) => Self::new("store.unsafe", message).with_next(
                "remove it if it is not yours, or choose another store with --store",
            ),
            StoreError::Port(error) => error.into(),
            StoreError::Io { .. } => {
                Self::new("store.io", message).with_next("check that the folder is writable")
            }
        }
    }
}

impl From<IndexError> for CommandError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Port(error) => error.into(),
            IndexError::Busy => Self::new("index.busy", error.to_string()).with_next("wait until it ends"),
            IndexError::Disk { .. } => Self::new("index.not_writable", error.to_string())
                .with_next("free disk space or make the index folder writable (`stemma index status` shows it)"),
            IndexError::Damaged(_) => {
                Self::new("index.damaged", error.to_string()).with_next("rebuild it with `stemma index build`")
            }
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        let message = error.to_string();
        match error {
            ConfigError::Unnamed { path, .. } => {
                let path = path.display();
                Self::new("config.unnamed", message).with_next(format!(
                    "if you trust it with your documents and keys, name it: --config {path}, or STEMMA_CONFIG={path}"
                ))
            }
            ConfigError::Distrust(_) => Self::new("config.untrusted", message)
                .with_next("remove it, or name the configuration to use with --config"),
            _ => Self::new("config.invalid", message)
                .with_next("see all settings with `stemma config`"),
        }
    }
}

impl From<PortError> for CommandError {
    fn from(error: PortError) -> Self {
        if error.port() == "disk" {
            return Self::new("system.disk", error.to_string())
                .with_next("make room there, or name another folder in TMPDIR");
        }
        let code = match error.port() {
            "blobs" => "store.unreadable",
            "queue" => "broker.unreachable",
            "ledger" | "limiter" => "redis.unreachable",
            _ => "cluster.invalid",
        };
        let next = if error.is_permanent() && code == "store.unreadable" {
            "restore this object from a backup, or update stemma if a newer version wrote it"
        } else {
            "run `stemma doctor` to check the connections"
        };
        Self::new(code, error.to_string()).with_next(next)
    }
}

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        Self {
            code: error.code.into(),
            message: error.message,
            next: error.next,
            file: error.file,
            candidates: error.candidates,
        }
    }
}

impl From<OperationsError> for CommandError {
    fn from(error: OperationsError) -> Self {
        match error {
            OperationsError::Api(error) => error.into(),
            OperationsError::Port(error) => error.into(),
        }
    }
}

impl From<EmbeddingError> for CommandError {
    fn from(error: EmbeddingError) -> Self {
        let message = error.to_string();
        match error {
            EmbeddingError::Endpoint(failure) if failure.code == budget::BUDGET_EXHAUSTED => {
                Self::new(budget::BUDGET_EXHAUSTED, failure.message)
                    .with_next("raise --budget or --budget-tokens; finished vectors are saved")
            }
            EmbeddingError::Endpoint(_) => Self::new("embeddings.endpoint", message)
                .with_next("check embeddings.base_url, embeddings.model and embeddings.api_key; finished vectors are saved"),
            EmbeddingError::Port(error) => error.into(),
            EmbeddingError::Dimensions { .. } => {
                Self::new("embeddings.dimensions_changed", message).with_next("another model now answers under this name; set embeddings.model to a name of its own, so that all vectors are created again")
            }
            EmbeddingError::TooManyVectors { .. } => Self::new("embeddings.too_many", message)
                .with_next("leave embeddings.model empty for this collection; search then routes by names and words"),
        }
    }
}
