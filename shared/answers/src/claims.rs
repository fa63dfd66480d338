//! Checks a draft answer: citations must name passages the model was shown, quotes and numbers are compared with their pages.

use std::collections::BTreeSet;

use stemma_document::{Collection, PageNo};

use super::answer::{Claim, FinalAnswer, RejectedCounts, missing_sentence};
use super::citation::{Citation, QuoteMatch};
use super::context::{AnswerContext, Passage};
use super::numbers::{NumberRole, QuotedNumbers, mentions_gain, numbers};
use super::prompt::{DraftAnswer, DraftCitation};
use super::quote::{QuoteCheck, check_quote};
use super::quote_target::TargetLines;
use super::request::CitationPolicy;
use super::verify_claim::{ClaimEvidence, is_supported};
use crate::tree_search::one_line;
use stemma_catalog::locator::page_locator;

const MAX_CITATIONS: usize = 12;

#[derive(Debug, Default)]
pub(super) struct ComposedAnswer {
    pub(super) claims: Vec<Claim>,
    pub(super) citations: Vec<Citation>,
    pub(super) text: String,
    pub(super) final_answer: Option<FinalAnswer>,
    pub(super) rejected: RejectedCounts,
    pub(super) confidence: f64,
}

struct CheckedCitation<'a> {
    citation: Citation,
    passage: &'a Passage,
    numbers: QuotedNumbers,
    // The whole lines that the quote is on.
    lines: String,
    page_text: String,
}

pub(super) fn compose_answer(
    draft: &DraftAnswer,
    context: &AnswerContext,
    collection: &Collection,
    keep: CitationPolicy,
) -> ComposedAnswer {
    let mut composed = ComposedAnswer::default();
    for claim in &draft.claims {
        let mut cited: Vec<CheckedCitation<'_>> = Vec::new();
        for one in claim.citations.iter().take(MAX_CITATIONS) {
            match check_citation(one, context, collection) {
                Ok(one)
                    if keep == CitationPolicy::Verified
                        && one.citation.verified == QuoteMatch::None =>
                {
                    composed.rejected.unverified += 1;
                }
                Ok(one)
                    if cited
                        .iter()
                        .any(|existing| is_same(&existing.citation, &one.citation)) =>
                {
                    composed.rejected.empty_quotes += 1;
                }
                Ok(one) => cited.push(one),
                Err(CitationError::UnknownPassage) => composed.rejected.unknown_passages += 1,
                Err(CitationError::EmptyQuote) => composed.rejected.empty_quotes += 1,
            }
        }
        // Brackets become parentheses, so that they cannot be taken for citation marks.
        let statement = one_line(&claim.statement)
            .replace('[', "(")
            .replace(']', ")");
        let unsupported = unsupported_numbers(&statement, &cited, context);
        let stands =
            !cited.is_empty() && cited.iter().all(|one| one.citation.verified.is_verbatim());
        let figures = numbers(&statement)
            .iter()
            .any(|number| number.role == NumberRole::Amount);
        let verified = stands
            && unsupported.is_empty()
            && is_supported(&statement, figures, &claim_evidence(&cited, context));
        let ids = cited
            .into_iter()
            .map(|one| composed.citation_id(one.citation))
            .collect();
        composed.claims.push(Claim {
            text: statement,
            citations: ids,
            verified,
            computation: None,
            reason: None,
            unsupported_numbers: unsupported,
        });
    }
    composed.final_answer = draft.final_answer.clone().map(|stated| FinalAnswer {
        verified: is_supported_by_claims(&stated, &composed.claims),
        ..stated
    });
    composed.text = answer_text(&composed, &draft.missing);
    let verified = composed
        .claims
        .iter()
        .filter(|claim| claim.verified)
        .count();
    let share = verified as f64 / composed.claims.len().max(1) as f64;
    let confidence = if draft.confidence.is_finite() {
        draft.confidence.clamp(0.0, 1.0)
    } else {
        0.0
    };
    composed.confidence = (confidence.min(share) * 100.0).round() / 100.0;
    composed
}

impl ComposedAnswer {
    // Equal citations share an id.
    fn citation_id(&mut self, citation: Citation) -> String {
        if let Some(existing) = self
            .citations
            .iter()
            .find(|existing| is_same(existing, &citation))
        {
            return existing.id.clone();
        }
        let id = (self.citations.len() + 1).to_string();
        self.citations.push(Citation {
            id: id.clone(),
            ..citation
        });
        id
    }
}

fn is_same(one: &Citation, other: &Citation) -> bool {
    one.doc_id == other.doc_id
        && one.page == other.page
        && one.line == other.line
        && one.quote == other.quote
}

enum CitationError {
    UnknownPassage,
    EmptyQuote,
}

// Checks one citation. A quote that is not in the passage it names, but is in another passage of the same document, is
// attributed to that one: models often mix up passage numbers.
fn check_citation<'a>(
    draft: &DraftCitation,
    context: &'a AnswerContext,
    collection: &Collection,
) -> Result<CheckedCitation<'a>, CitationError> {
    let at = usize::try_from(draft.passage)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let named_passage = at
        .and_then(|at| context.passages.get(at))
        .ok_or(CitationError::UnknownPassage)?;
    if !draft.quote.chars().any(char::is_alphanumeric) {
        return Err(CitationError::EmptyQuote);
    }
    let mut best = (
        named_passage,
        check_quote(&draft.quote, &context.quote_targets(named_passage)),
    );
    if !best.1.matched.is_verbatim() {
        let others = context
            .passages
            .iter()
            .filter(|other| other.doc == named_passage.doc && other.number != named_passage.number);
        let elsewhere = others.map(|other| {
            (
                other,
                check_quote(&draft.quote, &context.quote_targets(other)),
            )
        });
        let mut elsewhere = elsewhere.filter(|(_, checked)| checked.matched.is_verbatim());
        best = elsewhere.next().unwrap_or(best);
    }
    let (passage, checked) = best;
    Ok(checked_citation(passage, checked, context, collection))
}

fn checked_citation<'a>(
    passage: &'a Passage,
    checked: QuoteCheck,
    context: &'a AnswerContext,
    collection: &Collection,
) -> CheckedCitation<'a> {
    let targets = context.quote_targets(passage);
    let until = checked
        .rects
        .iter()
        .map(|rect| rect.page)
        .max()
        .unwrap_or(passage.number);
    let used = targets
        .iter()
        .filter(|target| passage.last_line.is_some() || target.number <= until);
    let page_text = used
        .map(|target| target.full_text())
        .collect::<Vec<_>>()
        .join("\n");
    let open_doc = context.document(passage);
    let (name, label) = open_doc.map_or(("", ""), |open_doc| {
        (open_doc.name.as_str(), open_doc.label.as_str())
    });
    let page = passage.last_line.is_none().then_some(passage.number);
    let size = targets.first().and_then(|target| match target.lines {
        TargetLines::Page(page) => Some([
            f64::from(page.width.points()),
            f64::from(page.height.points()),
        ]),
        TargetLines::Text(_) => None,
    });
    let line = passage
        .last_line
        .map(|_| passage.number + checked.start.map_or(0, |(_, line)| line as u32));
    let page_label = page.and_then(|number| {
        let label = open_doc?.page(number)?.label.as_ref()?.0.clone();
        Some(label).filter(|label| *label != number.to_string())
    });
    let locator = match page.and_then(PageNo::new) {
        Some(page) => page_locator(label, page),
        None => stemma_catalog::locator::section_locator(label, passage.section),
    };
    let quoted = QuotedNumbers::new(&checked.quote, &page_text);
    let citation = Citation {
        id: String::new(),
        doc_id: passage.doc.to_string(),
        name: name.to_owned(),
        version: open_doc.map_or(0, |open_doc| open_doc.version),
        section_id: passage.section.to_string(),
        path: context.section_path(passage),
        page,
        page_label,
        line,
        quote: checked.quote,
        rects: checked.rects,
        page_size: size,
        verified: checked.matched,
        url: page_url(passage, collection),
        locator,
    };
    CheckedCitation {
        citation,
        passage,
        numbers: quoted,
        lines: checked.lines,
        page_text,
    }
}

fn page_url(passage: &Passage, collection: &Collection) -> String {
    let doc = passage.doc;
    let section = passage.section;
    let place = match passage.last_line {
        None => format!("/v1/documents/{doc}/pages?range={}", passage.number),
        Some(_) => format!("/v1/documents/{doc}/sections/{section}?text=true"),
    };
    if *collection == Collection::default() {
        return place;
    }
    let joint = if place.contains('?') { '&' } else { '?' };
    format!("{place}{joint}collection={collection}")
}

// Amounts must be in a verified quote. Labels (a year, a note) may also be on the page, in the section path, or in the
// description of the document.
fn unsupported_numbers(
    statement: &str,
    cited: &[CheckedCitation<'_>],
    context: &AnswerContext,
) -> Vec<String> {
    let gain = mentions_gain(statement);
    let around: String = cited
        .iter()
        .map(|one| page_context(one, context))
        .collect::<Vec<_>>()
        .join("\n");
    let names: BTreeSet<String> = around
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    let mut unsupported: Vec<String> = Vec::new();
    for number in numbers(statement) {
        let is_supported = if number.is_label() {
            number.spellings().iter().any(|name| names.contains(name))
        } else {
            cited
                .iter()
                .filter(|one| one.citation.verified.is_verbatim())
                .any(|one| number.is_supported_by(&one.numbers, gain))
        };
        if !is_supported && !unsupported.contains(&number.text) {
            unsupported.push(number.text);
        }
    }
    unsupported
}

fn page_context(cited: &CheckedCitation<'_>, context: &AnswerContext) -> String {
    format!("{}\n{}", cited.page_text, location(cited, context))
}

fn location(cited: &CheckedCitation<'_>, context: &AnswerContext) -> String {
    let what = context
        .document(cited.passage)
        .map(|open_doc| open_doc.description.replace("FY", ""))
        .unwrap_or_default();
    format!(
        "{}\n{}\n{what}",
        cited.citation.path.join(" "),
        cited.citation.name.replace('_', " ")
    )
}

// Only quotes that were found count as evidence.
fn claim_evidence(cited: &[CheckedCitation<'_>], context: &AnswerContext) -> ClaimEvidence {
    let verbatim: Vec<&CheckedCitation<'_>> = cited
        .iter()
        .filter(|one| one.citation.verified.is_verbatim())
        .collect();
    let lines: Vec<&str> = verbatim.iter().map(|one| one.lines.as_str()).collect();
    let locations: Vec<String> = verbatim.iter().map(|one| location(one, context)).collect();
    ClaimEvidence {
        quotes: verbatim
            .iter()
            .map(|one| one.citation.quote.clone())
            .collect(),
        lines: lines.join("\n"),
        location: locations.join("\n"),
    }
}

// Whether each figure and year of a final answer is in a verified claim; without figures, whether all claims are verified.
fn is_supported_by_claims(stated: &FinalAnswer, claims: &[Claim]) -> bool {
    let figure = stated.figure();
    let stated_numbers = numbers(&figure);
    let verified = || claims.iter().filter(|claim| claim.verified);
    if !stated_numbers.iter().any(|number| !number.is_label()) {
        return verified().count() == claims.len() && !claims.is_empty();
    }
    verified().any(|claim| {
        let quoted = QuotedNumbers::new(&claim.text, &claim.text);
        let words: BTreeSet<&str> = claim.text.split(|c: char| !c.is_alphanumeric()).collect();
        stated_numbers.iter().all(|number| match number.is_label() {
            true => words.contains(number.digits.as_str()),
            false => number.is_supported_by(&quoted, false),
        })
    })
}

// The final answer, the claims, and what is missing.
fn answer_text(composed: &ComposedAnswer, missing: &[String]) -> String {
    let stated = composed.final_answer.as_ref();
    let sentences = stated.map(|stated| format!("{}.", stated.sentence()));
    let claims = composed.claims.iter().map(with_citation_marks);
    let mut sentences: Vec<String> = sentences.into_iter().chain(claims).collect();
    sentences.extend(missing_sentence(missing));
    sentences.join(" ")
}

fn with_citation_marks(claim: &Claim) -> String {
    if claim.citations.is_empty() {
        return claim.text.clone();
    }
    let marks: String = claim.citations.iter().map(|id| format!("[{id}]")).collect();
    let (statement, stop) = claim.split_final_stop();
    format!("{statement} {marks}{stop}")
}
