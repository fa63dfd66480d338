//! Local files, named by `file://` URIs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
#[cfg(unix)]
use rustix::fs::OFlags;
use stemma_document::{DocumentVersion, Origin};
use stemma_store::Failure;

use super::{SourceStore, percent_decode, percent_encode};

/// Local files, named by `file://` URIs.
///
/// Only files whose content is known by its digest are read, which the caller compares. Whoever may write jobs could
/// otherwise publish any file that a worker can read, such as its environment.
pub struct LocalFiles;

#[async_trait]
impl SourceStore for LocalFiles {
    async fn read(&self, version: &DocumentVersion, max_bytes: u64) -> Result<Bytes, Failure> {
        if version.origin != Origin::Content {
            let message = format!("{} is a local file without a digest", version.uri);
            return Err(Failure::permanent("input.denied", message)
                .with_next("submit local files with `stemma ingest` or `stemma submit`"));
        }
        let path = file_path(&version.uri).ok_or_else(|| {
            let message = format!("{} is not a local file", version.uri);
            Failure::permanent("input.unreachable", message).with_next("submit a local path")
        })?;
        let read = tokio::task::spawn_blocking(move || read_file(&path, max_bytes)).await;
        read.unwrap_or_else(|error| Err(Failure::transient("input.unreadable", error.to_string())))
    }
}

/// The URI of an absolute path. Bytes outside the unreserved set are percent-encoded (RFC 3986 §2.1, RFC
/// 8089).
pub fn file_uri(path: &Path) -> String {
    format!(
        "file://{}",
        percent_encode(path.as_os_str().as_encoded_bytes())
    )
}

/// The path of a `file://` URI.
pub fn file_path(uri: &str) -> Option<PathBuf> {
    path_from_bytes(percent_decode(uri.strip_prefix("file://")?)?)
}

#[cfg(unix)]
fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(Into::into)
}

/// Opens a regular file. Does not follow a symbolic link and does not block on a FIFO or device.
///
/// # Errors
/// The error of the file system; `InvalidInput` if it is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::permanent(
        "input.unreadable",
        format!("the file cannot be read: {error}"),
    )
    .with_next("check that it still exists and is readable, then ingest again")
}

fn read_file(path: &Path, max_bytes: u64) -> Result<Bytes, Failure> {
    // A FIFO or device could block or never end.
    let metadata = std::fs::symlink_metadata(path).map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err(Failure::permanent("input.not_a_file", "not a regular file"));
    }
    if metadata.len() > max_bytes {
        return Err(super::too_large_error("file", metadata.len(), max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    open_regular(path)
        .map_err(|error| unreadable(&error))?
        .take(max_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(&error))?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.md");
        let link = folder.path().join("b.md");
        let pipe = folder.path().join("c.md");
        std::fs::write(&file, "twelve bytes").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        assert!(
            open_regular(&file).is_ok()
                && open_regular(&link).is_err()
                && open_regular(&pipe).is_err()
        );
        assert_eq!(read_file(&file, 12).unwrap().as_ref(), b"twelve bytes");
        assert_eq!(read_file(&file, 11).unwrap_err().code, "limits.bytes");
        assert_eq!(read_file(&link, 12).unwrap_err().code, "input.not_a_file");
        assert_eq!(
            read_file(&folder.path().join("none"), 12).unwrap_err().code,
            "input.unreadable"
        );
    }

    #[test]
    fn paths_round_trip_through_uris() {
        for path in ["/a/b c.pdf", "/ä/第一.pdf", "/100%/x#y?.pdf", "/a%20b"] {
            let path = Path::new(path);
            let uri = file_uri(path);
            assert!(uri.is_ascii() && !uri.contains(' '), "{uri}");
            assert_eq!(file_path(&uri).unwrap(), path);
        }
        assert_eq!(file_path("https://x"), None);
        assert_eq!(file_path("file:///%zz"), None);
    }
}
