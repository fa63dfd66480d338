//! Statements with placeholders, and their text with the figures of the pages.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_reading::numbers::{Currency, NumberRole, numbers};
use stemma_reading::text_words::blank;
use stemma_reading::vocabulary::{PERCENT_WORDS, SPOKEN_SCALES};

use super::claim::BoundFigure;

// A reply is untrusted input.
const MAX_CHARS: usize = 4_000;

/// A statement, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template<'t> {
    /// Each placeholder with the text before it.
    parts: Vec<(&'t str, Placeholder<'t>)>,
    end: &'t str,
    /// Why it could not be.
    problem: Option<String>,
}

/// `{a}` or `{a.period}`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Placeholder<'t> {
    name: &'t str,
    is_period: bool,
}

/// A statement with its figures.
#[derive(Debug, Default)]
pub(crate) struct FilledText<'k> {
    pub(crate) text: String,
    /// With blanks in place of placeholders.
    pub(crate) bare: String,
    pub(crate) figures: Vec<Placed<'k>>,
    /// Periods that are not written out.
    pub(crate) periods: Vec<Placed<'k>>,
    /// The first placeholder without a figure that was found, without its period, or next to another unit.
    pub(crate) problem: Option<String>,
}

/// A figure, and where it or its period is.
#[derive(Debug, Clone)]
pub(crate) struct Placed<'k> {
    pub(crate) at: Range<usize>,
    pub(crate) figure: &'k BoundFigure,
}

impl<'t> Template<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self::parse(text).unwrap_or_else(|problem| Self {
            parts: Vec::new(),
            end: text,
            problem: Some(problem),
        })
    }

    fn parse(text: &'t str) -> Result<Self, String> {
        if text.chars().count() > MAX_CHARS {
            return Err("the statement is too long".into());
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, behind) = after.split_once('}').ok_or("a placeholder has no end")?;
            let name = inside.trim();
            let of_period = name.strip_suffix(".period");
            let placeholder = Placeholder {
                name: of_period.unwrap_or(name),
                is_period: of_period.is_some(),
            };
            if !is_name(placeholder.name) {
                return Err(format!("`{{{name}}}` is not a placeholder"));
            }
            parts.push((before, placeholder));
            rest = behind;
        }
        Ok(Self {
            parts,
            end: rest,
            problem: None,
        })
    }

    /// The names that it uses.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'t str> {
        self.parts.iter().map(|(_, placeholder)| placeholder.name)
    }

    /// The statement without its figures; empty if it could not be taken apart.
    pub(crate) fn bare(&self) -> String {
        let texts = self.parts.iter().map(|(text, _)| *text);
        let end = Some(self.end).filter(|_| self.problem.is_none());
        texts.chain(end).collect::<Vec<_>>().join(" ")
    }

    /// The statement with figures. What is not known is shown by its name.
    pub(crate) fn fill<'k>(
        &self,
        known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
    ) -> FilledText<'k> {
        let mut filled = FilledText {
            problem: self.problem.clone(),
            ..FilledText::default()
        };
        for (text, placeholder) in &self.parts {
            filled.push_text(text);
            filled.push_figure(*placeholder, known(placeholder.name));
        }
        filled.push_text(self.end);
        let placed = filled.figures.iter().chain(&filled.periods);
        filled.bare = blank(&filled.text, placed.map(|placed| &placed.at));
        filled
    }
}

impl<'k> FilledText<'k> {
    // `{a} million` and `{m}%` repeat the end of the unit.
    fn push_text(&mut self, text: &str) {
        let before = self.figures.last();
        let before = before.filter(|placed| placed.at.end == self.text.len());
        let Some(placed) = before else {
            return self.text.push_str(text);
        };
        let figure = &placed.figure.text;
        let unit = match figure.ends_with('%') {
            true => "%",
            false => figure.rsplit_once(' ').map_or("", |(_, unit)| unit),
        };
        let after = text.trim_start();
        let end = after.find(|c: char| !c.is_alphanumeric());
        let word = match after.starts_with('%') {
            true => "%",
            false => &after[..end.unwrap_or(after.len())],
        };
        if !unit.is_empty() && word == unit {
            return self.text.push_str(&after[word.len()..]);
        }
        if SPOKEN_SCALES.contains(word) || PERCENT_WORDS.contains(word) {
            let problem = format!("another unit is next to {figure}");
            self.problem.get_or_insert(problem);
        }
        self.text.push_str(text);
    }

    fn push_figure(&mut self, placeholder: Placeholder<'_>, figure: Option<&'k BoundFigure>) {
        let Placeholder { name, is_period } = placeholder;
        let Some(figure) = figure else {
            let problem = format!("`{name}` is not a figure of the answer");
            self.problem.get_or_insert(problem);
            return self.text.push_str(name);
        };
        let problem = match () {
            () if !figure.is_found => Some(format!("{} was not found on a page", figure.text)),
            () if is_period && figure.period.is_empty() => {
                Some(format!("the period of {} is not known", figure.text))
            }
            () => None,
        };
        self.problem = self.problem.take().or(problem);
        let (text, placed) = match is_period {
            true if figure.period.is_empty() => (name, &mut self.periods),
            true => (figure.period.as_str(), &mut self.periods),
            false => (figure.text.as_str(), &mut self.figures),
        };
        // `${a}` repeats the sign of the figure.
        if let Some(sign) = self.text.chars().next_back().filter(|c| is_currency(*c)) {
            match !is_period && text.starts_with(sign) {
                true => self.text.truncate(self.text.len() - sign.len_utf8()),
                false => {
                    let problem = format!("another unit is next to {text}");
                    self.problem.get_or_insert(problem);
                }
            }
        }
        let start = self.text.len();
        self.text.push_str(text);
        let at = start..self.text.len();
        placed.push(Placed { at, figure });
    }
}

fn is_currency(c: char) -> bool {
    !c.is_alphanumeric() && Currency::from_word(c.encode_utf8(&mut [0; 4])).is_some()
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
    let template = Template::new(text);
    let names: BTreeSet<&str> = template.names().collect();
    let filled = template.fill(&|name| figures.iter().find(|figure| figure.name == name));
    let spans = figures.iter().flat_map(|figure| &figure.spans);
    let years: Vec<String> = spans
        .filter_map(|span| span.year)
        .map(|year| year.to_string())
        .collect();
    let mut numbers = numbers(&template.bare()).into_iter();
    let number = numbers.find(|number| match number.role {
        NumberRole::Name => false,
        NumberRole::Year => !years.contains(&number.digits),
        NumberRole::Amount | NumberRole::Count => true,
    });
    let number = number.map(|number| format!("{} is not read from a page", number.text));
    PrintedText {
        problem: filled.problem.or(number),
        names: names.into_iter().map(str::to_owned).collect(),
        text: filled.text,
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
