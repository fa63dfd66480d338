//! The elements of an XML file as a tree. Names are without prefixes, and texts are trimmed.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use stemma_document::Defect;

use super::defect;

// An information table with 30,000 holdings has half a million.
const MAX_ELEMENTS: usize = 1_000_000;
// Known schemas have some twelve levels.
const MAX_DEPTH: usize = 64;
const MAX_ATTRIBUTES: usize = 16;
const MAX_NAME_BYTES: usize = 120;

#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    text: String,
    /// Names and values, without those of name spaces.
    attributes: Vec<(String, String)>,
    /// Indexes of the tree.
    pub(super) children: Vec<usize>,
}

impl Element {
    /// Its own text, else the values of its attributes.
    pub(super) fn plain_text(&self) -> String {
        if !self.text.is_empty() {
            return self.text.clone();
        }
        let values: Vec<&str> = self
            .attributes
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        values.join(" ")
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name)?;
        Some(&found.1)
    }
}

/// Elements in file order; the first is the root.
#[derive(Debug, Default)]
pub(super) struct ElementTree {
    all: Vec<Element>,
    /// Where the file stops being XML.
    pub(super) damage: Option<Defect>,
    /// What is left out because there is too much of it.
    pub(super) cut: Option<Defect>,
}

impl ElementTree {
    pub(super) fn read(text: &str) -> Self {
        let mut tree = Self::default();
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        // `None` for elements that are left out.
        let mut open: Vec<Option<usize>> = Vec::new();
        loop {
            match reader.read_event() {
                Ok(Event::Start(tag)) => {
                    let added = tree.add(&tag, &open);
                    open.push(added);
                }
                Ok(Event::End(_)) => {
                    open.pop();
                }
                Ok(Event::Text(text)) => tree.add_text(&text, &open),
                Ok(Event::CData(text)) => tree.add_text(&text, &open),
                Ok(Event::GeneralRef(entity)) => tree.add_text(&character(&entity), &open),
                Ok(Event::Eof) => break,
                Err(error) => {
                    let detail = format!("the file is not XML from some place on: {error}");
                    tree.damage = Some(defect("xml.damaged", detail));
                    break;
                }
                Ok(_) => {}
            }
        }
        if !open.is_empty() && tree.damage.is_none() {
            let detail = "the file ends before its elements do".into();
            tree.damage = Some(defect("xml.damaged", detail));
        }
        for element in &mut tree.all {
            let words: Vec<&str> = element.text.split_whitespace().collect();
            element.text = words.join(" ");
        }
        tree
    }

    pub(super) fn root(&self) -> Option<&Element> {
        self.all.first()
    }

    pub(super) fn has_text(&self) -> bool {
        self.all
            .iter()
            .any(|element| !element.plain_text().is_empty())
    }

    pub(super) fn children<'t>(
        &'t self,
        element: &'t Element,
    ) -> impl Iterator<Item = &'t Element> {
        element.children.iter().map(|at| &self.all[*at])
    }

    /// The first element on a path of names, which begins with the name of the root.
    pub(super) fn at_path(&self, path: &str) -> Option<&Element> {
        let mut names = path.split('/');
        let root = self
            .root()
            .filter(|root| Some(root.name.as_str()) == names.next())?;
        names.try_fold(root, |element, name| {
            self.children(element).find(|child| child.name == name)
        })
    }

    fn add(&mut self, tag: &BytesStart<'_>, open: &[Option<usize>]) -> Option<usize> {
        let parent = open.last().copied();
        // What follows the root is no part of the document.
        let is_outside = parent.is_none() && !self.all.is_empty();
        if is_outside || parent == Some(None) {
            return None;
        }
        if open.len() >= MAX_DEPTH || self.all.len() >= MAX_ELEMENTS {
            self.cut.get_or_insert_with(|| {
                let detail = format!(
                    "elements of more than {MAX_DEPTH} levels, or behind the first {MAX_ELEMENTS}, were not read"
                );
                defect("xml.cut", detail)
            });
            return None;
        }
        let attributes = tag
            .attributes()
            .with_checks(false)
            .flatten()
            .map(|attribute| (local_name(attribute.key.as_ref()).to_owned(), attribute))
            .filter(|(name, attribute)| is_content(name, attribute.key.as_ref()))
            .take(MAX_ATTRIBUTES)
            .map(|(name, attribute)| (name, unescape(&attribute.value)))
            .collect();
        let at = self.all.len();
        self.all.push(Element {
            name: local_name(tag.name().as_ref()).to_owned(),
            attributes,
            ..Element::default()
        });
        if let Some(Some(parent)) = parent {
            self.all[parent].children.push(at);
        }
        Some(at)
    }

    fn add_text(&mut self, text: &str, open: &[Option<usize>]) {
        if let Some(Some(at)) = open.last() {
            self.all[*at].text.push_str(text);
        }
    }
}

// Name spaces, places of schemas and `xsi:nil` are not content.
fn is_content(name: &str, key: &str) -> bool {
    !key.starts_with("xmlns") && !key.starts_with("xsi:") && name != "schemaLocation"
}

// Paths are made of names, which are short in all schemas.
fn local_name(name: &str) -> &str {
    let local = name.rsplit_once(':').map_or(name, |(_, local)| local);
    &local[..local.floor_char_boundary(MAX_NAME_BYTES)]
}

// Entities that the file declares stay as written.
fn character(entity: &str) -> String {
    let number = match entity.strip_prefix('#') {
        Some(hex) if hex.starts_with(['x', 'X']) => u32::from_str_radix(&hex[1..], 16).ok(),
        Some(decimal) => decimal.parse().ok(),
        None => None,
    };
    let known = resolve_predefined_entity(entity);
    match number.and_then(char::from_u32) {
        Some(c) => c.to_string(),
        None => known.map_or_else(|| format!("&{entity};"), str::to_owned),
    }
}

fn unescape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once('&') {
        text.push_str(before);
        match behind.split_once(';') {
            // No name is longer.
            Some((entity, after)) if entity.len() <= 32 => {
                text.push_str(&character(entity));
                rest = after;
            }
            _ => {
                text.push('&');
                rest = behind;
            }
        }
    }
    text.push_str(rest);
    text
}
