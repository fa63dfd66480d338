//! Figures that filings declare (inline XBRL), by the words of their names and by their periods: those that passages display, and
//! those that a query asks for.
//!
//! An index entry has a *figure entry* for each name: [`ENTRY_START`], the words, [`WORDS_END`], the periods. A concept has up to
//! two names, the words of its technical name and its label; the members of its dimensions belong to both.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use stemma_document::english_words::MONTHS;
use stemma_xbrl::{Date, FactTable, Period, TaggedFact, concept_words};

use crate::query_period::QueryPeriod;
use crate::question_words::is_question_word;
use crate::tokenizer::{SEPARATOR, is_stop_word, tokenize};
use crate::vocabulary::{MEMBER_WORDS, PERIOD_WORDS, STATED_LENGTHS, TELLING_STOP_WORDS};

/// Before the words of a figure. No word is one of these signs.
pub const ENTRY_START: &str = "[";
/// Between the words of a figure and its periods.
pub const WORDS_END: &str = "|";

// The lengths of periods that filings report, in months; 0 for a day.
const REPORTED_MONTHS: [u32; 5] = [0, 3, 6, 9, 12];
const DAYS_PER_MONTH: f32 = 365.25 / 12.0;
// Later words are ignored, which bounds the work per query.
const MAX_WORDS: usize = 40;

/// The displayed figures of a document, by their places.
#[derive(Debug, Default)]
pub struct DisplayedFigures {
    // By page (0 in a text without pages) and 1-based line.
    places: BTreeMap<(u32, u32), Vec<DisplayedFigure>>,
    names: Vec<BTreeSet<String>>,
}

#[derive(Debug)]
struct DisplayedFigure {
    // Index of its names.
    names: usize,
    periods: [String; 2],
}

impl DisplayedFigures {
    /// `fiscal_years_ahead` is how much greater the number of the fiscal year is than that of the year in which it ends.
    pub fn new(table: &FactTable, fiscal_years_ahead: i32) -> Self {
        let mut figures = Self::default();
        let mut known = HashMap::new();
        for fact in table.facts() {
            let (Some(line), Some(end)) = (fact.line, fact.period.end()) else {
                continue;
            };
            if fact.is_hidden || fact.number().is_none() {
                continue;
            }
            let names = *known
                .entry((fact.concept, fact.dimensions))
                .or_insert_with(|| {
                    figures.names.push(names(&fact));
                    figures.names.len() - 1
                });
            let page = fact.page.map_or(0, |page| page.get());
            let periods = [
                period_term(fact.period, end),
                year_term(end.year() + fiscal_years_ahead),
            ];
            let place = figures.places.entry((page, line + 1)).or_default();
            place.push(DisplayedFigure { names, periods });
        }
        figures
    }

    /// The figure entries of some lines of a page (0 in a text without pages), in a fixed order.
    pub fn entries(&self, page: u32, lines: impl IntoIterator<Item = u32>) -> Vec<String> {
        let mut periods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let found = lines
            .into_iter()
            .filter_map(|line| self.places.get(&(page, line)));
        for figure in found.flatten() {
            for name in &self.names[figure.names] {
                let periods = periods.entry(name).or_default();
                periods.extend(figure.periods.iter().map(String::as_str));
            }
        }
        let entries = periods.into_iter().map(|(name, periods)| {
            let parts = [ENTRY_START, name, WORDS_END].into_iter().chain(periods);
            parts.collect::<Vec<_>>().join(&SEPARATOR.to_string())
        });
        entries.collect()
    }
}

// The different words of each name, joined.
fn names(fact: &TaggedFact<'_>) -> BTreeSet<String> {
    let members: Vec<String> = fact
        .dimensions
        .iter()
        .map(|(_, member)| concept_words(member))
        .collect();
    let members: Vec<String> = tokenize(&members.join(" "))
        .into_iter()
        .filter(|word| !MEMBER_WORDS.contains(word.as_str()))
        .collect();
    let written = [concept_words(fact.concept), fact.label.to_owned()];
    let names = written.iter().map(|name| {
        let words = tokenize(name).into_iter().chain(members.iter().cloned());
        let words: BTreeSet<String> = words.filter(|word| is_telling(word)).collect();
        Vec::from_iter(words).join(&SEPARATOR.to_string())
    });
    names.filter(|name| !name.is_empty()).collect()
}

fn is_telling(word: &str) -> bool {
    !is_stop_word(word) || TELLING_STOP_WORDS.contains(word)
}

// The month at whose end a period ends, and its length in months. Fiscal periods of whole weeks end some days before or after
// the month does.
fn period_term(period: Period, end: Date) -> String {
    let months = period
        .days()
        .map_or(0, |days| (days as f32 / DAYS_PER_MONTH).round() as u32);
    let (year, month, day) = end.year_month_day();
    format!("{}/{months}", month_end(year, month, day))
}

fn month_end(year: i32, month: u32, day: u32) -> String {
    let (year, month) = match (day, month) {
        (16.., _) => (year, month),
        (_, 1) => (year - 1, 12),
        (_, month) => (year, month - 1),
    };
    format!("{year}-{month:02}")
}

fn year_term(year: i32) -> String {
    format!("fy{year}")
}

/// The figure that a query asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FigureQuery {
    /// Normalized words that may name it, and whether each has to be in its name: words of asking need not.
    pub words: Vec<(String, bool)>,
    /// Terms of its period; any of them will do. Empty if the query names none.
    pub periods: Vec<String>,
}

impl FigureQuery {
    /// `None` if no word can name a figure. `all` are the normalized words of a query, and `issuer` those that name the issuer.
    pub fn new(all: &[String], period: &QueryPeriod, issuer: &[String]) -> Option<Self> {
        let mut words: Vec<(String, bool)> = Vec::new();
        for word in all {
            let is_name = is_telling(word)
                && !issuer.contains(word)
                && !is_period_word(word)
                && !word.chars().all(|c| c.is_ascii_digit())
                && !words.iter().any(|(known, _)| known == word);
            if is_name && words.len() < MAX_WORDS {
                words.push((word.clone(), !is_question_word(word) && !is_stop_word(word)));
            }
        }
        let is_named = words.iter().any(|(_, has_to_match)| *has_to_match);
        is_named.then(|| Self {
            words,
            periods: period_terms(period, all),
        })
    }
}

fn is_period_word(stem: &str) -> bool {
    static STEMS: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let words = PERIOD_WORDS.iter().chain(&MONTHS);
        words.flat_map(|word| tokenize(word)).collect()
    });
    STEMS.contains(stem)
}

fn period_terms(period: &QueryPeriod, words: &[String]) -> Vec<String> {
    let Some(end) = period.end else {
        let year = period.years.last();
        return year
            .map(|year| year_term((*year).into()))
            .into_iter()
            .collect();
    };
    let part = |value: u64| u32::try_from(value).unwrap_or_default();
    let year = i32::try_from(end / 10_000).unwrap_or_default();
    let end = month_end(year, part(end / 100 % 100), part(end % 100));
    let months = match stated_months(words) {
        // A balance at the end of a period belongs to it.
        Some(months) => vec![0, months],
        None => REPORTED_MONTHS.to_vec(),
    };
    let terms = months.into_iter().map(|months| format!("{end}/{months}"));
    terms.collect()
}

// The length of a period in months, by normalized words.
fn stated_months(words: &[String]) -> Option<u32> {
    let counted = words
        .windows(2)
        .find_map(|pair| STATED_LENGTHS.get(&pair.join(" ")));
    counted
        .or_else(|| words.iter().find_map(|word| STATED_LENGTHS.get(word)))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> FigureQuery {
        let (period, _) = QueryPeriod::parse(text);
        FigureQuery::new(&tokenize(text), &period, &["acm".into()]).unwrap_or_default()
    }

    #[test]
    fn periods_of_a_query_are_those_of_facts() {
        for (text, terms) in [
            (
                "cost for the three months ended June 28, 2025",
                &["2025-06/0", "2025-06/3"][..],
            ),
            (
                "cost for the year ended February 2, 2025",
                &["2025-01/0", "2025-01/12"],
            ),
            (
                "cost for the first half ended 2024-06-30",
                &["2024-06/0", "2024-06/6"],
            ),
            ("cost in fiscal 2024", &["fy2024"]),
            ("cost of Acme", &[]),
        ] {
            assert_eq!(parse(text).periods, terms, "{text}");
        }
        assert_eq!(
            parse("cash as of October 1, 2023").periods.len(),
            REPORTED_MONTHS.len()
        );
        let day = |year, month, day| Date::new(year, month, day).unwrap();
        let quarter = Period::Duration {
            from: day(2025, 3, 30),
            to: day(2025, 6, 28),
        };
        assert_eq!(period_term(quarter, day(2025, 6, 28)), "2025-06/3");
        let balance = Period::Instant(day(2024, 1, 1));
        assert_eq!(period_term(balance, day(2024, 1, 1)), "2023-12/0");
    }

    #[test]
    fn words_of_periods_issuers_and_asking_name_no_figure() {
        let words = |text: &str| -> Vec<String> {
            let query = parse(text);
            let named = query
                .words
                .into_iter()
                .filter(|(_, has_to_match)| *has_to_match);
            named.map(|(word, _)| word).collect()
        };
        assert_eq!(
            words("What was Acme's restructuring reserve at the end of the fiscal year 2023?"),
            ["restructur", "reserv"]
        );
        assert_eq!(
            words("What was it of Acme in March 2023?"),
            Vec::<String>::new()
        );
        // "Increase" is a word of asking, and may still be part of a name; "other" tells names apart.
        let query = parse("What was the increase of other debt?");
        let optional = query.words.iter().filter(|(_, has_to_match)| !has_to_match);
        let optional: Vec<&str> = optional.map(|(word, _)| word.as_str()).collect();
        assert_eq!(optional, ["increas", "other"]);
    }
}
