//! The health of the store and its services: lanes, workers, limits, dead letters, the index.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use stemma_gateway::AppState;
use stemma_gateway::admission::WriteRequest;
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_operations::text::{ago, duration, rate};
use stemma_operations::{
    ClusterStatus, DeadLetter, HealthReport, LaneSummary, ModelSummary, Priority, ProcessStatus,
};

use crate::context::PageContext;
use crate::layout::Head::{Number, Text};
use crate::layout::{Head, Screen, collection_field, page, see_other, table, token_field};
use crate::live::live;
use crate::security::Form;
use crate::text::{Line, Message, Passage, capitalized, counted, grouped};

// Tasks shown for a process, oldest first.
const TASKS: usize = 4;

/// `GET /health`
pub(crate) async fn health(
    State(state): State<AppState>,
    scope: CollectionScope,
    context: PageContext,
) -> Result<Response, Problem> {
    let operations = context.operations(&state)?;
    let archive = context.archive(&state)?;
    let sees_all = scope == CollectionScope::All;
    let report = operations.health(&archive, sees_all).await;
    let view = HealthView {
        context: &context,
        report: &report,
        sees_all,
        now_ms: operations.ports.env.now_ms(),
    };
    let body = html! {
        h1 { "Health" }
        (live("health", &html! {
            (view.troubles())
            (view.store())
            (view.checks())
            @if report.live { (view.lanes()) (view.processes()) (view.stages()) (view.models()) }
            @else { p.note { "This server observes no cluster: what is running is known from the store alone." } }
        }))
        (view.dead_letters())
    };
    Ok(page(
        &context,
        Some(Screen::Health),
        "Health",
        &body,
        &[
            context.command(&["status"]),
            context.command(&["dead-letters", "list"]),
            context.command(&["index", "status"]),
            context.command(&["doctor"]),
            context.request("/v1/health", &[]),
        ],
    ))
}

struct HealthView<'a> {
    context: &'a PageContext,
    report: &'a HealthReport,
    // Tasks of processes are left out for keys that do not.
    sees_all: bool,
    now_ms: u64,
}

impl HealthView<'_> {
    fn cluster(&self) -> &ClusterStatus {
        &self.report.cluster
    }

    fn ago(&self, at_ms: u64) -> String {
        ago(self.now_ms.saturating_sub(at_ms))
    }

    fn troubles(&self) -> Markup {
        html! {
            @for trouble in &self.cluster().troubles {
                p.remarks role="status" { strong { (Line(&trouble.says())) } ". " (trouble.server.remedy(trouble.kind)) "." }
            }
            @for part in &self.report.unreachable {
                p.remarks role="status" { strong { (part.what) " cannot be read" } ": " (Passage(&part.error)) }
            }
            @if self.cluster().troubles.is_empty() && self.report.unreachable.is_empty() {
                p.fine role="status" { "Every server that was asked answers." }
            }
        }
    }

    fn store(&self) -> Markup {
        let report = self.report;
        html! {
            h2 { "Store and index" }
            dl {
                dt { "Documents" } dd { (grouped(report.documents)) }
                @if let Some(index) = &report.index {
                    dt { "Searchable here" } dd { (counted(index.documents, "document")) ", index of " (size(index.bytes)) }
                    dt { "Not indexed yet" } dd { (grouped(index.not_indexed)) }
                } @else { dt { "Index" } dd { "not open yet" } }
                @if let Some(writer) = &report.writer {
                    dt { "Written by" } dd { code { "stemma " (Line(&writer.command)) } ", process " (writer.pid) ", since " (self.ago(writer.since_ms)) }
                } @else if !report.live { dt { "Written by" } dd { "no process" } }
            }
        }
    }

    fn checks(&self) -> Markup {
        let Some(report) = &self.report.checks else {
            return html! {};
        };
        html! {
            h2 { "Checks of the installation" }
            @if let Some(at_ms) = report.at_ms {
                ul.checks { @for check in &report.checks {
                    li { span.badge data-state=(check.result) { (check.result) } span { (Message(&capitalized(&check.what)))
                        @if let Some(next) = &check.next { br; span.note { "Next: " (Message(next)) } } } }
                } }
                p.note { "Made " (self.ago(at_ms)) ". While this page is open, they run every minute." }
            } @else { p.note { "They are running; this page shows their results in a few seconds." } }
        }
    }

    fn lanes(&self) -> Markup {
        let lanes = &self.cluster().lanes;
        html! {
            h2 { "Lanes" }
            @if lanes.is_empty() { p { "No lane has a worker or a message." } } @else {
                (table("Lanes", &[Text("Lane"), Number("Waiting"), Number("Delayed"), Number("Delivered"), Number("Workers"), Number("Busy"), Number("Oldest")], &html! { @for lane in lanes { (lane_row(lane)) } }))
            }
        }
    }

    fn processes(&self) -> Markup {
        const HEADS: [Head; 5] = [
            Text("Process"),
            Text("Service"),
            Text("Version"),
            Text("Started"),
            Text("Working on"),
        ];
        let processes = &self.cluster().processes;
        html! {
            h2 { "Processes" }
            @if processes.is_empty() { p { "No process has reported itself." } } @else {
                (table("Processes", &HEADS[..4 + usize::from(self.sees_all)], &html! {
                    @for process in processes { (self.process_row(process)) }
                }))
            }
        }
    }

    fn process_row(&self, process: &ProcessStatus) -> Markup {
        html! {
            tr {
                th scope="row" { (Line(&process.process)) }
                td { (Line(&process.service)) @if process.draining { " " span.badge data-state="paused" { "draining" } } }
                td { (Line(&process.version)) }
                td { (self.ago(process.since_ms)) }
                @if self.sees_all {
                    td {
                        @if process.tasks.is_empty() { span.none { "idle" } }
                        @for task in process.tasks.iter().take(TASKS) { div { (Line(&task.stage)) " for " (duration(self.now_ms.saturating_sub(task.since_ms) as f64 / 1e3)) } }
                        @if let Some(more) = process.tasks.len().checked_sub(TASKS).filter(|more| *more > 0) { div.note { "and " (more) " more" } }
                    }
                }
            }
        }
    }

    fn stages(&self) -> Markup {
        let stages = &self.cluster().stages;
        html! {
            @if !stages.is_empty() {
                h2 { "Stages" }
                (table("Stages", &[Text("Stage"), Number("Rate"), Number("Done"), Number("Failed"), Number("Retried"), Number("Median"), Number("95 %")], &html! { @for (name, stage) in stages { tr {
                        th scope="row" { (Line(name)) } td.number { (rate(stage.per_second)) } td.number { (grouped(stage.done)) } td.number { (grouped(stage.failed)) }
                        td.number { (grouped(stage.retried)) } td.number { (grouped(stage.p50_ms)) " ms" } td.number { (grouped(stage.p95_ms)) " ms" }
                    } } }))
            }
        }
    }

    fn models(&self) -> Markup {
        let models = &self.cluster().models;
        html! {
            @if !models.is_empty() {
                h2 { "Models" }
                (table("Models", &[Text("Model"), Number("Requests per minute"), Number("Tokens per minute"), Number("Calling"), Number("Waiting"), Text("Breaker"), Text("Last error")], &html! { @for (name, model) in models { (self.model_row(name, model)) } }))
            }
        }
    }

    fn model_row(&self, name: &str, model: &ModelSummary) -> Markup {
        let left = |until_ms: u64| duration(until_ms.saturating_sub(self.now_ms) as f64 / 1e3);
        html! {
            tr {
                th scope="row" { (Line(name)) }
                td.number { (used(model.requests_last_minute, model.requests_limit)) }
                td.number { (used(model.tokens_last_minute, model.tokens_limit)) }
                td.number { (model.calling) } td.number { (model.waiting) }
                td {
                    @if let Some(until_ms) = model.breaker_open_until_ms { span.badge data-state="failed" { "open" } " for " (left(until_ms)) } @else { "closed" }
                    @if let Some(until_ms) = model.paused_until_ms { div { "the provider asked to wait " (left(until_ms)) } }
                    @for batch in &model.batches { div { "batch " (Line(&batch.name)) ": " (grouped(batch.done)) " of " (grouped(batch.requests)) } }
                }
                td { @if let Some(error) = &model.last_error { code { (Line(error)) } } }
            }
        }
    }

    fn dead_letters(&self) -> Markup {
        let Some(letters) = &self.report.dead_letters else {
            return html! {};
        };
        html! {
            h2 { "Dead letters" }
            @if letters.is_empty() { p { "None: every message was handled." } } @else {
                p { "Every worker that took these tasks disappeared without an error, or could not read the message. Look at the logs of the workers before you replay one." }
                @for letter in letters { (self.letter(letter)) }
            }
        }
    }

    fn letter(&self, letter: &DeadLetter) -> Markup {
        html! {
            details.letter {
                summary { code { (Line(&letter.id)) } " " (self.ago(letter.at_ms)) ": " (Line(&letter.reason)) }
                dl {
                    @if let Some(queue) = &letter.queue { dt { "Queue" } dd { (Line(queue)) ", delivered " (letter.deliveries) " times" } }
                    @if let Some(stage) = &letter.stage { dt { "Stage" } dd { (Line(stage)) ", " (letter.attempts) " failed attempts" } }
                    @if let Some(run) = &letter.run { dt { "Run" } dd { (Line(&run.run.0)) } }
                    dt { "Begins" } dd { code { (Passage(&letter.begins)) } }
                }
                @if self.context.may_write {
                    form method="post" action="/health/replay" {
                        (token_field(self.context))
                        (collection_field(self.context))
                        input type="hidden" name="letter" value=(letter.id);
                        button type="submit" { "Queue its task again" span.hidden { " (" (Line(&letter.id)) ")" } }
                    }
                }
            }
        }
    }
}

fn lane_row(lane: &LaneSummary) -> Markup {
    let is_interactive = lane.priority == Priority::Interactive;
    let is_stuck = lane.workers == 0 && lane.ready > 0;
    html! {
        tr {
            th scope="row" { (lane.lane) @if is_interactive { " (interactive)" } }
            td.number { (grouped(lane.ready)) } td.number { (grouped(lane.delayed)) } td.number { (grouped(lane.unacked)) }
            td.number { (lane.workers) @if is_stuck { " " span.badge data-state="failed" { "none" } } }
            td.number { (lane.busy) " of " (lane.slots) }
            td.number { @if let Some(oldest_ms) = lane.oldest_ms { (duration(oldest_ms as f64 / 1e3)) } }
        }
    }
}

// A limit of 0 is unknown.
fn used(used: u64, limit: u32) -> String {
    match limit {
        0 => grouped(used),
        limit => format!("{} of {}", grouped(used), grouped(limit)),
    }
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// The fields of a form that replays a dead letter.
#[derive(Deserialize)]
pub(crate) struct ReplayFields {
    letter: String,
}

/// `POST /health/replay`
pub(crate) async fn replay(
    State(state): State<AppState>,
    _: WriteRequest,
    scope: CollectionScope,
    Form { context, fields }: Form<ReplayFields>,
) -> Result<Response, Problem> {
    let operations = context.operations(&state)?;
    let sees_all = scope == CollectionScope::All;
    operations
        .replay_dead_letter(&fields.letter, sees_all)
        .await?;
    Ok(see_other(&context.url("/health", &[])))
}
