//! What to print for a document: the shortest name no other document answers to, escaped so that it can be pasted back.

use std::collections::HashMap;
use std::fmt::Write;

use crate::catalog::CatalogDocument;

/// Gives every document its label: `stem`, `name.ext`, or with the first digits of its id: `stem~3f2a.ext`.
///
/// A label is taken only when no other document has that stem or name, so that a label resolves to one document.
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
        // Two equal names whose ids start alike: the whole id.
        let alone = uses.get(label.as_str()) == Some(&1);
        document.label = if alone {
            label.clone()
        } else {
            document.doc().to_string()
        };
    }
}

fn unique_label(document: &CatalogDocument, answers: &HashMap<&str, u32>) -> String {
    let name = document.version().name.as_str();
    let (stem, ending) = split_name(name);
    let alone = |label: &&str| !label.is_empty() && answers.get(*label) == Some(&1);
    if let Some(label) = [stem, name].into_iter().find(alone) {
        return escape(label);
    }
    let id = document.doc().to_string();
    // Ids of 100,000 equal names share four digits often and eight hardly ever.
    let others = answers.get(name).copied().unwrap_or(1);
    let digits = if others > 20 { 12 } else { 4 };
    let unique = [digits, 8, 16]
        .into_iter()
        .map(|digits: usize| format!("{stem}~{}{ending}", &id[..digits]))
        .find(|label| !answers.contains_key(label.as_str()));
    escape(&unique.unwrap_or(id))
}

/// `("report", ".pdf")`; a name without an ending, or of nothing else, is all stem.
pub(crate) fn split_name(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= 16 => name.split_at(at),
        _ => (name, ""),
    }
}

/// The text with `%`, `#`, `/`, control and direction characters as `%XX`.
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

/// Characters that change how a terminal shows what stands around them.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// Undoes [`escape`]; what is no escape stays.
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
