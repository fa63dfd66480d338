//! Which facts a request asks for.

use stemma_document::SourceBody;
use stemma_xbrl::{Date, FactTable, Period, TaggedFact};

use crate::ApiError;

/// A concept of a request: a name with or without its prefix, or words of its label or of the row that displays it.
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
        // Labels have words in the plural and in the singular: revenues and revenue.
        let stem = |word: &str| match word.strip_suffix('s') {
            Some(stem) if stem.len() > 2 => stem.to_owned(),
            _ => word.to_owned(),
        };
        Self {
            words: words.map(stem).collect(),
            name,
        }
    }

    pub(super) fn is_named(&self, fact: &TaggedFact<'_>) -> bool {
        fact.concept.eq_ignore_ascii_case(&self.name)
            || fact.local_name().eq_ignore_ascii_case(&self.name)
    }

    /// Whether a fact has the name, or the words in its label.
    pub(super) fn is_in(&self, table: &FactTable) -> bool {
        table
            .facts()
            .any(|fact| self.is_named(&fact) || self.has_words(&fact))
    }

    /// Words count only where no concept of the table has the name, and rows only where no label has the words.
    pub(super) fn filter<'t>(
        &self,
        table: &'t FactTable,
        rows: Option<&SourceBody>,
    ) -> impl Fn(&TaggedFact<'t>) -> bool {
        let is_name = table.facts().any(|fact| self.is_named(&fact));
        move |fact| match rows {
            _ if is_name => self.is_named(fact),
            Some(body) => row_text(fact, body).is_some_and(|row| self.has_all_words(row)),
            None => self.has_words(fact),
        }
    }

    /// Whether the label has all words.
    pub(super) fn has_words(&self, fact: &TaggedFact<'_>) -> bool {
        self.has_all_words(fact.label)
    }

    fn has_all_words(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        !self.words.is_empty() && self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

// The line that displays a fact: in a table, its row.
fn row_text<'b>(fact: &TaggedFact<'_>, body: &'b SourceBody) -> Option<&'b str> {
    let SourceBody::Pages(pages) = body else {
        return None;
    };
    let page = pages.get(fact.page?.index())?;
    let line = page.lines.get(fact.line? as usize)?;
    Some(&line.text)
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
            let message = format!(
                "`{text}` is not a period: write 2024, 2024-12-31 or 2024-01-01/2024-12-31"
            );
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
