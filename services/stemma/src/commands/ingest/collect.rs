//! Reads the files of an ingest: digests, copies, and documents whose files are gone.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde::Serialize;
use stemma_archive::Archive;
use stemma_document::{Collection, Digest};
use stemma_pipeline::Submission;
use stemma_pipeline::sources::{SourceWriter, file_path};
use stemma_store::{FailureRecord, PortResult, RetryingBlobs};

use crate::discover::Discovery;
use crate::error::CommandError;
use crate::failure_groups::FailureLine;
use crate::filings::store_labels;
use crate::input_file::{InputFile, digest};

/// The documents of an ingest, and what was found while reading them.
pub struct IngestBatch {
    pub submissions: Vec<Submission>,
    pub unreadable: Vec<FailedDocument>,
    /// Path, and path of a document with the same bytes.
    pub duplicates: Vec<(String, String)>,
    /// Known documents whose files were deleted from the walked folders.
    pub removed: Vec<String>,
    /// Without its files, which were read.
    pub discovery: Discovery,
    // Label linkbases, by the position of the submission.
    labels: Vec<(usize, PathBuf)>,
}

impl IngestBatch {
    /// Finds copies of documents that are known already, and known documents whose files are gone.
    pub fn find_duplicates_and_removed(&mut self, reader: &Archive) -> PortResult<()> {
        let submitted: HashSet<&str> = self
            .submissions
            .iter()
            .map(|submission| submission.uri.as_str())
            .collect();
        let mut by_digest: HashMap<Digest, String> = HashMap::new();
        for listed in reader.catalog().documents() {
            let listed = listed?;
            let version = listed.version();
            if submitted.contains(version.uri.as_str()) {
                continue;
            }
            by_digest.insert(version.source, listed.label.clone());
            let roots = &self.discovery.roots;
            let is_walked = roots.iter().any(|root| version.uri.starts_with(root));
            if is_walked && !file_exists(&version.uri) {
                self.removed.push(listed.label.clone());
            }
        }
        let copies = self.submissions.iter().filter_map(|submission| {
            let label = by_digest.get(&submission.source)?;
            Some((submission.path.clone(), label.clone()))
        });
        self.duplicates.extend(copies);
        Ok(())
    }

    /// Stores the label linkbases of documents. One that cannot be read is listed as skipped.
    pub async fn store_labels(
        &mut self,
        blobs: &RetryingBlobs,
        collection: &Collection,
        max_bytes: u64,
    ) -> Result<(), CommandError> {
        if self.labels.is_empty() {
            return Ok(());
        }
        let writer = SourceWriter::start(blobs, collection).await?;
        for (at, path) in std::mem::take(&mut self.labels) {
            match store_labels(path.clone(), max_bytes, &writer).await? {
                Ok(labels) => self.submissions[at].labels = Some(labels),
                Err(error) => {
                    let why = format!("cannot be read: {error}");
                    self.discovery.skipped.push((path, why));
                }
            }
        }
        Ok(())
    }
}

fn file_exists(uri: &str) -> bool {
    file_path(uri).is_some_and(|path| path.exists())
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedDocument {
    /// Its path below the folder it was found in.
    pub path: String,
    pub code: String,
    pub message: String,
    pub next: Option<String>,
}

impl FailedDocument {
    fn new(path: String, code: &str, message: String, next: &str) -> Self {
        Self {
            path,
            code: code.into(),
            message,
            next: Some(next.into()),
        }
    }

    pub fn from_record(path: String, record: FailureRecord) -> Self {
        Self {
            path,
            code: record.code,
            message: record.message,
            next: record.next,
        }
    }

    /// What people are told of it.
    pub fn line(&self) -> FailureLine<'_> {
        FailureLine {
            name: &self.path,
            code: &self.code,
            message: &self.message,
            next: self.next.as_deref(),
        }
    }
}

/// Digests decide what is new, so every file is read, with one thread per core.
pub async fn read_files(
    mut discovery: Discovery,
    retry_failed: bool,
    max_bytes: u64,
) -> Result<IngestBatch, CommandError> {
    let files = std::mem::take(&mut discovery.files);
    let read = tokio::task::spawn_blocking(move || {
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        let part = files.len().div_ceil(readers).max(1);
        std::thread::scope(|scope| {
            let parts: Vec<_> = files
                .chunks(part)
                .map(|part| scope.spawn(move || read_part(part, max_bytes)))
                .collect();
            let read = parts
                .into_iter()
                .flat_map(|part| part.join().unwrap_or_default());
            read.collect::<Vec<_>>()
        })
    })
    .await;
    let read = read.map_err(|error| CommandError::new("input.unreadable", error.to_string()))?;
    let missing = discovery.missing.iter().map(|missing| {
        let name = missing.name();
        let message = missing.to_string();
        FailedDocument::new(name, "input.not_found", message, "check the path")
    });
    let mut batch = IngestBatch {
        submissions: Vec::new(),
        unreadable: missing.collect(),
        duplicates: Vec::new(),
        removed: Vec::new(),
        discovery,
        labels: Vec::new(),
    };
    let mut first: HashMap<Digest, String> = HashMap::new();
    for file in read {
        match file {
            Ok((submission, labels)) => {
                match first.entry(submission.source) {
                    Entry::Occupied(other) => {
                        let copy = (submission.path.clone(), other.get().clone());
                        batch.duplicates.push(copy);
                    }
                    Entry::Vacant(first) => {
                        first.insert(submission.path.clone());
                    }
                }
                let at = batch.submissions.len();
                batch.labels.extend(labels.map(|labels| (at, labels)));
                batch.submissions.push(Submission {
                    retry_failed,
                    ..submission
                });
            }
            Err(failed) => batch.unreadable.push(failed),
        }
    }
    Ok(batch)
}

type ReadFile = Result<(Submission, Option<PathBuf>), FailedDocument>;

fn read_part(part: &[InputFile], max_bytes: u64) -> Vec<ReadFile> {
    part.iter()
        .map(|input| read_file(input, max_bytes))
        .collect()
}

// The submission, and its label linkbase.
fn read_file(input: &InputFile, max_bytes: u64) -> ReadFile {
    let (code, message, next) = match digest(&input.absolute_path, max_bytes) {
        Ok((source, size_bytes)) => {
            return Ok((input.submission(source, size_bytes), input.labels.clone()));
        }
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => (
            "limits.bytes",
            format!("the file is larger than the limit of {max_bytes} bytes"),
            "raise limits.max_bytes, or split the file",
        ),
        Err(error) => (
            "input.unreadable",
            format!("the file cannot be read: {error}"),
            "check its permissions, then run ingest again",
        ),
    };
    let path = input.relative_path.clone();
    Err(FailedDocument::new(path, code, message, next))
}
