//! PageIndex folders: folders of ingested documents and the axes of the file-system view.

use std::collections::BTreeMap;
use stemma_store::PortResult;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use stemma_archive::pageindex_fields::is_root;
use stemma_archive::{ApiError, Archive, ListRequest};
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, QueryParams, json};
use stemma_gateway::rights::CollectionScope;
use utoipa::{IntoParams, ToSchema};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FoldersQuery {
    collection: Option<String>,
    parent_folder_id: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct PageIndexFolderList {
    /// Complete: the list is not paginated.
    total: usize,
    folders: Vec<PageIndexFolder>,
}

#[derive(Serialize, ToSchema)]
struct PageIndexFolder {
    /// Path.
    id: String,
    /// Last segment of the path.
    name: String,
    /// Always null.
    description: Option<String>,
    /// Null at the top level.
    parent_folder_id: Option<String>,
    /// Always null.
    created_at: Option<String>,
    /// Number of direct documents.
    file_count: usize,
    /// Number of direct subfolders.
    children_count: usize,
}

/// List folders
///
/// All folders, or the direct subfolders of `parent_folder_id` (`root` for the top level). Ids are paths. Axes (`/@company`)
/// and their values are only listed below their parent, because they can be many.
#[utoipa::path(get, path = "/folders/", operation_id = "pageindex_folders", tag = "pageindex",
    params(FoldersQuery), responses((status = 200, body = PageIndexFolderList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    collections: CollectionScope,
    QueryParams(query): QueryParams<FoldersQuery>,
) -> HandlerResult {
    let archive = state.archive(&collections, query.collection.as_deref())?;
    let folders = match query.parent_folder_id {
        None => all(&archive).map_err(ApiError::from)?,
        Some(parent) => below(&archive, if is_root(&parent) { "/" } else { &parent })?,
    };
    json(PageIndexFolderList {
        total: folders.len(),
        folders,
    })
    .await
}

fn folder(id: &str, file_count: usize, children_count: usize) -> PageIndexFolder {
    let (parent, name) = id.rsplit_once('/').unwrap_or(("", id));
    PageIndexFolder {
        id: id.to_owned(),
        name: name.to_owned(),
        description: None,
        parent_folder_id: (!parent.is_empty()).then(|| parent.to_owned()),
        created_at: None,
        file_count,
        children_count,
    }
}

fn all(archive: &Archive) -> PortResult<Vec<PageIndexFolder>> {
    // With the documents of their subfolders.
    let totals = archive.catalog().folders()?;
    let mut listed: BTreeMap<String, PageIndexFolder> = (totals.iter())
        .map(|(path, documents)| (path.clone(), folder(&format!("/{path}"), *documents, 0)))
        .collect();
    for (path, documents) in &totals {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        if let Some(parent) = parent.and_then(|parent| listed.get_mut(parent)) {
            parent.file_count -= documents;
            parent.children_count += 1;
        }
    }
    Ok(listed.into_values().collect())
}

fn below(archive: &Archive, parent: &str) -> Result<Vec<PageIndexFolder>, ApiError> {
    let level = archive.folder(&ListRequest::new(parent))?;
    let real = level.folders.iter().map(|inside| {
        let deeper = archive.folder(&ListRequest::new(inside.locator.as_str()));
        let (documents, folders) =
            deeper.map_or((0, 0), |level| (level.documents.len(), level.folders.len()));
        folder(&inside.locator, documents, folders)
    });
    let axes = (level.axes.iter()).map(|axis| folder(&axis.locator, 0, axis.values));
    Ok(real.chain(axes).collect())
}
