//! Structure elements of a page's marked content (ISO 32000-2, 14.7.5.4).

use std::cell::OnceCell;

use hayro_syntax::object::{Array, Dict, MaybeRef, ObjRef, Object, String as PdfString};
use hayro_syntax::page::Page;
use hayro_syntax::xref::XRef;

use super::actual_text::decode_replacement;

// Bounds for hostile files.
const MAX_DEPTH: usize = 16;
const MAX_ENTRIES: usize = 100_000;

pub(super) struct StructureElements<'a> {
    xref: &'a XRef,
    // The key of the page in the parent tree.
    key: Option<i64>,
    // By the identifier of marked content.
    elements: OnceCell<Vec<Option<ObjRef>>>,
}

impl<'a> StructureElements<'a> {
    pub(super) fn for_page(page: &Page<'a>) -> Self {
        Self {
            xref: page.xref(),
            key: page.raw().get::<u32>("StructParents").map(i64::from),
            elements: OnceCell::new(),
        }
    }

    /// Returns the `/ActualText` of the element of marked content `mcid`.
    pub(super) fn actual_text(&self, mcid: u32) -> Option<String> {
        let elements = self
            .elements
            .get_or_init(|| self.read().unwrap_or_default());
        let element = (*elements.get(mcid as usize)?)?;
        let element: Dict<'a> = self.xref.get(element.into())?;
        let text = element.get::<PdfString<'_>>("ActualText")?;
        Some(decode_replacement(text.as_bytes()))
    }

    fn read(&self) -> Option<Vec<Option<ObjRef>>> {
        let root: Dict<'a> = self.xref.get(self.xref.root_id())?;
        let mut node = root
            .get::<Dict<'a>>("StructTreeRoot")?
            .get::<Dict<'a>>("ParentTree")?;
        let key = self.key?;
        for _ in 0..MAX_DEPTH {
            if let Some(entries) = node.get::<Array<'a>>("Nums") {
                return self.find_elements(&entries, key);
            }
            node = node
                .get::<Array<'a>>("Kids")?
                .iter::<Dict<'a>>()
                .take(MAX_ENTRIES)
                .find(|kid| {
                    let limits = kid.get::<[f64; 2]>("Limits");
                    limits.is_some_and(|[low, high]| (low..=high).contains(&(key as f64)))
                })?;
        }
        None
    }

    // Only the entry of the page is resolved: the others are the elements of all other pages.
    fn find_elements(&self, entries: &Array<'a>, key: i64) -> Option<Vec<Option<ObjRef>>> {
        let mut entries = entries.raw_iter();
        while let (Some(entry), Some(value)) = (entries.next(), entries.next()) {
            if !matches!(entry, MaybeRef::NotRef(Object::Number(number)) if number.as_i64() == key)
            {
                continue;
            }
            let elements: Array<'a> = match value {
                MaybeRef::Ref(id) => self.xref.get(id.into())?,
                MaybeRef::NotRef(object) => object.into_array()?,
            };
            let elements = elements.raw_iter().take(MAX_ENTRIES);
            return Some(elements.map(|element| element.as_obj_ref()).collect());
        }
        None
    }
}
