//! What the index stores of a passage.

use std::ops::Range;

use stemma_document::{DocId, SectionId};
use stemma_reading::lines::LineKind;
use tantivy::schema::{Field as IndexField, Value};
use tantivy::{DocAddress, TantivyDocument};

use super::entry::{StoredEntry, StoredSection};
use super::schema::Fields;
use super::searcher::IndexSearcher;
use crate::search::SearchHit;

/// The stored fields of an entry.
pub(super) struct StoredPassage {
    pub(super) doc: DocId,
    seq: u64,
    pub(super) page: Option<u32>,
    pub(super) entry: StoredEntry,
    pub(super) text: String,
}

impl StoredPassage {
    pub(super) fn load(
        searcher: &IndexSearcher,
        fields: &Fields,
        address: DocAddress,
    ) -> tantivy::Result<Option<Self>> {
        let stored: TantivyDocument = searcher.doc(address)?;
        let doc = stored_text(&stored, fields.doc).and_then(|doc| doc.parse().ok());
        let entry =
            stored_text(&stored, fields.shown).and_then(|json| serde_json::from_str(json).ok());
        let (Some(doc), Some(entry)) = (doc, entry) else {
            return Ok(None);
        };
        let page = stored_number(&stored, fields.page).and_then(|page| u32::try_from(page).ok());
        let text = stored_text(&stored, fields.text)
            .unwrap_or_default()
            .to_owned();
        Ok(Some(Self {
            doc,
            seq: stored_number(&stored, fields.seq).unwrap_or(0),
            page,
            entry,
            text,
        }))
    }

    /// Its lines, each with what it is.
    pub(super) fn lines_with_kinds(&self) -> Vec<(&str, LineKind)> {
        let kinds = self.entry.kinds.chars().map(LineKind::from_code);
        self.text.lines().zip(kinds).collect()
    }

    /// The range of the lines of one of its sections.
    pub(super) fn section_lines(&self, at: usize) -> Range<usize> {
        let sections = &self.entry.sections;
        let start = sections.get(at).map_or(0, |section| section.line as usize);
        let later = sections.iter().map(|section| section.line as usize);
        let end = later.filter(|line| *line > start).min();
        start..end.unwrap_or(usize::MAX)
    }

    /// One of its sections as a hit, without the match.
    pub(super) fn section_hit(&self, section: &StoredSection) -> SearchHit {
        SearchHit {
            pages: section.pages,
            lines: section.lines,
            ..SearchHit::new(
                self.doc,
                self.entry.name.as_str(),
                self.seq,
                SectionId(section.id),
                section.path.clone(),
            )
        }
    }
}

fn stored_text(document: &TantivyDocument, field: IndexField) -> Option<&str> {
    document.get_first(field).and_then(|value| value.as_str())
}

fn stored_number(document: &TantivyDocument, field: IndexField) -> Option<u64> {
    document.get_first(field).and_then(|value| value.as_u64())
}
