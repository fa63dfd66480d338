//! What every command is given.

use std::path::PathBuf;

use stemma_boot::backends::{BackendConfig, Cluster};
use stemma_boot::config::{ConfigError, LoadedConfig, load};
use stemma_boot::location::Location;
use stemma_boot::store::{Store, StoreError, WritableStore};
use stemma_document::Collection;
use stemma_engine::{Env, PortError};
use stemma_retrieval::index::IndexError;

use crate::config::Config;
use crate::output::Output;

/// The store, the collection, the configuration file and the way to answer.
pub struct Context {
    /// Where the store is.
    pub store: Location,
    /// The collection commands work on.
    pub collection: Collection,
    /// A configuration file that was named.
    pub config_file: Option<PathBuf>,
    /// The way to answer.
    pub output: Output,
    /// Whether questions are answered with yes.
    pub yes: bool,
}

impl Context {
    /// The configuration in force.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting.
    pub fn config(&self) -> Result<LoadedConfig<Config>, CommandError> {
        Ok(load(self.config_file.as_deref())?)
    }

    /// The store, for reading beside any writer.
    ///
    /// # Errors
    /// [`CommandError`] when there is none.
    pub async fn open_store(&self) -> Result<Store, CommandError> {
        Ok(Store::open(&self.store, &self.servers()?).await?)
    }

    /// The store, for writing; `command` is shown to others meanwhile.
    ///
    /// # Errors
    /// [`CommandError`] when someone else writes to it.
    pub async fn open_writable_store(
        &self,
        env: &Env,
        command: &str,
    ) -> Result<WritableStore, CommandError> {
        Ok(WritableStore::open(&self.store, &self.servers()?, command, env.now_ms()).await?)
    }

    /// Where this machine keeps the index of the store.
    pub fn cache_dir(&self) -> PathBuf {
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        self.store.cache(
            &variable("XDG_CACHE_HOME")
                .or_else(|| variable("HOME").map(|home| home.join(".cache")))
                .unwrap_or_else(std::env::temp_dir),
        )
    }

    /// The servers that are configured.
    ///
    /// # Errors
    /// [`CommandError`] naming a wrong setting.
    pub fn servers(&self) -> Result<BackendConfig, CommandError> {
        Ok(self.config()?.config.servers)
    }

    /// The cluster; `None` where no broker is configured, and everything runs in one process. `name` names
    /// this process to the servers.
    ///
    /// # Errors
    /// [`CommandError`] when a server is away or refuses.
    pub async fn cluster(&self, env: &Env, name: &str) -> Result<Option<Cluster>, CommandError> {
        let servers = self.servers()?;
        if !servers.is_cluster() {
            return Ok(None);
        }
        Ok(Some(servers.connect(&self.store, name, env).await?))
    }
}

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
