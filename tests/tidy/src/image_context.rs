//! The build context of the image: the files that `.dockerignore` admits are enough to build.

use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::File;

const IGNORE_FILE: &str = ".dockerignore";

/// A `.dockerignore`, read as Docker reads it: the last line that matches a path, or a folder above it, decides.
pub struct DockerIgnore(Vec<Rule>);

struct Rule {
    pattern: Regex,
    admits: bool,
}

impl DockerIgnore {
    /// Parses the file; lines that are not a pattern match nothing.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rules = lines.map(str::trim).filter(|line| !line.is_empty());
        Self(rules.filter_map(Rule::parse).collect())
    }

    /// Whether the context contains a file; `path` is relative to the root, with `/`.
    pub fn admits(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at);
        let names: Vec<&str> = ends.map(|end| &path[..end]).chain([path]).collect();
        let matches = |rule: &&Rule| names.iter().any(|name| rule.pattern.is_match(name));
        self.0
            .iter()
            .rev()
            .find(matches)
            .is_none_or(|rule| rule.admits)
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Self> {
        let (admits, pattern) = match line.strip_prefix('!') {
            Some(pattern) => (true, pattern.trim()),
            None => (false, line),
        };
        let pattern = pattern.trim_start_matches("./").trim_matches('/');
        let mut expression = String::from("^");
        let mut rest = pattern.chars().peekable();
        while let Some(sign) = rest.next() {
            match sign {
                '*' if rest.next_if_eq(&'*').is_some() => {
                    // `**/` also matches no folder.
                    let folders = rest.next_if_eq(&'/').is_some();
                    expression.push_str(if folders { "(?:.*/)?" } else { ".*" });
                }
                '*' => expression.push_str("[^/]*"),
                '?' => expression.push_str("[^/]"),
                '[' | ']' | '-' | '^' => expression.push(sign),
                '\\' => expression.extend(rest.next().map(escaped).into_iter().flatten()),
                sign => expression.extend(escaped(sign)),
            }
        }
        expression.push('$');
        let pattern = Regex::new(&expression).ok()?;
        Some(Self { pattern, admits })
    }
}

fn escaped(sign: char) -> Vec<char> {
    regex::escape(sign.encode_utf8(&mut [0; 4]))
        .chars()
        .collect()
}

/// The paths of the context, below `root`.
///
/// # Errors
/// The error of the file system.
pub fn context_files(root: &Path) -> std::io::Result<Vec<String>> {
    let ignore = DockerIgnore::parse(&std::fs::read_to_string(root.join(IGNORE_FILE))?);
    let mut admitted = Vec::new();
    for path in crate::paths(root)? {
        if ignore.admits(&path) {
            admitted.push(path);
        }
    }
    Ok(admitted)
}

/// Files that a crate includes and that the context lacks.
pub fn violations(files: &[File]) -> Vec<String> {
    let Some(ignore) = files.iter().find(|file| file.path == IGNORE_FILE) else {
        return vec![format!("there is no {IGNORE_FILE}")];
    };
    let Ok(includes) = Regex::new(r#"\binclude(?:_str|_bytes)?!\(\s*"([^"]+)"\s*\)"#) else {
        return vec!["the pattern of includes is wrong".into()];
    };
    let ignore = DockerIgnore::parse(&ignore.text);
    let is_built = |file: &&File| {
        file.path.ends_with(".rs")
            && ["shared/", "services/"]
                .iter()
                .any(|top| file.path.starts_with(top))
    };
    let mut complaints = Vec::new();
    for file in files.iter().filter(is_built) {
        for captured in includes.captures_iter(&file.text) {
            let included = sibling(&file.path, &captured[1]);
            if !ignore.admits(&included) {
                let path = &file.path;
                complaints.push(format!(
                    "{path} includes {included}, which {IGNORE_FILE} keeps out of the image's context"
                ));
            }
        }
    }
    complaints
}

// The path of `name` in the folder of `path`.
fn sibling(path: &str, name: &str) -> String {
    let mut joined = PathBuf::new();
    for component in Path::new(path).with_file_name(name).components() {
        match component {
            Component::ParentDir => {
                joined.pop();
            }
            component => joined.push(component),
        }
    }
    joined.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    /// F1 of the operator review: the image could not be built, because a table of the documentation is compiled in.
    #[test]
    fn the_context_of_the_image_has_what_is_compiled_in() {
        let mut files = files(&root()).unwrap();
        assert_eq!(violations(&files), [""; 0]);
        let ignore = files.iter_mut().find(|file| file.path == IGNORE_FILE);
        let ignore = ignore.unwrap();
        ignore.text = ignore.text.replace("!docs/OBSERVING.md\n", "");
        let complaints = violations(&files);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("includes docs/OBSERVING.md"));
    }

    #[test]
    fn patterns_match_as_docker_matches_them() {
        let ignore = DockerIgnore::parse(
            "# comment\n*\n!Cargo.*\n!/src\n!docs/ONE.md\nsrc/bench\n**/*.log\n!src/**/keep.log\nsrc/a?\n",
        );
        for (path, admitted) in [
            ("Cargo.toml", true),
            ("README.md", false),
            ("docs/ONE.md", true),
            ("docs/TWO.md", false),
            ("src/main.rs", true),
            ("src/x/y/z.rs", true),
            ("src/bench/x.rs", false),
            ("src/benches/x.rs", true),
            ("src/x/a.log", false),
            ("src/x/keep.log", true),
            ("src/ab/c.rs", false),
            ("src/abc/c.rs", true),
        ] {
            assert_eq!(ignore.admits(path), admitted, "{path}");
        }
    }
}
