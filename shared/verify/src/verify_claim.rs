//! Checks a claim: its quotes, its figures, and what its statement says outside of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use stemma_reading::text_words::blank;

use super::bind::bind_copied;
use super::claim::{BoundFigure, ClaimState, StatedClaim, StatedFigure, VerifiedClaim};
use super::computed::bind_computed;
use super::direction::{check_directions, direction_of};
use super::evidence::Evidence;
use super::formula::Formula;
use super::labels::Labels;
use super::meaning::NamedResult;
use super::statement::Statement;
use super::template::{FilledText, Part, Template, is_name, shown};

// A reply is untrusted input, and the work grows with the number of figures.
const MAX_FIGURES: usize = 60;

/// Checks a claim against what it cites: `evidence` has one entry for each citation, `None` where there is no such passage. `known` are
/// figures of earlier claims, which formulas and placeholders may use.
pub fn verify_claim(
    claim: &StatedClaim,
    evidence: &[Option<Evidence<'_>>],
    known: &[BoundFigure],
) -> VerifiedClaim {
    let template = match Template::parse(&claim.statement) {
        Ok(template) if claim.figures.len() <= MAX_FIGURES => template,
        Ok(_) => return unreadable(claim, "the claim has too many figures".into()),
        Err(reason) => return unreadable(claim, reason),
    };
    let mut figures = ClaimFigures::new(known);
    figures.bind(claim, evidence, &template);
    let filled = template.fill(&|part| figures.show(part, claim));
    let reason = check_quotes(evidence)
        .or(figures.reason.take())
        .or_else(|| figures.check_names(&template, claim))
        .or_else(|| figures.check_statement(&filled, evidence).err());
    let uses = |is_computed: bool| {
        let mut all = claim.figures.iter().map(|figure| figure.name.as_str());
        let mut named = template.names();
        let is_such = |name: &str| {
            let found = figures.find(name);
            found.is_some_and(|figure| figure.is_computed() == is_computed)
        };
        all.any(is_such) || named.any(is_such)
    };
    let state = match reason {
        Some(_) => ClaimState::Unverified,
        None if uses(true) => ClaimState::Computed,
        None if uses(false) => ClaimState::Verified,
        None => ClaimState::Quoted,
    };
    let has_source = !evidence.is_empty() || matches!(state, ClaimState::Computed);
    VerifiedClaim {
        state: if has_source {
            state
        } else {
            ClaimState::Unverified
        },
        text: filled.text,
        reason: reason.or_else(|| (!has_source).then(|| "it cites nothing".to_owned())),
        figures: figures.in_order(claim),
    }
}

fn unreadable(claim: &StatedClaim, reason: String) -> VerifiedClaim {
    VerifiedClaim {
        state: ClaimState::Unverified,
        text: claim.statement.clone(),
        figures: Vec::new(),
        reason: Some(reason),
    }
}

// Of a figure that two readers of a scan read differently, nobody knows which is right.
fn check_quotes(evidence: &[Option<Evidence<'_>>]) -> Option<String> {
    for cited in evidence {
        let Some(cited) = cited else {
            return Some("it cites a passage that was not shown".to_owned());
        };
        if !cited.quote.matched.is_verbatim() {
            return Some(format!(
                "\"{}\" is not on the cited page",
                cited.quote.quote
            ));
        }
        if let Some(disputed) = &cited.quote.disputed {
            let text = &disputed.text;
            return Some(match disputed.other.as_str() {
                "" => format!("text recognition read `{text}`, and a second reader nothing"),
                other => format!("text recognition read `{text}`, and a second reader `{other}`"),
            });
        }
    }
    None
}

/// The figures of a claim by name, with those of earlier claims.
struct ClaimFigures<'k> {
    known: &'k [BoundFigure],
    own: BTreeMap<String, BoundFigure>,
    /// Why the first one that was not found was not.
    reason: Option<String>,
}

impl<'k> ClaimFigures<'k> {
    fn new(known: &'k [BoundFigure]) -> Self {
        Self {
            known,
            own: BTreeMap::new(),
            reason: None,
        }
    }

    fn find(&self, name: &str) -> Option<&BoundFigure> {
        let known = || self.known.iter().rfind(|figure| figure.name == name);
        self.own.get(name).or_else(known)
    }

    fn bind(
        &mut self,
        claim: &StatedClaim,
        evidence: &[Option<Evidence<'_>>],
        template: &Template,
    ) {
        let bare = template.bare();
        let mut names: Vec<&str> = Vec::new();
        for figure in &claim.figures {
            if !is_name(&figure.name) || names.contains(&figure.name.as_str()) {
                let reason = format!("`{}` is not the name of one figure", figure.name);
                self.reason.get_or_insert(reason);
            }
            names.push(&figure.name);
        }
        let (copied, mut open): (Vec<&StatedFigure>, Vec<&StatedFigure>) = claim
            .figures
            .iter()
            .partition(|figure| figure.formula.trim().is_empty());
        for figure in copied {
            self.keep(figure, bind_copied(figure, evidence, &bare));
        }
        let direction = direction_of(&bare);
        // A formula may use the results of others.
        while !open.is_empty() {
            let results: Vec<_> = open
                .iter()
                .map(|figure| (*figure, self.compute(figure, direction)))
                .collect();
            let count = open.len();
            let is_last = results.iter().all(|(_, result)| result.is_err());
            open.clear();
            for (figure, result) in results {
                match result {
                    Err(_) if !is_last => open.push(figure),
                    result => self.keep(figure, result),
                }
            }
            if open.len() == count {
                break;
            }
        }
    }

    fn compute(
        &self,
        figure: &StatedFigure,
        direction: Option<Ordering>,
    ) -> Result<BoundFigure, String> {
        bind_computed(
            figure,
            &|name| self.find(name).filter(|_| name != figure.name),
            direction,
        )
    }

    fn keep(&mut self, figure: &StatedFigure, result: Result<BoundFigure, String>) {
        match result {
            Ok(bound) => {
                self.own.insert(figure.name.clone(), bound);
            }
            Err(reason) => {
                self.reason.get_or_insert(reason);
            }
        }
    }

    // A figure that was not found is shown as stated, and a period by the head of its column.
    fn show(&self, part: &Part, claim: &StatedClaim) -> String {
        let stated = |name: &str| claim.figures.iter().find(|figure| figure.name == name);
        shown(part, &|name| self.find(name)).unwrap_or_else(|| match part {
            Part::Text(text) => text.clone(),
            Part::Figure(name) => stated(name).map_or_else(
                || name.clone(),
                |figure| {
                    format!("{} {}", figure.value, figure.unit)
                        .trim()
                        .to_owned()
                },
            ),
            Part::Period(name) => {
                stated(name).map_or_else(|| name.clone(), |figure| figure.column.clone())
            }
        })
    }

    // Whether each placeholder has its figure, and its period.
    fn check_names(&self, template: &Template, claim: &StatedClaim) -> Option<String> {
        let missing = template
            .parts
            .iter()
            .find(|part| shown(part, &|name| self.find(name)).is_none())?;
        Some(match missing {
            Part::Period(name) if self.find(name).is_some() => {
                format!(
                    "the period of {} is not known",
                    self.show(&Part::Figure(name.clone()), claim)
                )
            }
            Part::Text(name) | Part::Figure(name) | Part::Period(name) => {
                format!("`{name}` is not a figure of the answer")
            }
        })
    }

    fn check_statement(
        &self,
        filled: &FilledText,
        evidence: &[Option<Evidence<'_>>],
    ) -> Result<(), String> {
        let cited: Vec<&Evidence<'_>> = evidence.iter().flatten().collect();
        let find = |name: &str| self.find(name);
        let statement = Statement::new(filled, &cited, &find);
        statement.check_digits()?;
        statement.check_periods()?;
        statement.check_companies()?;
        self.check_labels(filled, evidence)?;
        self.check_meaning(filled)?;
        check_directions(filled, &find)
    }

    fn check_meaning(&self, filled: &FilledText) -> Result<(), String> {
        let placeholders = filled.figures.iter().chain(&filled.periods);
        let statement = blank(&filled.text, placeholders.map(|(at, _)| at));
        let computed = filled
            .figures
            .iter()
            .filter_map(|(_, name)| self.find(name))
            .filter(|figure| figure.is_computed());
        for figure in computed {
            let formula = Formula::parse(&figure.formula).map_err(|error| error.to_string())?;
            let inputs = formula
                .names()
                .into_iter()
                .filter_map(|name| self.find(name));
            let named = NamedResult {
                statement: &statement,
                figure,
                inputs: inputs.collect(),
            };
            named.check()?;
        }
        Ok(())
    }

    fn check_labels(
        &self,
        filled: &FilledText,
        evidence: &[Option<Evidence<'_>>],
    ) -> Result<(), String> {
        let figures = filled.figures.iter().map(|(_, name)| self.find(name));
        let labels = Labels::new(filled, figures.collect());
        for (index, (_, name)) in filled.figures.iter().enumerate() {
            // Figures of earlier claims have other evidence.
            let Some(figure) = self.own.get(name) else {
                continue;
            };
            let cited = figure.citation.and_then(|at| evidence.get(at)?.as_ref());
            let Some((cited, cell)) = cited.zip(figure.cells.first()) else {
                continue;
            };
            let mut tables = cited.tables.iter();
            let table = tables.find(|table| cell.table.ends_with(&format!("#{}", table.id)));
            if let Some(table) = table {
                labels.check(index, table)?;
            }
        }
        let used = filled
            .figures
            .iter()
            .filter_map(|(_, name)| self.find(name));
        let used: Vec<&str> = used
            .flat_map(|figure| figure.cells.iter().map(|cell| cell.table.as_str()))
            .collect();
        for table in evidence.iter().flatten().flat_map(|cited| &cited.tables) {
            let id = format!("#{}", table.id);
            if used.iter().any(|used| used.ends_with(&id)) {
                labels.check_rows(table)?;
            }
        }
        Ok(())
    }

    fn in_order(mut self, claim: &StatedClaim) -> Vec<BoundFigure> {
        let names = claim.figures.iter();
        names
            .filter_map(|figure| self.own.remove(&figure.name))
            .collect()
    }
}
