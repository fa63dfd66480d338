//! The health of the store and its services, and dead letters.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use stemma_gateway::AppState;
use stemma_gateway::admission::WriteRequest;
use stemma_gateway::extract::{CollectionQuery, HandlerResult, Json, Path, QueryParams, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_operations::ReplayOutcome;
use utoipa::ToSchema;

/// Read lanes, processes, models, dead letters and the state of the index
///
/// Takes two seconds at most; `troubles` and `unreachable` say what did not answer.
#[utoipa::path(get, path = "/v1/health", tag = "jobs", params(CollectionQuery), responses((status = 200, body = Object)))]
pub(crate) async fn health(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let operations = state.operations(&scope, query.collection.as_deref())?;
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let sees_all = scope == CollectionScope::All;
    json(operations.health(&archive, sees_all).await).await
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayBody {
    collection: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayResponse {
    id: String,
    /// `again`: its task is queued again; `run_over`: its run has ended, so retry the document; `removed`: it was not a task.
    result: &'static str,
}

/// Queue the task of a dead letter again
///
/// Needs the scope `write`. `GET /v1/health` lists dead letters.
#[utoipa::path(post, path = "/v1/dead-letters/{letter}/replay", operation_id = "replay_dead_letter", tag = "jobs",
    params(("letter" = String, Path)), request_body = ReplayBody, responses((status = 200, body = ReplayResponse)))]
pub(crate) async fn replay(
    State(state): State<AppState>,
    _: WriteRequest,
    scope: CollectionScope,
    Path(letter): Path<String>,
    Json(body): Json<ReplayBody>,
) -> HandlerResult {
    let operations = state.operations(&scope, body.collection.as_deref())?;
    let sees_all = scope == CollectionScope::All;
    let outcome = operations.replay_dead_letter(&letter, sees_all).await;
    let result = match outcome.map_err(Problem::from)? {
        ReplayOutcome::Requested(_) => "again",
        ReplayOutcome::RunEnded(_) => "run_over",
        ReplayOutcome::Removed => "removed",
    };
    json(ReplayResponse { id: letter, result }).await
}
