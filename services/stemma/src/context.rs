//! What every command is given.

use std::path::PathBuf;
use std::sync::OnceLock;

use stemma_boot::backends::Cluster;
use stemma_boot::config::{LoadedConfig, load};
use stemma_boot::location::Location;
use stemma_boot::store::{Store, WritableStore};
use stemma_document::Collection;
use stemma_engine::Env;

use crate::config::Config;
use crate::error::CommandError;
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
    // Read at the first use: several commands need no configuration, and run where it is broken.
    loaded_config: OnceLock<LoadedConfig<Config>>,
}

impl Context {
    /// The options that all commands share.
    pub fn new(
        store: Location,
        collection: Collection,
        config_file: Option<PathBuf>,
        output: Output,
        yes: bool,
    ) -> Self {
        Self {
            store,
            collection,
            config_file,
            output,
            yes,
            loaded_config: OnceLock::new(),
        }
    }

    /// The configuration in force. It is read once per process.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting.
    pub fn loaded_config(&self) -> Result<&LoadedConfig<Config>, CommandError> {
        if let Some(loaded) = self.loaded_config.get() {
            return Ok(loaded);
        }
        let loaded = load(self.config_file.as_deref())?;
        Ok(self.loaded_config.get_or_init(|| loaded))
    }

    /// The settings in force.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting.
    pub fn config(&self) -> Result<&Config, CommandError> {
        Ok(&self.loaded_config()?.config)
    }

    /// The store, for reading beside any writer.
    ///
    /// # Errors
    /// [`CommandError`] when there is none.
    pub async fn open_store(&self) -> Result<Store, CommandError> {
        Ok(Store::open(&self.store, &self.config()?.servers).await?)
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
        Ok(
            WritableStore::open(&self.store, &self.config()?.servers, command, env.now_ms())
                .await?,
        )
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

    /// The cluster; `None` where no broker is configured, and everything runs in one process. `name` names
    /// this process to the servers.
    ///
    /// # Errors
    /// [`CommandError`] when a server is away or refuses.
    pub async fn cluster(&self, env: &Env, name: &str) -> Result<Option<Cluster>, CommandError> {
        let servers = &self.config()?.servers;
        if !servers.is_cluster() {
            return Ok(None);
        }
        Ok(Some(servers.connect(&self.store, name, env).await?))
    }
}
