//! Conversations: list, read, delete. `POST /v1/answers` continues one.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use stemma_archive::{ConversationDetails, ConversationList};
use stemma_gateway::AppState;
use stemma_gateway::admission::ModelRequest;
use stemma_gateway::extract::{
    CollectionQuery, HandlerResult, Path, QueryParams, json, page_limit,
};
use stemma_gateway::rights::CollectionScope;
use utoipa::IntoParams;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ConversationsQuery {
    collection: Option<String>,
    /// items per page, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page
    cursor: Option<String>,
}

/// List conversations, newest first
///
/// Needs the scope `ask`, since it shows what others asked.
#[utoipa::path(get, path = "/v1/conversations", operation_id = "conversations", tag = "answers", params(ConversationsQuery),
    responses((status = 200, body = ConversationList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    _: ModelRequest,
    scope: CollectionScope,
    QueryParams(query): QueryParams<ConversationsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let conversations = state.conversations(&archive.collection)?;
    let limit = page_limit(query.limit)?;
    json(conversations.list(query.cursor.as_deref(), limit).await?).await
}

/// Read a conversation
///
/// Its questions, and the texts of the answers that `GET /v1/answers/{id}` returns.
#[utoipa::path(get, path = "/v1/conversations/{id}", tag = "answers",
    params(("id" = String, Path, pattern = "^c-[0-9a-f]{28}$"), CollectionQuery),
    responses((status = 200, body = ConversationDetails)))]
pub(crate) async fn conversation(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let conversations = state.conversations(&archive.collection)?;
    let answerer = state.answerer(&archive)?;
    json(conversations.get(&id, answerer.as_ref()).await?).await
}

/// Delete a conversation
///
/// Its answers stay. Needs the scope `ask`.
#[utoipa::path(delete, path = "/v1/conversations/{id}", operation_id = "delete_conversation", tag = "answers",
    params(("id" = String, Path, pattern = "^c-[0-9a-f]{28}$"), CollectionQuery),
    responses((status = 204, description = "deleted")))]
pub(crate) async fn delete(
    State(state): State<AppState>,
    _: ModelRequest,
    scope: CollectionScope,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    state
        .conversations(&archive.collection)?
        .delete(&id)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
