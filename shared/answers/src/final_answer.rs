//! Which claims a final answer rests on, and whether they have its figures.

use stemma_verify::{BoundFigure, ClaimState, print_figures};

use super::answer::{Claim, FinalAnswer};

/// The final answer with its figures printed as the pages have them, and the claims that it rests on: those with its figures, or
/// all for a judgement and for an answer in words. It is verified if it gives figures, and all of them are: no code can tell whether "Yes"
/// follows from claims.
pub(super) fn bind_final_answer(
    stated: FinalAnswer,
    claims: &[Claim],
    figures: &[BoundFigure],
) -> FinalAnswer {
    let value = print_figures(&stated.value, figures);
    let period = print_figures(&stated.period, figures);
    let has = |claim: &Claim, name: &String| claim.figures.iter().any(|one| one.name == *name);
    let is_judgement = value.names.is_empty() || !stated.criterion.is_empty();
    // Later claims list a figure that they compute with: the first one states it.
    let owners: Vec<usize> = value
        .names
        .iter()
        .filter_map(|name| claims.iter().position(|claim| has(claim, name)))
        .collect();
    let rests_on: Vec<&Claim> = claims
        .iter()
        .enumerate()
        .filter(|(at, _)| is_judgement || owners.contains(at))
        .map(|(_, claim)| claim)
        .collect();
    let is_proven =
        |claim: &&Claim| matches!(claim.state, ClaimState::Verified | ClaimState::Computed);
    let is_bound = value.problem.is_none() && period.problem.is_none();
    FinalAnswer {
        verified: !value.names.is_empty()
            && is_bound
            && !rests_on.is_empty()
            && rests_on.iter().all(is_proven),
        claims: rests_on.iter().map(|claim| claim.id.clone()).collect(),
        value: value.text,
        period: period.text,
        criterion: stated.criterion,
    }
}
