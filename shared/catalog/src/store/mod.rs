//! The catalog of a collection on disk: tables of documents, paths, names and values, in one file.
//!
//! A publication is a transaction. Readers hold the state that they began with. The file can be deleted at any time: it is
//! built anew from snapshots and change records, as after a change of its format.

mod path_block;
mod posting;
mod reader;
mod stored_document;
mod tables;
pub(crate) mod terms;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableDatabase};
use serde::{Deserialize, Serialize};
use stemma_store::{PortError, PortResult};

use crate::property::Property;

pub(crate) use reader::{FieldValue, FieldValues, StoreReader};
pub(crate) use tables::damage_reports;
#[cfg(test)]
pub(crate) use tables::damaged;
use tables::{DAMAGED, port_error};
pub(crate) use writer::StoreBatch;

// Pages that are kept decoded. What does not fit is read from the page cache of the system.
const CACHE_BYTES: usize = 48 << 20;
// A catalog in memory is its own cache.
const MEMORY_CACHE_BYTES: usize = 4 << 20;
const FILE_PREFIX: &str = "catalog-";

/// What is known about a store as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoreState {
    /// Number of the last change of a document.
    pub(crate) sequence: u64,
    next_number: u32,
    pub(crate) listed: u64,
    /// How many changes were applied; orders snapshots of the same minute.
    pub(crate) changes: u64,
    /// Change records before this minute are applied.
    pub(crate) floor: u64,
    /// Whether all records were applied up to some time. A store that is being filled is not usable.
    pub(crate) is_complete: bool,
    /// The last change that survives a crash of the machine.
    durable_sequence: u64,
    /// Number of distinct texts of each property, in the order of [`Property::ALL`].
    pub(crate) distinct: Vec<u64>,
}

impl Default for StoreState {
    fn default() -> Self {
        Self {
            sequence: 0,
            next_number: 0,
            listed: 0,
            changes: 0,
            floor: 0,
            is_complete: false,
            durable_sequence: 0,
            distinct: vec![0; Property::COUNT],
        }
    }
}

/// A store of one collection. Clones are the same store.
#[derive(Clone)]
pub(crate) struct CatalogStore {
    database: Arc<Database>,
    // Different for each store of this process.
    id: u64,
    path: Option<PathBuf>,
}

impl CatalogStore {
    /// An empty store in memory.
    pub(crate) fn in_memory() -> PortResult<Self> {
        let database = Database::builder()
            .set_cache_size(MEMORY_CACHE_BYTES)
            .create_with_backend(InMemoryBackend::new())
            .map_err(port_error)?;
        Self::from_database(database, None)
    }

    /// Opens the store in a folder, or creates an empty one. In memory if another process has it, or the folder cannot be
    /// written to: then the catalog takes memory as the number of documents does.
    pub(crate) fn open(folder: &Path) -> PortResult<Self> {
        let path = folder.join(format!("{FILE_PREFIX}{:08x}.redb", tables::format()));
        if let Err(error) = std::fs::create_dir_all(folder) {
            tracing::debug!(%error, ?folder, "the catalog is kept in memory: its folder cannot be written to");
            return Self::in_memory();
        }
        match Self::open_file(&path) {
            Ok(Some(store)) => {
                remove_other_formats(folder, &path);
                Ok(store)
            }
            Ok(None) => Self::in_memory(),
            Err(error) if error.operation == DAMAGED => {
                tracing::warn!(%error, ?path, "the stored catalog is damaged; building it anew");
                std::fs::remove_file(&path).map_err(|error| store_error(&error))?;
                match Self::open_file(&path)? {
                    Some(store) => Ok(store),
                    None => Self::in_memory(),
                }
            }
            Err(error) => Err(error),
        }
    }

    // `None` if the file cannot be used here.
    fn open_file(path: &Path) -> PortResult<Option<Self>> {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
        match opened {
            Ok(database) => Self::from_database(database, Some(path.to_owned())).map(Some),
            Err(DatabaseError::DatabaseAlreadyOpen) => {
                tracing::debug!(
                    ?path,
                    "the catalog is kept in memory: another process has the stored one"
                );
                Ok(None)
            }
            Err(DatabaseError::Storage(redb::StorageError::Io(error)))
                if error.kind() == std::io::ErrorKind::PermissionDenied
                    || error.kind() == std::io::ErrorKind::ReadOnlyFilesystem =>
            {
                tracing::debug!(%error, ?path, "the catalog is kept in memory");
                Ok(None)
            }
            // A file that is not a database, or one of another version.
            Err(
                error @ (DatabaseError::UpgradeRequired(_)
                | DatabaseError::Storage(redb::StorageError::Io(_))),
            ) if path.exists() => Err(tables::damaged(error)),
            Err(error) => Err(port_error(error)),
        }
    }

    fn from_database(database: Database, path: Option<PathBuf>) -> PortResult<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let store = Self {
            database: Arc::new(database),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            path,
        };
        store.create_tables()?;
        Ok(store)
    }

    /// An empty store in place of this one. Readers keep what they have.
    pub(crate) fn emptied(self) -> PortResult<Self> {
        let Some(path) = self.path.clone() else {
            return Self::in_memory();
        };
        std::fs::remove_file(&path).map_err(|error| store_error(&error))?;
        drop(self);
        match Self::open_file(&path)? {
            Some(store) => Ok(store),
            None => Self::in_memory(),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The present state.
    pub(crate) fn reader(&self) -> PortResult<StoreReader> {
        let transaction = self.database.begin_read().map_err(port_error)?;
        let meta = transaction.open_table(tables::META).map_err(port_error)?;
        let state = meta.get(tables::STATE).map_err(port_error)?;
        let state = match state {
            Some(state) => serde_json::from_slice(state.value()).map_err(tables::damaged)?,
            None => StoreState::default(),
        };
        StoreReader::new(Arc::clone(&self.database), &transaction, state).map_err(port_error)
    }

    /// Names of the change records that are applied, from the floor on.
    pub(crate) fn applied_records(&self) -> PortResult<BTreeSet<String>> {
        let transaction = self.database.begin_read().map_err(port_error)?;
        let seen = transaction.open_table(tables::SEEN).map_err(port_error)?;
        let rows = seen.range::<&str>(..).map_err(port_error)?;
        let names = rows.map(|row| Ok(row.map_err(port_error)?.0.value().to_owned()));
        names.collect()
    }
}

impl std::fmt::Debug for CatalogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CatalogStore")
            .field("id", &self.id)
            .field("path", &self.path)
            .finish()
    }
}

fn store_error(error: &std::io::Error) -> PortError {
    PortError::transient("catalog.store", error.to_string())
}

// Stores of other formats are of no use to this program; an older program builds its own again.
fn remove_other_formats(folder: &Path, own: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let is_store = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(FILE_PREFIX) && name.ends_with(".redb"));
        if is_store
            && entry.path() != own
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            tracing::debug!(%error, path = ?entry.path(), "a catalog of another format stays");
        }
    }
}
