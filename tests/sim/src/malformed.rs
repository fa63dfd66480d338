//! Corrupts a correct reply.

use serde_json::{Value, json};

use crate::behavior::ReplyFault;
use crate::seeded::SeededRng;

/// A reply text, and whether it is marked as truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplyText {
    pub(crate) text: String,
    pub(crate) is_cut: bool,
}

/// Applies a fault to a correct text. Faults that do not concern the text leave it unchanged.
pub(crate) fn corrupt(text: String, fault: ReplyFault, seed: u64, digest: &[u8]) -> ReplyText {
    let mut rng = SeededRng::new(seed, "spoil", digest);
    let half = |text: &str, least: usize| {
        let end = text
            .floor_char_boundary(least.max(text.len() / 4 + random_below(text.len() / 2, digest)));
        text[..end].to_string()
    };
    let whole = |text: String| ReplyText {
        text,
        is_cut: false,
    };
    match fault {
        ReplyFault::Empty => whole(String::new()),
        ReplyFault::Truncated => ReplyText {
            text: half(&text, 1),
            is_cut: true,
        },
        ReplyFault::Schema => whole(other_shape(&text, &mut rng)),
        ReplyFault::Malformed => whole(match rng.below(6) {
            0 => half(&text, 1),
            1 => "Certainly! I looked at the text with great care, and here is what I think of it."
                .into(),
            2 => format!("Sure, here it is:\n```json\n{text}\n```\nLet me know if you need more."),
            3 => text
                .replace("true", "True")
                .replace("false", "False")
                .replacen('}', ",}", 1),
            4 => text.replace('"', "'"),
            _ => format!("{text}{}", half(&text, 1)),
        }),
        ReplyFault::Error | ReplyFault::Hang | ReplyFault::Reset => whole(text),
    }
}

fn random_below(sides: usize, digest: &[u8]) -> usize {
    SeededRng::new(0, "cut", digest).below(sides)
}

// JSON that does not match the schema: a renamed property, values of another type, or a missing property.
fn other_shape(text: &str, rng: &mut SeededRng) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let other = match (rng.below(3), value) {
        (0, value) => json!({ "answer": value }),
        (1, Value::Object(mut object)) => {
            let last = object.keys().next_back().cloned();
            last.and_then(|name| object.remove(&name));
            Value::Object(object)
        }
        (_, Value::Object(object)) => object
            .into_iter()
            .map(|(name, value)| (name, json!(value.to_string())))
            .collect(),
        (_, value) => json!([value]),
    };
    other.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corruption_changes_the_text_deterministically() {
        let text =
            json!({ "summaries": [{ "section": 1, "summary": "We sell things." }], "sure": true })
                .to_string();
        for fault in [
            ReplyFault::Empty,
            ReplyFault::Truncated,
            ReplyFault::Schema,
            ReplyFault::Malformed,
        ] {
            for n in 0..40_u8 {
                let corrupted = corrupt(text.clone(), fault, 1, &[n]);
                assert_eq!(corrupted, corrupt(text.clone(), fault, 1, &[n]));
                assert_eq!(corrupted.is_cut, fault == ReplyFault::Truncated);
                assert_ne!(corrupted.text, text, "{fault:?} {n}");
            }
        }
        assert_eq!(corrupt(text.clone(), ReplyFault::Hang, 1, b"x").text, text);
    }
}
