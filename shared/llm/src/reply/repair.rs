//! Slips of models in JSON that have one meaning only.

/// `json` with its slips mended; `None` where one has no meaning that is sure.
pub(super) fn repaired(json: &str) -> Option<String> {
    let mut made = String::with_capacity(json.len() + 16);
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        match c {
            '"' => rest = string(rest, &mut made)?,
            '\'' => rest = single_quoted(rest, &mut made)?,
            ',' if closes(&rest[1..]) => rest = &rest[1..],
            c if c.is_alphabetic() => rest = word(rest, &mut made),
            c => {
                made.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Some(made)
}

/// Whether the next thing is a closing bracket.
fn closes(rest: &str) -> bool {
    rest.trim_start().starts_with(['}', ']'])
}

/// Takes over a string in double quotes, with control characters escaped. Returns what follows it.
fn string<'a>(text: &'a str, made: &mut String) -> Option<&'a str> {
    made.push('"');
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\'' if escaped => {
                made.pop(); // JSON does not escape it
                made.push(c);
            }
            '"' if !escaped => {
                made.push(c);
                return Some(&text[at + 1..]);
            }
            c => plain(c, made),
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// Takes over a string in single quotes. It ends at a quote before something that may follow a string; a quote between two
/// letters is an apostrophe; with any other quote in it no one can say where it ends.
fn single_quoted<'a>(text: &'a str, made: &mut String) -> Option<&'a str> {
    made.push('"');
    let mut before = '\'';
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        let rest = &text[at + c.len_utf8()..];
        match c {
            '\'' if escaped => {
                made.pop();
                made.push(c);
            }
            '\'' if rest.trim_start().starts_with([',', ':', '}', ']']) => {
                made.push('"');
                return Some(rest);
            }
            '\'' if before.is_alphanumeric() && rest.starts_with(char::is_alphanumeric) => {
                made.push(c)
            }
            '\'' => return None,
            '"' => made.push_str(if escaped { "\"" } else { "\\\"" }),
            c => plain(c, made),
        }
        escaped = c == '\\' && !escaped;
        before = c;
    }
    None
}

/// A character of a string; control characters may not stand there as they are.
fn plain(c: char, made: &mut String) {
    match c {
        '\n' => made.push_str("\\n"),
        '\r' => made.push_str("\\r"),
        '\t' => made.push_str("\\t"),
        c if c < ' ' => made.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => made.push(c),
    }
}

/// Takes over a word outside of strings, in JSON's spelling.
fn word<'a>(text: &'a str, made: &mut String) -> &'a str {
    let end = text
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    made.push_str(match word {
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
        serde_json::from_str(&repaired(text)?).ok()
    }

    #[test]
    fn slips_with_one_meaning_are_mended() {
        for (text, meant) in [
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
            assert_eq!(read(text), Some(meant), "{text}");
        }
    }

    #[test]
    fn what_may_mean_two_things_is_left_alone() {
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
