//! One call: the question, the correct answer, and the reply built from it.

use std::time::Instant;

use serde_json::{Value, json};
use stemma_llm::tokens;

use crate::behavior::{Behavior, ReplyFault};
use crate::dialect::WireDialect;
use crate::http::HttpHead;
use crate::images::{self, ImageTexts};
use crate::malformed::{ReplyText, corrupt};
use crate::oracle::Oracle;
use crate::question::{PromptRequest, RequestStage};
use crate::report::RequestRecord;
use crate::seeded::SeededRng;
use crate::{embed, injection, wrong_answers};

// Tokens of a chat in addition to its texts.
const ENVELOPE_TOKENS: u32 = 16;

/// A parsed request.
pub(crate) struct ProviderCall {
    pub(crate) dialect: WireDialect,
    pub(crate) digest: blake3::Hash,
    body: Value,
    kind: CallKind,
}

enum CallKind {
    Text(PromptRequest),
    Embedding,
    /// Rejected with this status, for this reason.
    Rejected(u16, String),
}

/// The answer to a call, a pure function of it: the correct one, a wrong one, or one that an injection
/// demands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PreparedAnswer {
    outcome: &'static str,
    reply: ReplyText,
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
}

impl PreparedAnswer {
    pub(crate) fn text(&self) -> &str {
        &self.reply.text
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.output_tokens)
    }
}

impl ProviderCall {
    pub(crate) fn from_request(head: &HttpHead, body: &[u8]) -> Self {
        Self::from_parts(head.start_line_word(0), head.start_line_word(1), body)
    }

    pub(crate) fn from_parts(method: &str, url: &str, body: &[u8]) -> Self {
        let path = url.split('?').next().unwrap_or_default();
        let dialect = if path.ends_with("/messages") {
            WireDialect::Anthropic
        } else {
            WireDialect::OpenAi
        };
        let is_chat_path = path.ends_with("/chat/completions") || path.ends_with("/messages");
        let parsed = serde_json::from_slice::<Value>(body).map_err(|error| error.to_string());
        let kind = match &parsed {
            _ if method != "POST" => CallKind::Rejected(404, "no such path".into()),
            Err(error) => CallKind::Rejected(400, error.clone()),
            Ok(_) if path.ends_with("/embeddings") => CallKind::Embedding,
            Ok(value) if is_chat_path => match PromptRequest::parse(value) {
                Ok(question) => CallKind::Text(question),
                Err(error) => CallKind::Rejected(400, error),
            },
            Ok(_) => CallKind::Rejected(404, "no such path".into()),
        };
        let digest = match &kind {
            // Notes that ask for a better or complete reply do not make another question.
            CallKind::Text(question) => {
                let PromptRequest {
                    model,
                    system,
                    schema,
                    images,
                    ..
                } = question;
                let images = images.iter().map(|image| image.digest.to_hex().to_string());
                let images: Vec<String> = images.collect();
                blake3::hash(
                    json!([model, system, question.instruction(), schema, images])
                        .to_string()
                        .as_bytes(),
                )
            }
            _ => blake3::hash(body),
        };
        Self {
            dialect,
            digest,
            body: parsed.unwrap_or_default(),
            kind,
        }
    }

    pub(crate) fn stage(&self) -> &'static str {
        match &self.kind {
            CallKind::Text(question) => question.stage.name(),
            CallKind::Embedding => "embedding",
            CallKind::Rejected(..) => "none",
        }
    }

    pub(crate) fn images(&self) -> usize {
        match &self.kind {
            CallKind::Text(question) => question.images.len(),
            _ => 0,
        }
    }

    pub(crate) fn sections(&self) -> usize {
        match &self.kind {
            CallKind::Text(question) => question.blocks_named("Section").count(),
            _ => 0,
        }
    }

    /// Whether the request asks to continue a truncated answer.
    pub(crate) fn is_continuation(&self) -> bool {
        matches!(&self.kind, CallKind::Text(question) if question.prefill.is_some())
    }

    pub(crate) fn answer(
        &self,
        oracle: &Oracle,
        images: &ImageTexts,
        behavior: &Behavior,
    ) -> PreparedAnswer {
        let none = ReplyText {
            text: String::new(),
            is_cut: false,
        };
        let question = match &self.kind {
            CallKind::Text(question) if self.is_refused(question, behavior) => {
                return PreparedAnswer {
                    outcome: "refused",
                    reply: none,
                    prompt_tokens: 0,
                    output_tokens: 0,
                };
            }
            CallKind::Text(question) => question,
            CallKind::Embedding => {
                let prompt_tokens = embed::answer(&self.body).map_or(0, |(_, tokens)| tokens);
                return PreparedAnswer {
                    outcome: "good",
                    reply: none,
                    prompt_tokens,
                    output_tokens: 0,
                };
            }
            CallKind::Rejected(..) => {
                return PreparedAnswer {
                    outcome: "refused",
                    reply: none,
                    prompt_tokens: 0,
                    output_tokens: 0,
                };
            }
        };
        let judged = oracle.judge(question, behavior.noise, behavior.seed);
        let shown = images.texts_for(question);
        let good = match (judged, question.stage) {
            (Some(judged), _) => judged,
            (None, RequestStage::Transcribe) => {
                images::transcribe(&shown, behavior.misreads, behavior.seed)
            }
            (None, RequestStage::DescribePage) => images::describe(&shown),
            (None, RequestStage::Answer) => {
                let read = oracle.answer(question, behavior.reads, behavior.seed);
                images::with_seen_claims(read, question, &shown)
            }
            (None, _) => oracle.answer(question, behavior.reads, behavior.seed),
        };
        let injected = behavior
            .gullible
            .then(|| injection::obey(question, &shown, &good))
            .flatten();
        let lies =
            SeededRng::new(behavior.seed, "lies", self.digest.as_bytes()).chance(behavior.lies);
        let (outcome, value) = match injected {
            Some(injected) => ("obeyed", injected),
            None if lies => (
                "lie",
                wrong_answers::wrong_answer(&good, question, behavior.seed),
            ),
            None => ("good", good),
        };
        let text = match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        let reply = truncate(
            continuation(text, question.prefill.as_deref()),
            question.max_tokens,
        );
        let schema = if question.schema.is_null() {
            String::new()
        } else {
            question.schema.to_string()
        };
        let prefill = question.prefill.as_deref().unwrap_or_default();
        let parts = [question.system.as_str(), &question.user, prefill, &schema];
        let prompt_tokens = parts
            .into_iter()
            .map(tokens::count)
            .chain(
                question
                    .images
                    .iter()
                    .map(|image| image.tokens(self.dialect)),
            )
            .fold(ENVELOPE_TOKENS, u32::saturating_add);
        // A reply truncated by the model's own limit is not a complete answer.
        let outcome = if reply.is_cut { "cut" } else { outcome };
        PreparedAnswer {
            outcome,
            output_tokens: tokens::count(&reply.text),
            reply,
            prompt_tokens,
        }
    }

    /// Outcome, status and body of the reply, unless the provider fails.
    pub(crate) fn reply(
        &self,
        answered: &PreparedAnswer,
        fault: Option<ReplyFault>,
        behavior: &Behavior,
    ) -> (&'static str, u16, Value) {
        let seed = behavior.seed;
        let question = match &self.kind {
            CallKind::Text(question) if self.is_refused(question, behavior) => {
                let error = "image_url is only supported by certain models";
                return ("refused", 400, self.dialect.error(400, error));
            }
            CallKind::Text(question) => question,
            CallKind::Embedding => {
                return match embed::answer(&self.body) {
                    Ok((value, _)) => ("good", 200, value),
                    Err(error) => ("refused", 400, self.dialect.error(400, &error)),
                };
            }
            CallKind::Rejected(status, error) => {
                return ("refused", *status, self.dialect.error(*status, error));
            }
        };
        let reply_text = match fault {
            Some(fault) => corrupt(
                answered.reply.text.clone(),
                fault,
                seed,
                self.digest.as_bytes(),
            ),
            None => answered.reply.clone(),
        };
        let outcome = match fault {
            Some(ReplyFault::Empty) => "empty",
            Some(ReplyFault::Truncated) => "truncated",
            Some(ReplyFault::Malformed) => "malformed",
            Some(ReplyFault::Schema) => "schema",
            _ => answered.outcome,
        };
        let tokens = [answered.prompt_tokens, tokens::count(&reply_text.text)];
        (
            outcome,
            200,
            self.dialect
                .reply(&self.body, question, &reply_text, tokens),
        )
    }

    fn is_refused(&self, question: &PromptRequest, behavior: &Behavior) -> bool {
        behavior.blind && !question.images.is_empty()
    }

    /// A line of the record. `reply` is the answer that was prepared.
    pub(crate) fn record(
        &self,
        ask: &RequestRecord,
        number: usize,
        serving: u32,
        first: Instant,
        answer_text: Option<&str>,
    ) -> Value {
        let question = match &self.kind {
            CallKind::Text(question) => Some(question),
            _ => None,
        };
        let blocks = question.map(|question| {
            question
                .blocks
                .iter()
                .map(|block: &crate::question::PromptBlock| {
                    json!([block.name, block.number, block.text])
                })
                .collect::<Vec<_>>()
        });
        json!({
            "number": number,
            "at_ms": (ask.arrived - first).as_millis() as u64,
            "took_ms": ask.arrived.elapsed().as_millis() as u64,
            "digest": &ask.digest.to_hex()[..16],
            "serving": serving,
            "stage": ask.stage,
            "outcome": ask.outcome,
            "status": ask.status,
            "process": ask.process,
            "prompt_tokens": ask.prompt_tokens,
            "output_tokens": ask.output_tokens,
            "blocks": blocks,
            "said": answer_text,
        })
    }
}

// The rest of an answer if `prefill` is its beginning; otherwise the whole answer.
fn continuation(text: String, prefill: Option<&str>) -> String {
    let Some(prefill) = prefill else { return text };
    match text
        .strip_prefix(prefill)
        .or_else(|| text.strip_prefix(prefill.trim_end()))
    {
        Some(rest) => rest.to_string(),
        None => text,
    }
}

// Truncates a text that is longer than allowed.
fn truncate(text: String, max_tokens: Option<u32>) -> ReplyText {
    let Some(most) = max_tokens.filter(|most| tokens::count(&text) > *most) else {
        return ReplyText {
            text,
            is_cut: false,
        };
    };
    let mut fits = 0;
    let mut too_long = text.len();
    while fits + 1 < too_long {
        let middle = text.floor_char_boundary((fits + too_long) / 2);
        if middle <= fits {
            break;
        }
        if tokens::count(&text[..middle]) <= most {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    ReplyText {
        text: text[..fits].into(),
        is_cut: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_answers_can_be_continued() {
        let text = format!("{{\"a\":\"{}\"}}", "word after word ".repeat(40));
        let mut prefix = String::new();
        for _ in 0..20 {
            let part = truncate(
                continuation(
                    text.clone(),
                    Some(&prefix)
                        .filter(|text| !text.is_empty())
                        .map(|text| text.as_str()),
                ),
                Some(20),
            );
            assert!(tokens::count(&part.text) <= 20 && !part.text.is_empty());
            prefix.push_str(&part.text);
            if !part.is_cut {
                break;
            }
        }
        assert_eq!(prefix, text);
        assert!(
            !truncate("short".into(), Some(20)).is_cut && !truncate("short".into(), None).is_cut
        );
    }
}
