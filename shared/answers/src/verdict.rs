//! Decides whether a claim is shown as verified: its quotes are on their pages, its figures are those of the cited cells or come out of its computation,
//! and its words are those of its quotes.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use rust_decimal::Decimal;
use stemma_reading::numbers::{NumberMention, NumberRole, numbers};
use stemma_reading::period::period_mentions;
use stemma_reading::tables::page::Cell;

use super::claims::CheckedCitation;
use super::computation::{Computed, check_computation};
use super::draft_answer::DraftClaim;
use super::figures::{CitedText, FigureCheck, check_figure};
use super::polarity::direction_of;
use super::row_names::RowNames;
use super::statement::Statement;
use super::tagged_facts::{DeclaredCheck, check_declared, foreign_company};
use super::terms::{Terms, phrase};
use super::verify_claim::{ClaimEvidence, is_supported, is_supported_computation};

#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) verified: bool,
    /// Numbers that are in no quote.
    pub(super) unsupported: Vec<String>,
    /// Why it is not verified, when more can be said.
    pub(super) reason: Option<String>,
    /// What the formula gives, in the units of the result.
    pub(super) computed: Option<Decimal>,
}

/// `positions`: for each citation of the draft its place in `cited`.
pub(super) fn judge_claim(
    text: &str,
    draft: &DraftClaim,
    cited: &[CheckedCitation<'_>],
    positions: &[Option<usize>],
) -> Verdict {
    let statement = Statement::new(text);
    let mut verdict = Verdict {
        unsupported: unknown_labels(&statement, cited),
        ..Verdict::default()
    };
    let statement = statement.in_fiscal_years(year_shift(cited));
    let computed = draft.computation.as_ref().map(|computation| {
        let texts: Vec<Option<&CitedText<'_>>> = positions
            .iter()
            .map(|at| cited.get((*at)?)?.text.as_ref())
            .collect();
        check_computation(computation, &statement, &texts)
    });
    let (result, failed) = match computed {
        Some(Ok(computed)) => (Some(computed), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    verdict.computed = result.as_ref().map(|computed| computed.value);
    let cells = verdict.check_figures(&statement, result.as_ref(), cited);
    // Whatever else is wrong with a figure may come from reading it wrongly.
    let disputed = cited.iter().find_map(is_disputed);
    verdict.reason = disputed.or(failed).or(verdict.reason.take());
    if verdict.reason.is_none() && result.is_none() {
        verdict.reason = contradicts_direction(&statement, &cells, cited).err();
    }
    let mut texts = cited.iter().filter_map(|one| one.text.as_ref());
    if texts.any(|text| text.is_too_long) {
        let reason = "a cited sentence is too long to be read".to_owned();
        verdict.reason.get_or_insert(reason);
    }
    let is_quoted =
        !cited.is_empty() && cited.iter().all(|one| one.citation.verified.is_verbatim());
    let evidence = claim_evidence(cited, &cells);
    let has_words = match result {
        Some(_) => is_supported_computation(text, &measure_words(text), &evidence),
        None => {
            let figures = numbers(text)
                .iter()
                .any(|number| number.role == NumberRole::Amount);
            is_supported(text, figures, &evidence)
        }
    };
    verdict.verified =
        is_quoted && verdict.unsupported.is_empty() && verdict.reason.is_none() && has_words;
    if let Some(name) = names_other_company(text, cited).filter(|_| verdict.verified) {
        verdict.verified = false;
        verdict.reason = Some(format!("it names {name}, which the cited filing does not"));
    }
    verdict
}

// Of a figure that two readers of a scan read differently, nobody knows which is right.
fn is_disputed(cited: &CheckedCitation<'_>) -> Option<String> {
    let disputed = cited.disputed.as_ref()?;
    let text = &disputed.text;
    Some(match disputed.other.as_str() {
        "" => format!("text recognition read `{text}`, and a second reader nothing"),
        other => format!("text recognition read `{text}`, and a second reader `{other}`"),
    })
}

// A company that neither a cited filing nor what is cited names.
fn names_other_company<'t>(text: &'t str, cited: &[CheckedCitation<'_>]) -> Option<&'t str> {
    let quoted: Vec<&str> = cited.iter().flat_map(CheckedCitation::cited_text).collect();
    let quoted = quoted.join("\n");
    cited.iter().find_map(|one| {
        let around = format!("{quoted}\n{}", one.page_text);
        foreign_company(text, one.declared.as_ref()?.table, &around)
    })
}

// That of the documents, where they agree.
fn year_shift(cited: &[CheckedCitation<'_>]) -> i32 {
    let mut shifts = cited
        .iter()
        .filter_map(|one| one.text.as_ref())
        .map(|text| text.year_shift);
    let first = shifts.next().unwrap_or_default();
    match shifts.all(|shift| shift == first) {
        true => first,
        false => 0,
    }
}

impl Verdict {
    // Looks up each figure that is not the computed one; returns the cells of those in tables.
    fn check_figures(
        &mut self,
        statement: &Statement<'_>,
        computed: Option<&Computed>,
        cited: &[CheckedCitation<'_>],
    ) -> Vec<Cell> {
        let texts: Vec<&CitedText<'_>> = cited.iter().filter_map(|one| one.text.as_ref()).collect();
        let mut cells = Vec::new();
        for (at, figure) in statement.figures.iter().enumerate() {
            let is_result = computed.is_some_and(|computed| computed.explains(figure));
            if is_result {
                continue;
            }
            if let Some(reason) = contradicts_declaration(statement, at, cited) {
                self.reason.get_or_insert(reason);
            }
            match check_figure(statement, at, &texts) {
                FigureCheck::Cell(cell) => cells.push(*cell),
                FigureCheck::Prose => {}
                FigureCheck::Differs(reason) => {
                    self.reason.get_or_insert(reason);
                }
                FigureCheck::NotFound if self.unsupported.contains(&figure.text) => {}
                FigureCheck::NotFound => self.unsupported.push(figure.text.clone()),
            }
        }
        cells
    }
}

// What a figure is declared as, if the facts of the quoted lines have it and say something else than the statement.
fn contradicts_declaration(
    statement: &Statement<'_>,
    figure: usize,
    cited: &[CheckedCitation<'_>],
) -> Option<String> {
    let declared = cited.iter().filter_map(|one| one.declared.as_ref());
    let mut differs = None;
    for check in declared.map(|facts| check_declared(statement, figure, facts)) {
        match check {
            DeclaredCheck::Confirmed => return None,
            DeclaredCheck::Differs(reason) | DeclaredCheck::Undecided(reason) => {
                differs.get_or_insert(reason);
            }
            DeclaredCheck::Unknown => {}
        }
    }
    differs
}

// Where a statement says that a figure rose or fell, the cells of its row must, too.
fn contradicts_direction(
    statement: &Statement<'_>,
    cells: &[Cell],
    cited: &[CheckedCitation<'_>],
) -> Result<(), String> {
    let labels: Vec<&str> = cells.iter().map(|cell| cell.label.as_str()).collect();
    let rest = RowNames::new(statement.text, &labels).rest();
    let (Some(stated), Some(first)) = (direction_of(&rest), cells.first()) else {
        return Ok(());
    };
    let value = |cell: &Cell| cell.number.as_ref().and_then(NumberMention::signed_value);
    let is_percent = |cell: &Cell| cell.number.as_ref().is_some_and(NumberMention::is_percent);
    let pages = cited.iter().filter_map(|one| one.text.as_ref());
    let row = pages
        .flat_map(|text| {
            text.cells
                .iter()
                .map(move |(target, cell)| (text, *target, cell))
        })
        .find(|(_, _, cell)| cell.line == first.line && cell.label == first.label)
        .map(|(text, target, cell)| text.pages[target].cells(cell.line))
        .unwrap_or_default();
    let others = match cells {
        [_, others @ ..] if others.iter().any(|other| other.label == first.label) => others,
        _ => &row[..],
    };
    let compared = others.iter().filter(|other| {
        other.label == first.label
            && other.period.order() != first.period.order()
            && other.period.year.is_some()
            && first.period.year.is_some()
            && other.period.length == first.period.length
            && is_percent(other) == is_percent(first)
    });
    let before = compared.max_by_key(|other| other.period.order());
    let Some((other, here)) =
        before.and_then(|other| Some((value(other)?, value(first)?)).map(|_| (other, first)))
    else {
        return Ok(());
    };
    let (earlier, later) = if other.period.order() < here.period.order() {
        (other, here)
    } else {
        (here, other)
    };
    // What flows out is printed as negative.
    let size = |cell: &Cell| value(cell).map(|value| value.abs());
    let actual = match (value(earlier), value(later)) {
        (Some(one), Some(two)) if one.is_sign_negative() && two.is_sign_negative() => {
            size(later).cmp(&size(earlier))
        }
        (one, two) => two.cmp(&one),
    };
    match actual == stated {
        true => Ok(()),
        false => Err(format!(
            "{} is not {} than {}",
            later.text,
            if stated == Ordering::Greater {
                "more"
            } else {
                "less"
            },
            earlier.text
        )),
    }
}

fn measure_words(text: &str) -> BTreeSet<String> {
    let words = phrase(text);
    let measures = Terms::get().measures(&words);
    measures
        .iter()
        .flat_map(|(measure, _)| measure.words().cloned())
        .collect()
}

// Years, days, notes and Items may also be on the page, in the section path, or in the description of the document.
fn unknown_labels(statement: &Statement<'_>, cited: &[CheckedCitation<'_>]) -> Vec<String> {
    let around: Vec<String> = cited
        .iter()
        .map(|one| {
            let before = one.text.as_ref().map_or("", |text| &text.text_before);
            format!("{before}\n{}\n{}", one.page_text, one.location)
        })
        .collect();
    let around = around.join("\n");
    let names: BTreeSet<String> = around
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    let mut unknown: Vec<String> = Vec::new();
    // A year may be written as part of a name: `FY2024`, `3Q24`.
    let years: BTreeSet<i32> = period_mentions(&around)
        .iter()
        .filter_map(|mention| mention.period.year)
        .collect();
    for mention in &statement.periods {
        let is_known = mention
            .period
            .year
            .is_none_or(|year| years.contains(&year) || names.contains(year.to_string().as_str()));
        let text = statement.text.get(mention.at.clone()).unwrap_or_default();
        if !is_known && !unknown.iter().any(|one| one == text) {
            unknown.push(text.to_owned());
        }
    }
    for number in numbers(statement.text)
        .into_iter()
        .filter(NumberMention::is_label)
    {
        let is_known = number.spellings().iter().any(|name| names.contains(name));
        if !is_known && !unknown.contains(&number.text) {
            unknown.push(number.text);
        }
    }
    unknown
}

// Only quotes that were found count as evidence. Lines and heads around a cell belong to its row.
fn claim_evidence(cited: &[CheckedCitation<'_>], cells: &[Cell]) -> ClaimEvidence {
    let verbatim: Vec<&CheckedCitation<'_>> = cited
        .iter()
        .filter(|one| one.citation.verified.is_verbatim())
        .collect();
    let mut lines: Vec<String> = verbatim.iter().map(|one| one.lines.clone()).collect();
    for text in verbatim.iter().filter_map(|one| one.text.as_ref()) {
        for (target, cell) in &text.cells {
            let label = text.pages[*target].row_label(cell.line);
            lines.extend(label.above);
            lines.extend([label.below, label.group, cell.head.clone()]);
        }
    }
    let locations: Vec<&str> = verbatim.iter().map(|one| one.location.as_str()).collect();
    let texts = verbatim.iter().filter_map(|one| one.text.as_ref());
    let clauses: Vec<&str> = texts.map(|text| text.clauses.as_str()).collect();
    ClaimEvidence {
        clauses: clauses.join("\n"),
        quotes: verbatim
            .iter()
            .map(|one| one.citation.quote.clone())
            .collect(),
        lines: lines.join("\n"),
        labels: cells.iter().map(|cell| cell.label.clone()).collect(),
        location: locations.join("\n"),
    }
}
