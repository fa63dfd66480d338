//! Reading what a model wrote: JSON, or nearly so.
//!
//! A reply that cannot be read is an error, never an empty default.

use serde::de::DeserializeOwned;

/// Reads a typed answer from `text`: as it stands, else the object in it (models put fences and prose around), else that
/// object without trailing commas.
///
/// # Errors
/// Why it cannot be read; the message holds nothing of the text.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let strict = serde_json::from_str(text);
    if let Ok(answer) = strict {
        return Ok(answer);
    }
    let Some(object) = object(text) else { return Err("it holds no JSON object".into()) };
    serde_json::from_str(object).or_else(|_| serde_json::from_str(&without_trailing_commas(object))).map_err(
        |error: serde_json::Error| {
            // The full message may quote the text.
            format!("{:?} error in line {} column {}", error.classify(), error.line(), error.column()).to_lowercase()
        },
    )
}

/// From the first opening brace to the last closing one.
fn object(text: &str) -> Option<&str> {
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    text.get(start..=end)
}

/// Leaves out commas, outside of strings, that are followed by a closing bracket.
fn without_trailing_commas(json: &str) -> String {
    let mut kept = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in json.char_indices() {
        let closes = || json[at + 1..].trim_start().starts_with(['}', ']']);
        if !(c == ',' && !quoted && closes()) {
            kept.push(c);
        }
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Answer {
        text: String,
    }

    #[test]
    fn what_surrounds_an_object_is_passed_over() {
        for text in [
            r#"{"text":"a, }"}"#,
            "```json\n{\"text\": \"a, }\"}\n```",
            "Here it is: {\"text\":\"a, }\",\n} I hope it helps.",
        ] {
            assert_eq!(parse::<Answer>(text), Ok(Answer { text: "a, }".into() }), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_quotes_nothing() {
        for text in ["", "secret", "{secret}", r#"{"text":"secret"#, r#"{"other":"secret"}"#, r#"{"text":null}"#] {
            let error = parse::<Answer>(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn commas_in_strings_stay() {
        assert_eq!(without_trailing_commas(r#"{"a":",]\",}",}"#), r#"{"a":",]\",}"}"#);
        assert_eq!(without_trailing_commas("[1, 2 , ]"), "[1, 2  ]");
    }
}
