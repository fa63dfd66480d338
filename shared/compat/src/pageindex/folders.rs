//! Folders: those documents were ingested from, and the axes of the file-system view.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::facets::Scope;
use utoipa::ToSchema;

use stemma_archive::pageindex_fields::is_root;
use stemma_archive::{ApiError, Archive};
use stemma_gateway::extract::{ArchiveRequest, HandlerResult, json as answered};

/// Folders.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageIndexFolderList {
    /// All of them: the list is not divided.
    total: usize,
    folders: Vec<PageIndexFolder>,
}

/// A folder: how many documents and folders lie directly in it.
#[derive(Serialize, ToSchema)]
struct PageIndexFolder {
    /// Its path.
    id: String,
    /// The last part of it.
    name: String,
    /// Always null.
    description: Option<String>,
    /// Null at the top.
    parent_folder_id: Option<String>,
    /// Always null.
    created_at: Option<String>,
    /// Documents directly in it.
    file_count: usize,
    /// Folders directly in it.
    children_count: usize,
}

/// List folders
///
/// All folders; with `parent_folder_id`, those directly below it (`root`: at the top). An id is a path. Axes (`/@company`) and
/// their values are listed below their parent only: there may be very many of them.
#[utoipa::path(get, path = "/folders/", operation_id = "pageindex_folders", tag = "pageindex",
    params(("collection" = Option<String>, Query), ("parent_folder_id" = Option<String>, Query)),
    responses((status = 200, body = PageIndexFolderList)))]
pub(crate) async fn list(mut request: ArchiveRequest) -> HandlerResult {
    let folders = match request.parameters.text("parent_folder_id") {
        None => all(&request.archive),
        Some(parent) => below(
            &request.archive,
            if is_root(&parent) { "/" } else { &parent },
        )?,
    };
    answered(PageIndexFolderList {
        total: folders.len(),
        folders,
    })
    .await
}

fn folder(id: &str, file_count: usize, children_count: usize) -> PageIndexFolder {
    let (parent, name) = id.rsplit_once('/').unwrap_or(("", id));
    let parent_folder_id = (!parent.is_empty()).then(|| parent.to_owned());
    let id = id.to_owned();
    let name = name.to_owned();
    PageIndexFolder {
        id,
        name,
        description: None,
        parent_folder_id,
        created_at: None,
        file_count,
        children_count,
    }
}

/// Every folder that holds a document, or a folder that does.
fn all(archive: &Archive) -> Vec<PageIndexFolder> {
    let mut counted: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for listed in archive.catalog().documents() {
        let Some((path, _)) = listed.version().path.rsplit_once('/') else {
            continue;
        };
        let mut path = format!("/{path}");
        counted.entry(path.clone()).or_default().0 += 1;
        // Its parents, up to one that is counted already.
        while let Some((parent, _)) = path
            .rsplit_once('/')
            .filter(|(parent, _)| !parent.is_empty())
        {
            let parent = parent.to_owned();
            let is_counted = counted.contains_key(&parent);
            counted.entry(parent.clone()).or_default();
            if is_counted {
                break;
            }
            path = parent;
        }
    }
    let ids: Vec<String> = counted.keys().cloned().collect();
    for id in &ids {
        if let Some((parent, _)) = id.rsplit_once('/').filter(|(parent, _)| !parent.is_empty())
            && let Some(counts) = counted.get_mut(parent)
        {
            counts.1 += 1;
        }
    }
    counted
        .iter()
        .map(|(id, (documents, folders))| folder(id, *documents, *folders))
        .collect()
}

/// What lies directly below a folder, an axis, or a value of one.
fn below(archive: &Archive, parent: &str) -> Result<Vec<PageIndexFolder>, ApiError> {
    let level = archive.folder_contents(&Scope::parse(parent, archive.catalog())?, false);
    let real = level.folders.iter().map(|inside| {
        let deeper = Scope::parse(&inside.locator, archive.catalog())
            .map(|scope| archive.folder_contents(&scope, false));
        let (documents, folders) =
            deeper.map_or((0, 0), |level| (level.documents.len(), level.folders.len()));
        folder(&inside.locator, documents, folders)
    });
    let axes = level
        .axes
        .iter()
        .map(|axis| folder(&axis.locator, 0, axis.values));
    Ok(real.chain(axes).collect())
}
