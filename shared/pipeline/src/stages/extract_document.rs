//! What the extraction process does with a document: it reads, counts tokens, and encodes.

use stemma_document::{PageNo, PageOrigin, Source, SourceBody};
use stemma_extract::{ExtractError, ExtractJob};
use stemma_llm::tokens::TokenCounter;
use stemma_reading::document_reading::{DocumentReading, ReadingCodecError};

use super::cover_tags::cover_tags;
use super::extracted;
use super::fact_places::place_facts;
use super::tagged_facts::tagged_facts;
use super::text_block_tags::text_block_tags;

/// Reads the document, counts its tokens once, and encodes it, with what its lines and tables are and the facts that a filing
/// tags.
///
/// # Errors
/// [`ExtractError`] if the document cannot be read at all.
pub fn extract_document(job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
    // The document takes its bytes, so facts are read first.
    let mut facts = tagged_facts(&job);
    let mut source = stemma_extract::extract(job)?;
    count_tokens(&mut source);
    if let Some(table) = &mut facts {
        place_facts(table, &source);
        source.metadata.extend(cover_tags(table));
        source.metadata.extend(text_block_tags(table));
        source.defects.extend(table.defects.iter().cloned());
    }
    let reading = read_document(&source).map_err(|error| too_large(error.to_string()))?;
    let encoded =
        stemma_extract::encode_source(&source).map_err(|error| too_large(error.to_string()))?;
    let facts = match facts {
        Some(table) => {
            stemma_xbrl::encode_facts(&table).map_err(|error| too_large(error.to_string()))?
        }
        None => Vec::new(),
    };
    extracted::join(&pictures(&source), &encoded, &reading, &facts)
        .ok_or_else(|| too_large("a part of the document is larger than 4 GiB".into()))
}

/// The encoded reading of a complete source.
pub(super) fn read_document(source: &Source) -> Result<Vec<u8>, ReadingCodecError> {
    DocumentReading::new(&source.body).encode()
}

fn too_large(error: String) -> ExtractError {
    ExtractError::new("limits.output", error, "split the document")
}

fn pictures(source: &Source) -> Vec<PageNo> {
    let SourceBody::Pages(pages) = &source.body else {
        return Vec::new();
    };
    let numbered = pages.iter().enumerate();
    numbered
        .filter(|(_, page)| page.origin == PageOrigin::Picture)
        .map(|(index, _)| PageNo::from_index(index))
        .collect()
}

pub(super) fn count_tokens(source: &mut Source) {
    let mut counter = TokenCounter::default();
    // The line break counts as one token.
    let mut tokens_of_line = |line: &str| counter.count(line).saturating_add(1);
    match &mut source.body {
        SourceBody::Pages(pages) => {
            for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
                line.tokens = tokens_of_line(&line.text);
            }
        }
        SourceBody::Lines(text) => {
            text.tokens = text.lines.iter().map(|line| tokens_of_line(line)).collect();
        }
    }
}
