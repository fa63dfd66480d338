//! Composes an answer from a draft: citations must name passages the model was shown, and code binds each figure to its page.

use std::collections::BTreeSet;

use stemma_catalog::catalog::Catalog;
use stemma_catalog::locator::{page_locator, section_locator};
use stemma_document::rounding::rounded;
use stemma_document::{Collection, DocId, PageNo};
use stemma_reading::numbers::NumberMarks;
use stemma_reading::tables::FigureTable;
use stemma_store::PortResult;
use stemma_verify::{
    BoundFigure, ClaimState, Evidence, QuoteCheck, QuoteMatch, QuoteTarget, SourceLines,
    StatedCitation, StatedClaim, VerifiedClaim, check_quote, verify_claim,
};
use stemma_xbrl::FactTable;

use super::answer::{Claim, ClaimFigure, FinalAnswer, RejectedCounts, SeenPage, missing_sentence};
use super::citation::Citation;
use super::context::{AnswerContext, Passage};
use super::draft_answer::DraftAnswer;
use super::final_answer::bind_final_answer;
use super::issuers::Issuers;
use super::page_vision::Picture;
use super::request::CitationPolicy;
use crate::tree_search::one_line;

#[derive(Debug, Default)]
pub(super) struct ComposedAnswer {
    pub(super) claims: Vec<Claim>,
    pub(super) citations: Vec<Citation>,
    pub(super) text: String,
    pub(super) final_answer: Option<FinalAnswer>,
    pub(super) rejected: RejectedCounts,
    pub(super) confidence: f64,
}

/// A citation of a passage that the model was shown, with what its page says.
struct CheckedCitation<'a> {
    doc: DocId,
    citation: Citation,
    quote: QuoteCheck,
    /// The passage's page and the next one, or its lines.
    targets: Vec<QuoteTarget<'a>>,
    tables: Vec<&'a FigureTable>,
    facts: Option<&'a FactTable>,
    year_shift: i32,
    marks: NumberMarks,
    /// Section path, file name and description of the document.
    location: String,
}

impl CheckedCitation<'_> {
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            quote: self.quote.clone(),
            targets: &self.targets,
            tables: self.tables.clone(),
            facts: self.facts,
            year_shift: self.year_shift,
            marks: self.marks,
            location: &self.location,
        }
    }
}

/// The valid citations of a claim, and for each one of the draft its position among them.
#[derive(Default)]
struct ClaimCitations<'a> {
    checked: Vec<CheckedCitation<'a>>,
    positions: Vec<Option<usize>>,
}

impl ClaimCitations<'_> {
    // A company that the statement names, and neither the documents nor what is cited of them.
    fn foreign_issuer(&self, statement: &str, issuers: &Issuers<'_>) -> PortResult<Option<String>> {
        let docs: BTreeSet<DocId> = self.checked.iter().map(|checked| checked.doc).collect();
        let around: Vec<&str> = self
            .checked
            .iter()
            .flat_map(|checked| {
                [
                    checked.citation.quote.as_str(),
                    &checked.quote.lines,
                    &checked.location,
                ]
            })
            .collect();
        let name = issuers.foreign_name(statement, &docs, &around.join("\n"))?;
        Ok(name.map(str::to_owned))
    }
}

pub(super) fn compose_answer(
    draft: &DraftAnswer,
    context: &AnswerContext,
    pictures: &[Picture],
    (catalog, collection): (&Catalog, &Collection),
    keep: CitationPolicy,
) -> PortResult<ComposedAnswer> {
    // They read the names of all issuers, so drafts without a supported claim do without.
    let mut issuers: Option<Issuers<'_>> = None;
    let mut composed = ComposedAnswer::default();
    // Formulas and the final answer may use figures of all claims before.
    let mut figures: Vec<BoundFigure> = Vec::new();
    let mut earlier: Vec<ClaimFigure> = Vec::new();
    for stated in &draft.claims {
        let cited = composed.check_citations(stated, context, collection, keep);
        let evidence: Vec<Option<Evidence<'_>>> = cited
            .positions
            .iter()
            .map(|at| Some(cited.checked.get((*at)?)?.evidence()))
            .collect();
        let mut verified = verify_claim(stated, &evidence, &figures);
        if verified.state != ClaimState::Unverified {
            let issuers = match &mut issuers {
                Some(issuers) => issuers,
                none => none.insert(Issuers::new(catalog)?),
            };
            if let Some(name) = cited.foreign_issuer(&verified.text, issuers)? {
                verified.state = ClaimState::Unverified;
                verified.reason = Some(format!(
                    "it names {name}, but cites documents of other companies"
                ));
            }
        }
        let by_sight = composed.named_pictures(stated, pictures);
        let ids = composed.citation_ids(&cited);
        let own: Vec<ClaimFigure> = verified
            .figures
            .iter()
            .map(|figure| claim_figure(figure, &ids))
            .collect();
        let used = verified
            .earlier
            .iter()
            .filter_map(|name| earlier.iter().find(|figure| figure.name == *name));
        let all = own.iter().chain(used).cloned().collect();
        // What is wrong with a claim may be its figures.
        let is_supported = verified.state != ClaimState::Unverified;
        figures.extend(verified.figures.iter().map(|figure| {
            let mut figure = figure.clone();
            figure.is_found &= is_supported;
            figure
        }));
        earlier.extend(own);
        composed.push_claim(verified, &ids, all, by_sight);
    }
    let stated = draft.final_answer.clone();
    composed.final_answer =
        stated.map(|stated| bind_final_answer(stated, &composed.claims, &figures));
    composed.text = answer_text(&composed, &draft.missing);
    let supported = composed.claims.iter().filter(|claim| claim.is_supported());
    let share = supported.count() as f64 / composed.claims.len().max(1) as f64;
    let confidence = if draft.confidence.is_finite() {
        draft.confidence.clamp(0.0, 1.0)
    } else {
        0.0
    };
    composed.confidence = rounded(confidence.min(share), 2);
    Ok(composed)
}

fn claim_figure(figure: &BoundFigure, ids: &[Option<String>]) -> ClaimFigure {
    ClaimFigure {
        name: figure.name.clone(),
        text: figure.text.clone(),
        value: figure.value.map(|value| value.normalize().to_string()),
        unit: figure.unit.clone(),
        period: figure.period.clone(),
        row: figure.row.clone(),
        column: figure.column.clone(),
        citation: figure
            .citation
            .and_then(|at| ids.get(at).cloned().flatten()),
        formula: figure.formula.clone(),
    }
}

impl ComposedAnswer {
    fn push_claim(
        &mut self,
        verified: VerifiedClaim,
        ids: &[Option<String>],
        figures: Vec<ClaimFigure>,
        by_sight: Vec<SeenPage>,
    ) {
        let mut citations: Vec<String> = Vec::new();
        for id in ids.iter().flatten() {
            if !citations.contains(id) {
                citations.push(id.clone());
            }
        }
        let is_unverified = verified.state == ClaimState::Unverified;
        let (state, by_sight) = match is_unverified && !by_sight.is_empty() {
            true => (ClaimState::FromImage, by_sight),
            false => (verified.state, Vec::new()),
        };
        self.claims.push(Claim {
            id: format!("c{}", self.claims.len() + 1),
            // Brackets become parentheses, so that they cannot be taken for citation marks.
            text: one_line(&verified.text).replace('[', "(").replace(']', ")"),
            state,
            citations,
            figures,
            reason: verified.reason,
            by_sight,
        });
    }

    fn check_citations<'a>(
        &mut self,
        claim: &StatedClaim,
        context: &'a AnswerContext,
        collection: &Collection,
        keep: CitationPolicy,
    ) -> ClaimCitations<'a> {
        let mut cited = ClaimCitations::default();
        for citation in &claim.citations {
            let checked = match check_citation(citation, context, collection) {
                Ok(checked) => checked,
                Err(error) => {
                    match error {
                        CitationError::UnknownPassage => self.rejected.unknown_passages += 1,
                        CitationError::EmptyQuote => self.rejected.empty_quotes += 1,
                    }
                    cited.positions.push(None);
                    continue;
                }
            };
            let existing = cited
                .checked
                .iter()
                .position(|existing| is_same(&existing.citation, &checked.citation));
            if keep == CitationPolicy::Verified && checked.citation.verified == QuoteMatch::None {
                self.rejected.unverified += 1;
                cited.positions.push(None);
            } else if existing.is_some() {
                self.rejected.empty_quotes += 1;
                cited.positions.push(existing);
            } else {
                cited.positions.push(Some(cited.checked.len()));
                cited.checked.push(checked);
            }
        }
        cited
    }

    // The id of each citation of the draft, if it is valid.
    fn citation_ids(&mut self, cited: &ClaimCitations<'_>) -> Vec<Option<String>> {
        cited
            .positions
            .iter()
            .map(|at| Some(self.citation_id(&cited.checked.get((*at)?)?.citation)))
            .collect()
    }

    // The pages of the pictures that a claim names.
    fn named_pictures(&mut self, claim: &StatedClaim, pictures: &[Picture]) -> Vec<SeenPage> {
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
    fn citation_id(&mut self, citation: &Citation) -> String {
        let existing = self
            .citations
            .iter()
            .find(|existing| is_same(existing, citation));
        if let Some(existing) = existing {
            return existing.id.clone();
        }
        let id = (self.citations.len() + 1).to_string();
        self.citations.push(Citation {
            id: id.clone(),
            ..citation.clone()
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
    stated: &StatedCitation,
    context: &'a AnswerContext,
    collection: &Collection,
) -> Result<CheckedCitation<'a>, CitationError> {
    let at = usize::try_from(stated.passage)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let named_passage = at
        .and_then(|at| context.passages.get(at))
        .ok_or(CitationError::UnknownPassage)?;
    if !stated.quote.chars().any(char::is_alphanumeric) {
        return Err(CitationError::EmptyQuote);
    }
    let mut best = (
        named_passage,
        check_quote(&stated.quote, &context.quote_targets(named_passage)),
    );
    if !best.1.matched.is_verbatim() {
        let others = context
            .passages
            .iter()
            .filter(|other| other.doc == named_passage.doc && other.number != named_passage.number);
        let elsewhere = others.map(|other| {
            (
                other,
                check_quote(&stated.quote, &context.quote_targets(other)),
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
    quote: QuoteCheck,
    context: &'a AnswerContext,
    collection: &Collection,
) -> CheckedCitation<'a> {
    let targets = context.quote_targets(passage);
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
    let page_label = page.and_then(|number| {
        let label = open_doc?.page(number)?.label.as_ref()?.0.clone();
        Some(label).filter(|label| *label != number.to_string())
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
        line: passage
            .last_line
            .map(|_| passage.number + quote.start.map_or(0, |(_, line)| line as u32)),
        quote: quote.quote.clone(),
        rects: quote.rects.clone(),
        page_size: size,
        verified: quote.matched,
        ocr_confidence: quote.ocr_confidence,
        url: page_url(passage, collection),
        locator: match page.and_then(PageNo::new) {
            Some(page) => page_locator(label, page),
            None => section_locator(label, passage.section),
        },
    };
    CheckedCitation {
        doc: passage.doc,
        tables: context.tables_near(passage),
        facts: open_doc.and_then(|open_doc| open_doc.facts.as_deref()),
        year_shift: open_doc.map_or(0, |open_doc| open_doc.year_shift),
        marks: open_doc
            .map(|open_doc| open_doc.number_marks(page.and_then(PageNo::new)))
            .unwrap_or_default(),
        location: format!(
            "{}\n{}\n{}",
            citation.path.join(" "),
            citation.name.replace('_', " "),
            open_doc.map_or("", |open_doc| open_doc.description.as_str())
        ),
        citation,
        targets,
        quote,
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
