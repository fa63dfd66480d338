//! Putting together a reply that broke off and what continues it.

/// What a continuation must repeat at least to count as overlap: less is chance.
const MIN_OVERLAP_BYTES: usize = 8;
/// How much of the end may be repeated.
const MAX_OVERLAP_BYTES: usize = 4_096;

/// Whether what broke off is the beginning of an answer, so that it is worth going on.
pub fn is_continuable(so_far: &str) -> bool {
    let text = strip_fence(so_far.trim_start());
    text.is_empty() || text.starts_with('{')
}

/// `so_far` and what was written next. A model that repeats the end is joined at the overlap; one that begins again from
/// the beginning is taken at its word.
pub fn join_continuation(so_far: &str, next: &str) -> String {
    let so_far = so_far.trim_end_matches(['\n', '\r']);
    let fresh = strip_fence(next.trim_start());
    let begin = strip_fence(so_far.trim_start());
    let head = begin.floor_char_boundary(2 * MIN_OVERLAP_BYTES);
    if head >= 2 * MIN_OVERLAP_BYTES && fresh.starts_with(&begin[..head]) {
        return fresh.into();
    }
    // What begins with a fence is set apart, and its first blanks mean nothing; else they may be part of a string.
    let next = if fresh.len() < next.trim_start().len() {
        fresh
    } else {
        next
    };
    format!("{so_far}{}", &next[overlap_bytes(so_far, next)..])
}

/// How many bytes at the beginning of `next` repeat the end of `so_far`.
fn overlap_bytes(so_far: &str, next: &str) -> usize {
    let longest = so_far.len().min(next.len()).min(MAX_OVERLAP_BYTES);
    let end = so_far.as_bytes();
    let begin = next.as_bytes();
    (MIN_OVERLAP_BYTES..=longest)
        .rev()
        .find(|length: &usize| next.is_char_boundary(*length) && end.ends_with(&begin[..*length]))
        .unwrap_or(0)
}

/// Without the fence that it begins with.
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
