//! Prints answers as text.

use stemma_answers::{
    Answer, AnswerMode, AnswerOutcome, Citation, Claim, ClaimFigure, ClaimState, QuoteMatch,
    ReadSection, StepKind,
};
use stemma_archive::{Archive, TextScope};

use crate::commands::format::{counts, excerpt_line, printed_label, short_section_path};
use crate::cost::money_from_nanos;
use crate::error::CommandError;
use crate::output::{Output, clean};
use crate::table::counted;

const QUOTE_CHARS: usize = 160;

/// The text, what it rests on, and what of it could not be verified.
pub fn answer(answer: &Answer, output: &Output) {
    if let Some(degraded) = &answer.degradation {
        output.note(&format!("{}: {}", degraded.code, clean(&degraded.message)));
        if let Some(next) = &degraded.next {
            output.note(&format!("next: {}", clean(next)));
        }
    }
    match answer.outcome {
        AnswerOutcome::SearchOnly => {
            for section in &answer.sections {
                output.line(&place(section, output));
                if let Some(excerpt) = &section.excerpt {
                    output.line(&excerpt_line(output, &excerpt.text, &excerpt.highlights));
                }
            }
        }
        _ => output.line(&clean(&answer.text)),
    }
    for one in &answer.citations {
        output.line(&citation(one, output));
    }
    for claim in &answer.claims {
        for figure in &claim.figures {
            output.line(&output.dim(&figure_line(figure)));
        }
        match claim.state {
            ClaimState::Verified | ClaimState::Computed => {}
            ClaimState::Quoted => output.line(&output.dim(&quoted_line(claim))),
            ClaimState::FromImage => output.line(&output.dim(&image_line(claim))),
            ClaimState::Unverified => output.line(&output.dim(&unverified_line(claim))),
        }
    }
    if let Some(stated) = &answer.final_answer
        && !stated.verified
    {
        let figure = clean(&stated.figure());
        let line = format!("not verified: {figure} (it is not a figure of a verified claim)");
        output.line(&output.dim(&line));
    }
}

// `a = $1,749 million · Purchases of property, plant and equipment, 2022 [1]`, or `m = 5.1% = abs(a) / b * 100`.
fn figure_line(figure: &ClaimFigure) -> String {
    let mut line = format!("{} = {}", figure.name, figure.text);
    if !figure.formula.is_empty() {
        line += &format!(" = {}", figure.formula);
    }
    let place = [&figure.row, &figure.column].map(String::as_str);
    let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
    if !place.is_empty() {
        line += &format!(" · {}", place.join(", "));
    }
    if let Some(id) = &figure.citation {
        line += &format!(" [{id}]");
    }
    clean(&line)
}

fn quoted_line(claim: &Claim) -> String {
    format!("quoted, not checked by code: {}", clean(&claim.text))
}

fn image_line(claim: &Claim) -> String {
    let pages: Vec<&str> = claim
        .by_sight
        .iter()
        .map(|page| page.locator.as_str())
        .collect();
    let pages = clean(&pages.join(", "));
    let text = clean(&claim.text);
    format!("read from an image, not verified: {text} ({pages})")
}

fn unverified_line(claim: &Claim) -> String {
    let why = match (claim.citations.is_empty(), &claim.reason) {
        (true, None) => "no citation",
        (_, Some(reason)) => reason,
        (false, None) => "its quotes do not support it",
    };
    format!("not verified: {} ({})", clean(&claim.text), clean(why))
}

// `[1] ✓ 3M_2022_10K p 60 (printed 60) · Item 8 › Cash Flows · "(1,749)"`.
fn citation(citation: &Citation, output: &Output) -> String {
    let mark = match citation.verified {
        QuoteMatch::Exact | QuoteMatch::Normalized => "✓",
        QuoteMatch::Number => "≈",
        QuoteMatch::None => "✗",
    };
    let name = citation.locator.split('#').next().unwrap_or(&citation.name);
    let place = match (citation.page, citation.line) {
        (Some(page), _) => format!("p {page}"),
        (None, Some(line)) => format!("line {line}"),
        _ => String::new(),
    };
    let label = printed_label(citation.page_label.as_deref());
    let quote: String = citation.quote.chars().take(QUOTE_CHARS).collect();
    let is_cut = quote.len() < citation.quote.len();
    let more = if is_cut { "…" } else { "" };
    let ocr = citation.ocr_confidence;
    let ocr = ocr.map(|confidence| format!(" · read by OCR, {confidence} % sure"));
    format!(
        "[{}] {mark} {} {place}{label} · {} · \"{}{more}\"{}",
        citation.id,
        output.bold(&clean(name)),
        short_section_path(&citation.path),
        clean(&quote),
        ocr.unwrap_or_default()
    )
}

// `3M_2022_10K#0019  Item 8 › Cash Flows  p 58, 60  1,200 tok`.
fn place(section: &ReadSection, output: &Output) -> String {
    let pages: Vec<String> = section.pages.iter().map(u32::to_string).collect();
    let place = match (section.pages.is_empty(), section.lines) {
        (false, _) => format!("p {}", pages.join(", ")),
        (true, Some((first, last))) => format!("lines {first}–{last}"),
        _ => String::new(),
    };
    let locator = output.bold(&clean(&section.locator));
    format!("{locator}  {}  {place}", short_section_path(&section.path))
}

/// Prints the steps of an answer.
pub fn path(answer: &Answer, output: &Output) {
    for (index, step) in answer.steps.iter().enumerate() {
        let kind = match step.kind {
            StepKind::Plan => "plan",
            StepKind::Search => "search",
            StepKind::Read => "read",
            StepKind::Tool => "tool",
            StepKind::Refused => "refused",
            StepKind::Ask => "ask",
            StepKind::Check => "check",
            StepKind::Degrade => "without",
        };
        output.line(&format!("{kind:>8}  {}", clean(&step.what)));
        for line in step.thinking.lines() {
            output.line(&output.dim(&format!("          {}", clean(line))));
        }
        for section in answer
            .sections
            .iter()
            .filter(|section| section.step == index)
        {
            let cited = match answer.outcome {
                AnswerOutcome::SearchOnly => "found",
                _ if section.cited => "cited",
                _ => "not used",
            };
            let place = place(section, output);
            let tokens = section.tokens;
            let why = clean(&section.why);
            let line = format!("          {place} · {tokens} tok · {cited} · {why}");
            output.line(&output.dim(&line));
        }
    }
    let dropped = answer.rejected;
    let left_out =
        dropped.unknown_passages + dropped.empty_quotes + dropped.unverified + dropped.tool_calls;
    if left_out > 0 {
        output.line(&format!(
            " dropped  {} of unknown passages · {} without a quote, or duplicate · {} not on their page · {} tool calls refused",
            dropped.unknown_passages, dropped.empty_quotes, dropped.unverified, dropped.tool_calls
        ));
    }
}

/// The pages that were put before the model.
pub async fn context(
    answer: &Answer,
    reader: &Archive,
    output: &Output,
) -> Result<(), CommandError> {
    for section in &answer.sections {
        let path = short_section_path(&section.path);
        output.line(&output.bold(&format!("── {} · {path}", clean(&section.locator))));
        let document = section.locator.split('#').next().unwrap_or_default();
        let pages: Vec<String> = section.pages.iter().map(u32::to_string).collect();
        let locator = match pages.is_empty() {
            true => section.locator.clone(),
            false => format!("{document}#p={}", pages.join(",")),
        };
        let read = reader.text(&locator, TextScope::Full).await?;
        for page in &read.pages {
            output.line(&output.dim(&format!("[page {}]", page.page)));
            page.text.lines().for_each(|line| output.line(&clean(line)));
        }
        let text = read.text.iter().flat_map(|text| text.lines());
        text.for_each(|line| output.line(&clean(line)));
    }
    Ok(())
}

/// `answer a-91c… · confidence 0.93 · 3 sections read · 4 calls · $0.004`.
pub fn footer(answer: &Answer, explained: bool) -> String {
    let searched = &answer.searched;
    let mut parts = vec![format!("answer {}", answer.id)];
    let confidence = answer.confidence;
    parts.extend(confidence.map(|confidence| format!("confidence {confidence:.2}")));
    let read = counted(answer.sections.len(), "section");
    parts.push(format!("{read} read"));
    let documents = searched.documents;
    let all = searched.documents_in_scope;
    parts.push(format!("{documents} of {all} documents searched"));
    let unreadable = searched.documents_unreadable as u64;
    parts.extend(counts([(unreadable, "could not be read")]));
    if answer.outcome == AnswerOutcome::Answered {
        let missing = searched.known_missing_terms().iter();
        parts.extend(missing.map(|missing| clean(&missing.to_string())));
    }
    if !answer.pictures.is_empty() {
        let seen = counted(answer.pictures.len(), "picture");
        parts.push(format!("{seen} seen"));
    }
    match (answer.is_replay, answer.usage.calls) {
        (true, _) => parts.push("stored answer, 0 calls".into()),
        (false, 0) if answer.model.is_some() => parts.push("cached replies, 0 calls".into()),
        (false, 0) => parts.push("no model".into()),
        (false, calls) => parts.push(counted(calls, "call")),
    }
    if answer.mode == AnswerMode::Agent {
        parts.push("by the agent".into());
    }
    let paid = answer.usage.nanodollars;
    let paid = paid.filter(|_| !answer.is_replay && answer.usage.calls > 0);
    parts.extend(paid.map(money_from_nanos));
    if !explained {
        parts.push("--explain shows the steps".into());
    }
    parts.join(" · ")
}
