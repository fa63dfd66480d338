//! Joins a truncated reply with its continuation.

// Shorter repetitions may be coincidence.
const MIN_OVERLAP_BYTES: usize = 8;
const MAX_OVERLAP_BYTES: usize = 4_096;

/// Whether a truncated reply is the beginning of a JSON object.
pub fn is_continuable(partial: &str) -> bool {
    let text = strip_fence(partial.trim_start());
    text.is_empty() || text.starts_with('{')
}

/// Joins `partial` and `next`. If `next` repeats the end of `partial`, the overlap is removed; if it starts the reply again,
/// `next` alone is returned.
pub fn join_continuation(partial: &str, next: &str) -> String {
    let partial = partial.trim_end_matches(['\n', '\r']);
    let unfenced = strip_fence(next.trim_start());
    let begin = strip_fence(partial.trim_start());
    let head = begin.floor_char_boundary(2 * MIN_OVERLAP_BYTES);
    if head >= 2 * MIN_OVERLAP_BYTES && unfenced.starts_with(&begin[..head]) {
        return unfenced.into();
    }
    // White space after a fence means nothing. Without a fence, leading spaces may belong to a JSON string.
    let next = if unfenced.len() < next.trim_start().len() {
        unfenced
    } else {
        next
    };
    format!("{partial}{}", &next[overlap_bytes(partial, next)..])
}

// Length of the longest prefix of `next` that is a suffix of `partial`.
fn overlap_bytes(partial: &str, next: &str) -> usize {
    let longest = partial.len().min(next.len()).min(MAX_OVERLAP_BYTES);
    let end = partial.as_bytes();
    let begin = next.as_bytes();
    (MIN_OVERLAP_BYTES..=longest)
        .rev()
        .find(|length: &usize| next.is_char_boundary(*length) && end.ends_with(&begin[..*length]))
        .unwrap_or(0)
}

fn strip_fence(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("```") else {
        return text;
    };
    rest.split_once('\n')
        .map_or("", |(_, rest)| rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuations_are_joined_at_the_overlap() {
        let so_far = r#"{"entries":[{"title":"Risk Factors","page":1"#;
        let whole = r#"{"entries":[{"title":"Risk Factors","page":11}]}"#;
        for next in [
            "1}]}",            // the very next character, though it looks like a repetition
            "```json\n1}]}\n", // in a fence
            r#"{"title":"Risk Factors","page":11}]}"#, // the broken element again
            whole,             // everything again
        ] {
            assert_eq!(join_continuation(so_far, next).trim_end(), whole, "{next}");
        }
        assert_eq!(
            join_continuation("{\"a\":\"one", " two\"}"),
            "{\"a\":\"one two\"}"
        );
        assert_eq!(join_continuation("", "{}"), "{}");
    }

    #[test]
    fn only_json_objects_are_continued() {
        assert!(is_continuable("") && is_continuable(" {\"a\"") && is_continuable("```json\n{"));
        assert!(!is_continuable("Certainly! Let me think") && !is_continuable("[1,"));
    }
}
