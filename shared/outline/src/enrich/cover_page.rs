//! Reads the cover of a form: form, registrant, period, file numbers, state.
//!
//! Covers put a value above its caption in brackets, next to it, or below it in a table; several values may share a line
//! (`Delaware  1-3285  41-0417775`). Values are therefore recognized by their shape first and by their caption second.

use stemma_document::text::normalize_key;
use stemma_document::{Fact, FilingFacts};
use stemma_reading::calendar::{self, CalendarDate};
use stemma_reading::vocabulary::{
    IRS_CAPTIONS, NUMBER_CAPTIONS, PLACE_CAPTIONS, QUARTER_CAPTIONS, SMALL_NAME_WORDS,
    STATE_CAPTIONS, YEAR_CAPTIONS,
};

use super::cover_form::cover_form;
use super::front_page::{FrontPage, find_caption};
use super::identifiers::{parse_file_number, parse_irs_number};
use super::{co_registrants, registrant, securities};

// A date is within this many words after its caption, even in columns printed side by side.
const DATE_WORDS: usize = 14;

/// The facts of the first cover among the front pages. `signed_name` is the name in the signature block.
pub(super) fn cover_facts(
    front: &[FrontPage<'_>],
    signed_name: Option<&Fact>,
) -> Option<FilingFacts> {
    let (at, form) = front
        .iter()
        .enumerate()
        .find_map(|(at, page)| Some((at, cover_form(page)?)))?;
    let cover = &front[at];
    let mut facts = FilingFacts {
        issuer: registrant::registrant_on_cover(cover, signed_name),
        period_end: period_end(cover, &form),
        file_number: file_number(cover).map(|number| quoted(cover, number)),
        irs_number: irs_number(cover).map(|number| quoted(cover, number)),
        state: state(cover).map(|state| quoted(cover, state)),
        form: Some(form_fact(cover, form)),
        ..FilingFacts::default()
    };
    let mut registrants = co_registrants::registrants(cover).into_iter();
    if let Some(first) = registrants.next() {
        let own = |value: Option<String>| value.map(|value| quoted(cover, value));
        facts.issuer = Some(first.name);
        facts.file_number = own(first.file_number).or(facts.file_number);
        facts.irs_number = own(first.irs_number).or(facts.irs_number);
        facts.state = own(first.state);
        facts.co_registrants = registrants.collect();
    }
    // A long cover continues on the next page, and so may its table of securities.
    let pages = &front[at..front.len().min(at + 2)];
    facts.tickers = pages
        .iter()
        .map(securities::tickers)
        .find(|items| !items.is_empty())
        .unwrap_or_default();
    Some(facts)
}

/// A value with the line of the cover that has it.
fn quoted(cover: &FrontPage<'_>, value: String) -> Fact {
    let line = cover.lines.iter().find(|line| line.contains(&value));
    let line = line.copied().unwrap_or_else(|| line_with(cover, &value));
    cover.fact(value).with_evidence(line)
}

/// The form with the line of the cover that names it.
fn form_fact(cover: &FrontPage<'_>, form: String) -> Fact {
    let line = line_with(cover, form.trim_end_matches("/A"));
    cover.fact(form).with_evidence(line)
}

/// The first line that has the letters and digits of a value; else empty.
fn line_with<'a>(cover: &FrontPage<'a>, value: &str) -> &'a str {
    let key = normalize_key(value);
    let at = cover.keys.iter().position(|line| line.contains(&key));
    at.map_or("", |at| cover.lines[at])
}

/// The end of the period, with the words from its caption to the date.
fn period_end(cover: &FrontPage<'_>, form: &str) -> Option<Fact> {
    let words = cover.words();
    let name = form.split('/').next().unwrap_or(form);
    let captions: &[&str] = match name {
        "10-KT" | "10-QT" => &[],
        _ if name.starts_with("10-Q") => &QUARTER_CAPTIONS,
        _ => &YEAR_CAPTIONS,
    };
    // A transition report may use the plain form and leave the line of the fiscal year blank.
    let stated = match name {
        "8-K" | "8-K12B" | "6-K" => event_date(&words),
        _ => captions
            .iter()
            .find_map(|caption| date_after(&words, caption))
            .or_else(|| transition_end(&words)),
    };
    let (date, first, last) = stated?;
    Some(
        cover
            .fact(date.to_iso())
            .with_evidence(&words[first..last].join(" ")),
    )
}

/// A date with the range of the words that state it, caption included.
type StatedDate = (CalendarDate, usize, usize);

fn date_after(words: &[&str], caption: &str) -> Option<StatedDate> {
    let caption = find_caption(words, caption)?;
    let (date, _, end) = calendar::find_first(words_behind(words, caption.end))?;
    Some((date, caption.start, caption.end + end))
}

fn words_behind<'w, 't>(words: &'w [&'t str], start: usize) -> &'w [&'t str] {
    &words[start..words.len().min(start + DATE_WORDS)]
}

/// The second date of `for the transition period from … to …`.
fn transition_end(words: &[&str]) -> Option<StatedDate> {
    let caption = find_caption(words, "transition period from")?;
    let behind = words_behind(words, caption.end);
    let (_, first, end) = calendar::find_first(behind)?;
    let (date, second, last) = calendar::find_first(&behind[end..])?;
    (first <= 1 && second <= 2).then_some((date, caption.start, caption.end + end + last))
}

/// The date of the earliest event of a current report: the second one of `May 20, 2022 (May 18, 2022)`.
fn event_date(words: &[&str]) -> Option<StatedDate> {
    let start = find_caption(words, "event reported")
        .or_else(|| find_caption(words, "date of report"))?
        .end;
    let behind = words_behind(words, start);
    let caption = start.saturating_sub(3);
    let Some((date, _, end)) = calendar::find_first(behind) else {
        let from = start.saturating_sub(DATE_WORDS);
        return calendar::find_first(&words[from..start])
            .map(|(date, first, _)| (date, from + first, start));
    };
    let rest = &behind[end..];
    let in_brackets = rest.first().is_some_and(|word| word.starts_with('('));
    let second = calendar::find_first(rest).filter(|(_, at, _)| in_brackets && *at == 0);
    Some(
        second.map_or((date, caption, start + end), |(second, _, last)| {
            (second.min(date), caption, start + end + last)
        }),
    )
}

/// The Commission file number on, below or above its caption.
// A caption in brackets is below its value, any other is before or above it; the order of lines follows that.
pub(super) fn file_number(cover: &FrontPage<'_>) -> Option<String> {
    let normalized = &cover.keys;
    let captions = normalized.iter().enumerate().filter(|(at, line)| {
        let split = line.contains("commission")
            && normalized[at + 1..normalized.len().min(at + 3)]
                .iter()
                .any(|next| next.contains("filen"));
        line.contains("commissionfile") || split || line.starts_with("filen")
    });
    captions
        .flat_map(|(at, _)| {
            // A caption in brackets is below its value.
            let bracketed = cover.lines[at].contains('(');
            let order: [isize; 6] = if bracketed {
                [-1, -2, 0, 1, 2, 3]
            } else {
                [0, 1, -1, 2, 3, 4]
            };
            order
                .into_iter()
                .filter_map(move |step| cover.lines.get(at.checked_add_signed(step)?).copied())
        })
        .find_map(file_number_in)
}

fn file_number_in(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    (0..words.len()).find_map(|at| {
        // `(408) 536-6000` is a telephone number.
        let telephone = at > 0 && words[at - 1].ends_with(')') && words[at - 1].len() <= 5;
        parse_file_number(words[at]).filter(|_| !telephone)
    })
}

/// The employer identification number: two digits, a hyphen, seven digits, on a cover that speaks of employers.
pub(super) fn irs_number(cover: &FrontPage<'_>) -> Option<String> {
    let caption = cover
        .keys
        .iter()
        .position(|line| IRS_CAPTIONS.occurs_in(line))?;
    let near = cover.lines[caption.saturating_sub(6)..cover.lines.len().min(caption + 8)].iter();
    near.flat_map(|line| line.split_whitespace())
        .find_map(parse_irs_number)
}

/// The state or other jurisdiction of incorporation: after its caption, otherwise next to the numbers above or below it.
pub(super) fn state(cover: &FrontPage<'_>) -> Option<String> {
    let at = cover
        .keys
        .iter()
        .position(|line| STATE_CAPTIONS.occurs_in(line))?;
    let line = cover.lines[at];
    if let Some((_, behind)) = line
        .split_once(':')
        .filter(|_| !line.trim_start().starts_with('('))
    {
        return parse_place(behind).or_else(|| before_caption(behind));
    }
    let near: Vec<&str> = [-1, -2, 1, 2]
        .into_iter()
        .filter_map(|step| at.checked_add_signed(step))
        .filter(|at| {
            cover
                .keys
                .get(*at)
                .is_some_and(|key| !key.contains("incorporation"))
        })
        .map(|at| cover.lines[at])
        .collect();

    near.iter()
        .filter(|line| {
            line.split_whitespace()
                .any(|word| parse_irs_number(word).is_some() || parse_file_number(word).is_some())
        })
        .find_map(|line| beside_numbers(line))
        .or_else(|| near.iter().find_map(|line| parse_place(line)))
}

/// The place before the next caption of a line: `Delaware  I.R.S. Employer Identification No. …`.
fn before_caption(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let end = words
        .iter()
        .position(|word| NUMBER_CAPTIONS.contains(&normalize_key(word)))?;
    parse_place(&words[..end].join(" "))
}

/// The words before the first number of a line, or after its last.
fn beside_numbers(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let first = words.iter().position(|word| has_digit(word))?;
    let last = words.iter().rposition(|word| has_digit(word))?;
    parse_place(&words[..first].join(" ")).or_else(|| parse_place(&words[last + 1..].join(" ")))
}

fn has_digit(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

/// The name of a state or country: up to five capitalized words without digits and without words of captions.
pub(super) fn parse_place(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(['.', ',', ';', '|']).trim();
    let words: Vec<&str> = text.split_whitespace().collect();
    let sound = (1..=5).contains(&words.len())
        && normalize_key(text).len() >= 2
        && words.iter().all(|word| {
            let letters = word
                .chars()
                .all(|c| c.is_alphabetic() || matches!(c, '.' | ',' | '-' | '\'' | '’'));
            letters && (SMALL_NAME_WORDS.contains(word) || word.starts_with(char::is_uppercase))
        });
    // Compare whole words: `Province` contains `inc`.
    (sound
        && !words
            .iter()
            .any(|word| PLACE_CAPTIONS.contains(&normalize_key(word))))
    .then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::facts::extract_facts as facts_of;
    use super::super::fixture::{lines, paged};
    use super::*;

    fn render(cover: &str) -> String {
        let render = |facts: FilingFacts| {
            let stated = facts
                .entries()
                .into_iter()
                .filter(|(name, _)| *name != "language");
            stated
                .map(|(name, fact)| format!("{name}={}", fact.value))
                .collect::<Vec<_>>()
                .join(" | ")
        };
        let text = render(facts_of(&lines(cover)));
        let pages = render(facts_of(&paged(&[cover])));
        assert_eq!(text, pages, "the same in a text");
        pages
    }

    const TOP: &str = "UNITED STATES\nSECURITIES AND EXCHANGE COMMISSION\nWashington, D.C. 20549\n";

    #[test]
    fn cover_layouts() {
        let cases = [
            // Captions in brackets below values, three values on a line.
            (
                "FORM 8-K\nCURRENT REPORT\nDate of Report (Date of earliest event reported): April 26, 2022\nACME PLC\n\
                 (Exact name of registrant as specified in its charter)\nJersey 001-38932 98-1455367\n\
                 (State or other jurisdiction (Commission File Number) (IRS Employer Identification No.)\nof incorporation)",
                "company=ACME PLC | form=8-K | period_end=2022-04-26 | file_number=001-38932 | irs_number=98-1455367 | state=Jersey",
            ),
            // Captions before values, none for the name.
            (
                "FORM 10-K\nFor the fiscal year ended December 31, 2022\nCommission file number 1-44\nACME COMPANY\n\
                 State of Incorporation: New York\nI.R.S. Employer Identification No. 41-0417775",
                "company=ACME COMPANY | form=10-K | fiscal_year=2022 | fiscal_period=FY | period_end=2022-12-31 | file_number=1-44 | irs_number=41-0417775 | state=New York",
            ),
            // Letter-spaced, a name on two lines, values in lines of their own.
            (
                "F O R M 1 0 - K\n(Mark One)\n☒ ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT\n\
                 OF 1934\nFor the fiscal year ended June 30, 2021\nCommission File Number: 000-12345\nEXAMPLE ANVIL AND HAMMER\n\
                 CORPORATION\n(Exact name of registrant as specified in its charter)\nDelaware\n\
                 (State or other jurisdiction of incorporation)\n12-3456789\n(I.R.S. Employer Identification No.)",
                "company=EXAMPLE ANVIL AND HAMMER CORPORATION | form=10-K | fiscal_year=2021 | fiscal_period=FY | period_end=2021-06-30 | file_number=000-12345 | irs_number=12-3456789 | state=Delaware",
            ),
            // Several registrants in a table.
            (
                "FORM 10-Q\nFor the quarterly period ended September 30, 2020\n\
                 Commission Exact name of registrant as specified in its charter; I.R.S. Employer\n\
                 File Number State or other jurisdiction of incorporation Identification No.\n\
                 1-3526 The Example Power Company (A Delaware Corporation) 58-0690070\n1-3164 Example Light Company 63-0004250",
                "company=The Example Power Company | form=10-Q | period_end=2020-09-30 | file_number=1-3526 | irs_number=58-0690070 | state=Delaware | co_registrant=Example Light Company",
            ),
            // A transition report on its own form.
            (
                "FORM 10-KT\nFor the transition period from July 1, 2019 to December 31, 2019\nCommission file number 0-15175\n\
                 Acme Anvils, Inc.\n(Exact name of registrant as specified in its charter)",
                "company=Acme Anvils, Inc. | form=10-KT | period_end=2019-12-31 | file_number=0-15175",
            ),
            // The name is not there as text: nothing near it is taken for it.
            (
                "FORM 10-Q\n☒ QUARTERLY REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT\nOF 1934\n\
                 For the quarterly period ended June 2, 2023\n☐\nOF 1934\nFor the transition period from to\n\
                 Commission File Number: 0-15175\n(Exact name of registrant as specified in its charter)",
                "form=10-Q | period_end=2023-06-02 | file_number=0-15175",
            ),
            // An amendment, marked on the line below; the date is above its caption.
            (
                "FORM 8-K\nAmendment No. 1\nMay 5, 2020\nDate of Report (Date of earliest event reported)\nAcme Corp\n\
                 (Exact name of registrant as specified in its charter)\nCommission File Number 333-12345-01",
                "company=Acme Corp | form=8-K/A | period_end=2020-05-05 | file_number=333-12345-01",
            ),
            (
                "SCHEDULE 14A\nProxy Statement Pursuant to Section 14(a)\n☐ Preliminary Proxy Statement\n☒ Definitive Proxy Statement\n\
                 ACME ANVILS, INC.\n(Name of Registrant as Specified In Its Charter)",
                "company=ACME ANVILS, INC. | form=DEF 14A",
            ),
            (
                "FORM 20-F\nFOR THE FISCAL YEAR ENDED December 31, 2021\nCommission file number: 001-31000\nAcme S.A.\n\
                 (Exact name of Registrant as specified in its charter)",
                "company=Acme S.A. | form=20-F | fiscal_year=2021 | fiscal_period=FY | period_end=2021-12-31 | file_number=001-31000",
            ),
        ];
        for (cover, expected) in cases {
            assert_eq!(render(&format!("{TOP}{cover}")), expected);
        }
    }

    #[test]
    fn a_registrant_is_known_by_its_signature_beside_the_date() {
        let cover = format!(
            "{TOP}FORM 10-Q\nFor the quarterly period ended June 2, 2023\nCommission File Number: 0-15175\n\
             (Exact name of registrant as specified in its charter)"
        );
        let signed = "SIGNATURE\nthe Company has duly caused this report\nto be signed by the undersigned thereunto duly \
             authorized.\nDate: June 30, 2023 ACME ANVILS, INC.\n/s/ W. Coyote\nW. COYOTE\nChief Financial Officer";
        let facts = crate::enrich::facts::extract_facts(&paged(&[&cover, signed]));
        assert_eq!(facts.issuer.unwrap().value, "ACME ANVILS, INC.");
    }

    #[test]
    fn places_are_distinguished_from_names_and_captions() {
        for text in ["Province of Ontario", "New York", "Delaware."] {
            assert_eq!(
                parse_place(text).as_deref(),
                Some(text.trim_end_matches('.')),
                "{text}"
            );
        }
        for text in [
            "Acme Inc.",
            "Acme Corporation",
            "Exact Name",
            "I.R.S. Employer",
            "12 Main Street",
            "",
        ] {
            assert_eq!(parse_place(text), None, "{text}");
        }
    }

    #[test]
    fn form_mention_is_not_a_cover() {
        let text = "the Securities and Exchange Commission, including its\nForm 10-K for the fiscal year ended June 30, 2022\n";
        assert_eq!(render(text), "");
        assert_eq!(
            render(
                "Reports are filed with the Securities and Exchange Commission.\nForm 10-K\nis one."
            ),
            ""
        );
    }

    #[test]
    fn securities_are_listed_with_symbols_and_exchanges() {
        let cover = format!(
            "{TOP}FORM 10-K\nFor the fiscal year ended May 31, 2023\nACME CORP\n(Exact name of registrant as specified in its charter)\n\
             Securities registered pursuant to Section 12(b) of the Act:\n\
             Title of each class Trading Symbol(s) Name of each exchange on which registered\n\
             Common Stock, par value $0.10 per share ACM New York Stock Exchange\n0.450% Notes due 2025 ACM 25A New York Stock Exchange\n\
             Depositary Shares, Series GG ACM PR J The New York Stock Exchange\nACM Chicago Stock Exchange, Inc.\n\
             Class B ACB New York Stock Exchange , Inc. / Chicago Stock Exchange, Inc.\nThe NASDAQ Stock Exchange\n\
             American Depositary Shares New York Stock Exchange\n\
             New York Stock Exchange under the symbol and also, since the last year, on the Chicago Stock Exchange\n\
             Securities registered pursuant to Section 12(g) of the Act: None\n\
             Shares held by non-affiliates on November 30, 2022: 250,000,000 shares, outstanding and priced at $ 1,000,000,000\n\
             As of July 1, 2023, 251,487,122 shares of Common Stock were outstanding"
        );
        let facts = facts_of(&paged(&[&cover]));
        let tickers: Vec<_> = facts
            .tickers
            .iter()
            .map(|t| (t.symbol.value.as_str(), t.exchange.as_deref().unwrap_or("")))
            .collect();
        assert_eq!(
            tickers,
            [
                ("ACM", "New York Stock Exchange"),
                ("ACM 25A", "New York Stock Exchange"),
                ("ACM PR J", "The New York Stock Exchange"),
                ("ACM", "Chicago Stock Exchange, Inc."),
                ("ACB", "New York Stock Exchange, Inc."),
                ("ACB", "Chicago Stock Exchange, Inc."),
                ("ACB", "The NASDAQ Stock Exchange"),
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_cover_panics(text in "(?s)(UNITED STATES\nSECURITIES AND EXCHANGE COMMISSION\nFORM 10-K/?A?\n)?[ -~é☒–\n]{0,400}") {
            let _ = facts_of(&lines(&text));
            let _ = facts_of(&paged(&[&text, &text]));
        }
    }
}
