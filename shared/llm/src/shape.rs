//! How a request is put to one provider and model: as strictly as it takes it.
//!
//! What a provider refuses with 400 and names in its refusal is left out of the request, which is then sent again; once the
//! provider takes it so, every further request of this process is put that way. The question and its digest stay the same.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::http::{Received, Refused, Wire};
use crate::request::{LlmError, Request};

/// How often one request is put otherwise.
const MOST: usize = 6;

/// How requests are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) format: Format,
    pub(crate) limit: LimitField,
    /// Whether temperature 0 is sent.
    pub(crate) temperature: bool,
}

/// How the provider is held to the shape of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
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

impl Shape {
    pub(crate) const STRICT: Self = Self {
        format: Format::Schema,
        limit: LimitField::MaxTokens,
        temperature: true,
    };

    /// The next less strict way, given what the provider says is wrong; `None` where it names nothing of this.
    fn eased(self, said: &str, has_object: bool) -> Option<Self> {
        let said = said.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if names(&["temperature"]) && self.temperature {
            return Some(Self {
                temperature: false,
                ..self
            });
        }
        if names(&["max_completion_tokens", "max_tokens"])
            && self.limit == LimitField::MaxTokens
            && has_object
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
        if !names(&structure) {
            return None;
        }
        let format = match self.format {
            Format::Schema if has_object => Format::Object,
            Format::Schema | Format::Object => Format::Text,
            Format::Text => return None,
        };
        Some(Self { format, ..self })
    }
}

/// The shape that one provider takes, learned once per process and model.
pub(crate) struct Shaped {
    shape: Mutex<Shape>,
    /// Whether the dialect has JSON without a schema, and two names for the longest reply.
    has_object: bool,
}

impl Shaped {
    pub(crate) fn new(has_object: bool) -> Self {
        Self {
            shape: Mutex::new(Shape::STRICT),
            has_object,
        }
    }

    /// Sends `request` to `path`, put as `body` says, and otherwise where the provider does not take it so.
    pub(crate) async fn post(
        &self,
        wire: &Wire,
        path: &str,
        request: &Request,
        body: impl Fn(&Request, Shape) -> Value,
    ) -> Result<Received, LlmError> {
        let known = *self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shape = known;
        let mut first = None;
        let quoted = [request.system.as_str(), request.user.as_str()];
        for _ in 0..MOST {
            let Refused { error, said } =
                match wire.post(path, &body(request, shape), &quoted).await {
                    Ok(received) => {
                        self.keep(known, shape);
                        return Ok(received);
                    }
                    Err(refused) => refused,
                };
            let eased = said.and_then(|said| shape.eased(&said, self.has_object));
            // What put otherwise is refused all the same was refused for another reason: the first one counts.
            let Some(eased) = eased else {
                return Err(first.unwrap_or(error));
            };
            first.get_or_insert(error);
            shape = eased;
        }
        Err(first.unwrap_or(LlmError::Refused {
            status: 400,
            message: String::new(),
        }))
    }

    fn keep(&self, known: Shape, taken: Shape) {
        if known != taken {
            tracing::info!(shape = ?taken, "the provider does not take requests in their strictest form; they are put so from now on");
            *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = taken;
        }
    }
}

/// The instructions, with the schema where nothing else holds the provider to it.
pub(crate) fn instructions(request: &Request, format: Format) -> String {
    match format {
        Format::Schema => request.system.clone(),
        Format::Object | Format::Text => format!(
            "{}\n\nAnswer with one JSON object that fits this JSON schema, and with nothing else:\n{}",
            request.system, request.schema.json
        ),
    }
}

/// The format of this request: what is continued is text, for a model that is held to a schema begins again.
pub(crate) fn format_of(request: &Request, shape: Shape) -> Format {
    match request.follow_up {
        Some(crate::request::FollowUp::Continue { .. }) => Format::Text,
        _ => shape.format,
    }
}

/// What is said in turn: the question, the reply it follows, and the note on that. Roles alternate.
pub(crate) fn turns(request: &Request) -> Vec<(&'static str, String)> {
    let Some(follow_up) = &request.follow_up else {
        return vec![("user", request.user.clone())];
    };
    match follow_up.turns() {
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
    fn what_is_named_is_left_out_and_nothing_else() {
        let strict = Shape::STRICT;
        let eased = |said: &str| strict.eased(said, true);
        let tokens = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
        assert_eq!(
            eased(tokens),
            Some(Shape {
                limit: LimitField::MaxCompletionTokens,
                ..strict
            })
        );
        assert_eq!(
            eased("unsupported_value temperature"),
            Some(Shape {
                temperature: false,
                ..strict
            })
        );
        let object = eased("'response_format' of type 'json_schema' is not supported").unwrap();
        assert_eq!(object.format, Format::Object);
        let text = object.eased("response_format is unknown", true).unwrap();
        assert_eq!(
            (text.format, text.eased("response_format", true)),
            (Format::Text, None)
        );
        assert_eq!(
            strict
                .eased("tool_choice is not supported", false)
                .unwrap()
                .format,
            Format::Text
        );
        assert_eq!(
            eased("context_length_exceeded: maximum context length is 8192"),
            None
        );
    }
}
