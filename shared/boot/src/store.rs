//! Stores opened by one process: a folder, with one writer at a time, named in a lock (readers need none); or a bucket,
//! where everything is created once and writers cannot harm each other.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use stemma_engine::blobs::{Blobs, FolderBlobs};
use stemma_engine::{PortError, Ports};

use crate::backends::BackendConfig;
use crate::location::Location;

/// The layout of the store folder; a program leaves stores of a newer layout alone.
const LAYOUT: u32 = 1;

/// Who writes to a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    /// Process id.
    pub pid: u32,
    /// What it does, e.g. `ingest`.
    pub command: String,
    /// Since when, in milliseconds since 1970-01-01 UTC.
    pub since_ms: u64,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is none.
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    /// Someone else writes to it.
    #[error("the store at {} is being written to by process {} (`stemma {}`)", path.display(), holder.pid, holder.command)]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Who.
        holder: LockOwner,
    },
    /// A newer program made it.
    #[error("the store at {} has layout {layout}; this program knows layouts up to {LAYOUT}", path.display())]
    NewerLayout {
        /// The folder.
        path: PathBuf,
        /// Its layout.
        layout: u32,
    },
    /// The bucket refused.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The file system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
}

/// A store opened for reading.
pub struct Store {
    /// Where it is.
    pub location: Location,
    /// Its objects.
    pub blobs: Arc<dyn Blobs>,
}

/// A store opened for writing; a folder's lock ends with this value (and with the process, however it ends).
pub struct WritableStore {
    /// Its objects, with queue, ledger and limiter in memory.
    pub ports: Ports,
    _lock: Option<File>,
}

impl Store {
    /// Opens an existing store for reading, beside any writer.
    ///
    /// # Errors
    /// [`StoreError`] when there is none, or it is a newer one.
    pub async fn open(location: &Location, servers: &BackendConfig) -> Result<Self, StoreError> {
        let location = location.clone();
        let blobs = match &location {
            Location::Folder(path) => Self::open_folder(path)?,
            Location::Bucket { bucket, prefix } => servers.bucket(bucket, prefix).await?,
        };
        Ok(Self { location, blobs })
    }

    fn open_folder(path: &Path) -> Result<Arc<dyn Blobs>, StoreError> {
        if !path.join("objects").is_dir() {
            return Err(StoreError::Missing(path.into()));
        }
        check_layout(path)?;
        let blobs = FolderBlobs::open(path).map_err(io_error(path))?;
        Ok(Arc::new(blobs))
    }

    /// Who is writing to it now; no one is known for a bucket.
    pub fn writer(&self) -> Option<LockOwner> {
        let mut file = File::open(self.location.folder()?.join("writer.lock")).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => None,
            Err(_) => read_lock_owner(&mut file),
        }
    }
}

impl WritableStore {
    /// Opens a store for writing, and makes it where there is none. `command` and `now_ms` are shown to others.
    ///
    /// # Errors
    /// [`StoreError`] when someone else writes to it, or the file system refuses.
    pub async fn open(
        location: &Location,
        servers: &BackendConfig,
        command: &str,
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        match location {
            Location::Folder(path) => Self::open_folder(path, command, now_ms),
            Location::Bucket { bucket, prefix } => {
                let ports = Ports::embedded(servers.bucket(bucket, prefix).await?);
                Ok(Self { ports, _lock: None })
            }
        }
    }

    fn open_folder(path: &Path, command: &str, now_ms: u64) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(io_error(path))?;
        let lock = acquire_lock(path, command, now_ms)?;
        check_layout(path)?;
        let layout = path.join("layout");
        if !layout.exists() {
            fs::write(&layout, format!("{LAYOUT}\n")).map_err(io_error(&layout))?;
        }
        let blobs = FolderBlobs::open(path).map_err(io_error(path))?;
        blobs.remove_temp_files().map_err(io_error(path))?;
        Ok(Self {
            ports: Ports::embedded(Arc::new(blobs)),
            _lock: Some(lock),
        })
    }
}

fn acquire_lock(path: &Path, command: &str, now_ms: u64) -> Result<File, StoreError> {
    let name = path.join("writer.lock");
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&name);
    let mut file = options.map_err(io_error(&name))?;
    if !try_lock(&file) {
        return Err(StoreError::Locked {
            path: path.into(),
            holder: read_lock_owner(&mut file).unwrap_or_else(|| LockOwner {
                pid: 0,
                command: "?".into(),
                since_ms: 0,
            }),
        });
    }
    let holder = LockOwner {
        pid: std::process::id(),
        command: command.into(),
        since_ms: now_ms,
    };
    let json = serde_json::to_vec(&holder).map_err(|error| StoreError::Io {
        path: name.clone(),
        error: error.into(),
    })?;
    file.set_len(0).map_err(io_error(&name))?;
    file.write_all(&json).map_err(io_error(&name))?;
    Ok(file)
}

/// Takes the lock. A reader that looks who is writing holds it for a moment, so one refusal is not believed.
fn try_lock(file: &File) -> bool {
    (0..5).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

fn read_lock_owner(file: &mut File) -> Option<LockOwner> {
    let mut json = Vec::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(4096).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

fn check_layout(path: &Path) -> Result<(), StoreError> {
    let Ok(text) = fs::read_to_string(path.join("layout")) else {
        return Ok(());
    };
    match text.trim().parse() {
        Ok(layout) if layout > LAYOUT => Err(StoreError::NewerLayout {
            path: path.into(),
            layout,
        }),
        _ => Ok(()),
    }
}

fn io_error(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |error| StoreError::Io {
        path: path.clone(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open_for_read(folder: &Path) -> Result<Store, StoreError> {
        Store::open(&Location::Folder(folder.into()), &BackendConfig::default()).await
    }

    async fn open_for_write(
        folder: &Path,
        command: &str,
        now_ms: u64,
    ) -> Result<WritableStore, StoreError> {
        WritableStore::open(
            &Location::Folder(folder.into()),
            &BackendConfig::default(),
            command,
            now_ms,
        )
        .await
    }

    #[tokio::test]
    async fn store_allows_one_writer_and_reports_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            open_for_read(folder.path()).await,
            Err(StoreError::Missing(_))
        ));
        let writer = open_for_write(folder.path(), "ingest", 5).await.unwrap();
        match open_for_write(folder.path(), "rm", 6).await {
            Err(StoreError::Locked { holder, .. }) => {
                assert_eq!(
                    (holder.pid, holder.command.as_str()),
                    (std::process::id(), "ingest")
                );
            }
            _ => panic!("two writers"),
        }
        let reader = open_for_read(folder.path()).await.unwrap();
        assert_eq!(reader.writer().unwrap().command, "ingest");
        drop(writer);
        assert_eq!(reader.writer(), None);
        open_for_write(folder.path(), "rm", 7).await.unwrap();
    }

    #[tokio::test]
    async fn newer_layout_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_for_write(folder.path(), "ingest", 5).await.unwrap());
        fs::write(folder.path().join("layout"), "2\n").unwrap();
        assert!(matches!(
            open_for_read(folder.path()).await,
            Err(StoreError::NewerLayout { layout: 2, .. })
        ));
        assert!(matches!(
            open_for_write(folder.path(), "x", 0).await,
            Err(StoreError::NewerLayout { .. })
        ));
    }
}
