//! What a model says a document is: taken where it stands in what the model was shown and rules found nothing.
//!
//! Rules read covers exactly and never guess; a model may fill in what they leave open, and never says otherwise than they
//! do. A value that does not stand in the text is dropped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{Fact, FactSource, FilingFacts};

use super::dates::{self, Date};
use super::facts::squash;

/// Characters of a value at most.
const MAX_CHARS: usize = 200;

/// What a model says; empty where it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Metadata {
    pub issuer: String,
    pub form: String,
    pub fiscal_year: String,
    pub fiscal_period: String,
    pub period_end: String,
    pub language: String,
}

/// Values by the name of the fact.
pub type Values = BTreeMap<String, String>;

/// The canonical form of a value that a model says, where the text bears it out.
type Check = fn(&str, &str) -> Option<String>;

impl Metadata {
    /// The values that stand in `text`, in their canonical form, and the names of those that do not.
    pub fn standing_in(&self, text: &str) -> (Values, Vec<String>) {
        let all: [(&str, &str, Check); 6] = [
            ("issuer", &self.issuer, quoted),
            ("form", &self.form, quoted),
            ("fiscal_year", &self.fiscal_year, year),
            ("fiscal_period", &self.fiscal_period, period),
            ("period_end", &self.period_end, date),
            ("language", &self.language, language),
        ];
        let mut values = Values::new();
        let mut dropped = Vec::new();
        for (name, said, check) in all {
            let said = said.trim();
            match check(said, text).filter(|_| said.chars().count() <= MAX_CHARS) {
                Some(value) => drop(values.insert(name.into(), value)),
                None if said.is_empty() => {}
                None => dropped.push(name.into()),
            }
        }
        (values, dropped)
    }
}

/// A value that the text has word for word, white space and punctuation aside.
fn quoted(said: &str, text: &str) -> Option<String> {
    let letters = squash(said);
    let stands = !letters.is_empty() && squash(text).contains(&letters);
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (stands && !line.chars().any(char::is_control)).then_some(line)
}

fn year(said: &str, text: &str) -> Option<String> {
    let sound = said.len() == 4 && said.bytes().all(|byte| byte.is_ascii_digit());
    (sound
        && text
            .split(|c: char| !c.is_ascii_digit())
            .any(|number| number == said))
    .then(|| said.into())
}

/// A quarter is rarely printed as `Q1`: the text has to speak of one.
fn period(said: &str, text: &str) -> Option<String> {
    let said = said.to_uppercase();
    let text = text.to_lowercase();
    let signs: &[&str] = match said.as_str() {
        "FY" => &["year", "annual", "年"],
        "Q1" | "Q2" | "Q3" | "Q4" => &["quarter", "季"],
        _ => return None,
    };
    (signs.iter().any(|sign| text.contains(sign)) || text.contains(&said.to_lowercase()))
        .then_some(said)
}

fn date(said: &str, text: &str) -> Option<String> {
    let wanted = Date::from_iso(said)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut rest = words.as_slice();
    while let Some((found, start, _)) = dates::first(rest) {
        if found == wanted {
            return Some(wanted.iso());
        }
        rest = &rest[start + 1..];
    }
    None
}

/// A language is seen, not stated.
fn language(said: &str, _: &str) -> Option<String> {
    let said = said.to_lowercase();
    (said.len() == 2 && said.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(said)
}

/// Fills in the facts that rules leave open; the names of those about which rules say something else.
pub fn fill(facts: &mut FilingFacts, values: &Values) -> Vec<String> {
    let mut differ = Vec::new();
    for (name, value) in values {
        let fact = match name.as_str() {
            "issuer" => &mut facts.issuer,
            "form" => &mut facts.form,
            "fiscal_year" => &mut facts.fiscal_year,
            "fiscal_period" => &mut facts.fiscal_period,
            "period_end" => &mut facts.period_end,
            "language" => &mut facts.language,
            _ => continue,
        };
        match fact {
            Some(fact) if squash(&fact.value) == squash(value) => {}
            Some(_) => differ.push(name.clone()),
            None => *fact = Some(Fact::stated(value.clone(), FactSource::Model)),
        }
    }
    differ
}

#[cfg(test)]
mod tests {
    use super::*;

    const COVER: &str =
        "FORM 10-K\nFor the fiscal year ended\nDecember 31, 2022\nACME ANVILS, INC.\n12,022 shares";

    fn said(
        issuer: &str,
        form: &str,
        year: &str,
        period: &str,
        end: &str,
        language: &str,
    ) -> Metadata {
        let [
            issuer,
            form,
            fiscal_year,
            fiscal_period,
            period_end,
            language,
        ] = [issuer, form, year, period, end, language].map(String::from);
        Metadata {
            issuer,
            form,
            fiscal_year,
            fiscal_period,
            period_end,
            language,
        }
    }

    #[test]
    fn what_stands_in_the_text_is_taken() {
        let (values, dropped) = said(
            "Acme Anvils, Inc.",
            "10-K",
            "2022",
            "fy",
            "2022-12-31",
            "EN",
        )
        .standing_in(COVER);
        let values: Vec<&str> = values.values().map(String::as_str).collect();
        assert_eq!(
            values,
            [
                "FY",
                "2022",
                "10-K",
                "Acme Anvils, Inc.",
                "en",
                "2022-12-31"
            ]
        );
        assert_eq!(dropped, Vec::<String>::new());
    }

    #[test]
    fn what_does_not_is_dropped_by_name() {
        let (values, dropped) = said(
            "Umbrella Corp",
            "10-Q",
            "022",
            "Q2",
            "2022-12-30",
            "english",
        )
        .standing_in(COVER);
        assert!(values.is_empty(), "{values:?}");
        assert_eq!(
            dropped,
            [
                "issuer",
                "form",
                "fiscal_year",
                "fiscal_period",
                "period_end",
                "language"
            ]
        );
        let long = said(&"ACME ".repeat(50), "", "", "", "", "").standing_in(&"ACME ".repeat(50));
        assert_eq!(long, (Values::new(), vec!["issuer".into()]));
        assert_eq!(
            Metadata::default().standing_in(COVER),
            (Values::new(), Vec::new())
        );
    }

    #[test]
    fn rules_are_not_contradicted() {
        let mut facts = FilingFacts {
            form: Some(Fact::text("10-K", None)),
            ..FilingFacts::default()
        };
        let values = Values::from([
            ("form".into(), "10-K/A".into()),
            ("issuer".into(), "Acme".into()),
        ]);
        assert_eq!(fill(&mut facts, &values), ["form"]);
        assert_eq!(facts.form.unwrap().value, "10-K");
        assert_eq!(facts.issuer.unwrap().source, FactSource::Model);
    }
}
