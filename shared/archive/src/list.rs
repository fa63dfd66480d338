//! Lists folders, documents and axes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_catalog::catalog::{CatalogDocument, DocumentSet, FolderLevel};
use stemma_catalog::document_order::DocumentOrder;
use stemma_catalog::facets::{Scope, value_path};
use stemma_catalog::path::{self, ResolvedPath};
use stemma_catalog::property::Property;
use stemma_store::PortResult;
use utoipa::{IntoParams, ToSchema};

use crate::request::parse_filter;
use crate::{ApiError, Archive, DocumentInfo, cursor};

/// Which documents to list: parameters of `GET /v1/documents` and `GET /v1/facets`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListRequest {
    /// a folder, an axis path or a document
    pub scope: Option<String>,
    /// typed filter: `(form=10-K or form=10-Q) and fiscal_year>=2020`, or JSON
    #[serde(rename = "where")]
    #[param(value_type = Option<String>)]
    pub filter: Option<Value>,
    /// words of name, path, issuer, form or description
    #[serde(rename = "q")]
    pub words: Option<String>,
    /// Values that narrow the scope.
    #[serde(skip)]
    #[param(ignore)]
    pub facets: BTreeMap<Property, String>,
    /// Include documents of subfolders. Conditions always do.
    #[serde(skip)]
    #[param(ignore)]
    pub recursive: bool,
    /// Of the documents.
    #[serde(skip)]
    #[param(ignore)]
    pub order: DocumentOrder,
}

/// A page of documents.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DocumentList {
    pub items: Vec<DocumentInfo>,
    /// Cursor of the next page; `null` on the last.
    pub next_cursor: Option<String>,
    /// Number of documents on all pages.
    pub total: usize,
}

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
    pub axis: &'static str,
    /// Locator.
    pub locator: String,
    /// Distinct values among the documents of the folder.
    pub values: usize,
}

/// The direct contents of a folder, with documents as listed in the catalog.
pub struct FolderContents {
    /// Number of documents, with those of subfolders.
    pub total: usize,
    pub folders: Vec<FolderEntry>,
    pub documents: Vec<Arc<CatalogDocument>>,
    pub axes: Vec<FacetEntry>,
}

impl ListRequest {
    /// Everything directly in a folder, an axis or a value.
    pub fn new(scope: impl Into<String>) -> Self {
        Self {
            scope: Some(scope.into()),
            ..Self::default()
        }
    }

    // The scope, narrowed by the facets.
    fn path(&self) -> String {
        let scope = self.scope.clone().unwrap_or_default();
        self.facets.iter().fold(scope, |path, (facet, value)| {
            format!(
                "{}{}",
                path.trim_end_matches('/'),
                value_path(*facet, value)
            )
        })
    }

    // A cursor is valid for the other pages of the same list only.
    fn cursor_key(&self) -> String {
        let words = self.words.as_deref().unwrap_or_default().to_lowercase();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        format!(
            "{}\n{:?}\n{}\n{words}",
            self.path(),
            self.filter,
            self.order
        )
    }
}

impl FolderContents {
    pub(crate) fn from_documents(documents: Vec<Arc<CatalogDocument>>) -> Self {
        Self {
            total: documents.len(),
            folders: Vec::new(),
            documents,
            axes: Vec::new(),
        }
    }

    // The names under which its documents are listed.
    pub(crate) fn leaf_names(&self, scope: &Scope) -> Vec<String> {
        let folders: Vec<&str> = self
            .folders
            .iter()
            .map(|folder| folder.name.as_str())
            .collect();
        path::file_names(scope, &self.documents, &folders)
    }
}

impl Archive {
    /// Lists a folder (`/10-K`), an axis (`/@company`), a value (`/@company/3M`), or one document. With a filter or words:
    /// the documents in it and its subfolders that match.
    ///
    /// # Errors
    /// [`ApiError`] when the scope names nothing, or two things, or the filter is invalid.
    pub fn list(&self, request: &ListRequest) -> Result<FolderListing, ApiError> {
        let contents = self.folder(request)?;
        Ok(FolderListing {
            scope: request.path(),
            total: contents.total,
            folders: contents.folders,
            documents: contents
                .documents
                .iter()
                .map(|listed| DocumentInfo::from_catalog(listed))
                .collect(),
            axes: contents.axes,
        })
    }

    /// Like [`Archive::list`], with documents as the catalog has them.
    ///
    /// # Errors
    /// As [`Archive::list`].
    pub fn folder(&self, request: &ListRequest) -> Result<FolderContents, ApiError> {
        let order = request.order;
        if request.filter.is_some() || request.words.is_some() {
            let documents = self.select(request)?;
            let documents = self.catalog.list_ordered(&documents, order, None);
            return Ok(FolderContents::from_documents(
                documents.collect::<PortResult<_>>()?,
            ));
        }
        let mut contents = match self.catalog.resolve_path(&request.path())? {
            ResolvedPath::Folder(folder) => self.folder_contents(&folder, request.recursive)?,
            ResolvedPath::Document { listed, .. } => FolderContents::from_documents(vec![listed]),
        };
        if order != DocumentOrder::default() {
            let positions = contents.documents.into_iter();
            let mut documents: Vec<_> = positions.map(|it| (order.position(&it), it)).collect();
            documents.sort_by(|(one, _), (other, _)| order.compare(one, other));
            contents.documents = documents.into_iter().map(|(_, it)| it).collect();
        }
        Ok(contents)
    }

    /// A page of the documents in a scope and its subfolders that match, in the order of the request.
    ///
    /// # Errors
    /// As [`Archive::list`], and for a cursor of another list.
    pub fn list_documents(
        &self,
        request: &ListRequest,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<DocumentList, ApiError> {
        self.list_selected(&self.select(request)?, request, limit, cursor)
    }

    /// A page of the documents that [`Archive::select`] found for the request.
    ///
    /// # Errors
    /// As [`Archive::list_documents`].
    pub fn list_selected(
        &self,
        selected: &DocumentSet,
        request: &ListRequest,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<DocumentList, ApiError> {
        let cursor_key = request.cursor_key();
        let after = cursor.map(|cursor| {
            let position = cursor::decode(cursor, &cursor_key)?;
            serde_json::from_str(&position).map_err(|_| cursor::invalid())
        });
        let total = selected.len();
        let order = request.order;
        let mut rest = self
            .catalog
            .list_ordered(selected, order, after.transpose()?);
        let page = rest.by_ref().take(limit).collect::<PortResult<Vec<_>>>()?;
        let last = page.last().filter(|_| rest.next().is_some());
        let next_cursor = last.map(|last| {
            let position = serde_json::json!(order.position(last));
            cursor::encode(&cursor_key, &position.to_string())
        });
        Ok(DocumentList {
            items: page
                .iter()
                .map(|listed| DocumentInfo::from_catalog(listed))
                .collect(),
            next_cursor,
            total,
        })
    }

    /// The documents in a scope and its subfolders that match.
    ///
    /// # Errors
    /// As [`Archive::list`].
    pub fn select(&self, request: &ListRequest) -> Result<DocumentSet, ApiError> {
        let filter = parse_filter(request.filter.as_ref())?;
        let documents = match self.scope_set(&request.path()) {
            // No document has the value of a facet.
            Err(error) if error.is_not_found() && !request.facets.is_empty() => {
                DocumentSet::default()
            }
            documents => documents?,
        };
        let documents = documents.and(&self.catalog.matching(&filter)?);
        let words = request.words.as_deref().unwrap_or_default();
        Ok(self.catalog.containing_words(&documents, words)?)
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

    // The direct contents of a folder; with `recursive`, all documents below it and no folders.
    pub(crate) fn folder_contents(
        &self,
        scope: &Scope,
        recursive: bool,
    ) -> PortResult<FolderContents> {
        let inside = self.catalog.in_scope(scope)?;
        let total = inside.len();
        if let Some(axis) = scope.values_of.filter(|_| !recursive) {
            return Ok(FolderContents {
                total,
                folders: self.facet_values(scope, axis)?,
                documents: Vec::new(),
                axes: Vec::new(),
            });
        }
        // Axis paths are flat: their documents come from many folders.
        let level = if recursive || !scope.filters.is_empty() {
            let documents = self.catalog.list(&inside).collect::<PortResult<_>>()?;
            FolderLevel {
                documents,
                folders: Vec::new(),
            }
        } else {
            self.catalog.folder_level(&scope.folder)?
        };
        let folders = level
            .folders
            .into_iter()
            .map(|(name, documents)| {
                let below = [scope.folder.as_str(), &name]
                    .into_iter()
                    .filter(|part| !part.is_empty());
                let inside = Scope {
                    folder: below.collect::<Vec<_>>().join("/"),
                    ..Scope::default()
                };
                FolderEntry {
                    name,
                    locator: inside.path(),
                    documents,
                }
            })
            .collect();
        let axes = if total > 1 {
            self.narrowing_facets(scope)?
        } else {
            Vec::new()
        };
        Ok(FolderContents {
            total,
            folders,
            documents: level.documents,
            axes,
        })
    }

    fn facet_values(&self, scope: &Scope, axis: Property) -> PortResult<Vec<FolderEntry>> {
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
        let buckets = scope.buckets(axis, &self.catalog)?.into_iter();
        let entries = buckets.map(|group| {
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
        });
        Ok(entries.collect())
    }

    // Axes with more than one value, which would narrow the listing.
    fn narrowing_facets(&self, scope: &Scope) -> PortResult<Vec<FacetEntry>> {
        let base = Scope {
            values_of: None,
            ..scope.clone()
        }
        .path();
        // Filing dates are narrowed from year to month, and no further.
        let is_filed_narrowed = scope
            .filters
            .iter()
            .any(|(axis, _)| *axis == Property::Filed);
        let open = Property::facets().filter(|axis| *axis != Property::Filed || !is_filed_narrowed);
        let mut entries = Vec::new();
        for axis in open {
            let values = scope.value_count(axis, &self.catalog)?;
            let locator = format!("{}/@{}", base.trim_end_matches('/'), axis.facet_name());
            if values > 1 {
                entries.push(FacetEntry {
                    axis: axis.facet_name(),
                    locator,
                    values,
                });
            }
        }
        Ok(entries)
    }
}
