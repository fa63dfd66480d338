//! A file to ingest: where it was found, what other files say about it, and its bytes.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use stemma_document::Digest;
use stemma_pipeline::Submission;
use stemma_pipeline::sources::{file_uri, open_regular};

use crate::error::CommandError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    pub absolute_path: PathBuf,
    /// Folder path below where it was found, and its name; `/`-separated. Equal names from several arguments begin with
    /// the folders that tell them apart.
    pub relative_path: String,
    /// The folder it was found in; of a file given by name, its folder.
    pub root: PathBuf,
    /// Facts that the sidecar of its folder states, by their stable names.
    pub stated: BTreeMap<String, String>,
    /// What the index files of a mirrored folder say about the document; empty for other files.
    pub filing: BTreeMap<String, String>,
    /// The label linkbase of a document in a mirrored folder.
    pub labels: Option<PathBuf>,
}

impl InputFile {
    /// A file about which nothing is stated.
    pub fn new(absolute_path: PathBuf, relative_path: String, root: PathBuf) -> Self {
        Self {
            absolute_path,
            relative_path,
            root,
            stated: BTreeMap::new(),
            filing: BTreeMap::new(),
            labels: None,
        }
    }

    /// The submission of the file, whose content has this digest and size. Without its labels, which have to be stored first.
    pub fn submission(&self, source: Digest, size_bytes: u64) -> Submission {
        let uri = file_uri(&self.absolute_path);
        let path = self.relative_path.clone();
        Submission {
            stated: self.stated.clone(),
            filing: self.filing.clone(),
            ..Submission::from_content(uri, path, source, size_bytes)
        }
    }
}

/// The bytes of a file, read once from start to end.
pub fn read(file: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(file)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    if size <= max_bytes {
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)?;
    }
    let size = size.max(bytes.len() as u64);
    if size > max_bytes {
        Err(io::ErrorKind::FileTooLarge.into())
    } else {
        Ok(bytes)
    }
}

/// Reads a file in a thread of its own. The inner error is a file that cannot be read.
pub async fn read_apart(path: PathBuf, max_bytes: u64) -> Result<io::Result<Bytes>, CommandError> {
    let read = tokio::task::spawn_blocking(move || read(&path, max_bytes)).await;
    let read = read.map_err(|error| CommandError::new("input.unreadable", error.to_string()))?;
    Ok(read.map(Bytes::from))
}

/// Digest and size of a file.
pub fn digest(file: &Path, max_bytes: u64) -> io::Result<(Digest, u64)> {
    let bytes = read(file, max_bytes)?;
    Ok((Digest::from_content(&bytes), bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.md");
        std::fs::write(&file, "twelve bytes").unwrap();
        assert_eq!(
            digest(&file, 12).unwrap(),
            (Digest::from_content(b"twelve bytes"), 12)
        );
        assert_eq!(
            digest(&file, 11).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
    }
}
