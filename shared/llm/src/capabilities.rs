//! Adapts requests to what a provider supports.
//!
//! When a provider rejects a request and names a parameter, whatever the status, the request is sent again without it. Once
//! accepted, the reduced form is used for all later requests of this process. A server that accepts a schema and replies with
//! prose does not enforce it: later requests bring the schema in their prompt. The digest of the request does not change.

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::error_body::{FORMAT_FIELDS, FORMAT_WORDS, UNSUPPORTED_WORDS};
use crate::http::{HttpError, HttpReply, HttpTransport};
use crate::image::{PageImage, message_content};
use crate::request::{FinishReason, LlmError, LlmReply, LlmRequest};

const MAX_ATTEMPTS: usize = 6;

/// Optional parameters of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestShape {
    pub(crate) format: ResponseFormat,
    pub(crate) limit: LimitField,
    // Whether to send temperature 0.
    pub(crate) temperature: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseFormat {
    // The provider enforces the JSON schema.
    Schema,
    // As `json_object` with a schema, which llama.cpp's Python server and others enforce. The schema is part of the system
    // prompt, too, as with all weaker formats.
    ObjectSchema,
    // The provider enforces JSON.
    Object,
    // Nothing is enforced.
    Text,
}

/// The parameter that limits the length of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitField {
    // Understood by all servers except for the newest OpenAI models.
    MaxTokens,
    MaxCompletionTokens,
}

impl RequestShape {
    pub(crate) const STRICT: Self = Self {
        format: ResponseFormat::Schema,
        limit: LimitField::MaxTokens,
        temperature: true,
    };

    // `None` if the message names none of the parameters that can be dropped. Some servers quote the whole request after the
    // parameter that they reject, so the one that is named first counts.
    fn relaxed(self, message: &str, has_json_mode: bool) -> Option<Self> {
        let message = message.to_lowercase();
        let first = |words: &[&str]| words.iter().filter_map(|word| message.find(word)).min();
        let without_temperature = self.temperature.then_some(Self {
            temperature: false,
            ..self
        });
        let unknown = ["max_completion_tokens", "unknown", "unrecognized"];
        let is_unknown = first(&unknown).or(first(&UNSUPPORTED_WORDS)).is_some();
        // A limit that is too high is too high under the other name, too; servers that do not know that name would have no limit.
        let has_other_limit = has_json_mode && self.limit == LimitField::MaxTokens && is_unknown;
        let other_limit = has_other_limit.then_some(Self {
            limit: LimitField::MaxCompletionTokens,
            ..self
        });
        let candidates = [
            (first(&["temperature"]), without_temperature),
            (first(&["max_completion_tokens", "max_tokens"]), other_limit),
            (
                first(&[&FORMAT_FIELDS[..], &FORMAT_WORDS].concat()),
                self.with_weaker_format(has_json_mode),
            ),
        ];
        let named = candidates
            .into_iter()
            .filter_map(|(at, relaxed)| Some((at?, relaxed?)));
        named.min_by_key(|(at, _)| *at).map(|(_, relaxed)| relaxed)
    }

    fn with_weaker_format(self, has_json_mode: bool) -> Option<Self> {
        let format = match self.format {
            ResponseFormat::Schema if has_json_mode => ResponseFormat::ObjectSchema,
            ResponseFormat::ObjectSchema => ResponseFormat::Object,
            ResponseFormat::Schema | ResponseFormat::Object => ResponseFormat::Text,
            ResponseFormat::Text => return None,
        };
        Some(Self { format, ..self })
    }
}

/// The request shape that a provider accepts, learned once per process and model.
pub(crate) struct ProviderCapabilities {
    shape: Mutex<RequestShape>,
    // Whether the API has a JSON mode without a schema, and two names for the output limit.
    has_json_mode: bool,
}

impl ProviderCapabilities {
    pub(crate) fn new(has_json_mode: bool) -> Self {
        Self {
            shape: Mutex::new(RequestShape::STRICT),
            has_json_mode,
        }
    }

    /// Sends `request` to `path`, relaxing its shape as long as the provider rejects it for a parameter.
    pub(crate) async fn post(
        &self,
        transport: &HttpTransport,
        path: &str,
        request: &LlmRequest,
        body: impl Fn(&LlmRequest, RequestShape) -> Value,
    ) -> Result<HttpReply, LlmError> {
        let initial = *self.shape.lock();
        let mut shape = initial;
        let quoted = [request.system.as_str(), request.user.as_str()];
        let mut attempts = 0;
        loop {
            attempts += 1;
            let HttpError { error, detail } =
                match transport.post(path, &body(request, shape), &quoted).await {
                    Ok(received) => {
                        self.remember(initial, shape);
                        return Ok(received);
                    }
                    Err(error) => error,
                };
            let relaxed = detail
                .filter(|_| attempts < MAX_ATTEMPTS)
                .and_then(|detail| shape.relaxed(&detail, self.has_json_mode));
            if let Some(relaxed) = relaxed {
                shape = relaxed;
                continue;
            }
            let LlmError::ContextExceeded { message, .. } = error else {
                return Err(error);
            };
            // The server took the form and rejects the length.
            self.remember(initial, shape);
            return Err(LlmError::ContextExceeded {
                message,
                needed_tokens: request.context_tokens(),
            });
        }
    }

    /// Learns from a reply to `request`: one that is prose, although a schema was sent, shows that the server ignores schemas. One
    /// that was cut off may be a thought.
    pub(crate) fn check_enforcement(&self, request: &LlmRequest, reply: &LlmReply) {
        let shape = self.shape();
        let is_whole = reply.finish == FinishReason::Complete && !reply.is_empty();
        let is_prose = is_whole && !reply.text.contains('{');
        if is_prose && response_format(request, shape) == ResponseFormat::Schema {
            let relaxed = shape.with_weaker_format(self.has_json_mode);
            self.remember(shape, relaxed.unwrap_or(shape));
        }
    }

    /// The shape that the provider accepts, as far as is known.
    pub(crate) fn shape(&self) -> RequestShape {
        *self.shape.lock()
    }

    /// Learns from the refusal of one request of a batch. Whether its shape was the cause.
    pub(crate) fn relax_after(&self, refusal: &str) -> bool {
        let shape = self.shape();
        let relaxed = shape.relaxed(refusal, self.has_json_mode);
        if let Some(relaxed) = relaxed {
            self.remember(shape, relaxed);
        }
        relaxed.is_some()
    }

    fn remember(&self, previous: RequestShape, accepted: RequestShape) {
        if previous != accepted {
            tracing::info!(shape = ?accepted, "the provider does not support the strict request form; using a relaxed form from now on");
            *self.shape.lock() = accepted;
        }
    }
}

/// The system prompt, with the schema appended if the provider does not enforce it.
pub(crate) fn system_prompt(request: &LlmRequest, format: ResponseFormat) -> String {
    match format {
        ResponseFormat::Schema => request.system.clone(),
        ResponseFormat::ObjectSchema | ResponseFormat::Object | ResponseFormat::Text => format!(
            "{}\n\nAnswer with one JSON object that fits this JSON schema, and with nothing else:\n{}",
            request.system, request.schema.json
        ),
    }
}

// A continuation is requested as plain text: under an enforced schema the model would start the object again.
pub(crate) fn response_format(request: &LlmRequest, shape: RequestShape) -> ResponseFormat {
    match request.follow_up {
        Some(crate::request::FollowUp::Continue { .. }) => ResponseFormat::Text,
        _ => shape.format,
    }
}

/// The messages after the system prompt, with images in the form that `image` gives them. Roles must alternate for Anthropic,
/// so a note without a reply is appended to the user message.
pub(crate) fn chat_messages(request: &LlmRequest, image: fn(&PageImage) -> Value) -> Vec<Value> {
    let message = |role: &str, content: Value| json!({ "role": role, "content": content });
    let user = |text: &str| message("user", message_content(&request.images, text, image));
    let Some(follow_up) = &request.follow_up else {
        return vec![user(&request.user)];
    };
    match follow_up.messages() {
        (None, note) => vec![user(&format!("{}\n\n{note}", request.user))],
        (Some(reply), note) => vec![
            user(&request.user),
            message("assistant", reply.into()),
            message("user", note.into()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rejected_parameter_is_dropped() {
        let strict = RequestShape::STRICT;
        let relaxed = |message: &str| strict.relaxed(message, true);
        let tokens = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
        assert_eq!(
            relaxed(tokens),
            Some(RequestShape {
                limit: LimitField::MaxCompletionTokens,
                ..strict
            })
        );
        assert_eq!(
            relaxed("unsupported_value temperature"),
            Some(RequestShape {
                temperature: false,
                ..strict
            })
        );
        let object = relaxed("'response_format' of type 'json_schema' is not supported").unwrap();
        assert_eq!(object.format, ResponseFormat::ObjectSchema);
        let object = object.relaxed("unknown parameter: 'response_format.schema'", true);
        let object = object.unwrap();
        assert_eq!(object.format, ResponseFormat::Object);
        let text = object.relaxed("response_format is unknown", true).unwrap();
        assert_eq!(text.format, ResponseFormat::Text);
        assert_eq!(text.relaxed("response_format", true), None);
        let without_tools = strict.relaxed("tool_choice is not supported", false);
        assert_eq!(without_tools.unwrap().format, ResponseFormat::Text);
        // A value that is too high is not an unknown parameter.
        for too_high in [
            "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
            "max_tokens is too large: 16000. This model supports at most 4096 completion tokens",
        ] {
            assert_eq!(relaxed(too_high), None);
        }
        // The parameter that is named first is the rejected one: the rest may quote the request.
        let quoting = relaxed("('body', 'response_format'): invalid, input {'temperature': 0}");
        assert_eq!(quoting.unwrap().format, ResponseFormat::ObjectSchema);
        assert_eq!(
            relaxed("context_length_exceeded: maximum context length is 8192"),
            None
        );
    }
}
