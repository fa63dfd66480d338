//! Compares a cell with the facts that a filing tags in its row: the same digits may be declared for another period or scale.

use rust_decimal::Decimal;
use stemma_reading::period::StatedPeriod;
use stemma_xbrl::{FactTable, Period, TaggedFact};

use super::cells::Cell;

// Lines of one row at most: a fact is on the line of its figure.
const MAX_ROW_LINES: u32 = 4;
// Fiscal calendars of 52 weeks may end in the first days of January; they name the year before.
const LONGEST_OVERHANG_DAYS: u32 = 7;
const DAYS_PER_YEAR: i32 = 365;
const MONTHS_PER_YEAR: i32 = 12;

/// What the facts of a cell add: its period, and the scale of its figure.
type Declared = (StatedPeriod, Option<u64>);

/// # Errors
/// Says what the facts with the digits of a cell declare, if none agrees.
pub(crate) fn check_facts(
    facts: &FactTable,
    cell: &Cell<'_>,
    year_shift: i32,
) -> Result<Declared, String> {
    let row = cell.row;
    let lines = cell.table.rows.iter().filter(|next| next.page == row.page);
    let next = lines.map(|next| next.line).find(|line| *line > row.line);
    let end = next.map_or(row.line + 1, |next| next.min(row.line + MAX_ROW_LINES));
    // Lines of facts are counted from 0.
    let lines = row.line.saturating_sub(1)..end.saturating_sub(1);
    let digits = cell.number.signed_value().map(|value| value.abs());
    let here = facts.facts().filter(|fact| {
        let displayed = fact
            .displayed
            .replace(|c: char| !c.is_ascii_digit() && c != '.', "");
        fact.page.map_or(0, |page| page.get()) == row.page
            && fact.line.is_some_and(|line| lines.contains(&line))
            && fact.number().is_some()
            && displayed.parse::<Decimal>().ok() == digits
    });
    let mut reason = None;
    for fact in here {
        match declared(&fact, cell, year_shift) {
            Ok(declared) => return Ok(declared),
            Err(differs) => reason = reason.or(Some(differs)),
        }
    }
    reason.map_or(Ok(Declared::default()), Err)
}

// What a fact adds to the cell that it agrees with.
fn declared(fact: &TaggedFact<'_>, cell: &Cell<'_>, year_shift: i32) -> Result<Declared, String> {
    let names = names_of(fact.period, year_shift);
    let period = names.iter().find(|name| name.agrees_with(&cell.period));
    if period.is_none() && !names.is_empty() {
        let TaggedFact {
            displayed, label, ..
        } = fact;
        return Err(format!(
            "{displayed} is declared for {}, as {label}",
            fact.period
        ));
    }
    let digits = cell.number.signed_value().unwrap_or_default().abs();
    let value = fact.number().unwrap_or_default().abs();
    let scale = cell.unit.scale.filter(|_| !cell.number.is_percent());
    let is_same = match scale.map(Decimal::from) {
        Some(scale) => digits.checked_mul(scale) == Some(value),
        None => !cell.number.is_percent(),
    };
    // A share is tagged as such, with or without a sign in its cell.
    let is_share = (cell.number.is_percent() || fact.scale < 0)
        && digits.checked_div(Decimal::ONE_HUNDRED) == Some(value);
    if !is_same && !is_share {
        let unit = fact.short_unit().unwrap_or_default();
        return Err(format!("{} is declared as {value} {unit}", fact.displayed));
    }
    let power = u32::try_from(fact.scale).ok();
    let scale = power.and_then(|power| 10_u64.checked_pow(power));
    Ok((period.copied().unwrap_or_default(), scale))
}

// What the period of a fact may be called.
fn names_of(period: Period, year_shift: i32) -> Vec<StatedPeriod> {
    let Some(end) = period.end() else {
        return Vec::new();
    };
    let (year, month, day) = end.year_month_day();
    let months = period
        .days()
        .map(|days| (days * MONTHS_PER_YEAR + DAYS_PER_YEAR / 2) / DAYS_PER_YEAR);
    let read = StatedPeriod {
        year: Some(year),
        month: Some(month),
        length: months.and_then(|months| u32::try_from(months).ok()),
        quarter: None,
    };
    let mut names = vec![read.in_fiscal_year(year_shift)];
    if month == 1 && day <= LONGEST_OVERHANG_DAYS {
        names.push(StatedPeriod {
            year: Some(year - 1),
            month: Some(12),
            ..read
        });
    }
    names
}
