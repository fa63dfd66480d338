//! Folders and files opened without following links. A folder with a store may come from somebody else, and a link in it
//! leads anywhere.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

const READ_FOLDER: OFlags = OFlags::DIRECTORY;
// Opening a pipe would wait for its other end.
const READ_FILE: OFlags = OFlags::NONBLOCK;
const NEW_FILE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL);

/// An open folder. Its entries are named by single names, or by names that `/` joins.
pub(super) struct OpenFolder {
    folder: File,
    // For messages.
    path: PathBuf,
}

impl OpenFolder {
    /// Opens the folder at `path`, which is not a link itself.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Self::open_at(CWD, path, path.into())
    }

    fn child(&self, name: &str) -> std::io::Result<Self> {
        Self::open_at(&self.folder, Path::new(name), self.path.join(name))
    }

    fn open_at(parent: impl AsFd, name: &Path, path: PathBuf) -> std::io::Result<Self> {
        let mode = Mode::empty();
        match rustix::fs::openat(&parent, name, flags(READ_FOLDER), mode) {
            Ok(folder) => Ok(Self {
                folder: folder.into(),
                path,
            }),
            // A link is reported as no folder.
            Err(Errno::NOTDIR)
                if rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| kind(&stat) == FileType::Symlink) =>
            {
                Err(open_error(&path, Errno::LOOP))
            }
            Err(errno) => Err(open_error(&path, errno)),
        }
    }

    /// Device and number of the folder.
    pub fn identity(&self) -> std::io::Result<(u64, u64)> {
        let metadata = self.folder.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// The folder that `names` lead to; itself if they are empty.
    pub fn descend(self, names: &str) -> std::io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(opened) = self.descend_at_once(names) {
            return opened;
        }
        let mut folder = self;
        for name in names.split('/').filter(|name| !name.is_empty()) {
            folder = folder.child(name)?;
        }
        Ok(folder)
    }

    // In one call instead of one for each name. `None` where the kernel or a filter of system calls does not have it, and for
    // errors: going name by name says which one is at fault.
    #[cfg(target_os = "linux")]
    fn descend_at_once(&self, names: &str) -> Option<std::io::Result<Self>> {
        use rustix::fs::{ResolveFlags, openat2};

        let names = names.trim_end_matches('/');
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        let mode = Mode::empty();
        match openat2(&self.folder, names, flags(READ_FOLDER), mode, resolve) {
            Ok(folder) => Some(Ok(Self {
                folder: folder.into(),
                path: self.path.join(names),
            })),
            Err(Errno::NOENT) if !names.is_empty() => Some(Err(Errno::NOENT.into())),
            Err(_) => None,
        }
    }

    /// As [`Self::descend`]; creates what is missing.
    pub fn descend_or_create(self, names: &str) -> std::io::Result<Self> {
        let mut folder = self;
        for name in names.split('/').filter(|name| !name.is_empty()) {
            match rustix::fs::mkdirat(&folder.folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            folder = folder.child(name)?;
        }
        Ok(folder)
    }

    /// Opens a file for reading.
    pub fn file(&self, name: &str) -> std::io::Result<File> {
        let file = self.open_file(name, READ_FILE, Mode::empty())?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        if !kind.is_file() {
            return Err(refused(
                &self.path.join(name),
                "neither a file nor a folder",
            ));
        }
        Ok(file)
    }

    /// Creates a file for writing; an error if the name exists.
    pub fn new_file(&self, name: &str) -> std::io::Result<File> {
        self.open_file(name, NEW_FILE, Mode::from_raw_mode(0o666))
    }

    /// Kind and size of an entry.
    pub fn stat(&self, name: &str) -> std::io::Result<Stat> {
        Ok(rustix::fs::statat(
            &self.folder,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Gives a file the second name `new_name` in `folder`; an error if that exists.
    pub fn link(&self, name: &str, folder: &Self, new_name: &str) -> std::io::Result<()> {
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(
            &self.folder,
            name,
            &folder.folder,
            new_name,
            flags,
        )?)
    }

    pub fn remove_file(&self, name: &str) -> std::io::Result<()> {
        let flags = AtFlags::empty();
        Ok(rustix::fs::unlinkat(&self.folder, name, flags)?)
    }

    /// Names and kinds of the entries, in no order. Names that are not UTF-8 are left out.
    pub fn entries(&self) -> std::io::Result<Vec<(String, FileType)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if matches!(name, "." | "..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind(&self.stat(name)?),
                kind => kind,
            };
            entries.push((name.to_owned(), kind));
        }
        Ok(entries)
    }

    /// Makes everything durable that was written to its file system.
    pub fn sync_file_system(&self) -> std::io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&self.folder)?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::sync();
        Ok(())
    }

    fn open_file(&self, name: &str, mode_flags: OFlags, mode: Mode) -> std::io::Result<File> {
        let file = rustix::fs::openat(&self.folder, name, flags(mode_flags), mode);
        Ok(file
            .map_err(|errno| open_error(&self.path.join(name), errno))?
            .into())
    }
}

/// The kind of an entry.
pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn flags(flags: OFlags) -> OFlags {
    flags | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn open_error(path: &Path, errno: Errno) -> Error {
    if errno == Errno::LOOP {
        refused(path, "a link, and links in a store are not followed")
    } else {
        errno.into()
    }
}

fn refused(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!("{} is {what}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| folder.path().join(name));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        symlink(&outside, inside.join("a/link")).unwrap();
        symlink(outside.join("file"), inside.join("a/b/file")).unwrap();
        symlink(outside.join("new"), inside.join("a/b/new")).unwrap();
        symlink(&inside, folder.path().join("root")).unwrap();

        let open = |path: &str| OpenFolder::open(&inside).unwrap().descend(path);
        assert!(OpenFolder::open(&folder.path().join("root")).is_err());
        let errors = [
            open("a/link").err(),
            OpenFolder::open(&inside)
                .unwrap()
                .descend_or_create("a/link/more")
                .err(),
            open("a/b").unwrap().file("file").err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains("is a link"), "{error}");
        }
        let taken = open("a/b").unwrap().new_file("new").unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        let stat = open("a/b").unwrap().stat("file").unwrap();
        assert_eq!(kind(&stat), FileType::Symlink);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, folder.path().join("x"), FileType::Fifo, mode, 0).unwrap();
        let error = OpenFolder::open(folder.path()).unwrap().file("x").err();
        assert!(error.unwrap().to_string().contains("neither a file"));
    }
}
