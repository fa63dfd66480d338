//! `image_context FOLDER`: copies the build context of the image into a folder, for a build without Docker. Times are kept,
//! so that the next build compiles only what changed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stemma_tidy::{image_context, paths, root};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: image_context FOLDER");
        return ExitCode::from(2);
    };
    match copy(&root(), &folder) {
        Ok(count) => {
            println!("{count} files in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn copy(root: &Path, folder: &Path) -> std::io::Result<usize> {
    let files: BTreeSet<String> = image_context::context_files(root)?.into_iter().collect();
    fs::create_dir_all(folder)?;
    for stale in paths(folder)?.iter().filter(|path| !files.contains(*path)) {
        fs::remove_file(folder.join(stale))?;
    }
    remove_empty_folders(folder)?;
    for path in &files {
        let (from, to) = (root.join(path), folder.join(path));
        let modified = fs::metadata(&from)?.modified()?;
        if fs::metadata(&to).and_then(|to| to.modified()).ok() == Some(modified) {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(&from, &to)?;
        File::options()
            .write(true)
            .open(&to)?
            .set_modified(modified)?;
    }
    Ok(files.len())
}

// The workspace would take the empty folder of a crate that is gone for a member.
fn remove_empty_folders(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty_folders(&entry.path())?;
            if fs::read_dir(entry.path())?.next().is_none() {
                fs::remove_dir(entry.path())?;
            }
        }
    }
    Ok(())
}
