//! Repairs JSON errors that have only one reading.

/// Returns `None` if an error is ambiguous.
pub(super) fn repair(json: &str) -> Option<String> {
    let mut out = String::with_capacity(json.len() + 16);
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        match c {
            '"' => rest = copy_string(rest, &mut out)?,
            '\'' => rest = copy_single_quoted(rest, &mut out)?,
            ',' if is_before_close(&rest[1..]) => rest = &rest[1..],
            c if c.is_alphabetic() => rest = copy_word(rest, &mut out),
            c => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Some(out)
}

fn is_before_close(rest: &str) -> bool {
    rest.trim_start().starts_with(['}', ']'])
}

// Copies a double-quoted string, escapes control characters, and returns the rest.
fn copy_string<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    out.push('"');
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\'' if escaped => {
                out.pop(); // JSON has no escape for it.
                out.push(c);
            }
            '"' if !escaped => {
                out.push(c);
                return Some(&text[at + 1..]);
            }
            c => push_escaped(c, out),
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

// Copies a single-quoted string. A quote before `,`, `:`, `}` or `]` ends it; a quote between two letters is an apostrophe;
// any other quote is ambiguous.
fn copy_single_quoted<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    out.push('"');
    let mut before = '\'';
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        let rest = &text[at + c.len_utf8()..];
        match c {
            '\'' if escaped => {
                out.pop();
                out.push(c);
            }
            '\'' if rest.trim_start().starts_with([',', ':', '}', ']']) => {
                out.push('"');
                return Some(rest);
            }
            '\'' if before.is_alphanumeric() && rest.starts_with(char::is_alphanumeric) => {
                out.push(c);
            }
            '\'' => return None,
            '"' => out.push_str(if escaped { "\"" } else { "\\\"" }),
            c => push_escaped(c, out),
        }
        escaped = c == '\\' && !escaped;
        before = c;
    }
    None
}

// JSON allows no raw control characters in strings.
fn push_escaped(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

// Copies a literal, and converts the spellings of Python and JavaScript.
fn copy_word<'a>(text: &'a str, out: &mut String) -> &'a str {
    let end = text
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    out.push_str(match word {
        "None" | "undefined" => "null",
        "True" | "TRUE" => "true",
        "False" | "FALSE" => "false",
        word => word,
    });
    rest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Option<Value> {
        serde_json::from_str(&repair(text)?).ok()
    }

    #[test]
    fn unambiguous_json_errors_are_repaired() {
        for (text, expected) in [
            (r#"{"a":",]\",}",}"#, json!({ "a": ",]\",}" })),
            ("[1, 2 , ]", json!([1, 2])),
            (
                r#"{"a": None, "b": True, "c": False, "d": "None"}"#,
                json!({"a":null,"b":true,"c":false,"d":"None"}),
            ),
            (
                "{\"a\": \"two\nlines\tand \u{1}\"}",
                json!({ "a": "two\nlines\tand \u{1}" }),
            ),
            (
                r#"{'a': 'it is', 'b': ['x', "it's"]}"#,
                json!({ "a": "it is", "b": ["x", "it's"] }),
            ),
            (r#"{'a': 'it's "3M"'}"#, json!({ "a": "it's \"3M\"" })),
            (r#"{"a": "it\'s"}"#, json!({ "a": "it's" })),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn ambiguous_json_errors_are_not_repaired() {
        for text in [
            "{'a': 'the 'big' one'}",
            "{'a': 'ends' here'}",
            r#"{"a": "breaks off"#,
            "{'a': 'breaks",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
