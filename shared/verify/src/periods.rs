//! Which period a text says a figure is of, and how periods are shown.

use std::ops::Range;

use stemma_document::english_words::MONTHS;
use stemma_reading::period::{PeriodMention, StatedPeriod};
use stemma_reading::text_words::says;
use stemma_reading::vocabulary::IN_ORDER;

const MONTHS_OF_YEAR: u32 = 12;

/// The index of the name, such as a label, that belongs to a figure of a text. `in_order`: each list of figures has the order of the
/// names. Else it is the one before the figure and after the figure before, or the one after it, whichever side `leads` says is first.
pub(crate) fn name_of(
    figures: &[Range<usize>],
    names: &[Range<usize>],
    figure: usize,
    (leads, in_order): (bool, bool),
) -> Option<usize> {
    let here = figures.get(figure)?.start;
    let count = names.len();
    if in_order && count > 0 && figures.len().is_multiple_of(count) {
        return Some(figure % count);
    }
    let next = figures.get(figure + 1);
    let next = next.map_or(usize::MAX, |next| next.start);
    let after = names
        .iter()
        .position(|name| here < name.start && name.start < next);
    let before = names.iter().rposition(|name| name.start < here);
    match leads {
        true => before.or(after),
        false => after.or(before),
    }
}

/// The period of a figure: the one after it, or the one before it where periods and figures alternate and a period comes first.
pub(crate) fn period_of(
    text: &str,
    figures: &[Range<usize>],
    periods: &[PeriodMention],
    figure: usize,
) -> Option<StatedPeriod> {
    let names: Vec<Range<usize>> = periods.iter().map(|mention| mention.at.clone()).collect();
    let precedes = |name: Option<&Range<usize>>, figure: Option<&Range<usize>>| {
        name.zip(figure)
            .is_some_and(|(name, figure)| name.start < figure.start)
    };
    let leads = precedes(names.first(), figures.first()) && precedes(names.last(), figures.last());
    let in_order = names.len() == figures.len() && says(text, &IN_ORDER);
    let at = name_of(figures, &names, figure, (leads, in_order)).unwrap_or(0);
    periods.get(at).map(|mention| mention.period)
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
