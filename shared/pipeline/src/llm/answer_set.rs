//! The answers about structure so far: told alike by the flow, from its ledger, and by the stage that finds the outline,
//! from the artifacts themselves.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, ModelAnswers, SourceBody};
use stemma_engine::stage::{Stage, TaskContext};
use stemma_engine::{Failure, TaskKey};

use super::questions::{
    QuestionId, QuestionKind, QuestionRef, QuestionText, StructureAnswer, StructureQuestion,
    StructureReply,
};
use super::section_answers::{MAX_CONCURRENT_READS, ReplyResult, failed_tasks, task_outcome};
use crate::FilingFlow;
use crate::stages::{DetectToc, Locate, ReadContents, ReadWindow, Repair, VerifyTitle};

/// All answers so far, each once, in the order they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerSet {
    digest: Digest,
    answers: Vec<(QuestionId, ReplyResult<StructureReply>)>,
}

impl Default for AnswerSet {
    fn default() -> Self {
        Self {
            digest: empty_digest(),
            answers: Vec::new(),
        }
    }
}

/// The digest of no answers.
pub(crate) fn empty_digest() -> Digest {
    Digest::from_content(&[])
}

/// The digest of the answers of `before` and those behind them.
pub(crate) fn extend_digest(
    before: Digest,
    answers: &[(QuestionId, ReplyResult<StructureReply>)],
) -> Digest {
    // Plain data can always be written as JSON.
    let json = serde_json::to_vec(answers).unwrap_or_default();
    let mut bytes = before.as_bytes().to_vec();
    bytes.extend(json);
    Digest::from_content(&bytes)
}

impl AnswerSet {
    /// The digest of all of them.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn extend(&mut self, answers: Vec<(QuestionId, ReplyResult<StructureReply>)>) {
        self.digest = extend_digest(self.digest, &answers);
        self.answers.extend(answers);
    }

    /// What they cost, and how many titles stand where they were looked for.
    pub(crate) fn totals(&self) -> ModelAnswers {
        let replies = || {
            self.answers
                .iter()
                .filter_map(|(_, answer)| answer.as_ref().ok())
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        ModelAnswers {
            calls: count(replies().count()),
            prompt_tokens: replies()
                .map(|reply| u64::from(reply.usage.prompt_tokens))
                .sum(),
            output_tokens: replies()
                .map(|reply| u64::from(reply.usage.output_tokens))
                .sum(),
            contents_pages: Vec::new(),
            titles_asked: count(
                self.answers
                    .iter()
                    .filter(|(id, _)| id.kind == QuestionKind::VerifyTitle)
                    .count(),
            ),
            titles_confirmed: count(
                replies()
                    .filter(|reply: &&StructureReply| {
                        matches!(
                            reply.answer,
                            StructureAnswer::TitleCheck { stands: true, .. }
                        )
                    })
                    .count(),
            ),
            ..ModelAnswers::default()
        }
    }
}

/// Reads the answers to questions of one round from their artifacts. What failed in this run counts as failed, as it does
/// for the flow, though another run may have an artifact by now.
pub(crate) async fn read_replies(
    task: &TaskContext<'_, FilingFlow>,
    source: TaskKey,
    round: TaskKey,
    questions: Vec<QuestionId>,
) -> Result<Vec<(QuestionId, ReplyResult<StructureReply>)>, Failure> {
    let failed = &failed_tasks(task).await?;
    stream::iter(questions.into_iter().enumerate())
        .map(|(at, questions): (usize, QuestionId)| async move {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let question_ref = QuestionRef {
                reads: questions.reads,
                source,
                round,
                at,
            };
            let reply = match questions.kind {
                QuestionKind::DetectToc => {
                    read_reply(task, failed, &DetectToc(question_ref)).await?
                }
                QuestionKind::ReadContents => {
                    read_reply(task, failed, &ReadContents(question_ref)).await?
                }
                QuestionKind::ReadWindow => {
                    read_reply(task, failed, &ReadWindow(question_ref)).await?
                }
                QuestionKind::Locate => read_reply(task, failed, &Locate(question_ref)).await?,
                QuestionKind::VerifyTitle => {
                    read_reply(task, failed, &VerifyTitle(question_ref)).await?
                }
                QuestionKind::Repair => read_reply(task, failed, &Repair(question_ref)).await?,
            };
            Ok::<_, Failure>((questions, reply))
        })
        .buffered(MAX_CONCURRENT_READS)
        .try_collect()
        .await
}

async fn read_reply<S: Stage<Work = FilingFlow, Outcome = StructureReply>>(
    task: &TaskContext<'_, FilingFlow>,
    failed: &BTreeMap<TaskKey, String>,
    stage: &S,
) -> Result<ReplyResult<StructureReply>, Failure> {
    let key = stage.key(task.settings);
    match failed.get(&key) {
        Some(code) => Ok(Err(code.clone())),
        None => Ok(Ok(task_outcome::<S>(task, &key).await?)),
    }
}

/// Answers are missing; they are wanted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswersPending;

/// Asks questions of which some are answered: what is known is looked up, what is missing is wanted.
pub(crate) struct QuestionCollector<'a> {
    text: QuestionText<'a>,
    answers: BTreeMap<QuestionId, &'a ReplyResult<StructureReply>>,
    /// In the order they were asked, each once.
    pub(crate) pending: Vec<(QuestionId, StructureQuestion)>,
    queued: BTreeSet<QuestionId>,
}

impl<'a> QuestionCollector<'a> {
    pub(crate) fn new(body: &'a SourceBody, answers: &'a AnswerSet) -> Self {
        let text = match body {
            SourceBody::Pages(pages) => QuestionText::Pages(stemma_document::PageNo::FIRST, pages),
            SourceBody::Lines(text) => QuestionText::Lines(&text.lines),
        };
        let answers = answers
            .answers
            .iter()
            .map(|(id, answer)| (*id, answer))
            .collect();
        Self {
            text: text,
            answers: answers,
            pending: Vec::new(),
            queued: BTreeSet::new(),
        }
    }

    /// The answers in the order of the questions.
    ///
    /// # Errors
    /// [`AnswersPending`] where any is not known yet; all that are not are wanted.
    pub(crate) fn answer_all(
        &mut self,
        questions: Vec<StructureQuestion>,
    ) -> Result<Vec<(QuestionId, ReplyResult<StructureAnswer>)>, AnswersPending> {
        let mut answers = Vec::with_capacity(questions.len());
        for question in questions {
            let id = question.id(&self.text);
            match self.answers.get(&id) {
                Some(answer) => {
                    let value = answer
                        .as_ref()
                        .map(|reply| reply.answer.clone())
                        .map_err(Clone::clone);
                    answers.push(Some((id, value)));
                }
                None => {
                    answers.push(None);
                    self.enqueue(id, question);
                }
            }
        }
        answers
            .into_iter()
            .collect::<Option<_>>()
            .ok_or(AnswersPending)
    }

    fn enqueue(&mut self, id: QuestionId, question: StructureQuestion) {
        if self.queued.insert(id) {
            self.pending.push((id, question));
        }
    }
}
