//! What an index looks like: its schema, and how one tree is entered.

use stemma_document::{CatalogEntry, DocId};
use tantivy::schema::{Field, Schema};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{TantivyDocument, Term};

use super::IndexError;
use stemma_catalog::document_store::OpenDocument;

/// What one document becomes in the index; at least one entry, or it would be entered again and again.
pub type MapFn = fn(&CatalogEntry, &OpenDocument) -> Vec<TantivyDocument>;

/// What an index looks like. Whatever changes in it, the tokenizers or `map` changes [`DocMapper::revision`]: programs of two
/// revisions never read each other's files, here or in the store.
#[derive(Clone)]
pub struct DocMapper {
    /// A number that no other shape has.
    pub revision: u32,
    /// The fields.
    pub schema: Schema,
    /// The document of an entry: [`DocId`] as written, one term, indexed.
    pub doc: Field,
    /// The version of the document: a fast number.
    pub seq: Field,
    /// The tokenizers that the schema names.
    pub tokenizers: TokenizerManager,
    /// What one document becomes.
    pub map: MapFn,
}

impl DocMapper {
    /// The term all entries of a document have.
    pub fn term(&self, doc: DocId) -> Term {
        Term::from_field_text(self.doc, &doc.to_string())
    }
    /// The field of version numbers, by name.
    pub(crate) fn seq_name(&self) -> &str {
        self.schema.get_field_name(self.seq)
    }

    /// Whether an index on disk has this schema.
    pub(crate) fn check_schema(&self, on_disk: &Schema) -> Result<(), IndexError> {
        if *on_disk == self.schema {
            Ok(())
        } else {
            Err(IndexError::Damaged(format!(
                "its schema is not that of revision {}",
                self.revision
            )))
        }
    }
}
