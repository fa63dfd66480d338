//! Required and forbidden contents of manifests.

use crate::File;

// All crates share one version, edition, licence and set of lints.
const REQUIRED_LINES: &[&str] = &[
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "publish.workspace = true",
    "[lints]\nworkspace = true",
];

const REQUIRED_WORKSPACE_LINES: &[&str] = &[
    "unsafe_code = \"forbid\"",
    "license = \"Apache-2.0\"",
    "unwrap_used = \"warn\"",
];

// The only allowed source of packages.
const ALLOWED_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Violations in a manifest or the lock file; none for other files.
pub fn violations(file: &File) -> Vec<String> {
    match file.path.as_str() {
        "Cargo.toml" => missing(file, REQUIRED_WORKSPACE_LINES),
        "Cargo.lock" => foreign_sources(file),
        ".cargo/config.toml" | ".cargo/config" => {
            vec![format!(
                "{}: where packages come from is the machine's business",
                file.path
            )]
        }
        path if path.ends_with("/Cargo.toml") => {
            let mut complaints = missing(file, REQUIRED_LINES);
            complaints.extend(misnamed(file));
            complaints.extend(own_versions(file));
            complaints
        }
        _ => Vec::new(),
    }
}

fn missing(file: &File, required: &[&str]) -> Vec<String> {
    let missing = required.iter().filter(|line| !file.text.contains(**line));
    missing
        .map(|line| format!("{} does not say `{}`", file.path, line.replace('\n', " ")))
        .collect()
}

fn foreign_sources(file: &File) -> Vec<String> {
    let sources = file
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("source = "));
    let foreign = sources.filter(|source| source.trim_matches('"') != ALLOWED_REGISTRY);
    foreign
        .map(|source| format!("Cargo.lock takes a package from {source}"))
        .collect()
}

// `shared/engine` is `stemma-engine`; only the binary is `stemma`.
fn misnamed(file: &File) -> Option<String> {
    let (_, folder) = file.path.strip_suffix("/Cargo.toml")?.split_once('/')?;
    let name = if folder == "stemma" {
        folder.to_string()
    } else {
        format!("stemma-{folder}")
    };
    let right = file.text.contains(&format!("name = \"{name}\"\n"));
    (!right).then(|| format!("{}: this crate is called {name}", file.path))
}

// Only the workspace manifest may hold versions.
fn own_versions(file: &File) -> Vec<String> {
    let mut section = String::new();
    let mut complaints = Vec::new();
    for line in file.text.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_string();
        } else if section != "workspace.dependencies"
            && section.ends_with("dependencies")
            && line.contains('=')
            && !line.contains("workspace = true")
        {
            complaints.push(format!("{}: `{line}` has a version of its own", file.path));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    fn check(path: &str, text: &str) -> Vec<String> {
        violations(&File {
            path: path.into(),
            text: text.into(),
        })
    }

    #[test]
    fn manifests_follow_the_rules() {
        let files = files(&root()).unwrap();
        assert!(
            files
                .iter()
                .filter(|file| file.path.ends_with("/Cargo.toml"))
                .count()
                >= 12,
            "nothing was looked at"
        );
        assert_eq!(
            files.iter().flat_map(violations).collect::<Vec<_>>(),
            [""; 0]
        );
    }

    #[test]
    fn deviating_manifests_are_violations() {
        let good = format!(
            "name = \"stemma-x\"\n{}\n[dependencies]\nserde.workspace = true\n",
            REQUIRED_LINES.join("\n")
        );
        assert_eq!(check("shared/x/Cargo.toml", &good), [""; 0]);
        assert_eq!(
            check("shared/y/Cargo.toml", &good),
            ["shared/y/Cargo.toml: this crate is called stemma-y"]
        );
        let own = good.replace("serde.workspace = true", "serde = \"1\"");
        assert_eq!(
            check("shared/x/Cargo.toml", &own),
            ["shared/x/Cargo.toml: `serde = \"1\"` has a version of its own"]
        );
        let lintless = good.replace("[lints]", "[other]");
        assert_eq!(
            check("shared/x/Cargo.toml", &lintless),
            ["shared/x/Cargo.toml does not say `[lints] workspace = true`"]
        );
    }

    #[test]
    fn packages_come_from_one_registry() {
        let git = "name = \"x\"\nsource = \"git+https://example.com/x\"\n";
        assert_eq!(
            check("Cargo.lock", git),
            ["Cargo.lock takes a package from \"git+https://example.com/x\""]
        );
        assert_eq!(
            check("Cargo.lock", &format!("source = \"{ALLOWED_REGISTRY}\"\n")),
            [""; 0]
        );
        assert_eq!(check(".cargo/config.toml", "").len(), 1);
    }
}
