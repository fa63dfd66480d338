//! Batch interfaces: OpenAI's files and batches, Anthropic's message batches. A batch is answered as a whole when its time
//! has passed; nothing is throttled.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::answer::ProviderCall;
use crate::behavior::{ReplyFault, SimulatedBatches};
use crate::dialect::{WireDialect, format_timestamp};
use crate::http::HttpHead;
use crate::provider::ProviderShared;
use crate::report::BatchTotals;
use crate::seeded::SeededRng;

const PAGE_SIZE: usize = 20;

/// The files and batches of a provider.
#[derive(Default)]
pub(crate) struct Batches(Mutex<BatchState>);

#[derive(Default)]
struct BatchState {
    files: BTreeMap<String, Vec<u8>>,
    uploads: usize,
    batches: Vec<SimBatch>,
    totals: BatchTotals,
}

struct SimBatch {
    id: String,
    dialect: WireDialect,
    created: Instant,
    created_at: SystemTime,
    metadata: Value,
    input_file: Value,
    lines: Vec<Value>,
    cancelled: Option<Instant>,
    // One result per line, once it has ended.
    results: Option<Vec<LineResult>>,
    rejected: bool,
}

enum LineResult {
    Answered(Value),
    Refused(u16, Value),
    Failed,
    NotExecuted(&'static str),
}

/// A reply of the batch interface.
pub(crate) enum BatchReply {
    Json(u16, Value),
    Lines(Vec<u8>),
    /// The effect happened, and the connection breaks before the client knows.
    Lost,
}

impl Batches {
    fn state(&self) -> MutexGuard<'_, BatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn totals(&self) -> BatchTotals {
        let state = self.state();
        BatchTotals {
            files: state.files.len(),
            ..state.totals.clone()
        }
    }
}

/// The reply to a request of a batch interface; `None` if its path belongs to none.
pub(crate) fn serve(shared: &ProviderShared, head: &HttpHead, body: &[u8]) -> Option<BatchReply> {
    let url = head.start_line_word(1);
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let path = path.split_once("/v1/")?.1;
    let (dialect, rest) = match path.strip_prefix("messages/batches") {
        Some(rest) => (WireDialect::Anthropic, rest),
        None if path.starts_with("files") => return Some(files(shared, head, path, body)),
        None => (WireDialect::OpenAi, path.strip_prefix("batches")?),
    };
    let is_post = head.start_line_word(0) == "POST";
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    shared.run_due_batches();
    let reply = match (is_post, parts.as_slice()) {
        (true, []) => return Some(create(shared, dialect, body)),
        (false, []) => list(shared, dialect, query),
        (true, [id, "cancel"]) => {
            if let Some(batch) = shared.batches.state().find(id) {
                batch.cancelled.get_or_insert_with(Instant::now);
            }
            shared.run_due_batches();
            describe(shared, id)
        }
        (false, [id]) => describe(shared, id),
        (false, [id, "results"]) => return Some(results(shared, id)),
        _ => None,
    };
    let missing = || (404, dialect.error(404, "no such batch"));
    let (status, value) = reply.map_or_else(missing, |value| (200, value));
    Some(BatchReply::Json(status, value))
}

impl BatchState {
    fn find(&mut self, id: &str) -> Option<&mut SimBatch> {
        self.batches.iter_mut().find(|batch| batch.id == id)
    }
}

fn create(shared: &ProviderShared, dialect: WireDialect, body: &[u8]) -> BatchReply {
    let behavior = shared.behavior().batches;
    let order: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut state = shared.batches.state();
    let lines: Vec<Value> = match dialect {
        WireDialect::Anthropic => order["requests"].as_array().cloned().unwrap_or_default(),
        WireDialect::OpenAi => {
            let file = order["input_file_id"].as_str().unwrap_or_default();
            let file = state.files.get(file).map_or(&[][..], Vec::as_slice);
            file.split(|byte| *byte == b'\n')
                .filter(|line| !line.trim_ascii().is_empty())
                .map(|line| serde_json::from_slice(line).unwrap_or_default())
                .collect()
        }
    };
    let mut ids: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["custom_id"].as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    if lines.is_empty() || ids.len() < lines.len() {
        let message = "requests need a custom_id each";
        return BatchReply::Json(400, dialect.error(400, message));
    }
    let number = state.batches.len() + 1;
    let id = match dialect {
        WireDialect::OpenAi => format!("batch_sim{number}"),
        WireDialect::Anthropic => format!("msgbatch_sim{number}"),
    };
    state.totals.batches += 1;
    state.totals.requests += lines.len();
    let batch = SimBatch {
        id,
        dialect,
        created: Instant::now(),
        created_at: SystemTime::now(),
        metadata: order["metadata"].clone(),
        input_file: order["input_file_id"].clone(),
        lines,
        cancelled: None,
        results: None,
        rejected: behavior.rejects,
    };
    let value = batch.describe(behavior);
    state.batches.push(batch);
    if behavior.loses_replies {
        BatchReply::Lost
    } else {
        BatchReply::Json(200, value)
    }
}

fn describe(shared: &ProviderShared, id: &str) -> Option<Value> {
    let behavior = shared.behavior().batches;
    shared
        .batches
        .state()
        .find(id)
        .map(|batch| batch.describe(behavior))
}

fn list(shared: &ProviderShared, dialect: WireDialect, query: &str) -> Option<Value> {
    let behavior = shared.behavior().batches;
    let state = shared.batches.state();
    let after = query.split('&').find_map(|pair| {
        pair.strip_prefix("after=")
            .or_else(|| pair.strip_prefix("after_id="))
    });
    let all: Vec<&SimBatch> = state
        .batches
        .iter()
        .rev()
        .filter(|batch| batch.dialect == dialect)
        .collect();
    let start = after.map_or(0, |after| {
        all.iter()
            .position(|batch| batch.id == after)
            .map_or(all.len(), |at| at + 1)
    });
    let page: Vec<Value> = all[start..]
        .iter()
        .take(PAGE_SIZE)
        .map(|batch| batch.describe(behavior))
        .collect();
    Some(json!({ "object": "list", "has_more": all.len() > start + page.len(), "data": page }))
}

fn results(shared: &ProviderShared, id: &str) -> BatchReply {
    match shared.batches.state().find(id) {
        Some(batch) if batch.results.is_some() => BatchReply::Lines(batch.result_file("output")),
        _ => BatchReply::Json(404, WireDialect::Anthropic.error(404, "no results")),
    }
}

fn files(shared: &ProviderShared, head: &HttpHead, path: &str, body: &[u8]) -> BatchReply {
    let dialect = WireDialect::OpenAi;
    if head.start_line_word(0) == "POST" {
        let Some(content) = uploaded_file(body) else {
            return BatchReply::Json(400, dialect.error(400, "no file"));
        };
        let mut state = shared.batches.state();
        state.uploads += 1;
        let id = format!("file-sim{}", state.uploads);
        state.files.insert(id.clone(), content);
        return BatchReply::Json(
            200,
            json!({ "id": id, "object": "file", "purpose": "batch" }),
        );
    }
    if head.start_line_word(0) == "DELETE" {
        let id = path.trim_start_matches("files/");
        let is_removed = shared.batches.state().files.remove(id).is_some();
        let status = if is_removed { 200 } else { 404 };
        return BatchReply::Json(status, json!({ "id": id, "deleted": is_removed }));
    }
    // The files of results are named after their batch.
    let name = path
        .trim_start_matches("files/")
        .trim_end_matches("/content");
    let mut state = shared.batches.state();
    match name
        .split_once('.')
        .and_then(|(kind, id)| Some((kind, state.find(id)?)))
    {
        Some((kind, batch)) => BatchReply::Lines(batch.result_file(kind)),
        None => BatchReply::Json(404, dialect.error(404, "no such file")),
    }
}

// The content of the part that has a file name.
fn uploaded_file(body: &[u8]) -> Option<Vec<u8>> {
    let position =
        |of: &[u8], what: &[u8]| of.windows(what.len()).position(|window| window == what);
    let boundary = &body[..position(body, b"\r\n")?];
    let part = &body[position(body, b"filename=")?..];
    let content = &part[position(part, b"\r\n\r\n")? + 4..];
    Some(content[..position(content, boundary)?.checked_sub(2)?].to_vec())
}

impl SimBatch {
    fn is_due(&self, takes: Duration) -> bool {
        self.results.is_none() && (self.cancelled.is_some() || self.created.elapsed() >= takes)
    }

    // The share of its time that has passed.
    fn progress(&self, takes: Duration) -> f64 {
        let until = self.cancelled.unwrap_or_else(Instant::now);
        let passed = until.duration_since(self.created).as_secs_f64();
        if takes.is_zero() {
            1.0
        } else {
            (passed / takes.as_secs_f64()).min(1.0)
        }
    }

    fn describe(&self, behavior: SimulatedBatches) -> Value {
        let total = self.lines.len();
        let running = (self.progress(behavior.takes()) * total as f64) as usize;
        let count = |kind: fn(&LineResult) -> bool| {
            self.results
                .iter()
                .flatten()
                .filter(|result| kind(result))
                .count()
        };
        let succeeded = count(|result| matches!(result, LineResult::Answered(_)));
        let errored =
            count(|result| matches!(result, LineResult::Refused(..) | LineResult::Failed));
        let is_ended = self.results.is_some();
        let created = self
            .created_at
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        match self.dialect {
            WireDialect::OpenAi => json!({
                "id": self.id, "object": "batch", "endpoint": "/v1/chat/completions",
                "completion_window": "24h", "created_at": created.as_secs(), "metadata": self.metadata,
                "input_file_id": self.input_file,
                "status": match (self.rejected, is_ended, self.cancelled) {
                    (true, ..) => "failed",
                    (_, true, Some(_)) => "cancelled",
                    (_, true, None) => "completed",
                    (_, false, _) => "in_progress",
                },
                "errors": if self.rejected {
                    json!({ "object": "list", "data": [{ "code": "token_limit_exceeded", "message": "too many" }] })
                } else { Value::Null },
                "request_counts": {
                    "total": total,
                    "completed": if is_ended { succeeded } else { running },
                    "failed": errored,
                },
                "output_file_id": is_ended.then(|| format!("output.{}", self.id)),
                "error_file_id": is_ended.then(|| format!("error.{}", self.id)),
            }),
            WireDialect::Anthropic => {
                let not_executed = |why| {
                    self.results
                        .iter()
                        .flatten()
                        .filter(|result| matches!(result, LineResult::NotExecuted(w) if *w == why))
                        .count()
                };
                json!({
                    "id": self.id, "type": "message_batch",
                    "processing_status": if is_ended { "ended" } else { "in_progress" },
                    "created_at": format_timestamp(self.created_at),
                    "request_counts": {
                        "processing": if is_ended { 0 } else { total - running },
                        "succeeded": if is_ended { succeeded } else { running },
                        "errored": errored, "canceled": not_executed("canceled"), "expired": not_executed("expired"),
                    },
                    "results_url": is_ended.then(|| format!("/v1/messages/batches/{}/results", self.id)),
                })
            }
        }
    }

    fn result_file(&self, kind: &str) -> Vec<u8> {
        let mut file = Vec::new();
        // Results come in another order than requests.
        for (line, result) in self
            .lines
            .iter()
            .zip(self.results.as_deref().unwrap_or_default())
            .rev()
        {
            let id = &line["custom_id"];
            let (is_output, value) = match self.dialect {
                WireDialect::OpenAi => openai_line(id, result),
                WireDialect::Anthropic => (true, anthropic_line(id, result)),
            };
            if is_output == (kind == "output") {
                file.extend_from_slice(value.to_string().as_bytes());
                file.push(b'\n');
            }
        }
        file
    }
}

fn openai_line(id: &Value, result: &LineResult) -> (bool, Value) {
    let with = |status: u16, body: &Value| {
        json!({ "id": "batch_req_sim", "custom_id": id, "error": null,
                "response": { "status_code": status, "request_id": "r", "body": body } })
    };
    match result {
        LineResult::Answered(body) => (true, with(200, body)),
        LineResult::Refused(status, body) => (false, with(*status, body)),
        LineResult::Failed => (
            false,
            with(500, &WireDialect::OpenAi.error(500, "internal error")),
        ),
        LineResult::NotExecuted(why) => (
            false,
            json!({ "id": "batch_req_sim", "custom_id": id, "response": null,
                    "error": { "code": format!("batch_{why}"), "message": "not executed" } }),
        ),
    }
}

fn anthropic_line(id: &Value, result: &LineResult) -> Value {
    let result = match result {
        LineResult::Answered(message) => json!({ "type": "succeeded", "message": message }),
        LineResult::Refused(_, error) => json!({ "type": "errored", "error": error }),
        LineResult::Failed => {
            json!({ "type": "errored", "error": WireDialect::Anthropic.error(500, "internal error") })
        }
        LineResult::NotExecuted(why) => json!({ "type": why }),
    };
    json!({ "custom_id": id, "result": result })
}

impl ProviderShared {
    // Answers the batches whose time has passed.
    fn run_due_batches(&self) {
        let behavior = self.behavior();
        let takes = behavior.batches.takes();
        loop {
            let due = {
                let state = self.batches.state();
                let due = state.batches.iter().find(|batch| batch.is_due(takes));
                due.map(|batch| {
                    let executed = (batch.progress(takes) * batch.lines.len() as f64) as usize;
                    (
                        batch.id.clone(),
                        batch.dialect,
                        batch.lines.clone(),
                        executed,
                        batch.rejected,
                    )
                })
            };
            let Some((id, dialect, lines, executed, rejected)) = due else {
                return;
            };
            let mut totals = BatchTotals::default();
            let results = lines.iter().enumerate().map(|(at, line)| {
                let about = line["custom_id"].as_str().unwrap_or_default().as_bytes();
                let expires = SeededRng::new(behavior.seed, "expires", about)
                    .chance(behavior.batches.expires);
                match () {
                    () if rejected || at >= executed => LineResult::NotExecuted("canceled"),
                    () if expires => LineResult::NotExecuted("expired"),
                    () => self.answer_line(dialect, line, &mut totals),
                }
            });
            let results = results.collect();
            let mut state = self.batches.state();
            if let Some(batch) = state.find(&id).filter(|batch| batch.results.is_none()) {
                batch.results = Some(results);
                state.totals.add(&totals);
            }
        }
    }

    fn answer_line(
        &self,
        dialect: WireDialect,
        line: &Value,
        totals: &mut BatchTotals,
    ) -> LineResult {
        let (path, body) = match dialect {
            WireDialect::OpenAi => ("/v1/chat/completions", &line["body"]),
            WireDialect::Anthropic => ("/v1/messages", &line["params"]),
        };
        let call = ProviderCall::from_parts("POST", path, body.to_string().as_bytes());
        let answered = self.answer_for(&call);
        let behavior = self.behavior();
        let serving = self.next_serving(&call);
        let fault = behavior
            .faults
            .fault_for(behavior.seed, call.digest.as_bytes(), serving);
        if matches!(
            fault,
            Some(ReplyFault::Error | ReplyFault::Hang | ReplyFault::Reset)
        ) {
            return LineResult::Failed;
        }
        let (_, status, value) = call.reply(&answered, fault, &behavior);
        if status != 200 {
            return LineResult::Refused(status, value);
        }
        totals.executed += 1;
        totals.repeated += usize::from(!self.mark_answered(&call));
        totals.prompt_tokens += u64::from(answered.prompt_tokens);
        totals.output_tokens += u64::from(answered.output_tokens);
        LineResult::Answered(value)
    }
}
