//! Labels of stored documents.
//!
//! A label depends on the documents of similar names only, which are found by name. So it is made when a document is read,
//! and a publication changes no other document.

use stemma_document::DocId;
use stemma_store::PortResult;

use crate::display_names::{self, MANY_EQUAL_NAMES, escape, split_name};
use crate::document::CatalogDocument;
use crate::store::StoreReader;
use crate::store::terms::NameKind;

impl StoreReader {
    /// The label of a document: its stem or name, or with the first digits of its id, as short as tells it from all others.
    pub(crate) fn label(&self, document: &CatalogDocument) -> PortResult<String> {
        let own = document.version().name.as_str();
        let (stem, ending) = split_name(own);
        for label in [stem, own] {
            if !label.is_empty() && self.count_named(label, 2)? == 1 {
                return Ok(escape(label));
            }
        }
        let doc = document.doc();
        let id = doc.to_string();
        let others = self.count_named(own, MANY_EQUAL_NAMES + 1)?;
        for digits in display_names::id_digits(others) {
            let label = display_names::label_with_id(stem, ending, &id, digits);
            if self.count_named(&label, 1)? > 0 {
                continue;
            }
            // Two documents with equal names and equal id prefixes get their full ids.
            if self.shares_digits(own, doc, digits)? {
                break;
            }
            return Ok(escape(&label));
        }
        Ok(id)
    }

    // How many documents have `text` as their name or stem, counted up to `most`.
    fn count_named(&self, text: &str, most: usize) -> PortResult<usize> {
        let names = self.named(NameKind::Name, text, most)?.len();
        if names >= most {
            return Ok(names);
        }
        Ok(names + self.named(NameKind::Stem, text, most - names)?.len())
    }

    // Whether another document of this name has the same first digits in its id: then one with an id next to it has them.
    fn shares_digits(&self, name: &str, doc: DocId, digits: usize) -> PortResult<bool> {
        let id = doc.to_string();
        for above in [false, true] {
            if let Some(other) = self.neighbor(name, doc, above)?
                && other.to_string()[..digits] == id[..digits]
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
