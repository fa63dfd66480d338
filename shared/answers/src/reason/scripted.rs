//! A model that follows a script, for the tests of this folder.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use stemma_engine::Env;
use stemma_engine::limit::MemoryLimiter;
use stemma_llm::gate::{Gate, GateSettings};
use stemma_llm::request::{Llm, LlmError, Reply, Request, Usage};

use super::asker::{Asker, AskerSettings};

/// What the model is asked, and what it says then.
type Says = Box<dyn Fn(&Request) -> Result<String, LlmError> + Send + Sync>;

/// Answers by a function of the request, and notes what it was asked.
pub(crate) struct Scripted {
    says: Says,
    asked: Mutex<Vec<Request>>,
}

impl Scripted {
    /// An asker before a model that says what `says` makes of a request.
    pub(crate) fn asker(
        says: impl Fn(&Request) -> Result<Value, LlmError> + Send + Sync + 'static,
    ) -> (Arc<Self>, Asker) {
        let says: Says = Box::new(move |request| says(request).map(|value| value.to_string()));
        let script = Arc::new(Self {
            says,
            asked: Mutex::default(),
        });
        let env = Env::simulated(1);
        let limiter = Arc::new(MemoryLimiter::default());
        let gate = Gate::new(
            env.clone(),
            limiter,
            Arc::<Self>::clone(&script),
            GateSettings::unlimited("m", "host"),
        );
        (
            script,
            Asker::new(env, Arc::new(gate), AskerSettings::default()),
        )
    }

    /// An asker before a model that says these one after the other, and is away then.
    pub(crate) fn lines(lines: &[&str]) -> (Arc<Self>, Asker) {
        let left: Mutex<VecDeque<String>> =
            Mutex::new(lines.iter().map(|line| (*line).to_owned()).collect());
        Self::asker(move |_| match left.lock().unwrap().pop_front() {
            Some(line) => Ok(serde_json::from_str(&line).unwrap_or(Value::String(line))),
            None => Err(LlmError::Server {
                status: 500,
                message: String::new(),
            }),
        })
    }

    /// The requests that came.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Llm for Scripted {
    async fn complete(&self, request: &Request) -> Result<Reply, LlmError> {
        self.asked.lock().unwrap().push(request.clone());
        let usage = Usage {
            prompt_tokens: request.prompt_tokens(),
            cached_tokens: 0,
            output_tokens: 20,
        };
        (self.says)(request).map(|text| Reply::new(text, usage))
    }
}
