//! Whole words of a text.

use std::ops::Range;

use stemma_document::note_marks::is_raised;

/// Words in lower case with their places, without the marks of footnotes.
pub fn words(text: &str) -> Vec<(String, Range<usize>)> {
    let text = without_marks(text);
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, c.is_alphanumeric() && !is_raised(c)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push((text[from..at].to_lowercase(), from..at));
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// Whether a text has one of some words or phrases, as whole words.
pub fn says(text: &str, phrases: &[&str]) -> bool {
    let plain = |text: &str| {
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| is_raised(c) || !(c.is_alphanumeric() || c == '%'));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        format!(" {} ", words.join(" "))
            .replace('%', " % ")
            .replace("  ", " ")
    };
    let text = plain(text);
    phrases.iter().any(|phrase| text.contains(&plain(phrase)))
}

/// A text without what is in parentheses: `Net income (loss)`.
pub fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let mut bare = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    bare
}

// `Receivables(1)` → `Receivables   `.
fn without_marks(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut marks: Vec<Range<usize>> = Vec::new();
    for at in (1..bytes.len()).filter(|at| bytes[*at] == b'(') {
        let inside = bytes[at + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric());
        let length = inside.count();
        let is_glued = bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b')';
        if is_glued && matches!(length, 1 | 2) && bytes.get(at + 1 + length) == Some(&b')') {
            marks.push(at..at + length + 2);
        }
    }
    blank(text, marks.iter())
}

/// A text with blanks for these ranges. Places of other words stay as they are.
pub fn blank<'r>(text: &str, ranges: impl Iterator<Item = &'r Range<usize>>) -> String {
    let mut text = text.to_owned();
    for range in ranges {
        text.replace_range(range.clone(), &" ".repeat(range.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_compared_by_whole_words() {
        for (text, phrases, expected) in [
            ("What is the foreign exchange risk?", &["change"][..], false),
            (
                "How did consumer accounts in operations differ?",
                &["sum", "count", "ratio"],
                false,
            ),
            ("12% of revenue", &["% of"], true),
            ("12 % of revenue", &["% of"], true),
            ("year-over-year growth", &["year over year"], true),
            ("3M vs. Boeing", &["vs"], true),
        ] {
            assert_eq!(says(text, phrases), expected, "{text} {phrases:?}");
        }
    }
}
