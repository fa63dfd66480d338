//! Answers to unknown questions. They match the schema and depend on the question alone.
//!
//! Decisions (yes or no, one of a list, a number) come from the digest of the question; texts are excerpts of
//! it.

use serde_json::{Map, Value};

use crate::question::PromptRequest;
use crate::seeded::SeededRng;

// A schema may refer to itself, so the depth is bounded.
const MAX_SCHEMA_DEPTH: usize = 12;
const EXCERPT_WORDS: usize = 12;

/// An answer that matches the schema; without a schema, a text.
pub(crate) fn fill(question: &PromptRequest) -> Value {
    let mut echo = SchemaFiller::new(question);
    if question.schema.is_null() {
        echo.excerpt(usize::MAX).into()
    } else {
        echo.fill(&question.schema, &question.schema, 0)
    }
}

struct SchemaFiller {
    rng: SeededRng,
    lines: Vec<String>,
}

impl SchemaFiller {
    fn new(question: &PromptRequest) -> Self {
        let seed_text = format!(
            "{}\0{}\0{}",
            question.system, question.user, question.schema
        );
        let lines = question.user.lines().filter(|line| !line.trim().is_empty());
        Self {
            rng: SeededRng::new(0, "echo", seed_text.as_bytes()),
            lines: lines.map(str::to_string).collect(),
        }
    }

    // A number below `sides`, which must not be 0.
    fn below(&mut self, sides: u64) -> u64 {
        self.rng.below(usize::try_from(sides).unwrap_or(usize::MAX)) as u64
    }

    // A few words from one line of the question, at most `longest` characters.
    fn excerpt(&mut self, longest: usize) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let chosen = self.below(self.lines.len() as u64) as usize;
        let words: Vec<_> = self.lines[chosen]
            .split_whitespace()
            .take(EXCERPT_WORDS)
            .collect();
        words.join(" ").chars().take(longest).collect()
    }

    fn fill(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        if depth > MAX_SCHEMA_DEPTH {
            return Value::Null;
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let target = root
                .pointer(reference.trim_start_matches('#'))
                .unwrap_or(&Value::Null);
            return self.fill(target, root, depth + 1);
        }
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(values) = schema["enum"]
            .as_array()
            .filter(|values| !values.is_empty())
        {
            return values[self.below(values.len() as u64) as usize].clone();
        }
        if let Some(ways) = schema["anyOf"]
            .as_array()
            .or(schema["oneOf"].as_array())
            .filter(|ways| !ways.is_empty())
        {
            let way = self.below(ways.len() as u64) as usize;
            return self.fill(&ways[way], root, depth + 1);
        }
        match self.pick_type(&schema["type"]).as_str() {
            "object" => self.object(schema, root, depth),
            "array" => self.array(schema, root, depth),
            "boolean" => (self.below(2) == 1).into(),
            "integer" => self.integer(schema).into(),
            "number" => (self.integer(schema) as f64).into(),
            "string" => self
                .excerpt(
                    schema["maxLength"]
                        .as_u64()
                        .map_or(usize::MAX, |most| most as usize),
                )
                .into(),
            _ => Value::Null,
        }
    }

    // Picks one of several allowed types.
    fn pick_type(&mut self, kinds: &Value) -> String {
        match kinds {
            Value::Array(several) if !several.is_empty() => several
                [self.below(several.len() as u64) as usize]
                .as_str()
                .unwrap_or_default()
                .into(),
            one => one.as_str().unwrap_or_default().into(),
        }
    }

    fn object(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let filled = properties
            .iter()
            .map(|(name, property)| (name.clone(), self.fill(property, root, depth + 1)));
        Value::Object(filled.collect())
    }

    // Up to three items more than the minimum.
    fn array(&mut self, schema: &Value, root: &Value, depth: usize) -> Value {
        let fewest = schema["minItems"].as_u64().unwrap_or(0);
        let most = schema["maxItems"]
            .as_u64()
            .unwrap_or(u64::MAX)
            .clamp(fewest, fewest + 3);
        let count = fewest + self.below(most - fewest + 1);
        (0..count)
            .map(|_| self.fill(&schema["items"], root, depth + 1))
            .collect()
    }

    // Within the bounds; without bounds from 1 to 9, which suits pages and levels.
    fn integer(&mut self, schema: &Value) -> i64 {
        let bound = |names: [&str; 2], inward: i64| {
            let exclusive = schema[names[1]].as_f64().map(|bound| bound as i64 + inward);
            schema[names[0]]
                .as_f64()
                .map(|bound| bound as i64)
                .or(exclusive)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(text: &str) -> PromptRequest {
        let schema = json!({
            "type": "object",
            "properties": {
                "contents": {"type": "boolean"},
                "certainty": {"enum": ["low", "high"]},
                "number": {"type": "integer", "minimum": 3, "maximum": 5},
                "rows": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/$defs/row"}},
            },
            "$defs": {"row": {"type": "object", "properties": {"title": {"type": "string", "maxLength": 20}}}},
        });
        let message = json!({"role": "user", "content": text});
        let format =
            json!({"type": "json_schema", "json_schema": {"name": "toc", "schema": schema}});
        PromptRequest::parse(
            &json!({"model": "echo", "messages": [message], "response_format": format}),
        )
        .unwrap()
    }

    #[test]
    fn the_answer_fits_the_schema_and_quotes_the_question() {
        for n in 0..50 {
            let text = format!("Is this page {n} a table of contents?\n\nItem 1. Business");
            let answer = fill(&question(&text));
            assert!(
                answer["contents"].is_boolean()
                    && ["low", "high"].contains(&answer["certainty"].as_str().unwrap())
            );
            assert!(
                (3..=5).contains(&answer["number"].as_i64().unwrap()),
                "{answer}"
            );
            let rows = answer["rows"].as_array().unwrap();
            assert!((1..=2).contains(&rows.len()));
            let title = rows[0]["title"].as_str().unwrap();
            assert!(
                title.chars().count() <= 20 && !title.is_empty() && text.contains(title),
                "{title}"
            );
        }
    }

    #[test]
    fn answers_are_deterministic_per_question() {
        let of = |n: u64| fill(&question(&format!("page {n}\nItem 1\nItem 2")));
        assert_eq!(of(1), of(1));
        let answers: std::collections::BTreeSet<_> = (0..20).map(|n| of(n).to_string()).collect();
        assert!(answers.len() > 10, "{}", answers.len());
        let plain =
            PromptRequest::parse(&json!({"messages": [{"role": "user", "content": "hi you"}]}))
                .unwrap();
        assert_eq!(fill(&plain), "hi you");
    }
}
