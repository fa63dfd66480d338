//! Operands of computed claims: the cell or sentence that has each as the model says.

use rust_decimal::Decimal;
use stemma_reading::numbers::{NumberMention, numbers};
use stemma_reading::period::{StatedPeriod, head_period};
use stemma_reading::tables::page::{Cell, RowLabel, TablePage};
use stemma_reading::text_words::{without_parentheses, words};

use super::draft_answer::DraftOperand;
use super::figures::{CitedText, best_row, cell_scales, check_column};
use super::prose::FigureClauses;
use super::row_names::RowNames;
use super::statement::Statement;
use super::statement_words::is_neutral;
use super::terms::{Terms, phrase};

/// An operand that its page has as the model says.
#[derive(Debug)]
pub(super) struct FoundOperand<'a> {
    pub(super) name: &'a str,
    // In units: scales and percentages are applied.
    pub(super) value: Decimal,
    pub(super) is_percent: bool,
    pub(super) period: StatedPeriod,
    // The last year of its row in a table.
    pub(super) newest_year: Option<i32>,
    // The words of its row, and the line of a statement they name.
    pub(super) row: String,
    pub(super) line: Option<&'static str>,
    pub(super) scale: f64,
    // Citation of the claim and target, for operands in a table.
    pub(super) place: Option<(usize, usize)>,
    pub(super) cell_line: usize,
}

impl FoundOperand<'_> {
    pub(super) fn duplicate(&self) -> Self {
        Self {
            row: self.row.clone(),
            ..*self
        }
    }
}

/// Operands whose row is not the only one that its label, or the statement, may mean.
pub(super) struct Rivals {
    // A row with the same label and another figure.
    pub(super) has_twin: bool,
    // A row that fits the statement as well.
    pub(super) has_rival: bool,
    pub(super) reason: Option<String>,
}

impl Rivals {
    pub(super) fn new(
        drafts: &[DraftOperand],
        operands: &[FoundOperand<'_>],
        names: &RowNames<'_>,
        cited: &[Option<&CitedText<'_>>],
    ) -> Self {
        let mut rivals = Self {
            has_twin: false,
            has_rival: false,
            reason: None,
        };
        for (at, (operand, draft)) in operands.iter().zip(drafts).enumerate() {
            let Some((citation, target)) = operand.place else {
                continue;
            };
            let Some(text) = cited.get(citation).copied().flatten() else {
                continue;
            };
            let number = text.numbers[target];
            let page = &text.pages[target];
            let mut others: Vec<usize> = operands
                .iter()
                .filter(|other| {
                    let place = other.place.and_then(|(citation, target)| {
                        Some(cited.get(citation).copied().flatten()?.numbers[target])
                    });
                    place == Some(number)
                })
                .map(|other| other.cell_line)
                .collect();
            let Some((_, cell)) = text.cells.iter().find(|(at, cell)| {
                *at == target
                    && cell.line == operand.cell_line
                    && cell
                        .text
                        .contains(draft.value.trim_matches(['$', ' ', '(', ')', '%']))
            }) else {
                continue;
            };
            let totals = others
                .iter()
                .filter(|line| is_total(&page.row_label(**line).own));
            let total = totals.copied().find(|line| *line > operand.cell_line);
            if let Some(total) = total {
                others.extend(rows_of_other_blocks(page, operand.cell_line, total));
            }
            let own = phrase(&operand.row);
            if let Err(reason) = best_row(&operand.row, &own, page, cell, &others) {
                rivals.has_twin = true;
                rivals.reason.get_or_insert(reason);
            }
            // What names another operand's row does not speak of a rival of this one.
            let text = names.rest_for(at);
            if let Err(reason) = best_row(&text, &phrase(&text), page, cell, &others) {
                rivals.has_rival = true;
                rivals.reason.get_or_insert(reason);
            }
        }
        rivals
    }
}

fn is_total(label: &str) -> bool {
    words(label)
        .first()
        .is_some_and(|(word, _)| word == "total")
}

// Rows with the label of the row `at`, if that is the one in the block that `total` closes: `International` above `Total assets`.
fn rows_of_other_blocks(page: &TablePage<'_>, at: usize, total: usize) -> Vec<usize> {
    let label = |at: usize| phrase(&without_parentheses(&page.row_label(at).own));
    let is_in_block = (at + 1..total)
        .filter(|between| page.is_row(*between))
        .all(|between| !is_total(&page.row_label(between).own) && label(between) != label(at));
    let own = label(at);
    match is_in_block {
        true => page
            .rows()
            .filter(|row| label(row.to_owned()) == own)
            .collect(),
        false => Vec::new(),
    }
}

// Finds an operand in its citation: the number as printed, with its sign, in the row and column that the model names.
pub(super) fn find_operand<'d>(
    draft: &'d DraftOperand,
    statement: &Statement<'_>,
    cited: &[Option<&CitedText<'_>>],
) -> Result<FoundOperand<'d>, String> {
    let at = usize::try_from(draft.citation)
        .ok()
        .and_then(|at| at.checked_sub(1));
    let text = at
        .and_then(|at| *cited.get(at)?)
        .ok_or_else(|| format!("{} has no quote that stands on its page", draft.value))?;
    let figure =
        printed_number(&draft.value).ok_or_else(|| format!("{} is no number", draft.value))?;
    let same = |number: &NumberMention| {
        number.digits == figure.digits && number.is_negative() == figure.is_negative()
    };
    let stated = head_period(&draft.period).in_fiscal_year(text.year_shift);
    let mut reason = format!("{} is not in its quote", draft.value);
    for (target, cell) in &text.cells {
        let Some(number) = cell.number.as_ref().filter(|number| same(number)) else {
            continue;
        };
        let page = &text.pages[*target];
        let label = page.row_label(cell.line);
        if !is_row(&draft.row, &label, cell) {
            reason = format!("{} is in the row \"{}\"", draft.value, cell.label);
            continue;
        }
        let words: Vec<String> = [statement.words(), phrase(&draft.period)].concat();
        let head = Some(stated).filter(|stated| !stated.is_empty());
        if let Err(other) = check_column(&words, statement.text, head, page, cell) {
            reason = other;
            continue;
        }
        let place = at.map(|at| (at, *target));
        return Ok(FoundOperand {
            place,
            cell_line: cell.line,
            newest_year: newest_year(page, cell),
            ..found_in_cell(draft, number, cell, (page, stated))?
        });
    }
    let source = Statement::new(&text.sentences).in_fiscal_years(text.year_shift);
    let in_prose = (0..source.figures.len()).find(|at| same(&source.figures[*at]));
    match in_prose {
        Some(at) => found_in_prose(draft, &source, at, stated),
        None => Err(reason),
    }
}

fn newest_year(page: &TablePage<'_>, cell: &Cell) -> Option<i32> {
    let row = page.cells(cell.line);
    let printed = row.iter().filter(|other| other.number.is_some());
    printed.filter_map(|other| other.period.year).max()
}

// `(1,749)`, `$ 1,749 million` and `$1,749` are one number.
fn printed_number(value: &str) -> Option<NumberMention> {
    let squeezed = value
        .replace("$ ", "$")
        .replace("( ", "(")
        .replace(" )", ")");
    let mut number = numbers(&squeezed).into_iter().next()?;
    number.read_as_cell("");
    Some(number)
}

// Whether the words the model gives for a row are those of its label: its own line, or with the lines next to it that belong to it.
fn is_row(stated: &str, label: &RowLabel, cell: &Cell) -> bool {
    let words = |text: &str| phrase(&without_parentheses(text));
    let stated = words(stated);
    let above = label.above.join(" ");
    let nearest = label.above.last().map(String::as_str).unwrap_or_default();
    let forms = [
        label.own.clone(),
        format!("{nearest} {}", label.own),
        format!("{above} {}", label.own),
        format!("{} {}", label.own, label.below),
        format!("{} {}", label.group, label.own),
        cell.label.clone(),
        format!("{} {}", label.own, cell.head),
    ];
    !stated.is_empty() && forms.iter().any(|form| words(form) == stated)
}

fn found_in_cell<'d>(
    draft: &'d DraftOperand,
    number: &NumberMention,
    cell: &Cell,
    (page, stated): (&TablePage<'_>, StatedPeriod),
) -> Result<FoundOperand<'d>, String> {
    let scales = cell_scales(page, cell);
    let scale = match (number.own_scale(), &scales[..]) {
        (Some(scale), _) => scale,
        _ if number.is_percent() => 1.0,
        (None, [scale]) => *scale,
        (None, []) => 1.0,
        (None, _) => return Err(format!("the scale of {} could not be read", draft.value)),
    };
    found(draft, number, scale, &cell.label, cell.period.or(stated))
}

fn found_in_prose<'d>(
    draft: &'d DraftOperand,
    source: &Statement<'_>,
    at: usize,
    stated: StatedPeriod,
) -> Result<FoundOperand<'d>, String> {
    let clauses = FigureClauses::new(source)?;
    let not_paired = || format!("what {} is could not be read", draft.value);
    let words = clauses.words(at).ok_or_else(not_paired)?;
    let all_words = source.words();
    let row = phrase(&draft.row);
    let is_named = |word: &String| match is_neutral(word) {
        true => all_words.contains(word),
        false => words.contains(word),
    };
    if row.is_empty() || !row.iter().all(is_named) {
        return Err(format!(
            "the sentence of {} does not speak of \"{}\"",
            draft.value, draft.row
        ));
    }
    let period = source.period_of(at).unwrap_or_default();
    if !period.agrees_with(&stated) {
        return Err(format!(
            "{} is of another period in its sentence",
            draft.value
        ));
    }
    let number = &source.figures[at];
    let scale = number.own_scale().unwrap_or(1.0);
    found(draft, number, scale, &draft.row, period.or(stated))
}

fn found<'d>(
    draft: &'d DraftOperand,
    number: &NumberMention,
    scale: f64,
    row: &str,
    period: StatedPeriod,
) -> Result<FoundOperand<'d>, String> {
    let too_long = || format!("{} is too long to compute with", draft.value);
    let printed = number.signed_value().ok_or_else(too_long)?;
    let factor = match number.is_percent() {
        true => Decimal::new(1, 2),
        false => Decimal::from(scale as u64),
    };
    Ok(FoundOperand {
        name: &draft.name,
        value: printed.checked_mul(factor).ok_or_else(too_long)?,
        is_percent: number.is_percent(),
        period,
        row: row.to_owned(),
        line: Terms::get().line(row),
        scale,
        newest_year: None,
        place: None,
        cell_line: 0,
    })
}
