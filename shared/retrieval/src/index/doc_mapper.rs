//! Maps documents to index entries: schema, mapping function and revision.

use stemma_document::{CatalogEntry, DocId};
use tantivy::schema::{Field, Schema};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{TantivyDocument, Term};

use super::IndexError;
use super::entry::map_document;
use super::schema::{Fields, REVISION, WORDS};
use super::word_splitter::WordSplitter;
use crate::lexicon::Lexicon;
use stemma_catalog::document_store::OpenDocument;
use stemma_catalog::property::Property;

/// Passes the index entries of a document on, one by one, since those of a long document need much memory. There must be at
/// least one, or the document would be indexed again at each sync.
pub type MapFn = fn(&CatalogEntry, &OpenDocument, &mut dyn FnMut(TantivyDocument));

/// How documents are indexed. Any change of the schema, the tokenizers or `map` must change the revision, because programs
/// of different revisions never read each other's index files, neither on disk nor in the blob store.
#[derive(Clone)]
pub struct DocMapper {
    /// Unique to this schema and mapping.
    pub revision: u32,
    pub schema: Schema,
    /// The document of an entry: the [`DocId`] as one indexed term.
    pub doc: Field,
    /// The version of the document: a fast field.
    pub seq: Field,
    /// The tokenizers named in the schema.
    pub tokenizers: TokenizerManager,
    pub map: MapFn,
}

impl DocMapper {
    /// The mapper of the current schema.
    pub fn current() -> Self {
        let (schema, fields) = Fields::schema();
        let tokenizers = TokenizerManager::default();
        tokenizers.register(WORDS, WordSplitter::default());
        Self {
            revision: Lexicon::revision() ^ Property::revision() ^ REVISION,
            schema,
            doc: fields.doc,
            seq: fields.seq,
            tokenizers,
            map: map_document,
        }
    }

    /// The term shared by all entries of a document.
    pub fn term(&self, doc: DocId) -> Term {
        Term::from_field_text(self.doc, &doc.to_string())
    }

    pub(crate) fn seq_name(&self) -> &str {
        self.schema.get_field_name(self.seq)
    }

    pub(crate) fn check_schema(&self, on_disk: &Schema) -> Result<(), IndexError> {
        if *on_disk == self.schema {
            Ok(())
        } else {
            Err(IndexError::Damaged(format!(
                "its schema differs from revision {}",
                self.revision
            )))
        }
    }
}
