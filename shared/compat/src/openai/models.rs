//! `GET /v1/models`: collections and their top-level folders.

use axum::extract::State;
use serde::Serialize;
use stemma_archive::ListRequest;
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, Path, json};
use stemma_gateway::rights::CollectionScope;
use utoipa::ToSchema;

use crate::openai::resolve_model;

const MAX_FOLDERS: usize = 100;

#[derive(Serialize, ToSchema)]
pub(super) struct ModelList {
    /// `list`.
    object: &'static str,
    data: Vec<OpenAiModel>,
}

/// A collection or a part of it.
#[derive(Serialize, ToSchema)]
pub(super) struct OpenAiModel {
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
/// Lists visible collections and the first 100 top-level folders of each. Every folder, axis path and document is also a
/// model.
#[utoipa::path(get, path = "/v1/models", operation_id = "openai_models", tag = "openai", responses((status = 200, body = ModelList)))]
pub(super) async fn list(
    State(state): State<AppState>,
    collections: CollectionScope,
) -> HandlerResult {
    let mut models = Vec::new();
    for collection in state.visible_collections(&collections) {
        models.push(model(collection.as_str()));
        let Ok(reader) = state.archive(&collections, Some(collection.as_str())) else {
            continue;
        };
        let top = reader.list(&ListRequest::default())?;
        let folders = top.folders.iter().take(MAX_FOLDERS);
        models.extend(folders.map(|folder| model(&format!("{collection}{}", folder.locator))));
    }
    json(ModelList {
        object: "list",
        data: models,
    })
    .await
}

/// A model
///
/// Returns the model if it names documents.
#[utoipa::path(get, path = "/v1/models/{*model}", operation_id = "openai_model", tag = "openai",
    params(("model" = String, Path, description = "a collection, a folder, an axis path or a document")),
    responses((status = 200, body = OpenAiModel)))]
pub(super) async fn one(
    State(state): State<AppState>,
    collections: CollectionScope,
    Path(name): Path<String>,
) -> HandlerResult {
    resolve_model(&state, &collections, &name)?;
    json(model(&name)).await
}

fn model(name: &str) -> OpenAiModel {
    OpenAiModel {
        id: name.to_owned(),
        object: "model",
        created: 0,
        owned_by: "stemma",
    }
}
