//! Text that no file may contain (notes to self, disabled tests and lints, paths of a machine), and paths and names in
//! documents, which must exist.

use crate::File;

// Written in parts, so that this file passes its own rule.
const FORBIDDEN_WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it, or open an issue"),
    (concat!("FIX", "ME"), "do it, or open an issue"),
    (concat!("to", "do!("), "no stubs"),
    (concat!("unimpl", "emented!("), "no stubs"),
    (
        concat!("#[ign", "ore"),
        "a test that does not run is not a test",
    ),
    (
        concat!("#[al", "low("),
        "use #[expect(lint, reason = \"…\")]",
    ),
    (
        concat!("#![al", "low("),
        "use #![expect(lint, reason = \"…\")]",
    ),
];

// Local folders that no file may name.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

// Samples and snapshots quote documents, so they are not checked.
const CHECKED_EXTENSIONS: &[&str] = &[".rs", ".toml", ".sh", ".yaml", ".yml", ".md"];

/// The lines of a file with forbidden text.
pub fn violations(file: &File) -> Vec<String> {
    if file.path.starts_with("docs/samples/") {
        return Vec::new();
    }
    let numbered = file
        .text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line));
    numbered
        .flat_map(|(number, line)| line_violations(file, number, line))
        .collect()
}

fn line_violations(file: &File, number: usize, line: &str) -> Vec<String> {
    let at = format!("{}:{number}", file.path);
    let written = CHECKED_EXTENSIONS
        .iter()
        .any(|ending| file.path.ends_with(ending))
        || !file.path.contains('.');
    let words = FORBIDDEN_WORDS
        .iter()
        .filter(|(word, _)| written && has_word(line, word));
    let words = words.map(|(word, instead)| format!("{at} says `{word}`: {instead}"));
    let paths = MACHINE_PATHS.iter().filter(|path| has_path(line, path));
    let paths = paths.map(|path| format!("{at} names a folder of a machine ({path}…)"));
    words.chain(paths).collect()
}

// Whether `word` is a word of its own, not part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let goes_on_before = word.starts_with(inside) && line[..at].ends_with(inside);
        let goes_on_after = word.ends_with(inside) && line[at + word.len()..].starts_with(inside);
        !goes_on_before && !goes_on_after
    })
}

// Whether an absolute path begins with `path`. A folder of that name inside another path does not count.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        line[..at].ends_with("file://")
            || !before.is_some_and(|c| c.is_alphanumeric() || "./_-}*~$".contains(c))
    })
}

// Folders whose files documents may name.
const DOCUMENTED_FOLDERS: &[&str] = &["services/", "shared/", "tests/", "docs/"];

// What defines a name in Rust.
const KEYWORDS: &[&str] = &[
    "fn", "struct", "enum", "trait", "type", "const", "static", "mod",
];

fn is_document(file: &File) -> bool {
    file.path.ends_with(".md") && !file.path.starts_with("docs/samples/")
}

/// Names that a document places in a Rust file that does not define them: `` `name` (`file.rs`) `` and `` `name` in `file.rs` ``.
pub fn misplaced_names(file: &File, text_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    if !is_document(file) {
        return Vec::new();
    }
    let parts: Vec<&str> = file.text.split('`').collect();
    parts
        .windows(3)
        .skip(1)
        .step_by(2)
        .filter(|part| matches!(part[1].trim(), "(" | "in") && part[2].ends_with(".rs"))
        .filter_map(|part| {
            let name = part[0].rsplit("::").next()?;
            let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            let text = text_of(part[2]).filter(|_| is_name)?;
            let is_defined = KEYWORDS
                .iter()
                .any(|keyword| has_word(&text, &format!("{keyword} {name}")));
            (!is_defined).then(|| format!("{}: {} does not define {name}", file.path, part[2]))
        })
        .collect()
}

/// Files and folders that a document names in code marks and that do not exist.
pub fn missing_paths(file: &File, exists: impl Fn(&str) -> bool) -> Vec<String> {
    if !is_document(file) {
        return Vec::new();
    }
    let quoted = file.text.split('`').skip(1).step_by(2);
    let paths = quoted.filter_map(|code| code.split_whitespace().next());
    let paths = paths.filter(|path| {
        DOCUMENTED_FOLDERS.iter().any(|room| path.starts_with(room))
            && !path.contains(['*', '{', '<', '…'])
    });
    let missing = paths.filter(|path| !exists(path));
    missing
        .map(|path| format!("{} names {path}, which does not exist", file.path))
        .collect()
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
    fn no_file_contains_forbidden_text() {
        let files = files(&root()).unwrap();
        assert!(files.len() > 100, "nothing was looked at");
        assert_eq!(
            files.iter().flat_map(violations).collect::<Vec<_>>(),
            [""; 0]
        );
    }

    #[test]
    fn forbidden_words_are_violations() {
        for (word, _) in FORBIDDEN_WORDS {
            assert_eq!(check("a.rs", &format!("x {word} y")), 1, "{word}");
        }
        assert_eq!(check("a.rs", concat!("the TO", "DOs of a MASTODON")), 0);
        assert_eq!(check("tests/run", concat!("# FIX", "ME: later")), 1);
    }

    #[test]
    fn machine_paths_are_violations() {
        for path in MACHINE_PATHS {
            assert_eq!(check("a.json", &format!("\"{path}x\"")), 1, "{path}");
            assert_eq!(check("a.json", &format!("file://{path}x")), 1, "{path}");
            assert_eq!(check("a.json", &format!("shared{path}x")), 0, "{path}");
        }
    }

    #[test]
    fn documented_paths_exist() {
        let (root, files) = (root(), files(&root()).unwrap());
        let missing = files
            .iter()
            .flat_map(|file| missing_paths(file, |path| root.join(path).exists()));
        assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn missing_documented_paths_are_violations() {
        let text = "see `shared/a.rs` and `tests/run --fast`, not `shared/b/{x}` nor shared/c";
        let file = File {
            path: "docs/x.md".into(),
            text: text.into(),
        };
        assert_eq!(
            missing_paths(&file, |path| path == "tests/run"),
            ["docs/x.md names shared/a.rs, which does not exist"]
        );
    }

    #[test]
    fn documented_names_are_where_the_document_says() {
        let (root, files) = (root(), files(&root()).unwrap());
        let misplaced = files.iter().flat_map(|file| {
            misplaced_names(file, |path| std::fs::read_to_string(root.join(path)).ok())
        });
        assert_eq!(misplaced.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn misplaced_documented_names_are_violations() {
        let file = File {
            path: "docs/x.md".into(),
            text: "`one` (`a.rs`), `Two::three` in `a.rs`, `one`\n(`b.rs`), `four -l` in `a.rs`"
                .into(),
        };
        let text_of = |path: &str| (path == "a.rs").then(|| "pub fn one() {}".to_owned());
        assert_eq!(
            misplaced_names(&file, text_of),
            ["docs/x.md: a.rs does not define three"]
        );
    }
}
