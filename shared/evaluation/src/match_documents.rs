//! Finds the documents that gold data names.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use stemma_archive::ApiError;
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_document::SourceFormat;

use crate::SkippedEntry;
use crate::question::GoldQuestion;

/// Documents by path, locator, file name and file name without extension.
pub(super) struct DocumentMatcher {
    by_name: HashMap<String, Vec<Arc<CatalogDocument>>>,
}

/// The documents that a question names.
pub(super) struct ResolvedQuestion {
    /// The document of the question, if it names one.
    pub(super) document: Option<Arc<CatalogDocument>>,
    /// Gold pages that have a document, and their physical page numbers.
    pub(super) gold_pages: Vec<(Arc<CatalogDocument>, u32)>,
}

impl DocumentMatcher {
    pub(super) fn new(catalog: &Catalog) -> Result<Self, ApiError> {
        let mut by_name: HashMap<String, Vec<Arc<CatalogDocument>>> = HashMap::new();
        for document in catalog.documents() {
            let document = document?;
            let version = document.version();
            let names = BTreeSet::from([
                version.path.as_str(),
                document.label.as_str(),
                version.name.as_str(),
                stem(&version.name),
            ]);
            for name in names {
                let named = by_name.entry(name.into()).or_default();
                named.push(Arc::clone(&document));
            }
        }
        Ok(Self { by_name })
    }

    /// The only document of this name that has a tree.
    ///
    /// # Errors
    /// The reason why the entry is skipped.
    pub(super) fn find(&self, name: &str) -> Result<Arc<CatalogDocument>, String> {
        let matches = self
            .by_name
            .get(name)
            .or_else(|| self.by_name.get(stem(name)));
        match matches.map(Vec::as_slice).unwrap_or_default() {
            [] => Err("no document of this name".into()),
            [document] if document.entry().is_some() => Ok(Arc::clone(document)),
            [document] => Err(match &document.failure {
                Some(failure) => format!("it has no tree: {}", failure.message),
                None => format!("it has no tree yet: {}", document.state.as_str()),
            }),
            several => {
                let labels = several
                    .iter()
                    .take(5)
                    .map(|document| document.label.as_str());
                let labels = labels.collect::<Vec<_>>().join(", ");
                let count = several.len();
                Err(format!("{count} documents have this name: {labels}"))
            }
        }
    }

    /// The same; the reason why there is none goes to `skipped`.
    pub(super) fn find_or_skip(
        &self,
        name: &str,
        skipped: &mut Vec<SkippedEntry>,
    ) -> Option<Arc<CatalogDocument>> {
        let found = self.find(name);
        found
            .map_err(|reason| skipped.push(SkippedEntry::new(name, reason)))
            .ok()
    }

    /// # Errors
    /// The reason why the question is skipped.
    pub(super) fn resolve(&self, question: &GoldQuestion) -> Result<ResolvedQuestion, String> {
        let find = |name: &Option<String>| name.as_ref().map(|name| self.find(name)).transpose();
        let document = find(&question.doc)?;
        let mut gold_pages = Vec::new();
        for gold in &question.gold_pages {
            if let Some(document) = find(&gold.doc)?.or_else(|| document.clone()) {
                gold_pages.push((document, gold.page));
            }
        }
        Ok(ResolvedQuestion {
            document,
            gold_pages,
        })
    }
}

/// A file name without its extension and without the `.blind` of copies whose outline was removed.
fn stem(name: &str) -> &str {
    let name = match name.rsplit_once('.') {
        Some((stem, extension)) if SourceFormat::from_extension(extension).is_some() => stem,
        _ => name,
    };
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
