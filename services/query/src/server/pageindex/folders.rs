//! Folders: those documents were ingested from, and the axes of the file-system view.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::axes::Scope;
use utoipa::ToSchema;

use super::super::asked::{Answer, Asked, json as answered};
use crate::mcp::dialect::is_root;
use crate::{Reader, Refusal};

/// Folders.
#[derive(Serialize, ToSchema)]
pub(in crate::server) struct Folders {
    /// All of them: the list is not divided.
    total: usize,
    folders: Vec<Folder>,
}

/// A folder: how many documents and folders lie directly in it.
#[derive(Serialize, ToSchema)]
struct Folder {
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
    responses((status = 200, body = Folders)))]
pub(in crate::server) async fn list(mut asked: Asked) -> Answer {
    let folders = match asked.parameters.text("parent_folder_id") {
        None => all(&asked.reader),
        Some(parent) => below(&asked.reader, if is_root(&parent) { "/" } else { &parent })?,
    };
    answered(Folders {
        total: folders.len(),
        folders,
    })
    .await
}

fn folder(id: &str, file_count: usize, children_count: usize) -> Folder {
    let (parent, name) = id.rsplit_once('/').unwrap_or(("", id));
    let parent_folder_id = (!parent.is_empty()).then(|| parent.to_owned());
    let id = id.to_owned();
    let name = name.to_owned();
    Folder {
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
fn all(reader: &Reader) -> Vec<Folder> {
    let mut counted: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for listed in reader.catalogue().documents() {
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
            let known = counted.contains_key(&parent);
            counted.entry(parent.clone()).or_default();
            if known {
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
fn below(reader: &Reader, parent: &str) -> Result<Vec<Folder>, Refusal> {
    let level = reader.level(&Scope::parse(parent, reader.catalogue())?, false);
    let real = level.folders.iter().map(|inside| {
        let deeper = Scope::parse(&inside.locator, reader.catalogue())
            .map(|scope| reader.level(&scope, false));
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
