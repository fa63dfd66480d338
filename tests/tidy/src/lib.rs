//! Repository rules that no compiler or linter checks, as tables and tests over the repository itself.
//!
//! - [`checks`]: CI runs every check.
//! - [`image_context`]: the image can be built from what `.dockerignore` admits.
//! - [`import_graph`]: no circles and no long chains of files in a crate.
//! - [`imports`]: which crate may import which, and who may name which outside crate.
//! - [`limits`]: how many word lists, numbers and needless names product code has.
//! - [`manifests`]: what every `Cargo.toml` says.
//! - [`metrics`]: the table of metrics is what is emitted.
//! - [`monitoring`]: alerts and dashboard use these metrics.
//! - [`names`]: which names and forms no code may have.
//! - [`sleeps`]: tests wait for conditions, not for time.
//! - [`tree`]: which folders there are, how deep, how long a file may be.
//! - [`words`]: what no file may contain.
//!
//! Each rule is a pure function from its input to a list of violations, so that a test can prove that it
//! fires. Not repeated here: what clippy, rustfmt and cargo-deny check.

pub mod checks;
pub mod image_context;
pub mod import_graph;
pub mod imports;
pub mod limits;
pub mod manifests;
pub mod metrics;
pub mod monitoring;
pub mod names;
pub mod sleeps;
pub mod tree;
pub mod words;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

// Not part of the repository: build products, history, stores and scratch files.
const IGNORED_FOLDERS: [&str; 4] = ["target", ".git", ".stemma", "node_modules"];

/// A text file of the repository.
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

/// The root of the repository, two folders above this crate.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    manifest
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// Every text file below `root`, sorted by path. Skips links and files that are not UTF-8.
///
/// # Errors
/// The error of the file system.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let read = paths(root)?.into_iter().filter_map(|path| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(File { path, text })
    });
    Ok(read.collect())
}

/// The path of every file below `root`, with `/`, sorted. Skips links.
///
/// # Errors
/// The error of the file system.
pub fn paths(root: &Path) -> io::Result<Vec<String>> {
    let mut collected = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let kind = entry.file_type()?;
            if IGNORED_FOLDERS
                .iter()
                .any(|name| entry.file_name() == *name)
            {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                collected.push(below(root, &path));
            }
        }
    }
    collected.sort();
    Ok(collected)
}

fn below(root: &Path, path: &Path) -> String {
    let names = path
        .strip_prefix(root)
        .unwrap_or(path)
        .iter()
        .map(|name| name.to_string_lossy());
    names.collect::<Vec<_>>().join("/")
}
