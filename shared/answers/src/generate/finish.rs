//! Makes the answer of a draft: checked claims and citations, what was read, and what it cost.

use stemma_retrieval::search;

use super::AnswerBuilder;
use stemma_store::PortResult;

use crate::answer::{Answer, AnswerOutcome, SearchSummary, StepKind};
use crate::claims::{self, ComposedAnswer};
use crate::draft_answer::DraftAnswer;
use crate::store::degraded_id;
use crate::tree_search::LlmSession;

impl AnswerBuilder<'_, '_> {
    pub(crate) fn finish(mut self, id: &str, draft: Option<&DraftAnswer>) -> PortResult<Answer> {
        let AnswerBuilder {
            question, answerer, ..
        } = self;
        let is_absent = draft.is_some_and(|draft| !draft.answerable);
        let unreadable = self.search.documents_unreadable;
        if is_absent && unreadable > 0 {
            let message = format!("{unreadable} of the documents in scope could not be read");
            self.degrade(
                search::UNREADABLE,
                &message,
                "restore them, or ingest them again",
            );
        }
        // Documents that were not searched may have the answer.
        let is_partial = self.search.documents_not_indexed + unreadable > 0;
        let draft = draft.filter(|draft| draft.answerable || !is_partial);
        let (outcome, mut composed) = match draft {
            None => (AnswerOutcome::SearchOnly, ComposedAnswer::default()),
            Some(draft) if !draft.answerable => {
                (AnswerOutcome::NotInDocuments, ComposedAnswer::default())
            }
            Some(draft) => {
                let composed = claims::compose_answer(
                    draft,
                    &self.context,
                    self.pictures(),
                    (answerer.sources.catalog, answerer.collection),
                    question.citations,
                )?;
                let supported = composed.claims.iter().filter(|claim| claim.is_supported());
                self.step(
                    StepKind::Check,
                    format!(
                        "{} of {} claims found on their pages",
                        supported.count(),
                        composed.claims.len()
                    ),
                );
                (AnswerOutcome::Answered, composed)
            }
        };
        composed.rejected.tool_calls = self.rejected_calls;
        let text = match outcome {
            AnswerOutcome::Answered => composed.text,
            AnswerOutcome::NotInDocuments => self.not_found_text(),
            AnswerOutcome::SearchOnly => String::new(),
        };
        let missing = draft.map(|draft| draft.missing.clone()).unwrap_or_default();
        for section in &mut self.sections {
            section.cited = composed.citations.iter().any(|citation| {
                citation.doc_id == section.doc_id && citation.section_id == section.section_id
            });
        }
        let usage = self
            .session
            .as_ref()
            .map(LlmSession::usage)
            .unwrap_or_default();
        let answered = outcome != AnswerOutcome::SearchOnly;
        let model = self.session.clone().map(|session| {
            let session = self.drafting_session(session);
            session.client().model().to_owned()
        });
        let pictures = self.pictures.take().unwrap_or_default();
        // A degraded answer gets its own id, so that the question is answered again when the model is back.
        let id = self
            .degradation
            .as_ref()
            .map_or_else(|| id.to_owned(), |degradation| degraded_id(id, degradation));
        Ok(Answer {
            id,
            question: question.text.clone(),
            outcome,
            text,
            final_answer: composed.final_answer,
            missing,
            claims: composed.claims,
            citations: composed.citations,
            pictures: pictures.into_iter().map(|picture| picture.page).collect(),
            confidence: (outcome == AnswerOutcome::Answered).then_some(composed.confidence),
            mode: self.mode,
            model: model.filter(|_| answered),
            degradation: self.degradation,
            searched: self.search,
            sections: self.sections,
            steps: self.steps,
            rejected: composed.rejected,
            usage: usage.into(),
            is_replay: false,
        })
    }

    fn not_found_text(&self) -> String {
        let SearchSummary {
            documents,
            documents_in_scope,
            names,
            ..
        } = &self.search;
        let missing_terms = self.search.known_missing_terms();
        let read = match names.len() {
            0 => "nothing was found to read".to_owned(),
            1 => format!("{} sections of {} were read", self.sections.len(), names[0]),
            more => format!(
                "{} sections of {more} documents were read",
                self.sections.len()
            ),
        };
        let lacking = missing_terms.iter().map(|missing| format!("; {missing}"));
        let lacking: String = lacking.collect();
        format!(
            "Not in these documents: {documents} of {documents_in_scope} were searched, {read}{lacking}."
        )
    }
}
