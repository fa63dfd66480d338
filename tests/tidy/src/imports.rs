//! Which crate may import which. The two tables are the documentation: what they do not list is not allowed.

use serde_json::Value;

/// Every workspace crate, and the workspace crates it may import. `docs/adr/0007` explains the exceptions.
pub const WORKSPACE_CRATES: &[(&str, &[&str])] = &[
    ("stemma-document", &[]),
    ("stemma-edgar", &["stemma-document"]),
    ("stemma-store", &[]),
    ("stemma-engine", &["stemma-store"]),
    ("stemma-adapters", &["stemma-engine", "stemma-store"]),
    (
        "stemma-extract",
        &["stemma-document", "stemma-edgar", "stemma-reading"],
    ),
    ("stemma-llm", &["stemma-store"]),
    ("stemma-outline", &["stemma-document", "stemma-reading"]),
    (
        "stemma-ocr",
        &["stemma-document", "stemma-extract", "stemma-render"],
    ),
    ("stemma-render", &["stemma-document", "stemma-extract"]),
    ("stemma-xbrl", &["stemma-document"]),
    ("stemma-reading", &["stemma-document", "stemma-xbrl"]),
    (
        "stemma-pipeline",
        &[
            "stemma-document",
            "stemma-edgar",
            "stemma-engine",
            "stemma-extract",
            "stemma-llm",
            "stemma-outline",
            "stemma-reading",
            "stemma-store",
            "stemma-xbrl",
        ],
    ),
    (
        "stemma-catalog",
        &[
            "stemma-document",
            "stemma-reading",
            "stemma-store",
            "stemma-xbrl",
        ],
    ),
    (
        "stemma-retrieval",
        &[
            "stemma-catalog",
            "stemma-document",
            "stemma-llm",
            "stemma-reading",
            "stemma-store",
            "stemma-xbrl",
        ],
    ),
    (
        "stemma-diff",
        &[
            "stemma-catalog",
            "stemma-document",
            "stemma-reading",
            "stemma-store",
        ],
    ),
    (
        "stemma-verify",
        &["stemma-document", "stemma-reading", "stemma-xbrl"],
    ),
    (
        "stemma-answers",
        &[
            "stemma-catalog",
            "stemma-document",
            "stemma-llm",
            "stemma-reading",
            "stemma-retrieval",
            "stemma-store",
            "stemma-verify",
            "stemma-xbrl",
        ],
    ),
    (
        "stemma-archive",
        &[
            "stemma-answers",
            "stemma-catalog",
            "stemma-diff",
            "stemma-document",
            "stemma-extract",
            "stemma-outline",
            "stemma-reading",
            "stemma-retrieval",
            "stemma-store",
            "stemma-xbrl",
        ],
    ),
    (
        "stemma-evaluation",
        &[
            "stemma-answers",
            "stemma-archive",
            "stemma-catalog",
            "stemma-document",
            "stemma-reading",
        ],
    ),
    (
        "stemma-operations",
        &[
            "stemma-archive",
            "stemma-document",
            "stemma-engine",
            "stemma-llm",
            "stemma-pipeline",
            "stemma-store",
        ],
    ),
    (
        "stemma-gateway",
        &[
            "stemma-answers",
            "stemma-archive",
            "stemma-catalog",
            "stemma-document",
            "stemma-operations",
            "stemma-retrieval",
            "stemma-store",
        ],
    ),
    (
        "stemma-http",
        &[
            "stemma-answers",
            "stemma-archive",
            "stemma-catalog",
            "stemma-diff",
            "stemma-document",
            "stemma-gateway",
            "stemma-operations",
            "stemma-retrieval",
        ],
    ),
    (
        "stemma-compat",
        &[
            "stemma-answers",
            "stemma-archive",
            "stemma-catalog",
            "stemma-document",
            "stemma-extract",
            "stemma-gateway",
            "stemma-retrieval",
            "stemma-store",
        ],
    ),
    (
        "stemma-mcp",
        &[
            "stemma-answers",
            "stemma-archive",
            "stemma-catalog",
            "stemma-diff",
            "stemma-document",
            "stemma-extract",
            "stemma-gateway",
            "stemma-llm",
            "stemma-retrieval",
            "stemma-store",
        ],
    ),
    (
        "stemma-web",
        &[
            "stemma-answers",
            "stemma-archive",
            "stemma-catalog",
            "stemma-document",
            "stemma-gateway",
            "stemma-operations",
            "stemma-retrieval",
        ],
    ),
    (
        "stemma-boot",
        &["stemma-adapters", "stemma-engine", "stemma-store"],
    ),
    (
        "stemma-roles",
        &[
            "stemma-document",
            "stemma-engine",
            "stemma-pipeline",
            "stemma-store",
        ],
    ),
    (
        "stemma-query",
        &[
            "stemma-answers",
            "stemma-archive",
            "stemma-boot",
            "stemma-compat",
            "stemma-document",
            "stemma-engine",
            "stemma-extract",
            "stemma-gateway",
            "stemma-http",
            "stemma-mcp",
            "stemma-operations",
            "stemma-render",
            "stemma-store",
            "stemma-web",
        ],
    ),
    (
        "stemma",
        &[
            "stemma-adapters",
            "stemma-answers",
            "stemma-archive",
            "stemma-boot",
            "stemma-catalog",
            "stemma-diff",
            "stemma-document",
            "stemma-edgar",
            "stemma-engine",
            "stemma-evaluation",
            "stemma-extract",
            "stemma-gateway",
            "stemma-llm",
            "stemma-mcp",
            "stemma-ocr",
            "stemma-operations",
            "stemma-pipeline",
            "stemma-query",
            "stemma-render",
            "stemma-retrieval",
            "stemma-roles",
            "stemma-store",
            "stemma-xbrl",
        ],
    ),
];

/// Crates that may use only some names of another crate: importer, imported crate, allowed names.
pub const RESTRICTED_IMPORTS: &[(&str, &str, &[&str])] = &[
    // The read side decodes stored sources and asks child processes for images of pages; it never extracts.
    (
        "shared/archive/",
        "stemma_extract",
        &[
            "CodecError",
            "EncodedSource",
            "ExtractError",
            "ExtractJob",
            "Extractor",
            "ImageColor",
            "ImageRequest",
            "ImageScale",
            "Limits",
            "PageRegion",
            "Task",
        ],
    ),
    ("shared/compat/", "stemma_extract", &["EncodedSource"]),
    (
        "shared/mcp/",
        "stemma_extract",
        &["CodecError", "EncodedSource"],
    ),
    // Results are bounded in tokens; no surface calls a model by itself.
    ("shared/mcp/", "stemma_llm", &["tokens"]),
];

/// External crates that only some workspace crates may name, by prefix.
pub const RESTRICTED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("hayro", &["stemma-extract", "stemma-render"]),
    ("png", &["stemma-render"]),
    ("lopdf", &["stemma-extract"]),
    ("pulldown-cmark", &["stemma-extract", "stemma-reading"]),
    ("rten", &["stemma-ocr"]),
    ("lapin", &["stemma-adapters"]),
    ("redis", &["stemma-adapters"]),
    ("aws-", &["stemma-adapters"]),
    ("rustls", &["stemma-store"]),
    ("reqwest", &["stemma-llm"]),
    ("clap", &["stemma-boot", "stemma"]),
    ("figment", &["stemma-boot", "stemma"]),
    ("tracing-subscriber", &["stemma-boot", "stemma"]),
    ("tracing-opentelemetry", &["stemma-boot", "stemma"]),
    ("opentelemetry", &["stemma-boot", "stemma"]),
    ("metrics-exporter", &["stemma-boot", "stemma"]),
];

/// A dependency as a manifest declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub from: String,
    pub to: String,
    /// Whether only tests, examples and benches use it.
    pub dev: bool,
    pub from_tests: bool,
    pub to_tests: bool,
}

/// The declared dependencies in the output of `cargo metadata --no-deps`.
pub fn dependencies(metadata: &Value) -> Vec<Dependency> {
    let none = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let root = text(&metadata["workspace_root"]);
    let in_tests = |path: &str| {
        path.strip_prefix(&root)
            .is_some_and(|below| below.starts_with("/tests/"))
    };
    let packages = metadata["packages"].as_array().unwrap_or(&none);
    packages
        .iter()
        .flat_map(|package: &Value| {
            let from = text(&package["name"]);
            let from_tests = in_tests(&text(&package["manifest_path"]));
            list(&package["dependencies"])
                .into_iter()
                .map(move |dependency: Value| Dependency {
                    from: from.clone(),
                    to: text(&dependency["name"]),
                    dev: dependency["kind"] == "dev",
                    from_tests,
                    to_tests: in_tests(&text(&dependency["path"])),
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Imports that the tables do not allow. Crates under `tests/` may import anything; other crates may use
/// those in their own tests only.
pub fn violations(dependencies: &[Dependency]) -> Vec<String> {
    let judged = dependencies
        .iter()
        .filter(|dependency| !dependency.from_tests);
    judged.filter_map(violation).collect()
}

fn violation(
    Dependency {
        from,
        to,
        dev,
        to_tests,
        ..
    }: &Dependency,
) -> Option<String> {
    if *to_tests {
        return (!dev).then(|| format!("{from} imports {to}, which is for tests only"));
    }
    if *dev && from == to {
        return None; // its own tests, with its feature for tests
    }
    if to.starts_with("stemma") {
        return match WORKSPACE_CRATES.iter().find(|(name, _)| name == from) {
            None => Some(format!(
                "{from} has no line in the import table (tests/tidy/src/imports.rs)"
            )),
            Some((_, allowed)) if allowed.contains(&to.as_str()) => None,
            Some((_, allowed)) => Some(format!(
                "{from} imports {to}; it may import {}",
                quoted_list(allowed)
            )),
        };
    }
    let (_, rooms) = RESTRICTED_DEPENDENCIES
        .iter()
        .find(|(beginning, _)| to.starts_with(beginning))?;
    (!rooms.contains(&from.as_str()))
        .then(|| format!("{from} names {to}; only {} may", quoted_list(rooms)))
}

fn quoted_list(names: &[&str]) -> String {
    if names.is_empty() {
        "nothing of ours".into()
    } else {
        names.join(", ")
    }
}

/// Restricted names that a source file uses without permission. Test code is exempt: it may create what the
/// crate only reads.
pub fn restricted_import_violations(path: &str, text: &str) -> Vec<String> {
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    let rules = RESTRICTED_IMPORTS
        .iter()
        .filter(|(importer, ..)| path.starts_with(importer) && !is_test);
    let complaints = rules.flat_map(|(_, imported, allowed)| {
        let names = imported_names(text, imported)
            .into_iter()
            .filter(|name| !allowed.contains(&name.as_str()));
        names.map(move |name| {
            format!(
                "{path} uses {imported}::{name}; it may use {}",
                quoted_list(allowed)
            )
        })
    });
    complaints.collect()
}

// The names in `imported::name` and `imported::{name, other}`.
fn imported_names(text: &str, imported: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let after = text
        .split(imported)
        .skip(1)
        .filter_map(|rest| rest.strip_prefix("::"));
    let lists = after.map(|rest| match rest.strip_prefix('{') {
        Some(list) => list.split('}').next().unwrap_or_default(),
        None => rest.split(|c| !is_name(c)).next().unwrap_or_default(),
    });
    let names = lists
        .flat_map(|list| list.split(','))
        .map(|name| name.trim().split("::").next().unwrap_or_default());
    names
        .filter(|name| !name.is_empty() && *name != "self")
        .map(ToString::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;
    use crate::{files, root};

    fn metadata() -> Value {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
            .current_dir(root());
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    }

    fn dependency(from: &str, to: &str) -> Dependency {
        Dependency {
            from: from.into(),
            to: to.into(),
            dev: false,
            from_tests: false,
            to_tests: false,
        }
    }

    #[test]
    fn workspace_imports_follow_the_tables() {
        let dependencies = dependencies(&metadata());
        assert!(
            dependencies.contains(&dependency("stemma-pipeline", "stemma-engine")),
            "nothing was looked at"
        );
        assert_eq!(violations(&dependencies), [""; 0]);
    }

    /// `from`, the crates that it may import, those that these may import, and so on.
    fn reachable(from: &'static str) -> BTreeSet<&'static str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(name) = open.pop() {
            if reached.insert(name) {
                let rows = WORKSPACE_CRATES.iter().filter(|(own, _)| *own == name);
                open.extend(rows.flat_map(|(_, imports)| *imports));
            }
        }
        reached
    }

    /// The crates that import `imported`, directly or through others.
    fn reaching(imported: &str) -> Vec<&'static str> {
        WORKSPACE_CRATES
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| reachable(name).contains(imported))
            .collect()
    }

    // Whoever compiles a library must not pay for the clients of RabbitMQ, Redis and S3.
    #[test]
    fn only_programs_reach_the_clients_of_servers() {
        assert_eq!(
            reaching("stemma-adapters"),
            ["stemma-adapters", "stemma-boot", "stemma-query", "stemma"]
        );
    }

    // Reading, searching and answering need no job runtime; surfaces reach it through the jobs that they show.
    #[test]
    fn the_read_side_compiles_without_the_engine() {
        let reading = [
            "stemma-catalog",
            "stemma-retrieval",
            "stemma-diff",
            "stemma-answers",
            "stemma-archive",
            "stemma-evaluation",
            "stemma-llm",
        ];
        let reaching = reaching("stemma-engine");
        for name in reading {
            assert!(!reaching.contains(&name), "{name} imports stemma-engine");
        }
        assert!(
            reaching.contains(&"stemma-pipeline"),
            "nothing was looked at"
        );
    }

    #[test]
    fn every_table_row_names_a_crate() {
        let metadata = metadata();
        let packages = metadata["packages"].as_array().unwrap();
        for (name, _) in WORKSPACE_CRATES {
            assert!(
                packages.iter().any(|package| package["name"] == **name),
                "{name} is not a crate any more"
            );
        }
    }

    #[test]
    fn restricted_imports_are_respected() {
        let complaints = files(&root())
            .unwrap()
            .iter()
            .flat_map(|file| restricted_import_violations(&file.path, &file.text))
            .collect::<Vec<_>>();
        assert_eq!(complaints, [""; 0]);
    }

    #[test]
    fn unlisted_dependencies_are_violations() {
        let check = |from, to| violations(&[dependency(from, to)]).join("");
        assert_eq!(
            check("stemma-document", "stemma-engine"),
            "stemma-document imports stemma-engine; it may import nothing of ours"
        );
        assert_eq!(
            check("stemma-retrieval", "lopdf"),
            "stemma-retrieval names lopdf; only stemma-extract may"
        );
        assert_eq!(
            check("stemma-roles", "hayro-font"),
            "stemma-roles names hayro-font; only stemma-extract, stemma-render may"
        );
        assert!(check("stemma-new", "stemma-engine").contains("no line in the import table"));
        assert_eq!(check("stemma-roles", "serde"), "");
    }

    #[test]
    fn test_crates_are_only_imported_by_tests() {
        let tests = Dependency {
            from_tests: true,
            ..dependency("stemma-bench", "lopdf")
        };
        let filings = Dependency {
            to_tests: true,
            ..dependency("stemma-extract", "stemma-filings")
        };
        assert_eq!(
            violations(&[
                tests,
                Dependency {
                    dev: true,
                    ..filings.clone()
                }
            ]),
            [""; 0]
        );
        assert_eq!(violations(&[filings]).len(), 1);
    }

    #[test]
    fn widened_restricted_imports_are_violations() {
        let text =
            "use stemma_extract::{EncodedSource, Pool};\nfn f() { stemma_extract::pdf::read() }";
        assert_eq!(
            restricted_import_violations("shared/archive/src/lib.rs", text).len(),
            2
        );
        assert_eq!(
            restricted_import_violations("shared/archive/src/tests.rs", text),
            [""; 0]
        );
        assert_eq!(
            restricted_import_violations("shared/pipeline/src/lib.rs", text),
            [""; 0]
        );
    }
}
