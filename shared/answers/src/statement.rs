//! A statement of a claim, taken apart: its words, its figures, and the period of each figure.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_reading::numbers::{NumberMention, numbers};
use stemma_reading::period::{PeriodMention, StatedPeriod, period_mentions};
use stemma_reading::text_words::says;
use stemma_reading::vocabulary::{IN_ORDER, PERIOD_COUNTS};

use super::row_names::RowNames;
use super::terms::for_each_meaning;

pub(super) struct Statement<'a> {
    pub(super) text: &'a str,
    // Stems with their places.
    words: Vec<(String, Range<usize>)>,
    /// Amounts and counts, in order.
    pub(super) figures: Vec<NumberMention>,
    pub(super) periods: Vec<PeriodMention>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut words = Vec::new();
        for_each_meaning(text, |word, at| words.push((word.to_owned(), at)));
        let mut periods = period_mentions(text);
        let figures: Vec<NumberMention> = numbers(text)
            .into_iter()
            .filter(|number| !number.is_label() && !is_length(text, number))
            .collect();
        // `$2,022 million` is not a year.
        periods.retain(|period| {
            !figures
                .iter()
                .any(|figure| figure.at.start < period.at.end && period.at.start < figure.at.end)
        });
        Self {
            text,
            words,
            figures,
            periods,
        }
    }

    /// With dates by the names of their fiscal years; see [`StatedPeriod::in_fiscal_year`].
    pub(super) fn in_fiscal_years(mut self, shift: i32) -> Self {
        for mention in &mut self.periods {
            mention.period = mention.period.in_fiscal_year(shift);
        }
        self
    }

    pub(super) fn words(&self) -> Vec<String> {
        self.words.iter().map(|(word, _)| word.clone()).collect()
    }

    /// The words outside the labels of rows, and where each begins.
    pub(super) fn words_apart_from(&self, names: &RowNames<'_>) -> (Vec<String>, Vec<usize>) {
        let apart = self.words.iter().filter(|(_, at)| !names.covers(at));
        apart.map(|(word, at)| (word.clone(), at.start)).unzip()
    }

    /// The bytes of a range of words.
    pub(super) fn bytes_of(&self, words: &Range<usize>) -> Option<Range<usize>> {
        let inside = self.words.get(words.clone())?;
        Some(inside.first()?.1.start..inside.last()?.1.end)
    }

    /// The words between two places.
    pub(super) fn words_in(&self, at: Range<usize>) -> Vec<String> {
        let inside = self
            .words
            .iter()
            .filter(|(_, word)| at.start <= word.start && word.end <= at.end);
        inside.map(|(word, _)| word.clone()).collect()
    }

    /// The words that may say what a figure is: those before it up to the figure before, and those after it up to the next.
    pub(super) fn words_around(&self, figure: usize) -> [Vec<String>; 2] {
        let here = &self.figures[figure].at;
        let before = figure
            .checked_sub(1)
            .map_or(0, |before| self.figures[before].at.end);
        let after = self
            .figures
            .get(figure + 1)
            .map_or(self.text.len(), |after| after.at.start);
        [
            self.words_in(before..here.start),
            self.words_in(here.end..after),
        ]
    }

    pub(super) fn years(&self) -> BTreeSet<i32> {
        self.periods
            .iter()
            .filter_map(|mention| mention.period.year)
            .collect()
    }

    /// The period of a figure: the one after it and before the next figure, else the one before it. Where periods and figures
    /// alternate and a period comes first, each figure belongs to the period before it; `A and B in 2022 and 2021, respectively` in order.
    pub(super) fn period_of(&self, figure: usize) -> Option<StatedPeriod> {
        let period = |at: usize| self.periods.get(at).map(|mention| mention.period);
        let start = |at: usize| self.figures[at].at.start;
        if says(self.text, &IN_ORDER) && self.periods.len() == self.figures.len() {
            return period(figure);
        }
        let next = self
            .figures
            .get(figure + 1)
            .map_or(usize::MAX, |next| next.at.start);
        let after = self
            .periods
            .iter()
            .find(|mention| start(figure) < mention.at.start && mention.at.start < next);
        let before = self
            .periods
            .iter()
            .rfind(|mention| mention.at.start < start(figure));
        let first_is_period = self
            .periods
            .first()
            .is_some_and(|mention| mention.at.start < start(0));
        let last_is_figure = self
            .periods
            .last()
            .is_some_and(|mention| mention.at.start < start(self.figures.len() - 1));
        let found = match first_is_period && last_is_figure {
            true => before.or(after),
            false => after.or(before).or_else(|| self.periods.first()),
        };
        found.map(|mention| mention.period)
    }
}

// `three months ended …` is a period, no count.
fn is_length(text: &str, number: &NumberMention) -> bool {
    let after = text.get(number.at.end..).unwrap_or_default();
    let after = after.trim_start_matches([' ', '-']).to_lowercase();
    PERIOD_COUNTS.starts(&after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_period_next_to_them() {
        for (text, expected) in [
            ("Revenue was $5 million in 2022.", vec![2022]),
            ("In 2022, revenue was $5 million.", vec![2022]),
            (
                "In 2022 revenue was $5 million and in 2021 it was $4 million.",
                vec![2022, 2021],
            ),
            (
                "Revenue rose to $5 million in 2022 from $4 million in 2021.",
                vec![2022, 2021],
            ),
            (
                "In 2022, revenue was $5 million, up from $4 million in 2021.",
                vec![2022, 2021],
            ),
            (
                "Revenue was $5 million and $4 million in 2022 and 2021, respectively.",
                vec![2022, 2021],
            ),
            ("Revenue grew from 2021 to 2022 by 5%.", vec![2022]),
        ] {
            let statement = Statement::new(text);
            let years: Vec<i32> = (0..statement.figures.len())
                .filter_map(|at| statement.period_of(at)?.year)
                .collect();
            assert_eq!(years, expected, "{text}");
        }
    }
}
