//! The stage of all questions about structure. They differ only in prompt, schema and reply type.

use std::marker::PhantomData;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_document::Digest;
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_engine::{Failure, TaskKeyBuilder};

use crate::llm::{
    LlmQuestion, QuestionKind, QuestionRef, StructureAnswer, StructureReply, check_digest,
};
use crate::settings::RunSettings;
use crate::{FilingFlow, FilingTask};

pub(crate) trait Question: Send + Sync + 'static {
    type Reply: DeserializeOwned + Send;

    const NAME: &'static str;
    const REVISION: u32;
    const KIND: QuestionKind;

    fn question() -> &'static LlmQuestion;

    /// Turns a reply into a bounded answer. The error text is shown to the model.
    fn parse(reply: Self::Reply) -> Result<StructureAnswer, String>;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub(crate) struct QuestionStage<Q> {
    at: QuestionRef,
    #[serde(skip)]
    question: PhantomData<fn() -> Q>,
}

impl<Q> QuestionStage<Q> {
    pub(crate) fn new(at: QuestionRef) -> Self {
        Self {
            at,
            question: PhantomData,
        }
    }
}

#[async_trait]
impl<Q: Question> Stage for QuestionStage<Q> {
    type Work = FilingFlow;
    type Outcome = StructureReply;

    const NAME: &'static str = Q::NAME;
    const REVISION: u32 = Q::REVISION;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        Q::question().identify(settings, identity);
        identity.bytes(self.at.reads.as_bytes());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<StructureReply> {
        let texts = &task.tools.text_cache;
        let questions = texts.questions(task, &self.at.round).await?;
        let question = questions.get(self.at.at as usize).ok_or_else(|| {
            Failure::permanent(
                "model.no_question",
                format!("the round has no question {}", self.at.at),
            )
        })?;
        let prompt = texts.prompt(task, &self.at.source, question).await?;
        let read = Digest::from_content(prompt.as_bytes());
        check_digest(Q::NAME, read, self.at.reads)?;
        let completed = Q::question().complete(task, prompt, Q::parse).await?;
        let reply = StructureReply {
            answer: completed.value,
            usage: completed.usage,
        };
        Ok(StageOutput::from(reply).with_records(completed.records))
    }
}
