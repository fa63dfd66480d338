//! Arguments of a tool call. Tools take each by name; an argument that remains is an error.
//!
//! Models mix up numbers and strings, so unambiguous values are converted.

use std::ops::RangeInclusive;

use rmcp::model::JsonObject;
use serde_json::Value;

use crate::error::ToolError;

const MAX_CHARS: usize = 4_000;

/// The arguments not read yet.
pub(crate) struct Arguments {
    sent: JsonObject,
    read: Vec<&'static str>,
}

impl Arguments {
    pub(crate) fn new(sent: Option<JsonObject>) -> Self {
        Self {
            sent: sent.unwrap_or_default(),
            read: Vec::new(),
        }
    }

    // `None` if the argument is missing, null or blank.
    pub(crate) fn value(&mut self, name: &'static str) -> Option<Value> {
        self.read.push(name);
        let value = self.sent.remove(name)?;
        let blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
        (!blank).then_some(value)
    }

    /// A trimmed string; numbers are converted.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, ToolError> {
        let text = match self.value(name) {
            None => return Ok(None),
            Some(Value::String(text)) => text.trim().to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => return Err(ToolError::invalid(format!("`{name}` is a text"))),
        };
        let short = text.chars().nth(MAX_CHARS).is_none();
        if short {
            Ok(Some(text))
        } else {
            Err(ToolError::invalid(format!(
                "`{name}` has more than {MAX_CHARS} characters"
            )))
        }
    }

    /// Like [`Self::text`], but a number is an error.
    pub(crate) fn non_numeric_text(
        &mut self,
        name: &'static str,
    ) -> Result<Option<String>, ToolError> {
        match self.sent.get(name) {
            Some(Value::Number(_)) => Err(ToolError::invalid(format!("`{name}` is a text"))),
            _ => self.text(name),
        }
    }

    /// A required string.
    pub(crate) fn required_text(&mut self, name: &'static str) -> Result<String, ToolError> {
        self.text(name)?
            .ok_or_else(|| ToolError::invalid(format!("`{name}` is missing")))
    }

    pub(crate) fn number(
        &mut self,
        name: &'static str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, ToolError> {
        let number = match self.value(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => whole(&number),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(ToolError::invalid(format!(
                "`{name}` is a whole number from {} to {}",
                range.start(),
                range.end()
            ))),
        }
    }

    /// A boolean; defaults to false.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, ToolError> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(ToolError::invalid(format!("`{name}` is true or false"))),
        }
    }

    /// One of the given words; defaults to the first.
    pub(crate) fn choice(
        &mut self,
        name: &'static str,
        words: &[&'static str],
    ) -> Result<&'static str, ToolError> {
        let Some(text) = self.text(name)? else {
            return Ok(words[0]);
        };
        let matching = words.iter().find(|word| word.eq_ignore_ascii_case(&text));
        matching
            .copied()
            .ok_or_else(|| ToolError::invalid(format!("`{name}` is one of: {}", words.join(", "))))
    }

    /// Fails if an argument was not read.
    pub(crate) fn reject_unknown(self) -> Result<(), ToolError> {
        let Some(name) = self.sent.keys().next() else {
            return Ok(());
        };
        let short_name: String = name.chars().take(60).collect();
        Err(ToolError::invalid(format!(
            "there is no argument `{short_name}`; arguments are {}",
            self.read.join(", ")
        )))
    }
}

// JavaScript-like clients send 5 as 5.0.
fn whole(number: &serde_json::Number) -> Option<usize> {
    number
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .or_else(|| {
            number.as_f64().and_then(|float: f64| {
                (float.fract() == 0.0 && (0.0..=9e15).contains(&float)).then_some(float as usize)
            })
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: &Value) -> Arguments {
        Arguments::new(value.as_object().cloned())
    }

    #[test]
    fn unambiguous_arguments_are_coerced() {
        let mut sent = arguments(
            &json!({"a": "5", "b": 7.0, "c": "TRUE", "d": " x ", "e": null, "f": 9, "g": " "}),
        );
        assert_eq!(sent.number("a", 1..=9).unwrap(), Some(5));
        assert_eq!(sent.number("b", 1..=9).unwrap(), Some(7));
        assert!(sent.flag("c").unwrap());
        assert_eq!(sent.text("d").unwrap().as_deref(), Some("x"));
        assert_eq!(sent.text("e").unwrap(), None);
        assert_eq!(sent.text("f").unwrap().as_deref(), Some("9"));
        assert_eq!(sent.text("g").unwrap(), None);
        assert!(sent.reject_unknown().is_ok());
    }

    #[test]
    fn ambiguous_arguments_are_refused_by_name() {
        let wrong = |value: Value| {
            let mut sent = arguments(&value);
            let read = sent
                .number("n", 1..=9)
                .and_then(|_| sent.flag("f"))
                .and_then(|_| sent.choice("c", &["one"]));
            read.and_then(|_| sent.reject_unknown())
                .unwrap_err()
                .message
        };
        assert_eq!(wrong(json!({"n": 10})), "`n` is a whole number from 1 to 9");
        assert_eq!(
            wrong(json!({"n": 1.5})),
            "`n` is a whole number from 1 to 9"
        );
        assert_eq!(wrong(json!({"n": -1})), "`n` is a whole number from 1 to 9");
        assert_eq!(wrong(json!({"f": "perhaps"})), "`f` is true or false");
        assert_eq!(wrong(json!({"c": "two"})), "`c` is one of: one");
        assert_eq!(
            wrong(json!({"x": 1})),
            "there is no argument `x`; arguments are n, f, c"
        );
        assert!(
            arguments(&json!({"t": "x".repeat(5_000)}))
                .text("t")
                .is_err()
        );
        assert!(arguments(&json!({"t": ["x"]})).text("t").is_err());
    }
}
