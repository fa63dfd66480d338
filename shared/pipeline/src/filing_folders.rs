//! Mirrored folders of EDGAR among the objects of a bucket: which objects are documents, and what index files say of them.

use std::collections::BTreeMap;

use futures::future;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use stemma_document::{CompanionFile, Digest, Origin};
use stemma_edgar::{
    FilingFolder, FilingIndex, FilingSelection, FilingSummary, FilterMismatch, FolderPlan,
    FullSubmission, IndexKind, SkipReason, is_label_linkbase, is_submission,
};
use stemma_engine::objects::{ObjectLookup, ObjectMeta};
use stemma_store::PortResult;
use stemma_store::env::Millis;

use crate::filing_facts::index_facts;
use crate::sources::is_document;

/// Bytes at the start of a full submission that hold its header.
pub const HEADER_BYTES: u64 = 4 << 20;

/// Whether a change of the object can change a document: images, data and pages of the viewer in the folder of a filing, which
/// come by the hundred, are told by their names.
pub fn may_change_document(key: &str) -> bool {
    let (parent, name) = key.rsplit_once('/').unwrap_or(("", key));
    if FilingFolder::from_path(parent).is_none() {
        return is_document(key);
    }
    let is_skipped = SkipReason::from_file_name(name).is_some();
    is_label_linkbase(name) || is_document(key) && !is_skipped
}

/// What a filter can know about a single file: the header, if it is a full submission, and its path.
pub fn summarize_file(path: &str, head: &[u8]) -> FilingSummary {
    let header = match is_submission(head) {
        true => FullSubmission::parse(head).header,
        false => Default::default(),
    };
    FilingSummary::new(&header, FilingFolder::from_path(path).as_ref())
}

/// The files of one mirrored folder in a bucket, with a full submission next to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketFolder {
    pub folder: FilingFolder,
    /// By file name.
    files: BTreeMap<String, ObjectMeta>,
}

/// What to read of a [`BucketFolder`].
#[derive(Debug, Clone)]
pub struct BucketPlan {
    folder: FilingFolder,
    index: FilingIndex,
    pub plan: FolderPlan,
    files: BTreeMap<String, ObjectMeta>,
    // The newest modification of the index files.
    index_modified_ms: Millis,
}

/// A document of a [`BucketPlan`].
#[derive(Debug, Clone)]
pub struct PlannedObject<'a> {
    pub object: &'a ObjectMeta,
    /// [`index_facts`] of the document.
    pub filing: BTreeMap<String, String>,
    pub labels: Option<Box<CompanionFile>>,
    /// The newest modification of the files that say all this; 0 if unknown.
    pub modified_ms: Millis,
}

impl BucketPlan {
    /// Why the filter does not choose the filing; `None` if it does.
    pub fn mismatch(&self, selection: &FilingSelection) -> Option<FilterMismatch> {
        selection.mismatch(&FilingSummary::new(&self.index.header, Some(&self.folder)))
    }

    /// The documents of the filing, with what index files say of each and its label linkbase.
    pub fn documents(&self) -> impl Iterator<Item = PlannedObject<'_>> {
        self.plan.documents.iter().filter_map(|document| {
            let object = self.files.get(&document.name)?;
            // A full submission has a header of its own.
            let facts = match self.folder.is_submission(&document.name) {
                true => BTreeMap::new(),
                false => index_facts(&self.folder, &self.index, document.entry.as_ref()),
            };
            let labels = document
                .labels
                .as_ref()
                .and_then(|name| self.files.get_key_value(name));
            let labels_modified_ms = labels.map_or(0, |(_, object)| object.modified_ms);
            Some(PlannedObject {
                object,
                filing: facts,
                labels: labels.map(|(name, object)| Box::new(companion(name, object))),
                modified_ms: object
                    .modified_ms
                    .max(labels_modified_ms)
                    .max(self.index_modified_ms),
            })
        })
    }

    /// Files that are documents in other states of the folder: full submissions next to all of their parts, or parts of a
    /// full submission.
    pub fn superseded(&self) -> impl Iterator<Item = &ObjectMeta> {
        let others = self.files.iter().filter(move |(name, _)| {
            is_document(name)
                && SkipReason::from_file_name(name).is_none()
                && IndexKind::from_file_name(name).is_none()
                && !self
                    .plan
                    .documents
                    .iter()
                    .any(|document| document.name == **name)
        });
        others.map(|(_, object)| object)
    }
}

impl BucketFolder {
    /// The folder that `key` is in or next to, as it is now; `None` if it is not the folder of a filing.
    ///
    /// # Errors
    /// `PortError` if the bucket cannot be listed.
    pub async fn find(
        objects: &dyn ObjectLookup,
        bucket: &str,
        key: &str,
    ) -> PortResult<Option<Self>> {
        let (parent, _) = key.rsplit_once('/').unwrap_or_default();
        let (folder, below, submissions_at) = match FilingFolder::from_path(parent) {
            Some(folder) => {
                let above = parent.rsplit_once('/').map(|(above, _)| above);
                (folder, vec![parent.to_owned()], above.map(str::to_owned))
            }
            None => {
                let Some(folder) = submission_folder(key) else {
                    return Ok(None);
                };
                let names = [folder.accession.clone(), folder.accession.replace('-', "")];
                let below = names.map(|name| join(parent, &name));
                (folder, below.into(), Some(parent.to_owned()))
            }
        };
        let mut found = Self {
            folder,
            files: BTreeMap::new(),
        };
        for below in below {
            let below = format!("{below}/");
            for object in objects.list(bucket, &below).await? {
                let name = &object.key[below.len()..];
                if !name.contains('/') {
                    found.files.insert(name.into(), object);
                }
            }
        }
        if let Some(parent) = submissions_at {
            let stem = join(&parent, &format!("{}.", found.folder.accession));
            for object in objects.list(bucket, &stem).await? {
                let name = file_name(&object.key);
                if found.folder.is_submission(name) {
                    found.files.entry(name.into()).or_insert(object);
                }
            }
        }
        Ok(Some(found))
    }

    /// Whether an object is one of its files.
    pub fn has_object(&self, key: &str) -> bool {
        self.files
            .get(file_name(key))
            .is_some_and(|object| object.key == key)
    }

    /// Reads the index files of the folder, and decides.
    ///
    /// # Errors
    /// `PortError` if an object cannot be read.
    pub async fn plan(self, objects: &dyn ObjectLookup, bucket: &str) -> PortResult<BucketPlan> {
        let names: Vec<String> = self.files.keys().cloned().collect();
        let mut index = FilingIndex::default();
        let mut index_modified_ms = 0;
        for file in self.folder.index_files(&names) {
            if !file.adds_to(&index) {
                continue;
            }
            let object = &self.files[file.name];
            if let Some(bytes) = objects.read(bucket, &object.key, file.max_bytes()).await? {
                index = file.complete(index, &bytes);
                index_modified_ms = index_modified_ms.max(object.modified_ms);
            }
        }
        let plan = FolderPlan::new(&self.folder, &names, &index);
        Ok(BucketPlan {
            folder: self.folder,
            index,
            plan,
            files: self.files,
            index_modified_ms,
        })
    }
}

/// Part of a listing that is decided together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedFiles {
    /// A document outside of mirrored folders.
    Document(ObjectMeta),
    Folder(BucketFolder),
}

/// Groups a listing in the order of keys: the objects of a mirrored folder come together, other objects one by one if they
/// are documents. The object with the key `named` is a document whatever its extension. Holds one folder at a time.
pub fn group_folders(
    listing: impl Stream<Item = PortResult<ObjectMeta>>,
    named: &str,
) -> impl Stream<Item = PortResult<ListedFiles>> {
    let objects = listing.map_ok(Some).chain(stream::iter([Ok(None)]));
    let groups = objects.scan(FolderCollector::default(), move |folders, object| {
        let complete = match object {
            Ok(Some(object)) if object.key == named => vec![Ok(ListedFiles::Document(object))],
            Ok(Some(object)) => folders.push(object).into_iter().map(Ok).collect(),
            Ok(None) => folders.finish().into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        future::ready(Some(stream::iter(complete)))
    });
    groups.flatten()
}

#[derive(Debug, Default)]
struct FolderCollector {
    // Path and files.
    current: Option<(String, BucketFolder)>,
    // Full submissions of one parent, which precede the folders they may belong to, by accession number.
    parent: String,
    submissions: BTreeMap<String, Vec<ObjectMeta>>,
}

impl FolderCollector {
    // Adds the next object; returns what is complete.
    fn push(&mut self, object: ObjectMeta) -> Vec<ListedFiles> {
        let mut complete = Vec::new();
        let left = |path: &str| !(path.is_empty() || object.key.starts_with(&format!("{path}/")));
        if self.current.as_ref().is_some_and(|(path, _)| left(path)) {
            complete.extend(self.take_current());
        }
        if left(&self.parent) {
            complete.extend(self.take_submissions());
        }
        let (parent, name) = object.key.rsplit_once('/').unwrap_or(("", &object.key));
        if let Some(folder) = FilingFolder::from_path(parent) {
            let (_, current) = self.current.get_or_insert_with(|| {
                let files = BTreeMap::new();
                (parent.to_owned(), BucketFolder { folder, files })
            });
            // A marker of the folder has no name.
            if !name.is_empty() {
                current.files.insert(name.to_owned(), object);
            }
        } else if let Some(folder) = submission_folder(&object.key) {
            if self.parent != parent {
                complete.extend(self.take_submissions());
                self.parent = parent.to_owned();
            }
            let objects = self.submissions.entry(folder.accession).or_default();
            objects.push(object);
        } else if is_document(&object.key) {
            complete.push(ListedFiles::Document(object));
        }
        complete
    }

    // What is left at the end of the listing.
    fn finish(&mut self) -> Vec<ListedFiles> {
        let mut complete: Vec<ListedFiles> = self.take_current().into_iter().collect();
        complete.extend(self.take_submissions());
        complete
    }

    fn take_current(&mut self) -> Option<ListedFiles> {
        let (path, mut folder) = self.current.take()?;
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        if above == self.parent
            && let Some(objects) = self.submissions.remove(&folder.folder.accession)
        {
            for object in objects {
                let name = file_name(&object.key).to_owned();
                folder.files.entry(name).or_insert(object);
            }
        }
        Some(ListedFiles::Folder(folder))
    }

    // Submissions without a folder are documents.
    fn take_submissions(&mut self) -> Vec<ListedFiles> {
        let alone = std::mem::take(&mut self.submissions);
        let alone = alone.into_values().flatten();
        alone.map(ListedFiles::Document).collect()
    }
}

// The filing of a full submission, by its path.
fn submission_folder(key: &str) -> Option<FilingFolder> {
    FilingFolder::from_path(key).filter(|folder| folder.is_submission(file_name(key)))
}

fn companion(name: &str, object: &ObjectMeta) -> CompanionFile {
    CompanionFile {
        name: name.into(),
        source: Digest::from_object(&object.etag, object.size_bytes),
        origin: Origin::Object {
            etag: object.etag.clone(),
            version: object.version.clone(),
        },
        size_bytes: object.size_bytes,
    }
}

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.into(),
        parent => format!("{parent}/{name}"),
    }
}

#[cfg(test)]
mod tests;
