//! Anthropic's dialect: one request holds the whole batch, and results are one file.
//!
//! A batch has no name there. One that may have been submitted is recognized by its number of requests and its time, and
//! for certain by the ids in its results, which exist once it has ended.

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_store::env::Millis;

use super::{
    BatchDialect, BatchName, BatchPhase, BatchProvider, BatchResult, BatchStatus,
    CLOCK_TOLERANCE_MS, FoundBatch, MAX_PAGES, PAGE_SIZE, cancel_batch, fetch_batch, id_of,
    json_lines, parse_object, path_segment, text,
};
use crate::anthropic::Anthropic;
use crate::header_time::parse_rfc3339;
use crate::http::FileBody;
use crate::request::{LlmError, LlmRequest};

const PATH: &str = "messages/batches";

#[async_trait]
impl BatchProvider for Anthropic {
    fn max_requests(&self) -> usize {
        100_000
    }

    fn line(&self, id: &str, request: &LlmRequest) -> String {
        json!({ "custom_id": id, "params": self.body(request) }).to_string()
    }

    async fn submit(&self, batch: &BatchName<'_>, lines: &[String]) -> Result<String, LlmError> {
        let requests = format!("{{\"requests\":[{}]}}", lines.join(","));
        let create = FileBody::json(batch.name, requests.into_bytes());
        let url = self.transport().url_for(PATH);
        id_of(&parse_object(
            &self.transport().fetch(url, Some(create)).await?,
        )?)
    }

    async fn find(&self, batch: &BatchName<'_>) -> Result<FoundBatch, LlmError> {
        let mut after = None;
        let mut found = FoundBatch::Missing;
        for _ in 0..MAX_PAGES {
            let mut url = self.transport().url_for(PATH);
            url.query_pairs_mut()
                .append_pair("limit", &PAGE_SIZE.to_string())
                .extend_pairs(after.iter().map(|id: &String| ("after_id", id)));
            let page = parse_object(&self.transport().fetch(url, None).await?)?;
            let Some(listed) = page.get("data").and_then(Value::as_array) else {
                break;
            };
            for one in listed.iter().filter(|one| may_be(one, batch)) {
                if phase(one) == BatchPhase::Running {
                    found = FoundBatch::Undecided;
                    continue;
                }
                let results = self.result_lines(one).await?;
                let first = json_lines(&results)
                    .find_map(|line| text(&line, "custom_id").map(str::to_string));
                if first.is_some_and(|id| batch.lines.contains(&id)) {
                    return Ok(FoundBatch::Submitted(id_of(one)?));
                }
            }
            // The newest come first.
            let has_more = page.get("has_more").and_then(Value::as_bool) == Some(true);
            match listed.last() {
                Some(last) if has_more && latest_created_ms(last) >= batch.since_ms => {
                    after = Some(id_of(last)?);
                }
                _ => break,
            }
        }
        Ok(found)
    }

    async fn status(&self, id: &str) -> Result<BatchStatus, LlmError> {
        let batch = fetch_batch(self.transport(), PATH, id).await?;
        let requests = counts(&batch, &COUNTS);
        Ok(BatchStatus {
            phase: phase(&batch),
            done: requests - counts(&batch, &["processing"]),
            requests,
        })
    }

    async fn results(&self, id: &str) -> Result<Vec<(String, BatchResult)>, LlmError> {
        let bytes = self
            .result_lines(&fetch_batch(self.transport(), PATH, id).await?)
            .await?;
        let results = json_lines(&bytes).filter_map(|mut line| {
            let id = text(&line, "custom_id")?.to_string();
            Some((id, self.result(line.get_mut("result")?)))
        });
        Ok(results.collect())
    }

    async fn cancel(&self, id: &str) -> Result<(), LlmError> {
        cancel_batch(self.transport(), PATH, id).await
    }
}

impl Anthropic {
    // The provider names the address of the results. It is used only on its own host, because requests carry the key.
    async fn result_lines(&self, batch: &Value) -> Result<Vec<u8>, LlmError> {
        let id = id_of(batch)?;
        let path = self
            .transport()
            .url_for(&format!("{PATH}/{}/results", path_segment(&id)?));
        let named = text(batch, "results_url").and_then(|url| path.join(url).ok());
        let url = named
            .filter(|named| named.origin() == path.origin())
            .unwrap_or(path);
        self.transport().fetch(url, None).await
    }

    fn result(&self, result: &mut Value) -> BatchResult {
        match text(result, "type") {
            Some("succeeded") => self.answered(
                result
                    .get_mut("message")
                    .map(Value::take)
                    .unwrap_or_default(),
            ),
            Some("errored") => {
                let error = result
                    .pointer("/error/error")
                    .or_else(|| result.get("error"));
                let error = error.unwrap_or(&Value::Null);
                let status = match text(error, "type") {
                    Some("invalid_request_error" | "not_found_error" | "request_too_large") => 400,
                    _ => 500,
                };
                self.refused(status, error)
            }
            _ => BatchResult::NotExecuted,
        }
    }
}

const COUNTS: [&str; 5] = ["processing", "succeeded", "errored", "canceled", "expired"];

fn counts(batch: &Value, names: &[&str]) -> u64 {
    let counts = batch.get("request_counts");
    names
        .iter()
        .filter_map(|name| counts.and_then(|counts| counts.get(*name)?.as_u64()))
        .sum()
}

fn phase(batch: &Value) -> BatchPhase {
    match text(batch, "processing_status") {
        Some("ended") => BatchPhase::Ended,
        _ => BatchPhase::Running,
    }
}

// The clocks of provider and process differ.
fn latest_created_ms(batch: &Value) -> Millis {
    text(batch, "created_at")
        .and_then(parse_rfc3339)
        .unwrap_or(0)
        + CLOCK_TOLERANCE_MS
}

fn may_be(listed: &Value, batch: &BatchName<'_>) -> bool {
    counts(listed, &COUNTS) == batch.lines.len() as u64
        && latest_created_ms(listed) >= batch.since_ms
}
