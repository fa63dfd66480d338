//! A simulated model with deterministic replies.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::Digest;
use stemma_llm::request::{Llm, LlmError, LlmReply, LlmRequest, TokenUsage};
use stemma_llm::tokens;

// 8,000 tokens of sections, and the text around them.
const MAX_PROMPT_TOKENS: u32 = 8_600;

/// A model whose replies are a pure function of the request: `true`, an empty list, zero, or a sentence with the digest of
/// the request. The summary of a section depends on its block alone. It names no headings, so rules decide the structure.
#[derive(Default)]
pub struct DeterministicEcho {
    /// Stage and digest of each request, or of each section's block in a batch.
    pub questions: Mutex<Vec<(&'static str, String)>>,
    /// Stage and digest of each call.
    pub calls: Mutex<Vec<(&'static str, String)>>,
    /// The texts of all sections.
    pub section_texts: Mutex<Vec<String>>,
    /// Stages whose questions are refused.
    pub refuses: BTreeSet<&'static str>,
    /// The number of first replies that are not JSON.
    pub garbled: Mutex<u32>,
    /// Most sections answered per call. With 0, a reply about several sections is not JSON.
    pub max_answered: Option<usize>,
}

#[async_trait]
impl Llm for DeterministicEcho {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let stage = request.schema.name;
        self.calls.lock().unwrap().push((stage, request.digest()));
        if self.refuses.contains(stage) {
            return Err(LlmError::Refused {
                status: 400,
                message: String::new(),
            });
        }
        let text = if self.is_garbled() {
            "Certainly!".into()
        } else if stage == "summarize" {
            self.summarize(request)
        } else {
            self.questions
                .lock()
                .unwrap()
                .push((stage, request.digest()));
            fill_schema(request)
        };
        let usage = TokenUsage {
            prompt_tokens: request.prompt_tokens(),
            cached_tokens: 0,
            output_tokens: tokens::count(&text),
        };
        Ok(LlmReply::new(text, usage))
    }
}

impl DeterministicEcho {
    fn is_garbled(&self) -> bool {
        let mut remaining = self.garbled.lock().unwrap();
        let is_garbled = *remaining > 0;
        *remaining = remaining.saturating_sub(1);
        is_garbled
    }

    fn summarize(&self, request: &LlmRequest) -> String {
        let blocks = blocks(&request.user);
        assert!(
            (1..=8).contains(&blocks.len()),
            "{} sections in one call",
            blocks.len()
        );
        let first_request = LlmRequest {
            follow_up: None,
            ..request.clone()
        };
        let prompt_tokens = first_request.prompt_tokens();
        assert!(
            prompt_tokens <= MAX_PROMPT_TOKENS || blocks.len() == 1,
            "{prompt_tokens} tokens"
        );
        let limit = match self.max_answered {
            Some(0) if blocks.len() > 1 => return "Certainly!".into(),
            None | Some(0) => blocks.len(),
            Some(limit) => limit,
        };
        let mut summaries = Vec::new();
        for (index, block) in blocks.into_iter().take(limit).enumerate() {
            let digest = Digest::from_content(block.as_bytes()).to_string();
            summaries.push(json!({ "section": index + 1, "summary": format!("Says {digest}.") }));
            self.questions.lock().unwrap().push(("summarize", digest));
            self.section_texts.lock().unwrap().push(block);
        }
        json!({ "summaries": summaries }).to_string()
    }
}

/// A value of the required type for each property.
fn fill_schema(request: &LlmRequest) -> String {
    let properties = request.schema.json["properties"].as_object().unwrap();
    let values = properties.iter().map(|(name, property)| {
        let value = match property["type"].as_str().unwrap() {
            "boolean" => json!(true),
            "string" => json!(format!("Says {}.", &request.digest()[..12])),
            "array" => json!([]),
            "integer" => json!(0),
            other => panic!("{other}"),
        };
        (name.clone(), value)
    });
    Value::Object(values.collect()).to_string()
}

/// The delimited blocks of a prompt, in order.
fn blocks(prompt: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = prompt.lines();
    while let Some(line) = lines.next() {
        if let Some(mark) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .filter(|mark| mark.len() == 18 && mark.bytes().all(|b| b.is_ascii_digit()))
        {
            let end = format!("[/{mark}]");
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
            blocks.push(text.join("\n"));
        }
    }
    blocks
}
