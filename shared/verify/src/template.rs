//! Statements with placeholders, and their text with the figures of the pages.

use std::ops::Range;

use stemma_reading::numbers::{Currency, NumberRole, numbers};
use stemma_reading::vocabulary::{PERCENT_WORDS, SPOKEN_SCALES};

use super::claim::BoundFigure;

// A reply is untrusted input.
const MAX_CHARS: usize = 4_000;

/// A statement, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// `{a}`
    Figure(String),
    /// `{a.period}`
    Period(String),
}

/// A statement with its figures, and where they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FilledText {
    pub(crate) text: String,
    /// Bytes and name of each figure.
    pub(crate) figures: Vec<(Range<usize>, String)>,
    /// The same of each period that is not written out.
    pub(crate) periods: Vec<(Range<usize>, String)>,
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > MAX_CHARS {
            return Err("the statement is too long".into());
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}').ok_or("a placeholder has no end")?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::placeholder(name.trim())?);
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts })
    }

    /// The names that it uses.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Figure(name) | Part::Period(name) => Some(name.as_str()),
        })
    }

    /// The statement without its figures.
    pub(crate) fn bare(&self) -> String {
        let texts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Figure(_) | Part::Period(_) => " ",
        });
        texts.collect()
    }

    pub(crate) fn distinct_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.names() {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// The first placeholder without a figure that was found, or without its period.
    pub(crate) fn problem<'k>(
        &self,
        known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
    ) -> Option<String> {
        self.parts.iter().find_map(|part| match part {
            Part::Text(_) => None,
            Part::Figure(name) | Part::Period(name) => match known(name) {
                None => Some(format!("`{name}` is not a figure of the answer")),
                Some(figure) if !figure.is_found => {
                    Some(format!("{} was not found on a page", figure.text))
                }
                Some(figure) if matches!(part, Part::Period(_)) && figure.period.is_empty() => {
                    Some(format!("the period of {} is not known", figure.text))
                }
                Some(_) => None,
            },
        })
    }

    /// The statement with figures. What is not known is shown by its name.
    pub(crate) fn fill<'k>(&self, known: &dyn Fn(&str) -> Option<&'k BoundFigure>) -> FilledText {
        let mut filled = FilledText::default();
        for part in &self.parts {
            let mut start = filled.text.len();
            let text = text_of(part, known);
            match part {
                Part::Text(text) => filled.text.push_str(filled.without_unit(text)),
                Part::Figure(name) => {
                    let text = text.as_ref().unwrap_or(name);
                    // `${a}` repeats the sign of the figure.
                    let sign = filled.text.pop().filter(|sign| !text.starts_with(*sign));
                    filled.text.extend(sign);
                    start = filled.text.len();
                    filled.text.push_str(text);
                    filled
                        .figures
                        .push((start..filled.text.len(), name.clone()));
                }
                Part::Period(name) => {
                    filled.text.push_str(text.as_ref().unwrap_or(name));
                    filled
                        .periods
                        .push((start..filled.text.len(), name.clone()));
                }
            }
        }
        filled
    }
}

impl FilledText {
    // What follows a figure, without the end of its unit: `{a} million`, `{m}%`.
    fn without_unit<'t>(&self, text: &'t str) -> &'t str {
        let last = self
            .figures
            .last()
            .filter(|(at, _)| at.end == self.text.len());
        let figure = last
            .and_then(|(at, _)| self.text.get(at.clone()))
            .unwrap_or_default();
        let unit = match figure.strip_suffix('%') {
            Some(_) => "%",
            None => figure.rsplit_once(' ').map_or("", |(_, unit)| unit),
        };
        let rest = text
            .trim_start()
            .strip_prefix(unit)
            .filter(|_| !unit.is_empty());
        match rest {
            Some(rest) if !rest.starts_with(char::is_alphanumeric) => rest,
            _ => text,
        }
    }

    /// A figure next to which the statement writes a unit of its own.
    pub(crate) fn with_other_unit(&self) -> Option<&str> {
        let mut figures = self.figures.iter().map(|(at, _)| at);
        let found = figures.find(|at| {
            let before = self.text.get(..at.start).unwrap_or_default();
            let after = self.text.get(at.end..).unwrap_or_default().trim_start();
            let word = after.split(|c: char| !c.is_alphanumeric()).next();
            before.ends_with(is_currency_sign)
                || after.starts_with('%')
                || word.is_some_and(|word| {
                    SPOKEN_SCALES.contains(word) || PERCENT_WORDS.contains(word)
                })
        });
        found.and_then(|at| self.text.get(at.clone()))
    }
}

fn is_currency_sign(c: char) -> bool {
    !c.is_alphanumeric() && Currency::from_word(c.encode_utf8(&mut [0; 4])).is_some()
}

impl Part {
    fn placeholder(text: &str) -> Result<Self, String> {
        let (name, is_period) = match text.strip_suffix(".period") {
            Some(name) => (name, true),
            None => (text, false),
        };
        match (is_name(name), is_period) {
            (false, _) => Err(format!("`{{{text}}}` is not a placeholder")),
            (true, true) => Ok(Self::Period(name.to_owned())),
            (true, false) => Ok(Self::Figure(name.to_owned())),
        }
    }
}

/// Whether formulas and placeholders can use a name.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A text with its figures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrintedText {
    pub text: String,
    /// Names of the figures that it uses, each once.
    pub names: Vec<String>,
    /// The first placeholder without a figure or period, or number outside of placeholders.
    pub problem: Option<String>,
}

/// Prints figures in place of `{a}`, and their periods in place of `{a.period}`.
pub fn print_figures(text: &str, figures: &[BoundFigure]) -> PrintedText {
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(problem) => {
            return PrintedText {
                text: text.to_owned(),
                names: Vec::new(),
                problem: Some(problem),
            };
        }
    };
    let find = |name: &str| figures.iter().find(|figure| figure.name == name);
    let problem = template.problem(&find).or_else(|| {
        let years = figures.iter().flat_map(|figure| &figure.spans);
        let years: Vec<i32> = years.filter_map(|span| span.year).collect();
        let number = numbers(&template.bare())
            .into_iter()
            .find(|number| match number.role {
                NumberRole::Name => false,
                NumberRole::Year => !years.iter().any(|year| number.digits == year.to_string()),
                NumberRole::Amount | NumberRole::Count => true,
            });
        number.map(|number| format!("{} is not read from a page", number.text))
    });
    let filled = template.fill(&find);
    let unit = || {
        filled
            .with_other_unit()
            .map(|text| format!("another unit is next to {text}"))
    };
    PrintedText {
        problem: problem.or_else(unit),
        names: template.distinct_names(),
        text: filled.text,
    }
}

// What a placeholder shows; `None` if that is not known.
fn text_of<'k>(part: &Part, known: &dyn Fn(&str) -> Option<&'k BoundFigure>) -> Option<String> {
    match part {
        Part::Text(text) => Some(text.clone()),
        Part::Figure(name) => Some(known(name)?.text.clone()),
        Part::Period(name) => {
            let period = known(name)?.period.clone();
            Some(period).filter(|period| !period.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use stemma_reading::period::head_period;

    use super::*;

    #[test]
    fn placeholders_are_filled_or_named() {
        let figure = BoundFigure {
            name: "a".into(),
            is_found: true,
            text: "$5 million".into(),
            period: "2022".into(),
            spans: vec![head_period("2022")],
            ..BoundFigure::default()
        };
        let undated = BoundFigure {
            name: "b".into(),
            is_found: true,
            text: "5%".into(),
            ..BoundFigure::default()
        };
        let missing = BoundFigure {
            name: "c".into(),
            text: "7".into(),
            ..BoundFigure::default()
        };
        let figures = [figure, undated, missing];
        let printed = print_figures("{a} in {a.period}, {b} of 3M", &figures);
        assert_eq!(printed.text, "$5 million in 2022, 5% of 3M");
        assert_eq!(printed.names, ["a", "b"]);
        assert_eq!(printed.problem, None);
        assert_eq!(print_figures("Yes, in 2022", &figures).problem, None);
        assert_eq!(
            print_figures("${a} million, {b}%", &figures).text,
            "$5 million, 5%"
        );
        for text in [
            "{a} billion",
            "€{a}",
            "{b} million",
            "{a}%",
            "{c}",
            "{d}",
            "{b.period}",
            "{a",
            "{a b}",
            "{}",
            "{1}",
            "5%",
            "{a} of $7",
            "in 2021",
        ] {
            assert!(print_figures(text, &figures).problem.is_some(), "{text}");
        }
    }
}
