//! What a filing states about itself, from its cover; never from a file name, and never guessed.
//!
//! The cover of a form is the first page near the front with a line that is the form's name (`FORM 10-K/A`) below the
//! Commission's. A document without one may be an earnings release (its headline says so) or an annual report (its title
//! says so). What the EDGAR envelope of a submission states fills in what the text leaves open.

use stemma_document::{Body, Fact, FactSource, FilingFacts, Line, PageNo, Source};

use super::dates::{self, Date};
use super::{fiscal, language, release};

/// Pages in which a cover is looked for: an annual report to shareholders may stand before the form.
const FRONT_PAGES: usize = 15;
/// Lines of a text that are taken as its front page, and of a page that are looked at.
const FRONT_LINES: usize = 250;
/// Bytes of a line that are looked at.
const LINE_BYTES: usize = 400;
/// Words behind a caption in which its date stands.
const DATE_WORDS: usize = 14;
/// Lines above the registrant's caption in which the name stands.
const NAME_LINES: usize = 4;

/// The facts the document states.
pub(super) fn facts(source: &Source) -> FilingFacts {
    let front = front_pages(source);
    let mut facts = match front.iter().find_map(|page| Some((page, form(page)?))) {
        Some((cover, form)) => cover_facts(cover, form),
        None => release::facts(&front),
    };
    take_envelope(source, &mut facts);
    fiscal::fill(&mut facts, source);
    facts.language = language_of(source);
    facts
}

/// A front page: its lines, shortened, blank ones left out.
#[derive(Debug)]
pub(super) struct FrontPage<'a> {
    pub(super) page: Option<PageNo>,
    pub(super) lines: Vec<&'a str>,
    /// The same lines as laid out; empty in a text.
    pub(super) layout: Vec<&'a Line>,
}

impl<'a> FrontPage<'a> {
    pub(super) fn fact(&self, value: impl Into<String>) -> Fact {
        Fact::text(value, self.page)
    }

    pub(super) fn words(&self) -> Vec<&'a str> {
        self.lines.iter().flat_map(|line| line.split_whitespace()).collect()
    }
}

/// The pages in which a document says what it is.
pub(super) fn front_pages(source: &Source) -> Vec<FrontPage<'_>> {
    let shorten = |text: &'_ str| text.floor_char_boundary(LINE_BYTES);
    match &source.body {
        Body::Lines(text) => {
            let lines = text.lines.iter().take(FRONT_LINES).map(|line| line[..shorten(line)].trim());
            vec![FrontPage { page: None, lines: lines.filter(|line| !line.is_empty()).collect(), layout: vec![] }]
        }
        Body::Pages(pages) => {
            let mut front = Vec::new();
            for (index, page) in pages.iter().take(FRONT_PAGES).enumerate() {
                let layout: Vec<&Line> =
                    page.lines.iter().take(FRONT_LINES).filter(|line| !line.text.trim().is_empty()).collect();
                let lines = layout.iter().map(|line| line.text[..shorten(&line.text)].trim()).collect();
                front.push(FrontPage { page: Some(PageNo::from_index(index)), lines, layout });
            }
            front
        }
    }
}

/// Lower-case letters and digits: letter-spaced captions compare equal.
pub(super) fn squash(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Forms by their squashed names.
const FORMS: [(&str, &str); 14] = [
    ("10k", "10-K"),
    ("10kt", "10-KT"),
    ("10k405", "10-K405"),
    ("10ksb", "10-KSB"),
    ("10q", "10-Q"),
    ("10qt", "10-QT"),
    ("8k", "8-K"),
    ("20f", "20-F"),
    ("40f", "40-F"),
    ("6k", "6-K"),
    ("11k", "11-K"),
    ("s1", "S-1"),
    ("s4", "S-4"),
    ("f1", "F-1"),
];

/// The form whose cover the page is, with its amendment mark.
fn form(page: &FrontPage<'_>) -> Option<String> {
    let commission = page.lines.iter().position(|line| squash(line).contains("securitiesandexchangecommission"))?;
    let named = page.lines.iter().enumerate().find_map(|(at, line)| Some((at, form_name(line)?)));
    let (at, (name, amended)) = named.filter(|(at, _)| at.abs_diff(commission) < 15)?;
    let below = page.lines.iter().skip(at + 1).take(4);
    let amendment = below.into_iter().any(|line| squash(line).starts_with("amendmentno"));
    Some(if amended || amendment { format!("{name}/A") } else { name.into() })
}

/// The form a line names, and whether it says that it is an amendment.
fn form_name(line: &str) -> Option<(&'static str, bool)> {
    let squashed = squash(line);
    let name = squashed.strip_prefix("form").filter(|name| name.len() < 40)?;
    let plain = |name: &str| FORMS.iter().find(|(key, _)| *key == name).map(|(_, form)| *form);
    if let Some(form) = plain(name) {
        return Some((form, false));
    }
    let name = name.split_once("amendmentno").map_or(name, |(name, _)| name);
    let mark = line.contains('/') || name.len() + 4 < squashed.len();
    plain(name.strip_suffix('a').unwrap_or(name)).filter(|_| mark).map(|form| (form, true))
}

fn cover_facts(cover: &FrontPage<'_>, form: String) -> FilingFacts {
    FilingFacts {
        issuer: registrant(cover).map(|name| cover.fact(name)),
        period_end: period_end(cover, &form).map(|date| cover.fact(date.iso())),
        file_number: file_number(cover).map(|number| cover.fact(number)),
        form: Some(cover.fact(form)),
        ..FilingFacts::default()
    }
}

/// The name above its caption; on covers without the caption, the line below the file number.
fn registrant(cover: &FrontPage<'_>) -> Option<String> {
    let squashed: Vec<String> = cover.lines.iter().map(|line| squash(line)).collect();
    let name = match squashed.iter().position(|line| line.contains("exactnameofregistrant")) {
        Some(caption) => {
            let above = caption.saturating_sub(NAME_LINES)..caption;
            above.rev().find(|at| is_name(&squashed[*at])).map(|at| cover.lines[at])
        }
        None => {
            let number = squashed.iter().position(|line| line.starts_with("commissionfile"))?;
            let below = number + 1..squashed.len().min(number + 3);
            below.into_iter().find(|at| is_name(&squashed[*at])).map(|at| cover.lines[at])
        }
    };
    name.map(clean_name).filter(|name| name.len() <= 200)
}

/// Whether a squashed cover line can be a name: no caption, no rule, no bare number.
fn is_name(squashed: &str) -> bool {
    const CAPTIONS: [&str; 12] = [
        "commissionfile",
        "form",
        "markone",
        "forthe",
        "transition",
        "annualreport",
        "quarterlyreport",
        "currentreport",
        "dateofreport",
        "pursuant",
        "orthe",
        "stateof",
    ];
    squashed.chars().filter(|c| c.is_alphabetic()).count() >= 2
        && squashed != "or"
        && !CAPTIONS.iter().any(|caption| squashed.starts_with(caption))
        && !squashed.contains("securitiesandexchange")
        && !squashed.contains("filenumber")
}

/// White space folded, marks around the name dropped, and capitals set apart by their size rejoined (`R ESORTS`).
pub(super) fn clean_name(text: &str) -> String {
    let text = text.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | ')' | '!'));
    let words: Vec<&str> = text.split_whitespace().collect();
    let capitals = |word: &str| word.chars().count() > 2 && word.chars().all(|c| c.is_uppercase());
    let lone = |word: &str| word.len() == 1 && word.chars().all(|c| c.is_uppercase());
    let split = |at: usize| lone(words[at]) && words.get(at + 1).is_some_and(|next| capitals(next));
    // One lone capital may be an initial; two before capitals are small capitals torn apart.
    let torn = (0..words.len()).filter(|at| split(*at)).count() >= 2;
    let mut name = String::new();
    for (at, word) in words.iter().enumerate() {
        name.push_str(word);
        name.push_str(if torn && split(at) || at + 1 == words.len() { "" } else { " " });
    }
    name
}

fn period_end(cover: &FrontPage<'_>, form: &str) -> Option<Date> {
    let words = cover.words();
    match form.split(['-', '/']).next() {
        Some("8" | "6") => reported(&words),
        _ if form.starts_with("10-Q") => {
            after(&words, &["period", "ended"]).or_else(|| after(&words, &["quarter", "ended"]))
        }
        _ => after(&words, &["year", "ended"]).or_else(|| after(&words, &["period", "ended"])),
    }
}

/// Index behind the first place where the words are `caption`, compared without case and punctuation.
pub(super) fn find(words: &[&str], caption: &[&str]) -> Option<usize> {
    let same = |(word, caption): (&&str, &&str)| {
        word.trim_matches(|c: char| !c.is_alphanumeric()).eq_ignore_ascii_case(caption)
    };
    let at = words.windows(caption.len()).position(|window| window.iter().zip(caption).all(same))?;
    Some(at + caption.len())
}

/// The date behind a caption.
fn after(words: &[&str], caption: &[&str]) -> Option<Date> {
    let start = find(words, caption)?;
    dates::first(&words[start..words.len().min(start + DATE_WORDS)]).map(|(date, _, _)| date)
}

/// The date of the earliest event of a current report: the second one of `May 20, 2022 (May 18, 2022)`.
fn reported(words: &[&str]) -> Option<Date> {
    let start = find(words, &["event", "reported"]).or_else(|| find(words, &["date", "of", "report"]))?;
    let behind = &words[start..words.len().min(start + DATE_WORDS)];
    let Some((date, _, end)) = dates::first(behind) else {
        let before = &words[start.saturating_sub(DATE_WORDS)..start];
        return dates::first(before).map(|(date, _, _)| date);
    };
    let rest = &behind[end..];
    let in_brackets = rest.first().is_some_and(|word| word.starts_with('('));
    let second = dates::first(rest).filter(|(_, at, _)| in_brackets && *at == 0);
    Some(second.map_or(date, |(second, _, _)| second.min(date)))
}

/// The Commission file number on, below or above its caption.
fn file_number(cover: &FrontPage<'_>) -> Option<String> {
    let squashed: Vec<String> = cover.lines.iter().map(|line| squash(line)).collect();
    let captions = squashed.iter().enumerate().filter(|(at, line)| {
        let split = line.contains("commission") && squashed.get(at + 1).is_some_and(|next| next.contains("filenumber"));
        line.contains("commissionfile") || split
    });
    let near = |at: usize| {
        // A caption in brackets stands under its value.
        let bracketed = cover.lines[at].contains('(');
        let order: [isize; 4] = if bracketed { [-1, -2, 0, 1] } else { [0, 1, -1, 2] };
        order.into_iter().filter_map(move |step| cover.lines.get(at.checked_add_signed(step)?).copied())
    };
    captions.flat_map(|(at, _)| near(at)).flat_map(str::split_whitespace).find_map(as_file_number)
}

/// One to three digits, a hyphen, three to six digits, and sometimes two more: seven would be a tax number.
fn as_file_number(word: &str) -> Option<String> {
    let word = word.trim_matches(|c: char| !c.is_ascii_digit()).replace(['–', '‑', '‐'], "-");
    let parts: Vec<&str> = word.split('-').collect();
    let digits = parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    (digits && matches!(lengths[..], [1..=3, 3..=6] | [1..=3, 3..=6, 2])).then_some(word)
}

/// What the envelope of a submission states, where the text leaves it open.
fn take_envelope(source: &Source, facts: &mut FilingFacts) {
    if !source.metadata.contains_key("accession") {
        return;
    }
    let stated = |key: &str| {
        let value = source.metadata.get(key).filter(|value| !value.is_empty())?;
        Some(Fact::stated(value.chars().take(200).collect::<String>(), FactSource::Header))
    };
    facts.form = facts.form.take().or_else(|| stated("form"));
    facts.issuer = facts.issuer.take().or_else(|| stated("company"));
    let period = stated("period").filter(|period| Date::from_iso(&period.value).is_some());
    facts.period_end = facts.period_end.take().or(period);
}

fn language_of(source: &Source) -> Option<Fact> {
    let (page, code) = match &source.body {
        Body::Lines(text) => (None, language::language(text.lines.iter().map(String::as_str))),
        Body::Pages(pages) => {
            let lines = pages.iter().flat_map(|page| &page.lines).map(|line| line.text.as_str());
            let first = pages.iter().position(|page| !page.lines.is_empty());
            (first.map(PageNo::from_index), language::language(lines))
        }
    };
    code.map(|code| Fact::text(code, page))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{lines, paged};
    use super::*;

    fn shown(facts: &FilingFacts) -> String {
        let known = facts.known();
        let page = |fact: &Fact| fact.page.map_or("-".into(), |page| page.to_string());
        known.iter().map(|(name, fact)| format!("{name}={} p{}\n", fact.value, page(fact))).collect()
    }

    const TOP: &str = "UNITED STATES\nSECURITIES AND EXCHANGE COMMISSION\nWashington, D.C. 20549\n";

    #[test]
    fn an_annual_report_on_its_form() {
        let cover = format!(
            "{TOP}FORM 10-K\n(Mark One)\n☒ ANNUAL REPORT PURSUANT TO SECTION 13\nFor the fiscal year ended\nJune 30, 2022\n\
             or\nCommission File Number 001-98765\nACME ANVILS, INC.\n(Exact name of registrant as specified in its charter)\n\
             Ohio 12-3456789\nThe shares of the company are listed and the form is not for sale with that"
        );
        insta::assert_snapshot!(shown(&facts(&paged(&["Letter to the owners of the shares", &cover]))), @r"
        company=ACME ANVILS, INC. p2
        form=10-K p2
        fiscal_year=2022 p2
        fiscal_period=FY p2
        period_end=2022-06-30 p2
        file_number=001-98765 p2
        language=en p1
        ");
    }

    #[test]
    fn a_current_report_with_an_earlier_event_and_captions_below_values() {
        let cover = format!(
            "{TOP}FORM 8-K/A\nCURRENT REPORT\nDate of report (Date of earliest event reported): May 20, 2022 (May 18, 2022)\n\
             Acme Anvils, Inc.\n(Exact name of registrant as specified in charter)\nOhio 1-10299 12-3456789\n\
             (State or other (Commission (IRS Employer\nof incorporation) File Number) Identification No.)"
        );
        insta::assert_snapshot!(shown(&facts(&paged(&[&cover]))), @r"
        company=Acme Anvils, Inc. p1
        form=8-K/A p1
        period_end=2022-05-18 p1
        file_number=1-10299 p1
        language=en p1
        ");
    }

    #[test]
    fn a_quarterly_report_printed_in_columns() {
        let cover = format!(
            "{TOP}FORM 10-Q\nFor the quarterly period ended Commission file\nMarch 31, 2021 number 1-5805\n\
             A CME A NVILS & Co.\n(Exact name of registrant as specified in its charter)"
        );
        let text = "Our Annual Report on Form 10-K for the year ended\nDecember 31, 2020 is filed.";
        insta::assert_snapshot!(shown(&facts(&paged(&[&cover, text]))), @r"
        company=ACME ANVILS & Co. p1
        form=10-Q p1
        fiscal_year=2021 p1
        fiscal_period=Q1 p1
        period_end=2021-03-31 p1
        file_number=1-5805 p1
        language=en p1
        ");
    }

    #[test]
    fn amendments_are_marked() {
        let named = |line: &str| form_name(line).map(|(form, amended)| format!("{form} {amended}"));
        assert_eq!(named("FORM 10-K/A").as_deref(), Some("10-K true"));
        assert_eq!(named("Form 10-K (Amendment No. 2)").as_deref(), Some("10-K true"));
        assert_eq!(named("F O R M 1 0 - Q").as_deref(), Some("10-Q false"));
        assert_eq!(named("FORM 10-K SUMMARY"), None);
        assert_eq!(named("Form 10-K of our company"), None);
    }

    #[test]
    fn what_is_not_stated_stays_open() {
        let paper = paged(&["A study of anvils and of the way they are used in the art\nby W. E. Coyote"]);
        insta::assert_snapshot!(shown(&facts(&paper)), @"language=en p1");
        assert!(facts(&lines("")).known().is_empty());
    }

    #[test]
    fn the_envelope_of_a_submission_fills_gaps() {
        let mut source = lines("some text of the filing that has no cover and is in the language of the company");
        for (key, value) in [("accession", "1"), ("form", "10-K"), ("company", "ACME"), ("period", "2021-12-31")] {
            source.metadata.insert(key.into(), value.into());
        }
        insta::assert_snapshot!(shown(&facts(&source)), @r"
        company=ACME p-
        form=10-K p-
        fiscal_year=2021 p-
        fiscal_period=FY p-
        period_end=2021-12-31 p-
        language=en p-
        ");
    }
}
