//! Facts proposed by a model, used only if they occur in the text and the rules found nothing.
//!
//! Rules read covers exactly and never guess, so their facts take precedence. A model may fill in missing ones; a value that
//! does not occur in its prompt is dropped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::text::normalize_key;
use stemma_document::{Fact, FactSource, FilingFacts};
use stemma_reading::calendar::{self, CalendarDate};
use stemma_reading::vocabulary::{QUARTER_SIGNS, YEAR_SIGNS};

const MAX_CHARS: usize = 200;

/// Facts in the reply of a model; empty strings are missing values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LlmFacts {
    pub issuer: String,
    pub form: String,
    pub fiscal_year: String,
    pub fiscal_period: String,
    pub period_end: String,
    pub language: String,
}

/// Values by the name of the fact.
pub type FactValues = BTreeMap<String, String>;

/// Returns the canonical form of a value if the text confirms it.
type ValueCheck = fn(&str, &str) -> Option<String>;

impl LlmFacts {
    /// The values confirmed by `text` in canonical form, and the names of those that are not.
    pub fn verify_against(&self, text: &str) -> (FactValues, Vec<String>) {
        let all: [(&str, &str, ValueCheck); 6] = [
            ("issuer", &self.issuer, check_quoted),
            ("form", &self.form, check_quoted),
            ("fiscal_year", &self.fiscal_year, check_year),
            ("fiscal_period", &self.fiscal_period, check_period),
            ("period_end", &self.period_end, check_date),
            ("language", &self.language, check_language),
        ];
        let mut values = FactValues::new();
        let mut dropped = Vec::new();
        for (name, value, check) in all {
            let value = value.trim();
            match check(value, text).filter(|_| value.chars().count() <= MAX_CHARS) {
                Some(value) => drop(values.insert(name.into(), value)),
                None if value.is_empty() => {}
                None => dropped.push(name.into()),
            }
        }
        (values, dropped)
    }
}

/// Checks that the text contains the value, ignoring spaces and punctuation.
fn check_quoted(value: &str, text: &str) -> Option<String> {
    let letters = normalize_key(value);
    let is_quoted = !letters.is_empty() && normalize_key(text).contains(&letters);
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    (is_quoted && !line.chars().any(char::is_control)).then_some(line)
}

fn check_year(value: &str, text: &str) -> Option<String> {
    let sound = value.len() == 4 && value.bytes().all(|byte| byte.is_ascii_digit());
    (sound
        && text
            .split(|c: char| !c.is_ascii_digit())
            .any(|number| number == value))
    .then(|| value.into())
}

/// A quarter is rarely printed as `Q1`, so the text only has to mention quarters.
fn check_period(value: &str, text: &str) -> Option<String> {
    let value = value.to_uppercase();
    let text = text.to_lowercase();
    let signs = match value.as_str() {
        "FY" => &YEAR_SIGNS,
        "Q1" | "Q2" | "Q3" | "Q4" => &QUARTER_SIGNS,
        _ => return None,
    };
    (signs.occurs_in(&text) || text.contains(&value.to_lowercase())).then_some(value)
}

fn check_date(value: &str, text: &str) -> Option<String> {
    let expected = CalendarDate::from_iso(value)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut rest = words.as_slice();
    while let Some((parsed, start, _)) = calendar::find_first(rest) {
        if parsed == expected {
            return Some(expected.to_iso());
        }
        rest = &rest[start + 1..];
    }
    None
}

// No text names its own language, so only the shape of the code can be checked.
fn check_language(value: &str, _: &str) -> Option<String> {
    let value = value.to_lowercase();
    (value.len() == 2 && value.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(value)
}

/// Fills in missing facts. Returns the names of facts for which the rules found another value.
pub fn fill_missing(facts: &mut FilingFacts, values: &FactValues) -> Vec<String> {
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
            Some(fact) if normalize_key(&fact.value) == normalize_key(value) => {}
            Some(_) => differ.push(name.clone()),
            None => *fact = Some(Fact::from_source(value.clone(), FactSource::Model)),
        }
    }
    differ
}

#[cfg(test)]
mod tests {
    use super::*;

    const COVER: &str =
        "FORM 10-K\nFor the fiscal year ended\nDecember 31, 2022\nACME ANVILS, INC.\n12,022 shares";

    fn facts_of(
        issuer: &str,
        form: &str,
        year: &str,
        period: &str,
        end: &str,
        language: &str,
    ) -> LlmFacts {
        let [
            issuer,
            form,
            fiscal_year,
            fiscal_period,
            period_end,
            language,
        ] = [issuer, form, year, period, end, language].map(String::from);
        LlmFacts {
            issuer,
            form,
            fiscal_year,
            fiscal_period,
            period_end,
            language,
        }
    }

    #[test]
    fn values_in_the_text_are_accepted() {
        let (values, dropped) = facts_of(
            "Acme Anvils, Inc.",
            "10-K",
            "2022",
            "fy",
            "2022-12-31",
            "EN",
        )
        .verify_against(COVER);
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
    fn values_not_in_the_text_are_dropped() {
        let (values, dropped) = facts_of(
            "Umbrella Corp",
            "10-Q",
            "022",
            "Q2",
            "2022-12-30",
            "english",
        )
        .verify_against(COVER);
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
        let long =
            facts_of(&"ACME ".repeat(50), "", "", "", "", "").verify_against(&"ACME ".repeat(50));
        assert_eq!(long, (FactValues::new(), vec!["issuer".into()]));
        assert_eq!(
            LlmFacts::default().verify_against(COVER),
            (FactValues::new(), Vec::new())
        );
    }

    #[test]
    fn rule_facts_take_precedence() {
        let mut facts = FilingFacts {
            form: Some(Fact::from_text("10-K", None)),
            ..FilingFacts::default()
        };
        let values = FactValues::from([
            ("form".into(), "10-K/A".into()),
            ("issuer".into(), "Acme".into()),
        ]);
        assert_eq!(fill_missing(&mut facts, &values), ["form"]);
        assert_eq!(facts.form.unwrap().value, "10-K");
        assert_eq!(facts.issuer.unwrap().source, FactSource::Model);
    }
}
