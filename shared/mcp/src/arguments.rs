//! Checks the arguments of a tool call against the tool's schema, before they are deserialized.
//!
//! Models mix up numbers and strings, so unambiguous values are converted. Blank values count as missing. An argument that
//! the schema does not have is an error that lists those it has.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ToolError;

/// Schema keyword of an argument that is accepted but not listed.
pub(crate) const HIDDEN: &str = "x-hidden";
/// Schema keyword of an argument that is listed as nullable, for PageIndex's contract.
pub(crate) const NULLABLE: &str = "x-nullable";
/// Schema keyword of a string for which a number is an error.
const TEXT_ONLY: &str = "x-text-only";
/// Schema keyword of a string that may also be sent as an array; the array becomes a list with commas.
const LIST: &str = "x-list";
/// Schema keyword of a string that may also be sent as an array of strings, see [`Names`].
const NAMES: &str = "x-names";
/// Schema keyword of a number that is moved into its range.
const CLAMPED: &str = "x-clamped";

const MAX_CHARS: usize = 4_000;
const MAX_NAME_CHARS: usize = 60;
// Values of a list.
const MAX_NAMES: usize = 50;
// Keeps sums of numbers from overflowing.
const MAX_NUMBER: u64 = 1_000_000_000;

/// One name, or several in an array.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "OneOrMany")]
pub(crate) struct Names(pub(crate) Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Names {
    fn from(sent: OneOrMany) -> Self {
        match sent {
            OneOrMany::One(name) => Self(vec![name]),
            OneOrMany::Many(names) => Self(names),
        }
    }
}

/// The arguments as `schema` describes them.
pub(crate) fn check(schema: &JsonObject, sent: JsonObject) -> Result<JsonObject, ToolError> {
    let mut checked = JsonObject::new();
    for (name, value) in sent {
        let Some(property) = schema["properties"].get(&name) else {
            let known = schema["properties"].as_object().into_iter().flatten();
            let listed = known.filter(|(_, property)| property.get(HIDDEN).is_none());
            return Err(unknown_argument(
                &name,
                listed.map(|(name, _)| name.as_str()),
            ));
        };
        if !is_blank(&value) {
            let value = convert(&name, property, value)?;
            checked.insert(name, value);
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    match required.find(|name| !checked.contains_key(*name)) {
        Some(name) => Err(missing_argument(name)),
        None => Ok(checked),
    }
}

pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(values) => values.is_empty(),
        value => value.is_null(),
    }
}

pub(crate) fn missing_argument(name: &str) -> ToolError {
    ToolError::invalid(format!("`{name}` is missing"))
}

pub(crate) fn unknown_argument<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ToolError {
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    let known = known.collect::<Vec<_>>().join(", ");
    ToolError::invalid(format!(
        "there is no argument `{name}`; arguments are {known}"
    ))
}

fn convert(name: &str, property: &Value, value: Value) -> Result<Value, ToolError> {
    // An optional argument has the types `[T, "null"]`.
    let kind = match &property["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("string") if property.get(TEXT_ONLY).is_some() && value.is_number() => {
            Err(not_a_text(name))
        }
        Some("string") if property.get(LIST).is_some() && value.is_array() => {
            Ok(texts(name, &value)?.join(",").into())
        }
        Some("string") if property.get(NAMES).is_some() && value.is_array() => {
            Ok(texts(name, &value)?.into())
        }
        Some("string") => {
            let text = text(name, &value)?;
            match property["enum"].as_array() {
                Some(words) => choice(name, words, &text),
                None => Ok(text.into()),
            }
        }
        Some("integer") => number(name, property, &value),
        Some("boolean") => flag(name, &value),
        _ => Ok(value),
    }
}

/// A trimmed string; numbers are converted.
pub(crate) fn text(name: &str, value: &Value) -> Result<String, ToolError> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return Err(not_a_text(name)),
    };
    if text.chars().nth(MAX_CHARS).is_some() {
        return Err(ToolError::invalid(format!(
            "`{name}` has more than {MAX_CHARS} characters"
        )));
    }
    Ok(text)
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, ToolError> {
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    if values.len() > MAX_NAMES {
        return Err(ToolError::invalid(format!(
            "`{name}` has more than {MAX_NAMES} values"
        )));
    }
    values.iter().map(|value| text(name, value)).collect()
}

fn not_a_text(name: &str) -> ToolError {
    ToolError::invalid(format!("`{name}` must be a string"))
}

fn choice(name: &str, words: &[Value], text: &str) -> Result<Value, ToolError> {
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let matching = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    matching
        .map(|word| Value::from(*word))
        .ok_or_else(|| ToolError::invalid(format!("`{name}` is one of: {}", words.join(", "))))
}

fn number(name: &str, property: &Value, value: &Value) -> Result<Value, ToolError> {
    let least = property["minimum"].as_u64().unwrap_or(0);
    let most = property["maximum"].as_u64().unwrap_or(MAX_NUMBER);
    let number = match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = if property.get(CLAMPED).is_some() {
        number.map(|number| number.clamp(least, most))
    } else {
        number.filter(|number| (least..=most).contains(number))
    };
    number.map(Value::from).ok_or_else(|| {
        ToolError::invalid(format!("`{name}` is a whole number from {least} to {most}"))
    })
}

// JavaScript-like clients send 5 as 5.0.
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=MAX_NUMBER as f64).contains(&number)).then_some(number as u64)
}

fn flag(name: &str, value: &Value) -> Result<Value, ToolError> {
    match value {
        Value::Bool(flag) => Ok((*flag).into()),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true.into()),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false.into()),
        _ => Err(ToolError::invalid(format!("`{name}` is true or false"))),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::handler::server::tool::schema_for_input;
    use schemars::JsonSchema;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    fn parse<T: DeserializeOwned + JsonSchema + 'static>(sent: &Value) -> Result<T, ToolError> {
        let schema = schema_for_input::<T>().unwrap();
        let checked = check(&schema, sent.as_object().unwrap().clone())?;
        Ok(serde_json::from_value(Value::Object(checked)).unwrap())
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Sample {
        #[schemars(range(min = 1, max = 9))]
        number: usize,
        #[schemars(range(min = 3, max = 9), extend("x-clamped" = true))]
        clamped: Option<usize>,
        flag: bool,
        text: Option<String>,
        #[schemars(extend("x-text-only" = true))]
        question: Option<String>,
        choice: Option<Choice>,
        #[schemars(extend("x-list" = true))]
        pages: Option<String>,
        #[schemars(with = "Option<String>", extend("x-names" = true))]
        names: Names,
        #[schemars(extend("x-hidden" = true))]
        hidden: Option<String>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    enum Choice {
        One,
        Two,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    struct Required {
        #[expect(dead_code, reason = "only its presence is tested")]
        text: String,
    }

    #[test]
    fn unambiguous_arguments_are_converted() {
        let sent = json!({
            "number": "5", "clamped": 7.0, "flag": "TRUE", "text": " x ", "question": null, "choice": "TWO", "hidden": 9,
            "pages": [5, "7-9"], "names": ["a", " b "]
        });
        let expected = Sample {
            number: 5,
            clamped: Some(7),
            flag: true,
            text: Some("x".into()),
            question: None,
            choice: Some(Choice::Two),
            pages: Some("5,7-9".into()),
            names: Names(vec!["a".into(), "b".into()]),
            hidden: Some("9".into()),
        };
        assert_eq!(parse::<Sample>(&sent).unwrap(), expected);
        let sent = json!({ "clamped": 100, "text": " ", "pages": 5, "names": "a, b" });
        let expected = Sample {
            clamped: Some(9),
            pages: Some("5".into()),
            names: Names(vec!["a, b".into()]),
            ..Sample::default()
        };
        assert_eq!(parse::<Sample>(&sent).unwrap(), expected);
    }

    #[test]
    fn ambiguous_arguments_are_refused_by_name() {
        for (sent, message) in [
            (
                json!({"number": 10}),
                "`number` is a whole number from 1 to 9",
            ),
            (
                json!({"number": 1.5}),
                "`number` is a whole number from 1 to 9",
            ),
            (
                json!({"number": -1}),
                "`number` is a whole number from 1 to 9",
            ),
            (
                json!({"clamped": "x"}),
                "`clamped` is a whole number from 3 to 9",
            ),
            (json!({"flag": "perhaps"}), "`flag` is true or false"),
            (json!({"choice": "three"}), "`choice` is one of: one, two"),
            (json!({"text": ["x"]}), "`text` must be a string"),
            (json!({"question": 5}), "`question` must be a string"),
            (
                json!({"text": "x".repeat(5_000)}),
                "`text` has more than 4000 characters",
            ),
            (
                json!({"x": 1}),
                "there is no argument `x`; arguments are choice, clamped, flag, names, number, pages, question, text",
            ),
        ] {
            assert_eq!(parse::<Sample>(&sent).unwrap_err().message, message);
        }
        for sent in [json!({}), json!({"text": ""})] {
            assert_eq!(
                parse::<Required>(&sent).unwrap_err().message,
                "`text` is missing"
            );
        }
    }
}
