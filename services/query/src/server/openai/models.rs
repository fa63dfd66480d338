//! `GET /v1/models`: collections, and the folders at their top.

use axum::extract::{Path, State};
use axum::http::request::Parts;
use serde_json::{Value, json};

use super::super::asked::{Answer, json as answered};
use super::super::keys::Reach;
use super::super::routes::Site;
use super::meant;

/// Folders of a collection that are listed as models.
const MAX_FOLDERS: usize = 100;

/// The models a key reaches. Every folder, axis path and document is one, too; only collections and the folders at their
/// top are listed.
pub(super) async fn list(site: State<Site>, parts: Parts) -> Answer {
    let reach = Reach::of(&parts);
    let mut models = Vec::new();
    for collection in site.collections(reach) {
        models.push(model(collection.as_str()));
        let Ok(reader) = site.reader(reach, Some(collection.as_str())) else { continue };
        let top = reader.list("/", false)?;
        let folders = top.folders.iter().take(MAX_FOLDERS);
        models.extend(folders.map(|folder| model(&format!("{collection}{}", folder.locator))));
    }
    answered(json!({ "object": "list", "data": models })).await
}

/// One model, where it names documents.
pub(super) async fn one(site: State<Site>, Path(name): Path<String>, parts: Parts) -> Answer {
    meant(&site, &parts, &name)?;
    answered(model(&name)).await
}

fn model(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "stemma" })
}
