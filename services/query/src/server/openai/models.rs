//! `GET /v1/models`: collections, and the folders at their top.

use axum::extract::{Path, State};
use axum::http::request::Parts;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::asked::{Answer, json as answered};
use super::super::keys::Reach;
use super::super::routes::Site;
use super::meant;

/// Folders of a collection that are listed as models.
const MAX_FOLDERS: usize = 100;

/// Models.
#[derive(Serialize, ToSchema)]
pub(super) struct Models {
    /// `list`.
    object: &'static str,
    data: Vec<Model>,
}

/// A collection, or a part of one.
#[derive(Serialize, ToSchema)]
pub(super) struct Model {
    /// `default`, `default/10-K/2022`, `default/@company/3M`, `default/3M_2022_10K`.
    id: String,
    /// `model`.
    object: &'static str,
    /// Always 0.
    created: u64,
    /// `stemma`.
    owned_by: &'static str,
}

/// List models
///
/// Those a key reaches. Every folder, axis path and document is one, too; only collections and the first 100 folders at their
/// top are listed.
#[utoipa::path(get, path = "/v1/models", operation_id = "openai_models", tag = "openai", responses((status = 200, body = Models)))]
pub(super) async fn list(site: State<Site>, parts: Parts) -> Answer {
    let reach = Reach::of(&parts);
    let mut models = Vec::new();
    for collection in site.collections(reach) {
        models.push(model(collection.as_str()));
        let Ok(reader) = site.reader(reach, Some(collection.as_str())) else {
            continue;
        };
        let top = reader.list("/", false)?;
        let folders = top.folders.iter().take(MAX_FOLDERS);
        models.extend(folders.map(|folder| model(&format!("{collection}{}", folder.locator))));
    }
    answered(Models {
        object: "list",
        data: models,
    })
    .await
}

/// A model
///
/// Where it names documents.
#[utoipa::path(get, path = "/v1/models/{model}", operation_id = "openai_model", tag = "openai",
    params(("model" = String, Path, description = "a collection, a folder, an axis path or a document")),
    responses((status = 200, body = Model)))]
pub(super) async fn one(site: State<Site>, Path(name): Path<String>, parts: Parts) -> Answer {
    meant(&site, &parts, &name)?;
    answered(model(&name)).await
}

fn model(name: &str) -> Model {
    Model {
        id: name.to_owned(),
        object: "model",
        created: 0,
        owned_by: "stemma",
    }
}
