//! Derives the fiscal year and quarter of a filing.
//!
//! A fiscal year has the number of the calendar year in which it ends, or the one before if it ends in the first days of
//! January (the last week of a week-based year). Another number needs a statement that binds it to the end of the period:
//! `fiscal 2022 ended January 28, 2023`. An outlook (`in fiscal 2024 we expect`) binds nothing. If the text speaks mostly of
//! another year and never says which, the year stays unknown. A quarterly report counts from the last year end it names
//! (`Form 10-K for the fiscal year ended …`); without one, its year to date (`six months ended`) gives the quarter. This is
//! the convention of the SEC's `DocumentFiscalYearFocus` and `DocumentFiscalPeriodFocus`, read from the text instead of from
//! tags.

use std::collections::BTreeMap;

use stemma_document::english_words::MONTHS;
use stemma_document::{FactSource, FilingFacts, PageNo, Source};
use stemma_reading::calendar::{self, CalendarDate};
use stemma_reading::vocabulary::{
    ORDINALS, PERIOD_NAMES, TO_DATE_LENGTHS, YEAR_END_WORDS, YEAR_FILLERS, YEAR_VERBS,
};

use super::front_page::find_caption;
use super::press_release::four_digits;

// 5,000 pages have about 2.5 million words.
const MAX_WORDS: usize = 3_000_000;
// The end of the period within this many words of `fiscal 2023` may be bound to it; a list of three years has eleven.
const NEAR: usize = 16;
// Years that end up to this month may be named by the calendar year before; later ones never are.
const LATE_NAMED_MONTHS: u32 = 5;
// Mentions required if there is no other evidence; one or two may speak of another year.
const MIN_MENTIONS: u32 = 3;
// A report names its own year at least a third as often as the one before.
const OUTLOOK_PART: u32 = 3;

/// Fills fiscal year and period of a periodic report or release from its form, its period end and its text.
pub(super) fn fill_fiscal_period(facts: &mut FilingFacts, source: &Source) {
    let Some(form) = facts.form.clone() else {
        return;
    };
    let Some((end, stated)) = facts
        .period_end
        .clone()
        .and_then(|fact| Some((CalendarDate::from_iso(&fact.value)?, fact)))
    else {
        return;
    };
    let form = form.value.split('/').next().unwrap_or_default();
    let annual = is_annual(form);
    let derived = |value: String, binding: Option<&Binding>| {
        let fact = stated.clone().with_value(value);
        let fact = fact.with_source(FactSource::Derived);
        match binding {
            Some(binding) => fact.with_evidence(&binding.words).with_page(binding.page),
            None => fact,
        }
    };
    if annual {
        facts.fiscal_period = Some(derived("FY".into(), None));
    }
    let release = form == "earnings_release" && facts.fiscal_year.is_none();
    if !(annual || release || form == "10-Q") {
        return;
    }
    let mentions = FiscalMentions::from_source(source, end);
    let release_quarter = facts
        .fiscal_period
        .as_ref()
        .and_then(|period| period.value.strip_prefix('Q')?.parse().ok());
    let (year, quarter) = match release_quarter {
        _ if form == "10-Q" => mentions.fiscal_quarter(end),
        Some(quarter) if release => {
            let year_end = end.add_months(3 * (4 - quarter));
            (mentions.year_of_quarter(year_end, quarter), None)
        }
        _ => (mentions.fiscal_year(end), None),
    };
    facts.fiscal_year = year.map(|year| derived(year.to_string(), mentions.bound.get(&year)));
    if form == "10-Q" {
        facts.fiscal_period = quarter.map(|quarter| derived(format!("Q{quarter}"), None));
    }
}

/// Fiscal year and period of a filing from its form, the end of its period (ISO 8601) and the end of its fiscal year (month and
/// day: `0930`), without its text. A year that ends in the first months of a calendar year may have either number, so
/// it stays unknown.
pub fn stated_fiscal_period(
    form: &str,
    period_end: &str,
    fiscal_year_end: Option<&str>,
) -> (Option<String>, Option<String>) {
    let Some(end) = CalendarDate::from_iso(period_end) else {
        return (None, None);
    };
    let form = form.split('/').next().unwrap_or_default();
    let year_end = match is_annual(form) {
        true => Some(end),
        false => fiscal_year_end.and_then(|stated| year_end_after(end, stated)),
    };
    let year = year_end.filter(|year_end| year_end.month > LATE_NAMED_MONTHS);
    let period = match (form, year_end) {
        _ if is_annual(form) => Some("FY".to_owned()),
        ("10-Q", Some(year_end)) => {
            let quarter = 4 - (year_end.months_since(end) + 1) / 3;
            (1..=3).contains(&quarter).then(|| format!("Q{quarter}"))
        }
        _ => None,
    };
    (year.map(|year_end| year_end.year.to_string()), period)
}

// The first end of a fiscal year on or after a date. Week-based years end up to a week away from the stated day.
fn year_end_after(end: CalendarDate, stated: &str) -> Option<CalendarDate> {
    let month: u32 = stated.get(..2)?.parse().ok()?;
    let day: u32 = stated.get(2..4)?.parse().ok()?;
    let within = |year: u32| CalendarDate::from_iso(&format!("{year:04}-{month:02}-{day:02}"));
    let this_year = within(end.year)?;
    if this_year >= end || this_year.months_since(end) == 0 {
        Some(this_year)
    } else {
        within(end.year + 1)
    }
}

pub(super) fn is_annual(form: &str) -> bool {
    matches!(
        form,
        "10-K" | "10-K405" | "10-KSB" | "20-F" | "40-F" | "11-K"
    )
}

/// Words that bind a fiscal year to the end of the period.
#[derive(Debug, Default)]
struct Binding {
    count: u32,
    words: String,
    page: Option<PageNo>,
}

/// Counts of phrases about fiscal years in the text.
#[derive(Debug, Default)]
struct FiscalMentions {
    /// `fiscal 2023`, by year.
    mentions: BTreeMap<u32, u32>,
    /// `fiscal 2022 ended January 28, 2023`, by year, where the date is the end of the period.
    bound: BTreeMap<u32, Binding>,
    /// `second quarter of fiscal 2024`, by quarter and year.
    quarters: BTreeMap<(i64, u32), u32>,
    /// `third quarter of 2022`, without `fiscal`.
    plain_quarters: BTreeMap<(i64, u32), u32>,
    /// Year ends of the annual reports that the text names.
    year_ends: BTreeMap<(u32, u32, u32), u32>,
    /// Three, six and nine months to date.
    to_date: [u32; 3],
}

impl FiscalMentions {
    fn from_source(source: &Source, end: CalendarDate) -> Self {
        let lines = stemma_document::text::all_lines(&source.body);
        let mut words: Vec<&str> = Vec::new();
        let mut pages: Vec<(usize, Option<PageNo>)> = Vec::new();
        for line in lines {
            if pages.last().is_none_or(|(_, page)| *page != line.page) {
                pages.push((words.len(), line.page));
            }
            words.extend(line.text.split_whitespace());
            if words.len() > MAX_WORDS {
                break;
            }
        }
        let mut mentions = Self::default();
        for (at, word) in words.iter().enumerate() {
            if let Some(year) = named_year(&words, at) {
                if is_fiscal(word) {
                    *mentions.mentions.entry(year.number).or_default() += 1;
                    mentions.count_quarter(&words, at, year);
                }
                if let Some(bound) = binding_words(&words, year, end) {
                    let page = pages.iter().rev().find(|(first, _)| *first <= at);
                    let binding = mentions
                        .bound
                        .entry(year.number)
                        .or_insert_with(|| Binding {
                            count: 0,
                            words: bound,
                            page: page.and_then(|(_, page)| *page),
                        });
                    binding.count += 1;
                }
            }
            if is_quarter(word) {
                mentions.count_plain_quarter(&words, at);
            }
            if starts_with(word, "10-K") || starts_with(word, "10‑K") {
                mentions.count_year_end(&words[at + 1..words.len().min(at + 20)], end);
            } else if starts_with(word, "ended") && at > 1 {
                mentions.count_to_date(words[at - 2], words[at - 1]);
            }
        }
        mentions
    }

    /// Counts `second quarter of fiscal 2024` and `fiscal 2024 second quarter`.
    fn count_quarter(&mut self, words: &[&str], at: usize, year: NamedYear) {
        let before = &words[at.saturating_sub(4)..at];
        let before = before.strip_suffix(&["of"]).or_else(|| {
            let before = before.strip_suffix(&["our"])?;
            before.strip_suffix(&["of"])
        });
        let behind = &words[year.end..words.len().min(year.end + 2)];
        let quarter = match (before, behind) {
            (Some([.., quarter, word]), _) if is_quarter(word) => ordinal(quarter),
            (Some([.., word]), _) if starts_with(word, "q") => ordinal(word),
            (_, [quarter, word]) if is_quarter(word) => ordinal(quarter),
            _ => None,
        };
        if let Some(quarter) = quarter {
            *self.quarters.entry((quarter, year.number)).or_default() += 1;
        }
    }

    /// Counts `third quarter of 2022` and `Third Quarter 2022`.
    fn count_plain_quarter(&mut self, words: &[&str], at: usize) {
        let behind = &words[at + 1..words.len().min(at + 3)];
        let named = behind.strip_prefix(&["of"]).unwrap_or(behind).first();
        let year = named.and_then(|word| four_digits(word));
        let quarter = at.checked_sub(1).and_then(|before| ordinal(words[before]));
        if let (Some(quarter), Some(year)) = (quarter, year) {
            *self.plain_quarters.entry((quarter, year)).or_default() += 1;
        }
    }

    /// Counts `… for the fiscal year ended December 2, 2022` after the name of an annual report.
    fn count_year_end(&mut self, behind: &[&str], end: CalendarDate) {
        let Some(caption) = find_caption(&behind[..behind.len().min(16)], "year ended") else {
            return;
        };
        let Some((date, 0..=1, _)) = calendar::find_first(&behind[caption.end..]) else {
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
        let length = format!("{count} {unit}").to_lowercase();
        let quarters = TO_DATE_LENGTHS.get(&length).map(str::parse::<usize>);
        if let Some(Ok(quarters)) = quarters {
            self.to_date[quarters - 1] += 1;
        }
    }

    /// The fiscal year that ends on `end`.
    fn fiscal_year(&self, end: CalendarDate) -> Option<u32> {
        if end.month > LATE_NAMED_MONTHS {
            return Some(end.year);
        }
        let bound = self
            .bound
            .iter()
            .filter(|(year, _)| [end.year - 1, end.year].contains(year));
        if let Some((year, _)) = bound.max_by_key(|(year, binding)| (binding.count, **year)) {
            return Some(*year);
        }
        let year = year_by_end(end);
        let contradicted = self.mentions_of(year - 1) > self.mentions_of(year);
        (!contradicted).then_some(year)
    }

    /// Fiscal year and quarter of the quarter that ends on `end`.
    fn fiscal_quarter(&self, end: CalendarDate) -> (Option<u32>, Option<i64>) {
        let last = self
            .year_ends
            .iter()
            .max_by_key(|(date, count)| (**count, **date))
            .map(|(&(year, month, day), _)| CalendarDate { year, month, day });
        let quarter = match last {
            Some(last) => Some((end.months_since(last) + 1) / 3),
            None => self
                .to_date
                .iter()
                .rposition(|count| *count >= MIN_MENTIONS)
                .and_then(|at| i64::try_from(at + 1).ok()),
        };
        let Some(quarter) = quarter.filter(|quarter| (1..=3).contains(quarter)) else {
            return (None, None);
        };
        let year_end = last.map_or_else(
            || end.add_months(3 * (4 - quarter)),
            |last| CalendarDate {
                year: last.year + 1,
                ..last
            },
        );
        (self.year_of_quarter(year_end, quarter), Some(quarter))
    }

    /// The fiscal year of a quarter whose year ends about `year_end`.
    // Numbers that the text binds to the same quarter decide; the last of them is the current year. A report names the same
    // quarter of the year before, hardly ever that of the year after.
    fn year_of_quarter(&self, year_end: CalendarDate, quarter: i64) -> Option<u32> {
        let year = year_by_end(year_end);
        let known = [year, year - 1].into_iter();
        let named = known
            .clone()
            .find(|year| self.bound.contains_key(year))
            .or_else(|| {
                known.clone().find(|year| {
                    self.quarters
                        .get(&(quarter, *year))
                        .is_some_and(|count| *count > 0)
                })
            });
        let named = named.or_else(|| {
            if year_end.month > LATE_NAMED_MONTHS {
                return None;
            }
            let [later, earlier] = [year, year - 1].map(|year| {
                let count = self.plain_quarters.get(&(quarter, year));
                count.copied().unwrap_or(0)
            });
            // The year before is also the one compared with, the year after is only in an outlook.
            let compared = later * OUTLOOK_PART >= earlier;
            (later.max(earlier) >= MIN_MENTIONS).then_some(if compared { year } else { year - 1 })
        });
        if named.is_some() || year_end.month > LATE_NAMED_MONTHS {
            return Some(named.unwrap_or(year));
        }
        let contradicted = self.mentions_of(year) * 2 < self.mentions_of(year - 1);
        (!contradicted).then_some(year)
    }

    fn mentions_of(&self, year: u32) -> u32 {
        self.mentions.get(&year).copied().unwrap_or(0)
    }
}

/// The calendar year in which a fiscal year ends, not counting its last week.
fn year_by_end(end: CalendarDate) -> u32 {
    let last_week = end.month == 1 && end.day <= 10;
    if last_week { end.year - 1 } else { end.year }
}

/// A fiscal year named in the text.
#[derive(Debug, Clone, Copy)]
struct NamedYear {
    number: u32,
    /// Index of its first word.
    start: usize,
    /// Index after its number.
    end: usize,
}

/// The year that `fiscal 2023`, `fiscal years 2023` or `(“2023”)` at a word names.
fn named_year(words: &[&str], at: usize) -> Option<NamedYear> {
    let word = words[at];
    let number_at = if is_fiscal(word) {
        let next = words.get(at + 1)?.to_ascii_lowercase();
        at + 1 + usize::from(PERIOD_NAMES.get(&next) == Some("year"))
    } else if word.trim_start_matches('(').starts_with(['“', '"']) || is_explained(words, at) {
        at
    } else {
        return None;
    };
    // `(fiscal 2021: $5 million)` is a comparison.
    let number = words.get(number_at).filter(|word| !word.ends_with(':'))?;
    let number = four_digits(number)?;
    Some(NamedYear {
        number,
        start: at,
        end: number_at + 1,
    })
}

/// The words from a named year to the end of the period next to it, if they say that the year ended then.
fn binding_words(words: &[&str], year: NamedYear, end: CalendarDate) -> Option<String> {
    let behind = &words[year.end..words.len().min(year.end + NEAR)];
    // `2023.` ends a sentence.
    let open = !words[year.end - 1].ends_with(['.', ';']);
    let after = calendar::find_first(behind)
        .filter(|(date, first, _)| open && *date == end && binds(&behind[..*first], true));
    if let Some((_, _, last)) = after {
        return Some(words[year.start..year.end + last].join(" "));
    }
    if is_explained(words, year.start) {
        return None;
    }
    let from = year.start.saturating_sub(NEAR);
    let before = &words[from..year.start];
    let start = (0..before.len()).rev().find(|start| {
        calendar::date_at(before, *start)
            .is_some_and(|(date, last)| date == end && binds(&before[last..], false))
    })?;
    Some(words[from + start..year.end].join(" "))
}

/// Whether words between a fiscal year and a date only say that the one ended on the other.
fn binds(between: &[&str], year_first: bool) -> bool {
    let mut says_end = false;
    for word in between {
        let key = word
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase();
        says_end |= YEAR_END_WORDS.contains(key.as_str());
        let known = YEAR_END_WORDS.contains(key.as_str()) || YEAR_FILLERS.contains(key.as_str());
        // A list pairs `fiscal 2022, 2021 and 2020` with as many dates; its first members belong together.
        let is_listed =
            key.bytes().all(|byte| byte.is_ascii_digit()) || MONTHS.contains(&key.as_str());
        if word.ends_with(['.', ';']) || !(known || is_listed) {
            return false;
        }
    }
    // `January 28, 2023 (“fiscal 2022”)` needs no verb.
    says_end || !year_first || between == ["on"]
}

/// Whether a bare number is explained as a year: `2022 refers to the 52 weeks ended …`.
fn is_explained(words: &[&str], at: usize) -> bool {
    words[at].starts_with("20")
        && words
            .get(at + 1)
            .is_some_and(|verb| YEAR_VERBS.contains(verb))
}

fn is_fiscal(word: &str) -> bool {
    word.trim_start_matches(['“', '"', '('])
        .eq_ignore_ascii_case("fiscal")
}

fn is_quarter(word: &str) -> bool {
    word.trim_end_matches([',', '.', ';', ')'])
        .eq_ignore_ascii_case("quarter")
}

fn ordinal(word: &str) -> Option<i64> {
    let word = word.trim_start_matches(['(', '“', '"']).to_lowercase();
    let number = ORDINALS.get(&word).or_else(|| word.strip_prefix('q'))?;
    number
        .parse()
        .ok()
        .filter(|quarter| (1..=4).contains(quarter))
}

fn starts_with(word: &str, prefix: &str) -> bool {
    word.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::lines;
    use super::*;

    fn mentions_in(text: &str, end: &str) -> (FiscalMentions, CalendarDate) {
        let end = CalendarDate::from_iso(end).unwrap();
        (FiscalMentions::from_source(&lines(text), end), end)
    }

    #[test]
    fn a_fiscal_period_follows_from_stated_dates() {
        for (form, end, year_end, expected) in [
            ("10-Q", "2022-12-31", Some("0930"), "2023 Q1"),
            ("10-Q", "2000-04-01", Some("0930"), "2000 Q2"),
            ("10-Q", "2000-07-01", Some("0924"), "2000 Q3"),
            ("10-Q/A", "2023-06-30", Some("1231"), "2023 Q2"),
            ("10-Q", "2023-07-30", Some("0128"), "- Q2"),
            ("10-Q", "2023-06-30", None, "- -"),
            ("10-K", "2023-09-30", None, "2023 FY"),
            ("10-K405", "2000-12-31", Some("1231"), "2000 FY"),
            ("10-K", "2023-01-28", Some("0128"), "- FY"),
            ("8-K", "2023-11-02", Some("0930"), "2024 -"),
            ("8-K", "2023-10-02", Some("0930"), "2023 -"),
            ("10-Q", "x", Some("0930"), "- -"),
            ("10-Q", "2023-06-30", Some("9999"), "- -"),
        ] {
            let (year, period) = stated_fiscal_period(form, end, year_end);
            let found = [year, period].map(|value| value.unwrap_or("-".into()));
            assert_eq!(found.join(" "), expected, "{form} {end}");
        }
    }

    #[test]
    fn fiscal_year_follows_filer_wording() {
        for (text, end, year) in [
            (
                "fiscal 2023 ended January 28, 2023",
                "2023-01-28",
                Some(2023),
            ),
            (
                "the 52 weeks ended January 28, 2023 (“fiscal 2022”)",
                "2023-01-28",
                Some(2022),
            ),
            (
                "Fiscal years 2022, 2021 and 2020 ended on January 28, 2023, January 29, 2022 and January 30, 2021",
                "2023-01-28",
                Some(2022),
            ),
            (
                "the years ended January 28, 2023 and January 29, 2022 (“2022” and “2021”)",
                "2023-01-28",
                Some(2022),
            ),
            (
                "References to 2022 and years before: 2022 represents the 52 weeks ended January 28, 2023.",
                "2023-01-28",
                Some(2022),
            ),
            ("no word about it", "2023-01-28", Some(2023)),
            ("no word about it", "2023-01-01", Some(2022)),
            ("no word about it", "2022-12-25", Some(2022)),
            ("in fiscal year 2021 we had", "2022-12-31", Some(2022)),
        ] {
            let (mentions, end) = mentions_in(text, end);
            assert_eq!(mentions.fiscal_year(end), year, "{text}");
        }
    }

    #[test]
    fn outlooks_and_comparisons_bind_no_fiscal_year() {
        for (text, end) in [
            (
                "We expect growth in fiscal 2024. As of May 31, 2023, we held cash.",
                "2023-05-31",
            ),
            (
                "since May 31, 2023, we expect fiscal 2024 to be better in fiscal 2024",
                "2023-05-31",
            ),
            (
                "in fiscal year 2022. As of June 30, 2023, 2022 and 2021, we held shares",
                "2023-06-30",
            ),
            (
                "fiscal 2022 compared to the year ended June 30, 2023",
                "2023-06-30",
            ),
            ("Fiscal 2024 begins on December 31, 2023", "2023-12-31"),
        ] {
            let (mentions, end) = mentions_in(text, end);
            assert_eq!(mentions.fiscal_year(end), Some(2023), "{text}");
        }
    }

    #[test]
    fn contradicted_fiscal_year_is_unknown() {
        let (mentions, end) = mentions_in(
            "in fiscal 2022 and fiscal 2022, unlike fiscal 2023",
            "2023-01-28",
        );
        assert_eq!(mentions.fiscal_year(end), None);
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
                "10-K for the year ended\\nJanuary 28, 2023; the second quarter of fiscal 2024 and the second quarter of fiscal 2023",
                "2023-07-29",
                (Some(2024), Some(2)),
            ),
            (
                "10-K for the year ended January 28, 2023; in the first quarter of fiscal 2023 and the fiscal 2022 first quarter",
                "2023-04-29",
                (Some(2023), Some(1)),
            ),
            (
                "10-K for the year ended January 28, 2023; fiscal 2023 and fiscal 2023 and fiscal 2023, not fiscal 2024",
                "2023-04-29",
                (None, Some(1)),
            ),
            (
                "nine months ended nine months ended nine months ended",
                "2021-09-30",
                (Some(2021), Some(3)),
            ),
            ("nothing", "2021-09-30", (None, None)),
            // The year is named by its start: `2022` ends on January 28, 2023.
            (
                "10-K for the year ended January 29, 2022; third quarter of 2022, third quarter of 2021, Third Quarter 2022, \
                 third quarter of 2022",
                "2022-10-29",
                (Some(2022), Some(3)),
            ),
            // … or by its end.
            (
                "10-K for the year ended January 29, 2022; third quarter of 2023, third quarter of 2022, Third Quarter 2023, \
                 third quarter of 2022, third quarter of 2023",
                "2022-10-29",
                (Some(2023), Some(3)),
            ),
            // One mention of the year after is an outlook.
            (
                "10-K for the year ended January 29, 2022; third quarter of 2022, third quarter of 2022, third quarter of 2022, \
                 third quarter of 2022, and from the third quarter of 2023",
                "2022-10-29",
                (Some(2022), Some(3)),
            ),
            (
                "10-K for the year ended May 31, 2022; the second quarter of fiscal 2023",
                "2022-11-30",
                (Some(2023), Some(2)),
            ),
            (
                "10-K for the year ended June 30, 2022; third quarter of 2022, third quarter of 2022, third quarter of 2022",
                "2023-03-31",
                (Some(2023), Some(3)),
            ),
            (
                "10-K for the fiscal year ended December 25, 2021; the third quarter of 2022",
                "2022-09-24",
                (Some(2022), Some(3)),
            ),
        ] {
            let (mentions, end) = mentions_in(&text.replace("\\n", "\n"), end);
            assert_eq!(mentions.fiscal_quarter(end), expected, "{text}");
        }
    }
}
