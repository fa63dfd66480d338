//! Error bodies of providers, and what of them may reach logs.

use std::collections::HashSet;

use serde_json::Value;
use stemma_store::secret::Secret;

// Characters kept of an error message.
const MAX_ERROR_CHARS: usize = 200;
// An error message that shares this many consecutive characters with the prompt counts as quoting it.
const QUOTE_CHARS: usize = 16;

// A shared passage of so many bytes is a quote of the prompt. Servers' own words about contexts and images are shorter.
const PASSAGE_BYTES: usize = 32;

// Parameters that ask for a form of reply.
pub(crate) const FORMAT_FIELDS: [&str; 3] = ["response_format", "json_schema", "json_object"];
// Other names for it. Errors of another kind may have them, too.
pub(crate) const FORMAT_WORDS: [&str; 4] = ["schema", "grammar", "structured", "tool"];

// What the server does not have at all, whatever its value.
pub(crate) const UNSUPPORTED_WORDS: [&str; 4] = [
    "unsupported",
    "not support",
    "n't support",
    "not implemented",
];

// Providers send `{"error": {"code", "type", "message", "param"}}`, `{"error": "text"}` or `{"detail": …}`. Bodies that
// are not JSON are ignored.
#[derive(Default)]
pub(crate) struct ErrorBody {
    code: String,
    message: String,
    param: String,
}

impl ErrorBody {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        serde_json::from_slice::<Value>(bytes)
            .map(|value| Self::from_value(&value))
            .unwrap_or_default()
    }

    pub(crate) fn from_value(value: &Value) -> Self {
        let error = value
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(value);
        Self {
            code: Self::first_text(error, &["code", "type"]).unwrap_or_default(),
            message: error
                .as_str()
                .map(Into::into)
                .or_else(|| Self::first_text(error, &["message", "detail"]))
                .or_else(|| error.get("detail").map(ToString::to_string))
                .unwrap_or_default(),
            param: Self::first_text(error, &["param"]).unwrap_or_default(),
        }
    }

    // The first field that holds a text or a number.
    fn first_text(error: &Value, names: &[&str]) -> Option<String> {
        names
            .iter()
            .filter_map(|name| match error.get(name)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
            .find(|text| !text.is_empty())
    }

    // Quota and billing errors come with 429, but no retry helps.
    pub(crate) fn is_quota(&self) -> bool {
        let codes = [
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "billing_error",
        ];
        codes.contains(&self.code.as_str()) || self.message.contains("credit balance is too low")
    }

    pub(crate) fn is_unknown_model(&self) -> bool {
        ["model_not_found", "invalid_model", "DeploymentNotFound"].contains(&self.code.as_str())
    }

    // Whether the model takes no images, in the words of the servers that are known: OpenAI, OpenRouter, vLLM, llama.cpp
    // and DeepSeek. An image that cannot be decoded is another error.
    pub(crate) fn rejects_images(&self) -> bool {
        let message = self.message.to_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let is_about_images = mentions(&["image", "vision", "multimodal"]);
        let is_about_models = mentions(&[
            "support image",
            "support vision",
            "not support",
            "only supported by",
            "not a multimodal",
            "unknown variant",
        ]);
        is_about_images && is_about_models
    }

    // Whether the server does not know a form of reply. Servers say so with 400, 404, 422, 500 (llama.cpp's Python server, old
    // versions of llama.cpp) and 501.
    pub(crate) fn rejects_format(&self) -> bool {
        let text = self.full_text().to_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
        mentions(&FORMAT_FIELDS) || (mentions(&FORMAT_WORDS) && mentions(&UNSUPPORTED_WORDS))
    }

    // Whether the prompt, or prompt and reply, exceed the context, in the words of OpenAI, Anthropic, vLLM, llama.cpp,
    // Ollama and LM Studio.
    pub(crate) fn exceeds_context(&self) -> bool {
        let text = self.full_text().to_lowercase();
        let phrases = [
            "context_length_exceeded",
            "context length",
            "context size",
            "context window",
            "context limit",
            "n_ctx",
            "prompt is too long",
        ];
        phrases.iter().any(|phrase| text.contains(phrase))
    }

    // The error without the passages of `prompt` that it quotes: words of a document say nothing about the error.
    pub(crate) fn without_quotes(self, prompt: &[&str]) -> Self {
        let passages: HashSet<&[u8]> = prompt
            .iter()
            .flat_map(|text| text.as_bytes().windows(PASSAGE_BYTES))
            .collect();
        let mut own = Vec::with_capacity(self.message.len());
        let mut quoted_until = 0;
        for (at, byte) in self.message.bytes().enumerate() {
            let passage = self.message.as_bytes().get(at..at + PASSAGE_BYTES);
            if passage.is_some_and(|passage| passages.contains(passage)) {
                quoted_until = at + PASSAGE_BYTES;
            }
            if at >= quoted_until {
                own.push(byte);
            }
        }
        Self {
            message: String::from_utf8_lossy(&own).into_owned(),
            ..self
        }
    }

    pub(crate) fn full_text(&self) -> String {
        format!("{} {} {}", self.code, self.param, self.message)
    }

    // Error messages reach logs and job records, so they are cut and lose control characters, keys and quotes from the
    // prompt.
    pub(crate) fn redacted(&self, quoted: &[&str], key: &Secret) -> String {
        let quoted = quoted
            .iter()
            .any(|text| quotes_request(&self.message, text));
        let message = if quoted {
            "the message quotes the request and is left out"
        } else {
            self.message.as_str()
        };
        let text = if self.code.is_empty() {
            message.into()
        } else {
            format!("{}, {message}", self.code)
        };
        let clean: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let without_key = if key.is_empty() {
            clean
        } else {
            clean.replace(key.reveal(), "…")
        };
        let words = without_key
            .split(' ')
            .map(|word| if looks_like_key(word) { "…" } else { word });
        words
            .collect::<Vec<_>>()
            .join(" ")
            .chars()
            .take(MAX_ERROR_CHARS)
            .collect()
    }
}

fn quotes_request(message: &str, question: &str) -> bool {
    let ends: Vec<usize> = message
        .char_indices()
        .map(|(at, _)| at)
        .chain([message.len()])
        .collect();
    ends.windows(QUOTE_CHARS + 1)
        .any(|window| question.contains(&message[window[0]..window[QUOTE_CHARS]]))
}

// Providers repeat parts of the key in their errors: `sk-…` or a long word of letters and digits.
fn looks_like_key(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let mixed = word.chars().any(|c| c.is_ascii_digit()) && word.chars().any(char::is_alphabetic);
    word.starts_with("sk-") || (word.len() >= 20 && mixed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn models_without_images_are_recognized() {
        let rejects = |message: &str| {
            ErrorBody::from_value(&json!({ "error": { "message": message } })).rejects_images()
        };
        for message in [
            "Invalid content type. image_url is only supported by certain models.",
            "No endpoints found that support image input",
            "m is not a multimodal model",
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            "messages[1]: unknown variant `image_url`, expected `text`",
            "m does not support images",
        ] {
            assert!(rejects(message), "{message}");
        }
        for message in [
            "You uploaded an unsupported image.",
            "Could not process image",
            "temperature is not supported with this model",
            "unknown variant `json_schema`",
        ] {
            assert!(!rejects(message), "{message}");
        }
    }

    #[test]
    fn servers_without_schemas_and_short_contexts_are_recognized() {
        let body = |message: &str| ErrorBody::from_value(&json!({ "error": message }));
        for message in [
            "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\"}]",
            "response_format type must be one of \"text\" or \"json_object\", but got: json_schema",
            "unknown variant `json_schema`",
            "structured outputs are not supported by this model",
            "grammar is not implemented",
        ] {
            let body = body(message);
            assert!(
                body.rejects_format() && !body.exceeds_context(),
                "{message}"
            );
        }
        for message in [
            "This model's maximum context length is 2048 tokens, however you requested 2600 tokens",
            "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            "the input length exceeds the context length",
            "Requested tokens (9000) exceed context window of 512",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        ] {
            let body = body(message);
            assert!(
                body.exceeds_context() && !body.rejects_format(),
                "{message}"
            );
        }
        for message in [
            "out of memory",
            "the tool server is away",
            "model is loading",
            "unknown error of the tool server",
        ] {
            let body = body(message);
            assert!(
                !body.exceeds_context() && !body.rejects_format(),
                "{message}"
            );
        }
    }

    #[test]
    fn words_of_the_prompt_say_nothing_about_the_error() {
        let prompt = "Risk factors.\nOur vision of the market is not supported by the context length of models.";
        let of = |message: &str| {
            ErrorBody::from_value(&json!({ "error": message })).without_quotes(&["sys", prompt])
        };
        let error = of(&format!("out of memory, input: {prompt:?}, é"));
        assert!(!error.exceeds_context() && !error.rejects_images());
        assert!(error.message.starts_with("out of memory, input: "));
        assert!(error.message.ends_with(", é"), "{}", error.message);
        // The server's own words.
        let error = of(&format!("{prompt}: exceeds the context length of 512"));
        assert!(error.exceeds_context());
        assert!(of("the context length of models is 512").exceeds_context());
    }

    #[test]
    fn error_messages_are_truncated_and_redacted() {
        let user = "Net sales rose 5.2 % to $1,234 million";
        let body = |body: &str| {
            ErrorBody::from_bytes(body.as_bytes())
                .redacted(&[user, "look"], &Secret::from("my key"))
        };
        let redacted = |message: &str| {
            body(&json!({ "error": { "code": "c", "message": message } }).to_string())
        };
        assert_eq!(redacted("no such model"), "c, no such model");
        assert_eq!(
            redacted("key my key\u{1b}[0m, sk-abc***xyz."),
            "c, key … [0m, …"
        );
        assert_eq!(
            redacted("cannot parse `Net sales rose 5.2 % to`"),
            "c, the message quotes the request and is left out"
        );
        assert_eq!(
            redacted(&"x y ".repeat(500)).chars().count(),
            MAX_ERROR_CHARS
        );
        assert_eq!(body("<html>"), "");
        assert_eq!(body(r#"{"error": "model is loading"}"#), "model is loading");
        assert_eq!(
            body(r#"{"object": "error", "message": "bad", "code": 400}"#),
            "400, bad"
        );
        assert_eq!(
            body(r#"{"detail": [{"loc": ["body"]}]}"#),
            r#"[{"loc":["body"]}]"#
        );
        assert_eq!(
            body(r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#),
            "overloaded_error, busy"
        );
    }
}
