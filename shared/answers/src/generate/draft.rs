//! Asks the model for a draft: the prompt with its passages and pictures.

use super::{AnswerBuilder, LIMIT_CODE};
use crate::answer::{Degradation, StepKind};
use crate::draft_answer::DraftAnswer;
use crate::page_vision::Picture;
use crate::prompt;
use crate::tree_search::LlmSession;

impl AnswerBuilder<'_, '_> {
    // `None` when the model is unavailable or the budget is exhausted.
    pub(super) async fn ask_model(&mut self, text: &str) -> Option<DraftAnswer> {
        if self.context.passages.is_empty() && self.has_hits {
            // What was not read cannot be said to be missing.
            self.degrade(
                LIMIT_CODE,
                "nothing of what was found could be read: this answer lists it",
                "allow more context_tokens",
            );
            return None;
        }
        if self.context.passages.is_empty() {
            self.step(StepKind::Ask, "nothing was found to read".into());
            return Some(DraftAnswer::default());
        }
        let session = self.session.clone()?;
        if self.is_budget_exhausted(&session) {
            return None;
        }
        self.view_pages().await;
        let session = self.drafting_session(session);
        let prompt =
            prompt::answer_prompt(text, &self.question.earlier, &self.context, self.pictures());
        let drafted = session.complete(&prompt, |draft| prompt::validate_draft(text, draft));
        match drafted.await {
            Ok(draft) => {
                let what = if draft.answerable {
                    format!("{} claims", draft.claims.len())
                } else {
                    "not answered".into()
                };
                self.step(
                    StepKind::Ask,
                    format!("{}: {what}", session.client().model()),
                );
                Some(draft)
            }
            Err(error) => {
                self.degrade_after(&error, "this answer lists what a search found");
                None
            }
        }
    }

    // Draws the pictures for all drafts, once.
    async fn view_pages(&mut self) {
        let Some(vision) = self.vision.filter(|_| self.pictures.is_none()) else {
            return;
        };
        let (pictures, lacking) = vision.view_pages(&self.context).await;
        let tokens: u32 = pictures.iter().map(|picture| picture.image.tokens()).sum();
        let what = format!("{} pictures of pages, {tokens} tokens", pictures.len());
        self.step(StepKind::Read, what);
        if let Some(Degradation {
            code,
            message,
            next,
        }) = lacking
        {
            let message = format!("{message}: answered without the picture");
            self.degrade(&code, &message, &next.unwrap_or_default());
        }
        self.pictures = Some(pictures);
    }

    pub(super) fn pictures(&self) -> &[Picture] {
        self.pictures.as_deref().unwrap_or_default()
    }

    // Drafts from pictures are asked of the model that sees, on the same account.
    pub(super) fn drafting_session(&self, session: LlmSession) -> LlmSession {
        match self.vision.filter(|_| !self.pictures().is_empty()) {
            Some(vision) => session.with_client(vision.client),
            None => session,
        }
    }

    // Records the degradation when it is.
    pub(super) fn is_budget_exhausted(&mut self, session: &LlmSession) -> bool {
        let limit = self.question.limits.nanodollars;
        let usage = session.usage();
        let over = limit > 0 && usage.nanodollars.is_some_and(|usage| usage >= limit);
        if over {
            self.degrade(
                LIMIT_CODE,
                "the money it may cost is used up",
                "allow more: --budget, limits.nanodollars",
            );
        }
        over
    }
}
