//! Display names: the shortest name unique to a document, escaped so that it parses back as a locator.

use std::collections::HashMap;
use std::fmt::Write;

use crate::document::CatalogDocument;

/// Above this number, equal names get longer labels.
pub(crate) const MANY_EQUAL_NAMES: usize = 20;

/// Labels every document with its `stem` or `name.ext`, or with the first digits of its id: `stem~3f2a.ext`.
///
/// A stem or name is used only if no other document has it as stem or name, so that every label resolves to one document.
pub(crate) fn assign_labels(documents: &mut [CatalogDocument]) {
    let labels: Vec<String> = {
        let mut answers: HashMap<&str, u32> = HashMap::with_capacity(2 * documents.len());
        for document in documents.iter() {
            let name = document.version().name.as_str();
            let (stem, ending) = split_name(name);
            *answers.entry(name).or_default() += 1;
            if !ending.is_empty() {
                *answers.entry(stem).or_default() += 1;
            }
        }
        documents
            .iter()
            .map(|document| unique_label(document, &answers))
            .collect()
    };
    let mut uses: HashMap<&str, u32> = HashMap::with_capacity(labels.len());
    for label in &labels {
        *uses.entry(label).or_default() += 1;
    }
    for (document, label) in documents.iter_mut().zip(&labels) {
        // Two documents with equal names and equal id prefixes get their full ids.
        let is_unique = uses.get(label.as_str()) == Some(&1);
        document.label = if is_unique {
            label.clone()
        } else {
            document.doc().to_string()
        };
    }
}

fn unique_label(document: &CatalogDocument, answers: &HashMap<&str, u32>) -> String {
    let name = document.version().name.as_str();
    let (stem, ending) = split_name(name);
    let is_unique = |label: &&str| !label.is_empty() && answers.get(*label) == Some(&1);
    if let Some(label) = [stem, name].into_iter().find(is_unique) {
        return escape(label);
    }
    let id = document.doc().to_string();
    let others = answers.get(name).copied().unwrap_or(1) as usize;
    let unique = id_digits(others)
        .into_iter()
        .map(|digits| label_with_id(stem, ending, &id, digits))
        .find(|label| !answers.contains_key(label.as_str()));
    escape(&unique.unwrap_or(id))
}

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
