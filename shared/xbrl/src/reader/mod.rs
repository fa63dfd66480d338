//! Reads the facts of an inline XBRL file.
//!
//! Only tags of XBRL are interpreted; those of HTML separate words. End tags of HTML may be missing, because facts do not
//! depend on them. A file that is not XML in a worse way gives the facts up to there and a defect. Entities are never expanded
//! and depth is not recursion, so that work and memory grow with the size of the file only.

mod assembly;
mod defects;
mod elements;
mod entities;
mod header;
mod names;
mod text;

use std::borrow::Cow;

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use self::defects::DefectLog;
use self::elements::{Element, Elements};
pub(crate) use self::entities::{push_entity, unescape};
use self::header::Header;
use self::names::{Names, Vocabulary};
use crate::FactTable;

// Open tags. A file without end tags reaches it; the parser keeps their names.
const MAX_OPEN_TAGS: usize = 1_000_000;

/// Reads all facts of a file. A file without inline XBRL gives an empty table.
pub fn read_facts(bytes: &[u8]) -> FactTable {
    let (text, invalid) = as_text(bytes);
    if !names::declares_inline_xbrl(&text) || u32::try_from(bytes.len()).is_err() {
        return FactTable::default();
    }
    let mut parser = Parser::default();
    if invalid > 0 {
        let detail = format!(
            "{invalid} bytes of the file are not UTF-8, and were read as question marks or spaces"
        );
        parser.defects.record("xbrl.encoding", &detail);
    }
    parser.read(&text);
    assembly::assemble(parser.header, parser.elements, parser.defects)
}

// The text with the same offsets as the bytes, and the number of bytes that are not UTF-8. Of those a no-break space of
// latin-1 becomes a space: it is between figures.
pub(crate) fn as_text(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return (Cow::Borrowed(text), 0);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut invalid = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        invalid += chunk.invalid().len();
        text.extend(
            chunk
                .invalid()
                .iter()
                .map(|byte| if *byte == 0xA0 { ' ' } else { '?' }),
        );
    }
    (Cow::Owned(text), invalid)
}

#[derive(Default)]
struct Parser {
    names: Names,
    header: Header,
    elements: Elements,
    defects: DefectLog,
}

impl Parser {
    fn read(&mut self, text: &str) {
        // The parser drops a byte order mark without counting it.
        let body = text.trim_start_matches('\u{FEFF}');
        let skipped = text.len() - body.len();
        let mut reader = Reader::from_str(body);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let offset = |position: u64| {
            u32::try_from(position)
                .unwrap_or(u32::MAX)
                .saturating_add(skipped as u32)
        };
        let mut open_tags = 0_usize;
        loop {
            let start = offset(reader.buffer_position());
            let event = match reader.read_event() {
                Ok(event) => event,
                Err(error) => {
                    let detail = format!(
                        "the file is not XML from byte {start} on: {error}; facts behind it are missing"
                    );
                    self.defects.record("xbrl.not_well_formed", &detail);
                    return;
                }
            };
            match event {
                Event::Start(tag) => {
                    open_tags += 1;
                    if open_tags > MAX_OPEN_TAGS {
                        let detail = format!(
                            "more than {MAX_OPEN_TAGS} tags are open at byte {start}; facts behind it are missing"
                        );
                        self.defects.record("xbrl.limit", &detail);
                        return;
                    }
                    self.start(&tag, start);
                }
                Event::End(tag) => {
                    open_tags = open_tags.saturating_sub(1);
                    self.end(tag.name().as_ref(), offset(reader.buffer_position()));
                }
                Event::Text(text) => self.text(&text),
                Event::CData(text) => self.text(&text),
                Event::GeneralRef(entity) => {
                    let mut character = String::new();
                    push_entity(&mut character, &entity);
                    self.text(&character);
                }
                Event::Eof => break,
                // Empty tags are expanded into a start and an end.
                Event::Empty(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_) => {}
            }
        }
        self.elements.close_all(&mut self.defects);
    }

    fn start(&mut self, tag: &BytesStart<'_>, byte: u32) {
        if tag.attributes_raw().contains("xmlns:") {
            self.names.declare(tag, &mut self.defects);
        }
        let name = tag.name();
        match self.names.vocabulary(name.as_ref()) {
            (Vocabulary::InlineXbrl, local) => {
                if let Some(element) = Element::from_name(local) {
                    self.elements
                        .open(element, tag, byte, &self.names, &mut self.defects);
                }
            }
            (Vocabulary::Instance, local) => self.header.start(local, tag, &self.names),
            (Vocabulary::Other, local) => self.elements.separate(local),
        }
    }

    fn end(&mut self, name: &str, end: u32) {
        match self.names.vocabulary(name) {
            (Vocabulary::InlineXbrl, local) => {
                if let Some(element) = Element::from_name(local) {
                    self.elements.close(element, end, &mut self.defects);
                }
            }
            (Vocabulary::Instance, local) => self.header.end(local, &self.names, &mut self.defects),
            (Vocabulary::Other, local) => self.elements.separate(local),
        }
    }

    fn text(&mut self, text: &str) {
        self.header.text(text);
        self.elements.text(text);
    }
}

#[cfg(test)]
mod tests;
