//! A question to a model: its prompt, its schema, and the call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stemma_document::Digest;
use stemma_engine::stage::TaskContext;
use stemma_llm::client::ModelClient;
use stemma_llm::request::{LlmRequest, OutputSchema};
use stemma_llm::structured::complete_from;
use stemma_llm::untrusted::DATA_ONLY;
use stemma_store::{Failure, TaskKeyBuilder};

use super::batched::batched_reply;
use super::call_log::TaskCallLog;
use super::questions::WindowHeading;
use super::usage::StageUsage;
use crate::settings::{ModelSettings, Purpose, RunSettings};
use crate::{FilingFlow, FilingTask};

// How long a task is postponed if this worker does not have its model.
const REDELIVERY_DELAY: Duration = Duration::from_secs(5);
// Outcomes travel through the ledger, so a longer list is not a valid reply.
const MAX_ANSWER_BYTES: usize = 56 * 1024;

/// A kind of question.
pub(crate) struct LlmQuestion {
    /// The stage that asks; also the name of the schema.
    pub(crate) stage: &'static str,
    /// Determines which model is asked.
    pub(crate) purpose: Purpose,
    /// Used unless the run brings its own instructions.
    pub(crate) instructions: &'static str,
    /// JSON schemas of the properties of the reply.
    pub(crate) properties: fn() -> Value,
    /// Limit of the reply in tokens.
    pub(crate) max_tokens: fn(&ModelSettings) -> u32,
    /// Rises along the flow. Calls near the end of a document go first, so that it is published before others
    /// begin.
    pub(crate) urgency: u8,
}

impl LlmQuestion {
    /// Hashes everything except the text on which an answer depends.
    pub(crate) fn identify(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        let model = settings.model.as_ref();
        identity.text(model.map_or("", |model| model.name_for(self.purpose)));
        identity.number(u64::from(model.map_or(0, self.max_tokens)));
        identity
            .text(&self.system_prompt(settings))
            .text(&(self.properties)().to_string());
    }

    // Identical for all questions of a kind, so that providers can cache it.
    fn system_prompt(&self, settings: &RunSettings) -> String {
        let own = settings.instructions.get(self.stage);
        format!(
            "{}\n\n{DATA_ONLY}",
            own.map_or(self.instructions, String::as_str)
        )
    }

    /// Asks about `user` until `check` accepts a reply. The model sees the error of `check`, so the error
    /// must name the problem without quoting the reply. An invalid reply is a failure, never a default.
    pub(crate) async fn complete<T: DeserializeOwned, U>(
        &self,
        task: &FilingTask<'_>,
        user: String,
        check: impl Fn(T) -> Result<U, String>,
    ) -> Result<LlmAnswer<U>, Failure> {
        let (model, client) = self.model_client(task)?;
        let request = self.build_request(task.settings, model, user);
        let tokens = request.prompt_tokens();
        let most = model.max_prompt_tokens_for(self.purpose);
        if tokens > most {
            let stage = self.stage;
            let message = format!("the prompt of {stage} has {tokens} tokens, more than {most}");
            return Err(Failure::permanent("model.prompt_too_large", message)
                .with_next("raise model.max_prompt_tokens, if the model accepts longer prompts"));
        }
        ask(task, client, &request, check).await
    }

    pub(super) fn build_request(
        &self,
        settings: &RunSettings,
        model: &ModelSettings,
        user: String,
    ) -> LlmRequest {
        LlmRequest {
            model: model.name_for(self.purpose).into(),
            system: self.system_prompt(settings),
            user,
            images: Vec::new(),
            schema: OutputSchema::strict(self.stage, &(self.properties)()),
            max_output_tokens: (self.max_tokens)(model),
            follow_up: None,
            urgency: self.urgency,
        }
    }

    /// The model of the run and its client. A worker without the model leaves the task to others.
    pub(super) fn model_client<'a>(
        &self,
        task: &TaskContext<'a, FilingFlow>,
    ) -> Result<(&'a ModelSettings, &'a Arc<ModelClient>), Failure> {
        let Some(model) = &task.settings.model else {
            let message = format!("the settings of {} have no model", self.stage);
            return Err(Failure::permanent("model.not_configured", message));
        };
        let client = client_for(task, model.name_for(self.purpose))?;
        Ok((model, client))
    }
}

/// The client of a model. A worker without the model leaves the task to others.
pub(crate) fn client_for<'a>(
    task: &TaskContext<'a, FilingFlow>,
    name: &str,
) -> Result<&'a Arc<ModelClient>, Failure> {
    task.tools.models.get(name).ok_or_else(|| {
        let message = format!("this worker has no model `{name}`");
        Failure::throttled("model.call_in_progress", message, REDELIVERY_DELAY)
    })
}

/// Sends a request, in a batch if the job wants that, until `check` accepts a reply. All replies are recorded and charged.
pub(crate) async fn ask<T: DeserializeOwned, U>(
    task: &FilingTask<'_>,
    client: &ModelClient,
    request: &LlmRequest,
    check: impl Fn(T) -> Result<U, String>,
) -> Result<LlmAnswer<U>, Failure> {
    let log = TaskCallLog::for_task(task, request.schema.name);
    let first = batched_reply(task, client, request).await?;
    let answer = match complete_from(client, request, first, task.priority, &log, check).await {
        Ok(answer) => answer,
        Err(failure) => return Err(log.handle_failure(failure).await),
    };
    let records = answer
        .replies
        .iter()
        .map(|reply| log.record(request, reply, true));
    Ok(LlmAnswer {
        records: records.collect::<Result<_, _>>()?,
        value: answer.value,
        usage: answer.usage.into(),
    })
}

/// Rejects lists that do not fit in an outcome.
pub(crate) fn check_size(headings: Vec<WindowHeading>) -> Result<Vec<WindowHeading>, String> {
    match serde_json::to_vec(&headings).map(|json| json.len()) {
        Ok(bytes) if bytes <= MAX_ANSWER_BYTES => Ok(headings),
        Ok(bytes) => Err(format!("the list has {bytes} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

/// Fails if the text differs from the one that the key names.
pub(crate) fn check_digest(stage: &str, read: Digest, key: Digest) -> Result<(), Failure> {
    if read == key {
        return Ok(());
    }
    let message = format!("{stage}: the text is not the one that its key names");
    Err(Failure::permanent("model.text_mismatch", message))
}

pub(crate) struct LlmAnswer<T> {
    pub(crate) value: T,
    pub(crate) usage: StageUsage,
    pub(crate) records: Vec<(String, Bytes)>,
}
