//! The files of truths: what a document's structure, text and facts really are.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::metadata::{FACTS, truth_values};

/// Headings of a document, in reading order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StructureTruth {
    /// The document: its file name, with or without its ending, or its path.
    pub doc: String,
    /// Pages of the document; absent for texts without pages.
    pub pages: Option<u32>,
    /// Where the truth comes from; means are given for each.
    #[serde(default)]
    pub source: String,
    /// Which sections the truth speaks of.
    pub scope: Option<TruthScope>,
    /// `false`: the levels say nothing, and are not judged.
    #[serde(default = "yes")]
    pub levels_reliable: bool,
    /// The headings.
    pub nodes: Vec<TruthHeading>,
}

/// Which sections a truth speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TruthScope {
    /// Every heading: whatever else is found is one too many.
    Full,
    /// PARTs and Items only: other sections that are found are neither right nor wrong.
    SecItems,
    /// A selection: only what is missed counts.
    RecallOnly,
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TruthHeading {
    /// Its title.
    pub title: String,
    /// 1 is the highest.
    pub level: std::num::NonZeroU16,
    /// Physical page it stands on, from 1.
    pub page: Option<u32>,
    /// Line it stands on, from 1, in texts without pages.
    pub line: Option<u32>,
}

/// The text of a page.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PageTextTruth {
    /// The document.
    pub doc: String,
    /// Physical page, from 1; a text without pages is page 1.
    #[serde(default = "one")]
    pub page: u32,
    /// Its text.
    pub text: String,
}

/// Facts of a document: a value, several of them, or `null` where the document does not state it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct MetadataTruth {
    /// The document.
    pub doc: String,
    /// The facts by name (see [`FACTS`]). What is left out is not judged.
    pub facts: Map<String, Value>,
}

impl TryFrom<Map<String, Value>> for MetadataTruth {
    type Error = String;

    fn try_from(mut facts: Map<String, Value>) -> Result<Self, String> {
        let Some(Value::String(doc)) = facts.remove("doc") else {
            return Err("missing field `doc`".into());
        };
        if let Some(name) = facts.keys().find(|name| !FACTS.contains(&name.as_str())) {
            return Err(format!(
                "`{name}` is no fact; facts are {}",
                FACTS.join(", ")
            ));
        }
        match facts
            .iter()
            .find(|(_, value)| truth_values(value).is_none())
        {
            Some((name, value)) => Err(format!(
                "`{name}` is {value}, not a value, a list of values or null"
            )),
            None => Ok(Self { doc, facts }),
        }
    }
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

impl StructureTruth {
    /// The scope; where it is not said, it follows from the source.
    pub fn scope(&self) -> TruthScope {
        self.scope.unwrap_or(if self.source == "sec-items" {
            TruthScope::SecItems
        } else {
            TruthScope::Full
        })
    }
}

/// Why a file is no file of truths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TruthError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// The truths in a file: one object, an array of them, or one per line.
///
/// # Errors
/// [`TruthError`] when it is no JSON, or something is missing or of another kind.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, TruthError> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| with_line(&error, 1));
    }
    let mut truths = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<T>();
    loop {
        let (read, rest) = text
            .split_at_checked(stream.byte_offset())
            .unwrap_or((text, ""));
        let blank = rest.len() - rest.trim_start().len();
        let line = 1
            + read.matches('\n').count()
            + rest.get(..blank).unwrap_or_default().matches('\n').count();
        match stream.next() {
            Some(truth) => truths.push(truth.map_err(|error| with_line(&error, line))?),
            None => return Ok(truths),
        }
    }
}

/// An error about a whole value has no place of its own: it has the line on which the value starts.
fn with_line(error: &serde_json::Error, starts: usize) -> TruthError {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = error.to_string();
    let line = if error.line() == 0 {
        starts
    } else {
        error.line()
    };
    TruthError {
        line,
        reason: what.strip_suffix(&place).unwrap_or(&what).to_string(),
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
                read::<PageTextTruth>(&text).map(|truths| truths.len()),
                Ok(count),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_name_their_line() {
        let truth = |node: &str| format!("{{\"doc\": \"a\",\n \"nodes\": [\n  {node}\n]}}");
        for (text, line, what) in [
            (truth(r#"{"title": "x"}"#), 3, "missing field `level`"),
            (
                truth(r#"{"title": "x", "level": 0}"#),
                3,
                "invalid value: integer `0`, expected a nonzero u16",
            ),
            ("{\"doc\": \"a\"}".into(), 1, "missing field `nodes`"),
            ("{\"doc\": \"a\",\n nodes".into(), 2, "key must be a string"),
        ] {
            let error = read::<StructureTruth>(&text).unwrap_err();
            assert_eq!((error.line, error.reason.as_str()), (line, what), "{text}");
        }
        let error =
            read::<MetadataTruth>("{\"doc\": \"a\"}\n{\"doc\": \"b\", \"frm\": 1}").unwrap_err();
        assert!(
            error.line == 2 && error.reason.starts_with("`frm` is no fact"),
            "{error}"
        );
        let error = read::<MetadataTruth>("[{\"doc\": \"b\",\n\"form\": {}}]").unwrap_err();
        assert!(
            error.line == 2 && error.reason.starts_with("`form` is {}"),
            "{error}"
        );
    }
}
