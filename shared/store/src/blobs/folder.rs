//! Blobs as files in a folder: the single-process default.
//!
//! An object is written to `tmp/` and hard-linked to its name, which fails if the name exists. Writes are therefore
//! atomic and create-only, and whole after a `kill -9`. Objects are not synced one by one; [`Blobs::barrier`] syncs the
//! file system once before a publication, so that what is published survives a power loss.
//!
//! A folder that was deleted, replaced or unmounted is not an empty store: every call checks that it is still the one that was
//! opened, and fails if not. No call follows a link below the root: the folder may have come with somebody's documents.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::FileType;
use tokio::sync::Mutex;

use super::open_folder::{OpenFolder, kind};
use super::{Blobs, PutOutcome, check_key, check_prefix};
use crate::port_error::{PortError, PortResult};

// The largest object: twice the default of `limits.max_bytes`. A planted file may claim a terabyte and take no space on disk.
const MAX_OBJECT_BYTES: u64 = 1 << 30;
// Shared by all stores of the process: two of them may be open on one folder.
static NEXT_TEMP_FILE: AtomicU64 = AtomicU64::new(0);

/// Object storage in a local folder.
#[derive(Clone)]
pub struct FolderBlobs(Arc<FolderBlobsInner>);

struct FolderBlobsInner {
    root: PathBuf,
    objects: PathBuf,
    tmp: PathBuf,
    // Device and number of the folder of objects.
    identity: (u64, u64),
    // Number of barriers requested so far.
    requested_barriers: AtomicU64,
    // Number of barriers requested when the last finished sync began.
    completed_barriers: Mutex<u64>,
}

impl FolderBlobs {
    /// Opens (and creates) the store below `root`: objects in `objects/`, unfinished writes in `tmp/`.
    ///
    /// # Errors
    /// Any error of the file system.
    pub fn open(root: &Path) -> std::io::Result<Self> {
        let objects = root.join("objects");
        let tmp = root.join("tmp");
        for folder in [root, &objects, &tmp] {
            match fs::create_dir_all(folder) {
                // A dangling link, which is refused below.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => created?,
            }
        }
        OpenFolder::open(&tmp)?;
        let identity = OpenFolder::open(&objects)?.identity()?;
        Ok(Self(Arc::new(FolderBlobsInner {
            root: root.into(),
            objects,
            tmp,
            identity,
            requested_barriers: AtomicU64::new(0),
            completed_barriers: Mutex::new(0),
        })))
    }

    /// Removes unfinished writes of killed processes from `tmp/`; files with names of another form stay. Only the holder of
    /// the store's writer lock may call it.
    ///
    /// # Errors
    /// Any error of the file system.
    pub fn remove_temp_files(&self) -> std::io::Result<usize> {
        let tmp = OpenFolder::open(&self.0.tmp)?;
        let mut removed = 0;
        for (name, kind) in tmp.entries()? {
            if kind == FileType::RegularFile && is_temp_name(&name) {
                tmp.remove_file(&name)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Whether the folder that was opened is not there any more: it was deleted, replaced or unmounted.
    pub fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    async fn run_blocking<T, F>(&self, operation: &'static str, key: &str, work: F) -> PortResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&FolderBlobsInner) -> std::io::Result<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let key = key.to_string();
        let name = key.clone();
        // Checked after the work: what is missing in a folder that is there does not exist.
        let worked = tokio::task::spawn_blocking(move || {
            let result = work(&inner);
            if inner.is_gone() {
                let message = format!("{name}: the folder {} is gone", inner.root.display());
                return Err(PortError::refused(operation, message));
            }
            result.map_err(|error| port_error(operation, &name, &error))
        });
        match worked.await {
            Ok(result) => result,
            Err(error) => Err(PortError::transient(operation, format!("{key}: {error}"))),
        }
    }
}

// `{process}-{number}`
fn is_temp_name(name: &str) -> bool {
    name.split_once('-')
        .is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn identity(folder: &Path) -> std::io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(folder)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn port_error(operation: &'static str, key: &str, error: &std::io::Error) -> PortError {
    let message = format!("{key}: {error}");
    let too_many_files = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .map(|errno| Some(errno.raw_os_error()));
    match error.kind() {
        _ if too_many_files.contains(&error.raw_os_error()) => {
            PortError::transient(operation, message)
        }
        ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::ResourceBusy => {
            PortError::transient(operation, message)
        }
        // A key that cannot be a path, or is a folder of other keys.
        ErrorKind::InvalidInput
        | ErrorKind::InvalidFilename
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory => PortError::permanent(operation, message),
        // A full or read-only disk, missing rights, a broken device: of the machine, not of the object.
        _ => PortError::refused(operation, message),
    }
}

impl FolderBlobsInner {
    // Only what the file system says for certain counts: a device that fails is not a folder that is gone.
    fn is_gone(&self) -> bool {
        match identity(&self.objects) {
            Ok(found) => found != self.identity,
            Err(error) => is_not_found(error.kind()),
        }
    }

    // Opened for each call: a disk may be unmounted and mounted again while the program runs.
    fn objects(&self) -> std::io::Result<OpenFolder> {
        let objects = OpenFolder::open(&self.objects).map_err(|error| {
            if is_not_found(error.kind()) {
                folder_gone()
            } else {
                error
            }
        })?;
        if objects.identity()? == self.identity {
            Ok(objects)
        } else {
            Err(folder_gone())
        }
    }

    // The folder of an object, and the name of the object in it.
    fn folder_of<'k>(&self, key: &'k str) -> std::io::Result<(OpenFolder, &'k str)> {
        let (names, name) = key.rsplit_once('/').unwrap_or(("", key));
        Ok((self.objects()?.descend(names)?, name))
    }

    fn file(&self, key: &str) -> std::io::Result<File> {
        let (folder, name) = self.folder_of(key)?;
        folder.file(name)
    }

    fn read_range(&self, key: &str, range: Range<u64>) -> std::io::Result<Bytes> {
        let mut file = self.file(key)?;
        let end = range.end.min(file.metadata()?.len());
        let size_bytes = end.saturating_sub(range.start);
        check_size(size_bytes)?;
        file.seek(SeekFrom::Start(range.start))?;
        let mut bytes = Vec::with_capacity(usize::try_from(size_bytes).unwrap_or(0));
        file.take(size_bytes).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    // `None` for what is not a file.
    fn size(&self, key: &str) -> std::io::Result<Option<u64>> {
        let (folder, name) = self.folder_of(key)?;
        let stat = folder.stat(name)?;
        let is_file = kind(&stat) == FileType::RegularFile;
        Ok(is_file.then_some(u64::try_from(stat.st_size).unwrap_or(0)))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> std::io::Result<PutOutcome> {
        check_size(bytes.len() as u64)?;
        let (names, name) = key.rsplit_once('/').unwrap_or(("", key));
        let folder = match self.objects()?.descend(names) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.objects()?.descend_or_create(names)?
            }
            folder => folder?,
        };
        // A link or a folder of that name is an error: it is not an object that exists.
        match folder.file(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            file => return file.map(|_| PutOutcome::Exists),
        }
        let tmp = OpenFolder::open(&self.tmp)?;
        let (unfinished, mut file) = create_temp_file(&tmp)?;
        let linked = file
            .write_all(bytes)
            .and_then(|()| tmp.link(&unfinished, &folder, name));
        tmp.remove_file(&unfinished)?;
        match linked {
            Ok(()) => Ok(PutOutcome::Created),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(PutOutcome::Exists),
            Err(error) => Err(error),
        }
    }

    fn delete(&self, key: &str) -> std::io::Result<()> {
        let (folder, name) = self.folder_of(key)?;
        folder.remove_file(name)
    }

    /// The entries of a folder in key order. Folders carry a trailing `/`, which is how their keys sort.
    fn list_folder(&self, prefix: &str) -> std::io::Result<Vec<String>> {
        let entries = match self.objects()?.descend(prefix) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Vec::new());
            }
            folder => folder?.entries()?,
        };
        let mut names: Vec<String> = entries
            .into_iter()
            .map(|(name, kind)| match kind {
                FileType::Directory => format!("{name}/"),
                _ => name,
            })
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> std::io::Result<Vec<String>> {
        let mut keys = Vec::new();
        let mut stack = vec![prefix.to_string()];
        if limit == 0 {
            return Ok(keys);
        }
        while let Some(key) = stack.pop() {
            let is_folder = key.is_empty() || key.ends_with('/');
            if !is_folder {
                keys.push(key);
                if keys.len() == limit {
                    break;
                }
                continue;
            }
            let below = self
                .list_folder(&key)?
                .into_iter()
                .map(|name| format!("{key}{name}"));
            let candidates = below.filter(|key| after.is_none_or(|after| sorts_after(key, after)));
            let mut below: Vec<String> = candidates.collect();
            below.reverse();
            stack.append(&mut below);
        }
        Ok(keys)
    }
}

fn folder_gone() -> std::io::Error {
    std::io::Error::other("the folder is gone")
}

/// Whether `key`, or (for a folder) any key in it, sorts after `after`.
fn sorts_after(key: &str, after: &str) -> bool {
    key > after || (key.ends_with('/') && after.starts_with(key))
}

// A killed process with our process id may have left files behind, so names are tried until one is new.
fn create_temp_file(tmp: &OpenFolder) -> std::io::Result<(String, File)> {
    loop {
        let number = NEXT_TEMP_FILE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        match tmp.new_file(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return Ok((name, file?)),
        }
    }
}

fn check_size(size_bytes: u64) -> std::io::Result<()> {
    if size_bytes <= MAX_OBJECT_BYTES {
        return Ok(());
    }
    let message = format!("has {size_bytes} bytes; objects have at most {MAX_OBJECT_BYTES}");
    Err(std::io::Error::new(ErrorKind::InvalidInput, message))
}

/// Maps "not found" to `None`.
fn none_if_missing<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_not_found(error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_not_found(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory
    )
}

#[async_trait]
impl Blobs for FolderBlobs {
    async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome> {
        check_key(key)?;
        let name = key.to_string();
        self.run_blocking("blobs.put", key, move |inner| inner.create(&name, &bytes))
            .await
    }

    async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
        check_key(key)?;
        let name = key.to_string();
        self.run_blocking("blobs.get", key, move |inner| {
            none_if_missing(inner.read_range(&name, 0..u64::MAX))
        })
        .await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>> {
        check_key(key)?;
        let name = key.to_string();
        self.run_blocking("blobs.get", key, move |inner| {
            none_if_missing(inner.read_range(&name, range))
        })
        .await
    }

    async fn size(&self, key: &str) -> PortResult<Option<u64>> {
        check_key(key)?;
        let name = key.to_string();
        self.run_blocking("blobs.size", key, move |inner| {
            none_if_missing(inner.size(&name)).map(Option::flatten)
        })
        .await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        check_prefix(prefix)?;
        let folder = prefix.to_string();
        let after = after.map(str::to_string);
        self.run_blocking("blobs.list", prefix, move |inner| {
            inner.list(&folder, after.as_deref(), limit)
        })
        .await
    }

    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        check_prefix(prefix)?;
        let folder = prefix.to_string();
        let after = after.map(str::to_string);
        self.run_blocking("blobs.list", prefix, move |inner: &FolderBlobsInner| {
            let mut names = inner.list_folder(&folder)?;
            names.retain(|name| after.as_ref().is_none_or(|after| name > after));
            names.truncate(limit);
            Ok(names)
        })
        .await
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        check_key(key)?;
        let name = key.to_string();
        self.run_blocking("blobs.delete", key, move |inner| {
            none_if_missing(inner.delete(&name)).map(|_| ())
        })
        .await
    }

    async fn barrier(&self) -> PortResult<()> {
        let mine = self.0.requested_barriers.fetch_add(1, Ordering::SeqCst) + 1;
        let mut synced = self.0.completed_barriers.lock().await;
        if *synced >= mine {
            return Ok(()); // a sync that began after this call has finished meanwhile
        }
        let covers = self.0.requested_barriers.load(Ordering::SeqCst);
        self.run_blocking("blobs.barrier", "store", |inner| {
            inner.objects()?.sync_file_system()
        })
        .await?;
        *synced = covers;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port_error::PortErrorKind;

    #[test]
    fn troubles_of_the_machine_are_no_errors_of_an_object() {
        for (error, expected) in [
            (ErrorKind::StorageFull, PortErrorKind::Refused),
            (ErrorKind::QuotaExceeded, PortErrorKind::Refused),
            (ErrorKind::PermissionDenied, PortErrorKind::Refused),
            (ErrorKind::ReadOnlyFilesystem, PortErrorKind::Refused),
            (ErrorKind::Other, PortErrorKind::Refused),
            (ErrorKind::TimedOut, PortErrorKind::Transient),
            (ErrorKind::NotADirectory, PortErrorKind::Permanent),
        ] {
            let kind = port_error("blobs.put", "c/x", &error.into()).kind;
            assert_eq!(kind, expected, "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_folder_that_is_gone_is_no_empty_store() {
        for is_replaced in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("store");
            let blobs = FolderBlobs::open(&root).unwrap();
            blobs.put("c/x", Bytes::new()).await.unwrap();
            assert!(!blobs.is_gone());
            fs::rename(&root, folder.path().join("other")).unwrap();
            if is_replaced {
                FolderBlobs::open(&root).unwrap();
            }
            let errors = [
                blobs.put("c/y", Bytes::new()).await.err(),
                blobs.get("c/x").await.err(),
                blobs.size("c/x").await.err(),
                blobs.list("", None, 10).await.err(),
                blobs.children("c/", None, 10).await.err(),
                blobs.delete("c/x").await.err(),
                blobs.barrier().await.err(),
            ];
            for error in errors {
                let error = error.unwrap();
                assert_eq!(error.kind, PortErrorKind::Refused, "{error}");
                assert!(error.message.ends_with("is gone"), "{error}");
            }
            assert!(blobs.is_gone());
            assert_eq!(root.exists(), is_replaced, "nothing is created again");
            // A disk that is mounted again.
            drop(fs::remove_dir_all(&root));
            fs::rename(folder.path().join("other"), &root).unwrap();
            assert_eq!(blobs.get("c/x").await, Ok(Some(Bytes::new())));
        }
    }

    #[tokio::test]
    async fn interrupted_write_leaves_no_object() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = FolderBlobs::open(folder.path()).unwrap();
        fs::write(folder.path().join("tmp/999-0"), b"half").unwrap();
        fs::write(folder.path().join("tmp/notes.txt"), b"of the user").unwrap();
        fs::write(folder.path().join("tmp/2022-"), b"of the user").unwrap();
        assert!(super::super::list_all(&blobs, "").await.unwrap().is_empty());
        assert_eq!(blobs.remove_temp_files().unwrap(), 1);
        assert_eq!(
            blobs.put("c/x", Bytes::from_static(b"1")).await.unwrap(),
            PutOutcome::Created
        );
        assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn objects_behind_links_are_neither_read_nor_written_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "of the user").unwrap();
        let blobs = FolderBlobs::open(&folder.path().join("store")).unwrap();
        let objects = folder.path().join("store/objects");
        std::os::unix::fs::symlink(&elsewhere, objects.join("c")).unwrap();
        std::os::unix::fs::symlink(elsewhere.join("file"), objects.join("file")).unwrap();
        let errors = [
            blobs.get("file").await.err(),
            blobs.get("c/file").await.err(),
            blobs.get_range("c/file", 0..2).await.err(),
            blobs.size("c/file").await.err(),
            blobs.put("c/new", Bytes::new()).await.err(),
            blobs.put("file", Bytes::new()).await.err(),
            blobs.list("c/", None, 10).await.err(),
            blobs.delete("c/file").await.err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert_eq!(error.kind, PortErrorKind::Permanent, "{error}");
            assert!(error.message.contains("is a link"), "{error}");
        }
        assert_eq!(
            fs::read_to_string(elsewhere.join("file")).unwrap(),
            "of the user"
        );
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_file_that_claims_a_terabyte_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = FolderBlobs::open(folder.path()).unwrap();
        let planted = File::create(folder.path().join("objects/x")).unwrap();
        planted.set_len(1 << 40).unwrap();
        for error in [
            blobs.get("x").await.unwrap_err(),
            blobs.get_range("x", 1..1 << 40).await.unwrap_err(),
        ] {
            assert_eq!(error.kind, PortErrorKind::Permanent, "{error}");
            assert!(error.message.contains("objects have at most"), "{error}");
        }
        let part = blobs.get_range("x", (1 << 40) - 2..1 << 41).await.unwrap();
        assert_eq!(part.as_deref(), Some(&[0, 0][..]));
    }

    #[tokio::test]
    async fn a_folder_is_no_object_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = FolderBlobs::open(folder.path()).unwrap();
        blobs.put("c/x", Bytes::new()).await.unwrap();
        let error = blobs.put("c", Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Permanent, "{error}");
    }

    #[test]
    fn parts_that_are_links_are_refused() {
        for part in ["objects", "tmp"] {
            for is_dangling in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let elsewhere = folder.path().join("elsewhere");
                if !is_dangling {
                    fs::create_dir(&elsewhere).unwrap();
                    fs::write(elsewhere.join("1-1"), "of the user").unwrap();
                }
                let root = folder.path().join("store");
                fs::create_dir(&root).unwrap();
                std::os::unix::fs::symlink(&elsewhere, root.join(part)).unwrap();
                assert!(FolderBlobs::open(&root).is_err(), "{part}");
                assert_eq!(elsewhere.join("1-1").exists(), !is_dangling);
            }
        }
    }

    #[tokio::test]
    async fn listing_across_folders_is_in_byte_order() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = FolderBlobs::open(folder.path()).unwrap();
        for key in ["a/b", "a-b", "a.b", "a/0/z", "ab"] {
            blobs.put(key, Bytes::new()).await.unwrap();
        }
        let keys = blobs.list("", None, 10).await.unwrap();
        assert_eq!(keys, ["a-b", "a.b", "a/0/z", "a/b", "ab"]);
        assert_eq!(
            blobs.list("", Some("a/0/z"), 10).await.unwrap(),
            ["a/b", "ab"]
        );
    }
}
