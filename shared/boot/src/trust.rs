//! Which folders and files are used at all. A store or a configuration in the working directory may have come with
//! somebody's documents: a link in it leads anywhere, and its owner can change it at any time.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

// The largest file that is read as a whole.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why a folder or file is not used.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    #[error("{} is a link, which is not followed", .0.display())]
    Link(PathBuf),
    #[error("{} is not {expected}", path.display())]
    Kind {
        path: PathBuf,
        expected: &'static str,
    },
    /// `owner` is the number of a user.
    #[error("{} belongs to another user ({owner})", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{}: {error}", path.display())]
    Io {
        path: PathBuf,
        error: std::io::Error,
    },
}

#[derive(Clone, Copy)]
enum PathKind {
    File,
    Folder,
}

// The folders and files of a store.
const STORE_PARTS: [(&str, PathKind); 5] = [
    ("objects", PathKind::Folder),
    ("tmp", PathKind::Folder),
    ("index", PathKind::Folder),
    ("layout", PathKind::File),
    ("writer.lock", PathKind::File),
];

/// Reads a file that is not a link, belongs to this user or to the administrator, and has at most 1 MiB. What was checked is what
/// is read.
///
/// # Errors
/// [`Distrust`] naming the path.
pub fn read_own(path: &Path) -> Result<String, Distrust> {
    let io_error = |error| Distrust::Io {
        path: path.into(),
        error,
    };
    // A pipe would be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(Distrust::Link(path.into())),
        Err(errno) => return Err(io_error(errno.into())),
    };
    let metadata = file.metadata().map_err(io_error)?;
    check_metadata(path, &metadata, PathKind::File, is_trusted)?;
    if metadata.len() > MAX_FILE_BYTES {
        let path = path.into();
        let expected = "a file of at most 1 MiB";
        return Err(Distrust::Kind { path, expected });
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(io_error)?;
    Ok(text)
}

/// Checks the parts of the store at `path`. A path that a person named may be a link or lie below one; one that was found may
/// not. Stores of other users are never written to, and only read if they were named.
///
/// # Errors
/// [`Distrust`] naming the part.
pub fn check_store(path: &Path, is_found: bool, for_writing: bool) -> Result<(), Distrust> {
    if is_found {
        check(path, PathKind::Folder, is_trusted)?;
    }
    let Some(folder) = exists(fs::metadata(path), path)? else {
        return Ok(());
    };
    let owner = folder.uid();
    if for_writing && !is_trusted(owner) {
        let path = path.into();
        return Err(Distrust::Foreign { path, owner });
    }
    for (name, kind) in STORE_PARTS {
        check(&path.join(name), kind, |uid| {
            is_trusted(uid) || uid == owner
        })?;
    }
    Ok(())
}

/// Checks that a folder has no links, at any depth. For files of libraries, which follow them.
///
/// # Errors
/// [`Distrust`] naming the first one.
pub fn check_no_links(folder: &Path) -> Result<(), Distrust> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let io_error = |error| Distrust::Io {
            path: folder.clone(),
            error,
        };
        let Some(entries) = exists(fs::read_dir(&folder), &folder)? else {
            continue;
        };
        for entry in entries {
            let entry = entry.map_err(io_error)?;
            let kind = entry.file_type().map_err(io_error)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else {
                check_kind(&entry.path(), kind, PathKind::File)?;
            }
        }
    }
    Ok(())
}

/// Whether files of this user are used: our own, and files of the administrator, who can do everything anyway.
pub fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn check(path: &Path, kind: PathKind, is_trusted: impl Fn(u32) -> bool) -> Result<(), Distrust> {
    match exists(fs::symlink_metadata(path), path)? {
        Some(metadata) => check_metadata(path, &metadata, kind, is_trusted),
        None => Ok(()),
    }
}

fn check_metadata(
    path: &Path,
    metadata: &fs::Metadata,
    kind: PathKind,
    is_trusted: impl Fn(u32) -> bool,
) -> Result<(), Distrust> {
    let owner = metadata.uid();
    if !is_trusted(owner) {
        let path = path.into();
        return Err(Distrust::Foreign { path, owner });
    }
    check_kind(path, metadata.file_type(), kind)
}

fn check_kind(path: &Path, found: fs::FileType, kind: PathKind) -> Result<(), Distrust> {
    let (is_kind, expected) = match kind {
        PathKind::File => (found.is_file(), "a file"),
        PathKind::Folder => (found.is_dir(), "a folder"),
    };
    if found.is_symlink() {
        Err(Distrust::Link(path.into()))
    } else if is_kind {
        Ok(())
    } else {
        let path = path.into();
        Err(Distrust::Kind { path, expected })
    }
}

fn exists<T>(result: std::io::Result<T>, path: &Path) -> Result<Option<T>, Distrust> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Distrust::Io {
            path: path.into(),
            error,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_part_of_a_store_is_checked() {
        for (name, kind) in STORE_PARTS {
            let folder = tempfile::tempdir().unwrap();
            let store = folder.path().join("store");
            fs::create_dir(&store).unwrap();
            check_store(&store, true, true).unwrap();
            symlink(folder.path().join("elsewhere"), store.join(name)).unwrap();
            let error = check_store(&store, false, false).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("is a link"),
                "{error}"
            );
            fs::remove_file(store.join(name)).unwrap();
            match kind {
                PathKind::File => fs::create_dir(store.join(name)).unwrap(),
                PathKind::Folder => fs::write(store.join(name), "").unwrap(),
            }
            let error = check_store(&store, false, false).unwrap_err();
            assert!(matches!(error, Distrust::Kind { .. }), "{error}");
        }
    }

    #[test]
    fn a_named_store_may_be_a_link_and_a_found_one_not() {
        let folder = tempfile::tempdir().unwrap();
        let [store, link] = ["store", "link"].map(|name| folder.path().join(name));
        fs::create_dir_all(store.join("objects")).unwrap();
        symlink(&store, &link).unwrap();
        check_store(&link, false, true).unwrap();
        assert!(matches!(
            check_store(&link, true, false),
            Err(Distrust::Link(_))
        ));
    }

    #[test]
    fn stores_of_others_are_read_only_if_named() {
        // Only the administrator can give files away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        fs::create_dir_all(store.join("objects")).unwrap();
        for path in [&store, &store.join("objects")] {
            std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
        }
        check_store(&store, false, false).unwrap();
        for (is_found, for_writing) in [(true, false), (false, true)] {
            let error = check_store(&store, is_found, for_writing).unwrap_err();
            assert!(matches!(error, Distrust::Foreign { owner: 65_534, .. }));
        }
        // A part of a third user.
        fs::create_dir(store.join("tmp")).unwrap();
        std::os::unix::fs::chown(store.join("tmp"), Some(65_533), None).unwrap();
        let error = check_store(&store, false, false).unwrap_err();
        assert!(matches!(error, Distrust::Foreign { owner: 65_533, .. }));
    }

    #[test]
    fn links_are_found_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/file"), "").unwrap();
        check_no_links(folder.path()).unwrap();
        check_no_links(&folder.path().join("none")).unwrap();
        symlink("../file", folder.path().join("a/b/x")).unwrap();
        assert!(matches!(
            check_no_links(folder.path()),
            Err(Distrust::Link(path)) if path.ends_with("a/b/x")
        ));
    }
}
