//! Which form the cover of a filing names.
//!
//! Filings mention forms on every page. A cover has the name of the Commission (or the caption of the registrant) nearby, and
//! the name of the form alone on its line. A prospectus has no such cover: its first lines name the rule under which it is
//! filed, and that counts more than the forms it quotes below. Boxes tell what one cover serves for.

use stemma_document::text::normalize_key;
use stemma_reading::calendar;
use stemma_reading::vocabulary::{
    AFTER_COMMISSION, AFTER_FORM, AMENDMENT_JOINTS, AMENDMENT_NUMBERS, BOXED_FORMS,
    COMMISSION_NAMES, CONTESTED_FORMS, COVER_FORMS, EFFECTIVE_AMENDMENTS, FUND_PERIODS,
    FUND_YEAR_ENDS, NOTHING_REGISTERED, OTHER_PARTIES, POST_EFFECTIVE_FORMS, REGISTRANT_NAMES,
    RULE_FORMS, RULE_OPENINGS, SCHEDULE_FORMS, UNAMENDED_FORMS, UNREGISTERED_SECTIONS, WordList,
    WordMap,
};

use super::front_page::FrontPage;

// Lines between the names of the Commission and the form; further away, the form is only mentioned.
const NAMES_APART: usize = 15;
// A prospectus names its rule among its first lines.
const RULE_LINES: usize = 15;
// Longer lines are sentences.
const MAX_NAME: usize = 160;

/// The form whose cover the page is, with `/A` for amendments.
pub(super) fn cover_form(page: &FrontPage<'_>) -> Option<String> {
    if let Some(form) = rule_form(page) {
        return Some(form.into());
    }
    let anchor = commission_line(page).or_else(|| {
        page.keys
            .iter()
            .position(|line| REGISTRANT_NAMES.occurs_in(line))
    })?;
    let around = 0..page.keys.len();
    let near = around.filter(|at| at.abs_diff(anchor) < NAMES_APART);
    let behind = near.clone().filter(|at| *at >= anchor);
    let by_form =
        near.filter_map(|at| Some((at, form_name(page.lines[at], &page.keys[at], Naming::Form)?)));
    let by_schedule = behind.filter_map(|at| {
        Some((
            at,
            form_name(page.lines[at], &page.keys[at], Naming::Schedule)?,
        ))
    });
    let (at, (name, is_marked)) = by_form.chain(by_schedule).next()?;
    let amendment = amendment_near(&page.keys, at);
    let name = settled(page, name);
    if amendment == Some(Amendment::PostEffective)
        && let Some(form) = POST_EFFECTIVE_FORMS.get(name)
    {
        return Some(form.into());
    }
    let is_amended = (is_marked || amendment.is_some()) && !UNAMENDED_FORMS.occurs_in(name);
    let mark = if is_amended { "/A" } else { "" };
    Some(format!("{name}{mark}"))
}

/// The line that names the Commission.
// On a cover only its address, a date or the form may follow its name; anything else is a sentence.
fn commission_line(page: &FrontPage<'_>) -> Option<usize> {
    let keys = &page.keys;
    (0..keys.len()).find(|at| {
        let is_split = keys[*at].ends_with("exchange")
            && keys.get(at + 1).is_some_and(|line| line == "commission");
        let line = keys[*at].as_str();
        // On ownership reports the name of the form is on the line, too.
        let named = COVER_FORMS.iter().find_map(|(name, _)| {
            let rest = line.strip_prefix(Naming::Form.word())?.strip_prefix(name)?;
            AFTER_FORM.starts(rest).then_some(rest)
        });
        let line = named.unwrap_or(line);
        let line = line.strip_prefix("unitedstates").unwrap_or(line);
        let rest = COMMISSION_NAMES
            .iter()
            .find_map(|name| line.strip_prefix(name));
        is_split || rest.is_some_and(|rest| rest.len() <= 3 || AFTER_COMMISSION.starts(rest))
    })
}

/// `Filed Pursuant to Rule 424(b)(4)` on one of the first lines.
fn rule_form(page: &FrontPage<'_>) -> Option<&'static str> {
    let mut first = page.keys.iter().take(RULE_LINES);
    first.find_map(|line| {
        let (_, form) = RULE_FORMS.iter().find(|(rule, _)| line.contains(rule))?;
        (line.len() < MAX_NAME && RULE_OPENINGS.starts(line)).then_some(*form)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amendment {
    Numbered,
    PostEffective,
}

/// The amendment that a line around the name of the form states, or one further up that says nothing else.
fn amendment_near(keys: &[String], at: usize) -> Option<Amendment> {
    let near = at.saturating_sub(3)..keys.len().min(at + 5);
    (at.saturating_sub(NAMES_APART)..near.end)
        .filter_map(|line| {
            let (kind, number) = amendment(&keys[line])?;
            let is_whole = number.chars().all(is_digit);
            (number.starts_with(is_digit) && (is_whole || near.contains(&line))).then_some(kind)
        })
        .max_by_key(|kind| *kind == Amendment::PostEffective)
}

/// What is behind `Amendment No.` at the start of a normalized line.
fn amendment(line: &str) -> Option<(Amendment, &str)> {
    let effective = EFFECTIVE_AMENDMENTS
        .iter()
        .find_map(|(word, kind)| Some((*kind, line.strip_prefix(word)?)));
    let (kind, rest) = effective.unwrap_or(("", line));
    let kind = match kind {
        "post" => Amendment::PostEffective,
        _ => Amendment::Numbered,
    };
    let number = AMENDMENT_NUMBERS
        .iter()
        .find_map(|words| rest.strip_prefix(words));
    Some((kind, number?))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// How a cover names what it is the cover of.
#[derive(Debug, Clone, Copy)]
enum Naming {
    /// `FORM 10-K`
    Form,
    /// `SCHEDULE 13D`
    Schedule,
}

impl Naming {
    fn word(self) -> &'static str {
        match self {
            Naming::Form => "form",
            Naming::Schedule => "schedule",
        }
    }

    fn names(self) -> &'static WordMap {
        match self {
            Naming::Form => &COVER_FORMS,
            Naming::Schedule => &SCHEDULE_FORMS,
        }
    }
}

/// The form that a line names, and whether the line marks an amendment.
fn form_name(line: &str, normalized: &str, naming: Naming) -> Option<(&'static str, bool)> {
    let name = before_name(normalized)
        .strip_prefix(naming.word())
        .filter(|name| name.len() < MAX_NAME)?;
    let (key, form) = naming.names().iter().find(|(key, _)| fits(name, key))?;
    let rest = &name[key.len()..];
    // `Amendment No. 1 to Form S-1 on Form S-3` is one of the second form.
    if let Some(other) = rest
        .strip_prefix("on")
        .filter(|_| rest.starts_with("onform"))
    {
        return form_name(line, other, naming);
    }
    let slash = line
        .split_once('/')
        .is_some_and(|(_, behind)| behind.trim_start().starts_with(['A', 'a']));
    let amended = rest.starts_with("amendment") || (slash && rest.starts_with('a'));
    Some((*form, amended))
}

/// A line without `Annual Report on` or `Amendment No. 2 to` before the name of the form.
fn before_name(normalized: &str) -> &str {
    if let Some((_, number)) = amendment(normalized) {
        let rest = number.trim_start_matches(is_digit);
        return AMENDMENT_JOINTS
            .iter()
            .find_map(|word| rest.strip_prefix(word))
            .unwrap_or(rest);
    }
    AFTER_FORM
        .iter()
        .find_map(|report| normalized.strip_prefix(report)?.strip_prefix("on"))
        .unwrap_or(normalized)
}

/// Whether a normalized line names the form, alone or followed by the name of the report.
fn fits(name: &str, key: &str) -> bool {
    let Some(rest) = name.strip_prefix(key) else {
        return false;
    };
    let rest = rest
        .strip_prefix("amendmentno")
        .map_or(rest, |rest| rest.trim_start_matches(is_digit));
    let marked = rest
        .strip_prefix('a')
        .filter(|rest| !rest.starts_with("nnual"));
    [Some(rest), marked]
        .into_iter()
        .flatten()
        .any(|rest| rest.is_empty() || AFTER_FORM.starts(rest) || rest.starts_with("amendmentno"))
}

/// The form that the rest of a cover says it is: one cover serves for several.
fn settled(page: &FrontPage<'_>, name: &'static str) -> &'static str {
    let checked: Vec<String> = page
        .lines
        .iter()
        .flat_map(|line| checked_texts(line))
        .collect();
    let boxed = BOXED_FORMS.iter().find_map(|(key, form)| {
        let (of, words) = key.split_once(' ')?;
        let is_checked = of == name && checked.iter().any(|text| text.contains(words));
        is_checked.then_some(*form)
    });
    let form = boxed.unwrap_or(name);
    let is_contested = checked.iter().any(|text| OTHER_PARTIES.occurs_in(text));
    match form {
        "10" => registered_form(page).unwrap_or(form),
        "N-CSR" if is_half_year(page) => "N-CSRS",
        _ => CONTESTED_FORMS
            .get(form)
            .filter(|_| is_contested)
            .unwrap_or(form),
    }
}

/// The texts of checked boxes on a line, normalized. A line that opens with a box has each before its text.
fn checked_texts(line: &str) -> Vec<String> {
    let line = line
        .replace("[ ", "[")
        .replace(" ]", "]")
        .replace(['☒', '☑', '✓', '✔', '■', 'þ', 'ý'], " ☒ ")
        .replace(['☐', '□', '¨'], " ☐ ");
    let mut texts = Vec::new();
    let mut text = String::new();
    let mut is_checked = false;
    let mut leads = None;
    for word in line.split_whitespace() {
        let mark = box_mark(word);
        let is_leading = *leads.get_or_insert(mark.is_some());
        let Some(mark) = mark else {
            text.push_str(word);
            continue;
        };
        // `/ /` is two words of one box.
        if text.is_empty() {
            is_checked |= mark;
            continue;
        }
        let ends_checked = if is_leading { is_checked } else { mark };
        let whole = std::mem::take(&mut text);
        texts.extend(ends_checked.then(|| normalize_key(&whole)));
        is_checked = mark;
    }
    if leads == Some(true) && is_checked {
        texts.push(normalize_key(&text));
    }
    texts
}

/// Whether a word is a box, and whether it is checked.
fn box_mark(word: &str) -> Option<bool> {
    let inner = word.trim_matches(['[', ']', '(', ')', '/', '|', '_']);
    match inner {
        "☒" | "x" | "X" => Some(true),
        "☐" | "o" | "" => Some(false),
        _ => None,
    }
}

/// Form 10 by the section of the Act under which no securities are registered.
fn registered_form(page: &FrontPage<'_>) -> Option<&'static str> {
    let lines = page.keys.windows(2);
    lines.into_iter().find_map(|pair| {
        let (_, form) = UNREGISTERED_SECTIONS
            .iter()
            .find(|(section, _)| pair[0].contains(section))?;
        let is_none = NOTHING_REGISTERED.ends(&pair[0]) || NOTHING_REGISTERED.contains(&pair[1]);
        is_none.then_some(*form)
    })
}

/// Whether the report of a fund is for another day than the end of its fiscal year.
fn is_half_year(page: &FrontPage<'_>) -> bool {
    let Some(year_end) = value_behind(page, &FUND_YEAR_ENDS) else {
        return false;
    };
    let Some(period) = value_behind(page, &FUND_PERIODS) else {
        return false;
    };
    let month: String = year_end.chars().take_while(|c| c.is_alphabetic()).collect();
    let day: String = year_end[month.len()..].chars().take(2).collect();
    // Dates in numbers and dates in words are not compared.
    let is_comparable = calendar::month(&month).is_some()
        && day.starts_with(is_digit)
        && period.starts_with(|c: char| c.is_alphabetic());
    is_comparable && !period.contains(&format!("{month}{day}"))
}

/// What a caption has behind it, or on the next line.
fn value_behind<'a>(page: &'a FrontPage<'_>, captions: &WordList) -> Option<&'a str> {
    let lines = page.keys.iter().enumerate();
    let (at, rest) = lines.into_iter().find_map(|(at, line)| {
        let rest = captions
            .iter()
            .find_map(|caption| line.strip_prefix(caption))?;
        Some((at, rest))
    })?;
    match rest {
        "" => page.keys.get(at + 1).map(String::as_str),
        rest => Some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_name_variants() {
        let parsed = |line: &str| {
            form_name(line, &normalize_key(line), Naming::Form)
                .map(|(form, amended)| format!("{form} {amended}"))
        };
        for (line, form) in [
            ("FORM 10-K/A", "10-K true"),
            ("Form 10-K (Amendment No. 2)", "10-K true"),
            ("F O R M 1 0 - Q", "10-Q false"),
            ("☒ FORM 10-K405", "10-K405 false"),
            ("FORM 10-KSB", "10-KSB false"),
            ("FORM 10-QT", "10-QT false"),
            ("Form 20-F", "20-F false"),
            ("FORM 40-F", "40-F false"),
            ("FORM 6-K REPORT OF FOREIGN PRIVATE ISSUER", "6-K false"),
            (
                "FORM S-1 REGISTRATION STATEMENT UNDER THE SECURITIES ACT",
                "S-1 false",
            ),
            ("Annual Report on Form 10-K", "10-K false"),
            (
                "FORM 10-K ANNUAL REPORT PURSUANT TO SECTION 13",
                "10-K false",
            ),
            ("FORM 8-K/A CURRENT REPORT", "8-K true"),
            ("Amendment No. 2 to Form S-1", "S-1 false"),
            ("Amendment No. 1 to Form S-1 on Form S-3", "S-3 false"),
            ("FORM N-CSR CERTIFIED SHAREHOLDER REPORT", "N-CSR false"),
            ("FORM 13F COVER PAGE", "13F false"),
            ("Form 4", "4 false"),
        ] {
            assert_eq!(parsed(line).as_deref(), Some(form), "{line}");
        }
        for line in [
            "FORM 10-K SUMMARY",
            "Form 10-K of our company",
            "FORM 1040",
            "Form 4 or Form 5 obligations may continue",
            "Formation 10-K",
            "FORM",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    fn form_of(text: &str) -> Option<String> {
        let lines = text.lines().filter(|line| !line.is_empty()).collect();
        cover_form(&FrontPage::new(None, lines, Vec::new()))
    }

    const TOP: &str = "UNITED STATES\nSECURITIES AND EXCHANGE COMMISSION\nWashington, D.C. 20549\n";

    #[test]
    fn covers_name_their_forms_and_amendments() {
        for (cover, form) in [
            ("FORM S-11\nREGISTRATION STATEMENT", "S-11"),
            ("AMENDMENT NO. 3\nTO\nFORM F-1", "F-1/A"),
            ("Amendment No. 3\na\nb\nc\nd\nFORM F-1", "F-1/A"),
            ("Pre-Effective Amendment No. 2 to\nFORM S-4", "S-4/A"),
            ("POST-EFFECTIVE AMENDMENT NO. 1\nTO\nFORM S-3", "POS AM"),
            (
                "POST-EFFECTIVE AMENDMENT NO. 1 ON FORM S-8 TO FORM S-4",
                "S-8 POS",
            ),
            (
                "SCHEDULE 13D\nUnder the Securities Exchange Act\n(Amendment No. 4)*",
                "SC 13D/A",
            ),
            ("SCHEDULE 13G (Rule 13d-102)\n(Amendment No.   )*", "SC 13G"),
            ("SCHEDULE 13D/A", "SC 13D/A"),
            ("FORM 11-K\nFOR ANNUAL REPORTS", "11-K"),
            (
                "FORM 13F\n13F COVER PAGE\n[X] 13F HOLDINGS REPORT.\n[ ] 13F NOTICE.",
                "13F-HR",
            ),
            ("FORM N-PX\nANNUAL REPORT OF PROXY VOTING RECORD", "N-PX"),
            (
                "FORM N-CSR\nDate of fiscal year end: October 31\nDate of reporting period: April 30, 2021",
                "N-CSRS",
            ),
            (
                "FORM N-CSR\nDate of fiscal year end: October 31\nDate of reporting period: November 1, 2020 to October 31, 2021",
                "N-CSR",
            ),
            (
                "FORM N-CSR\nDate of fiscal year end: 12/31\nDate of reporting period: June 30, 2021",
                "N-CSR",
            ),
            (
                "FORM 10\nGENERAL FORM FOR REGISTRATION OF SECURITIES\nSecurities to be registered pursuant to Section 12(b) of the Act:\nCommon Stock\nSecurities to be registered pursuant to Section 12(g) of the Act:\nNone",
                "10-12B",
            ),
            (
                "FORM 4\nSTATEMENT OF CHANGES IN BENEFICIAL OWNERSHIP\nForm 4 or Form 5 obligations may continue",
                "4",
            ),
        ] {
            assert_eq!(
                form_of(&format!("{TOP}{cover}")).as_deref(),
                Some(form),
                "{cover}"
            );
        }
        let report = "SEC Form 4\nFORM 4 UNITED STATES SECURITIES AND EXCHANGE COMMISSION OMB APPROVAL\nWashington, D.C. 20549";
        assert_eq!(form_of(report).as_deref(), Some("4"));
        let filed = "As filed with the Securities and Exchange Commission on May 4, 2021\nRegistration No. 333-1\nFORM S-1";
        assert_eq!(form_of(filed).as_deref(), Some("S-1"));
        let sentence =
            "as filed with the Securities and Exchange Commission in our report\nForm S-1\n";
        assert_eq!(form_of(sentence), None);
    }

    #[test]
    fn boxes_tell_what_a_cover_serves_for() {
        let proxy = |parties: &str, boxes: &str| {
            form_of(&format!(
                "{TOP}SCHEDULE 14A INFORMATION\n(Amendment No. 1)\n{parties}\n{boxes}"
            ))
        };
        let own = "Filed by the Registrant ☒ Filed by a Party other than the Registrant ☐";
        let other = "Filed by the Registrant [ ]\nFiled by a Party other than the Registrant [X]";
        for (parties, boxes, form) in [
            (
                own,
                "[ ] Preliminary Proxy Statement\n[X] Definitive Proxy Statement",
                "DEF 14A",
            ),
            (
                own,
                "☐ Preliminary Proxy Statement ☒ Definitive Proxy Statement",
                "DEF 14A",
            ),
            (own, "[ X ] Preliminary Proxy Statement", "PRE 14A"),
            (
                own,
                "☒ Soliciting Material Pursuant to §240.14a-12",
                "DEFA14A",
            ),
            (other, "☒ Definitive Proxy Statement", "DEFC14A"),
            (own, "Preliminary Proxy Statement", "14A"),
        ] {
            assert_eq!(proxy(parties, boxes).as_deref(), Some(form), "{boxes}");
        }
        let fund = |boxes: &str| {
            form_of(&format!(
                "{TOP}FORM N-1A\nPost-Effective Amendment No. 174 /X/\n{boxes}"
            ))
        };
        let effective = "/ / immediately upon filing pursuant to paragraph (b)\n/X/ on April 1, 2024 pursuant to paragraph (b)";
        assert_eq!(fund(effective).as_deref(), Some("485BPOS"));
        let proposed = "☐ on (date) pursuant to paragraph (b)\n☒ 60 days after filing pursuant to paragraph (a)(1)";
        assert_eq!(fund(proposed).as_deref(), Some("485APOS"));
        assert_eq!(fund("").as_deref(), Some("N-1A"));
    }

    #[test]
    fn a_prospectus_is_filed_under_the_rule_of_its_first_lines() {
        let quoting = "Filed Pursuant to Rule 424(b)(3)\nRegistration Statement on Form S-1 (No. 333-1)\nPROSPECTUS";
        assert_eq!(form_of(quoting).as_deref(), Some("424B3"));
        let with_report =
            format!("PROSPECTUS SUPPLEMENT NO. 2\nFiled under Rule 424(b)(3)\n{TOP}FORM 8-K");
        assert_eq!(form_of(&with_report).as_deref(), Some("424B3"));
        let mention = format!("{TOP}FORM S-3\nto be filed pursuant to Rule 424(b)(5)");
        assert_eq!(form_of(&mention).as_deref(), Some("S-3"));
    }
}
