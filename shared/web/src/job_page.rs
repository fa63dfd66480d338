//! One job: its progress, why it waits, what failed, what it cost, and control over it.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use stemma_gateway::AppState;
use stemma_gateway::admission::WriteRequest;
use stemma_gateway::extract::Path;
use stemma_gateway::problem::Problem;
use stemma_operations::text::{ago, duration, money, rate};
use stemma_operations::{
    Cause, ControlRequest, Diagnosis, FailureFilter, JobBudget, JobFailures, JobManifest,
    JobStatus, Operations, OperationsError, PauseReason, Priority, RunTimeline, Spending,
    StageFunnel, StageLoad,
};

use crate::context::PageContext;
use crate::jobs_page::{job_url, progress, state_badge, title};
use crate::layout::Head::{Number, Text};
use crate::layout::{Screen, collection_field, page, see_other, table, token_field};
use crate::live::live;
use crate::security::Form;
use crate::text::{Line, Message, Passage, counted, grouped};

// Failed documents that are listed; the groups above count all.
const FAILED_DOCUMENTS: usize = 50;
const NANOS_PER_DOLLAR: f64 = 1e9;

/// `GET /jobs/{job}`
pub(crate) async fn job(
    State(state): State<AppState>,
    Path(name): Path<String>,
    context: PageContext,
) -> Result<Response, Problem> {
    let operations = context.operations(&state)?;
    let manifest = operations.job(&name).await?;
    let facts = operations.observe_at_once().await;
    let status = read(operations.job_status(&manifest, &facts.jobs)).await?;
    let spending = read(operations.job_spending(&manifest, &status)).await?;
    let failures = read(operations.job_failures(&manifest, FAILED_DOCUMENTS)).await?;
    let stages = read(operations.job_stages(&manifest.job, &facts.jobs)).await?;
    let why = match status.has_ended() {
        true => None,
        false => {
            read(operations.diagnose_job(&manifest, facts))
                .await?
                .diagnosis
        }
    };
    let view = JobView {
        context: &context,
        status: &status,
        stages,
        spending,
        failures: &failures,
        now_ms: operations.ports.env.now_ms(),
    };
    let attempts = match context.param("document") {
        Some(document) => {
            let archive = context.archive(&state)?;
            Some((
                document,
                operations.document_timeline(&archive, document).await?,
            ))
        }
        None => None,
    };
    let preview = view.retry_preview(&state, &operations, &manifest).await?;
    let body = html! {
        p.crumbs { a href=(context.url("/jobs", &[])) { "Jobs" } }
        h1.title { (Line(title(&status))) }
        (live("job-progress", &html! {
            (view.facts())
            @if let Some(diagnosis) = &why { (view.why(diagnosis)) }
            (view.funnel())
        }))
        (live("job-controls", &html! { @if context.may_write && !status.has_ended() { (view.controls()) } }))
        @if let Some(preview) = preview { (preview) }
        (view.failure_groups())
        (view.failed_documents())
        @if let Some((document, runs)) = &attempts { (view.timeline(document, runs)) }
    };
    let id = &status.job.0;
    Ok(page(
        &context,
        Some(Screen::Jobs),
        &format!("Job {}", title(&status)),
        &body,
        &[
            context.command(&["status", id]),
            context.command(&["why", id]),
            context.command(&["failures", id, "--by", "reason"]),
            context.request(&format!("/v1/jobs/{id}"), &[]),
            context.request(&format!("/v1/jobs/{id}/why"), &[]),
        ],
    ))
}

async fn read<T>(
    reading: impl Future<Output = Result<T, stemma_operations::PortError>>,
) -> Result<T, Problem> {
    Ok(reading.await.map_err(OperationsError::from)?)
}

struct JobView<'a> {
    context: &'a PageContext,
    status: &'a JobStatus,
    stages: StageFunnel,
    spending: Spending,
    failures: &'a JobFailures,
    now_ms: u64,
}

impl JobView<'_> {
    fn since(&self, at_ms: u64) -> String {
        duration(self.now_ms.saturating_sub(at_ms) as f64 / 1e3)
    }

    fn facts(&self) -> Markup {
        let status = self.status;
        let priority = match self.spending.priority {
            Priority::Interactive => "interactive",
            Priority::Bulk => "bulk",
        };
        html! {
            div.facts role="status" {
                (state_badge(status))
                span { (progress(status)) }
                @if let Some(per_second) = status.documents_per_second { span { (rate(per_second)) } }
                @if let Some(seconds) = status.eta_seconds { span { "about " (duration(seconds)) " left" } }
                @if let Some(ended_ms) = status.ended_ms { span { "took " (taken(ended_ms.saturating_sub(status.submitted_ms))) } }
                span { "submitted " (ago(self.now_ms.saturating_sub(status.submitted_ms))) }
                span { "priority " (priority) }
                span { (self.cost()) }
            }
        }
    }

    fn cost(&self) -> String {
        let Spending {
            budget,
            tokens,
            nanodollars,
            ..
        } = self.spending;
        let budget = budget.unwrap_or_default();
        let in_dollars = |nanodollars: u64| money(nanodollars as f64 / NANOS_PER_DOLLAR);
        let cost = nanodollars.map_or("price unknown".into(), in_dollars);
        let of_money = budget
            .nanodollars
            .map(|limit| format!(" of {}", in_dollars(limit)));
        let of_tokens = budget.tokens.map(|limit| format!(" of {}", grouped(limit)));
        if tokens == 0 && budget == JobBudget::default() {
            return "no model calls".into();
        }
        format!(
            "{cost}{}, {}{} tokens",
            of_money.unwrap_or_default(),
            grouped(tokens),
            of_tokens.unwrap_or_default()
        )
    }

    fn why(&self, diagnosis: &Diagnosis) -> Markup {
        let cause = serde_json::to_value(diagnosis.cause).unwrap_or_default();
        let cause = cause.as_str().unwrap_or_default().replace('_', " ");
        let is_calm = matches!(diagnosis.cause, Cause::Long | Cause::SiblingStage);
        html! {
            section.why data-calm[is_calm] aria-label="Why it is not done yet" {
                p { strong { (cause) } @if let Some(since_ms) = diagnosis.since_ms { " for " (self.since(since_ms)) } ": " (Message(&diagnosis.says)) "." }
                dl {
                    @if let Some(owner) = &diagnosis.owner { dt { "Owner" } dd { (Line(owner)) } }
                    dt { "Next" } dd { (Message(&diagnosis.next))
                        @if let Some(next_ms) = diagnosis.next_ms { ", in " (duration(next_ms.saturating_sub(self.now_ms) as f64 / 1e3)) } }
                    @if let Some(remedy) = &diagnosis.remedy { dt { "Remedy" } dd { (Message(remedy)) } }
                    @if !diagnosis.not_the_cause.is_empty() { dt { "Not the cause" } dd { (Passage(&diagnosis.not_the_cause.join(", "))) } }
                }
            }
        }
    }

    fn funnel(&self) -> Markup {
        let status = self.status;
        let counts = &status.counts;
        let waiting = status.total.saturating_sub(counts.ended() + status.open);
        let rows = [
            ("Not opened yet", waiting),
            ("Open", status.open),
            ("Done", counts.done),
            ("Done with warnings", counts.done_with_gaps),
            ("Unchanged", counts.unchanged),
            ("Failed", counts.failed),
            ("Cancelled", counts.cancelled),
        ];
        html! {
            h2 { "Documents" }
            table.funnel {
                tbody { @for (what, number) in rows {
                    @if number > 0 || matches!(what, "Done" | "Failed") {
                        tr { th scope="row" { (what) } td.number { (grouped(number)) }
                            td { progress value=(number) max=(status.total.max(1)) aria-label=(format!("{what}: {number} of {}", status.total)) {} } }
                    }
                    @if what == "Open" { @for load in &self.stages.stages { (self.stage_row(load)) } }
                } }
            }
            @if self.stages.documents < status.open && !self.stages.stages.is_empty() {
                p.note { "Stages of the " (grouped(self.stages.documents)) " oldest open documents." }
            }
            @if status.tasks_present + status.tasks_missing > 0 {
                p.note { "Open documents have " (grouped(status.tasks_present)) " tasks done and " (grouped(status.tasks_missing)) " queued or running." }
            }
        }
    }

    fn stage_row(&self, load: &StageLoad) -> Markup {
        let looked_at = self.stages.documents.max(1);
        html! {
            tr.stage { th scope="row" { (Line(&load.stage)) } td.number { (grouped(load.documents)) }
                td { progress value=(load.documents) max=(looked_at) aria-label=(format!("{}: {} of {looked_at} open documents", load.stage, load.documents)) {}
                    span.note { (grouped(load.running)) " of " (counted(load.tasks, "task")) " running" @if load.retried > 0 { ", " (grouped(load.retried)) " tried again" } } } }
        }
    }

    fn controls(&self) -> Markup {
        let action = job_url(self.context, &self.status.job, &[]);
        let action = action.split('?').next().unwrap_or_default();
        let form = |name: &str, content: &Markup| {
            html! {
                form method="post" action=(format!("{action}/control")) {
                    (token_field(self.context))
                    (collection_field(self.context))
                    input type="hidden" name="action" value=(name);
                    (content)
                }
            }
        };
        let is_bulk = self.spending.priority == Priority::Bulk;
        let is_over_budget = self
            .status
            .paused
            .is_some_and(|paused| paused.reason == PauseReason::Budget);
        html! {
            h2 { "Control" }
            div.controls {
                @if self.status.paused.is_none() {
                    (form("pause", &html! { button type="submit" { "Pause" } }))
                } @else {
                    (form("resume", &html! {
                        label { @if is_over_budget { "New budget in dollars" } @else { "New budget in dollars, if any" }
                            input type="number" name="dollars" min="0" step="0.01" required[is_over_budget]; }
                        button type="submit" { "Resume" }
                    }))
                }
                (form("priority", &html! {
                    input type="hidden" name="priority" value=(if is_bulk { "interactive" } else { "bulk" });
                    button.quiet type="submit" { @if is_bulk { "Open its documents first" } @else { "Back to bulk priority" } }
                }))
                details {
                    summary { "Cancel…" }
                    p { "No new task starts. Running tasks finish, and their results are kept." }
                    (form("cancel", &html! { button.danger type="submit" { "Cancel this job" } }))
                }
            }
        }
    }

    fn failure_groups(&self) -> Markup {
        let failures = self.failures;
        html! {
            @if let Some(uncounted @ 1..) = failures.uncounted {
                p.note { (grouped(uncounted)) " failed since the last checkpoint and are not listed yet." }
            }
            @if failures.total > 0 {
                h2 { "Failures by cause" }
                @if !failures.complete { p.note { "As of the last checkpoint of the running job." } }
                (table("Failures by cause", &[Text("Cause"), Number("Documents"), Text("Example"), Text("Remedy"), Text("Again")], &html! { @for reason in &failures.reasons {
                            tr {
                                th scope="row" { code { (Line(&reason.code)) } }
                                td.number { (grouped(reason.documents)) }
                                td { @if let Some(message) = &reason.message { (Line(message)) } }
                                td { @if let Some(next) = &reason.next { (Line(next)) } }
                                td { a href=(self.retry_url(&reason.code)) { "Retry…" span.hidden { " " (Line(&reason.code)) } } }
                            }
                        } }))
            }
        }
    }

    fn retry_url(&self, code: &str) -> String {
        job_url(self.context, &self.status.job, &[("retry", code)]) + "#retry"
    }

    // How many documents a retry would submit, before it does.
    async fn retry_preview(
        &self,
        state: &AppState,
        operations: &Operations,
        manifest: &JobManifest,
    ) -> Result<Option<Markup>, Problem> {
        let Some(code) = self.context.param("retry") else {
            return Ok(None);
        };
        let archive = self.context.archive(state)?;
        let filters = [FailureFilter::Code(code.into())];
        let chosen = operations
            .failed_documents_to_retry(Some(&archive), Some(&manifest.job), &filters)
            .await?;
        let path = format!("/jobs/{}/retry", crate::context::encoded(&manifest.job.0));
        let command =
            self.context
                .command(&["retry", &manifest.job.0, "--where", &format!("code={code}")]);
        Ok(Some(html! {
            section #retry.preview aria-label="Retry" {
                h2 { "Retry " code { (Line(code)) } }
                p { (counted(chosen.len() as u64, "document")) " of this job failed with this code last. A retry submits them as a new job, and uses results that still apply again." }
                @if state.deps.uploads.is_none() {
                    p { "This server submits nothing. Use " code { (Passage(&command)) } "." }
                } @else if !self.context.may_write {
                    p { "The key of this browser lacks the scope " code { "write" } "." }
                } @else if !chosen.is_empty() {
                    form method="post" action=(path) {
                        (token_field(self.context))
                        (collection_field(self.context))
                        input type="hidden" name="code" value=(code);
                        button type="submit" { "Retry " (counted(chosen.len() as u64, "document")) }
                    }
                }
            }
        }))
    }

    fn failed_documents(&self) -> Markup {
        let failures = &self.failures.failures;
        html! {
            @if !failures.is_empty() {
                h2 { "Failed documents" }
                @if self.failures.total > failures.len() as u64 { p.note { "The first " (grouped(failures.len())) " of " (grouped(self.failures.total)) "." } }
                (table("Failed documents", &[Text("Document"), Text("Stage"), Text("Cause"), Number("Attempts"), Text("When")], &html! { @for failed in failures {
                            tr {
                                th.title scope="row" {
                                    @if let Some(path) = &failed.path {
                                        a href=(job_url(self.context, &self.status.job, &[("document", path)]) + "#attempts") { (Line(path)) }
                                    } @else { (Line(&failed.run)) }
                                }
                                td { (Line(&failed.failure.stage)) }
                                td { code { (Line(&failed.failure.code)) } " " (Line(&failed.failure.message)) }
                                td.number { (failed.failure.attempts) }
                                td { (ago(self.now_ms.saturating_sub(failed.failure.at_ms))) }
                            }
                        } }))
            }
        }
    }

    fn timeline(&self, document: &str, runs: &[RunTimeline]) -> Markup {
        html! {
            section #attempts aria-label="Attempts" {
                h2 { "Attempts at " a href=(self.context.document_url(document, &[])) { (Line(document)) } }
                @if runs.is_empty() { p { "Its versions are no longer recorded." } }
                ol.timeline {
                    @for run in runs {
                        li {
                            p { strong { "Version " (run.version) } " " span.badge data-state=(run.outcome.unwrap_or("running")) { (run.outcome.unwrap_or("open").replace('_', " ")) }
                                " by " a href=(job_url(self.context, &run.job, &[])) { (Line(&run.job.0)) }
                                @if let Some(at_ms) = run.submitted_ms { ", submitted " (ago(self.now_ms.saturating_sub(at_ms))) } }
                            ul {
                                @for failure in &run.failures {
                                    li { (ago(self.now_ms.saturating_sub(failure.at_ms))) ": " (Line(&failure.stage)) " failed after " (counted(failure.attempts.into(), "attempt")) ": "
                                        code { (Line(&failure.code)) } " " (Passage(&failure.message)) }
                                }
                                @for task in &run.tasks {
                                    li { (Line(&task.stage)) ": queued " (ago(self.now_ms.saturating_sub(task.published_ms)))
                                        @if task.attempts > 0 { ", " (counted(task.attempts.into(), "failed attempt")) }
                                        @if let Some(code) = &task.last_failure { ", last " code { (Line(code)) } }
                                        @if let Some(next_ms) = task.next_attempt_ms { ", next in " (duration(next_ms.saturating_sub(self.now_ms) as f64 / 1e3)) }
                                        @if let Some(worker) = &task.worker { ", runs on " (Line(worker)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn taken(millis: u64) -> String {
    match millis {
        0..=999 => "less than a second".into(),
        millis => duration(millis as f64 / 1e3),
    }
}

/// The fields of a form that controls a job.
#[derive(Deserialize)]
pub(crate) struct ControlFields {
    action: String,
    #[serde(default)]
    dollars: String,
    #[serde(default)]
    priority: String,
}

impl ControlFields {
    fn request(&self) -> Result<ControlRequest, Problem> {
        Ok(match (self.action.as_str(), self.priority.as_str()) {
            ("pause", _) => ControlRequest::Pause,
            ("cancel", _) => ControlRequest::Cancel,
            ("resume", _) => ControlRequest::Resume {
                budget: self.budget()?,
            },
            ("priority", "interactive") => ControlRequest::Priority {
                priority: Priority::Interactive,
            },
            ("priority", "bulk") => ControlRequest::Priority {
                priority: Priority::Bulk,
            },
            _ => return Err(Problem::parameter(422, "action", "unknown action")),
        })
    }

    fn budget(&self) -> Result<Option<JobBudget>, Problem> {
        if self.dollars.trim().is_empty() {
            return Ok(None);
        }
        let amount = self.dollars.trim().parse::<f64>().ok();
        let amount = amount.filter(|amount| (0.0..1e6).contains(amount));
        let amount = amount.ok_or_else(|| {
            Problem::parameter(422, "dollars", "a budget is an amount from 0 to 1000000")
        })?;
        Ok(Some(JobBudget {
            nanodollars: Some((amount * NANOS_PER_DOLLAR) as u64),
            tokens: None,
        }))
    }
}

/// `POST /jobs/{job}/control`
pub(crate) async fn control(
    State(state): State<AppState>,
    _: WriteRequest,
    Path(name): Path<String>,
    Form { context, fields }: Form<ControlFields>,
) -> Result<Response, Problem> {
    let request = fields.request()?;
    let operations = context.operations(&state)?;
    let manifest = operations.job(&name).await?;
    operations.control_job(&manifest.job, request).await?;
    Ok(see_other(&job_url(&context, &manifest.job, &[])))
}

/// The fields of a form that submits failed documents again.
#[derive(Deserialize)]
pub(crate) struct RetryFields {
    code: String,
}

/// `POST /jobs/{job}/retry`: leads to the new job.
pub(crate) async fn retry(
    State(state): State<AppState>,
    WriteRequest(permit): WriteRequest,
    Path(name): Path<String>,
    Form { context, fields }: Form<RetryFields>,
) -> Result<Response, Problem> {
    let operations = context.operations(&state)?;
    let archive = context.archive(&state)?;
    let uploads = state.uploads()?;
    let manifest = operations.job(&name).await?;
    let _place = permit.upgrade_to_long().await?;
    let filters = [FailureFilter::Code(fields.code)];
    let chosen = operations
        .failed_documents_to_retry(Some(&archive), Some(&manifest.job), &filters)
        .await?;
    if chosen.is_empty() {
        return Ok(see_other(&job_url(&context, &manifest.job, &[])));
    }
    let job = uploads.resubmit(operations.collection(), chosen).await?;
    Ok(see_other(&job_url(&context, &job, &[])))
}
