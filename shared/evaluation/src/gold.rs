//! File formats of the gold data: the correct structure, text and facts of documents.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use stemma_document::ItemStatus;

use crate::facts::{FactFields, fact_names, fields_of};

/// The headings of a document, in reading order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GoldStructure {
    /// File name, with or without extension, or path.
    pub doc: String,
    /// Absent for texts without pages.
    pub pages: Option<u32>,
    /// Origin of the data. Means are also given per source.
    #[serde(default)]
    pub source: String,
    pub scope: Option<GoldScope>,
    /// `false` excludes levels and parents from the score.
    #[serde(default = "default_levels_reliable")]
    pub levels_reliable: bool,
    pub nodes: Vec<GoldHeading>,
}

/// Which sections the gold data covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoldScope {
    /// Every heading. Any other predicted section is a false positive.
    Full,
    /// PARTs and Items only. Other predicted sections are ignored.
    SecItems,
    /// A sample of the headings. Only recall is scored.
    RecallOnly,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GoldHeading {
    pub title: String,
    /// From 1, the highest.
    pub level: std::num::NonZeroU16,
    /// Physical page, from 1.
    pub page: Option<u32>,
    /// Line, from 1, in texts without pages.
    pub line: Option<u32>,
}

/// The text of a page.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GoldPageText {
    pub doc: String,
    /// Physical page, from 1. A text without pages is page 1.
    #[serde(default = "default_page")]
    pub page: u32,
    pub text: String,
}

/// The facts of a document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct GoldMetadata {
    pub doc: String,
    /// By name. `null` or an empty list: the document does not state the fact. Facts without a name are not scored.
    pub facts: Map<String, Value>,
}

impl TryFrom<Map<String, Value>> for GoldMetadata {
    type Error = String;

    fn try_from(mut facts: Map<String, Value>) -> Result<Self, String> {
        let Some(Value::String(doc)) = facts.remove("doc") else {
            return Err("missing field `doc`".into());
        };
        let known: Vec<&str> = fact_names().collect();
        if let Some(name) = facts.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!(
                "`{name}` is not a fact; facts are {}",
                known.join(", ")
            ));
        }
        for (name, value) in &facts {
            if gold_values(name, value).is_none() {
                return Err(format!(
                    "`{name}` is {value}, not a value, a list of values or null"
                ));
            }
        }
        Ok(Self { doc, facts })
    }
}

/// The Items of a document, and the places that they refer to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GoldItems {
    pub doc: String,
    /// Status and physical page of the heading (`null` if absent), by Part and number: `II.7A`, `5.02`.
    #[serde(default)]
    pub items: BTreeMap<String, (ItemStatus, Option<u32>)>,
    #[serde(default)]
    pub targets: BTreeMap<String, GoldTarget>,
}

/// The place inside the document that an Item refers to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GoldTarget {
    /// Physical page, from 1.
    pub page: u32,
    pub title: String,
    /// Only a part of the Item is there.
    #[serde(default)]
    pub partial: bool,
    /// Where the target leads on to; as good as the target.
    pub content: Option<Box<GoldTarget>>,
}

/// The values of a fact by field, none for `null`. A value without fields has only the first field of its fact. `None` if
/// `value` is neither a value, a list of values nor `null`. Fields of other names are not scored.
pub(super) fn gold_values(name: &str, value: &Value) -> Option<Vec<FactFields>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(|value| one_value(name, value)).collect(),
        single => one_value(name, single).map(|value| vec![value]),
    }
}

fn one_value(name: &str, value: &Value) -> Option<FactFields> {
    let known = fields_of(name);
    let Value::Object(fields) = value else {
        return Some(vec![(known.first()?, Some(scalar(value)?))]);
    };
    let mut values = FactFields::new();
    for field in known {
        match fields.get(*field) {
            None => {}
            Some(Value::Null) => values.push((*field, None)),
            Some(value) => values.push((*field, Some(scalar(value)?))),
        }
    }
    (!values.is_empty()).then_some(values)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn default_levels_reliable() -> bool {
    true
}

fn default_page() -> u32 {
    1
}

impl GoldStructure {
    /// The stated scope, or the default of the source.
    pub fn scope(&self) -> GoldScope {
        self.scope.unwrap_or(if self.source == "sec-items" {
            GoldScope::SecItems
        } else {
            GoldScope::Full
        })
    }
}

/// A gold file that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct GoldError {
    /// From 1.
    pub line: usize,
    pub reason: String,
}

/// Parses a gold file: one object, an array of objects, or one object per line.
///
/// # Errors
/// [`GoldError`] if the text is not JSON or does not have the fields of `T`.
pub fn parse_gold<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, GoldError> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| with_line(&error, 1));
    }
    let mut entries = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<T>();
    loop {
        let (parsed, rest) = text
            .split_at_checked(stream.byte_offset())
            .unwrap_or((text, ""));
        let blank = rest.len() - rest.trim_start().len();
        let line = 1
            + parsed.matches('\n').count()
            + rest.get(..blank).unwrap_or_default().matches('\n').count();
        match stream.next() {
            Some(entry) => entries.push(entry.map_err(|error| with_line(&error, line))?),
            None => return Ok(entries),
        }
    }
}

/// An error of `try_from` has line 0: it gets the line on which the value starts.
fn with_line(error: &serde_json::Error, first_line: usize) -> GoldError {
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let line = if error.line() == 0 {
        first_line
    } else {
        error.line()
    };
    GoldError {
        line,
        reason: message
            .strip_suffix(&position)
            .unwrap_or(&message)
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_arrays_and_json_lines_are_parsed() {
        let one = r#"{"doc": "a", "page": 2, "text": "x"}"#;
        for (text, count) in [
            (one.to_string(), 1),
            (format!("\u{feff}[{one},\n{one}]"), 2),
            (format!("{one}\n\n{one}\n"), 2),
            ("\n".into(), 0),
        ] {
            assert_eq!(
                parse_gold::<GoldPageText>(&text).map(|entries| entries.len()),
                Ok(count),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_name_their_line() {
        let with_node = |node: &str| format!("{{\"doc\": \"a\",\n \"nodes\": [\n  {node}\n]}}");
        for (text, line, reason) in [
            (with_node(r#"{"title": "x"}"#), 3, "missing field `level`"),
            (
                with_node(r#"{"title": "x", "level": 0}"#),
                3,
                "invalid value: integer `0`, expected a nonzero u16",
            ),
            ("{\"doc\": \"a\"}".into(), 1, "missing field `nodes`"),
            ("{\"doc\": \"a\",\n nodes".into(), 2, "key must be a string"),
        ] {
            let error = parse_gold::<GoldStructure>(&text).unwrap_err();
            assert_eq!(
                (error.line, error.reason.as_str()),
                (line, reason),
                "{text}"
            );
        }
        let error = parse_gold::<GoldMetadata>("{\"doc\": \"a\"}\n{\"doc\": \"b\", \"frm\": 1}")
            .unwrap_err();
        assert!(
            error.line == 2 && error.reason.starts_with("`frm` is not a fact"),
            "{error}"
        );
        let error = parse_gold::<GoldMetadata>("[{\"doc\": \"b\",\n\"form\": {}}]").unwrap_err();
        assert!(
            error.line == 2 && error.reason.starts_with("`form` is {}"),
            "{error}"
        );
    }
}
