//! What a statement says outside of its placeholders: digits, years and companies. Its evidence must have all of them.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_reading::companies::ends_company_name;
use stemma_reading::numbers::{NumberMention, NumberRole, numbers};
use stemma_reading::period::{PeriodMention, head_period, period_mentions};
use stemma_reading::text_words::words;

use super::claim::BoundFigure;
use super::evidence::Evidence;
use super::periods::period_of;
use super::template::FilledText;

/// A statement with its figures and evidence.
pub(crate) struct Statement<'s> {
    filled: &'s FilledText<'s>,
    evidence: &'s [&'s Evidence<'s>],
    // Text of pages, locations and registrants in lower case, and their words.
    around: String,
    words: BTreeSet<String>,
}

impl<'s> Statement<'s> {
    pub(crate) fn new(filled: &'s FilledText<'s>, evidence: &'s [&'s Evidence<'s>]) -> Self {
        let mut around = String::new();
        for one in evidence {
            let facts = one.facts.into_iter().flat_map(|facts| facts.facts());
            let registrants = facts.filter(|fact| fact.concept.starts_with("dei:"));
            let registrants = registrants.map(|fact| fact.displayed.to_owned());
            for text in [one.page_text(), one.location.to_owned()]
                .into_iter()
                .chain(registrants)
            {
                around.push_str(&text.to_lowercase());
                around.push('\n');
            }
        }
        let words = around.split(|c: char| !c.is_alphanumeric());
        Self {
            filled,
            evidence,
            words: words.map(str::to_owned).collect(),
            around,
        }
    }

    /// # Errors
    /// Names a number, a period or a company that the evidence does not have.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_digits()?;
        self.check_periods()?;
        self.check_companies()
    }

    // Numbers outside of placeholders are names or dates that the evidence has, or a part of the label of a row.
    fn check_digits(&self) -> Result<(), String> {
        let bare = &self.filled.bare;
        let periods = period_mentions(bare).into_iter();
        let figures = &self.filled.figures;
        let labels = figures
            .iter()
            .flat_map(|placed| &placed.figure.cells)
            .filter(|cell| cell.label.contains(char::is_alphabetic))
            .filter_map(|cell| {
                let start = bare.find(&cell.label)?;
                Some(start..start + cell.label.len())
            });
        let mut known: Vec<Range<usize>> =
            periods.map(|mention| mention.at).chain(labels).collect();
        let is_in = |known: &[Range<usize>], at: &Range<usize>| {
            known
                .iter()
                .any(|one| one.start < at.end && at.start < one.end)
        };
        for number in numbers(bare) {
            if !is_in(&known, &number.at) && !self.is_name(&number) {
                return Err(format!("{} is not read from a page", number.text));
            }
            known.push(number.at);
        }
        // `3M` and `Q2` are not numbers.
        for (word, at) in words(bare) {
            let is_number = word.contains(char::is_numeric);
            let is_known = head_period(&word).quarter.is_some() || self.words.contains(&word);
            if is_number && !is_known && !is_in(&known, &at) {
                return Err(format!("{word} is not on the page"));
            }
        }
        Ok(())
    }

    // A day, an Item, a count in words that the evidence has.
    fn is_name(&self, number: &NumberMention) -> bool {
        let is_word = number.text.chars().all(char::is_alphabetic);
        let may_be_known = number.is_label() || number.role == NumberRole::Count && is_word;
        let mut spellings = number.spellings().into_iter();
        may_be_known && spellings.any(|word| self.words.contains(&word))
    }

    // Years that are written out must be those of the figures next to them, or of the evidence if no figure has a period.
    fn check_periods(&self) -> Result<(), String> {
        let filled = self.filled;
        let first = self.evidence.first().map_or(0, |one| one.year_shift);
        let is_one = self.evidence.iter().all(|one| one.year_shift == first);
        let shift = if is_one { first } else { 0 };
        let mut mentions = period_mentions(&filled.bare);
        mentions.retain(|mention| mention.period.year.is_some() || mention.period.length.is_some());
        for mention in &mut mentions {
            mention.period = mention.period.in_fiscal_year(shift);
        }
        let placed = filled.figures.iter().chain(&filled.periods);
        let figures: Vec<&BoundFigure> = placed.map(|placed| placed.figure).collect();
        let has_spans = figures.iter().any(|figure| !figure.spans.is_empty());
        for mention in &mentions {
            let fits = match () {
                () if has_spans => figures.iter().any(|figure| figure.is_of(mention.period)),
                // In a table without heads, nobody knows which period a column is of.
                () if figures.iter().any(|figure| !figure.cells.is_empty()) => false,
                () => self.has_year(mention, figures.is_empty()),
            };
            if !fits {
                let text = &filled.bare[mention.at.clone()];
                return Err(format!("{text} is not a period of its figures"));
            }
        }
        // A statement without a period speaks of the newest.
        let is_undated = mentions.is_empty() && filled.periods.is_empty();
        if let Some(figure) = figures.iter().find(|figure| is_undated && figure.is_older) {
            return Err(format!("the statement does not name {}", figure.period));
        }
        // Each figure has the period that the statement says next to it.
        mentions.extend(filled.periods.iter().map(|placed| PeriodMention {
            period: placed.figure.newest(),
            at: placed.at.clone(),
        }));
        mentions.sort_by_key(|mention| mention.at.start);
        let places: Vec<Range<usize>> = filled.figures.iter().map(|one| one.at.clone()).collect();
        for (index, placed) in filled.figures.iter().enumerate() {
            let figure = placed.figure;
            let period = period_of(&filled.bare, &places, &mentions, index);
            if !figure.spans.is_empty() && period.is_some_and(|period| !figure.is_of(period)) {
                return Err(format!("{} is of another period", figure.text));
            }
        }
        Ok(())
    }

    // A claim without figures may name any year of its pages.
    fn has_year(&self, mention: &PeriodMention, on_pages: bool) -> bool {
        let Some(year) = mention.period.year else {
            return true;
        };
        let has_year = |text: &str| {
            let mut words = text.split(|c: char| !c.is_alphanumeric());
            let mut mentions = period_mentions(text).into_iter();
            mentions.any(|mention| mention.period.year == Some(year))
                || words.any(|word| word == year.to_string())
        };
        on_pages && has_year(&self.around)
            || self
                .evidence
                .iter()
                .any(|one| has_year(&one.quote.lines) || has_year(one.location))
    }

    // A company that the statement names with a legal form or a possessive must be named by a page, a cover or the location.
    fn check_companies(&self) -> Result<(), String> {
        let mut before = "";
        for word in self.filled.text.split_whitespace() {
            let possessive = word.strip_suffix("'s").or(word.strip_suffix("\u{2019}s"));
            let name = match possessive {
                None if ends_company_name(word) => before,
                name => name.map_or("", bare_word),
            };
            if name.len() > 1 && name.starts_with(char::is_uppercase) && !self.names(name) {
                return Err(format!(
                    "it names {name}, which the cited document does not"
                ));
            }
            before = bare_word(word);
        }
        Ok(())
    }

    // File names join words: `BESTBUY_2023_10K`.
    fn names(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        words.all(|word| ends_company_name(word) || self.around.contains(word))
    }
}

fn bare_word(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}
