//! An answer: its claims with their state, and each citation with its quote marked on the page.

use maud::{Markup, html};
use stemma_answers::{Answer, AnswerOutcome, Citation, Claim, ClaimFigure, ClaimState, QuoteMatch};

use crate::context::PageContext;
use crate::page_view::page_image;
use crate::text::{Line, Message, Passage, capitalized, counted, grouped};

const NANODOLLARS: f64 = 1e9;

/// The whole answer.
pub(crate) fn answer_view(context: &PageContext, answer: &Answer) -> Markup {
    html! {
        div.answer {
            div {
                (outcome(answer))
                @if let Some(figure) = &answer.final_answer {
                    p.figure { strong { (Line(&figure.sentence())) } " " (state(if figure.verified { ClaimState::Verified } else { ClaimState::Unverified })) }
                }
                @if answer.claims.is_empty() { @if !answer.text.is_empty() { p.lead { (Passage(&answer.text)) } } }
                @else { ol.claims { @for claim in &answer.claims { (claim_entry(context, claim)) } } }
                @if !answer.missing.is_empty() {
                    h2 { "Not found in what was read" }
                    ul { @for part in &answer.missing { li { (Passage(part)) } } }
                }
                (sections(context, answer))
                (searched(answer))
            }
            @if !answer.citations.is_empty() {
                section.proof aria-label="Citations" { @for citation in &answer.citations { (proof(context, citation)) } }
            }
        }
    }
}

fn outcome(answer: &Answer) -> Markup {
    html! {
        @match answer.outcome {
            AnswerOutcome::Answered => {}
            AnswerOutcome::NotInDocuments => p.lead { "The documents that were searched do not say." },
            AnswerOutcome::SearchOnly => p.lead { "No model answered. This is what a search finds:" },
        }
        @if let Some(degradation) = &answer.degradation {
            div.remarks role="status" {
                p { (Message(&capitalized(&degradation.message))) @if let Some(next) = &degradation.next { ". Next: " (Message(next)) } }
            }
        }
    }
}

fn state(state: ClaimState) -> Markup {
    let (name, text) = match state {
        ClaimState::Computed => ("computed", "computed"),
        ClaimState::Verified => ("verified", "verified"),
        ClaimState::Quoted => ("quoted", "quoted"),
        ClaimState::FromImage => ("from-image", "from an image"),
        ClaimState::Unverified => ("unverified", "not verified"),
    };
    html! { span.badge data-claim=(name) { (text) } }
}

fn claim_entry(context: &PageContext, claim: &Claim) -> Markup {
    html! {
        li.claim {
            p {
                (Passage(&claim.text))
                @for id in &claim.citations { " " a.cite href=(format!("#citation-{id}")) { "[" (Line(id)) "]" } }
                " " (state(claim.state))
            }
            @if !claim.figures.is_empty() { ul.operands { @for figure in &claim.figures { li { (figure_entry(figure)) } } } }
            @match claim.state {
                ClaimState::Verified | ClaimState::Computed => {}
                ClaimState::Quoted => p.note { "The quotes are on their pages. Code does not check what the sentence makes of them." },
                ClaimState::FromImage => p.note { "A model read this from the image of "
                    @for (at, page) in claim.by_sight.iter().enumerate() {
                        @if at > 0 { ", " }
                        @let document = stemma_archive::document_part(&page.locator);
                        a href=(context.document_url(&document, &[("page", &page.page.to_string())])) { bdi { (Line(&page.name)) } ", page " (page.page) }
                    }
                    ". Nothing checks what it sees." },
                ClaimState::Unverified => p.note {
                    @match &claim.reason { Some(reason) => { (Passage(reason)) }, None => "Its quotes do not support it." }
                },
            }
        }
    }
}

fn figure_entry(figure: &ClaimFigure) -> Markup {
    html! {
        code { (Line(&figure.name)) " = " (Line(&figure.text)) @if !figure.formula.is_empty() { " = " (Line(&figure.formula)) } }
        @for place in [&figure.row, &figure.column] { @if !place.is_empty() { " · " (Line(place)) } }
        @if let Some(id) = &figure.citation { " " a.cite href=(format!("#citation-{id}")) { "[" (Line(id)) "]" } }
    }
}

// A citation with its page. Pages are loaded when they are shown.
fn proof(context: &PageContext, citation: &Citation) -> Markup {
    let document = stemma_archive::document_part(&citation.locator);
    let page = citation
        .page
        .map(|page| page.to_string())
        .unwrap_or_default();
    let section = format!("{document}#{}", citation.section_id);
    let is_found = matches!(
        citation.verified,
        QuoteMatch::Exact | QuoteMatch::Normalized
    );
    html! {
        article.citation id=(format!("citation-{}", citation.id)) tabindex="-1" {
            h3 { "[" (Line(&citation.id)) "] " a href=(context.document_url(&section, &[("page", &page)])) { bdi { (Line(&citation.name)) } }
                @if let Some(page) = citation.page { ", page " (page) } @if let Some(line) = citation.line { ", line " (line) } }
            p.note { @for title in citation.path.iter().rev().take(2).rev() { bdi { (Line(title)) } " · " }
                @if is_found { "the quote is on the page" } @else { "the quote is not on the page as given" }
                @if let Some(confidence) = citation.ocr_confidence { " · " span.badge data-state="queued" title="text recognition (OCR) read the page" { "OCR, " (confidence) " % sure" } } }
            blockquote { @if is_found { (Passage(&citation.quote)) } @else { del { (Passage(&citation.quote)) } } }
            @if let (Some(page), Some([width, height])) = (citation.page, citation.page_size) {
                @let rectangles = citation.rects.iter().filter(|rect| rect.page == page)
                    .map(|rect| [rect.x, rect.y, rect.w, rect.h].map(|share| share as f32))
                    .collect::<Vec<_>>();
                (page_image(context, &document, page, (width as f32, height as f32), &rectangles, "quote", &html! {}))
            }
        }
    }
}

fn sections(context: &PageContext, answer: &Answer) -> Markup {
    let title = if answer.outcome == AnswerOutcome::SearchOnly {
        "Sections found"
    } else {
        "Sections read"
    };
    html! {
        @if !answer.sections.is_empty() {
            details open[answer.outcome == AnswerOutcome::SearchOnly] {
                summary { (title) " (" (grouped(answer.sections.len())) ")" }
                ul { @for section in &answer.sections { li {
                    a href=(context.document_url(&section.locator, &[])) { bdi { (Line(section.path.last().map(String::as_str).unwrap_or_default())) } }
                    span.note { " " (Line(&section.name)) @if let Some(page) = section.pages.first() { ", p " (page) } @if section.cited { " · cited" } }
                } } }
            }
        }
    }
}

fn searched(answer: &Answer) -> Markup {
    let summary = &answer.searched;
    let usage = &answer.usage;
    html! {
        details.searched {
            summary { "How it was answered" }
            dl {
                dt { "Searched" } dd { (grouped(summary.documents)) " of " (grouped(summary.documents_in_scope)) " documents, " (grouped(summary.sections)) " sections" }
                dt { "Queries" } dd { @for query in &summary.queries { span.pair-line { "“" (Line(query)) "” " } } }
                dt { "Model" } dd { (Line(answer.model.as_deref().unwrap_or("none"))) }
                dt { "Used" } dd { (counted(usage.calls.into(), "call")) ", " (grouped(usage.prompt_tokens)) " tokens read, " (grouped(usage.output_tokens)) " written" }
                @if let Some(cost) = usage.nanodollars { dt { "Cost" } dd { (format!("${:.4}", cost as f64 / NANODOLLARS)) } }
                @if let Some(confidence) = answer.confidence { dt { "Confidence" } dd { (format!("{confidence:.2}")) } }
                @if answer.is_replay { dt { "Stored" } dd { "This answer was stored before; showing it costs nothing." } }
            }
            ol { @for step in &answer.steps { li { (Line(&step.what)) } } }
        }
    }
}
