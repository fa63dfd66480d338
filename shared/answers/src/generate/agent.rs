//! Agent mode: the model calls tools until it can answer.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_catalog::catalog::Catalog;
use stemma_catalog::locator::{Locator, ResolveError};
use stemma_catalog::short_path::short_path;
use stemma_document::DocId;
use stemma_retrieval::search::DocumentScope;
use stemma_store::PortResult;

use super::AnswerBuilder;
use crate::AnswerError;
use crate::answer::{AnswerStep, ReadSection, StepKind};
use crate::context::SectionRequest;
use crate::draft_answer::DraftAnswer;
use crate::request::AnswerMode;
use crate::tools::{self, AgentStep, DONE_TOOL, ToolSet};

// Tokens read for one tool call: three or four pages, the best that were not read before.
const TOOL_TOKENS: u32 = 3_000;
// Characters of a tool's argument in a step.
const MAX_ARGUMENT_CHARS: usize = 80;

impl AnswerBuilder<'_, '_> {
    // The model calls tools until what was read answers the question. The prompt that chooses a tool never contains page text.
    // `draft` is what an earlier call left open.
    pub(super) async fn run_agent(
        &mut self,
        text: &str,
        tools: &dyn ToolSet,
        mut draft: DraftAnswer,
    ) -> Result<Option<DraftAnswer>, AnswerError> {
        let Some(session) = self.session.clone() else {
            return Ok(None);
        };
        let (summary, data) = self.describe_reading(0..self.context.passages.len());
        let mut steps = vec![AgentStep { summary, data }];
        // Passages that no draft has seen, the latest call first.
        let mut fresh: Vec<usize> = Vec::new();
        // How many passages the last draft could see. In agent mode none was made before.
        let mut tried = self.allowance.map(|_| self.context.passages.len());
        self.collect_reachable(text)?;
        let turns = self.question.limits.turns.max(1);
        for turn in 0..turns {
            if self.is_budget_exhausted(&session) {
                return Ok(self.complete_or_partial(draft));
            }
            let left = (turns - turn).min(self.calls_left(&session));
            let prompt = tools::next_tool_prompt(text, &draft.missing, tools, &steps, left);
            if !self.can_call_tool(text, &session, session.tokens(&prompt)) {
                break;
            }
            let call = match session.complete(&prompt, tools::validate_call).await {
                Ok(call) => call,
                Err(error) => {
                    // The passages read so far may suffice for an answer if the model recovers.
                    self.degrade_after(&error, "no further tool was called");
                    break;
                }
            };
            if call.tool != DONE_TOOL {
                let read = self.context.passages.len();
                steps.push(self.call_tool(&call, tools).await?);
                fresh.splice(0..0, read..self.context.passages.len());
                if !call.last {
                    continue;
                }
            }
            if tried == Some(self.context.passages.len()) {
                if call.tool == DONE_TOOL {
                    break;
                }
                continue;
            }
            let room = self.draft_room(text, &session);
            self.show_for_draft(&draft, fresh.drain(..), room);
            tried = Some(self.context.passages.len());
            match self.ask_model(text).await {
                Some(next) => draft = draft.improved_by(next),
                None => return Ok(self.complete_or_partial(draft)),
            }
            if draft.is_complete() {
                return Ok(Some(draft));
            }
            steps.push(AgentStep {
                summary: "answer: what was read so far does not answer the question".into(),
                ..AgentStep::default()
            });
        }
        let room = self.draft_room(text, &session);
        if tried != Some(self.context.passages.len()) && self.can_draft(&session, room) {
            self.show_for_draft(&draft, fresh, room);
            match self.ask_model(text).await {
                Some(next) => draft = draft.improved_by(next),
                None => return Ok(self.complete_or_partial(draft)),
            }
        }
        Ok(self.complete_or_partial(draft))
    }

    async fn call_tool(
        &mut self,
        call: &tools::ToolCall,
        tools: &dyn ToolSet,
    ) -> Result<AgentStep, AnswerError> {
        let described = tools.descriptions();
        let known_tool = described
            .iter()
            .find(|(name, _)| *name == call.tool)
            .map(|(name, _)| *name);
        let arguments = [
            &call.query,
            &call.document,
            &call.pages,
            &call.section,
            &call.item,
            &call.pattern,
        ];
        let arguments: Vec<String> = arguments
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(|text| truncate_argument(text))
            .collect();
        let what = format!(
            "{}({})",
            truncate_argument(&call.tool),
            arguments.join(", ")
        );
        let reply = match known_tool {
            None => rejected_call("there is no such tool"),
            Some(_) if !self.may_open(&call.document)? => rejected_call(
                "refused: the question does not name this document, and no tool has found it",
            ),
            Some(_) => tools.call(call).await,
        };
        let kind = if reply.is_rejected {
            StepKind::Refused
        } else {
            StepKind::Tool
        };
        self.rejected_calls += u32::from(reply.is_rejected);
        self.mode = AnswerMode::Agent;
        self.push_step(AnswerStep {
            kind,
            what: what.clone(),
            thinking: truncate_argument(&call.why),
        });
        let known = self.count_read_pages(&reply.sections);
        let read = self.read_sections(&reply.sections, TOOL_TOKENS).await?;
        self.reachable.extend(reply.documents);
        let (read, places) = self.describe_reading(read);
        let known = match known {
            0 => String::new(),
            pages => format!("; {pages} pages were read before and are not repeated"),
        };
        Ok(AgentStep {
            summary: format!(
                "{}: {}; {read}{known}",
                known_tool.unwrap_or("no tool"),
                reply.summary
            ),
            data: format!("{what}\n{}\n{places}", reply.data),
        })
    }

    // Pages that tools ask for and that passages have already.
    fn count_read_pages(&self, requests: &[SectionRequest]) -> usize {
        let passages = &self.context.passages;
        let pages: BTreeSet<(DocId, u32)> = requests
            .iter()
            .flat_map(|request| request.pages.iter().map(|page| (request.doc, *page)))
            .collect();
        let paged = passages
            .iter()
            .filter(|passage| passage.last_line.is_none());
        let read: BTreeSet<(DocId, u32)> =
            paged.map(|passage| (passage.doc, passage.number)).collect();
        pages.intersection(&read).count()
    }

    // The documents that the question names, and all of a scope that lists documents.
    fn collect_reachable(&mut self, text: &str) -> PortResult<()> {
        let catalog = self.answerer.sources.catalog;
        let named_documents = text
            .split_whitespace()
            .map(|word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
            .filter(|word| word.len() > 2);
        for word in named_documents {
            self.reachable.extend(named_document(catalog, &word)?);
        }
        if let DocumentScope::Documents(docs) = &self.question.within {
            self.reachable.extend(docs);
        }
        Ok(())
    }

    // An empty or unknown name is allowed: the tool itself reports what does not exist.
    fn may_open(&self, document: &str) -> PortResult<bool> {
        // A name, a locator, or one of our resource URIs: `stemma://DOC/section/0007`.
        let target = document
            .trim()
            .split_once("://")
            .map_or(document.trim(), |(_, rest)| {
                rest.split('/').next().unwrap_or_default()
            });
        let name = Locator::parse(target).document;
        let catalog = self.answerer.sources.catalog;
        let by_id = match name.parse::<DocId>() {
            Ok(doc) => catalog.get(doc)?.map(|listed| listed.doc()),
            Err(_) => None,
        };
        let doc = match by_id {
            None => named_document(catalog, &name)?,
            by_id => by_id,
        };
        Ok(document.trim().is_empty() || doc.is_none_or(|doc| self.reachable.contains(&doc)))
    }

    fn describe_reading(&self, read: Range<usize>) -> (String, String) {
        let sections = self.context.read_sections(read, 0);
        let what = if sections.is_empty() {
            "nothing new was read".into()
        } else {
            format!("{} sections were read", sections.len())
        };
        (
            what,
            sections
                .iter()
                .map(|section: &ReadSection| {
                    let pages: Vec<String> = section.pages.iter().map(u32::to_string).collect();
                    let size = self.context.section_tokens(section);
                    let part = match size.filter(|size| section.tokens * 10 < size * 9) {
                        Some(size) => format!("{} of {size} tokens", section.tokens),
                        None => format!("whole, {} tokens", section.tokens),
                    };
                    format!(
                        "read {} · {} · pages {} · {part}",
                        section.locator,
                        short_path(&section.path),
                        pages.join(","),
                    )
                })
                .collect::<Vec<_>>()
                .join("\n"),
        )
    }
}

fn truncate_argument(text: &str) -> String {
    text.chars().take(MAX_ARGUMENT_CHARS).collect()
}

fn rejected_call(message: &str) -> tools::ToolReply {
    tools::ToolReply {
        summary: message.into(),
        is_rejected: true,
        ..tools::ToolReply::default()
    }
}

// The one document of this name; `None` if there is none, or there are several.
fn named_document(catalog: &Catalog, name: &str) -> PortResult<Option<DocId>> {
    match catalog.resolve(name) {
        Ok(document) => Ok(Some(document.doc())),
        Err(ResolveError::Port(error)) => Err(error),
        Err(_) => Ok(None),
    }
}
