//! Which claims a final answer rests on, and whether they have its figures.

use stemma_verify::{BoundFigure, ClaimState, fill_placeholders, placeholder_names};

use super::answer::{Claim, FinalAnswer};

/// The final answer with its figures printed as the pages have them, and the claims that it rests on: those with its figures, or
/// all for a judgement and for an answer in words. It is verified if it gives figures, and all of them are: no code can tell whether "Yes"
/// follows from claims.
pub(super) fn bind_final_answer(
    stated: FinalAnswer,
    claims: &[Claim],
    figures: &[BoundFigure],
) -> FinalAnswer {
    let names = placeholder_names(&stated.value);
    let has = |claim: &Claim, name: &String| claim.figures.iter().any(|one| one.name == *name);
    let is_judgement = names.is_empty() || !stated.criterion.is_empty();
    let rests_on: Vec<&Claim> = claims
        .iter()
        .filter(|claim| is_judgement || names.iter().any(|name| has(claim, name)))
        .collect();
    let is_proven =
        |claim: &&Claim| matches!(claim.state, ClaimState::Verified | ClaimState::Computed);
    let texts = [&stated.value, &stated.period].map(|text| fill_placeholders(text, figures));
    let verified = !names.is_empty()
        && texts.iter().all(Result::is_ok)
        && !rests_on.is_empty()
        && rests_on.iter().all(is_proven);
    let [value, period] = texts;
    FinalAnswer {
        verified,
        claims: rests_on.iter().map(|claim| claim.id.clone()).collect(),
        value: value.unwrap_or_else(|_| as_stated(&stated.value, claims)),
        period: period.unwrap_or_else(|_| as_stated(&stated.period, claims)),
        criterion: stated.criterion,
    }
}

// A text with figures of which one was not found.
fn as_stated(text: &str, claims: &[Claim]) -> String {
    let mut shown = text.to_owned();
    for figure in claims.iter().flat_map(|claim| &claim.figures) {
        shown = shown
            .replace(&format!("{{{}}}", figure.name), &figure.text)
            .replace(&format!("{{{}.period}}", figure.name), &figure.column);
    }
    shown
}
