//! Lists folders, documents and axes.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::{FacetField, Scope, path_below};
use stemma_catalog::filter::Filter;
use stemma_catalog::path::{self, ResolvedPath};

use crate::{ApiError, Archive, DocumentInfo};

/// The contents of a folder or axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FolderListing {
    /// The requested path.
    pub scope: String,
    /// Number of documents, with those of subfolders.
    pub total: usize,
    /// Folders, or values of an axis.
    pub folders: Vec<FolderEntry>,
    /// Documents.
    pub documents: Vec<DocumentInfo>,
    /// Axes that narrow the listing.
    pub axes: Vec<FacetEntry>,
}

/// A folder, or a value of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FolderEntry {
    /// Its name.
    pub name: String,
    /// Locator.
    pub locator: String,
    /// Number of documents in it, with those of subfolders.
    pub documents: usize,
}

/// An axis and the number of its values in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FacetEntry {
    /// `company`, `form` …
    pub axis: FacetField,
    /// Locator.
    pub locator: String,
    /// Distinct values among the documents of the folder.
    pub values: usize,
}

/// The direct contents of a folder, with documents as listed in the catalog.
pub struct FolderContents<'a> {
    /// Number of documents, with those of subfolders.
    pub total: usize,
    pub folders: Vec<FolderEntry>,
    pub documents: Vec<&'a CatalogDocument>,
    pub axes: Vec<FacetEntry>,
}

impl FolderContents<'_> {
    /// The names under which its documents are listed.
    pub fn leaf_names(&self, scope: &Scope) -> Vec<String> {
        let folders: Vec<&str> = self
            .folders
            .iter()
            .map(|folder| folder.name.as_str())
            .collect();
        path::file_names(scope, &self.documents, &folders)
    }
}

impl Archive {
    /// Lists `scope`: a folder (`/10-K`), an axis (`/@company`), a value (`/@company/3M`), or one document.
    ///
    /// `recursive` includes documents of subfolders.
    ///
    /// # Errors
    /// [`ApiError`] when the scope names nothing, or two things.
    pub fn list(&self, scope: &str, recursive: bool) -> Result<FolderListing, ApiError> {
        let level = match self.catalog.resolve_path(scope)? {
            ResolvedPath::Folder(folder) => self.folder_contents(&folder, recursive),
            ResolvedPath::Document { listed, .. } => FolderContents {
                total: 1,
                folders: Vec::new(),
                documents: vec![listed],
                axes: Vec::new(),
            },
        };
        let documents = level
            .documents
            .iter()
            .map(|listed| DocumentInfo::from_catalog(listed))
            .collect();
        let FolderContents {
            total,
            folders,
            axes,
            ..
        } = level;
        Ok(FolderListing {
            scope: scope.into(),
            total,
            folders,
            documents,
            axes,
        })
    }

    /// Lists documents in `scope` and its subfolders that match a filter.
    ///
    /// # Errors
    /// [`ApiError`] when the scope names nothing, or two things.
    pub fn list_filtered(&self, scope: &str, filter: &Filter) -> Result<FolderListing, ApiError> {
        let inside = self.documents_in_scope(scope)?;
        let documents: Vec<DocumentInfo> = inside
            .into_iter()
            .filter(|listed| filter.matches(listed))
            .map(DocumentInfo::from_catalog)
            .collect();
        let total = documents.len();
        let folders = Vec::new();
        let axes = Vec::new();
        Ok(FolderListing {
            scope: scope.into(),
            total,
            folders,
            documents,
            axes,
        })
    }

    /// Whether a path names a folder or an axis, rather than a document or a part of one.
    ///
    /// # Errors
    /// [`ApiError`] when it names nothing, or two things.
    pub fn is_folder(&self, path: &str) -> Result<bool, ApiError> {
        Ok(matches!(
            self.catalog.resolve_path(path)?,
            ResolvedPath::Folder(_)
        ))
    }

    /// The direct contents of a folder; with `recursive`, all documents below it and no folders.
    pub fn folder_contents(&self, scope: &Scope, recursive: bool) -> FolderContents<'_> {
        if let Some(axis) = scope.values_of.filter(|_| !recursive) {
            let total = self
                .catalog
                .documents()
                .iter()
                .filter(|listed| scope.contains(listed))
                .count();
            return FolderContents {
                total,
                folders: self.facet_values(scope, axis),
                documents: Vec::new(),
                axes: Vec::new(),
            };
        }
        let mut folders = BTreeMap::<&str, usize>::new();
        let mut documents = Vec::new();
        let mut total = 0;
        for listed in self
            .catalog
            .documents()
            .iter()
            .filter(|listed| scope.contains(listed))
        {
            total += 1;
            let rest = path_below(&scope.folder, &listed.version().path).unwrap_or_default();
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
                FolderEntry {
                    name: name.into(),
                    locator: inside.path(),
                    documents,
                }
            })
            .collect();
        let axes = if total > 1 {
            self.narrowing_facets(scope)
        } else {
            Vec::new()
        };
        FolderContents {
            total,
            folders,
            documents,
            axes,
        }
    }

    fn facet_values(&self, scope: &Scope, axis: FacetField) -> Vec<FolderEntry> {
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
            .buckets(axis, &self.catalog)
            .into_iter()
            .map(|group: stemma_catalog::facets::FacetBucket| {
                let locator = format!(
                    "{}{}",
                    base.trim_end_matches('/'),
                    group.selector.path(axis)
                );
                FolderEntry {
                    name: group.name,
                    locator,
                    documents: group.documents,
                }
            })
            .collect()
    }

    // Axes with more than one value, which would narrow the listing.
    fn narrowing_facets(&self, scope: &Scope) -> Vec<FacetEntry> {
        let base = Scope {
            values_of: None,
            ..scope.clone()
        }
        .path();
        // Filing dates are narrowed from year to month, and no further.
        let is_filed_narrowed = scope
            .filters
            .iter()
            .any(|(axis, _)| *axis == FacetField::Filed);
        let open = FacetField::ALL
            .into_iter()
            .filter(|axis| *axis != FacetField::Filed || !is_filed_narrowed);
        open.map(|axis: FacetField| {
            let values = scope.values(axis, &self.catalog).len();
            let locator = format!("{}/@{}", base.trim_end_matches('/'), axis.as_str());
            FacetEntry {
                axis,
                locator,
                values,
            }
        })
        .filter(|axis| axis.values > 1)
        .collect()
    }
}
