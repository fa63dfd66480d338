//! Options and services that every command uses: store, collection, configuration, output.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use stemma_archive::{Archive, IndexSettings};
use stemma_boot::backends::Cluster;
use stemma_boot::config::{LoadedConfig, load};
use stemma_boot::config_file::ConfigFile;
use stemma_boot::location::Location;
use stemma_boot::store::{Store, StoreError, WritableStore};
use stemma_boot::trust::check_no_links;
use stemma_document::Collection;
use stemma_store::Env;
use stemma_store::blobs::Blobs;

use crate::config::Config;
use crate::error::CommandError;
use crate::output::Output;

/// Options that all commands share.
#[derive(Clone)]
pub struct Context {
    pub store: Location,
    /// The collection commands work on.
    pub collection: Collection,
    /// The configuration file, if there is one.
    pub config_file: Option<ConfigFile>,
    pub output: Output,
    /// Whether to skip confirmations.
    pub yes: bool,
    // Read at first use, because some commands need no configuration and must run even if it is invalid.
    pub(crate) loaded_config: OnceLock<LoadedConfig<Config>>,
}

impl Context {
    /// The configuration with the source of each setting. It is read once per process.
    pub fn loaded_config(&self) -> Result<&LoadedConfig<Config>, CommandError> {
        if let Some(loaded) = self.loaded_config.get() {
            return Ok(loaded);
        }
        let mut loaded = load(self.config_file.as_ref())?;
        if let Some(file) = &self.config_file {
            let line = format!("configuration: {}", file.path().display());
            self.output.note(&self.output.dim(&line));
            resolve_prompts(&mut loaded, file.path());
        }
        Ok(self.loaded_config.get_or_init(|| loaded))
    }

    pub fn config(&self) -> Result<&Config, CommandError> {
        Ok(&self.loaded_config()?.config)
    }

    /// Opens the store for reading. A writer may be active at the same time.
    pub async fn open_store(&self) -> Result<Store, CommandError> {
        Ok(Store::open(&self.store, &self.config()?.servers).await?)
    }

    /// Opens the store for writing. Other processes see `command` as the owner of the lock.
    pub async fn open_writable_store(
        &self,
        env: &Env,
        command: &str,
    ) -> Result<WritableStore, CommandError> {
        Ok(WritableStore::open(&self.store, &self.config()?.servers, command, env).await?)
    }

    /// Whether to do `action` (`remove 3 documents`): asks on a terminal; elsewhere `--yes` is required.
    pub fn confirm(&self, code: &str, action: &str) -> Result<bool, CommandError> {
        if self.yes {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() {
            return Err(CommandError::new(code, format!("not confirmed: {action}"))
                .with_next("confirm with --yes, or preview with --dry-run"));
        }
        self.output.error(&format!("{action}? [y/N]"));
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| CommandError::new(code, error.to_string()))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Where this machine keeps the search index of the store. The libraries that write it follow links, so it has none.
    pub fn cache_dir(&self) -> Result<PathBuf, CommandError> {
        let folder = self.store.cache(
            &env_path("XDG_CACHE_HOME")
                .or_else(|| env_path("HOME").map(|home| home.join(".cache")))
                .unwrap_or_else(std::env::temp_dir),
        );
        check_no_links(&folder).map_err(StoreError::from)?;
        Ok(folder)
    }

    /// Where and how this machine keeps the search indexes of the store.
    pub fn index_settings(&self) -> Result<IndexSettings, CommandError> {
        Ok(IndexSettings {
            folder: self.cache_dir()?,
            shards: self.config()?.local.index_shards,
        })
    }

    /// The cluster, or `None` if no broker is configured and everything runs in one process. `name` identifies
    /// this process to the servers.
    pub async fn cluster(&self, env: &Env, name: &str) -> Result<Option<Cluster>, CommandError> {
        let servers = &self.config()?.servers;
        Ok(match servers.is_cluster() {
            true => Some(servers.connect(&self.store, name, env).await?),
            false => None,
        })
    }

    /// Like [`Self::cluster`], for commands that only look: servers that are unavailable cost them a moment, not the answer.
    pub async fn observed_cluster(
        &self,
        env: &Env,
        name: &str,
    ) -> Result<Option<Cluster>, CommandError> {
        let servers = &self.config()?.servers;
        Ok(match servers.is_cluster() {
            true => Some(servers.observe(&self.store, name, env).await?),
            false => None,
        })
    }

    /// The collection of this command in a store that is open.
    pub async fn archive(&self, blobs: &Arc<dyn Blobs>) -> Result<Archive, CommandError> {
        Ok(Archive::open(&Env::system(), blobs.clone(), self.collection.clone()).await?)
    }
}

fn env_path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

// A relative path in a configuration file starts at the file, one in a variable at the working directory.
fn resolve_prompts(loaded: &mut LoadedConfig<Config>, file: &Path) {
    let name = file.display().to_string();
    let prompts = &mut loaded.config.prompts;
    if let Some(folder) = file.parent()
        && !prompts.as_os_str().is_empty()
        && loaded
            .settings
            .iter()
            .any(|setting| setting.key == "prompts" && setting.source == name)
    {
        *prompts = folder.join(&*prompts);
    }
}
