//! A scripted model for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::request::{Llm, LlmError, LlmReply, LlmRequest, TokenUsage};
use stemma_store::Env;
use stemma_store::limit::MemoryLimiter;

use super::llm_session::{LlmClient, LlmClientSettings};

type ReplyFn = Box<dyn Fn(&LlmRequest) -> Result<String, LlmError> + Send + Sync>;

/// Replies by a function of the request, and records the requests.
pub(crate) struct ScriptedModel {
    reply_fn: ReplyFn,
    requests: Mutex<Vec<LlmRequest>>,
}

impl ScriptedModel {
    // `reply_fn` makes the reply of a request.
    pub(crate) fn new(
        reply_fn: impl Fn(&LlmRequest) -> Result<Value, LlmError> + Send + Sync + 'static,
    ) -> (Arc<Self>, LlmClient) {
        let reply_fn: ReplyFn =
            Box::new(move |request| reply_fn(request).map(|value| value.to_string()));
        let script = Arc::new(Self {
            reply_fn,
            requests: Mutex::default(),
        });
        let env = Env::simulated(1);
        let limiter = Arc::new(MemoryLimiter::default());
        let model_client = ModelClient::new(
            env.clone(),
            limiter,
            Arc::<Self>::clone(&script),
            ModelClientSettings::unlimited("m", "host"),
        );
        (
            script,
            LlmClient::new(env, Arc::new(model_client), LlmClientSettings::default()),
        )
    }

    // These replies one after the other, then server errors.
    pub(crate) fn with_replies(lines: &[&str]) -> (Arc<Self>, LlmClient) {
        let remaining: Mutex<VecDeque<String>> =
            Mutex::new(lines.iter().map(|line| (*line).to_owned()).collect());
        Self::new(move |_| match remaining.lock().unwrap().pop_front() {
            Some(line) => Ok(serde_json::from_str(&line).unwrap_or(Value::String(line))),
            None => Err(LlmError::Server {
                status: 500,
                message: String::new(),
            }),
        })
    }

    pub(crate) fn requests(&self) -> Vec<LlmRequest> {
        self.requests.lock().unwrap().clone()
    }
}

#[async_trait]
impl Llm for ScriptedModel {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        self.requests.lock().unwrap().push(request.clone());
        let usage = TokenUsage {
            prompt_tokens: request.prompt_tokens(),
            cached_tokens: 0,
            output_tokens: 20,
        };
        (self.reply_fn)(request).map(|text| LlmReply::new(text, usage))
    }
}
