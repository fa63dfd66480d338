//! XML documents of submissions to [`Source`]: ownership reports, information tables of managers, notices of offerings, and any
//! other.
//!
//! `elements` reads the tree of elements, `markup` writes it as headings, fields and tables, and the HTML reader does the rest, so
//! that sections, tables and search see what they see in other filings. Elements that recur are the rows of a table, and what
//! they hold is its columns. Labels of known schemas are data (`shared/reading/data/en/xml_documents.txt`).
//!
//! Entities that a file declares are not expanded, nothing is fetched, and depth, elements and cells are bounded.

mod elements;
mod markup;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use stemma_document::{
    Defect, Destination, FilingFacts, OutlineItem, PageNo, Source, SourceBody, SourceFormat,
};
use stemma_reading::vocabulary::{XML_FACTS, XML_KINDS};

use self::elements::{Element, ElementTree};
use crate::{ExtractError, Limits, decode};

/// Larger files are refused: the largest information tables have some 40 MB.
const MAX_BYTES: usize = 96 << 20;
// The declaration is the first thing in a file.
const DECLARATION_BYTES: usize = 256;

/// Extracts an XML document. `read_html` reads what is made of it.
///
/// # Errors
///
/// `limits.bytes`; `xml.not_a_document` for files that are for machines, such as XBRL instances; `xml.no_text`.
pub(crate) fn read(
    bytes: &[u8],
    limits: &Limits,
    read_html: fn(&str, &Limits) -> Result<Source, ExtractError>,
) -> Result<Source, ExtractError> {
    decode::check_size(bytes.len(), limits)?;
    if bytes.len() > MAX_BYTES {
        return Err(ExtractError::new(
            "limits.bytes",
            format!(
                "the XML file has {} bytes, more than the limit of {MAX_BYTES}",
                bytes.len()
            ),
            "split the file",
        ));
    }
    let tree = ElementTree::read(&decoded(bytes));
    let Some(root) = tree.root() else {
        return Err(no_text());
    };
    if let Some(kind) = XML_KINDS.get(&root.name.to_lowercase()) {
        return Err(ExtractError::new(
            "xml.not_a_document",
            format!("the file is {kind}, not a document to read"),
            "leave it out, or ingest the document that it belongs to",
        ));
    }
    if !tree.has_text() {
        return Err(no_text());
    }
    let facts = stated_facts(&tree);
    let made = markup::write(&tree, facts.get("edgar.type").map(String::as_str));
    let mut source = read_html(&made.text, limits).map_err(|error| match error.code {
        "html.no_text" => no_text(),
        _ => error,
    })?;
    source.format = SourceFormat::Xml;
    source.outline = outline_of(&source, made.headings, limits.max_outline_items as usize);
    source.metadata.extend(facts);
    let gaps = [tree.damage.clone(), tree.cut.clone(), made.cut];
    source.defects.extend(gaps.into_iter().flatten());
    Ok(source)
}

/// The headings that were made, where the pages have them: groups of elements are known, whatever they look like.
fn outline_of(source: &Source, headings: Vec<(u16, String)>, most: usize) -> Vec<OutlineItem> {
    let SourceBody::Pages(pages) = &source.body else {
        return Vec::new();
    };
    let mut lines = pages
        .iter()
        .enumerate()
        .flat_map(|(at, page)| page.lines.iter().map(move |line| (at, line)));
    let mut outline = Vec::new();
    for (level, title) in headings.into_iter().take(most) {
        // A heading may wrap.
        let Some((page, _)) =
            lines.find(|(_, line)| !line.text.is_empty() && title.starts_with(line.text.as_str()))
        else {
            break;
        };
        let page = PageNo::from_index(page);
        outline.push(OutlineItem {
            title,
            level,
            target: Some(Destination { page, y: None }),
        });
    }
    outline
}

fn no_text() -> ExtractError {
    ExtractError::new(
        "xml.no_text",
        "the XML file has no text",
        "check how the file was made or copied",
    )
}

fn defect(code: &str, detail: String) -> Defect {
    Defect {
        code: code.into(),
        page: None,
        detail,
    }
}

/// The text by its byte order mark, else by the declared encoding, else as UTF-8.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]);
    let declared = head
        .split_once("encoding=")
        .filter(|(before, _)| !before.contains("?>"))
        .and_then(|(_, behind)| behind.split(['"', '\'']).nth(1))
        .and_then(|label| Encoding::for_label(label.as_bytes()));
    let (text, ..) = declared.unwrap_or(UTF_8).decode(bytes);
    text
}

/// What elements of known schemas state about the filing, by the names that metadata has.
fn stated_facts(tree: &ElementTree) -> std::collections::BTreeMap<String, String> {
    let mut facts = std::collections::BTreeMap::new();
    for (path, fact) in XML_FACTS.iter() {
        let value = tree.at_path(path).map(Element::plain_text);
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let value = match *fact {
                "cik" => FilingFacts::parse_cik(&value).unwrap_or(value),
                "period" => iso_date(value),
                _ => value,
            };
            facts.entry((*fact).to_owned()).or_insert(value);
        }
    }
    facts
}

/// `12-31-2023` as an ISO date; other values stay as they are.
fn iso_date(value: String) -> String {
    let parts: Vec<&str> = value.split('-').collect();
    match parts.as_slice() {
        [month, day, year] if month.len() == 2 && day.len() == 2 && year.len() == 4 => {
            format!("{year}-{month}-{day}")
        }
        _ => value,
    }
}
