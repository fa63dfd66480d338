//! Display names: the shortest name unique to a document, escaped so that it parses back as a locator.
//!
//! A stem or name is used only if no other document has it as stem or name, so that every label resolves to one document.

use std::fmt::Write;

/// Above this number, equal names get longer labels.
pub(crate) const MANY_EQUAL_NAMES: usize = 20;

/// How many digits of the id to try in the label of a document that shares its name with this many.
// A prefix of four digits often collides among 100,000 equal names, one of twelve practically never.
pub(crate) fn id_digits(equal_names: usize) -> [usize; 3] {
    let first = if equal_names > MANY_EQUAL_NAMES {
        12
    } else {
        4
    };
    [first, 8, 16]
}

pub(crate) fn label_with_id(stem: &str, ending: &str, id: &str, digits: usize) -> String {
    format!("{stem}~{}{ending}", &id[..digits])
}

/// `report~3f2a.pdf` is `report.pdf` of the document whose id starts with `3f2a`.
pub(crate) fn split_id_suffix(leaf: &str) -> Option<(String, &str)> {
    let (stem, ending) = split_name(leaf);
    let (name, id) = stem.rsplit_once('~')?;
    let is_id = matches!(id.len(), 4..=32) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| (format!("{name}{ending}"), id))
}

/// Splits off the file extension: `("report", ".pdf")`. Dotfiles and names without an extension are all stem.
pub(crate) fn split_name(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= 16 => name.split_at(at),
        _ => (name, ""),
    }
}

/// Lower case, without the file extension.
pub(crate) fn fold_name(name: &str) -> String {
    split_name(name).0.to_lowercase()
}

/// Percent-encodes `%`, `#`, `/`, control and bidirectional characters.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '#' | '/') || is_unprintable(c) {
            let mut bytes = [0u8; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

// Control characters, and bidirectional marks that could make a terminal show a different file name.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// Reverses [`escape`]. Invalid escapes stay as they are.
pub(crate) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten();
        let byte = digits
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_round_trips() {
        for text in [
            "a#1.pdf",
            "100%",
            "%23",
            "年报\u{202e}fdp.exe",
            "a/b",
            "tab\there",
        ] {
            let escaped = escape(text);
            assert_eq!(unescape(&escaped), text);
            assert!(
                !escaped.contains(['#', '/']) && !escaped.chars().any(is_unprintable),
                "{escaped}"
            );
        }
        assert_eq!(unescape("50%"), "50%");
        assert_eq!(unescape("%zz%f"), "%zz%f");
    }
}
