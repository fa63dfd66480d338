//! Checks a claim: its quotes, its figures, and what its statement says outside of them.

use stemma_reading::tables::FigureTable;

use super::bind::bind_copied;
use super::claim::{BoundFigure, ClaimState, StatedClaim, StatedFigure, VerifiedClaim};
use super::computed::bind_computed;
use super::direction::{check_directions, direction_of};
use super::evidence::Evidence;
use super::formula::Formula;
use super::labels::check_labels;
use super::meaning::check_meaning;
use super::statement::Statement;
use super::template::{FilledText, Template, is_name};

// A reply is untrusted input, and the work grows with the number of figures.
const MAX_FIGURES: usize = 60;

/// Checks a claim against what it cites: `evidence` has one entry for each citation, `None` where there is no such passage. `earlier` are
/// the figures of earlier claims of the answer, which formulas and placeholders may use.
pub fn verify_claim(
    claim: &StatedClaim,
    evidence: &[Option<Evidence<'_>>],
    earlier: &[BoundFigure],
) -> VerifiedClaim {
    let template = Template::new(&claim.statement);
    let (own, bound) = bind_figures(claim, evidence, earlier, &template.bare());
    let find = |name: &str| {
        let own = own.iter().find(|figure| figure.name == name);
        own.or_else(|| earlier.iter().rfind(|figure| figure.name == name))
    };
    let filled = template.fill(&find);
    let placed = filled.figures.iter().chain(&filled.periods);
    let used = own.iter().chain(placed.map(|placed| placed.figure));
    let used = used.filter(|figure| figure.is_found);
    let is_computed = used.clone().any(BoundFigure::is_computed);
    let checked = check_quotes(evidence)
        .and(bound)
        .and(filled.problem.clone().map_or(Ok(()), Err))
        .and_then(|()| check_statement(&filled, evidence, &find))
        .and(match is_computed || !evidence.is_empty() {
            true => Ok(()),
            false => Err("it cites nothing".into()),
        });
    let state = match checked {
        Err(_) => ClaimState::Unverified,
        Ok(()) if is_computed => ClaimState::Computed,
        Ok(()) if used.count() == 0 => ClaimState::Quoted,
        Ok(()) => ClaimState::Verified,
    };
    VerifiedClaim {
        state,
        earlier: earlier_names(claim, &template, earlier),
        text: filled.text,
        figures: own,
        reason: checked.err(),
    }
}

// Of a figure that two readers of a scan read differently, nobody knows which is right.
fn check_quotes(evidence: &[Option<Evidence<'_>>]) -> Result<(), String> {
    for cited in evidence {
        let Some(cited) = cited else {
            return Err("it cites a passage that was not shown".into());
        };
        if !cited.quote.matched.is_verbatim() {
            let quote = &cited.quote.quote;
            return Err(format!("\"{quote}\" is not on the cited page"));
        }
        if let Some(disputed) = &cited.quote.disputed {
            let text = &disputed.text;
            return Err(match disputed.other.as_str() {
                "" => format!("text recognition read `{text}`, and a second reader nothing"),
                other => format!("text recognition read `{text}`, and a second reader `{other}`"),
            });
        }
    }
    Ok(())
}

// The figures of a claim in order, and why the first one that was not found was not.
fn bind_figures(
    claim: &StatedClaim,
    evidence: &[Option<Evidence<'_>>],
    earlier: &[BoundFigure],
    bare: &str,
) -> (Vec<BoundFigure>, Result<(), String>) {
    let stated = claim.figures.get(..MAX_FIGURES).unwrap_or(&claim.figures);
    let (open, copied): (Vec<usize>, Vec<usize>) =
        (0..stated.len()).partition(|at| !stated[*at].formula.trim().is_empty());
    let order = [copied, open.clone()].concat();
    let mut results: Vec<Result<BoundFigure, String>> = stated
        .iter()
        .map(|figure| bind_copied(figure, evidence, bare))
        .collect();
    for at in &open {
        results[*at] = Err(String::new());
    }
    let direction = direction_of(bare);
    // A formula may use the results of others.
    for at in open.iter().cycle().take(open.len() * open.len()) {
        if results[*at].is_ok() {
            continue;
        }
        results[*at] = bind_computed(
            &stated[*at],
            &|name| {
                let own = results.iter().flatten();
                let earlier = earlier.iter().filter(|figure| figure.is_found);
                let mut known = own.chain(earlier.rev());
                known.find(|figure| figure.name == name)
            },
            direction,
        );
    }
    let too_many = (stated.len() < claim.figures.len()).then(|| "it has too many figures".into());
    let reason = too_many.or_else(|| wrong_name(claim, earlier)).or_else(|| {
        let mut errors = order.iter().filter_map(|at| results[*at].clone().err());
        errors.next()
    });
    let figures = stated.iter().zip(results);
    let figures = figures.map(|(stated, result)| match result {
        Ok(bound) => bound,
        Err(_) => BoundFigure::not_found(stated),
    });
    (figures.collect(), reason.map_or(Ok(()), Err))
}

fn wrong_name(claim: &StatedClaim, earlier: &[BoundFigure]) -> Option<String> {
    let mut taken: Vec<&str> = earlier.iter().map(|figure| figure.name.as_str()).collect();
    for StatedFigure { name, .. } in &claim.figures {
        if !is_name(name) || taken.contains(&name.as_str()) {
            return Some(format!("`{name}` is not the name of one figure"));
        }
        taken.push(name);
    }
    None
}

fn check_statement<'k>(
    filled: &FilledText<'k>,
    evidence: &[Option<Evidence<'_>>],
    find: &dyn Fn(&str) -> Option<&'k BoundFigure>,
) -> Result<(), String> {
    let cited: Vec<&Evidence<'_>> = evidence.iter().flatten().collect();
    Statement::new(filled, &cited).check()?;
    let figures = || filled.figures.iter().map(|placed| placed.figure);
    let tables = cited.iter().flat_map(|one| &one.tables).copied();
    let tables: Vec<&FigureTable> = tables
        .filter(|table| {
            let mut cells = figures().flat_map(|figure| &figure.cells);
            cells.any(|cell| cell.is_in(table))
        })
        .collect();
    check_labels(filled, &tables)?;
    for figure in figures().filter(|figure| figure.is_computed()) {
        let formula = Formula::parse(&figure.formula)?;
        let inputs: Vec<&BoundFigure> = formula.names().into_iter().filter_map(find).collect();
        check_meaning(&filled.bare, figure, &inputs)?;
    }
    check_directions(filled)
}

// Names of figures of earlier claims that the statement and the formulas of a claim use.
fn earlier_names(
    claim: &StatedClaim,
    template: &Template<'_>,
    earlier: &[BoundFigure],
) -> Vec<String> {
    let formulas = claim.figures.iter().map(|figure| figure.formula.as_str());
    let formulas: Vec<Formula<'_>> = formulas.flat_map(Formula::parse).collect();
    let used = formulas.iter().flat_map(Formula::names);
    let used: Vec<&str> = used.chain(template.names()).collect();
    let names = earlier.iter().map(|figure| &figure.name);
    names
        .filter(|name| used.contains(&name.as_str()))
        .cloned()
        .collect()
}
