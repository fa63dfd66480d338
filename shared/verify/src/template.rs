//! Statements with placeholders, and their text with the figures of the pages.

use std::ops::Range;

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

    /// The statement with figures: `show` gives the text of a placeholder.
    pub(crate) fn fill(&self, show: &dyn Fn(&Part) -> String) -> FilledText {
        let mut filled = FilledText::default();
        for part in &self.parts {
            let start = filled.text.len();
            match part {
                Part::Text(text) => filled.text.push_str(text),
                Part::Figure(_) | Part::Period(_) => filled.text.push_str(&show(part)),
            }
            let at = start..filled.text.len();
            match part {
                Part::Text(_) => {}
                Part::Figure(name) => filled.figures.push((at, name.clone())),
                Part::Period(name) => filled.periods.push((at, name.clone())),
            }
        }
        filled
    }
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

/// A text with the figures of an answer in place of `{a}` and `{a.period}`.
///
/// # Errors
/// Names the placeholder that has no figure, or no period.
pub fn fill_placeholders(text: &str, figures: &[BoundFigure]) -> Result<String, String> {
    let template = Template::parse(text)?;
    let mut missing = None;
    for part in &template.parts {
        if shown(part, &|name| find(figures, name)).is_none() {
            missing.get_or_insert(part);
        }
    }
    match missing {
        Some(Part::Period(name)) => Err(format!("the period of `{name}` is not known")),
        Some(Part::Figure(name)) => Err(format!("`{name}` is not a figure")),
        Some(Part::Text(_)) | None => {
            let show = |part: &Part| shown(part, &|name| find(figures, name)).unwrap_or_default();
            Ok(template.fill(&show).text)
        }
    }
}

/// The figures that a text names in placeholders, each once. Empty for a text that cannot be read.
pub fn placeholder_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    if let Ok(template) = Template::parse(text) {
        for name in template.names() {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

fn find<'f>(figures: &'f [BoundFigure], name: &str) -> Option<&'f BoundFigure> {
    figures.iter().find(|figure| figure.name == name)
}

/// What a placeholder shows; `None` if that is not known.
pub(crate) fn shown<'k>(
    part: &Part,
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
) -> Option<String> {
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
    use super::*;

    #[test]
    fn placeholders_are_filled_or_named() {
        let figure = BoundFigure {
            name: "a".into(),
            text: "$5 million".into(),
            period: "2022".into(),
            ..BoundFigure::default()
        };
        let undated = BoundFigure {
            name: "b".into(),
            text: "5%".into(),
            ..BoundFigure::default()
        };
        let figures = [figure, undated];
        let fill = |text: &str| fill_placeholders(text, &figures);
        assert_eq!(
            fill("Sales were {a} in {a.period}.").as_deref(),
            Ok("Sales were $5 million in 2022.")
        );
        assert_eq!(fill("No figure.").as_deref(), Ok("No figure."));
        assert_eq!(placeholder_names("{a} in {a.period}, {b}"), ["a", "b"]);
        assert!(placeholder_names("{a").is_empty());
        for text in ["{c}", "{b.period}", "{a", "{a b}", "{}", "{1}"] {
            assert!(fill(text).is_err(), "{text}");
        }
    }
}
