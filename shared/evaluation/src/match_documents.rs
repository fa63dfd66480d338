//! Which document a truth is about.

use std::collections::HashMap;

use stemma_catalog::catalog::{Catalog, CatalogDocument};

/// Documents by what truths may call them.
pub(super) struct DocumentMatcher<'a> {
    names: HashMap<String, Vec<&'a CatalogDocument>>,
}

impl<'a> DocumentMatcher<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        let mut names: HashMap<String, Vec<&CatalogDocument>> = HashMap::new();
        for listed in catalog.documents() {
            let version = listed.version();
            let mut own = [
                version.path.clone(),
                listed.label.clone(),
                version.name.clone(),
                stem(&version.name).into(),
            ];
            own.sort();
            let mut last = None;
            for name in own {
                if last.as_ref() != Some(&name) {
                    names.entry(name.clone()).or_default().push(listed);
                }
                last = Some(name);
            }
        }
        Self { names }
    }

    /// The one document of this path, name or stem that has a tree; an error says why there is none.
    pub(super) fn find(&self, doc: &str) -> Result<&'a CatalogDocument, String> {
        let matches = self
            .names
            .get(doc)
            .or_else(|| self.names.get(stem(doc)))
            .map(Vec::as_slice)
            .unwrap_or_default();
        match matches {
            [] => Err("no document of this name".into()),
            [one] if one.entry().is_some() => Ok(one),
            [one] => Err(match &one.failure {
                Some(failure) => format!("it has no tree: {}", failure.message),
                None => format!("it has no tree yet: {}", one.state.as_str()),
            }),
            several => {
                let labels: Vec<&str> = several
                    .iter()
                    .take(5)
                    .map(|listed| listed.label.as_str())
                    .collect();
                Err(format!(
                    "{} documents have this name: {}",
                    several.len(),
                    labels.join(", ")
                ))
            }
        }
    }
}

/// A name without its ending, and without the mark of a copy whose outline was taken out.
fn stem(name: &str) -> &str {
    let lower = name.to_ascii_lowercase();
    let endings = [".pdf", ".md", ".markdown", ".txt", ".text"];
    let ending = endings
        .iter()
        .find(|ending| lower.ends_with(*ending))
        .map_or(0, |ending| ending.len());
    let name = &name[..name.len() - ending];
    name.strip_suffix(".blind").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_drop_extensions_and_copy_marks() {
        for (name, expected) in [
            ("a.b.PDF", "a.b"),
            ("a.blind.pdf", "a"),
            ("x.md", "x"),
            ("No. 5", "No. 5"),
            (".pdf", ""),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
