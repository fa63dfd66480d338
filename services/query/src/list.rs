//! Listing: folders, documents, axes.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::axes::{Axis, Scope, below};
use stemma_catalog::catalogue::Listed;
use stemma_catalog::filter::Filter;
use stemma_catalog::place::{self, Place};

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

/// What lies directly in a folder, documents not yet described.
pub(crate) struct Level<'a> {
    /// Documents in it, folders included.
    pub total: usize,
    pub folders: Vec<FolderView>,
    pub documents: Vec<&'a Listed>,
    pub axes: Vec<AxisView>,
}

impl Level<'_> {
    /// The names under which its documents are listed.
    pub fn leaves(&self, scope: &Scope) -> Vec<String> {
        let folders: Vec<&str> = self
            .folders
            .iter()
            .map(|folder| folder.name.as_str())
            .collect();
        place::leaves(scope, &self.documents, &folders)
    }
}

impl Reader {
    /// What lies in `scope`: a folder (`/10-K`), an axis (`/@company`), a value (`/@company/3M`), or one document.
    ///
    /// `recursive` lists the documents of folders below, too.
    ///
    /// # Errors
    /// [`Refusal`] when the scope names nothing, or two things.
    pub fn list(&self, scope: &str, recursive: bool) -> Result<ListView, Refusal> {
        let level = match self.catalogue.place(scope)? {
            Place::Folder(folder) => self.level(&folder, recursive),
            Place::Document { listed, .. } => Level {
                total: 1,
                folders: Vec::new(),
                documents: vec![listed],
                axes: Vec::new(),
            },
        };
        let documents = level
            .documents
            .iter()
            .map(|listed| DocumentView::of(listed))
            .collect();
        let Level {
            total,
            folders,
            axes,
            ..
        } = level;
        Ok(ListView {
            scope: scope.into(),
            total,
            folders,
            documents,
            axes,
        })
    }

    /// Documents in `scope` that fulfill a filter, those of folders below included.
    ///
    /// # Errors
    /// [`Refusal`] when the scope names nothing, or two things.
    pub fn list_where(&self, scope: &str, filter: &Filter) -> Result<ListView, Refusal> {
        let inside = self.in_scope(scope)?;
        let documents: Vec<DocumentView> = inside
            .into_iter()
            .filter(|listed| filter.holds(listed))
            .map(DocumentView::of)
            .collect();
        let total = documents.len();
        let folders = Vec::new();
        let axes = Vec::new();
        Ok(ListView {
            scope: scope.into(),
            total,
            folders,
            documents,
            axes,
        })
    }

    /// Whether a path names a folder or an axis, rather than a document or what lies in one.
    ///
    /// # Errors
    /// [`Refusal`] when it names nothing, or two things.
    pub fn is_folder(&self, path: &str) -> Result<bool, Refusal> {
        Ok(matches!(self.catalogue.place(path)?, Place::Folder(_)))
    }

    /// What lies directly in a folder; with `recursive`, all documents below it instead of folders.
    pub(crate) fn level(&self, scope: &Scope, recursive: bool) -> Level<'_> {
        if let Some(axis) = scope.values_of.filter(|_| !recursive) {
            let total = self
                .catalogue
                .documents()
                .iter()
                .filter(|listed| scope.holds(listed))
                .count();
            return Level {
                total,
                folders: self.values(scope, axis),
                documents: Vec::new(),
                axes: Vec::new(),
            };
        }
        let mut folders = BTreeMap::<&str, usize>::new();
        let mut documents = Vec::new();
        let mut total = 0;
        for listed in self
            .catalogue
            .documents()
            .iter()
            .filter(|listed| scope.holds(listed))
        {
            total += 1;
            let rest = below(&scope.folder, &listed.version().path).unwrap_or_default();
            // Axis paths are flat: their documents come from many folders.
            match rest.split_once('/') {
                Some((folder, _)) if !recursive && scope.filters.is_empty() => {
                    *folders.entry(folder).or_default() += 1;
                }
                _ => documents.push(listed),
            }
        }
        let folders = folders
            .into_iter()
            .map(|(name, documents): (&str, usize)| {
                let below = [scope.folder.as_str(), name]
                    .into_iter()
                    .filter(|part| !part.is_empty());
                let inside = Scope {
                    folder: below.collect::<Vec<_>>().join("/"),
                    ..Scope::default()
                };
                FolderView {
                    name: name.into(),
                    locator: inside.path(),
                    documents,
                }
            })
            .collect();
        let axes = if total > 1 {
            self.axes(scope)
        } else {
            Vec::new()
        };
        Level {
            total,
            folders,
            documents,
            axes,
        }
    }

    fn values(&self, scope: &Scope, axis: Axis) -> Vec<FolderView> {
        // A range gives way to the values in it.
        let filters = scope
            .filters
            .iter()
            .filter(|(on, _)| *on != axis)
            .cloned()
            .collect();
        let base = Scope {
            folder: scope.folder.clone(),
            filters,
            values_of: None,
        }
        .path();
        scope
            .groups(axis, &self.catalogue)
            .into_iter()
            .map(|group: stemma_catalog::axes::Group| {
                let locator = format!("{}{}", base.trim_end_matches('/'), group.choice.path(axis));
                FolderView {
                    name: group.name,
                    locator,
                    documents: group.documents,
                }
            })
            .collect()
    }

    /// Axes with more than one value here, which would narrow the listing.
    fn axes(&self, scope: &Scope) -> Vec<AxisView> {
        let base = Scope {
            values_of: None,
            ..scope.clone()
        }
        .path();
        // Dates of filing are narrowed from year to month, not again.
        let narrowed =
            |axis: &Axis| *axis == Axis::Filed && scope.filters.iter().any(|(on, _)| on == axis);
        let open = Axis::ALL.into_iter().filter(|axis| !narrowed(axis));
        open.map(|axis: Axis| {
            let values = scope.values(axis, &self.catalogue).len();
            let locator = format!("{}/@{}", base.trim_end_matches('/'), axis.as_str());
            AxisView {
                axis,
                locator,
                values,
            }
        })
        .filter(|axis| axis.values > 1)
        .collect()
    }
}
