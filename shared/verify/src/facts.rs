//! Compares a cell with the facts that a filing tags in its row: the same digits may be declared for another period or scale.

use rust_decimal::Decimal;
use stemma_reading::numbers::NumberMention;
use stemma_reading::period::StatedPeriod;
use stemma_xbrl::{FactTable, Period, TaggedFact};

use super::cells::FoundCell;

// Lines of one row at most: a fact is on the line of its figure.
const MAX_ROW_LINES: u32 = 4;
// Fiscal calendars of 52 weeks may end in the first days of January; they name the year before.
const LONGEST_OVERHANG_DAYS: u32 = 7;
const DAYS_PER_YEAR: i32 = 365;
const MONTHS_PER_YEAR: i32 = 12;

/// What the facts of a cell add: its period, and the scale of its figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeclaredCell {
    pub(crate) period: StatedPeriod,
    pub(crate) scale: Option<u64>,
}

/// `span` and `scale` are what the table says.
///
/// # Errors
/// Says what the facts with these digits declare, if none agrees.
pub(crate) fn check_facts(
    facts: &FactTable,
    cell: &FoundCell<'_>,
    number: &NumberMention,
    (span, scale): (StatedPeriod, Option<u64>),
    year_shift: i32,
) -> Result<DeclaredCell, String> {
    let Some(row) = cell.table.rows.get(cell.row) else {
        return Ok(DeclaredCell::default());
    };
    let next = cell.table.rows.get(cell.row + 1);
    let end = next
        .filter(|next| next.page == row.page && next.line > row.line)
        .map_or(row.line + 1, |next| next.line.min(row.line + MAX_ROW_LINES));
    // Lines of facts are counted from 0.
    let lines = row.line.saturating_sub(1)..end.saturating_sub(1);
    let mut differs = None;
    for fact in facts.facts() {
        let is_here = fact.page.map_or(0, |page| page.get()) == row.page
            && fact.line.is_some_and(|line| lines.contains(&line))
            && fact.number().is_some()
            && has_digits(&fact, number);
        if !is_here {
            continue;
        }
        match agrees(&fact, number, span, scale, year_shift) {
            Ok(declared) => return Ok(declared),
            Err(reason) => {
                differs.get_or_insert(reason);
            }
        }
    }
    differs.map_or(Ok(DeclaredCell::default()), Err)
}

fn has_digits(fact: &TaggedFact<'_>, number: &NumberMention) -> bool {
    let displayed: String = fact
        .displayed
        .chars()
        .filter(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let digits = number.signed_value().map(|value| value.abs());
    displayed.parse::<Decimal>().ok() == digits
}

fn agrees(
    fact: &TaggedFact<'_>,
    number: &NumberMention,
    span: StatedPeriod,
    scale: Option<u64>,
    year_shift: i32,
) -> Result<DeclaredCell, String> {
    let names = names_of(fact.period, year_shift);
    let period = match names[..] {
        [] => span,
        _ => *names
            .iter()
            .find(|name| name.agrees_with(&span))
            .ok_or_else(|| {
                format!(
                    "{} is declared for {}, as {}",
                    fact.displayed, fact.period, fact.label
                )
            })?,
    };
    let digits = number.signed_value().unwrap_or_default().abs();
    let declared = fact.number().unwrap_or_default().abs();
    let factor = match (number.is_percent(), scale) {
        (true, _) => Some(Decimal::new(1, 2)),
        (false, scale) => scale.map(Decimal::from),
    };
    let is_same = factor.is_none_or(|factor| {
        digits.checked_mul(factor) == Some(declared) || digits == declared && digits.is_zero()
    });
    // A share is tagged as such, with or without a sign in its cell.
    let is_share = digits.checked_div(Decimal::ONE_HUNDRED) == Some(declared);
    match is_same || is_share && fact.scale < 0 {
        true => Ok(DeclaredCell {
            period: span.or(period),
            scale: u32::try_from(fact.scale)
                .ok()
                .and_then(|power| 10_u64.checked_pow(power)),
        }),
        false => Err(format!(
            "{} is declared as {declared} {}",
            fact.displayed,
            fact.short_unit().unwrap_or_default()
        )),
    }
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
    let before = (month == 1 && day <= LONGEST_OVERHANG_DAYS).then_some(StatedPeriod {
        year: Some(year - 1),
        month: Some(12),
        ..read
    });
    let own = Some(read).filter(|_| year_shift == 0);
    [own, Some(read.in_fiscal_year(year_shift)), before]
        .into_iter()
        .flatten()
        .collect()
}
