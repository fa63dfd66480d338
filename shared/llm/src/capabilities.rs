//! How a request is put to one provider and model: as strictly as it takes it.
//!
//! What a provider refuses with 400 and names in its refusal is left out of the request, which is then sent again; once the
//! provider takes it so, every further request of this process is put that way. The question and its digest stay the same.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::http::{HttpError, HttpReply, HttpTransport};
use crate::request::{LlmError, LlmRequest};

/// How often one request is put otherwise.
const MAX_ATTEMPTS: usize = 6;

/// How requests are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestShape {
    pub(crate) format: ResponseFormat,
    pub(crate) limit: LimitField,
    /// Whether temperature 0 is sent.
    pub(crate) temperature: bool,
}

/// How the provider is held to the shape of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseFormat {
    /// By its JSON schema.
    Schema,
    /// To JSON; the schema stands in the instructions.
    Object,
    /// Not at all; the schema stands in the instructions.
    Text,
}

/// The name of the longest reply in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitField {
    /// What every server knows but the newest of OpenAI.
    MaxTokens,
    /// What those want.
    MaxCompletionTokens,
}

impl RequestShape {
    pub(crate) const STRICT: Self = Self {
        format: ResponseFormat::Schema,
        limit: LimitField::MaxTokens,
        temperature: true,
    };

    /// The next less strict way, given what the provider says is wrong; `None` where it names nothing of this.
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

/// The shape that one provider takes, learned once per process and model.
pub(crate) struct ProviderCapabilities {
    shape: Mutex<RequestShape>,
    /// Whether the dialect has JSON without a schema, and two names for the longest reply.
    has_json_mode: bool,
}

impl ProviderCapabilities {
    pub(crate) fn new(has_json_mode: bool) -> Self {
        Self {
            shape: Mutex::new(RequestShape::STRICT),
            has_json_mode: has_json_mode,
        }
    }

    /// Sends `request` to `path`, put as `body` says, and otherwise where the provider does not take it so.
    pub(crate) async fn post(
        &self,
        wire: &HttpTransport,
        path: &str,
        request: &LlmRequest,
        body: impl Fn(&LlmRequest, RequestShape) -> Value,
    ) -> Result<HttpReply, LlmError> {
        let initial = *self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shape = initial;
        let mut first = None;
        let quoted = [request.system.as_str(), request.user.as_str()];
        for _ in 0..MAX_ATTEMPTS {
            let HttpError { error, detail } =
                match wire.post(path, &body(request, shape), &quoted).await {
                    Ok(received) => {
                        self.remember(initial, shape);
                        return Ok(received);
                    }
                    Err(refused) => refused,
                };
            let relaxed = detail.and_then(|detail| shape.relaxed(&detail, self.has_json_mode));
            // What put otherwise is refused all the same was refused for another reason: the first one counts.
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

    fn remember(&self, previous: RequestShape, accepted: RequestShape) {
        if previous != accepted {
            tracing::info!(shape = ?accepted, "the provider does not take requests in their strictest form; they are put so from now on");
            *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = accepted;
        }
    }
}

/// The instructions, with the schema where nothing else holds the provider to it.
pub(crate) fn system_prompt(request: &LlmRequest, format: ResponseFormat) -> String {
    match format {
        ResponseFormat::Schema => request.system.clone(),
        ResponseFormat::Object | ResponseFormat::Text => format!(
            "{}\n\nAnswer with one JSON object that fits this JSON schema, and with nothing else:\n{}",
            request.system, request.schema.json
        ),
    }
}

/// The format of this request: what is continued is text, for a model that is held to a schema begins again.
pub(crate) fn response_format(request: &LlmRequest, shape: RequestShape) -> ResponseFormat {
    match request.follow_up {
        Some(crate::request::FollowUp::Continue { .. }) => ResponseFormat::Text,
        _ => shape.format,
    }
}

/// What is said in turn: the question, the reply it follows, and the note on that. Roles alternate.
pub(crate) fn chat_messages(request: &LlmRequest) -> Vec<(&'static str, String)> {
    let Some(follow_up) = &request.follow_up else {
        return vec![("user", request.user.clone())];
    };
    match follow_up.messages() {
        (None, note) => vec![("user", format!("{}\n\n{note}", request.user))],
        (Some(reply), note) => {
            vec![
                ("user", request.user.clone()),
                ("assistant", reply.into()),
                ("user", note),
            ]
        }
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
        assert_eq!(
            (text.format, text.relaxed("response_format", true)),
            (ResponseFormat::Text, None)
        );
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
