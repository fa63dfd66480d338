//! What stages that ask a model have in common: the way to ask, and how text is put before a model.
//!
//! What a model says has no authority: answers are typed, bounded, and choose only among what their question held.

mod answers;
mod asks;
mod block;
mod checking;
mod desk;
mod entries;
mod known;
mod log;
mod outline;
mod pack;
mod plan;
mod reading;
#[cfg(test)]
mod scripted;
mod splitting;
mod summaries;
mod texts;
mod walk;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_document::Digest;
use stemma_engine::stage::{Output, Task};
use stemma_engine::{Failure, Identity};
use stemma_llm::fence::DATA_ONLY;
use stemma_llm::gate::Gate;
use stemma_llm::inquiry::inquire;
use stemma_llm::request::{Request, Schema, Usage};

pub use answers::Told;
pub(crate) use answers::{Answers, gather};
pub use asks::{Begun, Kind, Listed, Pointer, QuestionId, Reply, Said};
pub(crate) use block::{digest_of, lead, one_line, parts, summary, titled};
pub(crate) use known::{Known, nothing_said, replies};
pub(crate) use outline::{Outlined, outline};
pub use pack::Packs;
pub(crate) use pack::{Written, shown};
pub use plan::Part;
pub(crate) use plan::{DraftBlob, PER_PART, Plan, plan};
pub use summaries::Planned;
pub(crate) use summaries::{PARTS as MAX_PARTS, Reads, own_stretches};
pub use texts::Texts;
pub(crate) use texts::page_text;
pub(crate) use walk::tree;

use self::log::Log;
use crate::Filings;
use crate::settings::{ModelSettings, Purpose, Settings};
use crate::stages::QUESTIONS;

/// How long a task is away that needs a model this worker does not have.
const ELSEWHERE: Duration = Duration::from_secs(5);
/// Bytes of an answer as JSON: outcomes travel through the ledger, and longer lists are asked for in parts.
const MAX_SAID_BYTES: usize = 56 * 1024;

/// What an answer cost, as far as input and settings determine it: what the provider had at hand is chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

impl From<Usage> for Spent {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            output_tokens: usage.output_tokens,
        }
    }
}

/// A kind of question.
pub(crate) struct Question {
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

impl Question {
    /// Writes what every answer depends on beside the text: model, parameters, instructions and shape.
    pub(crate) fn identify(&self, settings: &Settings, identity: &mut Identity) {
        let model = settings.model.as_ref();
        identity.text(model.map_or("", |model| model.name_for(self.purpose)));
        identity.number(u64::from(model.map_or(0, self.max_tokens)));
        identity
            .text(&self.system(settings))
            .text(&(self.properties)().to_string());
    }

    /// The part of the prompt that does not change: providers keep it at hand.
    fn system(&self, settings: &Settings) -> String {
        let instructions = settings
            .instructions
            .get(self.stage)
            .map_or(self.instructions, String::as_str);
        format!("{instructions}\n\n{DATA_ONLY}")
    }

    /// Asks it about `user` until `check` makes something of the answer; the words of its error are shown to the model, so
    /// they say what is wrong with an answer, not what is in it. What is no answer is a failure, never a default.
    pub(crate) async fn ask<T: DeserializeOwned, U>(
        &self,
        task: &Task<'_, Filings>,
        user: String,
        check: impl Fn(T) -> Result<U, String>,
    ) -> Result<Asked<U>, Failure> {
        let (model, gate) = self.way(task)?;
        let request = self.request(task.settings, model, user);
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
        let log = Log::of(task, self.stage);
        let answer = match inquire(gate, &request, task.class, &log, check).await {
            Ok(answer) => answer,
            Err(failure) => return Err(log.failed(failure).await),
        };
        let records = answer
            .replies
            .iter()
            .map(|reply| log.record(&request, reply, true))
            .collect::<Result<_, _>>()?;
        Ok(Asked {
            value: answer.value,
            spent: answer.spent.into(),
            records,
        })
    }

    fn request(&self, settings: &Settings, model: &ModelSettings, user: String) -> Request {
        Request {
            model: model.name_for(self.purpose).into(),
            system: self.system(settings),
            user,
            schema: Schema::strict(self.stage, &(self.properties)()),
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
    fn way<'a>(
        &self,
        task: &Task<'a, Filings>,
    ) -> Result<(&'a ModelSettings, &'a Arc<Gate>), Failure> {
        let Some(model) = &task.settings.model else {
            return Err(Failure::permanent(
                "model.none",
                format!("{} has no model in its settings", self.stage),
            ));
        };
        let name = model.name_for(self.purpose);
        match task.tools.models.get(name) {
            Some(gate) => Ok((model, gate)),
            None => {
                let message = format!("this worker has no model `{name}`");
                Err(Failure::throttled("model.elsewhere", message, ELSEWHERE))
            }
        }
    }
}

/// Asks a question about structure that lies where `pointer` says; `said` types and bounds the answer.
pub(crate) async fn answer<T: DeserializeOwned>(
    question: &Question,
    task: &Task<'_, Filings>,
    pointer: &Pointer,
    said: impl Fn(T) -> Result<Said, String>,
) -> Result<Output<Reply>, Failure> {
    let texts = &task.tools.texts;
    let asks = texts.asks(task, &pointer.round).await?;
    let ask = asks.get(pointer.at as usize).ok_or_else(|| {
        Failure::permanent(
            "model.no_question",
            format!("the round has no question {}", pointer.at),
        )
    })?;
    let prompt = texts.prompt(task, &pointer.source, ask).await?;
    same_text(question.stage, Digest::of(prompt.as_bytes()), pointer.reads)?;
    let asked = question.ask(task, prompt, said).await?;
    Ok(Output::from(Reply {
        said: asked.value,
        spent: asked.spent,
    })
    .with_records(asked.records))
}

/// Refuses lists that are too long to be an answer.
pub(crate) fn bounded(said: Said) -> Result<Said, String> {
    match serde_json::to_vec(&said).map(|json| json.len()) {
        Ok(bytes) if bytes <= MAX_SAID_BYTES => Ok(said),
        Ok(bytes) => Err(format!("the list has {bytes} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the code of a gap says that a model did not answer. A method that was tried and given up was answered.
pub fn is_unanswered(code: &str) -> bool {
    code.starts_with("model.") && code.ends_with("_failed") && code != "model.method_failed"
}

/// Refuses to answer under a key that says another text was read.
pub(crate) fn same_text(stage: &str, read: Digest, key: Digest) -> Result<(), Failure> {
    let message = || format!("{stage}: the text is not the one that its key names");
    if read == key {
        Ok(())
    } else {
        Err(Failure::permanent("model.text_mismatch", message()))
    }
}

/// An answer, what it cost, and its lines in the call log, which are stored with what becomes of it.
pub(crate) struct Asked<T> {
    pub(crate) value: T,
    pub(crate) spent: Spent,
    pub(crate) records: Vec<(String, Bytes)>,
}
