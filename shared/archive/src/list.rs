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
    /// Order of the documents.
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
    pub documents: Vec<DocumentInfo>,
    /// Axes that narrow the listing.
    pub axes: Vec<FacetEntry>,
}

/// A folder, or a value of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FolderEntry {
    pub name: String,
    pub locator: String,
    /// Number of documents in it, with those of subfolders.
    pub documents: usize,
}

/// An axis and the number of its values in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FacetEntry {
    /// `company`, `form` …
    pub axis: &'static str,
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
            let path = path.trim_end_matches('/');
            format!("{path}{}", value_path(*facet, value))
        })
    }

    // A cursor is valid for the other pages of the same list only.
    fn cursor_key(&self) -> String {
        let words = self.words.as_deref().unwrap_or_default().to_lowercase();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let Self { filter, order, .. } = self;
        format!("{}\n{filter:?}\n{order}\n{words}", self.path())
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
        let folders: Vec<&str> = self.folders.iter().map(|it| it.name.as_str()).collect();
        path::file_names(scope, &self.documents, &folders)
    }
}

impl Archive {
    /// Lists a folder (`/10-K`), an axis (`/@company`), a value (`/@company/3M`), or one document. With a filter or words:
    /// the documents in it and its subfolders that match.
    pub fn list(&self, request: &ListRequest) -> Result<FolderListing, ApiError> {
        let contents = self.folder(request)?;
        Ok(FolderListing {
            scope: request.path(),
            total: contents.total,
            folders: contents.folders,
            documents: (contents.documents.iter())
                .map(|listed| DocumentInfo::from_catalog(listed))
                .collect(),
            axes: contents.axes,
        })
    }

    /// Like [`Archive::list`], with documents as the catalog has them.
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
            let mut documents: Vec<_> = contents
                .documents
                .into_iter()
                .map(|it| (order.position(&it), it))
                .collect();
            documents.sort_by(|(one, _), (other, _)| order.compare(one, other));
            contents.documents = documents.into_iter().map(|(_, it)| it).collect();
        }
        Ok(contents)
    }

    /// A page of the documents that [`Archive::select`] found for the request, in its order.
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
                .map(|it| DocumentInfo::from_catalog(it))
                .collect(),
            next_cursor,
            total,
        })
    }

    /// The documents in a scope and its subfolders that match.
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
        let level = match recursive || !scope.filters.is_empty() {
            true => FolderLevel {
                documents: self.catalog.list(&inside).collect::<PortResult<_>>()?,
                folders: Vec::new(),
            },
            false => self.catalog.folder_level(&scope.folder)?,
        };
        let folders = level
            .folders
            .into_iter()
            .map(|(name, documents)| FolderEntry {
                locator: scope.subfolder(&name).path(),
                name,
                documents,
            });
        let folders = folders.collect();
        let axes = match total {
            0 | 1 => Vec::new(),
            _ => self.narrowing_facets(scope)?,
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
        let base = scope.without(axis).path();
        let base = base.trim_end_matches('/');
        let buckets = scope.buckets(axis, &self.catalog)?;
        let entries = buckets.into_iter().map(|group| FolderEntry {
            locator: format!("{base}{}", group.selector.path(axis)),
            name: group.name,
            documents: group.documents,
        });
        Ok(entries.collect())
    }

    // Axes with more than one value, which would narrow the listing.
    fn narrowing_facets(&self, scope: &Scope) -> PortResult<Vec<FacetEntry>> {
        let path = Scope {
            values_of: None,
            ..scope.clone()
        }
        .path();
        let base = path.trim_end_matches('/');
        let mut entries = Vec::new();
        for facet in Property::facets() {
            // Filing dates are narrowed from year to month, and no further.
            let is_narrowed = scope.filters.iter().any(|(on, _)| *on == facet);
            let values = scope.value_count(facet, &self.catalog)?;
            if values > 1 && !(facet == Property::Filed && is_narrowed) {
                let axis = facet.facet_name();
                let locator = format!("{base}/@{axis}");
                entries.push(FacetEntry {
                    axis,
                    locator,
                    values,
                });
            }
        }
        Ok(entries)
    }
}
