//! The answers about structure so far. The flow reads them from its ledger, `draft_outline` from artifacts,
//! and both must get the same digest.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, ModelAnswers, SourceBody};

use super::questions::{
    QuestionId, QuestionKind, QuestionText, StructureAnswer, StructureQuestion, StructureReply,
};
use super::section_answers::ReplyResult;

/// Each answer once, in the order of the questions.
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

pub(crate) fn empty_digest() -> Digest {
    Digest::from_content(&[])
}

/// Extends a digest by further answers.
pub(crate) fn extend_digest(
    before: Digest,
    answers: &[(QuestionId, ReplyResult<StructureReply>)],
) -> Digest {
    // Plain data always serializes.
    let json = serde_json::to_vec(answers).unwrap_or_default();
    let mut bytes = before.as_bytes().to_vec();
    bytes.extend(json);
    Digest::from_content(&bytes)
}

impl AnswerSet {
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn extend(&mut self, answers: Vec<(QuestionId, ReplyResult<StructureReply>)>) {
        self.digest = extend_digest(self.digest, &answers);
        self.answers.extend(answers);
    }

    /// Token usage, and how many titles were confirmed.
    pub(crate) fn totals(&self) -> ModelAnswers {
        let mut totals = ModelAnswers::default();
        for (id, answer) in &self.answers {
            totals.titles_asked += u32::from(id.kind == QuestionKind::VerifyTitle);
            let Ok(reply) = answer else { continue };
            totals.calls += 1;
            totals.prompt_tokens += u64::from(reply.usage.prompt_tokens);
            totals.output_tokens += u64::from(reply.usage.output_tokens);
            let is_confirmed = matches!(
                reply.answer,
                StructureAnswer::TitleCheck { stands: true, .. }
            );
            totals.titles_confirmed += u32::from(is_confirmed);
        }
        totals
    }
}

/// Some answers are missing; the questions are queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswersPending;

/// Looks up answers, and queues the questions that have none yet.
pub(crate) struct QuestionCollector<'a> {
    text: QuestionText<'a>,
    answers: BTreeMap<QuestionId, &'a ReplyResult<StructureReply>>,
    /// In the order of the questions, without duplicates.
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
            text,
            answers,
            pending: Vec::new(),
            queued: BTreeSet::new(),
        }
    }

    ///
    /// # Errors
    /// [`AnswersPending`] if any answer is missing; all missing ones are queued.
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
