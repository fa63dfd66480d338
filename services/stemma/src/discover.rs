//! Finds the files to ingest: from files, folders, globs and lists.
//!
//! Folders are walked for supported formats; a file given by name is taken whatever its extension. Symbolic links
//! inside a folder are not followed, and one that leads out of the folder is skipped and listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use stemma_edgar::{FilingFolder, FilingSelection};
use stemma_pipeline::sources::{document_extensions, file_uri, is_document};

use crate::context::Context;
use crate::error::CommandError;
use crate::filings::{FilingCounts, SelectArgs, mismatch, slashed, take_folders};
use crate::input_file::InputFile;
use crate::sidecar;
use crate::table::counted;

const LINK_OUT: &str = "link leads out of the folder";

#[derive(Debug, Default)]
pub struct Discovery {
    /// The files, by their absolute path.
    pub files: Vec<InputFile>,
    /// URIs of the folders that were walked: known documents below them without a file were deleted.
    pub roots: Vec<String>,
    /// Skipped paths with the reason: links, special files, unreadable folders.
    pub skipped: Vec<(PathBuf, String)>,
    /// Number of files with unsupported extensions, by extension.
    pub other: BTreeMap<String, usize>,
    /// What was decided about filings of EDGAR.
    pub filings: FilingCounts,
    /// Arguments that name nothing, or nothing that can be read. They do not stop the others.
    pub missing: Vec<DiscoverError>,
}

impl Discovery {
    /// The links that lead out of their folder.
    pub fn links_out(&self) -> usize {
        let reasons = self.skipped.iter().map(|(_, reason)| reason);
        reasons.filter(|reason| *reason == LINK_OUT).count()
    }
}

/// Why nothing can be ingested.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("there is no file or folder {}", .0.display())]
    Missing(PathBuf),
    #[error("cannot read {}: {error}", path.display())]
    Path { path: PathBuf, error: io::Error },
    /// A pattern that matches nothing, or is not a pattern.
    #[error("`{pattern}` {problem}")]
    Pattern { pattern: String, problem: String },
}

impl DiscoverError {
    /// The argument, for display.
    pub fn name(&self) -> String {
        match self {
            DiscoverError::Missing(path) | DiscoverError::Path { path, .. } => {
                path.display().to_string()
            }
            DiscoverError::Pattern { pattern, .. } => pattern.clone(),
        }
    }
}

/// The files for `paths` that `select` chooses, with the facts of their sidecars. The store itself is never searched.
///
/// # Errors
/// Nothing can be read, or a sidecar cannot be used.
pub fn find_files(
    paths: &[PathBuf],
    select: &SelectArgs,
    context: &Context,
) -> Result<Discovery, CommandError> {
    let selection = select.selection();
    let mut discovery = discover(paths, context.store.folder(), &selection).map_err(|error| {
        CommandError::new("input.not_found", error.to_string())
            .with_next("check the path; see the examples in `stemma ingest --help`")
    })?;
    sidecar::add_facts(&mut discovery.files)?;
    if !selection.is_empty() {
        let counts = &mut discovery.filings;
        discovery
            .files
            .retain(|file| match mismatch(file, &selection) {
                None => true,
                Some(reason) => {
                    counts.filter(reason);
                    false
                }
            });
    }
    Ok(discovery)
}

/// The error of a command that found nothing to read but `links` that lead out of a folder.
pub fn nothing_found(filings: &FilingCounts, links: usize) -> CommandError {
    match (filings.line(), links) {
        (Some(line), _) => CommandError::new(
            "input.no_documents",
            format!("no document is chosen ({line})"),
        )
        .with_next("change --forms, --since or --cik"),
        (None, links @ 1..) => {
            let message = format!(
                "nothing but links was found: {} out of the folder, which are not followed",
                counted(links, "link")
            );
            CommandError::new("input.no_documents", message)
                .with_next("give the folder that the links lead to, or the files themselves")
        }
        (None, 0) => {
            let message = format!("no {} file found", document_extensions("or"));
            CommandError::new("input.no_documents", message)
                .with_next("give files, a folder that contains some, or s3://BUCKET/PREFIX")
        }
    }
}

/// Finds the files for `arguments`; `-` reads a list of paths from standard input, one per line. `skip` (the
/// store) is never walked. Of a mirrored folder of EDGAR the documents are taken, if `selection` chooses the filing.
///
/// # Errors
/// [`DiscoverError`] if no argument can be read.
fn discover(
    arguments: &[PathBuf],
    skip: Option<&Path>,
    selection: &FilingSelection,
) -> Result<Discovery, DiscoverError> {
    let mut in_folders: Vec<InputFile> = Vec::new();
    let mut by_path: BTreeMap<PathBuf, InputFile> = BTreeMap::new();
    let mut discovery = Discovery::default();
    let skip = skip.and_then(|skip| fs::canonicalize(skip).ok());
    let mut paths = Vec::new();
    for argument in arguments {
        match expand(argument) {
            Ok(expanded) => paths.extend(expanded),
            Err(error) => discovery.missing.push(error),
        }
    }
    for path in paths {
        let root = match fs::canonicalize(&path) {
            Ok(root) => root,
            Err(error) => {
                discovery.missing.push(match error.kind() {
                    io::ErrorKind::NotFound => DiscoverError::Missing(path),
                    _ => DiscoverError::Path { path, error },
                });
                continue;
            }
        };
        if root.is_dir() {
            discovery
                .roots
                .push(format!("{}/", file_uri(&root).trim_end_matches('/')));
            let mut walk = Walk {
                root: &root,
                skip: skip.as_deref(),
                by_path: &mut by_path,
                in_folders: &mut in_folders,
                discovery: &mut discovery,
            };
            walk.run();
        } else if root.is_file() {
            let name = display(Path::new(root.file_name().unwrap_or_default()));
            let folder = root.parent().unwrap_or(&root).to_path_buf();
            let file = InputFile::new(root.clone(), name, folder);
            by_path.entry(root).or_insert(file);
        } else {
            discovery.skipped.push((path, "not a regular file".into()));
        }
    }
    let other = &mut discovery.other;
    discovery.filings = take_folders(in_folders, &mut by_path, selection, other);
    discovery.files = by_path.into_values().collect();
    keep_distinct_folders(&mut discovery.files);
    if discovery.files.is_empty() && !discovery.missing.is_empty() {
        return Err(discovery.missing.remove(0));
    }
    Ok(discovery)
}

// Where arguments have files of the same name, the paths of all their files start at the folder they share.
fn keep_distinct_folders(files: &mut [InputFile]) {
    let mut by_path: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for file in files.iter() {
        let roots = by_path.entry(&file.relative_path).or_default();
        roots.push(&file.root);
    }
    let colliding: BTreeSet<PathBuf> = by_path
        .into_values()
        .filter(|roots| roots.len() > 1)
        .flatten()
        .map(Path::to_path_buf)
        .collect();
    let shared = colliding.iter().cloned().reduce(|a, b| {
        let pairs = a.components().zip(b.components());
        pairs
            .take_while(|(a, b)| a == b)
            .map(|(component, _)| component)
            .collect()
    });
    let Some(shared) = shared else { return };
    for file in files {
        if colliding.contains(&file.root) {
            let path = file.absolute_path.strip_prefix(&shared);
            file.relative_path = display(path.unwrap_or(&file.absolute_path));
        }
    }
}

fn expand(argument: &Path) -> Result<Vec<PathBuf>, DiscoverError> {
    let text = argument.to_string_lossy();
    if text == "-" {
        read_path_list()
    } else if !argument.exists() && text.contains(['*', '?', '[']) {
        matches(&text)
    } else {
        Ok(vec![argument.into()])
    }
}

fn read_path_list() -> Result<Vec<PathBuf>, DiscoverError> {
    let mut list = String::new();
    let read = io::stdin().read_to_string(&mut list);
    read.map_err(|error| DiscoverError::Path {
        path: "standard input".into(),
        error,
    })?;
    Ok(list
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .map(PathBuf::from)
        .collect())
}

fn matches(pattern: &str) -> Result<Vec<PathBuf>, DiscoverError> {
    let paths = glob::glob(pattern)
        .map_err(|error| format!("is not a valid pattern: {error}"))
        .map(|paths| paths.filter_map(Result::ok).collect::<Vec<_>>())
        .and_then(|paths| match paths.is_empty() {
            true => Err("matches nothing".into()),
            false => Ok(paths),
        });
    paths.map_err(|problem| DiscoverError::Pattern {
        pattern: pattern.into(),
        problem,
    })
}

// A walk through one folder.
struct Walk<'a> {
    root: &'a Path,
    skip: Option<&'a Path>,
    by_path: &'a mut BTreeMap<PathBuf, InputFile>,
    // Files of mirrored folders of EDGAR, of which only some are documents.
    in_folders: &'a mut Vec<InputFile>,
    discovery: &'a mut Discovery,
}

impl Walk<'_> {
    fn run(&mut self) {
        let skip = self.skip;
        let walk = walkdir::WalkDir::new(self.root)
            .follow_links(false)
            .sort_by_file_name();
        let entries = walk.into_iter().filter_entry(|entry| {
            let name = entry.file_name().as_encoded_bytes();
            let is_hidden = entry.depth() > 0 && name.starts_with(b".");
            !is_hidden && Some(entry.path()) != skip
        });
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let path = error.path().unwrap_or(self.root).to_path_buf();
                    self.discovery.skipped.push((path, error.to_string()));
                    continue;
                }
            };
            let path = entry.path();
            let kind = entry.file_type();
            if kind.is_symlink() {
                skip_link(self.root, path, self.discovery);
            } else if kind.is_file() {
                self.add_file(path);
            } else if !kind.is_dir() {
                let skipped = (path.into(), "not a regular file".into());
                self.discovery.skipped.push(skipped);
            }
        }
    }

    fn add_file(&mut self, file: &Path) {
        if file.file_name().is_some_and(|name| name == sidecar::NAME) {
            return;
        }
        let path = display(file.strip_prefix(self.root).unwrap_or(file));
        let found = InputFile::new(file.into(), path, self.root.into());
        let parent = file.parent().map(slashed).unwrap_or_default();
        if FilingFolder::from_path(&parent).is_some() {
            self.in_folders.push(found);
        } else if is_document(&file.to_string_lossy()) {
            self.by_path.entry(file.into()).or_insert(found);
        } else {
            let ending = file.extension().unwrap_or_default().to_string_lossy();
            let other = &mut self.discovery.other;
            *other.entry(ending.to_lowercase()).or_default() += 1;
        }
    }
}

// The target of a link inside the folder is found by the walk itself; other links are listed as skipped.
fn skip_link(root: &Path, link: &Path, discovery: &mut Discovery) {
    let reason = match fs::canonicalize(link) {
        Ok(target) if target.starts_with(root) => return,
        Ok(_) => LINK_OUT,
        Err(_) => "broken link",
    };
    discovery.skipped.push((link.into(), reason.into()));
}

// Lossy for names that are not UTF-8, so the result is only for display and never opened.
fn display(path: &Path) -> String {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    names.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_leaving_the_folder_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("filings");
        fs::create_dir_all(root.join("2022")).unwrap();
        fs::create_dir_all(root.join(".stemma/objects")).unwrap();
        for file in [
            "b.pdf",
            "2022/a.PDF",
            "c.docx",
            ".hidden.md",
            ".stemma/objects/x.md",
        ] {
            fs::write(root.join(file), file).unwrap();
        }
        fs::write(folder.path().join("secret.md"), "x").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret.md"), root.join("out.md")).unwrap();
        std::os::unix::fs::symlink(root.join("b.pdf"), root.join("in.pdf")).unwrap();
        let discovered = discover(
            std::slice::from_ref(&root),
            Some(&root.join(".stemma")),
            &FilingSelection::default(),
        )
        .unwrap();
        let paths: Vec<_> = discovered
            .files
            .iter()
            .map(|discovered| discovered.relative_path.as_str())
            .collect();
        assert_eq!(paths, ["2022/a.PDF", "b.pdf"]);
        assert_eq!(discovered.skipped.len(), 1);
        assert!(
            discovered.skipped[0].1.contains("leads out"),
            "{:?}",
            discovered.skipped
        );
        assert_eq!(discovered.other.get("docx"), Some(&1));
        let links = nothing_found(&FilingCounts::default(), discovered.links_out());
        assert!(
            links.to_string().contains("1 link out of the folder"),
            "{links}"
        );
    }

    #[test]
    fn equal_names_keep_the_folders_that_differ() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["a/x/note.md", "a/own.md", "b/x/note.md", "c/other.md"] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        let paths = |arguments: &[&str]| {
            let arguments: Vec<PathBuf> = arguments
                .iter()
                .map(|argument| folder.path().join(argument))
                .collect();
            let discovered = discover(&arguments, None, &FilingSelection::default()).unwrap();
            let paths = discovered.files.into_iter().map(|file| file.relative_path);
            paths.collect::<Vec<_>>()
        };
        let expected = ["a/own.md", "a/x/note.md", "b/x/note.md", "other.md"];
        assert_eq!(paths(&["a", "b", "c"]), expected);
        let files = ["a/x/note.md", "b/x/note.md"];
        assert_eq!(paths(&files), files);
        assert_eq!(paths(&["a", "c"]), ["own.md", "x/note.md", "other.md"]);
    }

    #[test]
    fn missing_paths_do_not_stop_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.md");
        fs::write(&file, "x").unwrap();
        let arguments = ["/nowhere/a.pdf".into(), "/nowhere/*.md".into(), file];
        let discovered = discover(&arguments, None, &FilingSelection::default()).unwrap();
        assert_eq!(discovered.files.len(), 1);
        assert_eq!(discovered.missing.len(), 2);
    }

    #[test]
    fn only_missing_paths_are_an_error() {
        assert!(
            discover(
                &["/nowhere/at/all.pdf".into()],
                None,
                &FilingSelection::default()
            )
            .is_err()
        );
        assert!(matches!(
            discover(
                &["/nowhere/*.pdf".into()],
                None,
                &FilingSelection::default()
            ),
            Err(DiscoverError::Pattern { .. })
        ));
    }
}
