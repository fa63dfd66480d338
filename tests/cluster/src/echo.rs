//! The echo model: a reply that depends on the request alone, and fits the schema the request asks for.
//!
//! It understands nothing. What it decides (yes or no, one of these, a number) comes from the digest of the messages;
//! what it says is an excerpt of the last message of the user. The same request gets the same reply in every run, so
//! two runs that asked the same can be compared byte by byte.

use serde_json::{Map, Value, json};

/// Deepest schema that is filled: one that refers to itself has to end.
const DEEPEST: usize = 12;
/// Words of an excerpt, at most.
const EXCERPT_WORDS: usize = 12;

/// Answers the body of a chat completion request.
///
/// # Errors
/// What is wrong with the request, for its sender.
pub fn answer(request: &Value) -> Result<Value, String> {
    let messages = request["messages"].as_array().filter(|m| !m.is_empty()).ok_or("messages: there are none")?;
    if request["stream"] == true {
        return Err("stream: this model does not".into());
    }
    let asked = messages.iter().rev().find(|message| message["role"] == "user").ok_or("messages: none of the user")?;
    let format = &request["response_format"];
    let mut echo = Echo::of(&json!([messages, format["json_schema"]["name"]]), &text_of(asked));
    let content = match format["type"].as_str() {
        Some("json_schema") => {
            let schema = &format["json_schema"]["schema"];
            echo.fill(schema, schema, 0).to_string()
        }
        Some("json_object") => json!({"echo": echo.excerpt(usize::MAX)}).to_string(),
        _ => echo.excerpt(usize::MAX),
    };
    let prompt: usize = messages.iter().map(|message| words(&text_of(message))).sum();
    Ok(json!({
        "id": format!("echo-{}", echo.name),
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": null},
            "finish_reason": "stop",
        }],
        "usage": {
            "prompt_tokens": prompt, "completion_tokens": words(&content), "total_tokens": prompt + words(&content),
        },
    }))
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The text of a message: a string, or parts of which some are text.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

struct Echo {
    name: String,
    dice: blake3::OutputReader,
    lines: Vec<String>,
}

impl Echo {
    fn of(seed: &Value, asked: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(seed.to_string().as_bytes());
        let lines: Vec<_> = asked.lines().filter(|line| words(line) > 0).map(str::to_string).collect();
        Self { name: hasher.finalize().to_hex()[..16].to_string(), dice: hasher.finalize_xof(), lines }
    }

    /// A number below `sides`, which is not 0.
    fn below(&mut self, sides: u64) -> u64 {
        let mut bytes = [0; 8];
        self.dice.fill(&mut bytes);
        u64::from_le_bytes(bytes) % sides
    }

    /// Some words of one line of what was asked, at most `longest` characters.
    fn excerpt(&mut self, longest: usize) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let chosen = self.below(self.lines.len() as u64) as usize;
        let words: Vec<_> = self.lines[chosen].split_whitespace().take(EXCERPT_WORDS).collect();
        words.join(" ").chars().take(longest).collect()
    }

    fn fill(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        if depth > DEEPEST {
            return Value::Null;
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let target = root.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
            return self.fill(target, root, depth + 1);
        }
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
            return values[self.below(values.len() as u64) as usize].clone();
        }
        if let Some(ways) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()).filter(|ways| !ways.is_empty()) {
            let way = self.below(ways.len() as u64) as usize;
            return self.fill(&ways[way], root, depth + 1);
        }
        match self.kind(&schema["type"]).as_str() {
            "object" => self.object(schema, root, depth),
            "array" => self.array(schema, root, depth),
            "boolean" => (self.below(2) == 1).into(),
            "integer" => self.integer(schema).into(),
            "number" => (self.integer(schema) as f64).into(),
            "string" => self.excerpt(schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize)).into(),
            _ => Value::Null,
        }
    }

    /// The type to make, where several are allowed one of them.
    fn kind(&mut self, kinds: &Value) -> String {
        match kinds {
            Value::Array(several) if !several.is_empty() => {
                several[self.below(several.len() as u64) as usize].as_str().unwrap_or_default().into()
            }
            one => one.as_str().unwrap_or_default().into(),
        }
    }

    fn object(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let filled = properties.iter().map(|(name, property)| (name.clone(), self.fill(property, root, depth + 1)));
        Value::Object(filled.collect())
    }

    /// The fewest items that are allowed, and up to three more.
    ///
    /// Of numbered sections there is one item each, which depends on the text of that section alone.
    fn array(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        if schema["items"]["properties"].get("section").is_some() {
            let sections = sections(&self.lines).into_iter();
            return sections.map(|(number, lines)| of_section(number, lines, &schema["items"], root, depth)).collect();
        }
        let fewest = schema["minItems"].as_u64().unwrap_or(0);
        let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX).clamp(fewest, fewest + 3);
        let count = fewest + self.below(most - fewest + 1);
        (0..count).map(|_| self.fill(&schema["items"], root, depth + 1)).collect()
    }

    /// Within the bounds; without bounds from 1 to 9, as pages and levels are.
    fn integer(&mut self, schema: &Value) -> i64 {
        let bound = |names: [&str; 2], inward: i64| {
            let exclusive = schema[names[1]].as_f64().map(|bound| bound as i64 + inward);
            schema[names[0]].as_f64().map(|bound| bound as i64).or(exclusive)
        };
        let least = bound(["minimum", "exclusiveMinimum"], 1);
        let most = bound(["maximum", "exclusiveMaximum"], -1);
        let (least, most) = match (least, most) {
            (Some(least), Some(most)) => (least, most.max(least)),
            (Some(least), None) => (least, least.saturating_add(8)),
            (None, Some(most)) => (most.min(1), most),
            (None, None) => (1, 9),
        };
        least.saturating_add(self.below(most.abs_diff(least).saturating_add(1).max(1)) as i64)
    }
}

/// The lines of each `Section n:` of a prompt, its marks included.
fn sections(lines: &[String]) -> Vec<(u64, &[String])> {
    let number = |line: &String| line.strip_prefix("Section ")?.strip_suffix(':')?.parse().ok();
    let marked = |at: &usize| lines.get(at + 1).is_some_and(|line| line.starts_with('[') && line.ends_with(']'));
    let starts = (0..lines.len()).filter_map(|at| Some((at, number(&lines[at])?))).filter(|(at, _)| marked(at));
    let starts: Vec<(usize, u64)> = starts.collect();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([lines.len()]);
    starts.iter().zip(ends).map(|((start, number), end)| (*number, &lines[start + 1..end])).collect()
}

fn of_section(number: u64, lines: &[String], schema: &Value, root: &Value, depth: usize) -> Value {
    let mut echo = Echo::of(&json!(lines), &lines[1..lines.len() - 1].join("\n"));
    let mut item = echo.object(schema, root, depth);
    item["section"] = number.into();
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Value {
        let schema = json!({
            "type": "object",
            "properties": {
                "contents": {"type": "boolean"},
                "certainty": {"enum": ["low", "high"]},
                "page": {"type": "integer", "minimum": 3, "maximum": 5},
                "entries": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/$defs/entry"}},
            },
            "$defs": {"entry": {"type": "object", "properties": {"title": {"type": "string", "maxLength": 20}}}},
        });
        json!({
            "model": "echo",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "toc", "schema": schema}},
        })
    }

    fn content(request: &Value) -> Value {
        let reply = answer(request).unwrap();
        serde_json::from_str(reply["choices"][0]["message"]["content"].as_str().unwrap()).unwrap()
    }

    #[test]
    fn the_reply_fits_the_schema_and_quotes_the_request() {
        for n in 0..50 {
            let text = format!("Is this page {n} a table of contents?\n\nItem 1. Business");
            let reply = content(&request(&text));
            assert!(reply["contents"].is_boolean() && ["low", "high"].contains(&reply["certainty"].as_str().unwrap()));
            assert!((3..=5).contains(&reply["page"].as_i64().unwrap()), "{reply}");
            let entries = reply["entries"].as_array().unwrap();
            assert!((1..=2).contains(&entries.len()));
            let title = entries[0]["title"].as_str().unwrap();
            assert!(title.chars().count() <= 20 && !title.is_empty() && text.contains(title), "{title}");
        }
    }

    #[test]
    fn the_same_request_gets_the_same_reply_and_others_get_others() {
        let of = |n: u64| answer(&request(&format!("page {n}\nItem 1\nItem 2"))).unwrap();
        assert_eq!(of(1), of(1));
        let replies: std::collections::BTreeSet<_> = (0..20).map(|n| of(n)["choices"].to_string()).collect();
        assert!(replies.len() > 10, "{}", replies.len());
        assert_eq!(of(1)["usage"]["prompt_tokens"], 8);
    }

    #[test]
    fn text_without_a_schema_is_echoed_and_nonsense_is_refused() {
        let plain =
            json!({"model": "echo", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi you"}]}]});
        assert_eq!(answer(&plain).unwrap()["choices"][0]["message"]["content"], "hi you");
        assert!(answer(&json!({"messages": []})).is_err());
        assert!(answer(&json!({"messages": [{"role": "user"}], "stream": true})).is_err());
    }

    #[test]
    fn what_it_says_of_a_section_does_not_depend_on_the_others() {
        let block = |number: u32, text: &str| format!("Section {number}:\n[ab12]\n{text}\n[/ab12]");
        let items = json!({ "type": "object", "properties": { "section": {}, "summary": { "type": "string" } } });
        let told = |prompt: String| {
            let schema =
                json!({ "type": "object", "properties": { "summaries": { "type": "array", "items": items } } });
            let reply = answer(&json!({
                "messages": [{ "role": "user", "content": prompt }],
                "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": schema } },
            }));
            let content = reply.unwrap()["choices"][0]["message"]["content"].as_str().unwrap().to_string();
            serde_json::from_str::<Value>(&content).unwrap()["summaries"].clone()
        };
        let both = told(format!("{}\n\n{}", block(1, "one\ntwo"), block(2, "three\nfour")));
        let alone = told(block(1, "three\nfour"));
        assert_eq!((both.as_array().unwrap().len(), &both[1]["section"]), (2, &json!(2)));
        assert_eq!(both[1]["summary"], alone[0]["summary"]);
    }
}
