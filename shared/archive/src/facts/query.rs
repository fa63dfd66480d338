//! Which facts a request asks for.

use stemma_xbrl::{Date, FactTable, Period, TaggedFact};

use crate::ApiError;

/// A concept of a request: a name with or without its prefix, or words of its label.
pub(super) struct ConceptQuery {
    name: String,
    words: Vec<String>,
}

impl ConceptQuery {
    pub(super) fn new(text: &str) -> Self {
        let name = text.trim().to_lowercase();
        let words = name
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        Self {
            words: words.map(str::to_owned).collect(),
            name,
        }
    }

    pub(super) fn is_named(&self, fact: &TaggedFact<'_>) -> bool {
        fact.concept.eq_ignore_ascii_case(&self.name)
            || fact.local_name().eq_ignore_ascii_case(&self.name)
    }

    // Words only count where no concept of the table has the name.
    pub(super) fn filter<'t>(&self, table: &'t FactTable) -> impl Fn(&TaggedFact<'t>) -> bool {
        let is_name = table.facts().any(|fact| self.is_named(&fact));
        move |fact| {
            if is_name {
                self.is_named(fact)
            } else {
                self.has_words(fact)
            }
        }
    }

    /// Whether the label has all words.
    pub(super) fn has_words(&self, fact: &TaggedFact<'_>) -> bool {
        let label = fact.label.to_lowercase();
        !self.words.is_empty() && self.words.iter().all(|word| label.contains(word.as_str()))
    }
}

/// A period of a request: the year in which it ends, its last day, or its first and last day.
pub(super) enum PeriodQuery {
    Year(i32),
    End(Date),
    Range(Date, Date),
}

impl PeriodQuery {
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let text = text.trim();
        let invalid = || {
            let message =
                format!("`{text}` is no period: write 2024, 2024-12-31 or 2024-01-01/2024-12-31");
            ApiError::invalid_field("/period", message)
        };
        let date = |text: &str| text.parse::<Date>().map_err(|()| invalid());
        if text.len() == 4 {
            return text.parse().map(Self::Year).map_err(|_| invalid());
        }
        match text.split_once('/') {
            Some((from, to)) => Ok(Self::Range(date(from)?, date(to)?)),
            None => Ok(Self::End(date(text)?)),
        }
    }

    pub(super) fn matches(&self, period: Period) -> bool {
        match self {
            Self::Year(year) => period.end().is_some_and(|end| end.year() == *year),
            Self::End(day) => period.end() == Some(*day),
            Self::Range(from, to) => {
                period
                    == Period::Duration {
                        from: *from,
                        to: *to,
                    }
            }
        }
    }
}
