//! The lines of an envelope: a tag at the start of a line, and its value up to the end of the line.

use memchr::{memchr, memchr2};

// Longer values are not names, dates or numbers. What is cut off is not needed to tell documents apart.
const MAX_VALUE_BYTES: usize = 1_024;
// The longest tag of an envelope has 36 letters.
const MAX_TAG_BYTES: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct TagLine<'a> {
    /// Position of `<`.
    pub(crate) start: usize,
    /// Name without brackets, as written; with `/` if it ends something.
    pub(crate) name: &'a str,
    /// Position behind `>`.
    pub(crate) value_start: usize,
}

impl TagLine<'_> {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The rest of the line.
    pub(crate) fn value(&self, bytes: &[u8]) -> String {
        line_value(&bytes[self.value_start..])
    }
}

/// The tagged lines of `bytes` from a position on. Lines end with LF, CR or both.
pub(crate) struct TagLines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> TagLines<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }
}

impl<'a> Iterator for TagLines<'a> {
    type Item = TagLine<'a>;

    fn next(&mut self) -> Option<TagLine<'a>> {
        loop {
            let start = self.at + memchr(b'<', self.bytes.get(self.at..)?)?;
            self.at = start + 1;
            let starts_line = start == 0 || is_line_end(self.bytes[start - 1]);
            if let Some(tag) = tag_at(self.bytes, start).filter(|_| starts_line) {
                return Some(tag);
            }
        }
    }
}

/// The tag at a position that has `<`.
pub(crate) fn tag_at(bytes: &[u8], start: usize) -> Option<TagLine<'_>> {
    let inside = bytes.get(start + 1..)?;
    let window = &inside[..inside.len().min(MAX_TAG_BYTES)];
    let length = memchr(b'>', window)?;
    let name = std::str::from_utf8(&window[..length]).ok()?;
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|b: u8| b.is_ascii_alphanumeric() || b"-/_.:".contains(&b));
    is_name.then_some(TagLine {
        start,
        name,
        value_start: start + length + 2,
    })
}

/// Whether `bytes` start with this tag, after white space.
pub(crate) fn opens_with(bytes: &[u8], name: &str) -> bool {
    let trimmed = bytes.trim_ascii_start();
    trimmed.first() == Some(&b'<') && tag_at(trimmed, 0).is_some_and(|tag| tag.is(name))
}

pub(crate) fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The text of `bytes` up to the end of the line, with single spaces.
pub(crate) fn line_value(bytes: &[u8]) -> String {
    let window = &bytes[..bytes.len().min(MAX_VALUE_BYTES)];
    let line = &window[..memchr2(b'\n', b'\r', window).unwrap_or(window.len())];
    let text = decode(line);
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}

/// UTF-8, else Latin-1, in which every byte is a character.
pub(crate) fn decode(bytes: &[u8]) -> String {
    // A value that was cut at its greatest length may end inside a character.
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}
