//! Imports between the files of a crate: no large circles, no long chains.
//!
//! A file in a circle can only be read together with all others of it, and a long chain means that a change at its end
//! reaches far. Imports of a parent module are not edges, because parents re-export.

use std::collections::{BTreeMap, BTreeSet};

use pathfinding::directed::strongly_connected_components::strongly_connected_components;
use regex::Regex;

use crate::File;
use crate::names::{is_product, without_tests};

/// Files in the largest circle that is allowed.
const MAX_CIRCLE: usize = 5;
/// Files in the longest chain that is allowed, where a circle counts as one.
const MAX_CHAIN: usize = 10;

/// The files that each file imports.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Circles and chains that are too long, per crate.
pub fn violations(files: &[File]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_product(&file.path)) {
        if let Some((folder, _)) = file.path.split_once("/src/") {
            crates.entry(folder).or_default().push(file);
        }
    }
    crates
        .into_values()
        .flat_map(|files| violations_of_crate(&files))
        .collect()
}

fn violations_of_crate(files: &[&File]) -> Vec<String> {
    let graph = import_graph(files);
    let nodes: Vec<&str> = graph.keys().copied().collect();
    // Sorted so that a component follows all that it imports.
    let components = strongly_connected_components(&nodes, |file| graph[file].clone());
    let component_of: BTreeMap<&str, usize> = components
        .iter()
        .enumerate()
        .flat_map(|(at, component)| component.iter().map(move |file| (*file, at)))
        .collect();
    let mut violations = Vec::new();
    let mut chains: Vec<Vec<&str>> = Vec::new();
    for (at, component) in components.iter().enumerate() {
        if component.len() > MAX_CIRCLE {
            violations.push(format!("circle of imports: {}", component.join(", ")));
        }
        let longest = component
            .iter()
            .flat_map(|file| &graph[file])
            .filter(|target| component_of[*target] != at)
            .filter_map(|target| chains.get(component_of[target]))
            .max_by_key(|chain| chain.len());
        let mut chain = vec![component[0]];
        chain.extend(longest.into_iter().flatten());
        chains.push(chain);
    }
    if let Some(chain) = chains.iter().max_by_key(|chain| chain.len())
        && chain.len() > MAX_CHAIN
    {
        let length = chain.len();
        violations.push(format!("chain of {length} imports: {}", chain.join(" > ")));
    }
    violations
}

fn import_graph<'a>(files: &[&'a File]) -> Graph<'a> {
    let modules: BTreeMap<Vec<&str>, &str> = files
        .iter()
        .map(|file| (module_path(&file.path), file.path.as_str()))
        .collect();
    let mut graph = Graph::new();
    for file in files {
        let module = module_path(&file.path);
        let targets = graph.entry(&file.path).or_default();
        for import in imports(&without_tests(&file.text), &module) {
            let import: Vec<&str> = import.iter().map(String::as_str).collect();
            // The longest prefix that is a file; what follows is an item of it.
            let target = (1..=import.len()).rev().find_map(|length| {
                let path = modules.get(&import[..length])?;
                Some((*path, module.starts_with(&import[..length])))
            });
            if let Some((path, false)) = target {
                targets.insert(path);
            }
        }
    }
    graph
}

/// `["a", "b"]` for `shared/x/src/a/b.rs` and for `shared/x/src/a/b/mod.rs`.
fn module_path(path: &str) -> Vec<&str> {
    let (_, inner) = path.split_once("/src/").unwrap_or_default();
    let mut module: Vec<&str> = inner.trim_end_matches(".rs").split('/').collect();
    if matches!(module.last(), Some(&("mod" | "lib" | "main"))) {
        module.pop();
    }
    module
}

/// All paths in `text` below `crate`, `super` and `self`, as paths from the root of the crate.
fn imports(text: &str, module: &[&str]) -> Vec<Vec<String>> {
    let (Ok(comment), Ok(start)) = (
        Regex::new(r"//[^\n]*"),
        Regex::new(r"\b(crate|self|(?:super::)*super)::"),
    ) else {
        return Vec::new();
    };
    let text = comment.replace_all(text, "");
    let mut paths = Vec::new();
    for found in start.captures_iter(&text) {
        let base = match &found[1] {
            "crate" => &module[..0],
            "self" => module,
            supers => {
                let levels = supers.split("::").count();
                &module[..module.len().saturating_sub(levels)]
            }
        };
        let base = base.iter().map(ToString::to_string).collect();
        read_use_tree(
            &text[found[0].len() + found.get(0).map_or(0, |all| all.start())..],
            base,
            &mut paths,
        );
    }
    paths
}

/// Reads `a::{b, c::d}` and returns the rest of the text.
fn read_use_tree<'a>(
    text: &'a str,
    mut path: Vec<String>,
    paths: &mut Vec<Vec<String>>,
) -> &'a str {
    let mut rest = text.trim_start();
    if let Some(mut list) = rest.strip_prefix('{') {
        loop {
            list = read_use_tree(list, path.clone(), paths);
            let Some(end) = list.find([',', '}']) else {
                return "";
            };
            let is_last = list[end..].starts_with('}');
            list = &list[end + 1..];
            if is_last || list.trim_start().starts_with('}') {
                return list;
            }
        }
    }
    let length = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    path.push(rest[..length].to_string());
    rest = &rest[length..];
    match rest.strip_prefix("::") {
        Some(rest) => read_use_tree(rest, path, paths),
        None => {
            paths.push(path);
            rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    fn file(path: &str, text: &str) -> File {
        File {
            path: format!("shared/x/src/{path}"),
            text: text.to_string(),
        }
    }

    #[test]
    fn files_of_a_crate_form_neither_large_circles_nor_long_chains() {
        assert_eq!(violations(&files(&root()).unwrap()), [""; 0]);
    }

    #[test]
    fn a_circle_of_six_files_is_a_violation() {
        let circle = |count: usize| -> Vec<File> {
            (0..count)
                .map(|at| {
                    file(
                        &format!("m{at}.rs"),
                        &format!("use crate::m{}::T;", (at + 1) % count),
                    )
                })
                .collect()
        };
        assert_eq!(violations(&circle(5)), [""; 0]);
        assert_eq!(violations(&circle(6)).len(), 1);
    }

    #[test]
    fn a_chain_of_eleven_files_is_a_violation() {
        let chain = |count: usize| -> Vec<File> {
            (0..count)
                .map(|at| file(&format!("m{at}.rs"), &format!("use super::m{}::T;", at + 1)))
                .collect()
        };
        assert_eq!(violations(&chain(10)), [""; 0]);
        assert_eq!(violations(&chain(11)).len(), 1);
    }

    #[test]
    fn grouped_imports_are_edges_and_parents_are_not() {
        let files = [
            file("a/mod.rs", ""),
            file("a/b.rs", "use super::{c::{self, C}, d::D};\nuse super::A;"),
            file(
                "a/c.rs",
                "// use super::b::B;\nfn f() { self::g(); crate::a::d::D {} }",
            ),
            file(
                "a/d.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::a::b::B;\n}\n",
            ),
        ];
        let files: Vec<&File> = files.iter().collect();
        let graph = import_graph(&files);
        let targets = |path: &str| -> Vec<&str> { graph[path].iter().copied().collect() };
        assert_eq!(
            targets("shared/x/src/a/b.rs"),
            ["shared/x/src/a/c.rs", "shared/x/src/a/d.rs"]
        );
        assert_eq!(targets("shared/x/src/a/c.rs"), ["shared/x/src/a/d.rs"]);
        assert_eq!(targets("shared/x/src/a/d.rs"), [""; 0]);
    }
}
