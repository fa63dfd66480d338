//! What a draft leaves open: one more search without the user, then the agent, within [`FURTHER_CALLS`] and [`FURTHER_TOKENS`].

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_document::{DocId, Section, SectionTree};
use stemma_reading::period::period_mentions;
use stemma_reading::tokenizer::content_words;
use stemma_reading::vocabulary::NUMBERED_WORDS;
use stemma_retrieval::search::{DocumentScope, SearchError};

use super::{AnswerBuilder, FIRST_HITS, LIMIT_CODE};
use crate::AnswerError;
use crate::answer::{AnswerStep, StepKind};
use crate::context::{AnswerContext, SectionRequest, pages_by_worth};
use crate::draft_answer::DraftAnswer;
use crate::prompt;
use crate::request::{FURTHER_CALLS, FURTHER_TOKENS, MIN_CONTEXT_TOKENS};
use crate::tools::{MAX_CALL_TOKENS, ToolSet};
use crate::tree_search::{LlmSession, SessionUsage};

// Tokens of passages in a prompt after the first: FURTHER_TOKENS has room for two of these and two calls of tools.
const FURTHER_CONTEXT_TOKENS: u32 = 4_500;
// The part of these tokens for what was not read before; the rest is for passages that the first draft cites, or that ranked best.
const NEW_TOKENS: u32 = 3_500;
// Tokens of a reply with an answer; the longest replies of measured readers had 900.
const REPLY_TOKENS: u64 = 1_000;
// Passages whose neighbors and references are followed.
const FOLLOWED_PASSAGES: usize = 4;
// References that are followed: sentences of filings name two notes at most where one answers.
const FOLLOWED_REFERENCES: usize = 2;
// Pages read of a referenced section: it begins on the first, and a note's table is seldom farther than the second.
const REFERENCED_PAGES: u32 = 2;

/// Marks in the usage of a session up to which further calls may go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    calls: u32,
    tokens: u64,
}

// `Note 7` or `Item 15`, as a text names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reference {
    is_note: bool,
    number: String,
}

impl AnswerBuilder<'_, '_> {
    // The cheap way first; then what it leaves open.
    pub(super) async fn answer_in_steps(
        &mut self,
        text: &str,
        tools: Option<&dyn ToolSet>,
    ) -> Result<Option<DraftAnswer>, AnswerError> {
        let (Some(draft), Some(session)) = (self.ask_model(text).await, self.session.clone())
        else {
            return Ok(None);
        };
        if draft.is_complete() {
            return Ok(Some(draft));
        }
        if let Some(absent) = self.absent_subject(text, &draft) {
            let what = format!("left open: {absent}; no further search");
            self.step(StepKind::Plan, what);
            return Ok(Some(draft));
        }
        self.first_passages = self.context.passages.len();
        let usage = session.usage();
        self.allowance = Some(Allowance {
            calls: usage.calls + FURTHER_CALLS,
            tokens: written_tokens(&usage) + FURTHER_TOKENS,
        });
        let room = self.draft_room(text, &session);
        if !self.can_draft(&session, room) {
            self.degrade(
                LIMIT_CODE,
                "the limits of the question leave no room for a further search",
                "allow more calls or tokens, or ask in mode search",
            );
            return Ok(self.complete_or_partial(draft));
        }
        let read = self.read_further(text, &draft).await?;
        let draft = if !read.is_empty() {
            self.show_for_draft(&draft, read, room);
            match self.ask_model(text).await {
                Some(next) => draft.improved_by(next),
                None => return Ok(self.complete_or_partial(draft)),
            }
        } else {
            draft
        };
        match tools {
            Some(tools) if !draft.is_complete() => self.run_agent(text, tools, draft).await,
            _ => Ok(Some(draft)),
        }
    }

    // What an open question is about, if no document has it and the draft names nothing else to look for: a name where no company is
    // known, the only years of the question, or any word where the evidence is low. Other words do not tell: documents have
    // others for the same thing.
    fn absent_subject(&self, text: &str, draft: &DraftAnswer) -> Option<String> {
        let search = &self.search;
        let names_company = search
            .applied_filters
            .iter()
            .any(|filter| filter.facet == "company");
        let years: BTreeSet<i32> = period_mentions(text)
            .iter()
            .filter_map(|mention| mention.period.year)
            .collect();
        let is_year = |term: &str| years.iter().any(|year| year.to_string() == term);
        let terms = || search.known_missing_terms().iter();
        let missing_years = terms().filter(|missing| is_year(&missing.term)).count();
        let mut absent = terms().filter(|missing| {
            let term = &missing.term;
            let is_subject = match is_year(term) {
                true => missing_years == years.len(),
                false => !names_company && is_name(text, term),
            };
            let is_open =
                draft.claims.is_empty() || draft.missing.iter().all(|part| names_term(part, term));
            (is_subject || search.low_evidence == Some(true)) && is_open
        });
        let absent = absent.next().filter(|_| !names_more(text, draft));
        absent.map(ToString::to_string)
    }

    // A search that was cut short cannot claim that the documents do not say.
    pub(super) fn complete_or_partial(&self, draft: DraftAnswer) -> Option<DraftAnswer> {
        (draft.answerable || self.degradation.is_none()).then_some(draft)
    }

    // Calls that the question's limits and the allowance leave.
    pub(super) fn calls_left(&self, session: &LlmSession) -> u32 {
        let left = session.calls_left();
        self.allowance.map_or(left, |most| {
            left.min(most.calls.saturating_sub(session.usage().calls))
        })
    }

    // A session makes a call only if the longest reply fits, too.
    fn tokens_left(&self, session: &LlmSession) -> u64 {
        let reserved = u64::from(prompt::MAX_REPLY_TOKENS) - REPLY_TOKENS;
        let usage = session.usage();
        let most = session.budget().tokens.saturating_sub(reserved);
        let left = most.saturating_sub(usage.prompt_tokens + usage.output_tokens);
        self.allowance.map_or(left, |most| {
            left.min(most.tokens.saturating_sub(written_tokens(&usage)))
        })
    }

    // Whether another draft is within the allowance and has something to read. Without an allowance the session decides.
    pub(super) fn can_draft(&self, session: &LlmSession, room: u32) -> bool {
        self.allowance.is_none() || self.calls_left(session) > 0 && room >= MIN_CONTEXT_TOKENS
    }

    // Tokens of passages that the next draft may show.
    pub(super) fn draft_room(&self, text: &str, session: &LlmSession) -> u32 {
        let most = self.question.limits.context_tokens;
        if self.allowance.is_none() {
            return most;
        }
        let left = self.tokens_left(session);
        let left = left.saturating_sub(self.draft_overhead(text, session));
        let most = most.min(FURTHER_CONTEXT_TOKENS);
        u32::try_from(left).map_or(most, |left| left.min(most))
    }

    // Tokens of a draft without its passages.
    fn draft_overhead(&self, text: &str, session: &LlmSession) -> u64 {
        let empty = prompt::answer_prompt(
            text,
            &self.question.earlier,
            &AnswerContext::default(),
            self.pictures(),
        );
        u64::from(session.tokens(&empty)) + REPLY_TOKENS
    }

    // Whether the allowance has room for a tool and for a draft from what it reads. Without an allowance the session decides.
    pub(super) fn can_call_tool(
        &self,
        text: &str,
        session: &LlmSession,
        prompt_tokens: u32,
    ) -> bool {
        let needed = u64::from(prompt_tokens)
            + u64::from(MAX_CALL_TOKENS)
            + self.draft_overhead(text, session)
            + u64::from(MIN_CONTEXT_TOKENS);
        self.allowance.is_none()
            || self.calls_left(session) >= 2 && self.tokens_left(session) >= needed
    }

    // What a draft cites, then what was read since, then what was read for earlier gaps: a draft with an open part may cite none of
    // it. Then the best of the first passages: a reader had no use for them.
    pub(super) fn show_for_draft(
        &mut self,
        draft: &DraftAnswer,
        fresh: impl IntoIterator<Item = usize>,
        room: u32,
    ) {
        let cited = draft.cited_passages();
        let (first, earlier) = (
            0..self.first_passages,
            self.first_passages..self.context.passages.len(),
        );
        let mut first_tokens = 0;
        let first = first.filter(|at| !cited.contains(at)).take_while(|at| {
            first_tokens += self.context.passages[*at].tokens;
            first_tokens <= FURTHER_CONTEXT_TOKENS - NEW_TOKENS
        });
        let first: Vec<usize> = first.collect();
        let order = cited.into_iter().chain(fresh).chain(earlier).chain(first);
        self.context.show(order, room);
    }

    // Reads what a draft misses, as far as code can tell where that is.
    async fn read_further(
        &mut self,
        text: &str,
        draft: &DraftAnswer,
    ) -> Result<Range<usize>, AnswerError> {
        let missing = draft.missing.as_slice();
        self.push_step(AnswerStep {
            kind: StepKind::Plan,
            what: match missing.len() {
                0 => "left open: searched again".into(),
                1 => "one part is missing: searched again".into(),
                parts => format!("{parts} parts are missing: searched again"),
            },
            thinking: missing.join("\n"),
        });
        let followed = self.followed_passages(draft);
        let found = self.search_missing(text, missing).await?;
        let words = content_words(&format!("{text} {}", missing.join(" ")));
        let references = self
            .find_references(&followed, &words.into_iter().collect())
            .await?;
        let neighbors = self.neighbors(&followed);
        let requests = interleave([found, references, neighbors]);
        let room = NEW_TOKENS.min(self.question.limits.context_tokens);
        self.read_sections(&requests, room).await
    }

    // Passages that a draft cites, or else the best of the search.
    fn followed_passages(&self, draft: &DraftAnswer) -> Vec<usize> {
        let count = self.context.passages.len();
        let cited = draft.cited_passages();
        let mut followed = if cited.is_empty() {
            (0..count).collect()
        } else {
            cited
        };
        followed.retain(|at| *at < count);
        followed.truncate(FOLLOWED_PASSAGES);
        followed
    }

    // Pages of the question, or of its missing parts in the documents that were read, that were not read whole.
    async fn search_missing(
        &mut self,
        text: &str,
        missing: &[String],
    ) -> Result<Vec<SectionRequest>, AnswerError> {
        let read: BTreeSet<DocId> = self.context.passages.iter().map(|one| one.doc).collect();
        let within = match (missing.is_empty(), read.is_empty()) {
            (false, false) => DocumentScope::Documents(read.into_iter().collect()),
            _ => self.question.within.clone(),
        };
        let whole = [text.to_owned()];
        let queries = if missing.is_empty() {
            &whole[..]
        } else {
            missing
        };
        let mut lists = Vec::new();
        for query in queries {
            let query = self.search_query(query, &within, FIRST_HITS);
            let hits = match self.search(&query).await {
                Ok(results) => results.hits,
                // A model may name a part by signs alone.
                Err(SearchError::NoWords { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            self.reachable.extend(hits.iter().map(|hit| hit.doc_id));
            let mut requests = pages_by_worth(&hits);
            requests.retain(|request| !self.has_read(request));
            lists.push(requests);
        }
        self.search.queries.extend(missing.iter().cloned());
        Ok(interleave(lists))
    }

    fn has_read(&self, request: &SectionRequest) -> bool {
        !request.pages.is_empty()
            && (request.pages.iter()).all(|page| self.context.has_read(request.doc, *page))
    }

    // Notes and Items that the lines of passages name, those next to words of the question first.
    async fn find_references(
        &mut self,
        followed: &[usize],
        words: &BTreeSet<String>,
    ) -> Result<Vec<SectionRequest>, AnswerError> {
        let mut found: Vec<(usize, DocId, Reference)> = Vec::new();
        for passage in followed.iter().map(|at| &self.context.passages[*at]) {
            for line in passage.text.lines() {
                let shared = content_words(line)
                    .iter()
                    .filter(|word| words.contains(*word))
                    .count();
                for reference in references_in(line) {
                    match found
                        .iter_mut()
                        .find(|(_, doc, one)| *doc == passage.doc && *one == reference)
                    {
                        Some((most, ..)) => *most = shared.max(*most),
                        None => found.push((shared, passage.doc, reference)),
                    }
                }
            }
        }
        found.retain(|(shared, ..)| *shared > 0);
        found.sort_by_key(|(shared, ..)| std::cmp::Reverse(*shared));
        let sources = self.answerer.sources;
        let mut requests = Vec::new();
        for (_, doc, reference) in found {
            let Some(document) = sources.catalog.get(doc)? else {
                continue;
            };
            let Some(tree) = sources.store.tree(&document).await? else {
                continue;
            };
            let request = reference
                .section(&tree)
                .map(|section| request_for(doc, section));
            requests.extend(request.filter(|one| !self.has_read(one)));
            if requests.len() == FOLLOWED_REFERENCES {
                break;
            }
        }
        Ok(requests)
    }

    // The page after and the page before each passage.
    fn neighbors(&self, followed: &[usize]) -> Vec<SectionRequest> {
        let passages = followed.iter().map(|at| &self.context.passages[*at]);
        let mut requests: Vec<SectionRequest> = Vec::new();
        for passage in passages.filter(|passage| passage.last_line.is_none()) {
            let pages = [passage.number + 1, passage.number.saturating_sub(1)];
            for page in pages.into_iter().filter(|page| *page > 0) {
                let request = request_page(passage.doc, page);
                if !self.has_read(&request) && !requests.contains(&request) {
                    requests.push(request);
                }
            }
        }
        requests
    }
}

impl Reference {
    // The section with this number: the last one, since Items and notes are named before they come.
    fn section<'a>(&self, tree: &'a SectionTree) -> Option<&'a Section> {
        let kind = if self.is_note { "note" } else { "item" };
        let mut named = None;
        let mut numbered = None;
        for (_, section) in tree.walk() {
            let mut words = title_words(&section.title);
            let first = words.next();
            let second = words.next();
            if first.as_ref().and_then(|word| NUMBERED_WORDS.get(word)) == Some(kind)
                && second.as_deref() == Some(&self.number)
            {
                named = Some(section);
            }
            if self.is_note && first.as_deref() == Some(&self.number) {
                numbered = Some(section);
            }
        }
        named.or(numbered)
    }
}

fn names_term(text: &str, term: &str) -> bool {
    text.to_lowercase().contains(&term.to_lowercase())
}

// Whether a draft says that something is missing in other words than the question: such as a statement, which can be looked for.
fn names_more(question: &str, draft: &DraftAnswer) -> bool {
    let question: BTreeSet<String> = content_words(question).into_iter().collect();
    let named = draft.missing.iter().flat_map(|part| content_words(part));
    named.into_iter().any(|word| !question.contains(&word))
}

// Whether a term of a question is written as a name, and not only because it begins the question. Abbreviations are none: most are
// of measures, which documents write out.
fn is_name(question: &str, term: &str) -> bool {
    let is_first = question.trim_start().starts_with(term) && !term.contains(' ');
    !is_first
        && term
            .split_whitespace()
            .all(|word| word.starts_with(char::is_uppercase))
        && term.chars().any(char::is_lowercase)
}

fn title_words(title: &str) -> impl Iterator<Item = String> {
    title.split_whitespace().map(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.to_lowercase()
    })
}

fn references_in(line: &str) -> Vec<Reference> {
    let words: Vec<String> = title_words(line).collect();
    let named = words.windows(2).filter_map(|pair| {
        let is_note = match NUMBERED_WORDS.get(&pair[0])? {
            "note" => true,
            "item" => false,
            _ => return None,
        };
        let number = pair[1].clone();
        let digits = number.chars().take_while(char::is_ascii_digit).count();
        (matches!(digits, 1 | 2) && number.len() <= digits + 1)
            .then_some(Reference { is_note, number })
    });
    named.collect()
}

fn request_for(doc: DocId, section: &Section) -> SectionRequest {
    let first = section.span.pages().map(|span| span.start().get());
    SectionRequest {
        section: Some(section.id),
        pages: first.map_or_else(Vec::new, |first| {
            (first..first + REFERENCED_PAGES).collect()
        }),
        why: "referred to".into(),
        ..request_page(doc, 0)
    }
}

fn request_page(doc: DocId, page: u32) -> SectionRequest {
    SectionRequest {
        doc,
        section: None,
        pages: vec![page],
        score: 0.0,
        why: "next to a passage".into(),
        excerpt: None,
    }
}

// The first of each list, then the second of each.
fn interleave(lists: impl IntoIterator<Item = Vec<SectionRequest>>) -> Vec<SectionRequest> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut requests = Vec::new();
    loop {
        let row: Vec<_> = lists.iter_mut().filter_map(Iterator::next).collect();
        if row.is_empty() {
            return requests;
        }
        requests.extend(row);
    }
}

// Without thoughts, which no allowance can foresee: only the question's own limit counts them.
fn written_tokens(usage: &SessionUsage) -> u64 {
    usage.prompt_tokens
        + usage
            .output_tokens
            .min(u64::from(usage.calls) * REPLY_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_items_are_read_from_sentences() {
        let named = |line: &str| -> Vec<String> {
            let found = references_in(line);
            found.into_iter().map(|one| one.number).collect()
        };
        assert_eq!(
            named("as discussed in Note 7, “Leases”, and Item 1A."),
            ["7", "1a"]
        );
        assert_eq!(named("see Notes 12 and 13"), ["12"]);
        assert!(named("a note of 2022 and items such as 10-K").is_empty());
        assert!(named("Note 2022 is a year").is_empty());
    }
}
