//! Jobs: the newest first, with states as filters.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use stemma_gateway::AppState;
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_operations::text::{ago, duration, rate};
use stemma_operations::{JobId, JobList, JobListRequest, JobStatus, OperationsError};

use crate::context::{PageContext, encoded};
use crate::layout::Head::{Number, Text};
use crate::layout::{Screen, page, table};
use crate::live::live;
use crate::text::{Line, Passage, grouped};

const JOBS: usize = 50;

/// `GET /jobs`
pub(crate) async fn jobs(
    State(state): State<AppState>,
    scope: CollectionScope,
    context: PageContext,
) -> Result<Response, Problem> {
    let operations = context.operations(&state)?;
    let facts = operations.observe_at_once().await;
    let request = JobListRequest {
        state: context.owned_param("state"),
        after: context.param("cursor").map(|job| JobId(job.into())),
        limit: JOBS,
        all: scope == CollectionScope::All,
    };
    let list = operations.list_jobs(&request, &facts.jobs).await;
    let list = list.map_err(OperationsError::from)?;
    let now_ms = operations.ports.env.now_ms();
    let body = html! {
        h1 { "Jobs" }
        (live("jobs", &html! {
            @for trouble in &facts.troubles { p.remarks role="status" { (Line(&trouble.says())) } }
            (filters(&context, &request, &list))
            (job_table(&context, &list, now_ms))
        }))
    };
    let params = context.params(["state"]);
    Ok(page(
        &context,
        Some(Screen::Jobs),
        "Jobs",
        &body,
        &[
            context.command(&["status"]),
            context.request("/v1/jobs", &params),
        ],
    ))
}

fn filters(context: &PageContext, request: &JobListRequest, list: &JobList) -> Markup {
    let chosen = request.state.as_deref();
    html! {
        nav aria-label="States" {
            ul.chips {
                li { a.chip href=(context.url("/jobs", &[])) aria-current=[chosen.is_none().then_some("true")] { "All" } }
                @for (state, count) in &list.states {
                    li { a.chip href=(context.url("/jobs", &[("state", state)])) aria-current=[(chosen == Some(*state)).then_some("true")] {
                        (state) " " span.count { (grouped(*count)) }
                    } }
                }
                @if let Some(other) = chosen.filter(|state| !list.states.contains_key(state)) {
                    li { span.chip aria-current="true" { (Line(other)) } }
                }
            }
        }
        @if list.has_more && list.counted > 0 { p.note { "Counts are of the newest " (grouped(list.counted)) " jobs." } }
    }
}

fn job_table(context: &PageContext, list: &JobList, now_ms: u64) -> Markup {
    html! {
        @if list.items.is_empty() {
            p { "No jobs here. " @if context.may_upload { a href=(context.url("/upload", &[])) { "Upload documents" } } @else { "Start one with " code { "stemma ingest FOLDER" } } "." }
        } @else {
            (table("Jobs", &[Text("Job"), Text("State"), Text("Progress"), Number("Warnings"), Number("Failed"), Number("Rate"), Number("Time left"), Text("Submitted")], &html! { @for job in &list.items { (row(context, job, now_ms)) } }))
        }
        @if let Some(next) = &list.next_cursor {
            @let state = context.param("state").unwrap_or_default();
            p.pages { a href=(context.url("/jobs", &[("state", state), ("cursor", &next.0)])) rel="next" { "Older jobs" } }
        }
    }
}

fn row(context: &PageContext, job: &JobStatus, now_ms: u64) -> Markup {
    let per_second = job.documents_per_second.filter(|_| !job.has_ended());
    html! {
        tr {
            th.title scope="row" {
                a href=(job_url(context, &job.job, &[])) { (Line(title(job))) }
                @if let Some(wait) = &job.waiting { span.note { "waits " (duration(now_ms.saturating_sub(wait.since_ms) as f64 / 1e3)) ": " (Passage(&wait.reason)) } }
                @if let Some(problem) = &job.problem { span.note { (problem.message) "; " (problem.next) } }
            }
            td { (state_badge(job)) }
            td { (progress(job)) }
            td.number { (grouped(job.counts.done_with_gaps)) }
            td.number { (grouped(job.counts.failed)) }
            td.number { (per_second.map(rate).unwrap_or_default()) }
            td.number { (job.eta_seconds.map(duration).unwrap_or_default()) }
            td { (ago(now_ms.saturating_sub(job.submitted_ms))) }
        }
    }
}

/// What a person calls a job.
pub(crate) fn title(job: &JobStatus) -> &str {
    match (&job.name, job.label.as_str()) {
        (Some(name), _) => name,
        (None, "") => &job.job.0,
        (None, label) => label,
    }
}

pub(crate) fn state_badge(job: &JobStatus) -> Markup {
    let state = if job.state == "finished" && job.counts.failed > 0 {
        "done_with_gaps"
    } else {
        job.state
    };
    html! { span.badge data-state=(state) { (job.state) } }
}

/// A bar, and how many documents of how many have ended.
pub(crate) fn progress(job: &JobStatus) -> Markup {
    let ended = job.counts.ended();
    html! {
        progress value=(job.done().floor() as u64) max=(job.total.max(1)) aria-label=(format!("{ended} of {} documents", job.total)) {}
        " " span.number { (grouped(ended)) " of " (grouped(job.total)) }
    }
}

/// The address of the page of a job.
pub(crate) fn job_url(context: &PageContext, job: &JobId, params: &[(&str, &str)]) -> String {
    context.url(&format!("/jobs/{}", encoded(&job.0)), params)
}
