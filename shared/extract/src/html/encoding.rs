//! The encoding of an HTML file, and characters with their bytes in it.

use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use stemma_document::Defect;

use super::references;

// HTML puts its declaration there (WHATWG, prescan); XHTML has it in the first line.
const DECLARATION_BYTES: usize = 1_024;

/// A file whose characters can be read at their bytes.
pub(super) struct Input<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    is_utf8: bool,
    /// Whether the bytes are those of the file, and not of a conversion.
    pub(super) is_file: bool,
}

impl<'a> Input<'a> {
    /// Valid UTF-8 is read as such whatever the file declares: a file of another encoding is almost never valid UTF-8.
    pub(super) fn new(bytes: &'a [u8], defects: &mut Vec<Defect>) -> Self {
        let by_mark = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
        let is_utf8 = std::str::from_utf8(bytes).is_ok();
        let encoding = match by_mark {
            Some(encoding) if encoding != UTF_8 => encoding,
            _ if is_utf8 => {
                return Self::from_file(bytes, true);
            }
            _ => declared(bytes)
                .filter(|encoding| *encoding != UTF_8)
                .unwrap_or(WINDOWS_1252),
        };
        // Every byte of windows-1252 is a character, so it is read in place. (Latin-1 means it in HTML.)
        if encoding == WINDOWS_1252 {
            if declared(bytes) == Some(UTF_8) {
                let detail = "the file says it is UTF-8 and is not; it was read as windows-1252";
                defects.push(defect("html.encoding", detail.into()));
            }
            return Self::from_file(bytes, false);
        }
        let (text, _, had_errors) = encoding.decode(bytes);
        if had_errors {
            let detail = format!(
                "some bytes are not {} and were replaced",
                encoding.name().to_ascii_lowercase()
            );
            defects.push(defect("html.encoding", detail));
        }
        let detail = format!(
            "the file is {}, so its lines have no byte offsets",
            encoding.name().to_ascii_lowercase()
        );
        defects.push(defect("html.no_offsets", detail));
        Self {
            bytes: Cow::Owned(text.into_owned().into_bytes()),
            is_utf8: true,
            is_file: false,
        }
    }

    fn from_file(bytes: &'a [u8], is_utf8: bool) -> Self {
        Self {
            bytes: Cow::Borrowed(bytes),
            is_utf8,
            is_file: true,
        }
    }

    /// The text of a range, with references decoded.
    pub(super) fn text(&self, range: Range<usize>) -> String {
        let mut text = String::new();
        let mut at = range.start;
        while at < range.end {
            let (c, length) = self.char_at(at, range.end);
            text.push(c);
            at += length;
        }
        text
    }

    /// The character at byte `at`, with references decoded, and its bytes.
    pub(super) fn char_at(&self, at: usize, end: usize) -> (char, usize) {
        let byte = self.bytes[at];
        match byte {
            b'&' => references::decode(&self.bytes[at..end]).unwrap_or(('&', 1)),
            0..=0x7F => (char::from(byte), 1),
            _ if self.is_utf8 => self.multibyte(at, end),
            _ => (windows_1252(byte), 1),
        }
    }

    fn multibyte(&self, at: usize, end: usize) -> (char, usize) {
        let chunk = &self.bytes[at..end.min(at + 4)];
        let valid = match std::str::from_utf8(chunk) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&chunk[..error.valid_up_to()]).unwrap_or_default(),
        };
        let c = valid.chars().next();
        c.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8()))
    }
}

/// The character of a byte of windows-1252. Bytes without one are control characters.
pub(super) fn windows_1252(byte: u8) -> char {
    let (text, _) = WINDOWS_1252.decode_without_bom_handling(std::slice::from_ref(&byte));
    text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The encoding named in `<meta charset>`, `<meta http-equiv>` or the XML declaration.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(DECLARATION_BYTES)].to_ascii_lowercase();
    let label_after = |key: &[u8]| {
        let at = memchr::memmem::find(&head, key)? + key.len();
        let value = head[at..].trim_ascii_start().strip_prefix(b"=")?;
        let value = value.trim_ascii_start();
        let value = value
            .strip_prefix(b"\"")
            .or(value.strip_prefix(b"'"))
            .unwrap_or(value);
        Encoding::for_label(
            value
                .split(|byte: &u8| {
                    byte.is_ascii_whitespace()
                        || matches!(byte, b'"' | b'\'' | b';' | b'>' | b'/' | b'?')
                })
                .next()?,
        )
    };
    label_after(b"charset").or_else(|| label_after(b"encoding"))
}

pub(super) fn defect(code: &str, detail: String) -> Defect {
    Defect {
        code: code.into(),
        page: None,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> (String, Vec<String>) {
        let mut defects = Vec::new();
        let input = Input::new(bytes, &mut defects);
        let mut text = String::new();
        let mut at = 0;
        while at < input.bytes.len() {
            let (c, length) = input.char_at(at, input.bytes.len());
            text.push(c);
            at += length;
        }
        (
            text,
            defects.into_iter().map(|defect| defect.code).collect(),
        )
    }

    #[test]
    fn encodings_are_found_by_content_then_by_declaration() {
        assert_eq!(text("année".as_bytes()).0, "année");
        assert_eq!(text(b"ann\xE9e \x93x\x94").0, "année “x”");
        assert_eq!(
            text(b"<meta charset=iso-8859-1>\x97").0,
            "<meta charset=iso-8859-1>—"
        );
        assert_eq!(
            text(b"<meta charset='utf-8'>\x97").1,
            ["html.encoding".to_string()]
        );
        let (japanese, defects) = text(b"<meta charset=shift_jis>\x93\xFA\x96\x7B");
        assert!(japanese.ends_with("日本"), "{japanese}");
        assert_eq!(defects, ["html.no_offsets"]);
        let (wide, _) = text(b"\xFF\xFEa\0\xE9\0");
        assert_eq!(wide, "aé");
    }
}
