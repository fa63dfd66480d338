//! Folders of the repository, their depth, and the length of files.

use crate::File;

// Allowed at the top level, in addition to files whose names begin with a dot.
const ALLOWED_TOP_LEVEL: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "deploy",
    "docs",
    "k8s",
    "rust-toolchain.toml",
    "services",
    "shared",
    "tests",
];
// How files end that a program left behind.
const LEFT_BEHIND: &[&str] = &[
    ".bak", ".dump", ".log", ".orig", ".pid", ".profraw", ".rej", ".swp", ".tmp",
];
// Folders below `src/`: `src/a/b/c.rs`.
const MAX_DEPTH: usize = 2;
// Longer source files are violations.
const MAX_LINES: usize = 1_100;
// Longer source files are listed, but do not fail.
const LONG_LINES: usize = 650;

/// Violations in the location and form of a file.
pub fn violations(file: &File) -> Vec<String> {
    [
        misplaced(file),
        left_behind(file),
        too_deep(file),
        too_long(file),
        without_doc(file),
        empty_folder(file),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Long source files, longest first. They are a hint, not a violation.
pub fn long_files(files: &[File]) -> Vec<(usize, &str)> {
    let lengths = files
        .iter()
        .filter(|file| is_source(file))
        .map(|file| (lines(file), file.path.as_str()));
    let mut long: Vec<_> = lengths.filter(|(lines, _)| *lines > LONG_LINES).collect();
    long.sort_by(|a, b| b.cmp(a));
    long
}

fn misplaced(file: &File) -> Option<String> {
    let top = file.path.split('/').next().unwrap_or_default();
    let is_allowed = top.starts_with('.') || ALLOWED_TOP_LEVEL.contains(&top);
    (!is_allowed).then(|| {
        format!(
            "{}: `{top}` has no place at the top of the repository",
            file.path
        )
    })
}

fn left_behind(file: &File) -> Option<String> {
    let is_left = LEFT_BEHIND.iter().any(|ending| file.path.ends_with(ending));
    is_left.then(|| {
        format!(
            "{} was left behind by a program: remove it, and let the program write elsewhere",
            file.path
        )
    })
}

fn too_deep(file: &File) -> Option<String> {
    let (_, below) = file.path.split_once("/src/")?;
    let too_deep = is_source(file) && below.matches('/').count() > MAX_DEPTH;
    too_deep.then(|| {
        format!(
            "{} lies more than {MAX_DEPTH} folders below src/",
            file.path
        )
    })
}

fn too_long(file: &File) -> Option<String> {
    let too_long = is_source(file) && lines(file) > MAX_LINES;
    too_long.then(|| {
        format!(
            "{} has {} lines; more than {MAX_LINES} are too many",
            file.path,
            lines(file)
        )
    })
}

// Every crate must begin with a module doc.
fn without_doc(file: &File) -> Option<String> {
    let opens = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    (opens && !file.text.starts_with("//! "))
        .then(|| format!("{} does not begin with what it is (`//!`)", file.path))
}

// A crate or module must not be added before its first use.
fn empty_folder(file: &File) -> Option<String> {
    let code = file
        .text
        .lines()
        .any(|line| !line.trim().is_empty() && !line.starts_with("//"));
    (file.path.ends_with("/src/lib.rs") && !code)
        .then(|| format!("{} has no code: no empty rooms", file.path))
}

fn is_source(file: &File) -> bool {
    file.path.ends_with(".rs")
}

fn lines(file: &File) -> usize {
    file.text.lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    fn check(path: &str, text: &str) -> usize {
        violations(&File {
            path: path.into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn repository_layout_follows_the_rules() {
        let files = files(&root()).unwrap();
        for (lines, path) in long_files(&files) {
            println!("long: {path} has {lines} lines");
        }
        assert_eq!(
            files.iter().flat_map(violations).collect::<Vec<_>>(),
            [""; 0]
        );
    }

    #[test]
    fn misplaced_files_are_violations() {
        assert_eq!(check("common/x.md", ""), 1);
        assert_eq!(check("shared/x/src/a/b/c.rs", ""), 0);
        assert_eq!(check("shared/x/src/a/b/c/d.rs", ""), 1);
        assert_eq!(check("shared/x/src/a/b.rs", &"\n".repeat(MAX_LINES)), 0);
        assert_eq!(check("shared/x/src/a/b.rs", &"\n".repeat(MAX_LINES + 1)), 1);
        assert_eq!(check("shared/x/src/lib.rs", "pub mod a;\n"), 1);
        assert_eq!(check("shared/x/src/lib.rs", "//! A room.\n"), 1);
        assert_eq!(check("shared/x/src/lib.rs", "//! A room.\npub mod a;\n"), 0);
    }

    #[test]
    fn files_that_a_program_left_behind_are_violations() {
        assert_eq!(check("shared/x/erl_crash.dump", "=erl_crash_dump:0.5"), 1);
        assert_eq!(check("shared/x/src/a.rs.orig", ""), 1);
        assert_eq!(check("tests/dumps.rs", ""), 0);
    }

    #[test]
    fn long_files_are_sorted_by_length() {
        let file = |path: &str, lines| File {
            path: path.into(),
            text: "\n".repeat(lines),
        };
        let files = [
            file("a.rs", 651),
            file("b.rs", 700),
            file("c.rs", 650),
            file("d.md", 900),
        ];
        assert_eq!(long_files(&files), [(700, "b.rs"), (651, "a.rs")]);
    }
}
