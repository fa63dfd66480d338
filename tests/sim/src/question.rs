//! A parsed request, independent of the wire format: its stage, inferred from the schema alone, and its
//! blocks of text.

use serde_json::Value;

use crate::images::PromptImage;

/// A request for text.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptRequest {
    pub model: String,
    pub system: String,
    /// Text of the first user message.
    pub user: String,
    /// Images of the first user message.
    pub images: Vec<PromptImage>,
    /// Start of the answer, if the model is to continue it.
    pub prefill: Option<String>,
    pub max_tokens: Option<u32>,
    /// Schema of the answer; null if there is none.
    pub schema: Value,
    pub stage: RequestStage,
    /// Blocks of the user message.
    pub blocks: Vec<PromptBlock>,
}

/// A delimited text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptBlock {
    /// `Page`, `Section` …
    pub name: String,
    /// The number after the name; 1 if there is none.
    pub number: u64,
    pub text: String,
}

/// Stages that ask, by the properties of their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestStage {
    Transcribe,
    DescribePage,
    ReadWindow,
    Summarize,
    Describe,
    Analyze,
    RouteDocuments,
    ScoreSections,
    Answer,
    Restate,
    ChooseTool,
    Judge,
    /// Any other client.
    Other,
}

impl RequestStage {
    // A stage is recognized by all properties of its row.
    const PROPERTIES: [(&'static [&'static str], Self); 13] = [
        (&["lines"], Self::Transcribe),
        (&["figures"], Self::DescribePage),
        (&["thinking", "sections"], Self::ScoreSections),
        (&["sections"], Self::ReadWindow),
        (&["summaries"], Self::Summarize),
        (&["summary"], Self::Summarize),
        (&["description", "issuer", "form"], Self::Describe),
        (&["topic", "locations"], Self::Analyze),
        (&["documents"], Self::RouteDocuments),
        (&["answerable", "claims"], Self::Answer),
        (&["standalone"], Self::Restate),
        (&["tool", "pattern"], Self::ChooseTool),
        (&["judged_verdict"], Self::Judge),
    ];

    fn from_schema(schema: &Value) -> Self {
        let properties = &schema["properties"];
        let matching = Self::PROPERTIES
            .iter()
            .find(|(names, _)| names.iter().all(|name| !properties[*name].is_null()));
        matching.map_or(Self::Other, |(_, stage)| *stage)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Transcribe => "transcribe",
            Self::DescribePage => "describe_page",
            Self::ReadWindow => "read_window",
            Self::Summarize => "summarize",
            Self::Describe => "describe",
            Self::Analyze => "analyze",
            Self::RouteDocuments => "route_documents",
            Self::ScoreSections => "score_sections",
            Self::Answer => "answer",
            Self::Restate => "restate_question",
            Self::ChooseTool => "choose_tool",
            Self::Judge => "judge",
            Self::Other => "other",
        }
    }

    /// Whether it searches sections or documents for a question.
    pub(crate) fn is_search(self) -> bool {
        matches!(
            self,
            Self::Analyze | Self::RouteDocuments | Self::ScoreSections
        )
    }

    /// The property with the list of its answer; empty if it has none.
    pub(crate) fn property(self) -> &'static str {
        let line = Self::PROPERTIES.iter().find(|(_, stage)| *stage == self);
        line.and_then(|(names, _)| names.last())
            .copied()
            .unwrap_or_default()
    }
}

impl PromptRequest {
    /// Parses a body in the format of OpenAI's chat completions or Anthropic's messages.
    ///
    /// # Errors
    /// The defect of the request.
    pub fn parse(body: &Value) -> Result<Self, String> {
        let messages = body["messages"]
            .as_array()
            .filter(|all| !all.is_empty())
            .ok_or("messages: missing")?;
        if body["stream"] == true {
            return Err("stream: not supported".into());
        }
        let texts_of_roles = |roles: &[&str]| {
            let of_role = messages
                .iter()
                .filter(|message| message["role"].as_str().is_some_and(|r| roles.contains(&r)));
            of_role
                .map(|message| text_of(&message["content"]))
                .collect::<Vec<_>>()
        };
        let mut system = texts_of_roles(&["system", "developer"]);
        system.extend(Some(text_of(&body["system"])).filter(|text| !text.is_empty()));
        let system = system.join("\n");
        let user = texts_of_roles(&["user"])
            .into_iter()
            .next()
            .ok_or("messages: no user message")?;
        let first = messages.iter().find(|message| message["role"] == "user");
        let images = first.map(|message| PromptImage::from_content(&message["content"]));
        let images = images.transpose()?.unwrap_or_default();
        let schema = schema_of(body)
            .or_else(|| schema_in(&system))
            .or_else(|| schema_in(&user))
            .unwrap_or_default();
        let max_tokens = ["max_completion_tokens", "max_tokens"]
            .iter()
            .find_map(|name| body[*name].as_u64());
        Ok(Self {
            model: body["model"].as_str().unwrap_or_default().into(),
            prefill: prefill_of(messages),
            max_tokens: max_tokens.and_then(|n| u32::try_from(n).ok()),
            stage: RequestStage::from_schema(&schema),
            blocks: blocks(&user),
            schema,
            system,
            user,
            images,
        })
    }

    /// The user's question without the notes after the last block, which concern the form of the answer and
    /// earlier errors.
    pub(crate) fn instruction(&self) -> &str {
        let end = self.user.rfind("\n[/").filter(|_| !self.blocks.is_empty());
        let close = end.and_then(|at| Some(at + self.user[at..].find(']')? + 1));
        &self.user[..close.unwrap_or(self.user.len())]
    }

    /// Whether a claim of its answer may name pictures.
    pub(crate) fn takes_pictures(&self) -> bool {
        let claims = self.schema["properties"]["claims"]["items"]["properties"].as_object();
        claims.is_some_and(|properties| properties.contains_key("pictures"))
    }

    /// The blocks of a name, in order.
    pub fn blocks_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a PromptBlock> {
        self.blocks.iter().filter(move |block| block.name == name)
    }
}

// The start of an answer to continue: the last message is the model's, or a note asks to go on.
fn prefill_of(messages: &[Value]) -> Option<String> {
    let at = messages
        .iter()
        .rposition(|message| message["role"] == "assistant")?;
    let after = messages[at + 1..]
        .iter()
        .map(|message| text_of(&message["content"]).to_lowercase())
        .collect::<String>();
    let goes_on = after.is_empty()
        || ["go on", "continue", "broke off"]
            .iter()
            .any(|words| after.contains(words));
    Some(text_of(&messages[at]["content"])).filter(|text| goes_on && !text.is_empty())
}

// A message is a string, or parts. Some of these are text.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

// The schema, if the request has one in the place that the protocol defines.
fn schema_of(body: &Value) -> Option<Value> {
    let places = [
        "/response_format/json_schema/schema",
        "/response_format/schema",
        "/output_config/format/schema",
        "/output_format/schema",
        "/tools/0/input_schema",
        "/tools/0/function/parameters",
        "/format",
    ];
    places
        .iter()
        .filter_map(|place| body.pointer(place))
        .find(|schema| schema["properties"].is_object())
        .cloned()
}

// A schema inside a text.
fn schema_in(text: &str) -> Option<Value> {
    let starts = text
        .char_indices()
        .filter(|(_, c)| *c == '{')
        .map(|(at, _)| at);
    let values = starts.filter_map(|at| {
        serde_json::Deserializer::from_str(&text[at..])
            .into_iter::<Value>()
            .next()?
            .ok()
    });
    let mut schemas = values.filter_map(|value| {
        let inner = value
            .pointer("/json_schema/schema")
            .or_else(|| value.get("schema"))
            .cloned();
        inner
            .into_iter()
            .chain([value])
            .find(|schema| schema["properties"].is_object())
    });
    schemas.next()
}

// Delimited texts: `Name 3:`, `[mark]`, text, `[/mark]`.
fn blocks(user: &str) -> Vec<PromptBlock> {
    let mut blocks = Vec::new();
    let mut rest = user;
    while let Some((head, after)) = rest.split_once(":\n[") {
        rest = after;
        let Some((mark, body)) = after.split_once("]\n").filter(|(mark, _)| is_mark(mark)) else {
            continue;
        };
        let title = head.rsplit('\n').next().unwrap_or_default();
        let (name, number) = title.rsplit_once(' ').unwrap_or((title, ""));
        let (name, number) = number.parse().map_or((title, 1), |number| (name, number));
        let close = format!("[/{mark}]");
        let end = if body.starts_with(&close) {
            Some(0)
        } else {
            body.find(&format!("\n{close}"))
        };
        let Some(end) = end else { continue };
        blocks.push(PromptBlock {
            name: name.trim().into(),
            number,
            text: body[..end].into(),
        });
        rest = body[end..]
            .trim_start_matches('\n')
            .strip_prefix(&close)
            .unwrap_or_default();
    }
    blocks
}

fn is_mark(mark: &str) -> bool {
    (8..=64).contains(&mark.len()) && mark.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(names: &[&str]) -> Value {
        let properties: serde_json::Map<_, _> = names
            .iter()
            .map(|n| ((*n).to_string(), json!({})))
            .collect();
        json!({ "type": "object", "properties": properties })
    }

    fn fence(name: &str, mark: &str, text: &str) -> String {
        format!("{name}:\n[{mark}]\n{text}\n[/{mark}]")
    }

    #[test]
    fn both_dialects_parse_to_the_same_request() {
        let user = fence("Page", "0123456789abcdef", "Item 1.\nBusiness");
        let openai = json!({
            "model": "m", "max_tokens": 9,
            "messages": [{"role": "system", "content": "Look."}, {"role": "user", "content": user}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema(&["sections"])}},
        });
        let anthropic = json!({
            "model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "Look."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": user}]}],
            "tools": [{"name": "answer", "input_schema": schema(&["sections"])}],
        });
        let question = PromptRequest::parse(&openai).unwrap();
        assert_eq!(question, PromptRequest::parse(&anthropic).unwrap());
        assert_eq!(
            (question.stage, question.max_tokens),
            (RequestStage::ReadWindow, Some(9))
        );
        assert_eq!(
            question.blocks,
            [PromptBlock {
                name: "Page".into(),
                number: 1,
                text: "Item 1.\nBusiness".into()
            }]
        );
    }

    #[test]
    fn stage_is_inferred_from_the_schema() {
        let stage = |names: &[&str]| RequestStage::from_schema(&schema(names)).name();
        assert_eq!(stage(&["sections"]), "read_window");
        assert_eq!(stage(&["thinking", "sections"]), "score_sections");
        assert_eq!(
            stage(&["description", "issuer", "form", "language"]),
            "describe"
        );
        assert_eq!(stage(&["answer"]), "other");
        let system = format!(
            "Answer {{with}} JSON like this: {}. Thanks",
            schema(&["summaries"])
        );
        let body = json!({ "messages": [{"role": "system", "content": system}, {"role": "user", "content": "x"}] });
        assert_eq!(
            PromptRequest::parse(&body).unwrap().stage,
            RequestStage::Summarize
        );
        assert!(PromptRequest::parse(&json!({ "messages": [] })).is_err());
    }

    #[test]
    fn repair_notes_do_not_change_the_question() {
        let user = fence("Page", "0123456789abcdef", "Item 1.\nBusiness");
        let instruction_with = |after: &[(&str, &str)], note: &str| {
            let mut messages = vec![json!({"role": "user", "content": format!("{user}{note}")})];
            messages.extend(
                after
                    .iter()
                    .map(|(role, text)| json!({"role": role, "content": text})),
            );
            PromptRequest::parse(&json!({ "messages": messages })).unwrap()
        };
        let go_on = "Your answer broke off. Go on.";
        let again = "That answer cannot be used.";
        assert_eq!(
            instruction_with(&[("assistant", "{\"a"), ("user", go_on)], "")
                .prefill
                .as_deref(),
            Some("{\"a")
        );
        assert_eq!(
            instruction_with(&[("assistant", "{\"a")], "")
                .prefill
                .as_deref(),
            Some("{\"a")
        );
        assert_eq!(
            instruction_with(&[("assistant", "{\"a"), ("user", again)], "").prefill,
            None
        );
        assert_eq!(
            instruction_with(&[], "").instruction(),
            instruction_with(&[], "\n\nWrite the answer as text.").instruction()
        );
        assert_eq!(instruction_with(&[], "").instruction(), user);
    }

    #[test]
    fn blocks_span_their_marks_and_ignore_nested_marks() {
        let inner = fence("Page 9", "00000000", "not a block of its own");
        let text = [
            fence("Before", "aaaaaaaaaaaaaaaa", &inner),
            fence("Page 1", "bbbbbbbbbbbbbbbb", ""),
            fence("Page 2", "cccccccccccccccc", "Note:\n[1]\nend"),
        ];
        let blocks = blocks(&text.join("\n\n"));
        let actual: Vec<_> = blocks
            .iter()
            .map(|block| (block.name.as_str(), block.number, block.text.as_str()))
            .collect();
        assert_eq!(
            actual,
            [
                ("Before", 1, inner.as_str()),
                ("Page", 1, ""),
                ("Page", 2, "Note:\n[1]\nend")
            ]
        );
    }
}
