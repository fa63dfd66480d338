//! Stores opened by one process. A folder has one writer at a time, recorded in a lock file; readers need no lock. A
//! bucket needs no lock: all writes are create-only, so writers cannot harm each other.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};
use stemma_engine::Ports;
use stemma_store::blobs::{Blobs, FolderBlobs};
use stemma_store::{Env, PortError};

use crate::backends::BackendConfig;
use crate::location::Location;
use crate::trust::{Distrust, check_store};

// Layout version of the store folder; newer layouts are refused.
const LAYOUT: u32 = 1;
// What is read of the file with the version, which may come with somebody's documents.
const LAYOUT_BYTES: u64 = 64;

/// The process that writes to a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    pub pid: u32,
    /// The running command, e.g. `ingest`.
    pub command: String,
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub since_ms: u64,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    /// Another process is writing to it.
    #[error("the store at {} is being written to by process {} (`stemma {}`)", path.display(), holder.pid, holder.command)]
    Locked { path: PathBuf, holder: LockOwner },
    /// Created by a newer version.
    #[error("the store at {} has layout {layout}; this program supports layouts up to {LAYOUT}", path.display())]
    NewerLayout { path: PathBuf, layout: u32 },
    /// A link, or a part of another user.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("{}: {error}", path.display())]
    Io {
        path: PathBuf,
        error: std::io::Error,
    },
}

/// A store opened for reading.
pub struct Store {
    pub location: Location,
    pub blobs: Arc<dyn Blobs>,
}

/// A store opened for writing. Dropping it releases the lock of a folder, as does the end of the process.
pub struct WritableStore {
    /// The blobs of the store; queue, ledger and limiter in memory.
    pub ports: Ports,
    folder: Option<FolderBlobs>,
    _lock: Option<File>,
}

impl Store {
    /// Opens an existing store for reading, while others may write.
    ///
    /// # Errors
    /// [`StoreError`] when it does not exist or was created by a newer version.
    pub async fn open(location: &Location, servers: &BackendConfig) -> Result<Self, StoreError> {
        let location = location.clone();
        let blobs = match &location {
            Location::Folder(path) => Self::open_folder(path, false)?,
            Location::Found(path) => Self::open_folder(path, true)?,
            Location::Bucket { bucket, prefix } => servers.bucket(bucket, prefix).await?,
        };
        Ok(Self { location, blobs })
    }

    fn open_folder(path: &Path, is_found: bool) -> Result<Arc<dyn Blobs>, StoreError> {
        check_store(path, is_found, false)?;
        if !path.join("objects").is_dir() {
            return Err(StoreError::Missing(path.into()));
        }
        check_layout(path)?;
        let blobs = FolderBlobs::open(path).map_err(io_error(path))?;
        Ok(Arc::new(blobs))
    }

    /// The current writer of a folder; always `None` for a bucket.
    pub fn writer(&self) -> Option<LockOwner> {
        let name = self.location.folder()?.join("writer.lock");
        let mut file = open_part(&name, OFlags::RDONLY).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => None,
            Err(_) => read_lock_owner(&mut file),
        }
    }
}

impl WritableStore {
    /// Opens a store for writing and creates it if needed. `command` and the time are recorded in the lock.
    ///
    /// # Errors
    /// [`StoreError`] when another process is writing to it, or the file system refuses.
    pub async fn open(
        location: &Location,
        servers: &BackendConfig,
        command: &str,
        env: &Env,
    ) -> Result<Self, StoreError> {
        match location {
            Location::Folder(path) => Self::open_folder(path, false, command, env),
            Location::Found(path) => Self::open_folder(path, true, command, env),
            Location::Bucket { bucket, prefix } => {
                let ports = Ports::embedded(env, servers.bucket(bucket, prefix).await?);
                Ok(Self {
                    ports,
                    folder: None,
                    _lock: None,
                })
            }
        }
    }

    /// Whether the store is a folder that was deleted, replaced or unmounted since it was opened.
    pub fn is_gone(&self) -> bool {
        self.folder.as_ref().is_some_and(FolderBlobs::is_gone)
    }

    fn open_folder(
        path: &Path,
        is_found: bool,
        command: &str,
        env: &Env,
    ) -> Result<Self, StoreError> {
        check_store(path, is_found, true)?;
        fs::create_dir_all(path).map_err(io_error(path))?;
        let lock = acquire_lock(path, command, env.now_ms())?;
        check_layout(path)?;
        let layout = path.join("layout");
        if !layout.exists() {
            File::create_new(&layout)
                .and_then(|mut file| file.write_all(format!("{LAYOUT}\n").as_bytes()))
                .map_err(io_error(&layout))?;
        }
        let blobs = FolderBlobs::open(path).map_err(io_error(path))?;
        blobs.remove_temp_files().map_err(io_error(path))?;
        Ok(Self {
            ports: Ports::embedded(env, Arc::new(blobs.clone())),
            folder: Some(blobs),
            _lock: Some(lock),
        })
    }
}

fn acquire_lock(path: &Path, command: &str, now_ms: u64) -> Result<File, StoreError> {
    let name = path.join("writer.lock");
    let mut file = open_part(&name, OFlags::RDWR | OFlags::CREATE).map_err(io_error(&name))?;
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
    // A file that happens to have this name, or a second name of one, is not overwritten.
    let is_new = file.metadata().map_err(io_error(&name))?.len() == 0;
    if !is_new && read_lock_owner(&mut file).is_none() {
        return Err(StoreError::Distrust(Distrust::Kind {
            path: name,
            expected: "the lock of a store",
        }));
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
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(&json))
        .map_err(io_error(&name))?;
    Ok(file)
}

fn open_part(name: &Path, flags: OFlags) -> std::io::Result<File> {
    // A pipe would be waited for.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name, flags, Mode::from_raw_mode(0o666))?.into())
}

// A reader that looks for the writer takes the lock for a moment, so the lock is tried more than once.
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
    let mut text = String::new();
    let read = open_part(&path.join("layout"), OFlags::RDONLY)
        .and_then(|file| file.take(LAYOUT_BYTES).read_to_string(&mut text));
    if read.is_err() {
        return Ok(());
    }
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

    async fn open_for_write(folder: &Path, command: &str) -> Result<WritableStore, StoreError> {
        WritableStore::open(
            &Location::Folder(folder.into()),
            &BackendConfig::default(),
            command,
            &Env::system(),
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
        let writer = open_for_write(folder.path(), "ingest").await.unwrap();
        match open_for_write(folder.path(), "rm").await {
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
        open_for_write(folder.path(), "rm").await.unwrap();
    }

    #[tokio::test]
    async fn a_file_of_the_user_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("writer.lock");
        let kept = folder.path().join("kept");
        fs::write(&kept, "alias ll='ls -l'\n").unwrap();
        for is_link in [false, true] {
            if is_link {
                std::os::unix::fs::symlink(&kept, &lock).unwrap();
            } else {
                fs::hard_link(&kept, &lock).unwrap();
            }
            let error = open_for_write(folder.path(), "ingest").await.err();
            let error = error.unwrap().to_string();
            assert!(error.contains("writer.lock is "), "{error}");
            assert_eq!(fs::read_to_string(&kept).unwrap(), "alias ll='ls -l'\n");
            fs::remove_file(&lock).unwrap();
        }
        // What a killed process left.
        fs::write(
            &lock,
            r#"{"pid":1,"command":"ingest of a long name","since_ms":1}"#,
        )
        .unwrap();
        let writer = open_for_write(folder.path(), "rm").await.unwrap();
        let reader = open_for_read(folder.path()).await.unwrap();
        assert_eq!(reader.writer().unwrap().command, "rm");
        drop(writer);
    }

    #[tokio::test]
    async fn a_layout_that_claims_a_terabyte_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_for_write(folder.path(), "ingest").await.unwrap());
        let layout = File::create(folder.path().join("layout")).unwrap();
        layout.set_len(1 << 40).unwrap();
        open_for_read(folder.path()).await.unwrap();
        open_for_write(folder.path(), "rm").await.unwrap();
    }

    #[tokio::test]
    async fn newer_layout_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_for_write(folder.path(), "ingest").await.unwrap());
        fs::write(folder.path().join("layout"), "2\n").unwrap();
        assert!(matches!(
            open_for_read(folder.path()).await,
            Err(StoreError::NewerLayout { layout: 2, .. })
        ));
        assert!(matches!(
            open_for_write(folder.path(), "x").await,
            Err(StoreError::NewerLayout { .. })
        ));
    }
}
