//! Jobs: their progress, why they wait, what failed, and control over them.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use stemma_gateway::AppState;
use stemma_gateway::admission::WriteRequest;
use stemma_gateway::extract::{
    CollectionQuery, HandlerResult, Json, Path, QueryParams, json, page_limit,
};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_operations::{
    ControlRequest, FailureFilter, JobListRequest, JobStatus, Spending, StageFunnel,
};
use utoipa::{IntoParams, ToSchema};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JobsQuery {
    /// defaults to the server's first collection
    collection: Option<String>,
    /// only jobs in this state: running, waiting, paused, cancelling, interrupted, finished, cancelled, stopped or unreadable
    state: Option<String>,
    /// items per page, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page
    cursor: Option<String>,
}

/// List jobs, newest first
///
/// `states` counts the newest 200 jobs by state, on the first page only. A key of some collections does not see unreadable
/// jobs whose collection is unknown.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(JobsQuery), responses((status = 200, body = Object)))]
pub(crate) async fn jobs(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<JobsQuery>,
) -> HandlerResult {
    let operations = state.operations(&scope, query.collection.as_deref())?;
    let facts = operations.observe_at_once().await;
    let request = JobListRequest {
        state: query.state,
        after: query.cursor.map(stemma_operations::JobId),
        limit: page_limit(query.limit)?,
        all: scope == CollectionScope::All,
    };
    let list = operations.list_jobs(&request, &facts.jobs).await;
    json(list.map_err(port_problem)?).await
}

#[derive(Serialize)]
struct JobDetail {
    #[serde(flatten)]
    status: JobStatus,
    #[serde(flatten)]
    spending: Spending,
    // Where its open documents are.
    open_stages: StageFunnel,
}

/// Read a job: state, progress, rate, remaining time, priority, budget, spending
///
/// `{job}` is an id or a name.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path), CollectionQuery),
    responses((status = 200, body = Object)))]
pub(crate) async fn job(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(job): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let operations = state.operations(&scope, query.collection.as_deref())?;
    let manifest = operations.job(&job).await.map_err(Problem::from)?;
    let facts = operations.observe_at_once().await;
    let status = operations.job_status(&manifest, &facts.jobs).await;
    let status = status.map_err(port_problem)?;
    let spending = operations.job_spending(&manifest, &status).await;
    let open_stages = operations.job_stages(&manifest.job, &facts.jobs).await;
    json(JobDetail {
        spending: spending.map_err(port_problem)?,
        open_stages: open_stages.map_err(port_problem)?,
        status,
    })
    .await
}

/// Explain why a job is not done yet
#[utoipa::path(get, path = "/v1/jobs/{job}/why", operation_id = "why_job", tag = "jobs",
    params(("job" = String, Path), CollectionQuery), responses((status = 200, body = Object)))]
pub(crate) async fn why(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(job): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let operations = state.operations(&scope, query.collection.as_deref())?;
    let manifest = operations.job(&job).await.map_err(Problem::from)?;
    let facts = operations.observe_at_once().await;
    let report = operations.diagnose_job(&manifest, facts).await;
    json(report.map_err(port_problem)?).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FailuresQuery {
    collection: Option<String>,
    /// failed documents that are named, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// List the failures of a job, grouped by cause
#[utoipa::path(get, path = "/v1/jobs/{job}/failures", operation_id = "job_failures", tag = "jobs",
    params(("job" = String, Path), FailuresQuery), responses((status = 200, body = Object)))]
pub(crate) async fn failures(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(job): Path<String>,
    QueryParams(query): QueryParams<FailuresQuery>,
) -> HandlerResult {
    let operations = state.operations(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let manifest = operations.job(&job).await.map_err(Problem::from)?;
    let failures = operations.job_failures(&manifest, limit).await;
    json(failures.map_err(port_problem)?).await
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct ControlBody {
    collection: Option<String>,
    /// `{"action": "pause"}`, `{"action": "resume", "budget": {"nanodollars": 5000000000}}`,
    /// `{"action": "priority", "class": "interactive"}` or `{"action": "cancel"}`
    #[schema(inline, value_type = Object)]
    #[serde(flatten)]
    request: ControlRequest,
}

/// Pause, resume or cancel a job, or change its priority
///
/// Needs the scope `write`. Running tasks finish. A budget is in billionths of a dollar, or in tokens.
#[utoipa::path(post, path = "/v1/jobs/{job}/control", operation_id = "control_job", tag = "jobs",
    params(("job" = String, Path)), request_body = Object, responses((status = 200, body = Object)))]
pub(crate) async fn control(
    State(state): State<AppState>,
    _: WriteRequest,
    scope: CollectionScope,
    Path(job): Path<String>,
    Json(body): Json<ControlBody>,
) -> HandlerResult {
    let operations = state.operations(&scope, body.collection.as_deref())?;
    let manifest = operations.job(&job).await.map_err(Problem::from)?;
    let control = operations.control_job(&manifest.job, body.request).await;
    json(control.map_err(Problem::from)?).await
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryBody {
    collection: Option<String>,
    /// conditions on failures that all hold: `code=…`, `stage=…`, `doc=…`; a code may end with `*`
    #[serde(default, rename = "where")]
    filters: Vec<String>,
    /// only says which documents would be submitted
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RetryResponse {
    dry_run: bool,
    documents: usize,
    /// Locators; the first 500.
    retried: Vec<String>,
    /// The new job; null if nothing was submitted.
    job: Option<String>,
}

/// Submit failed documents of a job again
///
/// Needs the scope `write`, and a server that accepts uploads unless `dry_run` is set. Finished results are used again.
#[utoipa::path(post, path = "/v1/jobs/{job}/retry", operation_id = "retry_job", tag = "jobs",
    params(("job" = String, Path)), request_body = RetryBody, responses((status = 200, body = RetryResponse)))]
pub(crate) async fn retry(
    State(state): State<AppState>,
    WriteRequest(permit): WriteRequest,
    scope: CollectionScope,
    Path(job): Path<String>,
    Json(body): Json<RetryBody>,
) -> HandlerResult {
    let operations = state.operations(&scope, body.collection.as_deref())?;
    let archive = state.archive(&scope, body.collection.as_deref())?;
    let filters: Vec<FailureFilter> = body
        .filters
        .iter()
        .map(|text| text.parse::<FailureFilter>())
        .collect::<Result<_, _>>()
        .map_err(|message| Problem::parameter(422, "/where", message))?;
    let manifest = operations.job(&job).await.map_err(Problem::from)?;
    let _place = permit.upgrade_to_long().await.map_err(Problem::from)?;
    let chosen =
        operations.failed_documents_to_retry(Some(&archive), Some(&manifest.job), &filters);
    let chosen = chosen.await.map_err(Problem::from)?;
    let documents = chosen.len();
    let retried = chosen.iter().take(500).map(|row| row.locator.clone());
    let retried = retried.collect();
    let job = if body.dry_run || chosen.is_empty() {
        None
    } else {
        let uploads = state.uploads()?;
        Some(uploads.resubmit(operations.collection(), chosen).await?.0)
    };
    json(RetryResponse {
        dry_run: body.dry_run,
        documents,
        retried,
        job,
    })
    .await
}

/// Read the attempts at a document
///
/// For its newest versions: the job, the final failures, and the tasks that are not done.
#[utoipa::path(get, path = "/v1/documents/{doc}/attempts", operation_id = "document_attempts", tag = "jobs",
    params(("doc" = String, Path), CollectionQuery), responses((status = 200, body = Vec<Object>)))]
pub(crate) async fn attempts(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
) -> HandlerResult {
    let operations = state.operations(&scope, query.collection.as_deref())?;
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let timeline = operations.document_timeline(&archive, &doc).await;
    json(timeline.map_err(Problem::from)?).await
}

fn port_problem(error: stemma_operations::PortError) -> Problem {
    stemma_operations::OperationsError::from(error).into()
}
