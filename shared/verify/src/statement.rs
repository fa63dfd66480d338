//! What a statement says outside of its placeholders: digits, years, rows and companies, all of which its evidence must have.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_reading::companies::ends_company_name;
use stemma_reading::numbers::{NumberMention, NumberRole, numbers};
use stemma_reading::period::{PeriodMention, head_period, period_mentions};
use stemma_reading::text_words::{blank, says};
use stemma_reading::vocabulary::IN_ORDER;

use super::claim::BoundFigure;
use super::evidence::Evidence;
use super::periods::period_of;
use super::template::FilledText;

/// A statement with its figures and evidence.
pub(crate) struct Statement<'s, 'k> {
    pub(crate) filled: &'s FilledText,
    pub(crate) evidence: &'s [&'s Evidence<'s>],
    pub(crate) known: &'s dyn Fn(&str) -> Option<&'k BoundFigure>,
    // With blanks in place of figures and periods.
    bare: String,
    // Words and numbers of pages, quotes and locations.
    words: BTreeSet<String>,
    /// What names companies: the evidence without its pages' registrants is not enough.
    around: String,
}

impl<'s, 'k> Statement<'s, 'k> {
    pub(crate) fn new(
        filled: &'s FilledText,
        evidence: &'s [&'s Evidence<'s>],
        known: &'s dyn Fn(&str) -> Option<&'k BoundFigure>,
    ) -> Self {
        let placeholders = filled.figures.iter().chain(&filled.periods);
        let bare = blank(&filled.text, placeholders.map(|(at, _)| at));
        let around: Vec<String> = evidence
            .iter()
            .map(|one| {
                let registrants = one.facts.into_iter().flat_map(|facts| facts.facts());
                let registrants: Vec<&str> = registrants
                    .filter(|fact| fact.concept.starts_with("dei:"))
                    .map(|fact| fact.displayed)
                    .collect();
                format!(
                    "{}\n{}\n{}",
                    one.page_text(),
                    one.location,
                    registrants.join("\n")
                )
            })
            .collect();
        let around = around.join("\n");
        let words = around.split(|c: char| !c.is_alphanumeric());
        Self {
            filled,
            evidence,
            known,
            bare,
            words: words.map(str::to_lowercase).collect(),
            around: around.to_lowercase(),
        }
    }

    /// # Errors
    /// Names the number that is not in a placeholder, and not a name or a date that the evidence has.
    pub(crate) fn check_digits(&self) -> Result<(), String> {
        let periods = period_mentions(&self.bare);
        let mut known: Vec<Range<usize>> = periods.into_iter().map(|mention| mention.at).collect();
        for number in numbers(&self.bare) {
            let is_date = known
                .iter()
                .any(|at| at.start < number.at.end && number.at.start < at.end);
            if !is_date && !self.is_name(&number) {
                return Err(format!("{} is not read from a page", number.text));
            }
            known.push(number.at);
        }
        // `3M` and `Q2` are not numbers.
        for (word, at) in digit_words(&self.bare) {
            let is_seen = known
                .iter()
                .any(|range| range.start < at.end && at.start < range.end);
            let is_quarter = head_period(word).quarter.is_some();
            if !is_seen && !is_quarter && !self.words.contains(&word.to_lowercase()) {
                return Err(format!("{word} is not on the page"));
            }
        }
        Ok(())
    }

    // A day, an Item, a count in words that the evidence has.
    fn is_name(&self, number: &NumberMention) -> bool {
        let is_word = number.text.chars().all(char::is_alphabetic);
        let may_be_known = number.is_label() || number.role == NumberRole::Count && is_word;
        may_be_known
            && number
                .spellings()
                .iter()
                .any(|word| self.words.contains(word))
    }

    /// Years that are written out must be those of the figures next to them, or of the evidence if no figure has a period.
    ///
    /// # Errors
    /// Names the period that differs.
    pub(crate) fn check_periods(&self) -> Result<(), String> {
        let shift = self.year_shift();
        let mut mentions = period_mentions(&self.bare);
        mentions.retain(|mention| mention.period.year.is_some() || mention.period.length.is_some());
        let written: Vec<PeriodMention> = mentions
            .iter()
            .map(|mention| PeriodMention {
                period: mention.period.in_fiscal_year(shift),
                at: mention.at.clone(),
            })
            .collect();
        let figures = self.figures();
        let spans = || figures.iter().flat_map(|figure| &figure.spans);
        for mention in &written {
            let fits = match spans().next() {
                Some(_) => spans().any(|span| span.is_meant_by(&mention.period)),
                // In a table without heads, nobody knows which period a column is of.
                None if figures.iter().any(|figure| !figure.cells.is_empty()) => false,
                None => self.has_year(mention, figures.is_empty()),
            };
            if !fits {
                let text = self.bare.get(mention.at.clone()).unwrap_or_default();
                return Err(format!("{text} is not a period of its figures"));
            }
        }
        // A statement without a period speaks of the newest.
        let is_undated = written.is_empty() && self.filled.periods.is_empty();
        match figures.iter().find(|figure| is_undated && figure.is_older) {
            Some(figure) => Err(format!("the statement does not name {}", figure.period)),
            None => self.check_pairs(written),
        }
    }

    // Each figure has the period that the statement says next to it.
    fn check_pairs(&self, mut periods: Vec<PeriodMention>) -> Result<(), String> {
        for (at, name) in &self.filled.periods {
            let Some(figure) = (self.known)(name) else {
                continue;
            };
            periods.push(PeriodMention {
                period: figure.newest(),
                at: at.clone(),
            });
        }
        periods.sort_by_key(|mention| mention.at.start);
        let places: Vec<Range<usize>> = self
            .filled
            .figures
            .iter()
            .map(|(at, _)| at.clone())
            .collect();
        let is_in_order = says(&self.bare, &IN_ORDER);
        for (index, (_, name)) in self.filled.figures.iter().enumerate() {
            let Some(figure) = (self.known)(name).filter(|figure| !figure.spans.is_empty()) else {
                continue;
            };
            let Some(said) = period_of(&places, &periods, index, is_in_order) else {
                continue;
            };
            if !figure.spans.iter().any(|span| span.is_meant_by(&said)) {
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
        let near = self
            .evidence
            .iter()
            .map(|one| format!("{}\n{}", one.quote.lines, one.location));
        let near: Vec<String> = near.collect();
        let years = |text: &str| {
            let mut mentions = period_mentions(text).into_iter();
            mentions.any(|mention| mention.period.year == Some(year))
                || text
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|word| word == year.to_string())
        };
        near.iter().any(|text| years(text)) || on_pages && years(&self.around)
    }

    fn figures(&self) -> Vec<&'k BoundFigure> {
        let placeholders = self.filled.figures.iter().chain(&self.filled.periods);
        placeholders
            .filter_map(|(_, name)| (self.known)(name))
            .collect()
    }

    fn year_shift(&self) -> i32 {
        let mut shifts = self.evidence.iter().map(|one| one.year_shift);
        let first = shifts.next().unwrap_or_default();
        match shifts.all(|shift| shift == first) {
            true => first,
            false => 0,
        }
    }

    /// A company that the statement names with a legal form or a possessive must be named by a page, a cover or the location.
    ///
    /// # Errors
    /// Names the company.
    pub(crate) fn check_companies(&self) -> Result<(), String> {
        let bare = |word: &'s str| word.trim_matches(|c: char| !c.is_alphanumeric());
        let mut before: Option<&str> = None;
        for word in self.filled.text.split_whitespace() {
            let possessive = word
                .strip_suffix("'s")
                .or_else(|| word.strip_suffix("\u{2019}s"));
            let name = possessive
                .map(bare)
                .or(before.filter(|_| ends_company_name(word)));
            if let Some(name) = name
                && name.len() > 1
                && name.starts_with(char::is_uppercase)
                && !self.names(name)
            {
                return Err(format!(
                    "it names {name}, which the cited document does not"
                ));
            }
            before = Some(bare(word));
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

// Words with digits, and where they are.
fn digit_words(text: &str) -> Vec<(&str, Range<usize>)> {
    let mut words = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let bare = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        if bare.contains(|c: char| c.is_numeric()) {
            words.push((bare, start..start + bare.len()));
        }
        start += word.len();
    }
    words
}
