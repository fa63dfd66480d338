//! Listing: folders, documents, axes.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_search::axes::{Axis, Scope, below, value_path};

use crate::{DocumentView, Reader, Refusal};

/// What lies in a place of the file-system view.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListView {
    /// The place, as asked.
    pub scope: String,
    /// Documents in it, folders included.
    pub total: usize,
    /// Folders, or values of an axis.
    pub folders: Vec<FolderView>,
    /// Documents.
    pub documents: Vec<DocumentView>,
    /// Axes by which it can be narrowed.
    pub axes: Vec<AxisView>,
}

/// A folder, or a value of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FolderView {
    /// Its name.
    pub name: String,
    /// What to paste back.
    pub locator: String,
    /// Documents below it.
    pub documents: usize,
}

/// An axis and how many values it has here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AxisView {
    /// `company`, `form` …
    pub axis: Axis,
    /// What to paste back.
    pub locator: String,
    /// Distinct values among the documents of this place.
    pub values: usize,
}

impl Reader {
    /// What lies in `scope`: a folder (`/10-K`), an axis (`/@company`), a value (`/@company/3M`), or one document.
    ///
    /// `recursive` lists the documents of folders below, too.
    ///
    /// # Errors
    /// [`Refusal`] when the scope names nothing, or two things.
    pub fn list(&self, scope: &str, recursive: bool) -> Result<ListView, Refusal> {
        let parsed = match Scope::parse(scope, &self.catalogue) {
            Ok(parsed) => parsed,
            Err(error) => match self.catalogue.resolve(scope) {
                Ok(listed) => return Ok(one(scope, DocumentView::of(listed))),
                Err(refused) if matches!(refused, stemma_search::locator::ResolveError::Ambiguous { .. }) => {
                    return Err(refused.into());
                }
                Err(refused) => return Err(if scope.starts_with('/') { error.into() } else { refused.into() }),
            },
        };
        let base = base_path(&parsed);
        if let Some(axis) = parsed.values_of {
            let inside = Scope { values_of: None, ..parsed };
            return Ok(self.values(scope, &inside, axis, &base));
        }
        let (mut folders, mut documents) = (BTreeMap::<&str, usize>::new(), Vec::new());
        let mut total = 0;
        for listed in self.catalogue.documents().iter().filter(|listed| parsed.holds(listed)) {
            total += 1;
            let rest = below(&parsed.folder, &listed.version().path).unwrap_or_default();
            // Axis paths are flat: their documents come from many folders.
            match rest.split_once('/') {
                Some((folder, _)) if !recursive && parsed.filters.is_empty() => {
                    *folders.entry(folder).or_default() += 1;
                }
                _ => documents.push(DocumentView::of(listed)),
            }
        }
        let folder = |(name, documents): (&str, usize)| {
            let locator = format!("{}/{name}", base.trim_end_matches('/'));
            FolderView { name: name.into(), locator, documents }
        };
        let folders = folders.into_iter().map(folder).collect();
        Ok(ListView { scope: scope.into(), total, folders, documents, axes: self.axes(&parsed, &base) })
    }

    fn values(&self, scope: &str, inside: &Scope, axis: Axis, base: &str) -> ListView {
        let base = base.trim_end_matches('/');
        let folder = |(value, documents): (String, usize)| {
            let locator = format!("{base}{}", value_path(axis, &value));
            FolderView { name: value, locator, documents }
        };
        let folders: Vec<FolderView> = inside.values(axis, &self.catalogue).into_iter().map(folder).collect();
        let total = folders.iter().map(|folder| folder.documents).sum();
        ListView { scope: scope.into(), total, folders, documents: Vec::new(), axes: Vec::new() }
    }

    /// Axes with more than one value here, which would narrow the listing.
    fn axes(&self, scope: &Scope, base: &str) -> Vec<AxisView> {
        let view = |axis: Axis| {
            let values = scope.values(axis, &self.catalogue).len();
            let locator = format!("{}/@{}", base.trim_end_matches('/'), axis.as_str());
            AxisView { axis, locator, values }
        };
        Axis::ALL.into_iter().map(view).filter(|axis| axis.values > 1).collect()
    }
}

fn one(scope: &str, document: DocumentView) -> ListView {
    ListView { scope: scope.into(), total: 1, folders: Vec::new(), documents: vec![document], axes: Vec::new() }
}

/// The scope as a path, values as they are compared.
fn base_path(scope: &Scope) -> String {
    let mut path = if scope.folder.is_empty() { String::new() } else { format!("/{}", scope.folder) };
    for (axis, value) in &scope.filters {
        path.push_str(&value_path(*axis, value));
    }
    if path.is_empty() { "/".into() } else { path }
}
