//! One call: what it asks, the good answer to it, and the reply that is made of that.

use std::time::Instant;

use serde_json::{Value, json};
use stemma_llm::tokens;

use crate::behavior::{Behavior, Fault};
use crate::dialect::Dialect;
use crate::dice::Dice;
use crate::http::Head;
use crate::oracle::Oracle;
use crate::question::Question;
use crate::report::Ask;
use crate::spoil::{Said, spoilt};
use crate::{embed, gullible, lies};

/// Tokens that a chat costs beside its texts.
const ENVELOPE_TOKENS: u32 = 16;

/// A request as it was understood.
pub(crate) struct Call {
    pub(crate) dialect: Dialect,
    pub(crate) digest: blake3::Hash,
    body: Value,
    asked: Asked,
}

enum Asked {
    Text(Question),
    Embedding,
    /// Refused with this status, because of this.
    Nothing(u16, String),
}

/// The good answer to a call, a pure function of it; or a lie, or what a gullible model was made to say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answered {
    outcome: &'static str,
    said: Said,
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
}

impl Answered {
    pub(crate) fn text(&self) -> &str {
        &self.said.text
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.output_tokens)
    }
}

impl Call {
    pub(crate) fn of(head: &Head, body: &[u8]) -> Self {
        let path = head.word(1).split('?').next().unwrap_or_default();
        let dialect = if path.ends_with("/messages") {
            Dialect::Anthropic
        } else {
            Dialect::OpenAi
        };
        let known = path.ends_with("/chat/completions") || path.ends_with("/messages");
        let parsed = serde_json::from_slice::<Value>(body).map_err(|error| error.to_string());
        let asked = match &parsed {
            _ if head.word(0) != "POST" => Asked::Nothing(404, "there is no such path".into()),
            Err(error) => Asked::Nothing(400, error.clone()),
            Ok(_) if path.ends_with("/embeddings") => Asked::Embedding,
            Ok(value) if known => match Question::of(value) {
                Ok(question) => Asked::Text(question),
                Err(error) => Asked::Nothing(400, error),
            },
            Ok(_) => Asked::Nothing(404, "there is no such path".into()),
        };
        let digest = match &asked {
            // What is added to a question to have it answered better or to its end makes no other question of it.
            Asked::Text(question) => {
                let Question {
                    model,
                    system,
                    schema,
                    ..
                } = question;
                blake3::hash(
                    json!([model, system, question.asked(), schema])
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
            asked,
        }
    }

    pub(crate) fn stage(&self) -> &'static str {
        match &self.asked {
            Asked::Text(question) => question.stage.name(),
            Asked::Embedding => "embedding",
            Asked::Nothing(..) => "none",
        }
    }

    pub(crate) fn sections(&self) -> usize {
        match &self.asked {
            Asked::Text(question) => question.named("Section").count(),
            _ => 0,
        }
    }

    /// Whether an answer is to be continued.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(&self.asked, Asked::Text(question) if question.begun.is_some())
    }

    pub(crate) fn answered(&self, oracle: &Oracle, behavior: &Behavior) -> Answered {
        let none = Said {
            text: String::new(),
            is_cut: false,
        };
        let question = match &self.asked {
            Asked::Text(question) => question,
            Asked::Embedding => {
                let prompt_tokens = embed::answer(&self.body).map_or(0, |(_, tokens)| tokens);
                return Answered {
                    outcome: "good",
                    said: none,
                    prompt_tokens,
                    output_tokens: 0,
                };
            }
            Asked::Nothing(..) => {
                return Answered {
                    outcome: "refused",
                    said: none,
                    prompt_tokens: 0,
                    output_tokens: 0,
                };
            }
        };
        let judged = oracle.judge(question, behavior.noise, behavior.seed);
        let good = judged.unwrap_or_else(|| oracle.answer(question, behavior.reads));
        let told = behavior
            .gullible
            .then(|| gullible::obey(question, &good))
            .flatten();
        let lies = Dice::of(behavior.seed, "lies", self.digest.as_bytes()).happens(behavior.lies);
        let (outcome, value) = match told {
            Some(told) => ("obeyed", told),
            None if lies => ("lie", lies::instead_of(&good, question, behavior.seed)),
            None => ("good", good),
        };
        let text = match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        let said = bounded(rest(text, question.begun.as_deref()), question.max_tokens);
        let schema = if question.schema.is_null() {
            String::new()
        } else {
            question.schema.to_string()
        };
        let begun = question.begun.as_deref().unwrap_or_default();
        let parts = [question.system.as_str(), &question.user, begun, &schema];
        let prompt_tokens = parts
            .into_iter()
            .map(tokens::count)
            .fold(ENVELOPE_TOKENS, u32::saturating_add);
        // What is cut off by the model's own limit is no complete answer.
        let outcome = if said.is_cut { "cut" } else { outcome };
        Answered {
            outcome,
            output_tokens: tokens::count(&said.text),
            said,
            prompt_tokens,
        }
    }

    /// Outcome, status and body of the reply, where it is not an error of the provider.
    pub(crate) fn reply(
        &self,
        answered: &Answered,
        fault: Option<Fault>,
        seed: u64,
    ) -> (&'static str, u16, Value) {
        let question = match &self.asked {
            Asked::Text(question) => question,
            Asked::Embedding => {
                return match embed::answer(&self.body) {
                    Ok((value, _)) => ("good", 200, value),
                    Err(error) => ("refused", 400, self.dialect.error(400, &error)),
                };
            }
            Asked::Nothing(status, error) => {
                return ("refused", *status, self.dialect.error(*status, error));
            }
        };
        let said = match fault {
            Some(fault) => spoilt(
                answered.said.text.clone(),
                fault,
                seed,
                self.digest.as_bytes(),
            ),
            None => answered.said.clone(),
        };
        let outcome = match fault {
            Some(Fault::Empty) => "empty",
            Some(Fault::Truncated) => "truncated",
            Some(Fault::Malformed) => "malformed",
            Some(Fault::Schema) => "schema",
            _ => answered.outcome,
        };
        let tokens = [answered.prompt_tokens, tokens::count(&said.text)];
        (
            outcome,
            200,
            self.dialect.reply(&self.body, question, &said, tokens),
        )
    }

    /// A line of the record; `said`: the good answer.
    pub(crate) fn record(
        &self,
        ask: &Ask,
        number: usize,
        serving: u32,
        first: Instant,
        said: Option<&str>,
    ) -> Value {
        let question = match &self.asked {
            Asked::Text(question) => Some(question),
            _ => None,
        };
        let blocks = question.map(|question| {
            question
                .blocks
                .iter()
                .map(|block: &crate::question::Block| json!([block.name, block.number, block.text]))
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
            "said": said,
        })
    }
}

/// What follows of an answer that was begun: behind what is there already, where that is how it begins.
fn rest(text: String, begun: Option<&str>) -> String {
    let Some(begun) = begun else { return text };
    match text
        .strip_prefix(begun)
        .or_else(|| text.strip_prefix(begun.trim_end()))
    {
        Some(rest) => rest.to_string(),
        None => text,
    }
}

/// The text, cut where it is longer than allowed.
fn bounded(text: String, max_tokens: Option<u32>) -> Said {
    let Some(most) = max_tokens.filter(|most| tokens::count(&text) > *most) else {
        return Said {
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
            fits = middle
        } else {
            too_long = middle
        }
    }
    Said {
        text: text[..fits].into(),
        is_cut: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_long_is_cut_and_can_be_continued_to_its_end() {
        let text = format!("{{\"a\":\"{}\"}}", "word after word ".repeat(40));
        let mut begun = String::new();
        for _ in 0..20 {
            let said = bounded(
                rest(
                    text.clone(),
                    Some(&begun)
                        .filter(|text| !text.is_empty())
                        .map(|text| text.as_str()),
                ),
                Some(20),
            );
            assert!(tokens::count(&said.text) <= 20 && !said.text.is_empty());
            begun.push_str(&said.text);
            if !said.is_cut {
                break;
            }
        }
        assert_eq!(begun, text);
        assert!(!bounded("short".into(), Some(20)).is_cut && !bounded("short".into(), None).is_cut);
    }
}
