//! What stages that ask a model have in common: the way to ask, and how text is put before a model.
//!
//! What a model says has no authority: answers are typed, bounded, and choose only among what their question held.

mod answer_set;
mod batch;
mod call_log;
mod entries;
mod flow;
mod outline_method;
mod prompt_text;
mod questions;
mod section_answers;
mod split;
mod structure_queries;
mod summaries;
mod summary_plan;
#[cfg(test)]
mod tests;
mod text_cache;
mod toc;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_document::Digest;
use stemma_engine::stage::{StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};
use stemma_llm::client::ModelClient;
use stemma_llm::request::{LlmRequest, OutputSchema, TokenUsage};
use stemma_llm::structured::complete_structured;
use stemma_llm::untrusted::DATA_ONLY;

pub(crate) use answer_set::{AnswerSet, empty_digest, read_replies};
pub use batch::Batcher;
pub(crate) use batch::{SummaryBatch, delimit_sections};
pub(crate) use flow::tree_by_llm;
pub(crate) use outline_method::{OutlineRound, outline_round};
pub(crate) use prompt_text::{
    first_sentence, load_summary, part_summaries, single_line, title_digest, with_title,
};
pub use questions::{
    QuestionId, QuestionKind, QuestionRef, StructureAnswer, StructureReply, TocEntry, WindowSection,
};
pub use section_answers::SummaryRef;
pub(crate) use section_answers::{SectionAnswers, collect_answers};
pub use summaries::SectionPlan;
pub(crate) use summaries::{InputDigest, MAX_PART_SUMMARIES as MAX_PARTS, own_stretches};
pub use summary_plan::PlanPage;
pub(crate) use summary_plan::{DraftBlob, ITEMS_PER_PAGE, SummaryPlan, plan_pages};
pub use text_cache::TextCache;
pub(crate) use text_cache::page_text;

use self::call_log::TaskCallLog;
use crate::FilingFlow;
use crate::settings::{ModelSettings, Purpose, RunSettings};
use crate::stages::QUESTIONS;

/// How long a task is away that needs a model this worker does not have.
const REDELIVERY_DELAY: Duration = Duration::from_secs(5);
/// Bytes of an answer as JSON: outcomes travel through the ledger, and longer lists are asked for in parts.
const MAX_ANSWER_BYTES: usize = 56 * 1024;

/// What an answer cost, as far as input and settings determine it: what the provider had at hand is chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

impl From<TokenUsage> for StageUsage {
    fn from(usage: TokenUsage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            output_tokens: usage.output_tokens,
        }
    }
}

/// A kind of question.
pub(crate) struct LlmQuestion {
    /// The stage that asks; also the name of the schema.
    pub(crate) stage: &'static str,
    /// What it is asked for: which model is asked.
    pub(crate) purpose: Purpose,
    /// What the model is to do: the same for all questions of this kind, unless a run brings its own.
    pub(crate) instructions: &'static str,
    /// JSON schemas of the answer's properties.
    pub(crate) properties: fn() -> Value,
    /// Tokens of the answer at most.
    pub(crate) max_tokens: fn(&ModelSettings) -> u32,
}

impl LlmQuestion {
    /// Writes what every answer depends on beside the text: model, parameters, instructions and shape.
    pub(crate) fn identify(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        let model = settings.model.as_ref();
        identity.text(model.map_or("", |model| model.name_for(self.purpose)));
        identity.number(u64::from(model.map_or(0, self.max_tokens)));
        identity
            .text(&self.system_prompt(settings))
            .text(&(self.properties)().to_string());
    }

    /// The part of the prompt that does not change: providers keep it at hand.
    fn system_prompt(&self, settings: &RunSettings) -> String {
        let instructions = settings
            .instructions
            .get(self.stage)
            .map_or(self.instructions, String::as_str);
        format!("{instructions}\n\n{DATA_ONLY}")
    }

    /// Asks it about `user` until `check` makes something of the answer; the words of its error are shown to the model, so
    /// they say what is wrong with an answer, not what is in it. What is no answer is a failure, never a default.
    pub(crate) async fn complete<T: DeserializeOwned, U>(
        &self,
        task: &TaskContext<'_, FilingFlow>,
        user: String,
        check: impl Fn(T) -> Result<U, String>,
    ) -> Result<LlmAnswer<U>, Failure> {
        let (model, client) = self.model_client(task)?;
        let request = self.build_request(task.settings, model, user);
        let tokens = request.prompt_tokens();
        let most = model.max_prompt_tokens_for(self.purpose);
        if tokens > most {
            let message = format!(
                "{} would read {tokens} tokens at once, more than {most}",
                self.stage
            );
            return Err(Failure::permanent("model.prompt_too_large", message)
                .with_next("raise model.max_prompt_tokens, if the model can read as much"));
        }
        let log = TaskCallLog::for_task(task, self.stage);
        let answer = match complete_structured(client, &request, task.class, &log, check).await {
            Ok(answer) => answer,
            Err(failure) => return Err(log.handle_failure(failure).await),
        };
        let records = answer
            .replies
            .iter()
            .map(|reply| log.record(&request, reply, true))
            .collect::<Result<_, _>>()?;
        Ok(LlmAnswer {
            value: answer.value,
            usage: answer.usage.into(),
            records,
        })
    }

    fn build_request(
        &self,
        settings: &RunSettings,
        model: &ModelSettings,
        user: String,
    ) -> LlmRequest {
        LlmRequest {
            model: model.name_for(self.purpose).into(),
            system: self.system_prompt(settings),
            user,
            schema: OutputSchema::strict(self.stage, &(self.properties)()),
            max_output_tokens: (self.max_tokens)(model),
            follow_up: None,
            urgency: self.urgency(),
        }
    }

    /// The nearer to the end of its document, the more urgent.
    fn urgency(&self) -> u8 {
        let place = QUESTIONS
            .iter()
            .position(|question| question.stage == self.stage);
        place
            .and_then(|place| u8::try_from(place).ok())
            .unwrap_or(0)
    }

    /// The model of the run and the way to it; a worker without it leaves the task to others (rule 5).
    fn model_client<'a>(
        &self,
        task: &TaskContext<'a, FilingFlow>,
    ) -> Result<(&'a ModelSettings, &'a Arc<ModelClient>), Failure> {
        let Some(model) = &task.settings.model else {
            return Err(Failure::permanent(
                "model.none",
                format!("{} has no model in its settings", self.stage),
            ));
        };
        let name = model.name_for(self.purpose);
        match task.tools.models.get(name) {
            Some(client) => Ok((model, client)),
            None => {
                let message = format!("this worker has no model `{name}`");
                Err(Failure::throttled(
                    "model.elsewhere",
                    message,
                    REDELIVERY_DELAY,
                ))
            }
        }
    }
}

/// Asks a question about structure that lies where `pointer` says; `answer` types and bounds the answer.
pub(crate) async fn answer_question<T: DeserializeOwned>(
    question: &LlmQuestion,
    task: &TaskContext<'_, FilingFlow>,
    pointer: &QuestionRef,
    parse: impl Fn(T) -> Result<StructureAnswer, String>,
) -> Result<StageOutput<StructureReply>, Failure> {
    let texts = &task.tools.text_cache;
    let asks = texts.questions(task, &pointer.round).await?;
    let ask = asks.get(pointer.at as usize).ok_or_else(|| {
        Failure::permanent(
            "model.no_question",
            format!("the round has no question {}", pointer.at),
        )
    })?;
    let prompt = texts.prompt(task, &pointer.source, ask).await?;
    check_digest(
        question.stage,
        Digest::from_content(prompt.as_bytes()),
        pointer.reads,
    )?;
    let completed = question.complete(task, prompt, parse).await?;
    Ok(StageOutput::from(StructureReply {
        answer: completed.value,
        usage: completed.usage,
    })
    .with_records(completed.records))
}

/// Refuses lists that are too long to be an answer.
pub(crate) fn check_size(answer: StructureAnswer) -> Result<StructureAnswer, String> {
    match serde_json::to_vec(&answer).map(|json| json.len()) {
        Ok(bytes) if bytes <= MAX_ANSWER_BYTES => Ok(answer),
        Ok(bytes) => Err(format!("the list has {bytes} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the code of a gap says that a model did not answer. A method that was tried and given up was answered.
pub fn is_unanswered(code: &str) -> bool {
    code.starts_with("model.") && code.ends_with("_failed") && code != "model.method_failed"
}

/// Refuses to answer under a key that says another text was read.
pub(crate) fn check_digest(stage: &str, read: Digest, key: Digest) -> Result<(), Failure> {
    let message = || format!("{stage}: the text is not the one that its key names");
    if read == key {
        Ok(())
    } else {
        Err(Failure::permanent("model.text_mismatch", message()))
    }
}

/// An answer, what it cost, and its lines in the call log, which are stored with what becomes of it.
pub(crate) struct LlmAnswer<T> {
    pub(crate) value: T,
    pub(crate) usage: StageUsage,
    pub(crate) records: Vec<(String, Bytes)>,
}
