//! Lenient parsing of JSON replies.
//!
//! Unreadable and ambiguous replies are errors, never defaults. A truncated object is never closed: it is either continued
//! ([`join_continuation`]) or rejected.

mod continuation;
mod repair;

use serde::de::DeserializeOwned;

pub use continuation::{is_continuable, join_continuation};
use repair::repair;

const MAX_OBJECTS: usize = 8;

/// Parses a typed reply. Tries the whole text, then the one object in it that fits `T` (models add fences, reasoning and
/// prose), then the same after repairing unambiguous errors: trailing commas, `None`, `True` and `False`, raw control
/// characters in strings, single quotes.
///
/// # Errors
/// A message that does not quote the text. It is sent back to the model.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let text = text.trim_start_matches('\u{feff}');
    if let Ok(answer) = serde_json::from_str(text) {
        return Ok(answer);
    }
    let objects = outer_objects(text);
    let Some(last) = objects.last() else {
        return Err(missing_object_error(text).into());
    };
    unique_answer(
        objects
            .iter()
            .map(|object| (*object, serde_json::from_str(object).ok())),
    )
    .or_else(|| {
        unique_answer(objects.iter().map(|object| {
            let answer = repair(object).and_then(|json| serde_json::from_str(&json).ok());
            (*object, answer)
        }))
    })
    .unwrap_or_else(|| {
        Err(parse_error::<T>(
            &repair(last).unwrap_or_else(|| (*last).to_string()),
        ))
    })
}

// Objects that differ are ambiguous: choosing one would be a guess.
fn unique_answer<'a, T>(
    candidates: impl Iterator<Item = (&'a str, Option<T>)>,
) -> Option<Result<T, String>> {
    let mut answers: Vec<(&str, T)> = candidates
        .filter_map(|(object, answer)| Some((object, answer?)))
        .collect();
    let (last, answer) = answers.pop()?;
    let differs = answers.iter().any(|(object, _)| *object != last);
    Some(if differs {
        Err("it holds several answers".into())
    } else {
        Ok(answer)
    })
}

fn missing_object_error(text: &str) -> &'static str {
    if text.contains('{') {
        "its JSON object is cut off"
    } else {
        "it holds no JSON object"
    }
}

// The message of serde_json may quote the text, so only the position is kept.
fn parse_error<T: DeserializeOwned>(json: &str) -> String {
    match serde_json::from_str::<T>(json) {
        Ok(_) => "it cannot be read".into(),
        Err(error) => {
            let what = if error.is_data() {
                "the JSON object does not fit the schema"
            } else {
                "it is not valid JSON"
            };
            format!("{what}, line {} column {}", error.line(), error.column())
        }
    }
}

// Returns the outermost JSON objects of a text. The answer comes last, so the last `MAX_OBJECTS` are kept.
fn outer_objects(text: &str) -> Vec<&str> {
    let mut objects = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
        match object_bytes(&text[start..]) {
            Some(length) => {
                objects.push(&text[start..start + length]);
                at = start + length;
            }
            // A stray brace in prose. It is skipped only once, or hostile text would make this loop quadratic.
            None if objects.is_empty() && at == 0 => at = start + 1,
            None => break,
        }
    }
    let first = objects.len().saturating_sub(MAX_OBJECTS);
    objects.split_off(first)
}

// Length of the object at the start of `text`; `None` if it is truncated.
fn object_bytes(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct TextReply {
        text: String,
    }

    #[test]
    fn text_around_the_object_is_ignored() {
        for text in [
            r#"{"text":"a, }"}"#,
            "```json\n{\"text\": \"a, }\"}\n```",
            "Here it is: {\"text\":\"a, }\",\n} I hope it helps.",
            "\u{feff}<think>{perhaps}</think>\n{\"text\":\"a, }\"}",
            "{\"text\":\"a, }\"}\n{\"text\":\"a, }\"}",
        ] {
            assert_eq!(
                parse::<TextReply>(text),
                Ok(TextReply {
                    text: "a, }".into()
                }),
                "{text}"
            );
        }
    }

    #[test]
    fn parse_errors_do_not_quote_the_reply() {
        for text in [
            "",
            "secret",
            "{secret}",
            r#"{"text":"secret"#,
            r#"{"other":"secret"}"#,
            r#"{"text":null}"#,
            "null",
            "[]",
            r#"{"text":"one secret"} or {"text":"another secret"}"#,
            "{\"text\": 'the 'secret', one'}",
        ] {
            let error = parse::<TextReply>(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn hostile_text_is_parsed_in_linear_time() {
        for unit in ["{", "{\"", "{}", "[{", "'", "{'a':"] {
            let text = unit.repeat(2_000_000 / unit.len());
            assert!(parse::<TextReply>(&text).is_err());
        }
    }
}
