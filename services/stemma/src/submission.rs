//! What `ingest` and `submit` share: facts of sidecars, labels and errors of submissions.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::discover::{DiscoverError, Discovery};
use crate::error::CommandError;
use crate::sidecar;

/// Facts of a sidecar about one file, by their stable names.
pub type StatedFacts = BTreeMap<String, String>;

/// What sidecars state about the files that were found.
pub fn sidecars(discovery: &Discovery) -> Result<HashMap<PathBuf, StatedFacts>, CommandError> {
    let mut folders: BTreeMap<&Path, sidecar::SidecarFacts> = BTreeMap::new();
    let mut stated = HashMap::new();
    for file in &discovery.files {
        let (Some(folder), Some(name)) =
            (file.absolute_path.parent(), file.absolute_path.file_name())
        else {
            continue;
        };
        if !folders.contains_key(folder) {
            let read = sidecar::read(folder).map_err(|error| {
                CommandError::new("input.sidecar", error.to_string())
                    .with_next("correct the file; `stemma ingest --help` lists its columns")
            })?;
            folders.insert(folder, read);
        }
        let facts = folders
            .get_mut(folder)
            .and_then(|read| read.remove(name.to_string_lossy().as_ref()));
        stated.extend(facts.map(|facts| (file.absolute_path.clone(), facts)));
    }
    Ok(stated)
}

/// A path or pattern that names nothing.
pub fn discover_error(error: &DiscoverError) -> CommandError {
    CommandError::new("input.not_found", error.to_string())
        .with_next("check the path; see the examples in `stemma ingest --help`")
}

/// Label of a job: the first path, and the number of others.
pub fn label(paths: &[PathBuf]) -> String {
    const LONGEST: usize = 100;
    let first = paths
        .first()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let first: String = first.chars().take(LONGEST).collect();
    match paths.len() {
        0 | 1 => first,
        more => format!("{first} and {} more", more - 1),
    }
}
