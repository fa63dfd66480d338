//! Structure elements of a page's marked content (ISO 32000-2, 14.7.5.4).

use std::cell::OnceCell;

use hayro_syntax::object::{Array, Dict, MaybeRef, Name, ObjRef, Object, String as PdfString};
use hayro_syntax::page::Page;
use hayro_syntax::xref::XRef;

use super::actual_text::decode_replacement;

// Bounds for hostile files.
const MAX_DEPTH: usize = 16;
const MAX_ENTRIES: usize = 100_000;
// Roles that are mapped to roles; more are a circle.
const MAX_ROLES: usize = 8;
// Elements inside of a heading, by their standard role.
const INLINE: [&[u8]; 6] = [b"Span", b"Link", b"Em", b"Strong", b"Sub", b"Quote"];

pub(super) struct StructureElements<'a> {
    xref: &'a XRef,
    // The key of the page in the parent tree.
    key: Option<i64>,
    // By the identifier of marked content.
    elements: OnceCell<Vec<Option<ObjRef>>>,
    roles: OnceCell<Dict<'a>>,
}

impl<'a> StructureElements<'a> {
    pub(super) fn for_page(page: &Page<'a>) -> Self {
        Self {
            xref: page.xref(),
            key: page.raw().get::<u32>("StructParents").map(i64::from),
            elements: OnceCell::new(),
            roles: OnceCell::new(),
        }
    }

    /// Whether the marked content of the page may have elements.
    pub(super) fn are_declared(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the `/ActualText` of the element of marked content `mcid`.
    pub(super) fn actual_text(&self, mcid: u32) -> Option<String> {
        let element: Dict<'a> = self.xref.get(self.element(mcid)?.into())?;
        let text = element.get::<PdfString<'_>>("ActualText")?;
        Some(decode_replacement(text.as_bytes()))
    }

    /// Returns the heading that marked content `mcid` belongs to, and its level: the digit of `H1`, or the number of sections
    /// around an `H`.
    pub(super) fn heading(&self, mcid: u32) -> Option<(ObjRef, u16)> {
        let mut id = self.element(mcid)?;
        for _ in 0..MAX_DEPTH {
            let element: Dict<'a> = self.xref.get(id.into())?;
            let role = self.role(&element)?;
            match role.as_ref() {
                b"H" => return Some((id, self.count_sections(element))),
                [b'H', level @ b'1'..=b'9'] => return Some((id, u16::from(level - b'0'))),
                inline if INLINE.contains(&inline) => id = element.get_ref("P")?,
                _ => return None,
            }
        }
        None
    }

    fn element(&self, mcid: u32) -> Option<ObjRef> {
        let elements = self
            .elements
            .get_or_init(|| self.read().unwrap_or_default());
        *elements.get(mcid as usize)?
    }

    // The standard role of an element.
    fn role(&self, element: &Dict<'a>) -> Option<Name<'a>> {
        let roles = self.roles.get_or_init(|| {
            let root = self.tree_root().unwrap_or_default();
            root.get::<Dict<'a>>("RoleMap").unwrap_or_default()
        });
        let mut role = element.get::<Name<'a>>("S")?;
        for _ in 0..MAX_ROLES {
            let Some(other) = roles.get::<Name<'a>>(&*role) else {
                break;
            };
            role = other;
        }
        Some(role)
    }

    fn count_sections(&self, mut element: Dict<'a>) -> u16 {
        let mut sections = 0;
        for _ in 0..MAX_DEPTH {
            let Some(parent) = element.get::<Dict<'a>>("P") else {
                break;
            };
            let role = self.role(&parent);
            sections += u16::from(role.is_some_and(|role| role.as_ref() == b"Sect"));
            element = parent;
        }
        sections.max(1)
    }

    fn tree_root(&self) -> Option<Dict<'a>> {
        let root: Dict<'a> = self.xref.get(self.xref.root_id())?;
        root.get::<Dict<'a>>("StructTreeRoot")
    }

    fn read(&self) -> Option<Vec<Option<ObjRef>>> {
        let mut node = self.tree_root()?.get::<Dict<'a>>("ParentTree")?;
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
