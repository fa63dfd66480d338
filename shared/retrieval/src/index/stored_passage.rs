//! What the index stores of a passage.

use stemma_document::{DocId, SectionId};
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

    /// The lines of one of its sections.
    pub(super) fn section_text(&self, at: usize) -> &str {
        let sections = &self.entry.sections;
        let line_start = |line: u32| match line.checked_sub(1) {
            None => 0,
            Some(before) => {
                let mut ends = self.text.match_indices('\n').map(|(end, _)| end + 1);
                ends.nth(before as usize).unwrap_or(self.text.len())
            }
        };
        let start = sections
            .get(at)
            .map_or(0, |section| line_start(section.line));
        let next = sections.iter().map(|section| section.line);
        let next = next.filter(|line| sections.get(at).is_some_and(|own| *line > own.line));
        let end = next.min().map_or(self.text.len(), line_start);
        &self.text[start..end.max(start)]
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
