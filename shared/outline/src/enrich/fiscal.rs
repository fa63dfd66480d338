//! Derives the fiscal year and quarter of a filing.
//!
//! The filer's own words decide: `fiscal 2023 ended January 28, 2023`. Without them, an annual report belongs to the year in
//! which its period ends, or to the year before if it ends in the first days of January (the last week of a week-based
//! year). A quarterly report counts from the last year end it names (`Form 10-K for the fiscal year ended …`); without one,
//! its year to date (`six months ended`) gives the quarter. This is the convention of the SEC's `DocumentFiscalYearFocus`
//! and `DocumentFiscalPeriodFocus`, read from the text instead of from tags.

use std::collections::BTreeMap;

use stemma_document::{Fact, FactSource, FilingFacts, PageNo, Source, SourceBody};

use super::dates::{self, Date};

// 5,000 pages have about 2.5 million words.
const MAX_WORDS: usize = 3_000_000;
// The end of the period within this many words of `fiscal 2023` ties the two together.
const NEAR: usize = 8;
// Some filers count a year that ends up to this month as the previous fiscal year.
const LATE_NAMED_MONTHS: u32 = 5;
// Mentions required if there is no other evidence; one or two may speak of another year.
const MIN_MENTIONS: u32 = 3;

/// Fills fiscal year and period of a periodic report or release from its form, its period end and its text.
pub(super) fn fill_fiscal_period(facts: &mut FilingFacts, source: &Source) {
    let Some(form) = facts.form.clone() else {
        return;
    };
    let Some(end) = facts
        .period_end
        .clone()
        .and_then(|fact| Some((Date::from_iso(&fact.value)?, fact.page)))
    else {
        return;
    };
    let (end, page) = end;
    let form = form.value.split('/').next().unwrap_or_default();
    let annual = matches!(
        form,
        "10-K" | "10-K405" | "10-KSB" | "20-F" | "40-F" | "11-K"
    );
    if annual {
        facts.fiscal_period = Some(derived_fact("FY".into(), page));
    }
    if facts.fiscal_year.is_none() && (annual || form == "earnings_release") {
        let mentions = FiscalMentions::from_source(source, end);
        let year = mentions.fiscal_year(end);
        facts.fiscal_year = Some(derived_fact(year.to_string(), page));
    }
    if form == "10-Q" {
        let mentions = FiscalMentions::from_source(source, end);
        let (year, quarter) = mentions.fiscal_quarter(end);
        facts.fiscal_year = year.map(|year| derived_fact(year.to_string(), page));
        facts.fiscal_period = quarter.map(|quarter| derived_fact(format!("Q{quarter}"), page));
    }
}

fn derived_fact(value: String, page: Option<PageNo>) -> Fact {
    Fact {
        source: FactSource::Derived,
        ..Fact::from_text(value, page)
    }
}

/// Counts of phrases about fiscal years in the text.
#[derive(Debug, Default)]
struct FiscalMentions {
    /// `fiscal 2023`, by year.
    mentions: BTreeMap<u32, u32>,
    /// `fiscal 2023` near the end of the period, by year.
    tied: BTreeMap<u32, u32>,
    /// Year ends of the annual reports that the text names.
    year_ends: BTreeMap<(u32, u32, u32), u32>,
    /// Three, six and nine months to date.
    to_date: [u32; 3],
}

impl FiscalMentions {
    fn from_source(source: &Source, end: Date) -> Self {
        let words: Vec<&str> = match &source.body {
            SourceBody::Lines(text) => text
                .lines
                .iter()
                .flat_map(|line| line.split_whitespace())
                .take(MAX_WORDS)
                .collect(),
            SourceBody::Pages(pages) => {
                let lines = pages.iter().flat_map(|page| &page.lines);
                lines
                    .flat_map(|line| line.text.split_whitespace())
                    .take(MAX_WORDS)
                    .collect()
            }
        };
        let mut mentions = Self::default();
        for (at, word) in words.iter().enumerate() {
            if word
                .trim_start_matches(['“', '"', '('])
                .eq_ignore_ascii_case("fiscal")
            {
                mentions.count_fiscal_year(&words, at, end);
            } else if starts_with(word, "10-K") || starts_with(word, "10‑K") {
                mentions.count_year_end(&words[at + 1..words.len().min(at + 20)], end);
            } else if starts_with(word, "ended") && at > 1 {
                mentions.count_to_date(words[at - 2], words[at - 1]);
            }
        }
        mentions
    }

    /// Counts `fiscal 2023` and `fiscal year 2023`.
    fn count_fiscal_year(&mut self, words: &[&str], at: usize, end: Date) {
        let behind = &words[at + 1..words.len().min(at + 3)];
        let behind = match behind {
            [year, rest @ ..] if year.eq_ignore_ascii_case("year") => rest,
            _ => behind,
        };
        let digits = behind
            .first()
            .map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()));
        let Some(year) = digits
            .filter(|digits| digits.len() == 4)
            .and_then(|digits| digits.parse().ok())
        else {
            return;
        };
        *self.mentions.entry(year).or_default() += 1;
        let around = &words[at.saturating_sub(NEAR)..words.len().min(at + NEAR)];
        if dates::find_first(around).is_some_and(|(date, _, _)| date == end) {
            *self.tied.entry(year).or_default() += 1;
        }
    }

    /// Counts `… for the fiscal year ended December 2, 2022` after the name of an annual report.
    fn count_year_end(&mut self, behind: &[&str], end: Date) {
        let Some(start) =
            super::front_page::find_caption(&behind[..behind.len().min(16)], &["year", "ended"])
        else {
            return;
        };
        let Some((date, 0..=1, _)) = dates::find_first(&behind[start..]) else {
            return;
        };
        if (1..=11).contains(&end.months_since(date)) {
            *self
                .year_ends
                .entry((date.year, date.month, date.day))
                .or_default() += 1;
        }
    }

    /// Counts `six months ended`, `26 weeks ended`.
    fn count_to_date(&mut self, count: &str, unit: &str) {
        let quarter = match (count.to_lowercase().as_str(), unit.to_lowercase().as_str()) {
            ("three" | "3", "months") | ("thirteen" | "13", "weeks") => 0,
            ("six" | "6", "months") | ("twenty-six" | "26", "weeks") => 1,
            ("nine" | "9", "months") | ("thirty-nine" | "39", "weeks") => 2,
            _ => return,
        };
        self.to_date[quarter] += 1;
    }

    fn mentions_of(&self, year: u32) -> u32 {
        self.mentions.get(&year).copied().unwrap_or(0)
    }

    /// The fiscal year that ends on `end`.
    fn fiscal_year(&self, end: Date) -> u32 {
        let tied = self
            .tied
            .iter()
            .filter(|(year, _)| year.abs_diff(end.year) <= 1);
        if let Some((year, _)) = tied.max_by_key(|(year, count)| (**count, **year)) {
            return *year;
        }
        let named_late = end.month <= LATE_NAMED_MONTHS
            && self.mentions_of(end.year - 1) > self.mentions_of(end.year);
        if named_late || (end.month == 1 && end.day <= 10) {
            end.year - 1
        } else {
            end.year
        }
    }

    /// Fiscal year and quarter of the quarter that ends on `end`.
    fn fiscal_quarter(&self, end: Date) -> (Option<u32>, Option<i64>) {
        let year_end = self
            .year_ends
            .iter()
            .max_by_key(|(date, count)| (**count, **date));
        let Some((&(year, month, day), _)) = year_end else {
            return self.quarter_without_year_end(end);
        };
        let last = Date { year, month, day };
        let quarter = (end.months_since(last) + 1) / 3;
        let first_days = month == 1 && day <= 10;
        // A year that ended in January 2023 is fiscal 2022 or fiscal 2023: the current one is the later of those named.
        let late =
            month <= LATE_NAMED_MONTHS && self.mentions_of(year + 1) * 2 < self.mentions_of(year);
        let current = if first_days || late { year } else { year + 1 };
        (
            Some(current),
            Some(quarter).filter(|quarter| (1..=3).contains(quarter)),
        )
    }

    fn quarter_without_year_end(&self, end: Date) -> (Option<u32>, Option<i64>) {
        let quarter = self
            .to_date
            .iter()
            .rposition(|count| *count >= MIN_MENTIONS)
            .and_then(|at| i64::try_from(at + 1).ok());
        let candidates = [end.year, end.year + 1]
            .into_iter()
            .filter(|year| self.mentions_of(*year) >= MIN_MENTIONS);
        let mentioned = candidates.max_by_key(|year| (self.mentions_of(*year), *year));
        // A year to date that began in January is the calendar year's.
        let calendar = quarter
            .filter(|quarter| i64::from(end.month) == quarter * 3)
            .map(|_| end.year);
        (mentioned.or(calendar), quarter)
    }
}

fn starts_with(word: &str, prefix: &str) -> bool {
    word.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::lines;
    use super::*;

    fn mentions_in(text: &str, end: &str) -> (FiscalMentions, Date) {
        let end = Date::from_iso(end).unwrap();
        (FiscalMentions::from_source(&lines(text), end), end)
    }

    #[test]
    fn fiscal_year_follows_filer_wording() {
        for (text, end, year) in [
            ("fiscal 2023 ended January 28, 2023", "2023-01-28", 2023),
            (
                "the 52 weeks ended January 28, 2023 (“fiscal 2022”)",
                "2023-01-28",
                2022,
            ),
            (
                "in fiscal 2022 and fiscal 2022, unlike fiscal 2023",
                "2023-01-28",
                2022,
            ),
            ("no word about it", "2023-01-28", 2023),
            ("no word about it", "2023-01-01", 2022),
            ("in fiscal year 2021 we had", "2022-12-31", 2022),
        ] {
            let (mentions, end) = mentions_in(text, end);
            assert_eq!(mentions.fiscal_year(end), year, "{text}");
        }
    }

    #[test]
    fn quarters_count_from_the_last_year_end() {
        for (text, end, expected) in [
            (
                "Form 10-K for the fiscal year ended December 2, 2022.",
                "2023-06-02",
                (Some(2023), Some(2)),
            ),
            (
                "10-K for the year ended\\nJanuary 28, 2023; fiscal 2024 and fiscal 2023",
                "2023-07-29",
                (Some(2024), Some(2)),
            ),
            (
                "10-K for the year ended January 28, 2023; fiscal 2023 is not fiscal 2022",
                "2023-04-29",
                (Some(2023), Some(1)),
            ),
            (
                "nine months ended nine months ended nine months ended",
                "2021-09-30",
                (Some(2021), Some(3)),
            ),
            ("nothing", "2021-09-30", (None, None)),
        ] {
            let (mentions, end) = mentions_in(&text.replace("\\n", "\n"), end);
            assert_eq!(mentions.fiscal_quarter(end), expected, "{text}");
        }
    }
}
