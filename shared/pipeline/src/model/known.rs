//! The answers about structure so far: told alike by the flow, from its ledger, and by the stage that finds the outline,
//! from the artifacts themselves.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_document::{Body, Digest, ModelAnswers};
use stemma_engine::stage::{Stage, Task};
use stemma_engine::{Failure, TaskKey};

use super::answers::{AT_ONCE, Answer, failed, outcome};
use super::asks::{Ask, Kind, Pointer, QuestionId, Reply, Said, Shown};
use crate::Filings;
use crate::stages::{DetectToc, Locate, ReadContents, ReadWindow, Repair, VerifyTitle};

/// All answers so far, each once, in the order they were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    digest: Digest,
    answers: Vec<(QuestionId, Answer<Reply>)>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            digest: nothing_said(),
            answers: Vec::new(),
        }
    }
}

/// The digest of no answers.
pub(crate) fn nothing_said() -> Digest {
    Digest::of(&[])
}

/// The digest of the answers of `before` and those behind them.
pub(crate) fn said_behind(before: Digest, answers: &[(QuestionId, Answer<Reply>)]) -> Digest {
    // Plain data can always be written as JSON.
    let json = serde_json::to_vec(answers).unwrap_or_default();
    let mut bytes = before.as_bytes().to_vec();
    bytes.extend(json);
    Digest::of(&bytes)
}

impl Known {
    /// The digest of all of them.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn extend(&mut self, answers: Vec<(QuestionId, Answer<Reply>)>) {
        self.digest = said_behind(self.digest, &answers);
        self.answers.extend(answers);
    }

    /// What they cost, and how many titles stand where they were looked for.
    pub(crate) fn summed(&self) -> ModelAnswers {
        let replies = || {
            self.answers
                .iter()
                .filter_map(|(_, answer)| answer.as_ref().ok())
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        ModelAnswers {
            calls: count(replies().count()),
            prompt_tokens: replies()
                .map(|reply| u64::from(reply.spent.prompt_tokens))
                .sum(),
            output_tokens: replies()
                .map(|reply| u64::from(reply.spent.output_tokens))
                .sum(),
            contents_pages: Vec::new(),
            titles_asked: count(
                self.answers
                    .iter()
                    .filter(|(asked, _)| asked.kind == Kind::VerifyTitle)
                    .count(),
            ),
            titles_confirmed: count(
                replies()
                    .filter(|reply: &&Reply| {
                        matches!(reply.said, Said::Stands { stands: true, .. })
                    })
                    .count(),
            ),
            ..ModelAnswers::default()
        }
    }
}

/// Reads the answers to questions of one round from their artifacts. What failed in this run counts as failed, as it does
/// for the flow, though another run may have an artifact by now.
pub(crate) async fn replies(
    task: &Task<'_, Filings>,
    source: TaskKey,
    round: TaskKey,
    asked: Vec<QuestionId>,
) -> Result<Vec<(QuestionId, Answer<Reply>)>, Failure> {
    let failed = &failed(task).await?;
    stream::iter(asked.into_iter().enumerate())
        .map(|(at, asked): (usize, QuestionId)| async move {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let pointer = Pointer {
                reads: asked.reads,
                source,
                round,
                at,
            };
            let reply = match asked.kind {
                Kind::DetectToc => reply(task, failed, &DetectToc(pointer)).await?,
                Kind::ReadContents => reply(task, failed, &ReadContents(pointer)).await?,
                Kind::ReadWindow => reply(task, failed, &ReadWindow(pointer)).await?,
                Kind::Locate => reply(task, failed, &Locate(pointer)).await?,
                Kind::VerifyTitle => reply(task, failed, &VerifyTitle(pointer)).await?,
                Kind::Repair => reply(task, failed, &Repair(pointer)).await?,
            };
            Ok::<_, Failure>((asked, reply))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

async fn reply<S: Stage<Work = Filings, Outcome = Reply>>(
    task: &Task<'_, Filings>,
    failed: &BTreeMap<TaskKey, String>,
    stage: &S,
) -> Result<Answer<Reply>, Failure> {
    let key = stage.key(task.settings);
    match failed.get(&key) {
        Some(code) => Ok(Err(code.clone())),
        None => Ok(Ok(outcome::<S>(task, &key).await?)),
    }
}

/// Answers are missing; they are wanted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing;

/// Asks questions of which some are answered: what is known is looked up, what is missing is wanted.
pub(crate) struct Asking<'a> {
    shown: Shown<'a>,
    known: BTreeMap<QuestionId, &'a Answer<Reply>>,
    /// In the order they were asked, each once.
    pub(crate) wanted: Vec<(QuestionId, Ask)>,
    seen: BTreeSet<QuestionId>,
}

impl<'a> Asking<'a> {
    pub(crate) fn of(body: &'a Body, known: &'a Known) -> Self {
        let shown = match body {
            Body::Pages(pages) => Shown::Pages(stemma_document::PageNo::FIRST, pages),
            Body::Lines(text) => Shown::Lines(&text.lines),
        };
        let known = known
            .answers
            .iter()
            .map(|(asked, answer)| (*asked, answer))
            .collect();
        Self {
            shown,
            known,
            wanted: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// The answers in the order of the questions.
    ///
    /// # Errors
    /// [`Missing`] where any is not known yet; all that are not are wanted.
    pub(crate) fn all(
        &mut self,
        asks: Vec<Ask>,
    ) -> Result<Vec<(QuestionId, Answer<Said>)>, Missing> {
        let mut answers = Vec::with_capacity(asks.len());
        for ask in asks {
            let asked = ask.asked(&self.shown);
            match self.known.get(&asked) {
                Some(answer) => {
                    let said = answer
                        .as_ref()
                        .map(|reply| reply.said.clone())
                        .map_err(Clone::clone);
                    answers.push(Some((asked, said)));
                }
                None => {
                    answers.push(None);
                    self.want(asked, ask);
                }
            }
        }
        answers.into_iter().collect::<Option<_>>().ok_or(Missing)
    }

    fn want(&mut self, asked: QuestionId, ask: Ask) {
        if self.seen.insert(asked) {
            self.wanted.push((asked, ask));
        }
    }
}
