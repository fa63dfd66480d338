//! Adapts requests to what a provider supports.
//!
//! When a provider rejects a request with 400 and names a parameter, the request is sent again without it. Once accepted,
//! the reduced form is used for all later requests of this process. The digest of the request does not change.

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::{HttpError, HttpReply, HttpTransport};
use crate::image::{PageImage, message_content};
use crate::request::{LlmError, LlmRequest};

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
    // The provider enforces JSON; the schema is part of the system prompt.
    Object,
    // Nothing is enforced; the schema is part of the system prompt.
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

    // `None` if the message names none of the parameters that can be dropped.
    fn relaxed(self, message: &str, has_json_mode: bool) -> Option<Self> {
        let message = message.to_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if mentions(&["temperature"]) && self.temperature {
            return Some(Self {
                temperature: false,
                ..self
            });
        }
        if mentions(&["max_completion_tokens", "max_tokens"])
            && self.limit == LimitField::MaxTokens
            && has_json_mode
        {
            return Some(Self {
                limit: LimitField::MaxCompletionTokens,
                ..self
            });
        }
        let structure = [
            "response_format",
            "json_schema",
            "json_object",
            "schema",
            "grammar",
            "structured",
            "tool",
        ];
        if !mentions(&structure) {
            return None;
        }
        let format = match self.format {
            ResponseFormat::Schema if has_json_mode => ResponseFormat::Object,
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
        let mut first = None;
        let quoted = [request.system.as_str(), request.user.as_str()];
        for _ in 0..MAX_ATTEMPTS {
            let HttpError { error, detail } =
                match transport.post(path, &body(request, shape), &quoted).await {
                    Ok(received) => {
                        self.remember(initial, shape);
                        return Ok(received);
                    }
                    Err(error) => error,
                };
            let relaxed = detail.and_then(|detail| shape.relaxed(&detail, self.has_json_mode));
            // If the relaxed request fails as well, the parameter was not the cause, so the first error is reported.
            let Some(relaxed) = relaxed else {
                return Err(first.unwrap_or(error));
            };
            first.get_or_insert(error);
            shape = relaxed;
        }
        Err(first.unwrap_or(LlmError::Refused {
            status: 400,
            message: String::new(),
        }))
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
            tracing::info!(shape = ?accepted, "the provider rejects the strict request form; using a relaxed form from now on");
            *self.shape.lock() = accepted;
        }
    }
}

/// The system prompt, with the schema appended if the provider does not enforce it.
pub(crate) fn system_prompt(request: &LlmRequest, format: ResponseFormat) -> String {
    match format {
        ResponseFormat::Schema => request.system.clone(),
        ResponseFormat::Object | ResponseFormat::Text => format!(
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
        assert_eq!(object.format, ResponseFormat::Object);
        let text = object.relaxed("response_format is unknown", true).unwrap();
        assert_eq!(text.format, ResponseFormat::Text);
        assert_eq!(text.relaxed("response_format", true), None);
        assert_eq!(
            strict
                .relaxed("tool_choice is not supported", false)
                .unwrap()
                .format,
            ResponseFormat::Text
        );
        assert_eq!(
            relaxed("context_length_exceeded: maximum context length is 8192"),
            None
        );
    }
}
