//! Text strings of document structures: outline titles, labels, document information.

const MAX_CHARACTERS: usize = 500;
const MAX_TEXT_BYTES: usize = 20_000;

/// Decodes a text string (ISO 32000-2, 7.9.2.2: UTF-16 or UTF-8 with a byte order mark, else PDFDocEncoding). Removes
/// control and bidi characters, collapses white space, and keeps at most 500 characters.
pub(super) fn decode_text_string(bytes: &[u8]) -> String {
    // More than enough bytes for the characters that are kept.
    let bytes = bytes.get(..16 * MAX_CHARACTERS).unwrap_or(bytes);
    clean(&decode(bytes))
        .chars()
        .take(MAX_CHARACTERS)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Decodes a text string of several lines, each as [`decode_text_string`] does, from its first 20,000 bytes.
pub(super) fn decode_text_lines(bytes: &[u8]) -> Vec<String> {
    let text = decode(bytes.get(..MAX_TEXT_BYTES).unwrap_or(bytes));
    text.split(['\r', '\n']).map(clean).collect()
}

fn decode(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        plain => plain
            .iter()
            .filter_map(|byte| pdf_doc_character(*byte))
            .collect(),
    }
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> String {
    let units = bytes.as_chunks::<2>().0.iter().map(|pair| read(*pair));
    char::decode_utf16(units).filter_map(Result::ok).collect()
}

fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_language_tag = false;
    for c in text.chars() {
        match c {
            // Escapes enclose a language tag (7.9.2.2.1).
            '\u{1b}' => in_language_tag = !in_language_tag,
            _ if in_language_tag => {}
            c if c.is_whitespace() && (out.is_empty() || out.ends_with(' ')) => {}
            c if c.is_whitespace() => out.push(' '),
            c if is_shown(c) => out.push(c),
            _ => {}
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn is_shown(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}');
    !(c.is_control() || invisible || c == '\u{feff}' || c == '\u{fffd}')
}

/// Decodes PDFDocEncoding (ISO 32000-2, annex D.3); `None` for undefined codes.
pub(super) fn pdf_doc_character(byte: u8) -> Option<char> {
    const LOW: [char; 8] = ['˘', 'ˇ', 'ˆ', '˙', '˝', '˛', '˚', '˜'];
    const HIGH: [char; 31] = [
        '•', '†', '‡', '…', '—', '–', 'ƒ', '⁄', '‹', '›', '−', '‰', '„', '“', '”', '‘', '’', '‚',
        '™', 'ﬁ', 'ﬂ', 'Ł', 'Œ', 'Š', 'Ÿ', 'Ž', 'ı', 'ł', 'œ', 'š', 'ž',
    ];
    match byte {
        0x18..=0x1f => LOW.get(usize::from(byte - 0x18)).copied(),
        0x80..=0x9e => HIGH.get(usize::from(byte - 0x80)).copied(),
        0x7f | 0x9f | 0xad => None,
        0xa0 => Some('€'),
        other => Some(char::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_is_decoded() {
        assert_eq!(decode_text_string(b"Caf\xe9 \x85 \xa0"), "Café – €");
        assert_eq!(decode_text_string(b"\xfe\xff\x4e\x2d\x65\x87"), "中文");
        assert_eq!(decode_text_string(b"\xff\xfeA\0"), "A");
        assert_eq!(decode_text_string(b"\xef\xbb\xbf\xc3\xbc"), "ü");
        // A lone surrogate and an odd byte are dropped, not replaced.
        assert_eq!(decode_text_string(b"\xfe\xff\xd8\x00\x00A\x00"), "A");
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(decode_text_string(b" a\0b\r\n\tc "), "ab c");
        assert_eq!(
            decode_text_string(
                "\u{feff}x"
                    .encode_utf16()
                    .flat_map(u16::to_be_bytes)
                    .collect::<Vec<_>>()
                    .as_slice()
            ),
            "x"
        );
        assert_eq!(clean("a\u{202e}b\u{200b}c"), "abc");
        assert_eq!(decode_text_string(&[b'x'; 5000]).len(), MAX_CHARACTERS);
    }
}
