//! OpenAI's dialect: a file of lines is uploaded, a batch names the file, and results are files again.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    BatchDialect, BatchName, BatchPhase, BatchProvider, BatchResult, BatchStatus,
    CLOCK_TOLERANCE_MS, FoundBatch, MAX_PAGES, PAGE_SIZE, cancel_batch, fetch_batch, id_of,
    json_lines, parse_object, path_segment, text,
};
use crate::http::FileBody;
use crate::openai::OpenAi;
use crate::request::{LlmError, LlmRequest};

const PATH: &str = "batches";
const ENDPOINT: &str = "/v1/chat/completions";
// The key of the batch's metadata that holds its name.
const NAME_KEY: &str = "stemma_batch";
// Separates the parts of an upload. JSON escapes line ends, so no line of a batch can contain it.
const BOUNDARY: &str = "stemma-batch-e5b1c0a94d7f";

#[async_trait]
impl BatchProvider for OpenAi {
    fn max_requests(&self) -> usize {
        50_000
    }

    fn line(&self, id: &str, request: &LlmRequest) -> String {
        json!({ "custom_id": id, "method": "POST", "url": ENDPOINT, "body": self.body(request) })
            .to_string()
    }

    async fn submit(&self, batch: &BatchName<'_>, lines: &[String]) -> Result<String, LlmError> {
        let transport = self.transport();
        let upload = FileBody {
            content_type: format!("multipart/form-data; boundary={BOUNDARY}"),
            idempotency_key: format!("{}-file", batch.name),
            bytes: multipart(batch.name, lines),
        };
        let received = transport
            .fetch(transport.url_for("files"), Some(upload))
            .await?;
        let order = json!({
            "input_file_id": id_of(&parse_object(&received)?)?,
            "endpoint": ENDPOINT,
            "completion_window": "24h",
            "metadata": { NAME_KEY: batch.name },
        });
        let create = FileBody::json(batch.name, order.to_string().into_bytes());
        let received = transport
            .fetch(transport.url_for(PATH), Some(create))
            .await?;
        id_of(&parse_object(&received)?)
    }

    async fn find(&self, batch: &BatchName<'_>) -> Result<FoundBatch, LlmError> {
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let mut url = self.transport().url_for(PATH);
            url.query_pairs_mut()
                .append_pair("limit", &PAGE_SIZE.to_string())
                .extend_pairs(after.iter().map(|id: &String| ("after", id)));
            let page = parse_object(&self.transport().fetch(url, None).await?)?;
            let Some(listed) = page.get("data").and_then(Value::as_array) else {
                break;
            };
            for one in listed {
                let name = one.get("metadata").and_then(|data| text(data, NAME_KEY));
                if name == Some(batch.name) {
                    return Ok(FoundBatch::Submitted(id_of(one)?));
                }
            }
            // The newest come first.
            let has_more = page.get("has_more").and_then(Value::as_bool) == Some(true);
            match listed.last() {
                Some(last) if has_more && !is_older(last, batch.since_ms) => {
                    after = Some(id_of(last)?);
                }
                _ => break,
            }
        }
        Ok(FoundBatch::Missing)
    }

    async fn status(&self, id: &str) -> Result<BatchStatus, LlmError> {
        let batch = fetch_batch(self.transport(), PATH, id).await?;
        let count = |name: &str| {
            let counts = batch.get("request_counts");
            counts
                .and_then(|counts| counts.get(name)?.as_u64())
                .unwrap_or(0)
        };
        let phase = match text(&batch, "status") {
            Some("completed" | "expired" | "cancelled") => BatchPhase::Ended,
            Some("failed") => BatchPhase::Rejected(first_error_code(&batch)),
            _ => BatchPhase::Running,
        };
        Ok(BatchStatus {
            phase,
            done: count("completed") + count("failed"),
            requests: count("total"),
        })
    }

    async fn results(&self, id: &str) -> Result<Vec<(String, BatchResult)>, LlmError> {
        let batch = fetch_batch(self.transport(), PATH, id).await?;
        let mut results = Vec::new();
        for file in ["output_file_id", "error_file_id"] {
            let Some(file) = text(&batch, file).filter(|file| !file.is_empty()) else {
                continue;
            };
            let url = self
                .transport()
                .url_for(&format!("files/{}/content", path_segment(file)?));
            let bytes = self.transport().fetch(url, None).await?;
            results.extend(json_lines(&bytes).filter_map(|mut line| {
                let id = text(&line, "custom_id")?.to_string();
                Some((id, self.result(&mut line)))
            }));
        }
        Ok(results)
    }

    async fn cancel(&self, id: &str) -> Result<(), LlmError> {
        cancel_batch(self.transport(), PATH, id).await
    }

    async fn remove_requests(&self, id: &str) -> Result<(), LlmError> {
        let batch = fetch_batch(self.transport(), PATH, id).await?;
        let Some(file) = text(&batch, "input_file_id") else {
            return Ok(());
        };
        let url = self
            .transport()
            .url_for(&format!("files/{}", path_segment(file)?));
        self.transport().delete(url).await
    }
}

// Whether a listed batch is older than a time, by more than clocks differ.
fn is_older(listed: &Value, since_ms: u64) -> bool {
    listed
        .get("created_at")
        .and_then(Value::as_u64)
        .is_some_and(|seconds| seconds * 1_000 + CLOCK_TOLERANCE_MS < since_ms)
}

impl OpenAi {
    fn result(&self, line: &mut Value) -> BatchResult {
        let Some(response) = line
            .get_mut("response")
            .filter(|response| response.is_object())
        else {
            return BatchResult::NotExecuted;
        };
        let status = response
            .get("status_code")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        let body = response
            .get_mut("body")
            .map(Value::take)
            .unwrap_or_default();
        match u16::try_from(status).unwrap_or(0) {
            200 => self.answered(body),
            status => self.refused(status, body.get("error").unwrap_or(&body)),
        }
    }
}

fn first_error_code(batch: &Value) -> String {
    let code = batch
        .pointer("/errors/data/0/code")
        .and_then(Value::as_str)
        .unwrap_or("failed");
    code.chars().take(64).collect()
}

fn multipart(name: &str, lines: &[String]) -> Vec<u8> {
    let size = lines.iter().map(|line| line.len() + 1).sum::<usize>();
    let mut body = Vec::with_capacity(size + 512);
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}.jsonl\"\r\n\
         content-type: application/jsonl\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    for line in lines {
        body.extend_from_slice(line.as_bytes());
        body.push(b'\n');
    }
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    body
}
