//! Checks a draft answer: citations must name passages the model was shown, quotes and numbers are compared with their pages.

use std::collections::BTreeSet;

use stemma_catalog::catalog::Catalog;
use stemma_document::rounding::rounded;
use stemma_document::{Collection, DocId, PageNo};
use stemma_store::PortResult;

use super::answer::{
    Claim, Computation, FinalAnswer, Operand, RejectedCounts, SeenPage, missing_sentence,
};
use super::citation::Citation;
use super::context::{AnswerContext, Passage};
use super::draft_answer::{DraftAnswer, DraftCitation, DraftClaim};
use super::figures::{CitedPages, CitedText};
use super::final_answer::with_claims;
use super::issuers::Issuers;
use super::page_vision::Picture;
use super::request::CitationPolicy;
use super::tagged_facts::TaggedFacts;
use super::verdict::judge_claim;
use crate::tree_search::one_line;
use stemma_catalog::locator::page_locator;
use stemma_reading::tables::page::SourceLines;
use stemma_verify::QuoteMatch;
use stemma_verify::{DisputedQuote, QuoteCheck, check_quote};

#[derive(Debug, Default)]
pub(super) struct ComposedAnswer {
    pub(super) claims: Vec<Claim>,
    pub(super) citations: Vec<Citation>,
    pub(super) text: String,
    pub(super) final_answer: Option<FinalAnswer>,
    pub(super) rejected: RejectedCounts,
    pub(super) confidence: f64,
}

/// A citation of a passage that the model was shown, compared with its page.
pub(super) struct CheckedCitation<'a> {
    pub(super) doc: DocId,
    pub(super) citation: Citation,
    /// The cells and sentences of the quote; `None` when its words were not found.
    pub(super) text: Option<CitedText<'a>>,
    /// The facts that the filing tags, if it does.
    pub(super) declared: Option<TaggedFacts<'a>>,
    /// The whole lines that the quote is on.
    pub(super) lines: String,
    /// A quoted word with figures that two readers of a scan read differently.
    pub(super) disputed: Option<DisputedQuote>,
    pub(super) page_text: String,
    /// Section path, file name and description of the document.
    pub(super) location: String,
}

pub(super) fn compose_answer(
    draft: &DraftAnswer,
    context: &AnswerContext,
    pictures: &[Picture],
    (catalog, collection): (&Catalog, &Collection),
    keep: CitationPolicy,
) -> PortResult<ComposedAnswer> {
    // They read the names of all issuers, so drafts without a verified claim do without.
    let mut known_issuers: Option<Issuers<'_>> = None;
    let mut composed = ComposedAnswer::default();
    for claim in &draft.claims {
        let (cited, positions) = composed.check_citations(claim, context, collection, keep);
        // Brackets become parentheses, so that they cannot be taken for citation marks.
        let statement = one_line(&claim.statement)
            .replace('[', "(")
            .replace(']', ")");
        let mut verdict = judge_claim(&statement, claim, &cited, &positions);
        let docs: BTreeSet<DocId> = cited.iter().map(|checked| checked.doc).collect();
        let text: Vec<&str> = cited.iter().flat_map(CheckedCitation::cited_text).collect();
        if verdict.verified {
            let issuers = match known_issuers.take() {
                Some(issuers) => issuers,
                None => Issuers::new(catalog)?,
            };
            let issuers = known_issuers.insert(issuers);
            if let Some(name) = issuers.foreign_name(&statement, &docs, &text.join("\n"))? {
                verdict.verified = false;
                verdict.reason = Some(format!(
                    "it names {name}, but cites documents of other companies"
                ));
            }
        }
        let mut by_sight = composed.named_pictures(claim, pictures);
        if verdict.verified {
            by_sight.clear();
        }
        let ids: Vec<String> = cited
            .into_iter()
            .map(|checked| composed.citation_id(checked.citation))
            .collect();
        let computation = claim.computation.as_ref().map(|draft| {
            let citation = |at: i64| {
                let at = usize::try_from(at).ok()?.checked_sub(1)?;
                ids.get((*positions.get(at)?)?).cloned()
            };
            Computation {
                formula: one_line(&draft.formula),
                operands: draft
                    .operands
                    .iter()
                    .map(|operand| Operand {
                        name: operand.name.clone(),
                        value: one_line(&operand.value),
                        row: one_line(&operand.row),
                        period: one_line(&operand.period),
                        citation: citation(operand.citation),
                    })
                    .collect(),
                result: one_line(&draft.result),
                value: verdict
                    .computed
                    .map(|value| value.round_dp(6).normalize().to_string()),
            }
        });
        composed.claims.push(Claim {
            id: format!("c{}", composed.claims.len() + 1),
            text: statement,
            citations: ids,
            verified: verdict.verified,
            computation,
            reason: verdict.reason,
            unsupported_numbers: verdict.unsupported,
            by_sight,
        });
    }
    let stated = draft.final_answer.clone();
    composed.final_answer = stated.map(|stated| with_claims(stated, &composed.claims));
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
    composed.confidence = rounded(confidence.min(share), 2);
    Ok(composed)
}

impl CheckedCitation<'_> {
    // What may name another issuer than the document's: the sentences and lines of the quote, and the section.
    pub(super) fn cited_text(&self) -> [&str; 4] {
        let sentences = self.text.as_ref().map_or("", |text| &text.sentences);
        [&self.citation.quote, &self.lines, sentences, &self.location]
    }
}

impl ComposedAnswer {
    // The valid citations of a claim, and for each one of the draft its place among them.
    fn check_citations<'a>(
        &mut self,
        claim: &DraftClaim,
        context: &'a AnswerContext,
        collection: &Collection,
        keep: CitationPolicy,
    ) -> (Vec<CheckedCitation<'a>>, Vec<Option<usize>>) {
        let mut cited: Vec<CheckedCitation<'_>> = Vec::new();
        let mut positions = Vec::new();
        for citation in &claim.citations {
            let checked = match check_citation(citation, context, collection) {
                Ok(checked) => checked,
                Err(error) => {
                    match error {
                        CitationError::UnknownPassage => self.rejected.unknown_passages += 1,
                        CitationError::EmptyQuote => self.rejected.empty_quotes += 1,
                    }
                    positions.push(None);
                    continue;
                }
            };
            let is_same =
                |existing: &CheckedCitation<'_>| is_same(&existing.citation, &checked.citation);
            if keep == CitationPolicy::Verified && checked.citation.verified == QuoteMatch::None {
                self.rejected.unverified += 1;
                positions.push(None);
            } else if let Some(existing) = cited.iter().position(is_same) {
                self.rejected.empty_quotes += 1;
                positions.push(Some(existing));
            } else {
                positions.push(Some(cited.len()));
                cited.push(checked);
            }
        }
        (cited, positions)
    }

    // The pages of the pictures that a claim names.
    fn named_pictures(&mut self, claim: &DraftClaim, pictures: &[Picture]) -> Vec<SeenPage> {
        let mut seen: Vec<SeenPage> = Vec::new();
        for number in &claim.pictures {
            let at = usize::try_from(*number)
                .ok()
                .and_then(|at| at.checked_sub(1));
            match at.and_then(|at| pictures.get(at)) {
                Some(picture) if seen.contains(&picture.page) => {}
                Some(picture) => seen.push(picture.page.clone()),
                None => self.rejected.unknown_passages += 1,
            }
        }
        seen
    }

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

fn is_same(left: &Citation, right: &Citation) -> bool {
    left.doc_id == right.doc_id
        && left.page == right.page
        && left.line == right.line
        && left.quote == right.quote
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
        SourceLines::Page(page) => {
            let (width, height) = page.displayed_size();
            Some([width, height].map(|length| f64::from(length.points())))
        }
        SourceLines::Text(_) => None,
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
    let text = checked.matched.is_verbatim().then(|| {
        let pages = CitedPages {
            before: context.target_before(passage),
            targets: &targets,
            year_shift: open_doc.map_or(0, |open_doc| open_doc.year_shift),
        };
        CitedText::new(&pages, &checked.spans, &checked.quote, &page_text)
    });
    let declared = open_doc.and_then(|open_doc| {
        let lines = checked.spans.iter().map(|span| match passage.last_line {
            None => (targets[span.target].number, span.line as u32),
            Some(_) => (0, targets[span.target].number - 1 + span.line as u32),
        });
        let cells = text.iter().flat_map(|text: &CitedText<'_>| &text.cells);
        Some(TaggedFacts {
            table: open_doc.facts.as_deref()?,
            lines: lines.collect(),
            labels: cells.map(|(_, cell)| cell.label.clone()).collect(),
            year_shift: open_doc.year_shift,
        })
    });
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
        ocr_confidence: checked.ocr_confidence,
        url: page_url(passage, collection),
        locator,
    };
    CheckedCitation {
        doc: passage.doc,
        location: format!(
            "{}\n{}\n{}",
            citation.path.join(" "),
            citation.name.replace('_', " "),
            open_doc.map_or("", |open_doc| open_doc.description.as_str())
        ),
        citation,
        text,
        declared,
        lines: checked.lines,
        disputed: checked.disputed,
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
    let marks: String = claim.citations.iter().map(|id| format!("[{id}]")).collect();
    let image = claim.image_note().map(|note| format!("({note})"));
    let marks: Vec<String> = [marks]
        .into_iter()
        .chain(image)
        .filter(|mark| !mark.is_empty())
        .collect();
    if marks.is_empty() {
        return claim.text.clone();
    }
    let (statement, stop) = claim.split_final_stop();
    format!("{statement} {}{stop}", marks.join(" "))
}
