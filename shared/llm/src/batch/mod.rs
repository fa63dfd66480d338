//! Batch interfaces of providers: many requests in one file, answered within a day at a lower price.
//!
//! [`BatchProvider`] hides the dialects of OpenAI (`openai.rs`) and Anthropic (`anthropic.rs`). It submits, finds, polls,
//! reads and cancels one batch, and keeps no state: a process that died is replaced by one that asks the provider.

mod anthropic;
mod openai;

use async_trait::async_trait;
use serde_json::Value;
use stemma_store::env::Millis;

use crate::capabilities::ProviderCapabilities;
use crate::error_body::ErrorBody;
use crate::http::{FileBody, HttpTransport};
use crate::request::{LlmError, LlmReply, LlmRequest};

/// The batch interface of a provider.
#[async_trait]
pub trait BatchProvider: Send + Sync {
    /// Most requests in one batch.
    fn max_requests(&self) -> usize;

    /// One request as the provider takes it in a batch. `id` has at most 64 characters of `[A-Za-z0-9_-]`.
    fn line(&self, id: &str, request: &LlmRequest) -> String;

    /// Submits a batch of lines under a name, and returns the provider's id. After an error other than a refusal the batch
    /// may exist: [`BatchProvider::find`] tells.
    async fn submit(&self, batch: &BatchName<'_>, lines: &[String]) -> Result<String, LlmError>;

    /// Looks for a batch that may have been submitted.
    async fn find(&self, batch: &BatchName<'_>) -> Result<FoundBatch, LlmError>;

    /// How far a batch is.
    async fn status(&self, id: &str) -> Result<BatchStatus, LlmError>;

    /// The results of a batch that has ended, with the ids of their lines. A line without a result was not executed.
    async fn results(&self, id: &str) -> Result<Vec<(String, BatchResult)>, LlmError>;

    /// Asks the provider to stop a batch. Requests in progress are finished and billed; their results can be read.
    async fn cancel(&self, id: &str) -> Result<(), LlmError>;

    /// Removes the requests of a batch that has ended from the provider, where it keeps them as a file.
    async fn remove_requests(&self, id: &str) -> Result<(), LlmError> {
        let _ = id;
        Ok(())
    }
}

/// What identifies a batch before its provider has given it an id.
#[derive(Debug, Clone, Copy)]
pub struct BatchName<'a> {
    /// Unique for all time.
    pub name: &'a str,
    /// The ids of its lines.
    pub lines: &'a [String],
    /// It was submitted at this time or later.
    pub since_ms: Millis,
}

/// Whether a batch was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBatch {
    /// Yes, under this id.
    Submitted(String),
    /// There is none so far. One whose request is still on its way may appear.
    Missing,
    /// A batch that has not ended may be it; the provider tells only when it has.
    Undecided,
}

/// How far a batch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchStatus {
    pub phase: BatchPhase,
    /// Requests with a result.
    pub done: u64,
    pub requests: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchPhase {
    Running,
    /// Results can be read, perhaps not of all requests.
    Ended,
    /// Rejected as a whole, without results: the provider's code.
    Rejected(String),
}

/// The result of one request of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchResult {
    Reply(LlmReply),
    /// Answered with an error that a call would have had, too.
    Failed(LlmError),
    /// Not executed: the batch expired or was cancelled, the provider failed, or the request is to be sent in another
    /// shape.
    NotExecuted,
}

/// What the two dialects share.
pub(crate) trait BatchDialect {
    fn transport(&self) -> &HttpTransport;
    fn capabilities(&self) -> &ProviderCapabilities;
    fn body(&self, request: &LlmRequest) -> Value;
    fn parse(&self, body: Value) -> Result<LlmReply, LlmError>;

    // The result of a request that was answered with status 200.
    fn answered(&self, body: Value) -> BatchResult {
        match self.parse(body) {
            Ok(reply) => BatchResult::Reply(reply),
            Err(error) => BatchResult::Failed(error),
        }
    }

    // The result of a request that was answered with an error. Its message may quote the prompt, so only the code is kept.
    fn refused(&self, status: u16, error: &Value) -> BatchResult {
        if ErrorBody::from_value(error).rejects_images() {
            let message = String::new();
            return BatchResult::Failed(LlmError::NoImages { status, message });
        }
        let is_request_error =
            (400..500).contains(&status) && ![408, 409, 425, 429].contains(&status);
        if !is_request_error || self.capabilities().relax_after(&error.to_string()) {
            return BatchResult::NotExecuted;
        }
        let code = ["code", "type"]
            .iter()
            .find_map(|name| error.get(name)?.as_str());
        BatchResult::Failed(LlmError::Refused {
            status,
            message: code.unwrap_or_default().chars().take(64).collect(),
        })
    }
}

// The JSON values of a file of lines. A line that is not JSON counts as missing, as a request without a result.
fn json_lines(bytes: &[u8]) -> impl Iterator<Item = Value> + '_ {
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

fn parse_object(bytes: &[u8]) -> Result<Value, LlmError> {
    serde_json::from_slice(bytes)
        .map_err(|_| LlmError::unreadable("not JSON", crate::request::TokenUsage::default()))
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

fn id_of(value: &Value) -> Result<String, LlmError> {
    text(value, "id")
        .map(Into::into)
        .ok_or_else(|| LlmError::unreadable("no id", crate::request::TokenUsage::default()))
}

// Ids come from the provider and become parts of paths of its own host.
fn path_segment(id: &str) -> Result<&str, LlmError> {
    let has_name_bytes = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if (1..=256).contains(&id.len()) && has_name_bytes && !id.starts_with('.') {
        return Ok(id);
    }
    Err(LlmError::unreadable(
        "the provider's id is not a name",
        crate::request::TokenUsage::default(),
    ))
}

// What the provider says about a batch below `path`.
async fn fetch_batch(transport: &HttpTransport, path: &str, id: &str) -> Result<Value, LlmError> {
    let url = transport.url_for(&format!("{path}/{}", path_segment(id)?));
    parse_object(&transport.fetch(url, None).await?)
}

async fn cancel_batch(transport: &HttpTransport, path: &str, id: &str) -> Result<(), LlmError> {
    let url = transport.url_for(&format!("{path}/{}/cancel", path_segment(id)?));
    let body = FileBody::json(format!("{id}-cancel"), Vec::new());
    transport.fetch(url, Some(body)).await.map(drop)
}

// Pages of a provider's list that are read to find a batch: 2,000 batches.
const MAX_PAGES: usize = 20;
const PAGE_SIZE: usize = 100;
// How much the clocks of provider and process may differ.
const CLOCK_TOLERANCE_MS: Millis = 600_000;
