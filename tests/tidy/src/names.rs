//! Names and forms that a reader from the field would stumble over.
//!
//! Non-test code only: `shared/*/src` and `services/*/src`, without test modules.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::File;

/// Words that say nothing as a name: what was done to a thing, not what the thing is.
const DIALECT: &[&str] = &[
    "told",
    "said",
    "heard",
    "asked",
    "shown",
    "held",
    "kept",
    "wanted",
    "spent",
    "looked",
    "begun",
    "brought",
    "desk",
    "shelf",
    "purse",
    "librarian",
    "undertaker",
    "visitor",
];

/// Public types that share a name on purpose, each with a reason.
const SHARED_TYPE_NAMES: &[(&str, &str)] = &[];

/// Public types that share their name with another public type, and where.
pub fn shared_type_names(files: &[File]) -> Vec<String> {
    let mut places: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let Ok(definition) = Regex::new(r"(?m)^pub (?:struct|enum|trait) (\w+)") else {
        return Vec::new();
    };
    for file in files.iter().filter(|file| is_product(&file.path)) {
        for found in definition.captures_iter(&without_tests(&file.text)) {
            places
                .entry(found[1].to_string())
                .or_default()
                .insert(&file.path);
        }
    }
    places
        .into_iter()
        .filter(|(name, paths)| {
            paths.len() > 1 && !SHARED_TYPE_NAMES.iter().any(|(shared, _)| shared == name)
        })
        .map(|(name, paths)| {
            let paths: Vec<&str> = paths.into_iter().collect();
            format!("`{name}` is defined in {}", paths.join(" and "))
        })
        .collect()
}

/// Constructors called `of`, several bindings in one tuple `let`, and names from the list above.
pub fn violations(file: &File) -> Vec<String> {
    if !is_product(&file.path) {
        return Vec::new();
    }
    let words = DIALECT.join("|");
    let rules = [
        (
            r"\bfn of\b".to_string(),
            "name it `new`, `from_*` or `for_*`",
        ),
        (
            r"^\s*let \([^()=]*,[^()=]*\) = \(.*\);$".to_string(),
            "bind one name in each `let`",
        ),
        (
            format!(
                r"\b(?:fn|mod|const|static|let|let mut) (?:{words})\b|\b(?:struct|enum|trait|type) (?i:{words})\b"
            ),
            "say what it is, not what was done to it",
        ),
    ];
    let text = without_tests(&file.text);
    let mut violations = Vec::new();
    for (pattern, instead) in rules {
        let Ok(pattern) = Regex::new(&pattern) else {
            continue;
        };
        for (at, line) in text.lines().enumerate() {
            if pattern.is_match(line) && !line.trim_start().starts_with("//") {
                violations.push(format!(
                    "{}:{}: `{}`: {instead}",
                    file.path,
                    at + 1,
                    line.trim()
                ));
            }
        }
    }
    violations
}

pub(crate) fn is_product(path: &str) -> bool {
    let in_source = (path.starts_with("shared/") || path.starts_with("services/"))
        && path.contains("/src/")
        && path.ends_with(".rs");
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
    in_source && !is_test
}

/// The text up to its inline test module, which is last in a file.
pub(crate) fn without_tests(text: &str) -> String {
    match text.find("#[cfg(test)]\nmod tests {") {
        Some(at) => text[..at].to_string(),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    fn check(text: &str) -> usize {
        violations(&File {
            path: "shared/x/src/a.rs".into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn product_code_has_no_dialect_names() {
        let files = files(&root()).unwrap();
        let complaints: Vec<String> = files.iter().flat_map(violations).collect();
        assert_eq!(complaints, [""; 0]);
    }

    #[test]
    fn public_type_names_are_unique() {
        assert_eq!(shared_type_names(&files(&root()).unwrap()), [""; 0]);
    }

    #[test]
    fn dialect_names_are_violations() {
        assert_eq!(check("    pub fn of(text: &str) -> Self {"), 1);
        assert_eq!(check("    let (a, b) = (1, 2);"), 1);
        assert_eq!(check("    let told = 1;"), 1);
        assert_eq!(check("pub struct Told;"), 1);
        assert_eq!(check("    let (a, b) = pair();"), 0);
        assert_eq!(check("    // let told = 1;"), 0);
        assert_eq!(check("#[cfg(test)]\nmod tests {\n    let told = 1;\n}"), 0);
    }

    #[test]
    fn types_of_one_name_are_violations() {
        let file = |path: &str| File {
            path: path.into(),
            text: "pub struct Place;".into(),
        };
        let files = [file("shared/x/src/a.rs"), file("shared/y/src/b.rs")];
        assert_eq!(shared_type_names(&files).len(), 1);
        assert_eq!(shared_type_names(&files[..1]).len(), 0);
    }
}
