//! Which period a text says a figure is of, and how periods are shown.

use std::ops::Range;

use stemma_document::english_words::MONTHS;
use stemma_reading::period::{PeriodMention, StatedPeriod};

const MONTHS_OF_YEAR: u32 = 12;

/// The period of a figure: the one after it and before the next figure, else the one before it. Where periods and figures alternate
/// and a period comes first, each figure belongs to the period before it. `is_in_order`: `A and B in 2022 and 2021, respectively`.
pub(crate) fn period_of(
    figures: &[Range<usize>],
    periods: &[PeriodMention],
    figure: usize,
    is_in_order: bool,
) -> Option<StatedPeriod> {
    let period = |at: usize| periods.get(at).map(|mention| mention.period);
    let here = figures.get(figure)?.start;
    if is_in_order && periods.len() == figures.len() {
        return period(figure);
    }
    let next = figures
        .get(figure + 1)
        .map_or(usize::MAX, |next| next.start);
    let after = periods
        .iter()
        .find(|mention| here < mention.at.start && mention.at.start < next);
    let before = periods.iter().rfind(|mention| mention.at.start < here);
    let first = figures.first().map_or(0, |figure| figure.start);
    let last = figures.last().map_or(0, |figure| figure.start);
    let first_is_period = periods
        .first()
        .is_some_and(|mention| mention.at.start < first);
    let last_is_figure = periods
        .last()
        .is_some_and(|mention| mention.at.start < last);
    let found = match first_is_period && last_is_figure {
        true => before.or(after),
        false => after.or(before).or_else(|| periods.first()),
    };
    found.map(|mention| mention.period)
}

/// A period as people write it: `2022`, `Q2 2022`, `June 2022`, `3 months to June 2022`. Empty without a year.
pub(crate) fn printed_period(period: &StatedPeriod, year_shift: i32) -> String {
    let Some(year) = period.year else {
        return String::new();
    };
    if let Some(quarter) = period.quarter {
        return format!("Q{quarter} {year}");
    }
    let month = period
        .month
        .and_then(|month| MONTHS.get((month as usize).checked_sub(1)?));
    // A year that is named after the one before has no such month.
    let month = month.filter(|_| year_shift == 0 || period.month > Some(2));
    let month = month.map(|month| {
        let (first, rest) = month.split_at(1);
        format!("{}{rest}", first.to_uppercase())
    });
    let is_year_end = period.month == Some(MONTHS_OF_YEAR);
    match (period.length, month) {
        (Some(MONTHS_OF_YEAR), _) | (None, None) => year.to_string(),
        (None, Some(_)) if is_year_end => year.to_string(),
        (None, Some(month)) => format!("{month} {year}"),
        (Some(length), Some(month)) => format!("{length} months to {month} {year}"),
        (Some(length), None) => format!("{length} months of {year}"),
    }
}

#[cfg(test)]
mod tests {
    use stemma_reading::period::head_period;

    use super::*;

    #[test]
    fn periods_are_shown_as_people_write_them() {
        for (head, shift, expected) in [
            ("2022", 0, "2022"),
            ("Year ended September 30, 2022", 0, "2022"),
            ("December 31, 2022", 0, "2022"),
            ("June 30, 2022", 0, "June 2022"),
            (
                "Three months ended June 30, 2022",
                0,
                "3 months to June 2022",
            ),
            ("second quarter of 2022", 0, "Q2 2022"),
            ("January 28, 2023", -1, "2022"),
            ("Total", 0, ""),
        ] {
            let period = head_period(head).in_fiscal_year(shift);
            assert_eq!(printed_period(&period, shift), expected, "{head}");
        }
    }
}
