//! Compares the figures of a statement with the facts that a filing tags on the quoted lines: concept, period, unit, scale,
//! sign, and the part of the company. The same digits under another concept or year do not verify a claim.

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use stemma_document::english_words::MONTHS;
use stemma_xbrl::{FactTable, FactValue, Period, TaggedFact, concept_words};

use super::statement::Statement;
use super::terms::{name_words, phrase, position};

mod country_name;
mod part_name;

use part_name::{StatementText, member_name, member_words};
use stemma_reading::companies::ends_company_name;
use stemma_reading::numbers::NumberMention;
use stemma_reading::period::StatedPeriod;
use stemma_reading::vocabulary::{NEGATIVE_STEMS, POSITIVE_STEMS, SHARE_WORDS, SPOKEN_SCALES};

// What a word of a label counts that the statement lacks.
const MISSING_COST: f64 = 0.5;
// Fiscal calendars of 52 weeks may end in the first days of January; they name the year before.
const LONGEST_OVERHANG_DAYS: u32 = 7;
const DAYS_PER_MONTH: f64 = 30.44;

/// The tagged facts of a cited document, and the lines of the quote.
pub struct TaggedFacts<'a> {
    pub table: &'a FactTable,
    /// Page (0 in texts without pages) and 0-based line.
    pub lines: BTreeSet<(u32, u32)>,
    /// The labels of the quoted table rows.
    pub labels: Vec<String>,
    /// From the year of a date in January or February to the name of its fiscal year.
    pub year_shift: i32,
}

/// What tagged facts say about a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredCheck {
    /// No fact on the quoted lines has its digits or its value.
    Unknown,
    /// Period, unit, scale and sign are those of a fact, and no other concept fits the statement better.
    Confirmed,
    /// A fact of a part of the company that the statement may or may not mean; names the part.
    Undecided(String),
    /// It means something else; says what.
    Differs(String),
}

/// A company that a statement names as its subject, with a legal form or a possessive, although neither the cover of the
/// filing nor `around`, the cited text, names it.
pub fn foreign_company<'t>(text: &'t str, table: &FactTable, around: &str) -> Option<&'t str> {
    let registrants: Vec<String> = table
        .facts()
        .filter(|fact| {
            matches!(
                fact.concept,
                "dei:EntityRegistrantName" | "dei:TradingSymbol"
            )
        })
        .map(|fact| fact.displayed.to_lowercase())
        .collect();
    if registrants.is_empty() {
        return None;
    }
    let known = format!("{}\n{}", registrants.join("\n"), around.to_lowercase());
    // `AMAZON.COM` is two words here, as it is in the cover.
    let is_known = |name: &str| {
        let name = name.to_lowercase();
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        words.all(|word| {
            ends_company_name(word)
                || known
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|other| other == word)
        })
    };
    let bare = |word: &'t str| word.trim_matches(|c: char| !c.is_alphanumeric());
    let mut before: Option<&str> = None;
    for word in text.split_whitespace() {
        let possessive = word
            .strip_suffix("'s")
            .or_else(|| word.strip_suffix("\u{2019}s"));
        let name = possessive
            .map(bare)
            .or(before.filter(|_| ends_company_name(word)));
        if let Some(name) = name
            && name.len() > 1
            && name.starts_with(|c: char| c.is_uppercase())
            && !is_known(name)
        {
            return Some(name);
        }
        before = Some(bare(word));
    }
    None
}

pub(super) fn check_declared(
    statement: &Statement<'_>,
    figure: usize,
    facts: &TaggedFacts<'_>,
) -> DeclaredCheck {
    let Some(claimed) = ClaimedValue::new(&statement.figures[figure]) else {
        return DeclaredCheck::Unknown;
    };
    let after = statement.text.get(statement.figures[figure].at.end..);
    let after = after.unwrap_or_default().to_lowercase();
    let after = after.trim_start_matches(|c: char| !c.is_alphanumeric());
    let after = SPOKEN_SCALES
        .iter()
        .find_map(|scale| after.strip_prefix(scale))
        .unwrap_or(after)
        .trim_start();
    let context = ClaimContext {
        is_per_share: SHARE_WORDS.starts(after),
        other_figures: statement
            .figures
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != figure)
            .map(|(_, other)| (other.text.to_lowercase(), other.at.end))
            .collect(),
        words: statement.words(),
        text: StatementText::new(statement.text),
        company: company_words(facts.table),
        stated: statement.period_of(figure).unwrap_or_default(),
        cover: Cover::new(facts.table),
        claimed,
        facts,
    };
    let near = facts.table.facts().filter(|fact| {
        let page = fact.page.map_or(0, |page| page.get());
        let line = fact.line.map(|line| (page, line));
        line.is_some_and(|line| facts.lines.contains(&line)) && context.claimed.may_be(fact)
    });
    let mut result = DeclaredCheck::Unknown;
    for fact in near {
        match (context.check(&fact), &result) {
            (DeclaredCheck::Confirmed, _) => return DeclaredCheck::Confirmed,
            (check @ DeclaredCheck::Undecided(_), DeclaredCheck::Differs(_))
            | (check, DeclaredCheck::Unknown) => result = check,
            _ => {}
        }
    }
    result
}

fn company_words(table: &FactTable) -> BTreeSet<String> {
    let names = table
        .facts()
        .filter(|fact| fact.concept == "dei:EntityRegistrantName");
    names.flat_map(|name| phrase(name.displayed)).collect()
}

/// A figure of a statement as an exact number, and what its rounding allows.
struct ClaimedValue<'a> {
    number: &'a NumberMention,
    digits: Decimal,
    value: Decimal,
    half_unit: Decimal,
}

impl<'a> ClaimedValue<'a> {
    fn new(number: &'a NumberMention) -> Option<Self> {
        let digits = number.signed_value()?.abs();
        let mut factor = match number.own_scale() {
            Some(scale) => Decimal::try_from(scale).ok()?,
            None => Decimal::ONE,
        };
        if number.is_percent() {
            factor = factor.checked_mul(Decimal::new(1, 2))?;
        }
        let half = Decimal::try_new(5, number.decimals() + 1).ok()?;
        Some(Self {
            number,
            digits,
            value: digits.checked_mul(factor)?,
            half_unit: half.checked_mul(factor)?,
        })
    }

    fn has_value(&self, number: Decimal) -> bool {
        (number.abs() - self.value).abs() <= self.half_unit
    }

    // Whether the fact shows the digits or has the value.
    fn may_be(&self, fact: &TaggedFact<'_>) -> bool {
        let Some(number) = fact.number() else {
            return false;
        };
        let displayed: String = fact
            .displayed
            .chars()
            .filter(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        displayed.parse() == Ok(self.digits) || self.has_value(number)
    }
}

// What the cover says about the fiscal calendar.
struct Cover {
    period_end: Option<stemma_xbrl::Date>,
    // 1–4.
    quarter: Option<u32>,
}

impl Cover {
    fn new(table: &FactTable) -> Self {
        let mut cover = Self {
            period_end: None,
            quarter: None,
        };
        for fact in table.facts() {
            let FactValue::Text(text) = fact.value else {
                continue;
            };
            match fact.concept {
                "dei:DocumentPeriodEndDate" => {
                    cover.period_end = cover.period_end.or(text.parse().ok());
                }
                "dei:DocumentFiscalPeriodFocus" => {
                    let quarter = match text {
                        "Q1" => Some(1),
                        "Q2" => Some(2),
                        "Q3" => Some(3),
                        "Q4" | "FY" => Some(4),
                        _ => None,
                    };
                    cover.quarter = cover.quarter.or(quarter);
                }
                _ => {}
            }
        }
        cover
    }

    // The fiscal quarter that ends on a day.
    fn quarter_of(&self, year: i32, month: u32) -> Option<u32> {
        let (end_year, end_month, _) = self.period_end?.year_month_day();
        let months = (end_year - year) * 12 + end_month as i32 - month as i32;
        let quarters = (f64::from(months) / 3.0).round() as i32;
        u32::try_from((self.quarter? as i32 - 1 - quarters).rem_euclid(4) + 1).ok()
    }
}

struct ClaimContext<'a> {
    // What is said behind the figure.
    is_per_share: bool,
    // In lower case, and where each ends. Without others, whatever the statement names is said of this figure.
    other_figures: Vec<(String, usize)>,
    words: Vec<String>,
    text: StatementText<'a>,
    // Stems of the registrant's name.
    company: BTreeSet<String>,
    stated: StatedPeriod,
    cover: Cover,
    claimed: ClaimedValue<'a>,
    facts: &'a TaggedFacts<'a>,
}

impl ClaimContext<'_> {
    fn check(&self, fact: &TaggedFact<'_>) -> DeclaredCheck {
        if let Err(reason) = self.find_difference(fact) {
            return DeclaredCheck::Differs(reason);
        }
        let declared_for =
            |member: &str| format!("{} is declared for {}", fact.displayed, member_name(member));
        match self.named_part(fact) {
            Part::Named => DeclaredCheck::Confirmed,
            // A figure of a segment is not that of the company.
            Part::Unnamed(member) => DeclaredCheck::Differs(declared_for(member)),
            Part::Maybe(member) => DeclaredCheck::Undecided(format!(
                "{}, which the statement names only in part",
                declared_for(member)
            )),
        }
    }

    fn find_difference(&self, fact: &TaggedFact<'_>) -> Result<(), String> {
        let number = fact.number().unwrap_or_default();
        if !self.is_stated(fact.period) {
            return Err(format!(
                "{} is declared for {}, as {}",
                fact.displayed, fact.period, fact.label
            ));
        }
        if !self.claimed.has_value(number) {
            return Err(format!(
                "{} is declared as {number} {}",
                fact.displayed,
                fact.short_unit().unwrap_or_default()
            ));
        }
        self.check_unit(fact)?;
        self.check_sign(fact, number)?;
        self.check_other_parts(fact, number)?;
        self.check_concept(fact)
    }

    // Whether the statement may mean a period.
    fn is_stated(&self, period: Period) -> bool {
        let Some(end) = period.end() else {
            return true;
        };
        let (year, month, day) = end.year_month_day();
        let length = period
            .days()
            .map(|days| (f64::from(days) / DAYS_PER_MONTH).round() as u32);
        let quarter = length
            .filter(|months| *months == 3)
            .and_then(|_| self.cover.quarter_of(year, month));
        let read = StatedPeriod {
            year: Some(year),
            month: Some(month),
            length,
            quarter,
        };
        let named = read.in_fiscal_year(self.facts.year_shift);
        let before = (month == 1 && day <= LONGEST_OVERHANG_DAYS).then_some(StatedPeriod {
            year: Some(year - 1),
            month: Some(12),
            ..read
        });
        [
            Some(read).filter(|_| self.facts.year_shift == 0),
            Some(named),
            before,
        ]
        .into_iter()
        .flatten()
        .any(|period| period.is_meant_by(&self.stated))
    }

    fn check_unit(&self, fact: &TaggedFact<'_>) -> Result<(), String> {
        let unit = fact.unit.unwrap_or_default();
        let is_money = unit.contains("iso4217:");
        let number = self.claimed.number;
        let is_total = self.is_per_share && !unit.contains('/');
        let is_other = number.is_percent() && is_money || number.currency().is_some() && !is_money;
        if is_total || is_other {
            return Err(format!(
                "{} is declared in {}",
                fact.displayed,
                fact.short_unit().unwrap_or_default()
            ));
        }
        Ok(())
    }

    fn check_sign(&self, fact: &TaggedFact<'_>, number: Decimal) -> Result<(), String> {
        let label = phrase(fact.label);
        let has = |words: &[String], stems: &[&str]| {
            words.iter().any(|word| stems.contains(&word.as_str()))
        };
        // `Net income loss` names both sides; a statement that takes only one of them says which.
        let names_positive = has(&self.words, &POSITIVE_STEMS);
        let is_two_sided = has(&label, &POSITIVE_STEMS) && has(&label, &NEGATIVE_STEMS);
        let says_negative = self.words.iter().any(|word| {
            NEGATIVE_STEMS.contains(word.as_str())
                && (!label.contains(word) || (is_two_sided && !names_positive))
        });
        let takes_negative_side =
            is_two_sided && !names_positive && has(&self.words, &NEGATIVE_STEMS);
        let fits = match (
            number.is_sign_negative() && !number.is_zero(),
            self.claimed.number.is_negative(),
        ) {
            (true, false) => says_negative,
            (false, true) => number.is_zero(),
            (false, false) => number.is_zero() || !takes_negative_side,
            (true, true) => true,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("{} is declared as {number}", fact.displayed))
        }
    }

    // Whether the statement names what a fact is of. The whole company needs no name, nor does a part with the same figure.
    fn named_part<'f>(&self, fact: &TaggedFact<'f>) -> Part<'f> {
        let members = || fact.dimensions.iter().map(|(_, member)| member.as_str());
        let named = || members().map(|member| (self.naming_of(member, fact, &self.text), member));
        let doubtful = named().find(|(naming, _)| *naming != Naming::Full);
        let Some((_, member)) = doubtful else {
            return Part::Named;
        };
        let mut whole = self.facts.table.facts().filter(|other| {
            other.dimensions.is_empty()
                && other.concept == fact.concept
                && other.period == fact.period
        });
        let first = whole.next();
        let is_same = first.is_some_and(|other| other.has_same_number(fact))
            || whole.any(|other| other.has_same_number(fact));
        if first.is_none() || is_same {
            return Part::Named;
        }
        let unnamed = named().find(|(naming, _)| *naming == Naming::None);
        unnamed.map_or(Part::Maybe(member), |(_, member)| Part::Unnamed(member))
    }

    // How much of a member's name a text has, apart from the words of the concept and the company.
    fn naming_of(&self, member: &str, fact: &TaggedFact<'_>, text: &StatementText<'_>) -> Naming {
        if text.has_whole_word(member) {
            return Naming::Full;
        }
        let name = member_words(member);
        // `Cash` of `Cash and cash equivalents` is said of the whole, too.
        let label = name_words(fact.label);
        let own = self.words_beyond(&name, &label);
        if own.is_empty() {
            let beyond = without(&text.names, &label);
            // The name of the company is said of everything.
            let is_said = |word: &String| label.contains(word) && beyond.contains(&word);
            let is_said = !name.is_empty() && name.iter().all(is_said);
            return if is_said { Naming::Full } else { Naming::None };
        }
        // The month of a date is not a name.
        let months = phrase(&MONTHS.join(" "));
        let hits = || own.iter().filter(|word| text.names.contains(word));
        if hits().count() == own.len() || self.names_row_of(&own, text) {
            Naming::Full
        } else if hits().all(|word| months.contains(word)) {
            Naming::None
        } else {
            Naming::Partial
        }
    }

    fn words_beyond<'w>(&self, name: &'w [String], label: &[String]) -> Vec<&'w String> {
        name.iter()
            .filter(|word| !label.contains(word) && !self.company.contains(*word))
            .collect()
    }

    // Whether a text has the whole label of a quoted row that names a part by some of its words.
    fn names_row_of(&self, member: &[&String], text: &StatementText<'_>) -> bool {
        self.facts.labels.iter().any(|row| {
            let words = name_words(row);
            let has_marks = words.iter().all(|word| text.names.contains(word));
            has_marks
                && position(&phrase(row), &text.words).is_some()
                && words.iter().any(|word| member.contains(&word))
        })
    }

    // A figure of the company or of one segment is not that of another segment, which has its own.
    fn check_other_parts(&self, fact: &TaggedFact<'_>, number: Decimal) -> Result<(), String> {
        let parts = || {
            let facts = self.facts.table.facts();
            facts.filter(|other| {
                other.concept == fact.concept
                    && other.period == fact.period
                    && other.number().is_some()
            })
        };
        let members: BTreeSet<&str> = parts()
            .flat_map(|part| part.dimensions.iter().map(|(_, member)| member.as_str()))
            .collect();
        let is_said_in = |member: &str, text: &StatementText<'_>| {
            self.naming_of(member, fact, text) == Naming::Full
        };
        // `12 months or longer` may be in the name of the concept, `2014` in that of a plan.
        let mut names = fact.label.to_lowercase();
        for member in members
            .iter()
            .filter(|member| is_said_in(member, &self.text))
        {
            names = format!("{names} {}", concept_words(member));
        }
        let in_names: BTreeSet<&str> = names
            .split(|c: char| !c.is_alphanumeric() && c != '.')
            .collect();
        let others: Vec<usize> = self
            .other_figures
            .iter()
            .filter(|(figure, _)| !in_names.contains(figure.as_str()))
            .map(|(_, end)| *end)
            .collect();
        // What is said behind a figure may be said of the next one.
        let start = self.claimed.number.at.start;
        let before = others.iter().filter(|end| **end <= start).max();
        let text_before = self.text.part(before.copied().unwrap_or(0)..start);
        let text = match others.is_empty() {
            true => &self.text,
            false => &text_before,
        };
        // What the fact itself is of may have the words of another part.
        let own: BTreeSet<String> = fact
            .dimensions
            .iter()
            .flat_map(|(_, member)| member_words(member))
            .collect();
        let label = name_words(fact.label);
        let named: Vec<(&str, Vec<String>)> = members
            .into_iter()
            .filter(|member| is_said_in(member, text))
            .map(|member| (member, member_words(member)))
            .collect();
        // If one name contains another, the longer one counts: with the words of the concept, `accumulated translation
        // adjustment` also says `accumulated other comprehensive income`.
        let is_within = |name: &[String], other: &[String]| {
            let name = self.words_beyond(name, &label);
            let other = self.words_beyond(other, &label);
            name.len() < other.len() && name.iter().all(|word| other.contains(word))
        };
        for (member, name) in &named {
            let is_own = name.iter().all(|word| own.contains(word));
            if is_own || named.iter().any(|(_, other)| is_within(name, other)) {
                continue;
            }
            let is_of =
                |part: &TaggedFact<'_>| part.dimensions.iter().any(|(_, own)| own == member);
            let has_number = parts().filter(is_of).any(|part| {
                let part = part.number();
                part.is_some_and(|part| part == number || self.claimed.has_value(part))
            });
            let other = parts().find(|part| part.dimensions.len() == 1 && is_of(part));
            if let Some(other) = other.filter(|_| !has_number) {
                return Err(format!(
                    "{} is declared for {}",
                    other.displayed,
                    member_name(member)
                ));
            }
        }
        Ok(())
    }

    // No other concept has a name that the statement has in full and more of.
    fn check_concept(&self, fact: &TaggedFact<'_>) -> Result<(), String> {
        let quoted = self.facts.labels.iter().map(String::as_str);
        // The name of a part may have the words of another concept: equity in additional paid-in capital.
        let members = fact.dimensions.iter().map(|(_, member)| member);
        let members =
            members.filter(|member| self.naming_of(member, fact, &self.text) == Naming::Full);
        let with_part = members.fold(fact.label.to_owned(), |label, member| {
            let member = member_name(member);
            format!("{label} {}", member.trim_end_matches(" member"))
        });
        let labels = || quoted.clone().chain([fact.label, &with_part]);
        let fits = || labels().map(|label| LabelFit::new(&self.words, label));
        let own = fits()
            .map(|fit| fit.score())
            .fold(f64::NEG_INFINITY, f64::max);
        let own_hit = fits().map(|fit| fit.hit).max().unwrap_or(0);
        let is_said = |label: &str| position(&phrase(label), &self.words).is_some();
        let is_own_said = labels().any(is_said);
        // `And` may be all that two names differ in.
        let is_literal = |label: &str| self.text.lower.contains(&label.to_lowercase());
        let is_own_literal = labels().any(is_literal);
        let mut seen = BTreeSet::new();
        for other in self.facts.table.facts() {
            if other.number().is_none()
                || other.concept == fact.concept
                || !seen.insert(other.concept)
            {
                continue;
            }
            let rival = LabelFit::new(&self.words, other.label);
            // Other words, or the same in its own order: `restricted cash and cash equivalents`.
            let is_other =
                !is_own_said && is_said(other.label) || !is_own_literal && is_literal(other.label);
            let fits_better = rival.score() > own + 1e-9 || rival.hit >= own_hit && is_other;
            if rival.missing == 0 && fits_better && !self.has_claimed_value(other.concept) {
                return Err(format!(
                    "{} is declared as {}, not as {}",
                    fact.displayed, fact.label, other.label
                ));
            }
        }
        Ok(())
    }

    fn has_claimed_value(&self, concept: &str) -> bool {
        let mut facts = self
            .facts
            .table
            .facts()
            .filter(|fact| fact.concept == concept && self.is_stated(fact.period));
        facts.any(|fact| {
            fact.number()
                .is_some_and(|number| self.claimed.has_value(number))
                && matches!(self.named_part(&fact), Part::Named)
        })
    }
}

// What a fact is of, as a statement says it.
enum Part<'a> {
    Named,
    // Some words of this member are said.
    Maybe(&'a str),
    Unnamed(&'a str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Full,
    Partial,
    None,
}

// The words that remain when each of `label` is taken away once.
fn without<'w>(words: &'w [String], label: &[String]) -> Vec<&'w String> {
    let mut rest: Vec<&String> = words.iter().collect();
    for word in label {
        if let Some(at) = rest.iter().position(|other| *other == word) {
            rest.remove(at);
        }
    }
    rest
}

struct LabelFit {
    hit: usize,
    missing: usize,
}

impl LabelFit {
    fn new(words: &[String], label: &str) -> Self {
        let label: BTreeSet<String> = phrase(label).into_iter().collect();
        let hit = label.iter().filter(|word| words.contains(word)).count();
        Self {
            hit,
            missing: label.len() - hit,
        }
    }

    fn score(&self) -> f64 {
        self.hit as f64 - MISSING_COST * self.missing as f64
    }
}

#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod tests;
