//! Text from documents, requests and file names, safe to show.
//!
//! The template escapes markup. These types also replace what could change how the text around them is displayed: control
//! characters, and marks that reverse the direction of writing.

use std::fmt::Write;

use maud::{Escaper, Render, html};

// Longer titles and names are cut. Style sheets cut them again, to their line.
const MAX_LINE_BYTES: usize = 400;
const CUT_MARK: &str = "…";

/// A title or name in one line, cut to 400 bytes.
pub(crate) struct Line<'a>(pub &'a str);

/// A text of many lines, whole.
pub(crate) struct Passage<'a>(pub &'a str);

/// A sentence of this program, such as an error: what it has between backticks is shown as code.
pub(crate) struct Message<'a>(pub &'a str);

impl Render for Line<'_> {
    fn render_to(&self, to: &mut String) {
        write_harmless(to, cut(self.0), |_| false);
        if cut(self.0).len() < self.0.len() {
            to.push_str(CUT_MARK);
        }
    }
}

impl Render for Passage<'_> {
    fn render_to(&self, to: &mut String) {
        write_harmless(to, self.0, |c| c == '\n' || c == '\t');
    }
}

impl Render for Message<'_> {
    fn render_to(&self, to: &mut String) {
        let parts: Vec<&str> = self.0.split('`').collect();
        // An even number of backticks leaves an odd number of parts.
        if parts.len().is_multiple_of(2) {
            return Passage(self.0).render_to(to);
        }
        for (at, part) in parts.into_iter().enumerate() {
            if at % 2 == 1 {
                html! { code { (Passage(part)) } }.render_to(to);
            } else {
                Passage(part).render_to(to);
            }
        }
    }
}

/// A message as the beginning of a paragraph. What does not begin with a plain word stays as it is.
pub(crate) fn capitalized(message: &str) -> String {
    let word = message.split([' ', ',', ':']).next().unwrap_or_default();
    let is_plain = word.chars().all(|c| c.is_ascii_lowercase());
    match word.chars().next().filter(|_| is_plain) {
        Some(first) => format!("{}{}", first.to_ascii_uppercase(), &message[1..]),
        None => message.to_owned(),
    }
}

fn write_harmless(to: &mut String, text: &str, is_kept: impl Fn(char) -> bool) {
    for part in text.split_inclusive(|c: char| is_disruptive(c) && !is_kept(c)) {
        let end = part.char_indices().next_back();
        let (harmless, rest) = match end {
            Some((at, c)) if is_disruptive(c) && !is_kept(c) => part.split_at(at),
            _ => (part, ""),
        };
        // Writing to a string does not fail.
        let _ = Escaper::new(to).write_str(harmless);
        if !rest.is_empty() {
            to.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

// Control characters, invisible separators, and marks that change the direction of writing.
fn is_disruptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

fn cut(text: &str) -> &str {
    cut_to(text, MAX_LINE_BYTES)
}

/// The beginning of a text, at most `bytes` long.
pub(crate) fn cut_to(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `1,234,567`
pub(crate) fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 document`, `1,234 documents`
pub(crate) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        Line(text).render().into_string()
    }

    #[test]
    fn markup_is_escaped_and_disruptive_characters_are_replaced() {
        assert_eq!(
            line("<script>&\"x\u{202e}fdp\u{1b}[31m\n"),
            "&lt;script&gt;&amp;&quot;x\u{fffd}fdp\u{fffd}[31m\u{fffd}"
        );
        assert_eq!(line("Börse 東京 שלום"), "Börse 東京 שלום");
        let passage = Passage("a\n\tb\u{0}\u{2066}<i>").render().into_string();
        assert_eq!(passage, "a\n\tb\u{fffd}\u{fffd}&lt;i&gt;");
    }

    #[test]
    fn messages_show_what_is_between_backticks_as_code() {
        let shown = |text: &str| Message(text).render().into_string();
        assert_eq!(
            shown("no document `<x>`"),
            "no document <code>&lt;x&gt;</code>"
        );
        assert_eq!(shown("a ` alone"), "a ` alone");
        assert_eq!(capitalized("no document `x`"), "No document `x`");
        for unchanged in ["`x` is none", "3M: none", "a.pdf is none", ""] {
            assert_eq!(capitalized(unchanged), unchanged);
        }
    }

    #[test]
    fn long_titles_are_cut_between_characters() {
        let cut = line(&"é".repeat(500_000));
        assert_eq!((cut.chars().count(), cut.chars().last()), (201, Some('…')));
        assert_eq!(line(&"x".repeat(MAX_LINE_BYTES)).len(), MAX_LINE_BYTES);
    }

    #[test]
    fn numbers_have_groups() {
        let numbers = [0_u32, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "job"), "1 job");
        assert_eq!(counted(1_000, "job"), "1,000 jobs");
    }
}
