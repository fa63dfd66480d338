//! Facts of earnings releases and annual reports without the cover of a form, from their headline or title.

use stemma_document::text::normalize_key;
use stemma_document::{FactSource, FilingFacts, Source};
use stemma_reading::calendar::{self, CalendarDate};
use stemma_reading::vocabulary::{
    ANNOUNCING_VERBS, BEFORE_PERIOD, DEFINITE_ARTICLES, FISCAL_NAMES, HEADLINE_PERIODS,
    PERIOD_NAMES, PERIOD_UNITS, QUARTER_WORDS, RESULTS, SMALL_NAME_WORDS, TICKER_MARKS,
};

use super::front_page::FrontPage;
use super::registrant::{clean_name, full_name};
use super::securities;

// The headline is among the first lines, the issuer and period on the first pages. Further down other companies and
// periods are mentioned.
const HEADLINE_LINES: usize = 12;
const RELEASE_PAGES: usize = 4;
const NAME_WORDS: usize = 8;
// A longer line with a quarter and results is a sentence.
const TITLE_WORDS: usize = 14;

/// Facts of a document without the cover of a form; empty unless it clearly is a release or a report.
pub(super) fn release_or_report_facts(front: &[FrontPage<'_>], source: &Source) -> FilingFacts {
    let written = front
        .iter()
        .position(|page| !page.lines.is_empty())
        .unwrap_or(0);
    let all = &front[written..];
    let front = &all[..all.len().min(RELEASE_PAGES)];
    let Some(first) = front.first() else {
        return FilingFacts::default();
    };
    let Some(headline) = headline(first) else {
        return front
            .iter()
            .find_map(|page| annual_report(page).or_else(|| chinese_report(page)))
            .unwrap_or_default();
    };
    let mut facts = release_facts(front, &headline);
    // Headlines shorten the name; the text has it in full.
    let full = facts
        .issuer
        .as_ref()
        .and_then(|issuer| full_name(source, &issuer.value));
    facts.issuer = full.or(facts.issuer);
    facts.tickers = all
        .iter()
        .map(securities::release_tickers)
        .find(|tickers| !tickers.is_empty())
        .unwrap_or_default();
    facts
}

/// Two neighboring lines that report or announce the results or earnings of a period, or a line that names a company and
/// the results of its quarter: `Acme Corp. Third Quarter 2023 Results`.
fn headline(page: &FrontPage<'_>) -> Option<String> {
    let top = &page.lines[..page.lines.len().min(HEADLINE_LINES)];
    let pairs = top
        .windows(2)
        .map(|pair| pair.join(" "))
        .chain(top.last().map(|line| (*line).to_owned()));
    let announced = pairs.into_iter().find(|text| {
        has_any(text, &ANNOUNCING_VERBS)
            && has_any(text, &RESULTS)
            && (has_any(text, &QUARTER_WORDS) || has_any(text, &FISCAL_NAMES))
    });
    announced.or_else(|| {
        let title = top.iter().find(|line| {
            has_any(line, &RESULTS)
                && has_any(line, &QUARTER_WORDS)
                && line.split_whitespace().count() <= TITLE_WORDS
                && !line.ends_with('.')
                && before_period(line).is_some()
        })?;
        Some((*title).to_owned())
    })
}

fn has_any(text: &str, any: &[&str]) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(|word| any.contains(&word.to_lowercase().as_str()))
}

fn release_facts(front: &[FrontPage<'_>], headline: &str) -> FilingFacts {
    let first = &front[0];
    let stated = |value: String| first.fact(value).with_evidence(headline);
    let year = headline_year(headline);
    let quarter = headline_period(headline).is_some_and(|period| period.starts_with('Q'));
    let ends: Vec<_> = front
        .iter()
        .filter_map(|page| Some((period_end(page, quarter, year)?, page)))
        .collect();
    // Further down, the dates of an outlook follow. A release about a quarter may first name its annual report.
    let ended = ends
        .iter()
        .find(|((certain, ..), _)| *certain)
        .or(ends.first())
        .map(|((_, date, words), page)| page.fact(date.to_iso()).with_evidence(words));
    let issuer = front
        .iter()
        .find_map(|page| Some(page.fact(before_ticker(page)?)));
    let issuer = issuer.or_else(|| {
        let named = before_verb(headline).or_else(|| before_period(headline));
        named.map(stated)
    });
    FilingFacts {
        issuer,
        form: Some(stated("earnings_release".into())),
        fiscal_year: year.map(|year| stated(year.to_string())),
        fiscal_period: headline_period(headline).map(|period| stated(period.into())),
        period_end: ended,
        ..FilingFacts::default()
    }
}

/// The latest possible date on which a quarter, year or number of months or weeks `ended`. Earlier dates are comparisons. For
/// a `quarter`, that of a year counts only if there is no other, and is not certain (`false`).
fn period_end(
    page: &FrontPage<'_>,
    quarter: bool,
    year: Option<u32>,
) -> Option<(bool, CalendarDate, String)> {
    let words = page.words();
    let ended = words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.eq_ignore_ascii_case("ended"));
    let ends = ended.filter_map(|(at, _)| {
        let before = words[at.saturating_sub(3)..at].iter();
        let unit = before
            .map(|word| normalize_key(word))
            .rfind(|word| PERIOD_UNITS.contains(word))?;
        let behind = &words[at + 1..words.len().min(at + 6)];
        let (date, _, end) = calendar::find_first(behind)
            .filter(|(date, start, end)| may_end(year, *date) && *start == 0 && *end <= 3)?;
        let words = words[at.saturating_sub(3)..=at + end].join(" ");
        Some((
            !(quarter && PERIOD_NAMES.get(&unit) == Some("year")),
            date,
            words,
        ))
    });
    ends.max()
}

/// Whether a fiscal year may end on a date: in its calendar year or in the first weeks of the next.
fn may_end(year: Option<u32>, date: CalendarDate) -> bool {
    year.is_none_or(|year| date.year <= year || (date.year == year + 1 && date.month <= 2))
}

/// The name before `(NYSE: …)` or another ticker.
fn before_ticker(page: &FrontPage<'_>) -> Option<String> {
    let words = page.words();
    let at = words.iter().position(|word| TICKER_MARKS.starts(word))?;
    name_before(&words[..at])
}

/// The name before `reports` or `announces` in a headline.
fn before_verb(headline: &str) -> Option<String> {
    let words: Vec<&str> = headline.split_whitespace().collect();
    let at = words
        .iter()
        .position(|word| ANNOUNCING_VERBS.contains(word.to_lowercase().as_str()))?;
    name_before(&words[..at])
}

/// The name before the quarter in a title: `Acme Corp. Third Quarter 2023 Results`, `Acme Q3 2023 Earnings`.
fn before_period(title: &str) -> Option<String> {
    let words: Vec<&str> = title.split_whitespace().collect();
    let keys: Vec<String> = words.iter().map(|word| normalize_key(word)).collect();
    let mut end = keys
        .iter()
        .position(|key| QUARTER_WORDS.contains(key.as_str()))?;
    while end > 0
        && (BEFORE_PERIOD.contains(keys[end - 1].as_str()) || four_digits(words[end - 1]).is_some())
    {
        end -= 1;
    }
    // The name opens the title.
    name_before(&words[..end])
        .filter(|name| normalize_key(name) == normalize_key(&words[..end].concat()))
}

/// The capitalized words at the end of `words`, back to a dash or a word that cannot be part of a name.
fn name_before(words: &[&str]) -> Option<String> {
    let count = words
        .iter()
        .rev()
        .take(NAME_WORDS + 1)
        .take_while(|word| {
            let capital = word.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
            let dash = word.contains("--")
                || word.contains('–')
                || word.contains('—')
                || word.ends_with(':');
            (capital || SMALL_NAME_WORDS.contains(word)) && !dash
        })
        .count();
    let name: Vec<&str> = words[words.len() - count..]
        .iter()
        .copied()
        .skip_while(|word| SMALL_NAME_WORDS.contains(word) && !DEFINITE_ARTICLES.contains(word))
        .collect();
    (1..=NAME_WORDS)
        .contains(&name.len())
        .then(|| clean_name(&name.join(" ")))
        .filter(|name| name.chars().any(char::is_alphabetic))
}

/// The year after `fiscal`, otherwise the first year that is not part of a date.
fn headline_year(headline: &str) -> Option<u32> {
    let words: Vec<&str> = headline.split_whitespace().collect();
    let years: Vec<(usize, u32)> = words
        .iter()
        .enumerate()
        .filter_map(|(at, word)| Some((at, four_digits(word)?)))
        .filter(|(at, _)| {
            !(0..*at).any(|start| {
                calendar::date_at(&words[..=*at], start).is_some_and(|(_, end)| end == at + 1)
            })
        })
        .collect();
    let behind_fiscal = years.iter().find(|(at, _)| {
        words[at.saturating_sub(2)..*at]
            .iter()
            .any(|word| word.eq_ignore_ascii_case("fiscal"))
    });
    behind_fiscal.or(years.first()).map(|(_, year)| *year)
}

pub(super) fn four_digits(word: &str) -> Option<u32> {
    let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|year| digits.len() == 4 && (1950..2100).contains(year))
}

/// The quarter in the headline, otherwise the whole year.
fn headline_period(headline: &str) -> Option<&'static str> {
    let lower = normalize_key(headline);
    let stated = HEADLINE_PERIODS
        .iter()
        .find(|(name, _)| lower.contains(name));
    let fiscal = lower.split_once("fiscal").is_some_and(|(_, rest)| {
        rest.trim_start_matches("year")
            .starts_with(|c: char| c.is_ascii_digit())
    });
    stated.map(|(_, period)| *period).or(fiscal.then_some("FY"))
}

/// A title line with `annual report`, and the year on or near it.
fn annual_report(page: &FrontPage<'_>) -> Option<FilingFacts> {
    let top = &page.lines[..page.lines.len().min(HEADLINE_LINES)];
    let at = top.iter().position(|line| {
        let title = line.split_whitespace().count() <= 10
            && !line.ends_with('.')
            && line.starts_with(|c: char| !c.is_lowercase());
        title && normalize_key(line).contains("annualreport")
    })?;
    let near = &top[at.saturating_sub(3)..top.len().min(at + 4)];
    let year = near
        .iter()
        .flat_map(|line| line.split_whitespace())
        .find_map(four_digits);
    Some(FilingFacts {
        form: Some(page.fact("annual_report")),
        fiscal_year: year.map(|year| page.fact(year.to_string())),
        fiscal_period: Some(page.fact("FY")),
        ..FilingFacts::default()
    })
}

/// `某某股份有限公司` above `2022年年度报告`. The fiscal year is the calendar year by law (Accounting Law of the PRC, art. 11).
fn chinese_report(page: &FrontPage<'_>) -> Option<FilingFacts> {
    let top = &page.lines[..page.lines.len().min(HEADLINE_LINES)];
    let short_lines: Vec<String> = top
        .iter()
        .map(|line| line.split_whitespace().collect())
        .filter(|line: &String| line.chars().count() <= 40)
        .collect();
    let title = short_lines.iter().find(|line| line.contains("年度报告"))?;
    let half = title.contains("半年度");
    let year = short_lines.iter().find_map(|line| {
        let (before, _) = line.split_once('年')?;
        let digits: String = before
            .chars()
            .rev()
            .take_while(char::is_ascii_digit)
            .collect();
        four_digits(&digits.chars().rev().collect::<String>())
    });
    let company = short_lines.iter().find_map(|line| {
        let end = line.find("有限公司")? + "有限公司".len();
        let name = line[..end].trim_start_matches(|c: char| !c.is_alphabetic());
        (name.chars().count() >= 6).then(|| name.to_owned())
    });
    let end = if half { "06-30" } else { "12-31" };
    Some(FilingFacts {
        issuer: company.map(|name| page.fact(name)),
        form: Some(page.fact(if half {
            "interim_report"
        } else {
            "annual_report"
        })),
        fiscal_year: year.map(|year| page.fact(year.to_string())),
        fiscal_period: (!half).then(|| page.fact("FY")),
        period_end: year.map(|year| {
            let fact = page.fact(format!("{year}-{end}"));
            fact.with_source(FactSource::Derived)
        }),
        ..FilingFacts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::facts::extract_facts;
    use super::super::fixture::paged;

    fn render(pages: &[&str]) -> String {
        let facts = extract_facts(&paged(pages));
        facts
            .entries()
            .iter()
            .map(|(name, fact)| format!("{name}={}\n", fact.value))
            .collect()
    }

    #[test]
    fn release_is_recognized_by_headline() {
        let page = "March 9, 2023\nAcme Anvils Announces Fourth Quarter\nFiscal 2022 Results\n\
            BOLT, Ill.--(BUSINESS WIRE)-- Acme Anvils, Inc. (NASDAQ: ACME) today announced results for the period and the\n\
            year (“fiscal year”) ended January 28, 2023 compared to the same period of the year before that is over.";
        insta::assert_snapshot!(render(&[page]), @r"
        company=Acme Anvils, Inc.
        form=earnings_release
        fiscal_year=2022
        fiscal_period=Q4
        period_end=2023-01-28
        ticker=ACME
        language=en
        ");
    }

    #[test]
    fn release_issuer_from_headline() {
        let page = "FOR IMMEDIATE RELEASE\nTHE ACME COMPANY REPORTS\nFIRST QUARTER EARNINGS FOR FISCAL 2025\nThe sales rose.";
        insta::assert_snapshot!(render(&[page]), @r"
        company=THE ACME COMPANY
        form=earnings_release
        fiscal_year=2025
        fiscal_period=Q1
        language=en
        ");
    }

    #[test]
    fn release_title_names_company_and_quarter() {
        let page = "Acme Anvils, Inc. Third Quarter 2023 Results\nSales rose in the quarter ended September 30, 2023.";
        insta::assert_snapshot!(render(&[page]), @r"
        company=Acme Anvils, Inc.
        form=earnings_release
        fiscal_year=2023
        fiscal_period=Q3
        period_end=2023-09-30
        ");
        assert_eq!(
            render(&["Survey of anvils\nThe results of the third quarter are below."]),
            "language=en\n"
        );
    }

    #[test]
    fn date_of_a_release_is_not_its_fiscal_year() {
        let page = "BOLT, January 26, 2023 – Acme reports fourth quarter 2022 results\nSales rose.";
        insta::assert_snapshot!(render(&[page]), @r"
        company=Acme
        form=earnings_release
        fiscal_year=2022
        fiscal_period=Q4
        ");
    }

    #[test]
    fn dates_of_an_outlook_are_not_the_end_of_the_period() {
        let first = "Acme Announces First Quarter Fiscal 2024 Results\nBOLT, May 31, 2023 – Acme today announced results for its \
            first quarter fiscal 2024 ended April 30, 2023.";
        let outlook = "Guidance\nFiscal Year Ended January 31, 2024 is better.";
        let table = "Guidance for the fiscal year ended January 31, 2024\nThree months ended April 30, 2023";
        let annual = "Acme Announces First Quarter Fiscal 2024 Results\nRisks are described in its annual report for the year ended \
            January 31, 2023.";
        for pages in [
            [first, outlook],
            ["Acme Announces First Quarter Fiscal 2024 Results", table],
            [annual, "Three months ended April 30, 2023"],
        ] {
            let facts = render(&pages);
            assert!(facts.contains("period_end=2023-04-30\n"), "{facts}");
        }
    }

    #[test]
    fn chinese_annual_report_is_recognized_by_title() {
        insta::assert_snapshot!(render(&["华岳食品股份有限公司\n2022 年年度报告\n2023 年 4 月"]), @r"
        company=华岳食品股份有限公司
        form=annual_report
        fiscal_year=2022
        fiscal_period=FY
        period_end=2022-12-31
        ");
        assert_eq!(
            render(&[
                "公司在上一年度报告中说明，该项目将在未来三年内完成，并且在以后的年度报告中继续披露进展情况。"
            ]),
            "language=zh\n"
        );
    }

    #[test]
    fn annual_report_is_recognized_by_title() {
        insta::assert_snapshot!(render(&["", "110th\nAnnual Report of the Board of\nAnvils\n2023"]), @r"
        form=annual_report
        fiscal_year=2023
        fiscal_period=FY
        ");
        assert_eq!(
            render(&["As the annual report of 2020 says, it rains."]),
            ""
        );
    }
}
