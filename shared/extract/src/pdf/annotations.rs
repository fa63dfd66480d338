//! Annotations of a page that its readers see or can open (ISO 32000-2, 12.5).

use hayro_syntax::object::{Array, Dict};
use hayro_syntax::page::Page;

use super::optional_content::OptionalContent;

// Per page, of any kind.
const MAX_ANNOTATIONS: usize = 20_000;
// Annotation flags (table 167): hidden, and not on the screen.
const UNSEEN: u32 = 1 << 1 | 1 << 5;

pub(super) fn seen_annotations<'a>(page: &Page<'a>, layers: &OptionalContent) -> Vec<Dict<'a>> {
    let annotations = page.raw().get::<Array<'a>>("Annots").unwrap_or_default();
    annotations
        .iter::<Dict<'a>>()
        .take(MAX_ANNOTATIONS)
        .filter(|annotation| {
            annotation.get::<u32>("F").unwrap_or(0) & UNSEEN == 0
                && !layers.is_off(annotation, b"OC")
        })
        .collect()
}
